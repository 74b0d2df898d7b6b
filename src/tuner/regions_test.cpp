// SPDX-License-Identifier: Apache-2.0
// Regions of plans written down here: what is part of one, what ends it, and that none of them
// reads its own result through a layer outside.
#include "tuner/regions.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

namespace camshaft::tuner {
namespace {

using engine::kNoStep;
using engine::Region;
using engine::RegionBorder;
using engine::TensorRole;
using enum ir::LayerKind;

struct PlanMaker {
  engine::Plan plan;

  int tensor(const std::string& name, TensorRole role) {
    engine::PlanTensor t;
    t.name = name;
    t.type = ir::DataType::kFloat;
    t.role = role;
    t.shape = {2};
    plan.tensors.push_back(t);
    return static_cast<int>(plan.tensors.size()) - 1;
  }
  int input(const std::string& name) {
    plan.inputs.push_back(tensor(name, TensorRole::kInput));
    return plan.inputs.back();
  }
  int constant(const std::string& name) { return tensor(name, TensorRole::kConstant); }
  // A step of one output, of the ONNX node of its name; gives the output.
  int add(ir::LayerKind kind, const std::string& name, std::vector<int> inputs) {
    engine::PlanStep step;
    step.layer.kind = kind;
    step.layer.name = name;
    step.layer.attrs = ir::default_attrs(kind);
    step.layer.onnx_nodes = {name};
    step.inputs = std::move(inputs);
    step.outputs = {tensor("of " + name, TensorRole::kActivation)};
    plan.steps.push_back(std::move(step));
    return plan.steps.back().outputs[0];
  }
  void output(int tensor) {
    plan.tensors[tensor].role = TensorRole::kOutput;
    plan.outputs.push_back(tensor);
  }
  int step(std::string_view name) const {
    for (size_t k = 0; k < plan.steps.size(); ++k)
      if (plan.steps[k].layer.name == name) return static_cast<int>(k);
    return -1;
  }
  std::vector<std::string> names(const Region& region) const {
    std::vector<std::string> list;
    for (const int k : region.steps) list.push_back(plan.steps[k].layer.name);
    return list;
  }
};

const RegionBorder* border(const std::vector<RegionBorder>& list, int step) {
  const auto found =
      std::find_if(list.begin(), list.end(), [&](const RegionBorder& b) { return b.step == step; });
  return found == list.end() ? nullptr : &*found;
}

// Product, attention, product with the residual, normalization.
int add_block(PlanMaker& m, const std::string& name, int x, int mask) {
  const int qkv = m.add(kMatrixMultiply, name + "/qkv", {x, m.constant("w")});
  const int attended = m.add(kAttention, name + "/attention", {qkv, qkv, qkv, mask});
  const int y = m.add(kMatrixMultiply, name + "/out", {attended, m.constant("w"), x});
  return m.add(kNormalization, name + "/norm", {y, m.constant("scale")});
}

TEST(Regions, ABertIsOneFromItsEmbeddingsToItsScore) {
  PlanMaker m;
  const int ids = m.input("ids"), mask = m.input("mask");
  const int words = m.add(kGather, "embedding", {m.constant("table"), ids});
  const int opened = m.add(kShuffle, "unsqueeze", {mask});
  const int added = m.add(kPointWise, "mask", {opened});
  int x = m.add(kNormalization, "norm", {words, m.constant("scale")});
  for (const char* name : {"0", "1"}) x = add_block(m, name, x, added);
  m.output(m.add(kShuffle, "squeeze", {m.add(kMatrixMultiply, "score", {x, m.constant("w")})}));
  const std::vector<Region> regions = find_regions(m.plan);
  ASSERT_EQ(regions.size(), 1u);
  EXPECT_EQ(regions[0].name, "{ForeignNode[embedding...squeeze]}");
  EXPECT_EQ(regions[0].steps.size(), m.plan.steps.size());
  EXPECT_NE(regions[0].reason.find("2 attention"), std::string::npos) << regions[0].reason;
  EXPECT_NE(regions[0].reason.find("5 products"), std::string::npos) << regions[0].reason;
  ASSERT_EQ(regions[0].before.size(), 2u);
  EXPECT_EQ(regions[0].before[0].step, kNoStep);
  EXPECT_EQ(regions[0].before[0].reason, "an input of the network");
  ASSERT_EQ(regions[0].after.size(), 1u);
  EXPECT_EQ(regions[0].after[0].step, kNoStep);
}

TEST(Regions, ConvolutionNetworksHaveNone) {
  PlanMaker m;
  int x = m.input("x");
  for (const char* name : {"a", "b"}) {
    x = m.add(kConvolution, name, {x, m.constant("w")});
    x = m.add(kPointWise, std::string(name) + " act", {x});
  }
  x = m.add(kMatrixMultiply, "dense", {m.add(kShuffle, "flatten", {x}), m.constant("w")});
  m.output(m.add(kNormalization, "norm", {x}));
  EXPECT_TRUE(find_regions(m.plan).empty());
}

// Patches of an image come by convolution; what moves them stays with it.
TEST(Regions, MovementAtAnEndStaysWithTheConvolution) {
  PlanMaker m;
  const int image = m.input("image"), mask = m.input("mask");
  const int patches = m.add(kConvolution, "patches", {image, m.constant("w")});
  const int rows = m.add(kShuffle, "rows", {patches});
  const int placed = m.add(kPointWise, "positions", {rows});
  int x = m.add(kNormalization, "norm", {placed, m.constant("scale")});
  x = add_block(m, "0", x, mask);
  const int back = m.add(kShuffle, "image again", {x});
  m.output(m.add(kConvolution, "head", {back, m.constant("w")}));
  const std::vector<Region> regions = find_regions(m.plan);
  ASSERT_EQ(regions.size(), 1u);
  EXPECT_EQ(m.names(regions[0]),
            (std::vector<std::string>{"norm", "0/qkv", "0/attention", "0/out", "0/norm"}));
  const RegionBorder* before = border(regions[0].before, m.step("positions"));
  ASSERT_NE(before, nullptr);
  EXPECT_NE(before->reason.find("stays with patches"), std::string::npos) << before->reason;
  const RegionBorder* after = border(regions[0].after, m.step("image again"));
  ASSERT_NE(after, nullptr);
  EXPECT_NE(after->reason.find("stays with head"), std::string::npos) << after->reason;
}

TEST(Regions, AttentionAloneIsNone) {
  PlanMaker m;
  const int x = m.add(kConvolution, "conv", {m.input("x"), m.constant("w")});
  const int y = m.add(kAttention, "attention", {x, x, x});
  m.output(m.add(kConvolution, "next", {y, m.constant("w")}));
  EXPECT_TRUE(find_regions(m.plan).empty());
}

// A search between two blocks: each is one, and each says where the other is.
TEST(Regions, ALayerOfAnotherKindSplits) {
  PlanMaker m;
  const int mask = m.input("mask");
  const int x = add_block(m, "0", m.input("x"), mask);
  const int best = m.add(kTopK, "search", {x, m.constant("k")});
  m.output(add_block(m, "1", best, mask));
  const std::vector<Region> regions = find_regions(m.plan);
  ASSERT_EQ(regions.size(), 2u);
  EXPECT_EQ(regions[0].name, "{ForeignNode[0/qkv...0/norm]}");
  EXPECT_EQ(regions[1].name, "{ForeignNode[1/qkv...1/norm]}");
  const RegionBorder* end = border(regions[0].after, m.step("search"));
  ASSERT_NE(end, nullptr);
  EXPECT_EQ(end->reason, "TopK: searches");
}

// The residual leads around the search: the halves still are two, since what is between them reads
// the first and is read by the second.
TEST(Regions, NoneWaitsForItself) {
  PlanMaker m;
  const int mask = m.input("mask");
  const int x = add_block(m, "0", m.input("x"), mask);
  const int best = m.add(kTopK, "search", {x, m.constant("k")});
  const int both = m.add(kPointWise, "add", {best, x});
  m.output(add_block(m, "1", both, mask));
  const std::vector<Region> regions = find_regions(m.plan);
  ASSERT_EQ(regions.size(), 2u);
  EXPECT_EQ(m.names(regions[0]).back(), "0/norm");
}

TEST(Regions, AMaskMadeEarlyBelongsToTheAttentionThatReadsIt) {
  PlanMaker m;
  const int mask = m.add(kPointWise, "mask", {m.input("mask")});
  const int x = m.add(kConvolution, "conv", {m.input("x"), m.constant("w")});
  const int y = m.add(kNormalization, "norm", {x, m.constant("scale")});
  m.output(add_block(m, "0", y, mask));
  const std::vector<Region> regions = find_regions(m.plan);
  ASSERT_EQ(regions.size(), 1u);
  EXPECT_EQ(regions[0].name, "{ForeignNode[mask...0/norm]}");
}

// Steps reached from a region by paths through steps outside it.
bool comes_back(const engine::Plan& plan, const Region& region) {
  std::vector<int> maker(plan.tensors.size(), kNoStep);
  std::vector<bool> inside(plan.steps.size()), behind(plan.steps.size());
  for (const int k : region.steps) inside[k] = true;
  for (size_t k = 0; k < plan.steps.size(); ++k) {
    bool reads_inside = false, reads_behind = false;
    for (const int input : plan.steps[k].inputs) {
      if (maker[input] == kNoStep) continue;
      reads_inside |= inside[maker[input]];
      reads_behind |= behind[maker[input]];
    }
    if (inside[k] && reads_behind) return true;
    behind[k] = !inside[k] && (reads_inside || reads_behind);
    for (const int output : plan.steps[k].outputs) maker[output] = static_cast<int>(k);
  }
  return false;
}

TEST(Regions, OfRandomPlansNoneComesBackAndNoStepIsInTwo) {
  constexpr ir::LayerKind kKinds[] = {kMatrixMultiply, kAttention, kNormalization, kPointWise,
                                      kShuffle,        kTopK,      kConvolution,   kPointWise};
  size_t found = 0;
  for (uint32_t seed = 0; seed < 500; ++seed) {
    std::mt19937 random(seed);
    PlanMaker m;
    std::vector<int> made = {m.input("x")};
    for (int k = 0; k < 40; ++k) {
      const auto pick = [&] {
        return made[made.size() - 1 - random() % std::min<size_t>(made.size(), 5)];
      };
      made.push_back(
          m.add(kKinds[random() % std::size(kKinds)], "s" + std::to_string(k), {pick(), pick()}));
    }
    m.output(made.back());
    const std::vector<Region> regions = find_regions(m.plan);
    found += regions.size();
    std::vector<int> owners(m.plan.steps.size());
    for (const Region& region : regions) {
      EXPECT_FALSE(comes_back(m.plan, region)) << seed;
      for (const int step : region.steps) EXPECT_EQ(owners[step]++, 0) << seed;
      EXPECT_FALSE(region.before.empty());
    }
  }
  EXPECT_GT(found, 300u);
}

}  // namespace
}  // namespace camshaft::tuner
