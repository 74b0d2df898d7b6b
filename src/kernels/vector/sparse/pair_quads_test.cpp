// SPDX-License-Identifier: Apache-2.0
// bfloat16 weights that are 2:4, in quads, against the plain loops on the same zeros. Operands are
// bfloat16s already, so products are exact in float and only the sums round: the bound is that of
// dense tactics. With vdpbf16ps and on widened pairs.
#include "kernels/vector/sparse/sparse_test_util.h"

namespace camshaft::kernels::test {
namespace {

constexpr DataType kTypes[] = {DataType::kFloat, DataType::kBFloat16};

// In [-2, 2] with 8 significant bits.
double short_value(int64_t k) {
  return static_cast<double>(static_cast<int>(mixed(static_cast<uint32_t>(k)) % 257) - 128) / 64;
}

enum class Mask { kPairs, kFewer, kFirstTwo, kNone };

struct Spec {
  Extents a;
  int64_t n = 20;
  bool transposed = false, bias = false;
  float alpha = 1;
  Mask mask = Mask::kPairs;
  uint32_t seed = 1;
  const char* epilogue = "";
};

bool is_kept(const Spec& s, int64_t row, int64_t col) {
  static constexpr int kPairs[6] = {3, 5, 9, 6, 10, 12};
  const uint32_t random = mixed(s.seed * 7919u + static_cast<uint32_t>(row / 4 * 4099 + col));
  switch (s.mask) {
    case Mask::kPairs:
      return (kPairs[random % 6] >> row % 4 & 1) != 0;
    case Mask::kFewer:
      return random % 5 == static_cast<uint32_t>(row % 4);
    case Mask::kFirstTwo:
      return row % 4 < 2;
    case Mask::kNone:
      return false;
  }
  return false;
}

TestLayer layer_of(const Spec& s) {
  ir::MatrixMultiplyAttrs attrs;
  attrs.transpose_b = s.transposed;
  attrs.alpha = s.alpha;
  if (*s.epilogue) attrs.epilogue = ir::parse_program(1, s.epilogue).value();
  const int64_t k = s.a.back();
  TestLayer test;
  test.layer = make_layer(ir::LayerKind::kMatrixMultiply, attrs);
  test.inputs.push_back({.extents = s.a, .value = short_value});
  const auto weight = [=](int64_t at) {
    const int64_t row = s.transposed ? at % k : at / s.n, col = s.transposed ? at / k : at % s.n;
    return is_kept(s, row, col) ? short_value(at + 1000) : 0.0;
  };
  test.inputs.push_back({.extents = s.transposed ? Extents{s.n, k} : Extents{k, s.n},
                         .is_data = false,
                         .is_constant = true,
                         .value = weight});
  if (s.bias) test.inputs.push_back({.extents = {s.n}, .is_data = false, .is_constant = true});
  Extents y = s.a;
  y.back() = s.n;
  test.outputs.push_back({.extents = y});
  return test;
}

void check(const Spec& s) {
  constexpr double kFloatEps = 1.2e-7, kBf16HalfUlp = 1.0 / 256;
  TestLayer test = layer_of(s);
  test.only = "_sparse_bf16";
  for (const DataType x : kTypes)
    for (const DataType y : kTypes) {
      test.inputs[0].type = x;
      test.outputs[0].type = y;
      test.tolerance = kFloatEps * 8 * static_cast<double>(1 + s.a.back()) +
                       (y == DataType::kBFloat16 ? kBf16HalfUlp : 0);
      check_layer(test, words({s.a[0], s.a.back(), s.n, s.transposed, s.seed}) + s.epilogue);
    }
}

TEST(PairQuads, RowsColumnsAndDepths) {
  uint32_t seed = 0;
  for (const int64_t m : {1, 2, 3, 5, 9})
    for (const int64_t n : {1, 17, 64, 130, 300})
      for (const int64_t k : {4, 28, 32, 36, 260}) {
        Spec s{.a = {m, k}, .n = n, .seed = ++seed};
        s.transposed = seed % 2 == 0;
        s.bias = seed % 3 == 0;
        s.alpha = seed % 5 == 0 ? 0.5F : 1;
        check(s);
      }
}

TEST(PairQuads, MasksBatchesAndEpilogues) {
  for (const Mask mask : {Mask::kPairs, Mask::kFewer, Mask::kFirstTwo, Mask::kNone})
    check({.a = {2, 64}, .n = 40, .bias = true, .mask = mask});
  check({.a = {2, 3, 40}, .n = 24});
  check({.a = {2, 1, 2, 3, 2, 24}, .n = 20});
  for (const char* epilogue : {"v1 = relu v0", "v1 = gelu v0", "v1 = clip v0 -0.5 1"})
    check({.a = {3, 64}, .n = 50, .bias = true, .epilogue = epilogue});
}

TEST(PairQuads, ThreadsAndManyColumns) {
  check({.a = {1, 512}, .n = 1500});
  check({.a = {4, 768}, .n = 520, .transposed = true});
}

TEST(PairQuads, WithoutPairProducts) {
  if (active_isa() != Isa::kAvx512) GTEST_SKIP() << "of AVX-512 only";
  hold_back({Feature::kBf16});
  for (const int64_t m : {1, 3, 6})
    for (const int64_t n : {5, 64, 130}) check({.a = {m, 100}, .n = n, .bias = true});
  hold_back({});
}

// Products of two bfloat16s are exact, so leaving those by zero out changes nothing where they are
// added one by one. vdpbf16ps adds pairs.
TEST(PairQuads, SameSumsAsDenseWithoutPairProducts) {
  hold_back({Feature::kBf16});
  for (const int64_t m : {1, 2, 7})
    for (const int64_t n : {9, 64, 200}) {
      const std::vector<float> sparse = pruned_output("matmul_sparse_bf16", m, n, 340);
      EXPECT_FALSE(sparse.empty());
      EXPECT_EQ(sparse, pruned_output("matmul_packed_bf16", m, n, 340)) << m << " x " << n;
    }
  hold_back({});
}

TEST(PairQuads, RefusesWhatIsNot24) {
  Spec s{.a = {1, 32}};
  TestLayer test = layer_of(s);
  test.only = "_sparse_bf16";
  test.inputs[1].value = [](int64_t) { return 1.0; };
  LayerCheck dense(test);
  EXPECT_EQ(dense.run(), 0);
  EXPECT_EQ(dense.last_refusal(), "weights are not 2:4");
  s.a = {1, 30};
  test = layer_of(s);
  test.only = "_sparse_bf16";
  LayerCheck odd(test);
  EXPECT_EQ(odd.run(), 0);
  EXPECT_EQ(odd.last_refusal(), "the right factor's rows are no multiple of four");
}

}  // namespace
}  // namespace camshaft::kernels::test
