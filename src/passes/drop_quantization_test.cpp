// SPDX-License-Identifier: Apache-2.0
#include "passes/drop_quantization.h"

#include <gtest/gtest.h>

#include "passes/test_util.h"

namespace camshaft::passes {
namespace {

std::unique_ptr<ir::Graph> graph_of(std::string_view text) {
  auto graph = ir::parse_graph(text);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  return graph.ok() ? std::move(graph).value() : nullptr;
}

TEST(DropQuantization, WhatIsLeftIsTheProductOfTheFloats) {
  const auto graph = graph_of(R"ir(graph "g" {
    input x: float[2, 4]
    constant s: float[] = [0.5]
    constant z: int8[] = [0]
    constant w: int8[4, 3] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
    q: int8[2, 4] = Quantize(x, s, z)
    d: float[2, 4] = Dequantize(q, s, z)
    v: float[4, 3] = Dequantize(w, s, z)
    y: float[2, 3] = MatrixMultiply(d, v)
    output y
  })ir");
  ASSERT_NE(graph, nullptr);
  EXPECT_EQ(drop_quantization(*graph), 2);
  ASSERT_TRUE(ir::verify(*graph).ok());
  const auto plain = graph_of(R"ir(graph "g" {
    input x: float[2, 4]
    constant v: float[4, 3] = [0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 5.5, 6]
    y: float[2, 3] = MatrixMultiply(x, v)
    output y
  })ir");
  EXPECT_EQ(graph->layers().size(), 1u);
  expect_same_numbers(*plain, *graph, 0);
}

TEST(DropQuantization, CodesThatLeaveTheNetworkStay) {
  const auto graph = graph_of(R"ir(graph "g" {
    input x: float[2, 4]
    constant s: float[] = [0.5]
    constant z: int8[] = [0]
    q: int8[2, 4] = Quantize(x, s, z)
    d: float[2, 4] = Dequantize(q, s, z)
    y: float[2, 4] = Activation(d) {op=relu}
    output q
    output y
  })ir");
  ASSERT_NE(graph, nullptr);
  EXPECT_EQ(drop_quantization(*graph), 1);
  ASSERT_TRUE(ir::verify(*graph).ok());
  ASSERT_EQ(graph->layers().size(), 2u);
  EXPECT_EQ(graph->layers()[0]->kind, ir::LayerKind::kQuantize);
  EXPECT_EQ(graph->layers()[1]->inputs[0]->name, "x");
}

}  // namespace
}  // namespace camshaft::passes
