// SPDX-License-Identifier: Apache-2.0
#include "cli/pieces.h"

#include <gtest/gtest.h>

namespace camshaft::cli {
namespace {

LayerInfo layer(const std::string& name, std::vector<std::string> nodes, const char* reads,
                const char* makes, double us) {
  LayerInfo info;
  info.name = name;
  info.source_nodes = std::move(nodes);
  info.inputs = {{reads, DataType::kFloat, {}, ""}};
  info.outputs = {{makes, DataType::kFloat, {}, ""}};
  info.build_time_us = us;
  return info;
}

// Of block b: a product whose codes a conversion makes, attention and the movement behind it.
std::vector<LayerInfo> quantized(int b) {
  const std::string p = "block" + std::to_string(b) + "/";
  return {layer(p + "Q", {p + "quantize"}, "x", (p + "q").c_str(), 1),
          layer(p + "MatMul", {p + "weight_quantizer", p + "matmul"}, (p + "q").c_str(),
                (p + "y").c_str(), 20),
          layer(p + "Attention", {p + "softmax"}, (p + "y").c_str(), (p + "a").c_str(), 16),
          layer(p + "Shuffle", {p + "transpose"}, (p + "a").c_str(), (p + "s").c_str(), 2)};
}

std::vector<LayerInfo> floats(int b) {
  const std::string p = "block" + std::to_string(b) + "/";
  return {layer(p + "MatMul", {p + "matmul"}, "x", "y", 80),
          layer(p + "Attention", {p + "softmax", p + "transpose"}, "y", "s", 17)};
}

TEST(Pieces, ConversionsGoWithTheirReadersAndSharedNodesMakeGroups) {
  const auto here = quantized(0), there = floats(0);
  const auto groups = match_pieces(here, there);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].here.size(), 2u);
  EXPECT_EQ(groups[0].here[0]->name, "block0/Q");
  ASSERT_EQ(groups[0].there.size(), 1u);
  EXPECT_EQ(groups[0].there[0]->name, "block0/MatMul");
  EXPECT_TRUE(groups[0].has_more_pieces());
  EXPECT_EQ(groups[0].here_us, 21);
  EXPECT_EQ(groups[0].there_us, 80);
  EXPECT_EQ(groups[0].extra_us(), 1);
  EXPECT_EQ(groups[1].here.size(), 2u);
  EXPECT_EQ(groups[1].extra_us(), 2);
}

TEST(Pieces, FewerPiecesAreNotMore) {
  const auto here = floats(0), there = quantized(0);
  for (const PieceGroup& group : match_pieces(here, there)) {
    EXPECT_FALSE(group.has_more_pieces());
    EXPECT_EQ(group.extra_us(), 0);
  }
}

TEST(Pieces, AChainOfConversionsEndsWithItsReader) {
  std::vector<LayerInfo> here = {layer("dq", {"a"}, "x", "f", 1), layer("q", {"b"}, "f", "c", 1),
                                 layer("product", {"matmul"}, "c", "y", 5)};
  const std::vector<LayerInfo> there = {layer("product", {"matmul"}, "x", "y", 9)};
  const auto groups = match_pieces(here, there);
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].here.size(), 3u);
  // The last one has no reader: it stays with what it reads.
  here.push_back(layer("last", {"c"}, "y", "z", 1));
  ASSERT_EQ(match_pieces(here, there).size(), 1u);
}

TEST(Pieces, ViewsCountForNothingAndNetworksWithoutCommonNodesForNoMatch) {
  std::vector<LayerInfo> here = quantized(0);
  here[3].is_no_op = true;
  EXPECT_FALSE(match_pieces(here, floats(0))[1].has_more_pieces());
  for (const PieceGroup& group : match_pieces(quantized(0), floats(1)))
    EXPECT_TRUE(group.here.empty() || group.there.empty());
}

TEST(Pieces, BlocksOfANetworkAreAlike) {
  std::vector<LayerInfo> here, there;
  for (const int b : {0, 1, 11}) {
    for (const LayerInfo& one : quantized(b)) here.push_back(one);
    for (const LayerInfo& one : floats(b)) there.push_back(one);
  }
  const auto groups = match_pieces(here, there);
  ASSERT_EQ(groups.size(), 6u);
  std::vector<const PieceGroup*> list;
  for (const PieceGroup& group : groups) list.push_back(&group);
  const auto same = alike(list);
  ASSERT_EQ(same.size(), 2u);
  EXPECT_EQ(same[0].groups.size(), 3u);
  EXPECT_EQ(same[1].groups.size(), 3u);
}

}  // namespace
}  // namespace camshaft::cli
