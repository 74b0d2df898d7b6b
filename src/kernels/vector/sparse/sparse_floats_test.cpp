// SPDX-License-Identifier: Apache-2.0
// Sparse tactics of floats against the plain loops on the same zeros: random masks of any share,
// windows, strides, groups and dilations, epilogues, rows of products; within the rounding of K
// additions in another order.
#include "kernels/vector/layer_test_util.h"

namespace camshaft::kernels::test {
namespace {

struct Spec {
  int64_t batch = 1, ic = 16, ih = 5, iw = 6, oc = 20, kh = 1, kw = 1;
  int64_t stride = 1, dilation = 1, pad = 0, groups = 1;
  int64_t kept = 40;  // per cent of the weights
  uint32_t seed = 1;
  const char* epilogue = "";
  int residuals = 0;
};

uint32_t mixed(uint32_t h) {
  h = (h ^ 61u ^ (h >> 16)) * 9u;
  return (h ^ (h >> 4)) * 0x27d4eb2du ^ (h >> 15);
}

std::function<double(int64_t)> masked(int64_t kept, uint32_t seed) {
  return [=](int64_t k) {
    const uint32_t random = mixed(seed * 7919u + static_cast<uint32_t>(k));
    if (random % 100 >= kept) return 0.0;
    return static_cast<double>(random / 100 % 4001) / 1000 - 2;
  };
}

// Both sizes where both take it.
void check_all(TestLayer test, int64_t k, const std::string& what) {
  int64_t left = 0;
  const int64_t weights = ir::element_count(test.inputs[1].extents);
  for (int64_t j = 0; j < weights; ++j) left += test.inputs[1].value(j) != 0 ? 1 : 0;
  test.tolerance = 1.2e-7 * 8 * static_cast<double>(1 + k);
  test.only = "_sparse_half";
  check_layer(test, what);
  test.only = "_sparse_quarter";
  LayerCheck quarter(test);
  EXPECT_EQ(quarter.run() > 0, left <= weights / 4) << what << quarter.last_refusal();
}

int64_t out_extent(const Spec& s, int64_t in, int64_t kernel) {
  return (in + 2 * s.pad - (kernel - 1) * s.dilation - 1) / s.stride + 1;
}

void check(const Spec& s) {
  ir::ConvolutionAttrs attrs;
  attrs.kernel = {s.kh, s.kw};
  attrs.stride = {s.stride, s.stride};
  attrs.dilation = {s.dilation, s.dilation};
  attrs.pre_padding = attrs.post_padding = {s.pad, s.pad};
  attrs.groups = s.groups;
  if (*s.epilogue) attrs.epilogue = ir::parse_program(1 + s.residuals, s.epilogue).value();
  const int64_t channels = s.ic / s.groups;
  TestLayer test;
  test.layer = make_layer(ir::LayerKind::kConvolution, attrs);
  const Extents y = {s.batch, s.oc, out_extent(s, s.ih, s.kh), out_extent(s, s.iw, s.kw)};
  test.inputs.push_back({.extents = {s.batch, s.ic, s.ih, s.iw}});
  test.inputs.push_back({.extents = {s.oc, channels, s.kh, s.kw},
                         .is_data = false,
                         .is_constant = true,
                         .value = masked(s.kept, s.seed)});
  test.inputs.push_back({.extents = {s.oc}, .is_data = false, .is_constant = true});
  for (int k = 0; k < s.residuals; ++k) test.inputs.push_back({.extents = y});
  test.outputs.push_back({.extents = y});
  check_all(test, channels * s.kh * s.kw,
            words({s.batch, s.ic, s.ih, s.iw, s.oc, s.kh, s.kw, s.stride, s.dilation, s.pad,
                   s.groups, s.kept, s.seed}));
}

Spec square(int64_t ic, int64_t size, int64_t oc, int64_t kernel, int64_t stride = 1) {
  Spec s;
  s.ic = ic, s.ih = s.iw = size, s.oc = oc, s.kh = s.kw = kernel, s.stride = stride;
  s.pad = kernel / 2;
  return s;
}

// One vector of pixels to several blocks of eight; K of one row to several blocks.
TEST(SparseFloatConv, PixelsAndChannels) {
  uint32_t seed = 1;
  for (int64_t size = 1; size <= 18; ++size) {
    Spec s = square(16 + size, size, 20, 1);
    s.seed = ++seed, s.batch = size % 3 + 1;
    check(s);
  }
  for (const int64_t ic : {1, 3, 130, 300})
    for (const int64_t oc : {1, 17, 270}) {
      Spec s = square(ic, 5, oc, 1);
      s.seed = ++seed, s.kept = ic < 4 ? 10 : 40;
      check(s);
    }
}

TEST(SparseFloatConv, SharesOfZeros) {
  for (const int64_t kept : {0, 1, 10, 20, 45}) {
    Spec s = square(40, 9, 33, 3);
    s.kept = kept, s.seed = static_cast<uint32_t>(kept) + 7;
    check(s);
  }
}

TEST(SparseFloatConv, WindowsStridesGroupsAndDilations) {
  uint32_t seed = 100;
  for (const int64_t kernel : {2, 3, 5})
    for (const int64_t stride : {1, 2, 3})
      for (const int64_t ic : {8, 9, 24}) {
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
  Spec wide = square(16, 20, 20, 3);
  wide.dilation = wide.pad = 9;
  check(wide);
  Spec beyond = square(16, 3, 20, 3);  // whole rows and columns of outputs see padding only
  beyond.pad = 5;
  check(beyond);
}

TEST(SparseFloatConv, Epilogues) {
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

void check_matmul(Extents a, int64_t n, bool transposed, int64_t kept, float alpha) {
  ir::MatrixMultiplyAttrs attrs;
  attrs.transpose_b = transposed;
  attrs.alpha = alpha;
  const int64_t k = a.back();
  TestLayer test;
  test.layer = make_layer(ir::LayerKind::kMatrixMultiply, attrs);
  Extents y = a;
  y[y.size() - 1] = n;
  test.inputs.push_back({.extents = a});
  test.inputs.push_back({.extents = transposed ? Extents{n, k} : Extents{k, n},
                         .is_data = false,
                         .is_constant = true,
                         .value = masked(kept, static_cast<uint32_t>(n + k))});
  test.inputs.push_back({.extents = {n}, .is_data = false, .is_constant = true});
  test.outputs.push_back({.extents = y});
  check_all(test, k, words({n, k, transposed, kept}));
}

TEST(SparseFloatMatmul, RowsAndBatches) {
  int64_t seed = 0;
  for (const int64_t m : {1, 2, 13, 31, 129})
    for (const int64_t n : {5, 40, 150})
      for (const int64_t k : {8, 27, 260}) {
        ++seed;
        check_matmul({m, k}, n, seed % 2 == 0, seed % 3 == 0 ? 12 : 40, seed % 5 == 0 ? 0.5F : 1);
      }
  check_matmul({3, 7, 40}, 20, true, 30, 1);
  check_matmul({2, 3, 7, 40}, 20, false, 30, 2);
}

TEST(SparseFloats, RefuseNoDepth) {
  TestLayer test;
  test.layer = make_layer(ir::LayerKind::kMatrixMultiply, ir::MatrixMultiplyAttrs());
  test.inputs.push_back({.extents = {9, 0}});
  test.inputs.push_back({.extents = {0, 5}, .is_data = false, .is_constant = true});
  test.outputs.push_back({.extents = {9, 5}});
  test.only = "_sparse_";
  LayerCheck check(test);
  EXPECT_EQ(check.run(), 0);
  EXPECT_FALSE(check.last_refusal().empty());
}

TEST(SparseFloats, RefuseWhatIsDense) {
  ir::MatrixMultiplyAttrs attrs;
  TestLayer test;
  test.layer = make_layer(ir::LayerKind::kMatrixMultiply, attrs);
  test.inputs.push_back({.extents = {9, 64}});
  test.inputs.push_back(
      {.extents = {64, 96}, .is_data = false, .is_constant = true, .value = masked(55, 3)});
  test.outputs.push_back({.extents = {9, 96}});
  test.only = "_sparse_half";
  LayerCheck half(test);
  EXPECT_EQ(half.run(), 0);
  EXPECT_NE(half.last_refusal().find("more than half"), std::string::npos) << half.last_refusal();
}

}  // namespace
}  // namespace camshaft::kernels::test
