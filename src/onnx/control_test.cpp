// SPDX-License-Identifier: Apache-2.0
// Graphs inside nodes (If, Loop, Scan), functions, captured tensors.
#include <gtest/gtest.h>

#include "ir/graph.h"
#include "onnx/importer.h"
#include "onnx/testing.h"

namespace camshaft::onnx_import {
namespace {

using namespace testing;  // NOLINT: the model writer
using ir::LayerKind;

Result<ImportedModel> import(const TestGraph& graph, int64_t version = 17) {
  Result<ImportedModel> result = import_bytes(as_bytes(model(graph, version)));
  if (result.ok()) {
    EXPECT_TRUE(ir::verify(*result->graph).ok()) << ir::verify(*result->graph).message();
  }
  return result;
}

TestGraph branch(const std::string& op) {
  return TestGraph().node(op, {"x"}, {"out"}).output("out");
}

TEST(Control, IfKeepsBothBranches) {
  const auto m = import(TestGraph()
                            .input("c", kBool, {})
                            .input("x", kFloat, {2, 3})
                            .node("If", {"c"}, {"y"},
                                  {graph_attr("then_branch", branch("Relu").wire),
                                   graph_attr("else_branch", branch("Neg").wire)})
                            .output("y"));
  ASSERT_TRUE(m.ok()) << m.status().message();
  const ir::Layer& layer = *m.value().graph->layers()[0];
  ASSERT_EQ(layer.kind, LayerKind::kIf);
  ASSERT_EQ(layer.bodies.size(), 2u);
  EXPECT_EQ(layer.inputs.size(), 2u);  // the condition and the captured x
  EXPECT_EQ(layer.bodies[0]->inputs().size(), 1u);
  EXPECT_EQ(layer.outputs[0]->shape, (ir::Shape{2, 3}));
}

TEST(Control, KnownConditionInlinesTheBranch) {
  const auto m = import(TestGraph()
                            .initializer(raw_tensor<uint8_t>("c", kBool, {}, {0}))
                            .input("x", kFloat, {2, 3})
                            .node("If", {"c"}, {"y"},
                                  {graph_attr("then_branch", branch("Relu").wire),
                                   graph_attr("else_branch", branch("Neg").wire)})
                            .output("y"));
  ASSERT_TRUE(m.ok()) << m.status().message();
  EXPECT_EQ(m.value().graph->layers()[0]->kind, LayerKind::kUnary);
  EXPECT_EQ(m.value().graph->outputs()[0]->name, "y");
}

TEST(Control, BranchesOfDifferentRank) {
  const TestGraph squeeze =
      TestGraph().ints("a", {0}).node("Squeeze", {"x", "a"}, {"out"}).output("out");
  const auto m = import(TestGraph()
                            .input("c", kBool, {})
                            .input("x", kFloat, {1, "N"})
                            .node("If", {"c"}, {"i"},
                                  {graph_attr("then_branch", squeeze.wire),
                                   graph_attr("else_branch", branch("Neg").wire)})
                            .ints("last", {-1})
                            .node("Unsqueeze", {"i", "last"}, {"y"})
                            .output("y"));
  ASSERT_TRUE(m.ok()) << m.status().message();
  EXPECT_FALSE(m.value().graph->outputs()[0]->has_rank);
}

TEST(Control, LoopGeneralizesCarriedShapes) {
  // v grows by one row per iteration.
  const TestGraph body = TestGraph()
                             .input("i", kInt64, {})
                             .input("go", kBool, {})
                             .input("v", kFloat, {"A", 4})
                             .node("Identity", {"go"}, {"go_on"})
                             .node("Concat", {"v", "row"}, {"longer"}, {integer("axis", 0)})
                             .node("ReduceSum", {"v"}, {"total"}, {integer("keepdims", 0)})
                             .output("go_on")
                             .output("longer")
                             .output("total");
  const auto m = import(
      TestGraph()
          .input("n", kInt64, {})
          .input("start", kFloat, {1, 4})
          .input("row", kFloat, {1, 4})
          .node("Loop", {"n", "", "start"}, {"final", "totals"}, {graph_attr("body", body.wire)})
          .output("final")
          .output("totals"));
  ASSERT_TRUE(m.ok()) << m.status().message();
  const ir::Graph& graph = *m.value().graph;
  const ir::Layer& loop = *graph.layers()[0];
  EXPECT_EQ(loop.inputs.size(), 4u);
  EXPECT_EQ(loop.inputs[1], nullptr);
  EXPECT_FALSE(loop.bodies[0]->inputs()[2]->shape[0].is_known());
  EXPECT_EQ(loop.bodies[0]->inputs()[2]->shape[1], ir::Dim(4));
  EXPECT_EQ(graph.outputs()[1]->shape.size(), 1u);
}

// The body is imported again when the shape of what it carries is open: nothing that was known of
// the first one's tensors may be taken for what the second one's are.
TEST(Control, ABodyImportedTwiceKnowsNothingOfTheFirst) {
  constexpr int kLength = 24;
  TestGraph body;
  body.input("i", kInt64, {}).input("go", kBool, {}).input("v", kFloat, {"A", 4});
  body.node("Identity", {"go"}, {"go_on"});
  body.node("Concat", {"v", "row"}, {"longer"}, {integer("axis", 0)});
  body.ints("known0", {1}).node("Unsqueeze", {"i", "zero"}, {"late0"});
  for (int k = 0; k < kLength; ++k) {
    const std::string from = std::to_string(k), to = std::to_string(k + 1);
    body.node("Add", {"known" + from, "known" + from}, {"known" + to});
    body.node("Add", {"late" + from, "late" + from}, {"late" + to});
  }
  const std::string last = std::to_string(kLength);
  body.node("Add", {"known" + last, "late" + last}, {"total"});
  body.output("go_on").output("longer").output("total");
  const auto m = import(
      TestGraph()
          .input("n", kInt64, {})
          .input("start", kFloat, {1, 4})
          .input("row", kFloat, {1, 4})
          .ints("zero", {0})
          .node("Loop", {"n", "", "start"}, {"final", "totals"}, {graph_attr("body", body.wire)})
          .output("final")
          .output("totals"));
  ASSERT_TRUE(m.ok()) << m.status().message();
  for (const auto& tensor : m.value().graph->layers()[0]->bodies[0]->tensors())
    if (tensor->name.find("late") == 0 || tensor->name == "total") {
      EXPECT_FALSE(tensor->facts.shape_value) << tensor->name;
    }
}

// What grows begins with an extent that only running tells: that is one of the first iteration.
TEST(Control, LoopGeneralizesLateShapes) {
  const TestGraph body = TestGraph()
                             .input("i", kInt64, {})
                             .input("go", kBool, {})
                             .input("v", kFloat, {"A", "B"})
                             .node("Identity", {"go"}, {"go_on"})
                             .node("Concat", {"v", "v"}, {"longer"}, {integer("axis", 0)})
                             .output("go_on")
                             .output("longer");
  const auto m =
      import(TestGraph()
                 .input("n", kInt64, {})
                 .input("extents", kInt64, {2})
                 .node("ConstantOfShape", {"extents"}, {"start"})
                 .node("Loop", {"n", "", "start"}, {"final"}, {graph_attr("body", body.wire)})
                 .output("final"));
  ASSERT_TRUE(m.ok()) << m.status().message();
  const ir::Layer& loop = *m.value().graph->layers().back();
  const ir::Shape &start = loop.inputs[2]->shape, &carried = loop.bodies[0]->inputs()[2]->shape;
  EXPECT_FALSE(carried[0].is_known());
  EXPECT_NE(carried[0], start[0]);
  EXPECT_EQ(carried[1], start[1]);
}

TEST(Control, Scan) {
  const TestGraph body = TestGraph()
                             .input("s", kFloat, {2})
                             .input("e", kFloat, {2})
                             .node("Add", {"s", "e"}, {"s_out"})
                             .node("Identity", {"s_out"}, {"o"})
                             .output("s_out")
                             .output("o");
  const auto m = import(TestGraph()
                            .input("s0", kFloat, {2})
                            .input("x", kFloat, {"T", 2})
                            .node("Scan", {"s0", "x"}, {"s", "y"},
                                  {graph_attr("body", body.wire), integer("num_scan_inputs", 1),
                                   ints("scan_output_axes", {-1})})
                            .output("s")
                            .output("y"));
  ASSERT_TRUE(m.ok()) << m.status().message();
  const ir::Tensor& y = *m.value().graph->outputs()[1];
  EXPECT_EQ(y.shape[0], ir::Dim(2));
  EXPECT_EQ(m.value().graph->symbols().to_string(y.shape[1]), "T");
}

std::string with_function(const TestGraph& graph, const Wire& function) {
  return Wire()
      .number(1, 8)
      .message(7, graph.wire)
      .message(8, opset(17))
      .message(8, opset(1, "local"))
      .message(25, function)
      .bytes;
}

TEST(Control, FunctionsAreInlined) {
  const Wire function =
      Wire()
          .text(1, "Twice")
          .text(4, "a")
          .text(4, "b")
          .text(5, "r")
          .text(6, "slope")
          .text(10, "local")
          .message(9, opset(17))
          .message(7, node("LeakyRelu", {"a"}, {"t"}, {reference("alpha", 1, "slope")}))
          .message(7, node("Clip", {"t", "", "b"}, {"r"}));
  const TestGraph graph = TestGraph()
                              .input("x", kFloat, {3})
                              .node("Twice", {"x"}, {"y"}, {real("slope", 0.25f)}, "call", "local")
                              .output("y");
  const auto m = import_bytes(as_bytes(with_function(graph, function)));
  ASSERT_TRUE(m.ok()) << m.status().message();
  const auto& layers = m.value().graph->layers();
  EXPECT_EQ(layers[0]->as<ir::PointOpAttrs>().x, 0.25f);
  EXPECT_EQ(layers[0]->name, "call/LeakyRelu_0");
  EXPECT_EQ(layers[1]->as<ir::PointOpAttrs>().y,
            std::numeric_limits<float>::infinity());  // b is absent
  EXPECT_EQ(m.value().graph->outputs()[0]->name, "y");
}

// As jax2onnx writes them: what a function computes first has the name of the network's output.
TEST(Control, NamesInsideFunctionsLeaveThoseOfOutputsAlone) {
  const Wire function = Wire()
                            .text(1, "Twice")
                            .text(4, "a")
                            .text(5, "r")
                            .text(10, "local")
                            .message(9, opset(17))
                            .message(7, node("Abs", {"a"}, {"y"}))
                            .message(7, node("Neg", {"y"}, {"r"}));
  const TestGraph graph = TestGraph()
                              .input("x", kFloat, {3})
                              .node("Twice", {"x"}, {"z"}, {}, "first", "local")
                              .node("Twice", {"z"}, {"y"}, {}, "second", "local")
                              .output("y");
  const auto m = import_bytes(as_bytes(with_function(graph, function)));
  ASSERT_TRUE(m.ok()) << m.status().message();
  EXPECT_EQ(m.value().graph->outputs()[0]->name, "y");
  const auto& layers = m.value().graph->layers();
  EXPECT_EQ(layers[0]->outputs[0]->name, "first/y");
  EXPECT_EQ(layers[2]->outputs[0]->name, "second/y");
}

TEST(Control, FunctionsThatCallThemselves) {
  const Wire function = Wire()
                            .text(1, "F")
                            .text(4, "a")
                            .text(5, "r")
                            .text(10, "local")
                            .message(9, opset(1, "local"))
                            .message(7, node("F", {"a"}, {"r"}, {}, "again", "local"));
  const TestGraph graph =
      TestGraph().input("x", kFloat, {3}).node("F", {"x"}, {"y"}, {}, "call", "local").output("y");
  const auto m = import_bytes(as_bytes(with_function(graph, function)));
  EXPECT_NE(m.status().message().find("calls itself"), std::string::npos) << m.status().message();
}

TEST(Control, UnsupportedInsideABranchIsReportedOnce) {
  const auto m = import(TestGraph()
                            .input("c", kBool, {})
                            .input("x", kFloat, {2})
                            .node("If", {"c"}, {"y"},
                                  {graph_attr("then_branch", branch("Nonsense").wire),
                                   graph_attr("else_branch", branch("Neg").wire)},
                                  "choice")
                            .node("Relu", {"y"}, {"z"})
                            .node("Rubbish", {"x"}, {"w"})
                            .output("z")
                            .output("w"));
  const std::string message = m.status().message();
  EXPECT_EQ(m.status().code(), ErrorCode::kUnsupported);
  EXPECT_NE(message.find("2 parts of the model are not supported"), std::string::npos) << message;
  EXPECT_NE(message.find("Nonsense_0 (Nonsense): operator Nonsense is not known"),
            std::string::npos)
      << message;
  EXPECT_NE(message.find("Rubbish_2 (Rubbish)"), std::string::npos) << message;
}

}  // namespace
}  // namespace camshaft::onnx_import
