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

// A matrix of its own for every item, packed one by one.
TEST(Matmul, BatchesOfConstants) {
  for (const int64_t m : {1, 2, 9, 40})
    for (const bool transposed : {false, true}) {
      Product p;
      p.transpose_b = transposed;
      p.alpha = 0.5f;
      p.a = {2, 3, m, 11};
      p.b = transposed ? Extents{2, 3, 45, 11} : Extents{2, 3, 11, 45};
      p.y = {2, 3, m, 45};
      check(p);
      p.b = transposed ? Extents{3, 45, 11} : Extents{3, 11, 45};
      check(p);
      p.b = transposed ? Extents{2, 1, 45, 11} : Extents{2, 1, 11, 45};
      p.has_bias = true;
      for (const Extents& bias : {Extents{45}, Extents{3, 1, 45}, Extents{2, 1, m, 45}}) {
        p.bias = bias;
        check(p);
        p.bias_constant = !p.bias_constant;
      }
      p.epilogue = "v2 = add v0 v1; v3 = relu v2";
      p.operands = {{2, 3, m, 45}};
      check(p);
      p.a = {3, m, 11};  // broadcast
      check(p);
    }
  Product experts;
  for (const int64_t m : {1, 30}) {
    experts.a = {4, m, 300};
    experts.b = {4, 300, 700};
    experts.y = {4, m, 700};
    experts.has_bias = true;
    experts.bias = {4, 1, 700};
    check(experts);
  }
  experts.transpose_a = true;
  experts.a = {4, 300, 30};
  check(experts);
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

// With a bias, a residual and bounds, which are all that plain tiles have; and with what they lack.
void check_endings(Product p) {
  check(p);
  p.has_bias = true;
  p.bias = {p.y.back()};
  p.epilogue = "v2 = add v0 v1; v3 = relu v2";
  p.operands = {p.y};
  check(p);
  p.epilogue = "v2 = add v0 v1; v3 = gelu v2";
  check(p);
}

// A panel passes up to 256 rows, strips of 96 at least, while the next one is fetched.
TEST(Matmul, LongPanels) {
  for (const int64_t m : {7, 100, 260}) check_endings(plain(m, 800, 200));
}

// Several whole panels and tiles in a call, and the panels that are not whole.
TEST(Matmul, ShortPanels) {
  for (const int64_t k : {1, 3, 4, 64, 250})
    for (const int64_t n : {16, 96, 150})
      for (const int64_t m : {5, 29, 75}) check_endings(plain(m, k, n));
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

// Depths beside the parts that packed panels of floats are cut into, on caches of 32 and 48 KiB;
// rows that collide in L1 and are copied.
TEST(Matmul, PartsOfDepth) {
  for (const int64_t k : {255, 256, 257, 384, 513, 769, 1023, 1536})
    for (const int64_t m : {13, 15, 30}) check(plain(m, k, 70));
  for (const int64_t k : {1024, 2048}) check(plain(29, k, 130));
  for (const int64_t n : {1, 17, 64, 300}) check(plain(31, 530, n));
  Product batch;
  batch.a = {3, 2, 25, 700};
  batch.b = {700, 45};
  batch.y = {3, 2, 25, 45};
  check(batch);
}

// A few rows, with rows that are read one after another; columns in one chunk or several.
TEST(Matmul, FewRows) {
  for (const int64_t m : {1, 2, 3, 4})
    for (const int64_t k : {1, 2, 7, 8, 19})
      for (const int64_t n : {8, 31, 67, 1100, 4200}) {
        Product p;
        p.b_constant = false;
        p.a = {2, 3, m, k};
        p.b = n == 67 ? Extents{k, n} : Extents{3, k, n};
        p.y = {2, 3, m, n};
        p.alpha = 0.5f;
        p.transpose_a = n == 31;
        if (p.transpose_a) p.a = {2, 3, k, m};
        check(p);
        if (n > 67) continue;
        p.has_bias = true;
        p.bias = {m, n};
        p.epilogue = "v2 = add v0 v1; v3 = relu v2";
        p.operands = {{2, 3, m, n}};
        check(p);
      }
}

// A few columns: dot products of rows, with columns that are gathered or lie as they are.
TEST(Matmul, FewColumns) {
  for (const int64_t n : {1, 2, 4})
    for (const int64_t k : {1, 7, 16, 40, 129})
      for (const bool transposed : {false, true}) {
        Product p;
        p.b_constant = false;
        p.a = {3, 11, k};
        p.b = transposed ? Extents{3, n, k} : Extents{3, k, n};
        p.transpose_b = transposed;
        p.y = {3, 11, n};
        p.alpha = 0.5f;
        check(p);
        p.has_bias = true;
        p.bias = {11, n};
        p.epilogue = "v2 = add v0 v1; v3 = relu v2";
        p.operands = {{3, 11, n}};
        check(p);
      }
  Product threaded;
  threaded.b_constant = false;
  threaded.a = {2, 5, 50, 300};
  threaded.b = {5, 300, 1};
  threaded.y = {2, 5, 50, 1};
  check(threaded);
}

TEST(Matmul, EpiloguesOfParts) {
  Product p = plain(29, 1100, 70);
  for (const Extents& bias : {Extents{70}, Extents{29, 70}, Extents{29, 1}})
    for (const char* epilogue : {"", "v1 = relu v0", "v1 = gelu v0", "v1 = leaky_relu v0 0.1",
                                 "v2 = add v0 v1; v3 = relu v2", "v2 = mul v0 v1"}) {
      p.has_bias = true;
      p.bias = bias;
      p.epilogue = epilogue;
      p.operands.clear();
      if (std::string_view(epilogue).find("v2") == 0) p.operands = {{29, 70}};
      check(p);
    }
  p.transpose_a = true;
  p.a = {1100, 29};
  check(p);
}

// y = a b by one tactic; empty where it refuses.
std::vector<float> multiply(const Tactic& tactic, int threads, int64_t m, int64_t k, int64_t n,
                            std::vector<float>& a, std::vector<float>& b) {
  const std::shared_ptr<ir::Layer> layer =
      make_layer(ir::LayerKind::kMatrixMultiply, ir::MatrixMultiplyAttrs());
  ir::ConstantData constant;
  constant.view = std::as_bytes(std::span(b));
  Problem problem{layer.get(), {}, {}, threads};
  const auto tensor = [](int64_t rows, int64_t cols) {
    return ProblemTensor{true, DataType::kFloat, Format::kLinear, {rows, cols}, nullptr};
  };
  problem.inputs = {tensor(m, k), tensor(k, n)};
  problem.inputs[1].constant = &constant;
  problem.outputs = {tensor(m, n)};
  if (!tactic.refusal(problem).empty()) return {};
  const auto view = [](std::vector<float>& data, int64_t rows, int64_t cols) {
    return make_view(data.data(), DataType::kFloat, Format::kLinear,
                     std::vector<int64_t>{rows, cols});
  };
  std::vector<float> y(static_cast<size_t>(m * n)), packed(tactic.packed_bytes(problem) / 4 + 16);
  if (tactic.packed_bytes(problem) > 0)
    tactic.pack(problem, reinterpret_cast<std::byte*>(packed.data()));
  const TensorView inputs[] = {view(a, m, k), view(b, k, n)}, outputs[] = {view(y, m, n)};
  ThreadPool pool(threads);
  KernelArgs args{layer.get(), inputs, outputs, reinterpret_cast<std::byte*>(packed.data()),
                  nullptr,     &pool};
  EXPECT_TRUE(run_once(tactic, args).ok());
  return y;
}

TEST(Matmul, BitsDependOnNoThreads) {
  for (const int64_t m : {3, 50, 90})
    for (const int64_t k : {512, 1300})
      for (const int64_t n : {3, 40, 300}) {
        std::vector<float> a(static_cast<size_t>(m * k)), b(static_cast<size_t>(k * n));
        for (size_t i = 0; i < a.size(); ++i) a[i] = std::sin(static_cast<float>(i));
        for (size_t i = 0; i < b.size(); ++i) b[i] = std::cos(static_cast<float>(i));
        int compared = 0;
        for (const Tactic* tactic : tactics_for(ir::LayerKind::kMatrixMultiply)) {
          const std::vector<float> alone = multiply(*tactic, 1, m, k, n, a, b);
          for (const int threads : {2, 3})
            EXPECT_EQ(alone, multiply(*tactic, threads, m, k, n, a, b)) << tactic->name;
          compared += alone.empty() ? 0 : 1;
        }
        EXPECT_GT(compared, 0);
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
