// SPDX-License-Identifier: Apache-2.0
#include "ir/verify_shapes.h"

#include <gtest/gtest.h>

namespace camshaft::ir {
namespace {

std::unique_ptr<Graph> parsed(std::string_view text) {
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  return std::move(graph).value();
}

constexpr const char* kShuffled = R"(graph "g" {
  input x: float[2, 3]
  y: float[3, 2] = Shuffle "turn"(x) {first_transpose=[1, 0]}
  output y
})";

TEST(VerifyShapes, WhatLayersMakeIsRight) {
  const auto graph = parsed(kShuffled);
  EXPECT_TRUE(verify_shapes(*graph).ok()) << verify_shapes(*graph).message();
}

TEST(VerifyShapes, AnotherExtentIsNamed) {
  const auto graph = parsed(kShuffled);
  graph->outputs()[0]->shape[1] = Dim(4);
  EXPECT_TRUE(verify(*graph).ok());
  EXPECT_NE(verify_shapes(*graph).message().find(
                "output 'y' has extent 4 in dimension 1 and should have 2"),
            std::string::npos)
      << verify_shapes(*graph).message();
}

// What no layer can make of its inputs is an error, but in a body: its branch may never be taken.
TEST(VerifyShapes, ABranchMayContradictItself) {
  const auto graph = parsed(kShuffled);
  graph->inputs()[0]->shape.pop_back();
  EXPECT_FALSE(verify_shapes(*graph).ok());
  EXPECT_TRUE(verify_shapes(*graph, /*is_body=*/true).ok());
}

TEST(VerifyShapes, AnotherTypeIsNamed) {
  const auto graph = parsed(kShuffled);
  graph->outputs()[0]->type = DataType::kInt32;
  EXPECT_NE(verify_shapes(*graph).message().find("output 'y' is int32 and should be float"),
            std::string::npos)
      << verify_shapes(*graph).message();
}

TEST(VerifyShapes, AnotherRankIsNamed) {
  const auto graph = parsed(kShuffled);
  graph->outputs()[0]->shape.push_back(Dim(1));
  EXPECT_NE(verify_shapes(*graph).message().find("has rank 3 and should have 2"), std::string::npos)
      << verify_shapes(*graph).message();
}

}  // namespace
}  // namespace camshaft::ir
