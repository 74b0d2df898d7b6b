// SPDX-License-Identifier: Apache-2.0
// Floats times weights that are stored in 16 bits: against the plain loops, and to the last bit
// against weights stored as floats, whose sums are added in the same order.
#include "kernels/vector/layer_test_util.h"

namespace camshaft::kernels::test {
namespace {

constexpr double kFloatEps = 1.2e-7;

// Of eight bits: both types hold it.
double narrow_value(int64_t k) {
  const auto bits = static_cast<uint64_t>(k) * 0x9E3779B97F4A7C15ull >> 40;
  return static_cast<double>(static_cast<int>(bits % 255) - 127) / 64;
}
// Of eleven bits, and one that only bfloat16 has the range for.
double half_value(int64_t k) {
  return k == 0 ? 1 + 1.0 / 1024 : narrow_value(k);
}
double bf16_value(int64_t k) {
  return k == 0 ? 65536 : narrow_value(k);
}

struct ProductCase {
  Extents a, y;
  int64_t k = 0, n = 0;
  bool transposed = false;
  Extents matrices = {};  // of the right factor
  bool has_bias = false;
  const char* epilogue = "";
  std::vector<Extents> operands = {};
  double (*value)(int64_t) = narrow_value;
  float alpha = 1;
};

ProductCase plain(int64_t m, int64_t k, int64_t n) {
  return {.a = {m, k}, .y = {m, n}, .k = k, .n = n};
}

TestLayer layer_of(const ProductCase& p) {
  ir::MatrixMultiplyAttrs attrs;
  attrs.transpose_b = p.transposed;
  attrs.alpha = p.alpha;
  if (*p.epilogue)
    attrs.epilogue = ir::parse_program(1 + static_cast<int>(p.operands.size()), p.epilogue).value();
  TestLayer test;
  test.layer = make_layer(ir::LayerKind::kMatrixMultiply, attrs);
  Extents b = p.matrices;
  b.push_back(p.transposed ? p.n : p.k);
  b.push_back(p.transposed ? p.k : p.n);
  test.inputs.push_back({.extents = p.a});
  test.inputs.push_back({.extents = b, .is_data = false, .is_constant = true, .value = p.value});
  if (p.has_bias || !p.operands.empty())
    test.inputs.push_back(
        {.extents = {p.n}, .is_data = false, .is_constant = true, .present = p.has_bias});
  for (const Extents& operand : p.operands)
    test.inputs.push_back({.extents = operand, .is_data = operand.size() >= 3});
  test.outputs.push_back({.extents = p.y});
  test.only = "_weights_f32";
  test.tolerance = kFloatEps * 8 * static_cast<double>(1 + p.k);
  return test;
}

void check(const ProductCase& p) {
  check_layer(layer_of(p), words({p.a[0], p.k, p.n}) + p.epilogue);
}

TEST(NarrowMatmul, Tails) {
  for (const int64_t n : {20, 33, 64, 130})
    for (int64_t m = 1; m <= 16; ++m)
      for (const int64_t k : {1, 11, 64, 65}) check(plain(m, k, n));
  check(plain(0, 3, 40));
}

TEST(NarrowMatmul, TransposedBatchesAndMatrices) {
  ProductCase p = plain(19, 131, 45);
  p.transposed = true;
  check(p);
  check({.a = {2, 3, 9, 8}, .y = {2, 3, 9, 40}, .k = 8, .n = 40});
  check({.a = {3, 5, 7}, .y = {3, 5, 50}, .k = 7, .n = 50, .matrices = {3}});
}

TEST(NarrowMatmul, BiasesAndEpilogues) {
  ProductCase p = plain(6, 10, 37);
  p.has_bias = true;
  check(p);
  for (const char* epilogue : {"v1 = gelu v0", "v1 = clip v0 -0.5 1", "v1 = leaky_relu v0 0.25"}) {
    p.epilogue = epilogue;
    check(p);
  }
  p.operands = {{6, 37}};
  for (const char* epilogue : {"v2 = add v0 v1; v3 = relu v2", "v2 = mul v0 v1"}) {
    p.epilogue = epilogue;
    check(p);
  }
}

TEST(NarrowMatmul, ThreadsAndDepth) {
  check(plain(70, 600, 65));
  check(plain(2, 600, 700));
  check(plain(1, 3000, 40));
}

TEST(NarrowMatmul, SameSumsAsOfFloats) {
  for (const int64_t m : {1, 2, 7, 30})
    for (const int64_t n : {33, 200})
      for (const int64_t k : {20, 341}) {
        LayerCase layer = matmul_case(1, m, n, k, true, false);
        layer.narrow_weights();
        const auto output = [&](const char* name) {
          return output_of(layer, ir::LayerKind::kMatrixMultiply, name);
        };
        const std::vector<float> halves = output("matmul_half_weights");
        EXPECT_FALSE(halves.empty());
        EXPECT_EQ(halves, output("matmul_packed_f32")) << m << " x " << n << " x " << k;
        EXPECT_EQ(halves, output("matmul_bf16_weights")) << m << " x " << n << " x " << k;
      }
}

// Which tactics take the layer, of all that store 16 bits.
void expect_taken(ProductCase p, double (*value)(int64_t), const char* taken, const char* refused,
                  const char* reason) {
  p.value = value;
  TestLayer test = layer_of(p);
  test.only = taken;
  EXPECT_GT(LayerCheck(test).run(), 0) << taken;
  test.only = refused;
  LayerCheck layer(test);
  EXPECT_EQ(layer.run(), 0) << refused;
  EXPECT_EQ(layer.last_refusal(), reason);
}

TEST(NarrowMatmul, RefuseWhatHasMoreBits) {
  const char* const reason = "the right factor's values have more bits";
  expect_taken(plain(3, 20, 40), half_value, "half_weights", "bf16_weights", reason);
  expect_taken(plain(3, 20, 40), bf16_value, "bf16_weights", "half_weights", reason);
  ProductCase p = plain(3, 20, 40);
  expect_taken(
      p, [](int64_t k) { return 1.0 / static_cast<double>(3 + k); }, "packed_f32", "_weights_f32",
      reason);
  p.alpha = 0.5F;
  expect_taken(p, narrow_value, "packed_f32", "_weights_f32", "alpha is not 1");
}

}  // namespace
}  // namespace camshaft::kernels::test
