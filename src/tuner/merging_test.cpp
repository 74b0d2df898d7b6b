// SPDX-License-Identifier: Apache-2.0
// Products of one tensor as one: the same numbers come out of both forms (1e-4 of values up to 10:
// Winograd is among the tactics), and the engine says what
// the other one would take.
#include "tuner/merging.h"

#include <gtest/gtest.h>

#include "kernels/interpreter.h"
#include "tuner/test_util.h"

namespace camshaft::tuner {
namespace {

// Queries, keys and values of `rows` rows, the last one narrower and one of them without a bias.
std::string network(int rows) {
  return fmt::format(R"ir(graph "g" {{
  input x: float[1, {0}, 40]
  constant wq: float[40, 160] = random(1)
  constant wk: float[40, 160] = random(2)
  constant wv: float[40, 130] = random(3)
  constant bq: float[160] = random(4)
  constant bv: float[130] = random(5)
  q: float[1, {0}, 160] = MatrixMultiply(x, wq, bq)
  k: float[1, {0}, 160] = MatrixMultiply(x, wk)
  v: float[1, {0}, 130] = MatrixMultiply(x, wv, bv)
  d: float[1, {0}, 160] = Activation(q) {{op=relu}}
  e: float[1, {0}, 160] = Activation(k) {{op=relu}}
  f: float[1, {0}, 130] = Activation(v) {{op=relu}}
  output d
  output e
  output f
}})ir",
                     rows);
}

constexpr char kConvolutions[] = R"ir(graph "g" {
  input x: float[2, 24, 6, 7]
  constant a: float[128, 24, 3, 3] = random(1)
  constant b: float[136, 24, 3, 3] = random(2)
  c: float[2, 128, 6, 7] = Convolution(x, a) {kernel=[3, 3], stride=[1, 1], dilation=[1, 1], pre_padding=[1, 1], post_padding=[1, 1], groups=1}
  d: float[2, 136, 6, 7] = Convolution(x, b) {kernel=[3, 3], stride=[1, 1], dilation=[1, 1], pre_padding=[1, 1], post_padding=[1, 1], groups=1}
  e: float[2, 128, 6, 7] = Activation(c) {op=relu}
  f: float[2, 136, 6, 7] = Activation(d) {op=relu}
  output e
  output f
})ir";

void expect_same_numbers(const std::string& text, const BuildOptions& options,
                         const ir::Extents& extents) {
  const auto engine = engine_of(graph_of(text), options);
  ASSERT_NE(engine, nullptr);
  auto context = runtime::Context::create(engine, {.threads = options.threads});
  ASSERT_STATUS_OK(context.status());
  const TestTensor x = random_tensor(extents, 7, -1, 1);
  std::vector<TestTensor> outputs;
  ASSERT_STATUS_OK(run(**context, {x}, outputs));
  const kernels::Value inputs[] = {*kernels::make_value(ir::DataType::kFloat, x.extents, x.bytes)};
  const auto graph = graph_of(text);
  const auto expected = kernels::evaluate(*graph, inputs);
  ASSERT_STATUS_OK(expected.status());
  ASSERT_EQ(outputs.size(), expected.value().size());
  for (size_t k = 0; k < outputs.size(); ++k) {
    const auto want = expected.value()[k].as<float>();
    for (size_t i = 0; i < want.size(); ++i)
      ASSERT_NEAR(outputs[k].floats()[i], want[i], 1e-4f) << k << " " << i;
  }
}

int merges(const engine::Engine& engine) {
  int count = 0;
  for (const auto& record : engine.record().rewrites) count += record.pass == "MergeChoice";
  return count;
}

TEST(MergeChoice, BothFormsGiveTheSameNumbers) {
  int merged = 0;
  for (uint64_t seed = 1; seed <= 6; ++seed)
    for (const int rows : {1, 7, 50}) {
      BuildOptions options;
      options.threads = 2;
      options.random_choices = seed;
      expect_same_numbers(network(rows), options, {1, rows, 40});
      const auto engine = engine_of(graph_of(network(rows)), options);
      ASSERT_NE(engine, nullptr);
      merged += merges(*engine);
      expect_same_numbers(kConvolutions, options, {2, 24, 6, 7});
    }
  EXPECT_EQ(merged, 9);  // every second
}

// Either it merged, which is recorded, or every product says what the other form would take.
TEST(MergeChoice, EngineSaysWhatTheOtherFormTakes) {
  BuildOptions options;
  options.threads = 1;
  const auto engine = engine_of(graph_of(network(50)), options);
  ASSERT_NE(engine, nullptr);
  int noted = 0, products = 0;
  for (const engine::PlanStep& step : engine->plan().steps) {
    products += step.layer.kind == ir::LayerKind::kMatrixMultiply;
    for (const engine::Candidate& candidate : step.candidates)
      noted += candidate.refusal.starts_with("merged ") && candidate.time_us > 0;
  }
  EXPECT_EQ(noted, products);
  EXPECT_EQ(products, merges(*engine) > 0 ? 1 : 3);
}

}  // namespace
}  // namespace camshaft::tuner
