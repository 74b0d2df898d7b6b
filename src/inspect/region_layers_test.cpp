// SPDX-License-Identifier: Apache-2.0
#include "inspect/region_layers.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "inspect/layer_json.h"
#include "inspect/layers.h"

namespace camshaft::inspect {
namespace {

using ir::LayerKind;
using ir::PointOp;

engine::PlanStep step_of(LayerKind kind, std::vector<std::string> nodes) {
  engine::PlanStep step;
  step.layer.kind = kind;
  step.layer.name = "layer of " + nodes[0];
  step.layer.attrs = ir::default_attrs(kind);
  step.layer.onnx_nodes = std::move(nodes);
  step.build_time_us = 2;
  return step;
}

// Gather → product, merged → product with GELU → pointwise → view, then a pooling outside.
engine::EngineParts sample() {
  engine::EngineParts parts;
  engine::Plan& plan = parts.plan;
  for (int k = 0; k < 7; ++k) {
    engine::PlanTensor tensor;
    tensor.name = "t" + std::to_string(k);
    tensor.type = ir::DataType::kFloat;
    tensor.shape = {1, 4};
    plan.tensors.push_back(tensor);
  }
  plan.tensors[0].role = engine::TensorRole::kInput;
  plan.tensors[6].role = engine::TensorRole::kOutput;
  plan.steps.push_back(step_of(LayerKind::kGather, {"/embedding/Gather"}));
  plan.steps.push_back(
      step_of(LayerKind::kMatrixMultiply, {"/layers.0/query/MatMul", "/layers.0/query/Add",
                                           "/layers.0/key/MatMul", "/layers.0/key/Add"}));
  plan.steps.push_back(
      step_of(LayerKind::kMatrixMultiply, {"/layers.0/ff/MatMul", "/layers.0/Erf"}));
  plan.steps[2].layer.as<ir::MatrixMultiplyAttrs>().epilogue = {1, {{PointOp::kGelu, 0}}};
  plan.steps.push_back(step_of(LayerKind::kPointWise, {"/Mul"}));
  plan.steps[3].layer.as<ir::PointWiseAttrs>().program = {
      1, {{PointOp::kConst}, {PointOp::kMul, 0, 1}, {PointOp::kHardSigmoid, 2}}};
  plan.steps.push_back(step_of(LayerKind::kShuffle, {"/Squeeze"}));
  plan.steps[4].layer.as<ir::ShuffleAttrs>().has_reshape = true;
  plan.steps[4].is_view = true;
  plan.steps[4].build_time_us = 0;
  plan.tensors[5].parent = 4;
  plan.steps.push_back(step_of(LayerKind::kPooling, {"/Pool"}));
  for (int k = 0; k < 6; ++k) {
    plan.steps[k].inputs = {k};
    plan.steps[k].outputs = {k + 1};
  }
  plan.inputs = {0};
  plan.outputs = {6};
  plan.regions = {{"{ForeignNode[/embedding/Gather.../Squeeze]}",
                   {0, 1, 2, 3, 4},
                   "because",
                   {{0, engine::kNoStep, "an input of the network"}},
                   {{5, 5, "Pooling: works on images"}}}};
  return parts;
}

std::shared_ptr<const engine::Engine> sample_engine() {
  const auto engine = engine::Engine::load(engine::serialize(sample()));
  EXPECT_TRUE(engine.ok()) << engine.status().message();
  return engine.ok() ? engine.value() : nullptr;
}

TEST(RegionLayers, NamesAndTypesInTensorRtsManner) {
  const auto engine = sample_engine();
  ASSERT_NE(engine, nullptr);
  const std::vector<LayerInfo> layers = collect_layers(*engine, nullptr);
  const std::pair<const char*, const char*> expected[] = {
      {"__myl_Gath_myl0_0", "kgen"},
      {"/layers_0/query/MatMul+/layers_0/key/MatMul_myl0_1", "gemm"},
      {"__myl_Fc_myl0_2", "fusion"},
      {"__myl_MulHard_myl0_3", "kgen"},
      {"__myl_Resh_myl0_4", "NoOp"}};
  for (size_t k = 0; k < std::size(expected); ++k) {
    EXPECT_EQ(layers[k].region, 0);
    EXPECT_EQ(layers[k].region_name, expected[k].first);
    EXPECT_EQ(layers[k].region_type, expected[k].second);
  }
  EXPECT_EQ(layers[5].region, -1);
  EXPECT_EQ(layers[5].region_name, "");
}

TEST(RegionLayers, ARegionIsOneEntryAmongNamesAndAllLayersInDetail) {
  const auto engine = sample_engine();
  ASSERT_NE(engine, nullptr);
  const std::vector<LayerInfo> layers = collect_layers(*engine, nullptr);
  const std::vector<RegionInfo> regions = collect_regions(*engine, layers, nullptr);
  ASSERT_EQ(regions.size(), 1u);
  EXPECT_EQ(regions[0].running, 4);
  EXPECT_EQ(regions[0].build_time_us, 8);
  EXPECT_EQ(regions[0].after[0].layer_name, "layer of /Pool");
  using Json = nlohmann::ordered_json;
  const Json names = Json::parse(engine_json(*engine, layers, regions, Verbosity::kLayerNamesOnly));
  EXPECT_EQ(names.at("Layers"),
            (Json{"{ForeignNode[/embedding/Gather.../Squeeze]}", "layer of /Pool"}));
  EXPECT_FALSE(names.contains("Regions"));
  const Json all = Json::parse(engine_json(*engine, layers, regions, Verbosity::kDetailed));
  ASSERT_EQ(all.at("Layers").size(), 6u);
  EXPECT_EQ(all.at("Layers")[1].at("Region"), regions[0].name);
  EXPECT_EQ(all.at("Layers")[1].at("RegionLayer").at("LayerType"), "gemm");
  EXPECT_FALSE(all.at("Layers")[5].contains("Region"));
  EXPECT_EQ(all.at("Regions")[0].at("After")[0].at("Reason"), "Pooling: works on images");
  const Json words =
      Json::parse(engine_json(*engine, layers, regions, Verbosity::kDetailed, Wording::kTrtexec10));
  EXPECT_FALSE(words.contains("Regions")) << "readers of trtexec's files know two keys";
  EXPECT_EQ(region_line(regions[0]),
            "Layer(Myelin): {ForeignNode[/embedding/Gather.../Squeeze]}, Tactic: "
            "0x0000000000000000, t0 (Float[1,4]) -> t5 (Float[1,4])");
  EXPECT_TRUE(engine_text(*engine, layers, regions, Verbosity::kLayerNamesOnly)
                  .starts_with("Layers:\n{ForeignNode[/embedding/Gather.../Squeeze]}\nlayer of"));
}

}  // namespace
}  // namespace camshaft::inspect
