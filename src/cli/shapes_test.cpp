// SPDX-License-Identifier: Apache-2.0
#include "cli/shapes.h"

#include <gtest/gtest.h>

namespace camshaft::cli {
namespace {

TensorInfo input(std::string name, Dims dims) {
  TensorInfo info;
  info.name = std::move(name);
  info.type = DataType::kFloat;
  info.dims = std::move(dims);
  info.symbols.resize(info.dims.size());
  return info;
}

TEST(Shapes, Parsing) {
  const NamedShapes shapes =
      parse_shapes("x:1x3x224x224,'odd:name':2,input:0:4x4,s:scalar,t:", "--shapes").value();
  ASSERT_EQ(shapes.size(), 5u);
  EXPECT_EQ(shapes[0], (std::pair<std::string, Dims>("x", {1, 3, 224, 224})));
  EXPECT_EQ(shapes[1], (std::pair<std::string, Dims>("odd:name", {2})));
  EXPECT_EQ(shapes[2], (std::pair<std::string, Dims>("input:0", {4, 4})));
  EXPECT_EQ(shapes[3].second, Dims{});
  EXPECT_EQ(shapes[4].second, Dims{});
}

TEST(Shapes, Errors) {
  auto error = [](const char* text) { return parse_shapes(text, "--shapes").status().message(); };
  EXPECT_EQ(error("x"), "--shapes: 'x' is not name:value");
  EXPECT_EQ(error("x:1xa"), "--shapes: '1xa' is not a shape like 1x3x224x224");
  EXPECT_EQ(error("x:1x-3"), "--shapes: '1x-3' is not a shape like 1x3x224x224");
  EXPECT_EQ(error("x:1x"), "--shapes: '1x' is not a shape like 1x3x224x224");
  EXPECT_EQ(error("*a*:1"), "--shapes: '*a*' has more than one *");
  EXPECT_FALSE(parse_shapes("", "--shapes").ok());
}

TEST(Shapes, ExactNamesWinOverPatterns) {
  const NamedShapes shapes = parse_shapes("past_*:1,past_0:2,*:3", "--shapes").value();
  EXPECT_EQ(*find_shape(shapes, "past_0"), Dims{2});
  EXPECT_EQ(*find_shape(shapes, "past_7"), Dims{1});
  EXPECT_EQ(*find_shape(shapes, "x"), Dims{3});
  EXPECT_FALSE(matches_pattern("ab*ba", "aba"));
  EXPECT_TRUE(matches_pattern("ab*ba", "abba"));
}

TEST(Profiles, WhatIsNotGivenComesFromWhatIs) {
  std::vector<std::string> warnings;
  const std::vector<TensorInfo> inputs = {input("x", {-1, 3}), input("y", {2})};
  auto profile = [&](NamedShapes min, NamedShapes opt, NamedShapes max) {
    return make_profiles({{std::move(min), std::move(opt), std::move(max)}}, inputs, warnings)
        .value()[0][0];
  };
  ShapeRange range = profile({}, {{"x", {4, 3}}}, {});
  EXPECT_EQ(range.min, (Dims{4, 3}));
  EXPECT_EQ(range.max, (Dims{4, 3}));
  range = profile({{"x", {1, 3}}}, {}, {{"x", {8, 3}}});
  EXPECT_EQ(range.min, (Dims{1, 3}));
  EXPECT_EQ(range.opt, (Dims{8, 3}));
  EXPECT_TRUE(warnings.empty());
}

TEST(Profiles, DynamicInputsWithoutShapesGetOnesAndAWarning) {
  std::vector<std::string> warnings;
  const auto profiles = make_profiles({}, {input("x", {-1, 3, -1})}, warnings).value();
  ASSERT_EQ(profiles.size(), 1u);
  EXPECT_EQ(profiles[0][0].opt, (Dims{1, 3, 1}));
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0], "no shapes were given for the dynamic input 'x': building for 1x3x1");
}

TEST(Profiles, StaticNetworksNeedNone) {
  std::vector<std::string> warnings;
  EXPECT_TRUE(make_profiles({}, {input("x", {1, 3})}, warnings).value().empty());
  EXPECT_EQ(make_profiles({{{}, {{"imput", {1}}}, {}}}, {input("input", {-1})}, warnings)
                .status()
                .message(),
            "--optShapes: the model has no input 'imput'; did you mean 'input'?");
}

}  // namespace
}  // namespace camshaft::cli
