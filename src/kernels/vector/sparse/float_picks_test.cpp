// SPDX-License-Identifier: Apache-2.0
// Floats that are 2:4, picked by lanes, against the plain loops on the same zeros: windows,
// strides, groups, dilations, channels that fill no block, epilogues, products of few and many
// rows; and to the last bit against dense tactics, whose sums are added in the same order.
#include "kernels/testing/layer_case.h"
#include "kernels/vector/layer_test_util.h"

namespace camshaft::kernels::test {
namespace {

constexpr double kFloatEps = 1.2e-7;

struct Spec {
  int64_t batch = 1, ic = 16, ih = 5, iw = 6, oc = 20, kh = 1, kw = 1;
  int64_t stride = 1, dilation = 1, pad = 0, groups = 1;
  uint32_t seed = 1;
  const char* epilogue = "";
  int residuals = 0;
};

uint32_t mixed(uint32_t h) {
  h = (h ^ 61u ^ (h >> 16)) * 9u;
  return (h ^ (h >> 4)) * 0x27d4eb2du ^ (h >> 15);
}

// Of weight `row` of four: one of six pairs is kept, and of some only one weight or none.
double pruned(int64_t row, int64_t quad, uint32_t seed) {
  static constexpr uint32_t kPairs[6] = {3, 5, 9, 6, 10, 12};
  const uint32_t random = mixed(seed * 7919u + static_cast<uint32_t>(quad));
  uint32_t kept = kPairs[random % 6];
  if (random / 6 % 7 == 0) kept &= random / 42 % 16;
  if ((kept >> row & 1) == 0) return 0;
  return static_cast<double>(mixed(random + static_cast<uint32_t>(row)) % 4001) / 1000 - 2;
}

int64_t out_extent(const Spec& s, int64_t in, int64_t kernel) {
  return (in + 2 * s.pad - (kernel - 1) * s.dilation - 1) / s.stride + 1;
}

TestLayer layer_of(const Spec& s) {
  ir::ConvolutionAttrs attrs;
  attrs.kernel = {s.kh, s.kw};
  attrs.stride = {s.stride, s.stride};
  attrs.dilation = {s.dilation, s.dilation};
  attrs.pre_padding = attrs.post_padding = {s.pad, s.pad};
  attrs.groups = s.groups;
  if (*s.epilogue) attrs.epilogue = ir::parse_program(1 + s.residuals, s.epilogue).value();
  const int64_t channels = s.ic / s.groups, taps = s.kh * s.kw;
  TestLayer test;
  test.only = "conv_sparse_picks";
  test.tolerance = kFloatEps * 8 * static_cast<double>(1 + channels * taps);
  test.layer = make_layer(ir::LayerKind::kConvolution, attrs);
  const Extents y = {s.batch, s.oc, out_extent(s, s.ih, s.kh), out_extent(s, s.iw, s.kw)};
  test.inputs.push_back({.extents = {s.batch, s.ic, s.ih, s.iw}});
  const auto weight = [=](int64_t at) {
    const int64_t c = at / taps % channels, n = at / taps / channels;
    return pruned(c % 4, (n * channels + c / 4) * taps + at % taps, s.seed);
  };
  test.inputs.push_back({.extents = {s.oc, channels, s.kh, s.kw},
                         .is_data = false,
                         .is_constant = true,
                         .value = weight});
  test.inputs.push_back({.extents = {s.oc}, .is_data = false, .is_constant = true});
  for (int k = 0; k < s.residuals; ++k) test.inputs.push_back({.extents = y});
  test.outputs.push_back({.extents = y});
  return test;
}

void check(const Spec& s) {
  check_layer(layer_of(s), words({s.batch, s.ic, s.ih, s.iw, s.oc, s.kh, s.kw, s.stride, s.dilation,
                                  s.pad, s.groups, s.seed}) +
                               s.epilogue);
}

Spec square(int64_t ic, int64_t size, int64_t oc, int64_t kernel, int64_t stride = 1) {
  Spec s;
  s.ic = ic, s.ih = s.iw = size, s.oc = oc, s.kh = s.kw = kernel, s.stride = stride;
  s.pad = kernel / 2;
  return s;
}

// Every number of channels that a last block may have, every height of a tile.
TEST(FloatPicksConv, PixelsAndChannels) {
  uint32_t seed = 1;
  for (int64_t ic = 4; ic <= 72; ic += 4) {
    Spec s = square(ic, 1 + ic / 4 % 7, 20 + ic, 1);
    s.seed = ++seed, s.batch = ic % 3 + 1;
    check(s);
  }
  for (int64_t pixels = 1; pixels <= 30; ++pixels) {
    Spec s;
    s.ic = 36, s.ih = 1, s.iw = pixels, s.oc = 3 * pixels, s.seed = ++seed;
    check(s);
  }
  for (const int64_t ic : {260, 1024})
    for (const int64_t oc : {1, 17, 130, 270}) {
      Spec s = square(ic, 5, oc, 1);
      s.seed = ++seed;
      check(s);
    }
}

TEST(FloatPicksConv, WindowsStridesGroupsAndDilations) {
  uint32_t seed = 100;
  for (const int64_t kernel : {2, 3, 5})
    for (const int64_t stride : {1, 2, 3})
      for (const int64_t ic : {8, 12, 24}) {
        Spec s = square(ic, 9, 20, kernel, stride);
        s.seed = ++seed, s.batch = 2;
        check(s);
      }
  for (const int64_t groups : {2, 4}) {
    Spec s = square(32, 7, 24, 3);
    s.groups = groups, s.seed = ++seed;
    check(s);
    s.dilation = 2, s.pad = 2;
    check(s);
  }
  Spec wide = square(16, 20, 20, 3);  // taps outside are skipped
  wide.dilation = wide.pad = 9;
  check(wide);
  Spec beyond = square(16, 3, 20, 3);  // whole rows and columns of outputs see padding only
  beyond.pad = 5;
  check(beyond);
  Spec high = square(20, 3, 40, 3);  // tiles run down the image
  high.ih = 40, high.kh = 5, high.kw = 1;
  check(high);
}

TEST(FloatPicksConv, Epilogues) {
  for (const char* epilogue :
       {"v1 = relu v0", "v1 = clip v0 -1 6", "v1 = silu v0 1", "v1 = leaky_relu v0 0.1",
        "v1 = const 3; v2 = mul v0 v1; v3 = relu v2"})
    for (const int64_t kernel : {1, 3}) {
      Spec s = square(24, 6, 37, kernel);
      s.epilogue = epilogue;
      check(s);
    }
  for (const int64_t kernel : {1, 3}) {
    Spec s = square(24, 6, 90, kernel);
    s.epilogue = "v2 = add v0 v1; v3 = relu v2", s.residuals = 1, s.batch = 2;
    check(s);
  }
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

// The first tactic of the instruction set whose name begins so.
std::vector<float> output_of(std::string_view name, int64_t m, int64_t n, int64_t k) {
  LayerCase layer = matmul_case(1, m, n, k, true, false);
  layer.prune_weights();
  for (const Tactic* tactic : tactics_for(ir::LayerKind::kMatrixMultiply)) {
    if (tactic->isa != active_isa() || !std::string_view(tactic->name).starts_with(name)) continue;
    if (!tactic->refusal(layer.problem(*tactic, 1)).empty()) continue;
    layer.prepare(*tactic, &ThreadPool::serial());
    layer.run();
    std::vector<float> values(static_cast<size_t>(m * n));
    std::memcpy(values.data(), layer.output().data(), values.size() * sizeof(float));
    return values;
  }
  return {};
}

TEST(FloatPicksMatmul, SameSumsAsDense) {
  for (const int64_t m : {1, 2, 7, 30})
    for (const int64_t n : {9, 64, 200})
      for (const int64_t k : {20, 340}) {
        const std::vector<float> picked = output_of("matmul_sparse_picks", m, n, k);
        EXPECT_FALSE(picked.empty());
        EXPECT_EQ(picked, output_of("matmul_packed_f32", m, n, k)) << m << " x " << n << " x " << k;
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
