// SPDX-License-Identifier: Apache-2.0
// Tiles of AMX: every height of a tile, whole and partial registers of K, one and two registers of
// columns, segments of windows. Sums of bytes are exact; those of bfloat16s round as any order of
// float sums does. Elsewhere the tests of bytes and of bfloat16s run these tactics among all
// others.
#include "base/cpu.h"
#include "kernels/vector/layer_test_util.h"

namespace camshaft::kernels::test {
namespace {

constexpr double kFloatEps = 1.2e-7;

double code(int64_t k) {
  return static_cast<double>(static_cast<uint64_t>(k) * 0x9E3779B97F4A7C15ull >> 56);
}
double signed_code(int64_t k) {
  return code(k + 1) - 128;
}
// In [-2, 2] with 8 significant bits.
double short_value(int64_t k) {
  return (code(k) - 128) / 64;
}

class Amx : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_feature(Isa::kAvx512, Feature::kAmx))
      GTEST_SKIP() << "no AMX, or not allowed to use it";
  }
};

int check_bytes(int64_t m, int64_t k, int64_t n) {
  TestLayer test;
  test.layer = make_layer(ir::LayerKind::kMatrixMultiply, ir::MatrixMultiplyAttrs{});
  test.inputs.push_back({.extents = {m, k}, .type = DataType::kUInt8, .value = code});
  test.inputs.push_back({.extents = {k, n},
                         .type = DataType::kInt8,
                         .is_data = false,
                         .is_constant = true,
                         .value = signed_code});
  test.outputs.push_back({.extents = {m, n}, .type = DataType::kInt32});
  test.only = "amx";
  SCOPED_TRACE("bytes " + words({m, k, n}));
  return LayerCheck(test).run();
}

int check_pairs(int64_t m, int64_t k, int64_t n) {
  TestLayer test;
  test.layer = make_layer(ir::LayerKind::kMatrixMultiply, ir::MatrixMultiplyAttrs{});
  test.inputs.push_back({.extents = {m, k}, .type = DataType::kBFloat16, .value = short_value});
  test.inputs.push_back(
      {.extents = {k, n}, .is_data = false, .is_constant = true, .value = short_value});
  test.outputs.push_back({.extents = {m, n}, .type = DataType::kFloat});
  test.only = "amx";
  test.tolerance = kFloatEps * 8 * (1 + static_cast<double>(k));
  SCOPED_TRACE("bfloat16s " + words({m, k, n}));
  return LayerCheck(test).run();
}

TEST_F(Amx, EveryHeight) {
  for (int64_t m = 1; m <= 33; ++m) {
    EXPECT_GT(check_bytes(m, 64, 32), 0);
    EXPECT_GT(check_pairs(m, 32, 32), 0);
  }
}

TEST_F(Amx, DepthsAndWidths) {
  for (const int64_t steps : {8, 15, 16, 17, 31, 32, 49})
    for (const int64_t n : {1, 15, 16, 17, 32, 33, 70}) {
      EXPECT_GT(check_bytes(37, 4 * steps, n), 0);
      EXPECT_GT(check_bytes(5, 4 * steps - 3, n), 0);
      EXPECT_GT(check_pairs(37, 2 * steps, n), 0);
      EXPECT_GT(check_pairs(5, 2 * steps - 1, n), 0);
    }
}

TEST_F(Amx, ManyTilesAndPanels) {
  EXPECT_GT(check_bytes(300, 500, 200), 0);
  EXPECT_GT(check_pairs(300, 500, 200), 0);
  EXPECT_GT(check_bytes(40, 3000, 600), 0);
}

TEST_F(Amx, ShortDepthsAreRefused) {
  EXPECT_EQ(check_bytes(8, 28, 32), 0);
  EXPECT_EQ(check_pairs(8, 14, 32), 0);
}

}  // namespace
}  // namespace camshaft::kernels::test
