// SPDX-License-Identifier: Apache-2.0
#include "inspect/layer_json.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "inspect/layers.h"
#include "inspect/parameters.h"

namespace camshaft::inspect {
namespace {

using Json = nlohmann::ordered_json;
using EnginePtr = std::shared_ptr<const engine::Engine>;

TEST(PrettyJson, ListsOfNumbersAndSmallObjectsStandOnOneLine) {
  const Json value = {
      {"Name", "a\"b"},
      {"Inputs", Json::array({{{"Name", "x"}, {"Location", "Host"}, {"Dimensions", {1, 3}}}})},
      {"Weights", {{"Type", "Float"}, {"Count", 12}}},
      {"Empty", Json::array()}};
  EXPECT_EQ(pretty_json(value),
            "{\n"
            "  \"Name\": \"a\\\"b\",\n"
            "  \"Inputs\": [\n"
            "  {\n"
            "    \"Name\": \"x\",\n"
            "    \"Location\": \"Host\",\n"
            "    \"Dimensions\": [1,3]\n"
            "  }],\n"
            "  \"Weights\": {\"Type\": \"Float\", \"Count\": 12},\n"
            "  \"Empty\": []\n"
            "}");
}

TEST(PrettyJson, BrokenUtf8AndControlCharactersStayValid) {
  const Json value = {{"Name", std::string("a\xff\x1e")}};
  EXPECT_EQ(Json::parse(pretty_json(value)).at("Name"), "a\uFFFD\x1e");
}

ir::Program epilogue(std::vector<ir::Instruction> code, int inputs = 1) {
  ir::Program program;
  program.num_inputs = inputs;
  program.code = std::move(code);
  return program;
}

TEST(ActivationName, PlainNamesOnlyForPlainEpilogues) {
  using ir::PointOp;
  EXPECT_EQ(activation_name({}), "NONE");
  EXPECT_EQ(activation_name(epilogue({{PointOp::kRelu, 0}})), "RELU");
  EXPECT_EQ(activation_name(epilogue({{PointOp::kAdd, 0, 1}, {PointOp::kRelu, 2}}, 2)), "RELU");
  EXPECT_EQ(activation_name(epilogue({{PointOp::kAdd, 0, 1}}, 2)), "NONE");
  EXPECT_EQ(activation_name(epilogue({{PointOp::kClip, 0, -1, -1, 0, 6}})), "CLIPPED_RELU");
  EXPECT_EQ(activation_name(epilogue({{PointOp::kSilu, 0, -1, -1, 1, 0}})), "SILU");
  EXPECT_EQ(activation_name(epilogue({{PointOp::kRelu, 0}, {PointOp::kExp, 1}})), "GENERIC");
}

TEST(LayerLine, FormOfTheVerboseLog) {
  LayerInfo layer;
  layer.name = "conv1 + relu1";
  layer.type = "Convolution";
  layer.tactic_value = 0x3e8;
  layer.inputs = {{"x", DataType::kFloat, {1, 3, 8, 8}, ""}};
  layer.outputs = {{"y", DataType::kInt64, {}, ""}};
  EXPECT_EQ(layer_line(layer),
            "Layer(Convolution): conv1 + relu1, Tactic: 0x00000000000003e8, x (Float[1,3,8,8]) -> "
            "y (Int64[])");
  layer.inputs.clear();
  EXPECT_EQ(layer_line(layer),
            "Layer(Convolution): conv1 + relu1, Tactic: 0x00000000000003e8, -> y (Int64[])");
}

// A reformat, a convolution with ReLU and a view, as a tuner could have planned them.
EnginePtr small_engine() {
  engine::EngineParts parts;
  engine::Plan& plan = parts.plan;
  auto tensor = [&](const char* name, engine::TensorRole role, ir::Shape shape, ir::Format format) {
    engine::PlanTensor result;
    result.name = name;
    result.type = ir::DataType::kFloat;
    result.format = format;
    result.role = role;
    result.shape = shape;
    plan.tensors.push_back(result);
    return static_cast<int>(plan.tensors.size()) - 1;
  };
  using engine::TensorRole;
  const ir::Dim batch = plan.symbols.input("batch");
  const int x = tensor("x", TensorRole::kInput, {batch, 3, 8, 8}, ir::Format::kLinear);
  const int last = tensor("Reformatted Input Tensor 0 to conv1 + relu1", TensorRole::kActivation,
                          {batch, 3, 8, 8}, ir::Format::kChannelLast);
  const int w = tensor("w", TensorRole::kConstant, {16, 3, 3, 3}, ir::Format::kLinear);
  const int y =
      tensor("conv", TensorRole::kActivation, {batch, 16, 8, 8}, ir::Format::kChannelLast);
  const int out = tensor("y", TensorRole::kOutput, {batch, 16, 64}, ir::Format::kLinear);
  plan.tensors[w].data_bytes = 16 * 27 * 4;
  parts.weights.add(plan.tensors[w].data_bytes, [](std::byte*) {});
  plan.tensors[out].parent = y;
  plan.inputs = {x};
  plan.outputs = {out};
  auto step = [&](ir::LayerKind kind, const char* name, std::vector<int> inputs,
                  int output) -> engine::PlanStep& {
    plan.steps.emplace_back();
    engine::PlanStep& result = plan.steps.back();
    result.layer.kind = kind;
    result.layer.name = name;
    result.layer.attrs = ir::default_attrs(kind);
    result.inputs = std::move(inputs);
    result.outputs = {output};
    return result;
  };
  step(ir::LayerKind::kReformat, "Reformatting CopyNode for Input Tensor 0 to conv1 + relu1", {x},
       last)
      .tactic = "reformat_copy";
  engine::PlanStep& conv =
      step(ir::LayerKind::kConvolution, "conv1 + relu1", {last, w, engine::kNoTensor}, y);
  auto& attrs = conv.layer.as<ir::ConvolutionAttrs>();
  attrs.kernel = {3, 3};
  attrs.stride = attrs.dilation = attrs.pre_padding = attrs.post_padding = {1, 1};
  attrs.epilogue = epilogue({{ir::PointOp::kRelu, 0}});
  conv.layer.onnx_nodes = {"conv1", "relu1"};
  conv.tactic = "conv_gemm_nhwc_f32_6x16";
  conv.isa = Isa::kAvx2;
  conv.tactic_value = 0x9251329244d2a80b;
  conv.build_time_us = 12.5;
  engine::PlanStep& view = step(ir::LayerKind::kShuffle, "flatten", {y}, out);
  view.is_view = true;
  parts.record.peak_gmacs = 36;
  auto engine = engine::Engine::load(engine::serialize(std::move(parts)));
  EXPECT_TRUE(engine.ok()) << engine.status().message();
  return engine.ok() ? engine.value() : nullptr;
}

TEST(EngineJson, GoldenDocument) {
  const EnginePtr engine = small_engine();
  ASSERT_TRUE(engine);
  const auto layers = collect_layers(*engine, nullptr);
  EXPECT_EQ(engine_json(*engine, layers, {}, Verbosity::kLayerNamesOnly),
            "{\"Layers\": [\"Reformatting CopyNode for Input Tensor 0 to conv1 + relu1\"\n"
            ",\"conv1 + relu1\"\n"
            ",\"flatten\"\n"
            "],\n"
            "\"Bindings\": [\"x\"\n"
            ",\"y\"\n"
            "]}\n");
  EXPECT_EQ(engine_json(*engine, layers, {}, Verbosity::kDetailed), R"({"Layers": [{
  "Name": "Reformatting CopyNode for Input Tensor 0 to conv1 + relu1",
  "LayerType": "Reformat",
  "Inputs": [
  {
    "Name": "x",
    "Location": "Host",
    "Dimensions": [-1,3,8,8],
    "Format/Datatype": "Row major linear FP32"
  }],
  "Outputs": [
  {
    "Name": "Reformatted Input Tensor 0 to conv1 + relu1",
    "Location": "Host",
    "Dimensions": [-1,3,8,8],
    "Format/Datatype": "Channel major FP32 format"
  }],
  "ParameterType": "Reformat",
  "Origin": "REFORMAT",
  "TacticName": "reformat_copy",
  "TacticValue": "0x0000000000000000",
  "StreamId": 0,
  "Metadata": "",
  "Precision": "Float",
  "Isa": "scalar",
  "FLOPs": 0,
  "WeightBytes": 0,
  "SourceNodes": []
},{
  "Name": "conv1 + relu1",
  "LayerType": "Convolution",
  "Inputs": [
  {
    "Name": "Reformatted Input Tensor 0 to conv1 + relu1",
    "Location": "Host",
    "Dimensions": [-1,3,8,8],
    "Format/Datatype": "Channel major FP32 format"
  }],
  "Outputs": [
  {
    "Name": "conv",
    "Location": "Host",
    "Dimensions": [-1,16,8,8],
    "Format/Datatype": "Channel major FP32 format"
  }],
  "ParameterType": "Convolution",
  "Kernel": [3,3],
  "PaddingMode": "kEXPLICIT_ROUND_DOWN",
  "PrePadding": [1,1],
  "PostPadding": [1,1],
  "Stride": [1,1],
  "Dilation": [1,1],
  "OutMaps": 16,
  "Groups": 1,
  "Weights": {"Type": "Float", "Count": 432},
  "Bias": {"Type": "Float", "Count": 0},
  "HasBias": 0,
  "HasReLU": 1,
  "HasSparseWeights": 0,
  "HasDynamicFilter": 0,
  "HasDynamicBias": 0,
  "HasResidual": 0,
  "ConvXAsActInputIdx": -1,
  "BiasAsActInputIdx": -1,
  "ResAsActInputIdx": -1,
  "Activation": "RELU",
  "Epilogue": "v1 = relu v0",
  "TacticName": "conv_gemm_nhwc_f32_6x16",
  "TacticValue": "0x9251329244d2a80b",
  "StreamId": 0,
  "Metadata": "[ONNX Layer: conv1]\u001e[ONNX Layer: relu1]",
  "Precision": "Float",
  "Isa": "avx2",
  "WeightBytes": 1728,
  "TimeUs": 12.5,
  "SourceNodes": [
    "conv1",
    "relu1"]
},{
  "Name": "flatten",
  "LayerType": "NoOp",
  "Inputs": [
  {
    "Name": "conv",
    "Location": "Host",
    "Dimensions": [-1,16,8,8],
    "Format/Datatype": "Channel major FP32 format"
  }],
  "Outputs": [
  {
    "Name": "y",
    "Location": "Host",
    "Dimensions": [-1,16,64],
    "Format/Datatype": "Row major linear FP32"
  }],
  "TacticValue": "0x0000000000000000",
  "StreamId": 0,
  "Metadata": "",
  "Precision": "Float",
  "FLOPs": 0,
  "Bytes": 0,
  "WeightBytes": 0,
  "SourceNodes": []
}],
"Bindings": ["x"
,"y"
]}
)");
}

TEST(EngineText, OneLinePerLayer) {
  const EnginePtr engine = small_engine();
  ASSERT_TRUE(engine);
  const auto layers = collect_layers(*engine, nullptr);
  EXPECT_EQ(layer_text(*engine, layers[0]),
            "Name: Reformatting CopyNode for Input Tensor 0 to conv1 + relu1, LayerType: Reformat, "
            "Inputs: [ { Name: x, "
            "Location: Host, Dimensions: [-1,3,8,8], Format/Datatype: Row major linear FP32 }], "
            "Outputs: [ { Name: Reformatted "
            "Input Tensor 0 to conv1 + relu1, Location: Host, Dimensions: [-1,3,8,8], "
            "Format/Datatype: Channel major FP32 format "
            "}], ParameterType: Reformat, Origin: REFORMAT, TacticName: reformat_copy, "
            "TacticValue: 0x0000000000000000, StreamId: "
            "0, Metadata: , Precision: Float, Isa: scalar, FLOPs: 0, WeightBytes: 0");
  const std::string text = engine_text(*engine, layers, {}, Verbosity::kDetailed);
  EXPECT_TRUE(text.starts_with("Layers:\nName: Reformatting"));
  EXPECT_TRUE(text.ends_with("\n\nBindings:\nx\ny\n"));
  EXPECT_NE(text.find("Metadata: [ONNX Layer: conv1][ONNX Layer: relu1]"), std::string::npos);
}

}  // namespace
}  // namespace camshaft::inspect
