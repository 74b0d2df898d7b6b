// SPDX-License-Identifier: Apache-2.0
// Engines on a lesser machine than the one that built them: steps run with the best tactic there by
// predicted cost.
#include "runtime/step_problem.h"
#include "tuner/test_util.h"

namespace camshaft::tuner {
namespace {

constexpr const char* kBlock = R"(
graph "block" {
  symbols batch
  input x: float[batch, 32, 20, 20]
  constant d: float[32, 1, 3, 3] = random(1)
  constant w: float[64, 32, 1, 1] = random(2)
  constant fc: float[64, 10] = random(3)
  y: float[batch, 32, 20, 20] = Convolution "depthwise"(x, d) {kernel=[3, 3], stride=[1, 1], dilation=[1, 1], pre_padding=[1, 1], post_padding=[1, 1], groups=32}
  r: float[batch, 32, 20, 20] = Activation "relu"(y) {op=relu}
  z: float[batch, 64, 20, 20] = Convolution "pointwise"(r, w) {kernel=[1, 1], stride=[1, 1], dilation=[1, 1], pre_padding=[0, 0], post_padding=[0, 0]}
  p: float[batch, 64, 1, 1] = Pooling "pool"(z) {type=average, global=true}
  f: float[batch, 64] = Shuffle "flatten"(p) {has_reshape=true, reshape=[batch, 64]}
  o: float[batch, 10] = MatrixMultiply "fc"(f, fc)
  output o
}
)";

// The tactic step `k` would run with, and that none of its instruction set is predicted to be
// faster.
void expect_best(const runtime::PlanFacts& facts, const runtime::Bindings& bindings, size_t k) {
  const engine::PlanStep& step = facts.plan->steps[k];
  const kernels::Tactic* chosen = facts.steps[k].tactic;
  ASSERT_NE(chosen, nullptr) << step.layer.name;
  EXPECT_EQ(chosen->isa, active_isa()) << step.layer.name;
  const runtime::LayerProblem made = runtime::make_step_problem(facts, step, bindings, 1);
  ASSERT_TRUE(made.layer);
  for (const kernels::Tactic* other : kernels::tactics_for(step.layer.kind))
    if (other->isa == chosen->isa && runtime::fits_formats(other->formats, made.problem) &&
        !runtime::rounds_floats(*other, made.problem) && other->refusal(made.problem).empty()) {
      EXPECT_LE(chosen->cost_us(made.problem), other->cost_us(made.problem))
          << step.layer.name << ": " << chosen->name << " where " << other->name << " is better";
    }
  if (step.layer.kind == ir::LayerKind::kConvolution &&
      step.layer.as<ir::ConvolutionAttrs>().groups == 32) {
    EXPECT_EQ(std::string_view(chosen->name).substr(0, 9), "depthwise");
  }
}

TEST(MovedEngines, RunTheBestTacticsOfTheLesserMachine) {
  BuildOptions options;
  options.profiles = {{{"x", {1, 32, 20, 20}, {2, 32, 20, 20}, {2, 32, 20, 20}}}};
  options.portable = true;
  const auto engine = engine_of(graph_of(kBlock), options);
  ASSERT_TRUE(engine);
  const TestTensor x = random_tensor({2, 32, 20, 20}, 3);
  std::vector<TestTensor> expected;
  auto context = runtime::Context::create(engine);
  ASSERT_STATUS_OK(context.status());
  ASSERT_STATUS_OK(run(**context, {x}, expected));
  for (const Isa isa : {Isa::kAvx2, Isa::kScalar}) {
    if (isa >= cpu_info().best_isa) continue;
    SCOPED_TRACE(isa_name(isa));
    force_isa(isa);
    auto facts = runtime::PlanFacts::make(*engine, engine->plan());
    ASSERT_STATUS_OK(facts.status());
    const ir::Extents extents = {2, 32, 20, 20};
    auto bindings = runtime::bind_symbols(engine->plan(), {&extents, 1}, nullptr);
    ASSERT_STATUS_OK(bindings.status());
    runtime::replace_missing_tactics(*facts, *bindings, 1);
    int replaced = 0;
    for (size_t k = 0; k < facts->steps.size(); ++k) {
      const engine::PlanStep& step = engine->plan().steps[k];
      if (step.is_view || step.tactic.empty() || step.isa <= isa) continue;
      expect_best(*facts, *bindings, k);
      ++replaced;
    }
    EXPECT_GE(replaced, 3);
    std::vector<TestTensor> outputs;
    auto lesser = runtime::Context::create(engine);
    ASSERT_STATUS_OK(lesser.status());
    ASSERT_STATUS_OK(run(**lesser, {x}, outputs));
    for (size_t k = 0; k < outputs[0].floats().size(); ++k)
      EXPECT_NEAR(outputs[0].floats()[k], expected[0].floats()[k], 1e-3);
    force_isa(cpu_info().best_isa);
  }
}

}  // namespace
}  // namespace camshaft::tuner
