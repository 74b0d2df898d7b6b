// SPDX-License-Identifier: Apache-2.0
// Products in bfloat16. On operands that are bfloat16s already, products of two are exact in float,
// so only the sums round: the error is that of float sums, whatever the order. vdpbf16ps also
// flushes denormals, which adds at most K * 2^-126.
#include "kernels/vector/layer_test_util.h"

namespace camshaft::kernels::test {
namespace {

constexpr DataType kTypes[] = {DataType::kFloat, DataType::kBFloat16};
constexpr double kFloatEps = 1.2e-7, kBf16HalfUlp = 1.0 / 256;

// In [-2, 2] with 8 significant bits.
double short_value(int64_t k) {
  const auto bits = static_cast<uint64_t>(k) * 0x9E3779B97F4A7C15ull >> 40;
  return static_cast<double>(static_cast<int>(bits % 257) - 128) / 64;
}

struct ProductCase {
  Extents a, b, y;
  bool transpose_a = false, transpose_b = false;
  Extents bias = {};
  bool has_bias = false, bias_constant = true;
  const char* epilogue = "";
  std::vector<Extents> operands = {};
};

int check(const ProductCase& p) {
  int runs = 0;
  for (const DataType x : kTypes)
    for (const DataType y : kTypes) {
      ir::MatrixMultiplyAttrs attrs;
      attrs.transpose_a = p.transpose_a;
      attrs.transpose_b = p.transpose_b;
      if (*p.epilogue)
        attrs.epilogue =
            ir::parse_program(1 + static_cast<int>(p.operands.size()), p.epilogue).value();
      TestLayer test;
      test.layer = make_layer(ir::LayerKind::kMatrixMultiply, attrs);
      test.inputs.push_back({.extents = p.a, .type = x, .value = short_value});
      test.inputs.push_back(
          {.extents = p.b, .is_data = false, .is_constant = true, .value = short_value});
      if (p.has_bias || !p.operands.empty())
        test.inputs.push_back({.extents = p.bias,
                               .is_data = false,
                               .is_constant = p.bias_constant,
                               .present = p.has_bias});
      for (const Extents& operand : p.operands)
        test.inputs.push_back(
            {.extents = operand, .type = x, .is_data = operand.size() >= 3, .value = short_value});
      test.outputs.push_back({.extents = p.y, .type = y});
      test.only = "bf16";
      const auto k = static_cast<double>(p.transpose_a ? p.a[p.a.size() - 2] : p.a.back());
      test.tolerance = kFloatEps * 8 * (1 + k) + (y == DataType::kBFloat16 ? kBf16HalfUlp : 0);
      SCOPED_TRACE(words({p.a[0], p.a.back(), p.y.back()}) + p.epilogue + " " +
                   std::string(ir::type_name(x)) + " to " + std::string(ir::type_name(y)));
      runs += LayerCheck(test).run();
    }
  EXPECT_GT(runs, 0);
  return runs;
}

ProductCase plain(int64_t m, int64_t k, int64_t n) {
  return {.a = {m, k}, .b = {k, n}, .y = {m, n}};
}

TEST(MatmulBf16, Tails) {
  for (int64_t n : {1, 17, 64, 130})
    for (int64_t m : {1, 5, 29}) check(plain(m, 11, n));
  check(plain(13, 10, 31));
  check(plain(2, 1, 7));
}

TEST(MatmulBf16, TransposedAndBatched) {
  ProductCase p = plain(19, 21, 45);
  p.transpose_b = true;
  p.b = {45, 21};
  check(p);
  p.transpose_a = true;
  p.a = {21, 19};
  check(p);
  check({.a = {2, 3, 9, 8}, .b = {8, 20}, .y = {2, 3, 9, 20}});
  check({.a = {2, 1, 2, 3, 9, 7}, .b = {7, 20}, .y = {2, 1, 2, 3, 9, 20}});
}

TEST(MatmulBf16, BiasesAndEpilogues) {
  for (const bool constant : {true, false})
    for (const Extents& bias : {Extents{37}, Extents{1}, Extents{6, 1}, Extents{6, 37}}) {
      ProductCase p = plain(6, 10, 37);
      p.has_bias = true;
      p.bias = bias;
      p.bias_constant = constant;
      check(p);
      p.epilogue = "v2 = add v0 v1; v3 = relu v2";
      p.operands = {{6, 37}};
      check(p);
      p.epilogue = "v2 = mul v0 v1";
      check(p);
    }
  ProductCase p{.a = {2, 9, 12}, .b = {12, 40}, .y = {2, 9, 40}};
  p.epilogue = "v1 = gelu v0";
  check(p);
  p.epilogue = "v1 = clip v0 -0.5 1";
  check(p);
  p.epilogue = "v1 = leaky_relu v0 0.25";
  check(p);
  p.epilogue = "v3 = add v0 v2; v4 = mul v3 v1";
  p.operands = {{40}, {2, 9, 40}};
  check(p);
}

TEST(MatmulBf16, ThreadsAndDepth) {
  check(plain(70, 600, 65));
  check(plain(2, 600, 700));
  check(plain(1, 3000, 20));
  check(plain(0, 3, 5));
}

struct ConvolutionCase {
  Extents x, w;
  std::vector<int64_t> stride = {1, 1}, dilation = {1, 1}, pad = {0, 0};
  int64_t groups = 1;
  const char* epilogue = "";
  bool residual = false;
};

int check(const ConvolutionCase& c) {
  int runs = 0;
  for (const DataType x : kTypes)
    for (const DataType y : kTypes) {
      ir::ConvolutionAttrs attrs;
      attrs.kernel = {c.w[2], c.w[3]};
      attrs.stride.assign(c.stride.begin(), c.stride.end());
      attrs.dilation.assign(c.dilation.begin(), c.dilation.end());
      attrs.pre_padding.assign(c.pad.begin(), c.pad.end());
      attrs.post_padding = attrs.pre_padding;
      attrs.groups = c.groups;
      if (*c.epilogue) attrs.epilogue = ir::parse_program(c.residual ? 2 : 1, c.epilogue).value();
      Extents out = {c.x[0], c.w[0]};
      for (size_t d = 0; d < 2; ++d)
        out.push_back(
            (c.x[2 + d] + 2 * c.pad[d] - (c.w[2 + d] - 1) * c.dilation[d] - 1) / c.stride[d] + 1);
      TestLayer test;
      test.layer = make_layer(ir::LayerKind::kConvolution, attrs);
      test.inputs.push_back({.extents = c.x, .type = x, .value = short_value});
      test.inputs.push_back(
          {.extents = c.w, .is_data = false, .is_constant = true, .value = short_value});
      test.inputs.push_back({.extents = {c.w[0]}, .is_data = false, .is_constant = true});
      if (c.residual) test.inputs.push_back({.extents = out, .type = x, .value = short_value});
      test.outputs.push_back({.extents = out, .type = y});
      test.only = "bf16";
      const auto k = static_cast<double>(c.w[1] * c.w[2] * c.w[3]);
      test.tolerance = kFloatEps * 8 * (1 + k) + (y == DataType::kBFloat16 ? kBf16HalfUlp : 0);
      SCOPED_TRACE(words({c.x[1], c.x[2], c.x[3], c.w[0], c.w[2], c.w[3]}) + c.epilogue + " " +
                   std::string(ir::type_name(x)) + " to " + std::string(ir::type_name(y)));
      runs += LayerCheck(test).run();
    }
  EXPECT_GT(runs, 0);
  return runs;
}

TEST(ConvBf16, KernelsStridesAndPads) {
  for (int64_t kernel : {1, 3, 7})
    for (int64_t stride : {1, 2})
      for (int64_t ic : {1, 3, 34})
        check({.x = {1, ic, 9, 11},
               .w = {20, ic, kernel, kernel},
               .stride = {stride, stride},
               .pad = {kernel / 2, kernel / 2}});
}

// More weights than L2 holds long: panel after panel, the next one fetched ahead.
TEST(ConvBf16, ManyWeights) {
  check({.x = {1, 400, 7, 7}, .w = {330, 400, 1, 1}});
  check({.x = {1, 64, 7, 7}, .w = {150, 64, 3, 3}, .pad = {1, 1}});
}

TEST(ConvBf16, GroupsDilationsAndEpilogues) {
  check({.x = {2, 12, 7, 9}, .w = {18, 4, 3, 3}, .pad = {1, 1}, .groups = 3});
  check({.x = {2, 9, 7, 9}, .w = {18, 3, 3, 3}, .pad = {1, 1}, .groups = 3});
  check({.x = {1, 6, 19, 23}, .w = {17, 6, 3, 3}, .dilation = {7, 8}, .pad = {7, 8}});
  for (const char* epilogue : {"v1 = relu v0", "v1 = gelu v0", "v1 = leaky_relu v0 0.125"})
    check({.x = {1, 8, 5, 6}, .w = {300, 8, 1, 1}, .epilogue = epilogue});
  for (const char* epilogue : {"v2 = add v0 v1; v3 = relu v2", "v2 = mul v0 v1"})
    check({.x = {1, 8, 5, 6}, .w = {40, 8, 3, 3}, .epilogue = epilogue, .residual = true});
}

}  // namespace
}  // namespace camshaft::kernels::test
