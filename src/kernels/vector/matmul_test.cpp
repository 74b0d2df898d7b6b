// SPDX-License-Identifier: Apache-2.0
// Matrix products: every tactic against the reference kernel.
#include "kernels/vector/layer_test_util.h"

namespace camshaft::kernels::test {
namespace {

struct Product {
  Extents a, b, y;
  bool transpose_a = false, transpose_b = false;
  bool b_constant = true;
  float alpha = 1;
  Extents bias = {};
  bool has_bias = false, bias_constant = true;
  const char* epilogue = "";
  std::vector<Extents> operands = {};
};

void check(const Product& product) {
  ir::MatrixMultiplyAttrs attrs;
  attrs.transpose_a = product.transpose_a;
  attrs.transpose_b = product.transpose_b;
  attrs.alpha = product.alpha;
  if (*product.epilogue)
    attrs.epilogue =
        ir::parse_program(1 + static_cast<int>(product.operands.size()), product.epilogue).value();
  TestLayer test;
  test.layer = make_layer(ir::LayerKind::kMatrixMultiply, attrs);
  test.inputs.push_back({.extents = product.a});
  test.inputs.push_back(
      {.extents = product.b, .is_data = !product.b_constant, .is_constant = product.b_constant});
  if (product.has_bias || !product.operands.empty())
    test.inputs.push_back({.extents = product.bias,
                           .is_data = false,
                           .is_constant = product.bias_constant,
                           .present = product.has_bias});
  for (const Extents& operand : product.operands)
    test.inputs.push_back({.extents = operand, .is_data = operand.size() >= 3});
  test.outputs.push_back({.extents = product.y});
  // Values lie in [-2, 2]: rounding errors of K products of up to 4 add up like sqrt(K).
  const Extents& a = product.a;
  const auto k = static_cast<double>(product.transpose_a ? a[a.size() - 2] : a.back());
  test.tolerance = 1.2e-7 * 8 * (1 + k);
  check_layer(test, words({a[a.size() - 2], a.back(), product.y.back()}) + product.epilogue);
}

Product plain(int64_t m, int64_t k, int64_t n) {
  Product p;
  p.a = {m, k};
  p.b = {k, n};
  p.y = {m, n};
  return p;
}

Product dynamic(Product p) {
  p.b_constant = false;
  return p;
}

TEST(Matmul, Tails) {
  for (int64_t n : {1, 7, 16, 17, 31, 33, 64, 100, 130})
    for (int64_t m : {1, 2, 3, 5, 13, 29}) {
      check(plain(m, 11, n));
      check(dynamic(plain(m, 11, n)));
    }
}

TEST(Matmul, Transposed) {
  for (int64_t m : {1, 4, 19})
    for (const bool constant : {true, false})
      for (const int which : {1, 2, 3}) {
        Product p = plain(m, 21, 45);
        p.transpose_a = (which & 1) != 0;
        p.transpose_b = (which & 2) != 0;
        if (p.transpose_a) p.a = {21, m};
        if (p.transpose_b) p.b = {45, 21};
        p.b_constant = constant;
        p.alpha = 0.125f;
        check(p);
      }
}

TEST(Matmul, Batches) {
  Product p;
  p.b_constant = false;
  p.a = {2, 3, 9, 8};
  p.b = {2, 3, 8, 20};
  p.y = {2, 3, 9, 20};
  check(p);
  p.a = {3, 9, 8};  // broadcast over images
  check(p);
  p.a = {2, 3, 9, 8};
  p.b = {3, 8, 20};
  check(p);
  p.b = {8, 20};
  check(p);
  p.b_constant = true;
  check(p);
  p.a = {2, 1, 2, 3, 9, 8};
  p.y = {2, 1, 2, 3, 9, 20};
  check(p);
  p.b_constant = false;
  p.b = {1, 2, 3, 8, 20};
  check(p);
  p.b = {2, 1, 1, 3, 20, 8};
  p.transpose_b = true;
  check(p);
}

TEST(Matmul, Bias) {
  for (const bool constant : {true, false})
    for (const bool b_constant : {true, false})
      for (const Extents& bias :
           {Extents{37}, Extents{1, 37}, Extents{}, Extents{1}, Extents{6, 1}, Extents{6, 37}}) {
        Product p = plain(6, 10, 37);
        p.has_bias = true;
        p.bias = bias;
        p.bias_constant = constant;
        p.b_constant = b_constant;
        check(p);
        p.epilogue = "v2 = add v0 v1; v3 = relu v2";
        p.operands = {{6, 37}};
        check(p);
      }
}

TEST(Matmul, Epilogues) {
  for (const bool b_constant : {true, false})
    for (int64_t m : {1, 8}) {
      Product p;
      p.a = {2, m, 12};
      p.b = {12, 40};
      p.y = {2, m, 40};
      p.b_constant = b_constant;
      p.epilogue = "v1 = gelu v0";
      check(p);
      p.epilogue = "v2 = mul v0 v1";
      for (const Extents& operand :
           {Extents{40}, Extents{2, m, 40}, Extents{2, 1, 1}, Extents{m, 1}, Extents{}}) {
        p.operands = {operand};
        check(p);
      }
      p.epilogue = "v3 = add v0 v2; v4 = mul v3 v1";
      p.operands = {{40}, {2, m, 40}};
      check(p);
    }
}

TEST(Matmul, ManyWeights) {
  for (int64_t m : {17, 40}) {
    Product p = plain(m, 260, 300);
    check(p);
    p.epilogue = "v1 = gelu v0";
    check(p);
  }
}

TEST(Matmul, Threads) {
  for (const bool constant : {true, false}) {
    for (int64_t m : {1, 2, 70}) {
      Product p = plain(m, 600, m == 70 ? 65 : 700);
      p.b_constant = constant;
      check(p);
      p.transpose_b = true;
      p.b = {p.y[1], 600};
      check(p);
    }
    check(Product{.a = {40, 600}, .b = {600, 20}, .y = {40, 20}, .b_constant = constant});
  }
}

TEST(Matmul, LongAndEmptyDepth) {
  check(plain(9, 1024, 50));
  check(dynamic(plain(9, 1024, 50)));
  check(plain(1, 3000, 20));
  check(dynamic(plain(3, 0, 5)));
  check(plain(0, 3, 5));
}

}  // namespace
}  // namespace camshaft::kernels::test
