// SPDX-License-Identifier: Apache-2.0
// Networks of bfloat16 and half tensors.
#include <gtest/gtest.h>

#include "passes/test_util.h"

namespace camshaft::passes {
namespace {

constexpr const char* kHalfNet = R"ir(graph "g" {
    input x: half[1, 2, 3, 3]
    constant w32: float[2, 2, 1, 1] = [0.5, 1, -1, 2]
    w: half[2, 2, 1, 1] = Cast(w32) {to=half}
    a: half[1, 2, 3, 3] = Convolution(x, w) {kernel=[1, 1], stride=[1, 1], dilation=[1, 1], pre_padding=[0, 0], post_padding=[0, 0]}
    b: half[1, 2, 3, 3] = Activation(a) {op=relu}
    c: half[1, 2, 3, 3] = ElementWise(b, x) {op=add}
    d: float[1, 2, 3, 3] = Cast(c) {to=float}
    e: float[1, 2, 3, 3] = Unary(d) {op=neg}
    output c, e
  })ir";

int count(const ir::Graph& graph, ir::LayerKind kind) {
  int found = 0;
  for (const auto& layer : graph.layers()) found += layer->kind == kind;
  return found;
}

// Every layer but casts reads and writes floats.
void expect_wide(const ir::Graph& graph) {
  for (const auto& layer : graph.layers()) {
    if (layer->kind == ir::LayerKind::kCast) continue;
    for (const auto* side : {&layer->inputs, &layer->outputs})
      for (const ir::Tensor* tensor : *side)
        EXPECT_EQ(tensor->type, ir::DataType::kFloat) << layer->name << " " << tensor->name;
  }
}

TEST(WidenFloats, CastsStandAtTheBordersOnly) {
  const auto graph = std::move(ir::parse_graph(kHalfNet)).value();
  EXPECT_GT(widen_floats(*graph, nullptr), 0);
  EXPECT_EQ(widen_floats(*graph, nullptr), 0);
  no_op_removal(*graph, nullptr);
  dead_layer_removal(*graph, nullptr);
  ASSERT_TRUE(ir::verify(*graph).ok()) << ir::verify(*graph).message();
  expect_wide(*graph);
  // Of x and for c.
  EXPECT_EQ(count(*graph, ir::LayerKind::kCast), 2) << ir::to_text(*graph);
  EXPECT_EQ(graph->outputs()[0]->type, ir::DataType::kHalf);
}

TEST(WidenFloats, StrictlyEveryLayerRounds) {
  const auto before = std::move(ir::parse_graph(kHalfNet)).value();
  const auto graph = std::move(ir::parse_graph(kHalfNet)).value();
  EXPECT_GT(widen_floats_strictly(*graph, nullptr), 0);
  ASSERT_TRUE(ir::verify(*graph).ok()) << ir::verify(*graph).message();
  expect_wide(*graph);
  expect_same_numbers(*before, *graph, 0);
  // Nothing is left for the pass of the pipeline, nor for the others, to take the rounding away.
  const int casts = count(*graph, ir::LayerKind::kCast);
  EXPECT_EQ(widen_floats(*graph, nullptr), 0);
  no_op_removal(*graph, nullptr);
  EXPECT_EQ(count(*graph, ir::LayerKind::kCast), casts);
}

TEST(WidenFloats, CastsOfTheNetworkAreReadThrough) {
  const auto graph = std::move(ir::parse_graph(R"ir(graph "g" {
    input x: float[4]
    h: bfloat16[4] = Cast(x) {to=bfloat16}
    a: bfloat16[4] = Activation(h) {op=sigmoid}
    y: float[4] = Cast(a) {to=float}
    z: float[4] = Unary(y) {op=neg}
    output z
  })ir"))
                         .value();
  widen_floats(*graph, nullptr);
  no_op_removal(*graph, nullptr);
  dead_layer_removal(*graph, nullptr);
  EXPECT_EQ(count(*graph, ir::LayerKind::kCast), 0) << ir::to_text(*graph);
}

// A layer of several outputs: a cast behind each of 16 bits, the rest as they were.
TEST(WidenFloats, SeveralOutputs) {
  constexpr const char* kNet = R"ir(graph "g" {
    input x: half[3, 5]
    constant k: int64[1] = [2]
    v: half[3, 2], i: int64[3, 2] = TopK(x, k) {axis=1}
    y: half[3, 2] = Unary(v) {op=neg}
    g: half[3, 3] = Generic(x, x) {op_type="Einsum", opset=12, attributes=[("equation", [], [], "ij,kj->ik")]}
    constant at: int64[1, 1] = [1]
    input row: half[1, 5]
    s: half[3, 5] = Scatter(x, at, row) {mode=nd}
    output v, i, y, g, s
  })ir";
  const auto before = std::move(ir::parse_graph(kNet)).value();
  for (const bool strict : {false, true}) {
    const auto graph = std::move(ir::parse_graph(kNet)).value();
    EXPECT_EQ((strict ? widen_floats_strictly : widen_floats)(*graph, nullptr), 3);
    ASSERT_TRUE(ir::verify(*graph).ok()) << ir::verify(*graph).message();
    for (const auto& layer : graph->layers()) {
      if (layer->kind == ir::LayerKind::kCast) continue;
      const bool moves = layer->kind == ir::LayerKind::kScatter;  // in 16 bits
      for (const ir::Tensor* tensor : layer->outputs)
        EXPECT_EQ(tensor->type == ir::DataType::kHalf, moves) << layer->name;
    }
    const ir::DataType types[] = {ir::DataType::kHalf, ir::DataType::kInt64, ir::DataType::kHalf,
                                  ir::DataType::kHalf};
    for (size_t k = 0; k < 4; ++k) EXPECT_EQ(graph->outputs()[k]->type, types[k]) << k;
    EXPECT_EQ(graph->outputs()[0]->name, "v");
    expect_same_numbers(*before, *graph, 0);
  }
}

}  // namespace
}  // namespace camshaft::passes
