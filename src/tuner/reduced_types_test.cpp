// SPDX-License-Identifier: Apache-2.0
// Engines that may compute in 16 bits: who does, who must, who must not.
#include "tuner/test_util.h"

namespace camshaft::tuner {
namespace {

using ir::DataType;

constexpr const char* kNet = R"(
graph "net" {
  input x: float[1, 16, 12, 12]
  constant w1: float[32, 16, 3, 3] = random(1)
  constant w2: float[32, 32, 1, 1] = random(2)
  a: float[1, 32, 12, 12] = Convolution "first"(x, w1) {kernel=[3, 3], stride=[1, 1], dilation=[1, 1], pre_padding=[1, 1], post_padding=[1, 1]}
  r: float[1, 32, 12, 12] = Activation "relu"(a) {op=relu}
  b: float[1, 32, 12, 12] = Convolution "second"(r, w2) {kernel=[1, 1], stride=[1, 1], dilation=[1, 1], pre_padding=[0, 0], post_padding=[0, 0]}
  output b
}
)";

const engine::PlanStep* step_named(const engine::Plan& plan, std::string_view name) {
  for (const engine::PlanStep& step : plan.steps)
    if (step.layer.name.find(name) != std::string::npos && !step.is_view &&
        step.layer.kind != ir::LayerKind::kReformat)
      return &step;
  return nullptr;
}

DataType precision_of(const engine::PlanStep& step) {
  const kernels::Tactic* tactic = kernels::find_tactic(step.tactic, step.isa);
  return tactic ? tactic->precision : DataType::kUndefined;
}

DataType written_type(const engine::Plan& plan, const engine::PlanStep& step) {
  return plan.tensors[static_cast<size_t>(step.outputs[0])].type;
}

TEST(ReducedTypes, NothingIsReducedUnasked) {
  const auto engine = engine_of(graph_of(kNet));
  ASSERT_TRUE(engine);
  for (const engine::PlanStep& step : engine->plan().steps) {
    EXPECT_EQ(precision_of(step), DataType::kUndefined) << step.layer.name;
    for (const engine::Candidate& c : step.candidates)
      EXPECT_EQ(c.tactic.find("bf16"), std::string::npos) << c.tactic;
  }
  for (const engine::PlanTensor& tensor : engine->plan().tensors)
    EXPECT_EQ(tensor.type, DataType::kFloat) << tensor.name;
}

TEST(ReducedTypes, LayersGetWhatIsWanted) {
  BuildOptions options;
  options.reduced_types = {DataType::kBFloat16};
  options.layer_types = [](const ir::Layer& layer) {
    BuildOptions::LayerTypes types;
    if (layer.name.find("first") != std::string::npos)
      types = {DataType::kBFloat16, DataType::kBFloat16};
    else if (layer.name.find("second") != std::string::npos)
      types.precision = DataType::kFloat;
    return types;
  };
  const auto engine = engine_of(graph_of(kNet), options);
  ASSERT_TRUE(engine);
  const engine::PlanStep* first = step_named(engine->plan(), "first");
  const engine::PlanStep* second = step_named(engine->plan(), "second");
  ASSERT_TRUE(first && second);
  EXPECT_EQ(precision_of(*first), DataType::kBFloat16) << first->tactic;
  EXPECT_EQ(written_type(engine->plan(), *first), DataType::kBFloat16);
  EXPECT_EQ(precision_of(*second), DataType::kUndefined) << second->tactic;
  EXPECT_EQ(written_type(engine->plan(), *second), DataType::kFloat);
  const auto& inputs = engine->plan().inputs;
  EXPECT_EQ(engine->plan().tensors[static_cast<size_t>(inputs[0])].type, DataType::kFloat);
  // The engine computes the network to the precision of bfloat16: two layers of rounded operands.
  auto context = runtime::Context::create(engine);
  ASSERT_STATUS_OK(context.status());
  auto exact = runtime::Context::create(engine_of(graph_of(kNet)));
  ASSERT_STATUS_OK(exact.status());
  const TestTensor x = random_tensor({1, 16, 12, 12}, 5);
  std::vector<TestTensor> got, want;
  ASSERT_STATUS_OK(run(**context, {x}, got));
  ASSERT_STATUS_OK(run(**exact, {x}, want));
  float largest = 0, error = 0;
  for (size_t k = 0; k < want[0].floats().size(); ++k) {
    largest = std::max(largest, std::fabs(want[0].floats()[k]));
    error = std::max(error, std::fabs(want[0].floats()[k] - got[0].floats()[k]));
  }
  EXPECT_LE(error, 0.01f * largest);
  EXPECT_GT(error, 0);
}

}  // namespace
}  // namespace camshaft::tuner
