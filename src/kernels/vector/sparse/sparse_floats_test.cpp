// SPDX-License-Identifier: Apache-2.0
// Sparse tactics of floats against the plain loops on the same zeros: random masks of any share,
// windows, strides, groups and dilations, epilogues, rows of products; within the rounding of K
// additions in another order.
#include "kernels/vector/sparse/sparse_test_util.h"

namespace camshaft::kernels::test {
namespace {

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

void check(const FloatConv& s) {
  check_all(layer_of(s, masked(s.kept, s.seed)), s.depth(), words_of(s));
}

// One vector of pixels to several blocks of eight; K of one row to several blocks.
TEST(SparseFloatConv, PixelsAndChannels) {
  uint32_t seed = 1;
  for (int64_t size = 1; size <= 18; ++size) {
    FloatConv s = square(16 + size, size, 20, 1);
    s.seed = ++seed, s.batch = size % 3 + 1;
    check(s);
  }
  for (const int64_t ic : {1, 3, 130, 300})
    for (const int64_t oc : {1, 17, 270}) {
      FloatConv s = square(ic, 5, oc, 1);
      s.seed = ++seed, s.kept = ic < 4 ? 10 : 40;
      check(s);
    }
}

TEST(SparseFloatConv, SharesOfZeros) {
  for (const int64_t kept : {0, 1, 10, 20, 45}) {
    FloatConv s = square(40, 9, 33, 3);
    s.kept = kept, s.seed = static_cast<uint32_t>(kept) + 7;
    check(s);
  }
}

TEST(SparseFloatConv, WindowsStridesGroupsAndDilations) {
  for_each_window({8, 9, 24}, check);
}

TEST(SparseFloatConv, Epilogues) {
  for_each_epilogue(check);
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
