// SPDX-License-Identifier: Apache-2.0
// Floats that are 2:4, picked by lanes, against the plain loops on the same zeros: windows,
// strides, groups, dilations, channels that fill no block, epilogues, products of few and many
// rows; and to the last bit against dense tactics, whose sums are added in the same order.
#include "kernels/vector/sparse/sparse_test_util.h"

namespace camshaft::kernels::test {
namespace {

constexpr double kFloatEps = 1.2e-7;

// Of weight `row` of four: one of six pairs is kept, and of some only one weight or none.
double pruned(int64_t row, int64_t quad, uint32_t seed) {
  static constexpr uint32_t kPairs[6] = {3, 5, 9, 6, 10, 12};
  const uint32_t random = mixed(seed * 7919u + static_cast<uint32_t>(quad));
  uint32_t kept = kPairs[random % 6];
  if (random / 6 % 7 == 0) kept &= random / 42 % 16;
  if ((kept >> row & 1) == 0) return 0;
  return static_cast<double>(mixed(random + static_cast<uint32_t>(row)) % 4001) / 1000 - 2;
}

TestLayer layer_of(const FloatConv& s) {
  const int64_t channels = s.ic / s.groups, taps = s.kh * s.kw;
  TestLayer test = layer_of(s, [=](int64_t at) {
    const int64_t c = at / taps % channels, n = at / taps / channels;
    return pruned(c % 4, (n * channels + c / 4) * taps + at % taps, s.seed);
  });
  test.only = "conv_sparse_picks";
  test.tolerance = kFloatEps * 8 * static_cast<double>(1 + s.depth());
  return test;
}

void check(const FloatConv& s) {
  check_layer(layer_of(s), words_of(s));
}

// Every number of channels that a last block may have, every height of a tile.
TEST(FloatPicksConv, PixelsAndChannels) {
  uint32_t seed = 1;
  for (int64_t ic = 4; ic <= 72; ic += 4) {
    FloatConv s = square(ic, 1 + ic / 4 % 7, 20 + ic, 1);
    s.seed = ++seed, s.batch = ic % 3 + 1;
    check(s);
  }
  for (int64_t pixels = 1; pixels <= 30; ++pixels) {
    FloatConv s;
    s.ic = 36, s.ih = 1, s.iw = pixels, s.oc = 3 * pixels, s.seed = ++seed;
    check(s);
  }
  for (const int64_t ic : {260, 1024})
    for (const int64_t oc : {1, 17, 130, 270}) {
      FloatConv s = square(ic, 5, oc, 1);
      s.seed = ++seed;
      check(s);
    }
}

TEST(FloatPicksConv, WindowsStridesGroupsAndDilations) {
  for_each_window({8, 12, 24}, check);
  FloatConv high = square(20, 3, 40, 3);  // tiles run down the image
  high.ih = 40, high.kh = 5, high.kw = 1;
  check(high);
}

TEST(FloatPicksConv, Epilogues) {
  for_each_epilogue(check);
}

TestLayer product_of(const Extents& a, int64_t n, bool transposed, float alpha) {
  ir::MatrixMultiplyAttrs attrs;
  attrs.transpose_b = transposed;
  attrs.alpha = alpha;
  const int64_t k = a.back();
  TestLayer test;
  test.only = "matmul_sparse_picks";
  test.tolerance = kFloatEps * 8 * static_cast<double>(1 + k);
  test.layer = make_layer(ir::LayerKind::kMatrixMultiply, attrs);
  Extents y = a;
  y[y.size() - 1] = n;
  test.inputs.push_back({.extents = a});
  const auto weight = [=](int64_t at) {
    const int64_t row = transposed ? at % k : at / n, col = transposed ? at / k : at % n;
    return pruned(row % 4, row / 4 * n + col, static_cast<uint32_t>(n + k));
  };
  test.inputs.push_back({.extents = transposed ? Extents{n, k} : Extents{k, n},
                         .is_data = false,
                         .is_constant = true,
                         .value = weight});
  test.inputs.push_back({.extents = {n}, .is_data = false, .is_constant = true});
  test.outputs.push_back({.extents = y});
  return test;
}

TEST(FloatPicksMatmul, RowsAndBatches) {
  int64_t seed = 0;
  for (const int64_t m : {1, 2, 4, 5, 13, 31, 129})
    for (const int64_t n : {5, 40, 150, 400})
      for (const int64_t k : {8, 28, 260, 1024}) {
        ++seed;
        check_layer(product_of({m, k}, n, seed % 2 == 0, seed % 5 == 0 ? 0.5F : 1),
                    words({m, n, k}));
      }
  check_layer(product_of({3, 7, 40}, 20, true, 1), "batch");
  check_layer(product_of({2, 3, 7, 40}, 20, false, 2), "two batches");
}

TEST(FloatPicksMatmul, SameSumsAsDense) {
  for (const int64_t m : {1, 2, 7, 30})
    for (const int64_t n : {9, 64, 200})
      for (const int64_t k : {20, 340}) {
        const std::vector<float> picked = pruned_output("matmul_sparse_picks", m, n, k);
        EXPECT_FALSE(picked.empty());
        EXPECT_EQ(picked, pruned_output("matmul_packed_f32", m, n, k))
            << m << " x " << n << " x " << k;
      }
}

void expect_refused(const TestLayer& test, const char* reason) {
  LayerCheck layer(test);
  EXPECT_EQ(layer.run(), 0);
  EXPECT_EQ(layer.last_refusal(), reason);
}

TEST(FloatPicks, RefuseWhatIsNot24) {
  TestLayer test = layer_of(square(16, 4, 20, 3));
  test.inputs[1].value = [](int64_t) { return 1.0; };
  expect_refused(test, "weights are not 2:4");
  test = product_of({9, 64}, 96, false, 1);
  test.inputs[1].value = [](int64_t) { return 1.0; };
  expect_refused(test, "weights are not 2:4");
  expect_refused(product_of({3, 30}, 20, false, 1),
                 "the right factor's rows are no multiple of four");
  expect_refused(layer_of(square(18, 4, 20, 1)),
                 "the number of input channels is no multiple of four");
}

}  // namespace
}  // namespace camshaft::kernels::test
