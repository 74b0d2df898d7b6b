// SPDX-License-Identifier: Apache-2.0
// Products of codes that compute in float: the same codes come out, and the engine says why.
#include "tuner/precision.h"

#include <gtest/gtest.h>

#include "kernels/interpreter.h"
#include "tuner/test_util.h"

namespace camshaft::tuner {
namespace {

// Two products with Q/DQ around them: weights [8, 8/groups, kernel…], a residual behind the second.
std::string network(const std::string& space, const std::string& kernel, const std::string& ones,
                    const std::string& pads, int groups) {
  const std::string window = fmt::format(
      "{{kernel=[{}], stride=[{}], dilation=[{}], pre_padding=[{}], post_padding=[{}], groups={}}}",
      kernel, ones, ones, pads, pads, groups);
  const std::string shape = "float[1, 8, " + space + "]", codes = "uint8[1, 8, " + space + "]";
  return fmt::format(R"ir(graph "g" {{
  input x: {0}
  constant w: int8[8, {4}, {2}] = random(1)
  constant s: float[] = [0.02]
  constant t: float[] = [0.001]
  constant u: uint8[] = [101]
  xq: {1} = Quantize(x, s, u) {{type=uint8}}
  xd: {0} = Dequantize(xq, s, u) {{type=uint8}}
  wd: float[8, {4}, {2}] = Dequantize(w, t) {{type=int8}}
  a: {0} = Convolution(xd, wd) {3}
  aq: {1} = Quantize(a, s, u) {{type=uint8}}
  ad: {0} = Dequantize(aq, s, u) {{type=uint8}}
  b: {0} = Convolution(ad, wd) {3}
  c: {0} = ElementWise(b, xd) {{op=add}}
  r: {0} = Activation(c) {{op=relu}}
  rq: {1} = Quantize(r, s, u) {{type=uint8}}
  y: {0} = Dequantize(rq, s, u) {{type=uint8}}
  output y
}})ir",
                     shape, codes, kernel, window, 8 / groups);
}

void expect_same_codes(const std::string& text, const BuildOptions& options,
                       const ir::Extents& extents) {
  const auto engine = engine_of(graph_of(text), options);
  ASSERT_NE(engine, nullptr);
  auto context = runtime::Context::create(engine, {.threads = 2});
  ASSERT_STATUS_OK(context.status());
  const TestTensor x = random_tensor(extents, 7, -3, 3);
  std::vector<TestTensor> outputs;
  ASSERT_STATUS_OK(run(**context, {x}, outputs));
  const kernels::Value inputs[] = {*kernels::make_value(ir::DataType::kFloat, x.extents, x.bytes)};
  const auto graph = graph_of(text);
  const auto expected = kernels::evaluate(*graph, inputs);
  ASSERT_STATUS_OK(expected.status());
  const auto want = expected.value()[0].as<float>();
  int differing = 0;
  for (size_t k = 0; k < want.size(); ++k) {
    const float error = std::fabs(outputs[0].floats()[k] - want[k]);
    EXPECT_LT(error, 0.021f);  // a step
    differing += error > 0.001f;
  }
  EXPECT_LE(differing, static_cast<int>(want.size()) / 200);  // ties, and what becomes of them
}

TEST(PrecisionChoice, NeitherHasAKernel) {
  BuildOptions options;
  options.threads = 2;
  expect_same_codes(network("3, 5, 6", "3, 3, 3", "1, 1, 1", "1, 1, 1", 1), options,
                    {1, 8, 3, 5, 6});
}

TEST(PrecisionChoice, RandomChoicesGiveTheSameCodes) {
  int in_float = 0;
  for (uint64_t seed = 1; seed <= 30; ++seed)
    for (const int groups : {1, 8}) {
      BuildOptions options;
      options.threads = 2;
      options.random_choices = seed;
      const std::string text = network("7, 9", "3, 3", "1, 1", "1, 1", groups);
      expect_same_codes(text, options, {1, 8, 7, 9});
      const auto engine = engine_of(graph_of(text), options);
      ASSERT_NE(engine, nullptr);
      for (const auto& record : engine->record().rewrites)
        in_float += record.pass == "PrecisionChoice";
    }
  EXPECT_EQ(in_float, 60);  // one of two, in every engine
}

TEST(PrecisionChoice, EngineSaysWhatFloatWouldTake) {
  BuildOptions options;
  options.threads = 1;
  const auto engine = engine_of(graph_of(network("7, 9", "3, 3", "1, 1", "1, 1", 1)), options);
  ASSERT_NE(engine, nullptr);
  int noted = 0;
  for (const engine::PlanStep& step : engine->plan().steps)
    for (const engine::Candidate& candidate : step.candidates)
      noted += candidate.tactic == "in float, with the conversions" && !candidate.refusal.empty();
  for (const auto& record : engine->record().rewrites) noted += record.pass == "PrecisionChoice";
  EXPECT_EQ(noted, 2);
  options.quantized_in_float = false;
  const auto fixed = engine_of(graph_of(network("7, 9", "3, 3", "1, 1", "1, 1", 1)), options);
  ASSERT_NE(fixed, nullptr);
  for (const auto& record : fixed->record().rewrites) EXPECT_NE(record.pass, "PrecisionChoice");
}

}  // namespace
}  // namespace camshaft::tuner
