// SPDX-License-Identifier: Apache-2.0
#include "serve/model_config.h"

#include <gtest/gtest.h>

#include "serve/http_api.h"
#include "serve/proto_json.h"

namespace camshaft::serve {
namespace {

TensorInfo tensor(const char* name, Dims dims, std::vector<std::string> symbols) {
  return {name, DataType::kFloat, true, std::move(dims), std::move(symbols)};
}

NetworkFacts images() {
  return {{tensor("x", {-1, 3, -1, -1}, {"n", "", "h", "w"})},
          {tensor("y", {-1, 10}, {"n", ""})},
          0,
          "camshaft_onnx"};
}

GivenConfig parsed(const std::string& text) {
  Result<GivenConfig> given = parse_config_text(text);
  EXPECT_TRUE(given.ok()) << given.status().message();
  return std::move(given).value();
}

std::string complaint(const std::string& text, const NetworkFacts& network) {
  GivenConfig given = parsed(text);
  return complete_config(given, "m", network, 16).message();
}

TEST(ModelConfig, ANetworkSaysItAll) {
  GivenConfig given;
  ASSERT_TRUE(complete_config(given, "m", images(), 8).ok());
  EXPECT_EQ(given.config.max_batch_size(), 8);
  EXPECT_TRUE(given.config.has_dynamic_batching());
  ASSERT_EQ(given.config.input_size(), 1);
  EXPECT_EQ(given.config.input(0).dims_size(), 3);
  EXPECT_EQ(given.config.input(0).data_type(), inference::TYPE_FP32);
  EXPECT_EQ(given.config.instance_group(0).count(), 1);
}

TEST(ModelConfig, NoBatchWhereFirstExtentsDiffer) {
  NetworkFacts network = images();
  network.outputs[0].symbols[0] = "boxes";
  GivenConfig given;
  ASSERT_TRUE(complete_config(given, "m", network, 8).ok());
  EXPECT_EQ(given.config.max_batch_size(), 0);
  EXPECT_EQ(given.config.input(0).dims_size(), 4);
}

TEST(ModelConfig, UnknownFieldsAreNoted) {
  const GivenConfig given =
      parsed("max_batch_size: 4\noptimization { cuda { graphs: true } }\nwhat: 3");
  EXPECT_EQ(given.config.max_batch_size(), 4);
  ASSERT_EQ(given.notes.size(), 2u);
  EXPECT_NE(given.notes[0].find("optimization"), std::string::npos);
}

TEST(ModelConfig, ErrorsSayWhere) {
  EXPECT_NE(parse_config_text("max_batch_size: x").status().message().find("config.pbtxt:1:17"),
            std::string::npos);
  EXPECT_NE(complaint("name: 'other'", images()).find("'other'"), std::string::npos);
  EXPECT_NE(complaint("sequence_batching {}", images()).find("sequence_batching"),
            std::string::npos);
  EXPECT_NE(complaint("max_batch_size: 4 input { name: 'q' }", images()).find("no input 'q'"),
            std::string::npos);
  EXPECT_NE(complaint("max_batch_size: 4 input { name: 'x' data_type: TYPE_INT8 }", images())
                .find("TYPE_INT8"),
            std::string::npos);
  EXPECT_NE(
      complaint("max_batch_size: 4 input { name: 'x' dims: [1, 8, 8] }", images()).find("1x8x8"),
      std::string::npos);
  NetworkFacts engine = images();
  engine.batch_bound = 2;
  EXPECT_NE(complaint("max_batch_size: 4", engine).find("batches up to 2"), std::string::npos);
  EXPECT_NE(complaint("instance_group { count: 1000 }", images()).find("1000 instances"),
            std::string::npos);
}

TEST(ModelConfig, ShapesToBuildFor) {
  GivenConfig given = parsed("max_batch_size: 4 input { name: 'x' dims: [3, 32, -1] }");
  ASSERT_TRUE(complete_config(given, "m", images(), 16).ok());
  EXPECT_NE(build_profiles(given.config, images().inputs).status().message().find("max_shapes"),
            std::string::npos);
  (*given.config.mutable_parameters())["max_shapes"].set_string_value("x:1x3x32x64");
  (*given.config.mutable_parameters())["min_shapes"].set_string_value("x:1x3x32x16");
  const auto profiles = build_profiles(given.config, images().inputs);
  ASSERT_TRUE(profiles.ok()) << profiles.status().message();
  ASSERT_EQ(profiles->size(), 2u);
  EXPECT_EQ((*profiles)[0][0].min, (Dims{1, 3, 32, 16}));
  EXPECT_EQ((*profiles)[0][0].opt, (Dims{1, 3, 32, 64}));
  EXPECT_EQ((*profiles)[1][0].opt, (Dims{4, 3, 32, 64}));
  EXPECT_EQ((*profiles)[1][0].max, (Dims{4, 3, 32, 64}));
}

TEST(ModelConfig, JsonHasNumbersAndDefaults) {
  const GivenConfig given = parsed(
      "name: 'm' version_policy { specific { versions: [1, 3] } } parameters { key: 'a' value { "
      "string_value: 'b' } }");
  const auto json = to_json(given.config);
  EXPECT_EQ(json["max_batch_size"], 0);
  EXPECT_EQ(json["version_policy"]["specific"]["versions"], (std::vector<int>{1, 3}));
  EXPECT_EQ(json["parameters"]["a"]["string_value"], "b");
  EXPECT_FALSE(json.contains("sequence_batching"));
}

TEST(Unpack, BoundsWhatComesOut) {
  std::string body;
  EXPECT_TRUE(unpack("no gzip", 100, body).has_value());
  EXPECT_TRUE(unpack("", 100, body).has_value());
}

}  // namespace
}  // namespace camshaft::serve
