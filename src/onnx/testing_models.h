// SPDX-License-Identifier: Apache-2.0
// Models for mutations, of a few hundred bytes each.
#pragma once

#include "onnx/testing.h"

namespace camshaft::onnx_import::testing {

// Small models that together use every part of the importer.
inline std::vector<std::string> small_models() {
  const TestGraph branch =
      TestGraph().ints("axes", {0}).node("Squeeze", {"x", "axes"}, {"out"}).output("out");
  const TestGraph other = TestGraph().node("Identity", {"x"}, {"out"}).output("out");
  const TestGraph body = TestGraph()
                             .input("i", kInt64, {})
                             .input("go", kBool, {})
                             .input("v", kFloat, {1, 4})
                             .node("Identity", {"go"}, {"go_on"})
                             .node("Concat", {"v", "v"}, {"longer"}, {integer("axis", 0)})
                             .output("go_on")
                             .output("longer")
                             .output("v");
  const TestGraph append = TestGraph()
                               .input("i", kInt64, {})
                               .input("go", kBool, {})
                               .input("list", kFloat, {})
                               .node("Identity", {"go"}, {"go_on"})
                               .node("SequenceAt", {"list", "end"}, {"before"})
                               .node("SequenceAt", {"rows", "i"}, {"row"})
                               .node("Add", {"before", "row"}, {"sum"})
                               .node("SequenceInsert", {"list", "sum"}, {"longer"})
                               .output("go_on")
                               .output("longer");
  const TestGraph replace = TestGraph()
                                .input("i", kInt64, {})
                                .input("go", kBool, {})
                                .input("list", kFloat, {})
                                .node("SequenceAt", {"list", "i"}, {"before"})
                                .node("Neg", {"before"}, {"after"})
                                .node("SequenceErase", {"list", "i"}, {"rest"})
                                .node("SequenceInsert", {"rest", "after", "i"}, {"next"})
                                .output("go")
                                .output("next");
  const TestGraph each = TestGraph()
                             .input("element", kFloat, {})
                             .input("all", kFloat, {})
                             .node("Sub", {"element", "all"}, {"less"})
                             .output("less");
  return {
      model(TestGraph()
                .input("x", kFloat, {3, 4})
                .node("SequenceConstruct", {"x", "x"}, {"s"})
                .node("SequenceMap", {"s", "x"}, {"t"}, {graph_attr("body", each.wire)})
                .node("ConcatFromSequence", {"t"}, {"y"}, {integer("axis", 0)})
                .output("y")),
      model(TestGraph()
                .input("x", kFloat, {3, 4})
                .scalar("two", 2)
                .node("Loop", {"two", "", "first"}, {"states"}, {graph_attr("body", replace.wire)})
                .node("SequenceConstruct", {"x", "x"}, {"first"})
                .node("ConcatFromSequence", {"states"}, {"y"}, {integer("axis", 0)})
                .output("y")),
      model(TestGraph()
                .input("x", kFloat, {"N", 4, 9, "W"})
                .floats("w", {4, 2, 3, 3})
                .floats("b", {4})
                .node("Conv", {"x", "w", "b"}, {"c"},
                      {integer("group", 2), ints("strides", {2, 2}), ints("pads", {1, 1, 1, 1}),
                       text("auto_pad", "NOTSET")})
                .node("MaxPool", {"c"}, {"p"},
                      {ints("kernel_shape", {2, 2}), integer("ceil_mode", 1)})
                .node("ConvTranspose", {"p", "w", "b"}, {"t"},
                      {integer("group", 2), ints("output_padding", {0, 0})})
                .floats("s", {4})
                .node("BatchNormalization", {"t", "s", "b", "b", "s"}, {"n"})
                .node("Clip", {"n", "", "six"}, {"y"})
                .initializer(floats_tensor("six", {}, {6}))
                .output("y", kFloat)),
      model(TestGraph()
                .input("x", kFloat, {"N", "T", 64})
                .scalar("zero", 0)
                .scalar("one", 1)
                .ints("a0", {0})
                .ints("heads", {8, 8})
                .ints("eight", {8})
                .ints("pads", {0, 1, 2, 0, 0, 0})
                .node("Shape", {"x"}, {"s"})
                .node("Gather", {"s", "zero"}, {"n"})
                .node("Gather", {"s", "one"}, {"t"})
                .node("Mul", {"n", "t"}, {"nt"})
                .node("Unsqueeze", {"nt", "a0"}, {"ntv"})
                .node("Concat", {"ntv", "heads"}, {"target"}, {integer("axis", 0)})
                .node("Reshape", {"x", "target"}, {"y"})
                .node("Range", {"zero", "t", "one"}, {"r"})
                .node("ConstantOfShape", {"target"}, {"f"})
                .node("Expand", {"f", "target"}, {"e"})
                .node("Transpose", {"e"}, {"et"}, {ints("perm", {2, 0, 1})})
                .node("Slice", {"et", "a0", "eight", "a0"}, {"sl"})
                .node("Split", {"sl"}, {"p", "q"}, {integer("axis", 2)})
                .node("Pad", {"p", "pads"}, {"pad"})
                .output("y")
                .output("r")
                .output("pad")
                .output("q")),
      model(
          TestGraph()
              .input("c", kBool, {})
              .input("x", kFloat, {1, "N"})
              .node("If", {"c"}, {"i"},
                    {graph_attr("then_branch", branch.wire), graph_attr("else_branch", other.wire)})
              .ints("last", {-1})
              .node("Unsqueeze", {"i", "last"}, {"y"})
              .input("n", kInt64, {})
              .input("start", kFloat, {1, 4})
              .node("Loop", {"n", "", "start"}, {"final", "parts"}, {graph_attr("body", body.wire)})
              .output("y")
              .output("final")
              .output("parts")),
      model(TestGraph()
                .input("x", kFloat, {3, 4})
                .input("n", kInt64, {})
                .node("Constant", {}, {"end"}, {integer("value_int", -1)})
                .node("SplitToSequence", {"x"}, {"rows"},
                      {integer("axis", 0), integer("keepdims", 0)})
                .node("SequenceAt", {"rows", "end"}, {"head"})
                .node("SequenceConstruct", {"head", "head"}, {"first"})
                .node("SequenceErase", {"first"}, {"one"})
                .node("Loop", {"n", "", "one"}, {"sums"}, {graph_attr("body", append.wire)})
                .node("SequenceLength", {"sums"}, {"count"})
                .node("ConcatFromSequence", {"sums"}, {"y"},
                      {integer("axis", 1), integer("new_axis", 1)})
                .output("y")
                .output("count")),
      model(TestGraph()
                .input("x", kFloat, {2, "T", 5})
                .floats("w", {1, 16, 5})
                .floats("r", {1, 16, 4})
                .node("LSTM", {"x", "w", "r"}, {"y", "h"},
                      {integer("hidden_size", 4), text("direction", "forward")})
                .node("ReduceMean", {"h"}, {"m"}, {ints("axes", {-1}), integer("keepdims", 0)})
                .ints("k", {1})
                .node("TopK", {"m", "k"}, {"v", "i"})
                .node("Softmax", {"y"}, {"sm"})
                .node("LayerNormalization", {"y", "g"}, {"ln"})
                .floats("g", {4})
                .node("Einsum", {"ln", "ln"}, {"e"}, {text("equation", "abcd,abce->ade")})
                .output("v")
                .output("i")
                .output("sm")
                .output("e")),
      model(TestGraph()
                .input("x", kFloat, {1, 2, 4, 4})
                .initializer(floats_tensor("s", {}, {0.5f}))
                .initializer(raw_tensor<uint8_t>("z", kUint8, {}, {128}))
                .initializer(raw_tensor<int8_t>("w", kInt8, {2, 2, 1, 1}, {1, 2, 3, 4}))
                .initializer(raw_tensor<int8_t>("wz", kInt8, {}, {0}))
                .node("QuantizeLinear", {"x", "s", "z"}, {"q"})
                .node("QLinearConv", {"q", "s", "z", "w", "s", "wz", "s", "z"}, {"c"})
                .node("DequantizeLinear", {"c", "s", "z"}, {"d"})
                .initializer(floats_tensor("by", {4}, {1, 1, 2, 2}))
                .node("Resize", {"d", "", "by"}, {"u"}, {text("mode", "linear")})
                .ints("idx", {0, 1})
                .node("Gather", {"u", "idx"}, {"g"}, {integer("axis", 1)})
                .node("GatherND", {"g", "nd"}, {"n"})
                .ints("nd", {0})
                .node("Tile", {"u", "rep"}, {"ti"})
                .ints("rep", {1, 1, 1, 2})
                .output("g")
                .output("ti")
                .output("n")),
  };
}

}  // namespace camshaft::onnx_import::testing
