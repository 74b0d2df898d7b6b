// SPDX-License-Identifier: Apache-2.0
#include "inspect/layer_json.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "inspect/parameters.h"

namespace camshaft::inspect {
namespace {

using Json = nlohmann::ordered_json;

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

}  // namespace
}  // namespace camshaft::inspect
