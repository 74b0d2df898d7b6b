// SPDX-License-Identifier: Apache-2.0
#include "ep/options.h"

#include <fstream>

#include <gtest/gtest.h>

#include "ep/context_node.h"
#include "ep/engine_key.h"

namespace camshaft::ep {
namespace {

Result<Options> read(const std::string& key, const std::string& value) {
  return read_options({{kOptionPrefix + key, value}});
}

TEST(Options, AreReadFromSessionEntries) {
  const auto options = read_options({{std::string(kOptionPrefix) + "threads", "3"},
                                     {std::string(kOptionPrefix) + "bf16", "1"},
                                     {"session.intra_op.allow_spinning", "0"},
                                     {"ep.context_enable", "1"},
                                     {"ep.other.bf16", "nonsense"}});
  ASSERT_TRUE(options.ok()) << options.status().message();
  EXPECT_EQ(options->threads, 3);
  EXPECT_TRUE(options->build.bf16);
  EXPECT_EQ(options->spin_us, 0);
  EXPECT_TRUE(options->context_enable);
  EXPECT_FALSE(options->context_embed);
}

TEST(Options, ShapesAreOneProfile) {
  const auto options =
      read_options({{std::string(kOptionPrefix) + "profile_opt_shapes", "a:0:2x3,b:"},
                    {std::string(kOptionPrefix) + "profile_max_shapes", "a:0:8x3"}});
  ASSERT_TRUE(options.ok()) << options.status().message();
  const OptimizationProfile& profile = options->build.profiles.at(0);
  ASSERT_EQ(profile.size(), 2u);
  EXPECT_EQ(profile[0].input, "a:0");
  EXPECT_EQ(profile[0].min, (Dims{2, 3}));
  EXPECT_EQ(profile[0].max, (Dims{8, 3}));
  EXPECT_EQ(profile[1].opt, Dims{});
}

TEST(Options, WhatIsWrongIsSaid) {
  for (const auto& [key, value] : {std::pair{"speed", "1"},
                                   {"threads", "-1"},
                                   {"threads", "99999999"},
                                   {"cache", "maybe"},
                                   {"optimization_level", "6"},
                                   {"profile_opt_shapes", ":1x2"},
                                   {"profile_opt_shapes", "x:1xx2"},
                                   {"profile_min_shapes", "x:1"}}) {
    const auto options = read(key, value);
    EXPECT_FALSE(options.ok()) << key;
    EXPECT_EQ(options.status().code(), ErrorCode::kInvalidArgument);
  }
  EXPECT_NE(read("speed", "1").status().message().find("there are threads"), std::string::npos);
}

onnx_import::Model relu(const std::string& input) {
  auto graph = std::make_shared<onnx_import::GraphDef>();
  graph->nodes.push_back({"relu", "Relu", "", {input}, {"y"}, {}});
  onnx_import::Model model;
  model.graph = std::move(graph);
  return model;
}

TEST(EngineKey, DependsOnAllThatChangesAnEngine) {
  const std::string key = engine_key(relu("x"), "threads=1");
  EXPECT_EQ(key, engine_key(relu("x"), "threads=1"));
  EXPECT_NE(key, engine_key(relu("x2"), "threads=1"));
  EXPECT_NE(key, engine_key(relu("x"), "threads=2"));
  EXPECT_EQ(key.size(), 34u);
}

// One flipped bit anywhere in the weights, at any length, is another model.
TEST(EngineKey, SeesEveryBitOfTheWeights) {
  for (size_t size : {1u, 7u, 8u, 9u, 15u, 16u, 17u, 40u}) {
    std::vector<std::byte> weights(size);
    const auto key = [&] {
      auto graph = std::make_shared<onnx_import::GraphDef>();
      onnx_import::TensorDef tensor;
      tensor.raw = weights;
      graph->initializers.push_back(tensor);
      onnx_import::Model model;
      model.graph = graph;
      return engine_key(model, "");
    };
    const std::string before = key();
    for (size_t bit = 0; bit < 8 * size; ++bit) {
      weights[bit / 8] ^= std::byte(1 << bit % 8);
      EXPECT_NE(key(), before) << size << " bytes, bit " << bit;
      weights[bit / 8] ^= std::byte(1 << bit % 8);
    }
  }
}

TEST(Compatibility, IsJudgedByVersionAndMachine) {
  const std::string own = compatibility_text(false);
  EXPECT_EQ(judge_compatibility(own), abi::kOptimal);
  EXPECT_EQ(judge_compatibility("somebody else's"), abi::kNotApplicable);
  EXPECT_EQ(judge_compatibility("camshaft 0.1"), abi::kUnsupported);
  EXPECT_EQ(judge_compatibility("camshaft 99.0.0" + own.substr(own.find(';'))), abi::kUnsupported);
  const std::string head = own.substr(0, own.find("; isa"));
  EXPECT_EQ(judge_compatibility(head + "; isa scalar; cpu another"), abi::kPreferRecompilation);
  EXPECT_EQ(judge_compatibility(head + "; isa any; cpu another"), abi::kPreferRecompilation);
  EXPECT_EQ(judge_compatibility(head + "; isa avx9000; cpu another"), abi::kUnsupported);
}

}  // namespace
}  // namespace camshaft::ep
