// SPDX-License-Identifier: Apache-2.0
#include "tuner/rounding.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace camshaft::tuner {
namespace {

// A 3x3 convolution of `channels` with itself, 28x28, one float of weights after another from
// `next`.
struct Case {
  ir::Layer layer;
  ir::ConstantData weights;
  kernels::Problem problem;

  template <class Next>
  Case(int64_t channels, int64_t dilation, Next next) {
    layer.kind = ir::LayerKind::kConvolution;
    ir::ConvolutionAttrs attrs;
    attrs.kernel = {3, 3};
    attrs.stride = {1, 1};
    attrs.dilation = attrs.pre_padding = attrs.post_padding = {dilation, dilation};
    layer.attrs = attrs;
    std::vector<float> values(static_cast<size_t>(channels * channels * 9));
    for (size_t k = 0; k < values.size(); ++k) values[k] = next(k);
    weights.bytes.resize(values.size() * sizeof(float));
    std::memcpy(weights.bytes.data(), values.data(), weights.bytes.size());
    weights.view = weights.bytes;
    problem.layer = &layer;
    kernels::ProblemTensor x;
    x.present = true;
    x.type = ir::DataType::kFloat;
    x.format = ir::Format::kChannelLast;
    x.extents = {1, channels, 28, 28};
    kernels::ProblemTensor w = x;
    w.format = ir::Format::kLinear;
    w.extents = {channels, channels, 3, 3};
    w.constant = &weights;
    problem.inputs = {x, w};
    problem.outputs = {x};
  }
};

std::vector<const kernels::Tactic*> winograd_tactics(const kernels::Problem& problem) {
  std::vector<const kernels::Tactic*> list;
  for (const kernels::Tactic* tactic : kernels::tactics_for(ir::LayerKind::kConvolution))
    if (std::string_view(tactic->name).starts_with("conv_winograd") &&
        tactic->refusal(problem).empty())
      list.push_back(tactic);
  return list;
}

TEST(Rounding, OfTrainedLikeWeightsIsSmall) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 0.05F);
  for (const int64_t channels : {16, 64})
    for (const int64_t dilation : {1, 2}) {
      const Case c(channels, dilation, [&](size_t) { return normal(random); });
      const auto tactics = winograd_tactics(c.problem);
      ASSERT_FALSE(tactics.empty());
      for (const kernels::Tactic* tactic : tactics) {
        const auto rounding = measure_rounding(c.problem, *tactic);
        ASSERT_TRUE(rounding) << tactic->name;
        // More than nothing, or nothing was measured; far less than a wrong result.
        EXPECT_GT(rounding->error, 1e-8) << tactic->name;
        EXPECT_LT(rounding->error, 1e-5) << tactic->name;
        EXPECT_GT(rounding->direct, 1e-8) << tactic->name;
        EXPECT_LT(rounding->direct, 1e-6) << tactic->name;
        EXPECT_EQ(refusal_of(*rounding), "") << tactic->name;
        EXPECT_NE(to_string(*rounding).find("x direct"), std::string::npos);
      }
    }
}

// Weights beyond what the transform can hold are refused, and with them what is not finite.
TEST(Rounding, OverflowingTransformsAreRefused) {
  const Case c(16, 1, [](size_t k) { return k % 2 ? 3e38F : -3e38F; });
  for (const kernels::Tactic* tactic : winograd_tactics(c.problem)) {
    const auto rounding = measure_rounding(c.problem, *tactic);
    if (rounding) {
      EXPECT_NE(refusal_of(*rounding), "") << to_string(*rounding);
    }
  }
}

TEST(Rounding, TheBound) {
  EXPECT_EQ(refusal_of({1e-6, 1e-8}), "");  // far more than direct, and nothing beside the output
  EXPECT_EQ(refusal_of({1e-5, 1e-6}), "");
  EXPECT_NE(refusal_of({1e-4, 1e-6}).find("rounds too much"), std::string::npos);
}

TEST(Rounding, OtherTacticsAreNotMeasured) {
  const Case c(16, 1, [](size_t) { return 1.0F; });
  for (const kernels::Tactic* tactic : kernels::tactics_for(ir::LayerKind::kConvolution))
    if (!std::string_view(tactic->name).starts_with("conv_winograd")) {
      EXPECT_FALSE(measure_rounding(c.problem, *tactic)) << tactic->name;
    }
}

}  // namespace
}  // namespace camshaft::tuner
