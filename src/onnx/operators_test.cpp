// SPDX-License-Identifier: Apache-2.0
// One small model per operator form: kind, attributes and shapes of what it becomes.
#include <gtest/gtest.h>

#include "base/log.h"
#include "ir/expert_weights.h"
#include "ir/graph.h"
#include "onnx/importer.h"
#include "onnx/testing.h"

namespace camshaft::onnx_import {
namespace {

using namespace testing;  // NOLINT: the model writer
using ir::LayerKind;

struct Imported {
  std::unique_ptr<ir::Graph> graph;
  std::string error;

  const ir::Layer& layer(size_t k = 0) const { return *graph->layers().at(k); }
  size_t layers() const { return graph->layers().size(); }
  std::string shape(size_t output = 0) const {
    const ir::Tensor& tensor = *graph->outputs().at(output);
    if (!tensor.has_rank) return "unknown";
    std::string text;
    for (ir::Dim dim : tensor.shape)
      text += (text.empty() ? "" : " ") + graph->symbols().to_string(dim);
    return text;
  }
  std::string kinds() const {
    std::string text;
    for (const auto& layer : graph->layers())
      text += (text.empty() ? "" : " ") + std::string(ir::kind_name(layer->kind));
    return text;
  }
};

Imported import(const TestGraph& graph, int64_t version = 17) {
  Result<ImportedModel> result = import_bytes(as_bytes(model(graph, version)));
  if (!result.ok()) return {nullptr, result.status().message()};
  EXPECT_TRUE(ir::verify(*result->graph).ok()) << ir::verify(*result->graph).message();
  return {std::move(result->graph), ""};
}

// x [1,3,8,8] → one node → y
Imported one(const std::string& op, std::vector<Attribute> attributes = {}, int64_t version = 17,
             const std::vector<Extent>& shape = {1, 3, 8, 8}, int type = kFloat) {
  Imported result = import(
      TestGraph().input("x", type, shape).node(op, {"x"}, {"y"}, attributes).output("y"), version);
  EXPECT_EQ(result.error, "") << op;
  return result;
}

// --- convolution and pooling

TestGraph conv_graph(std::vector<Attribute> attributes, const std::string& op = "Conv") {
  return TestGraph()
      .input("x", kFloat, {"N", 4, 9, "W"})
      .floats("w", {4, 2, 3, 3})
      .floats("b", {op == "Conv" ? 4 : 4})
      .node(op, {"x", "w", "b"}, {"y"}, attributes, "c")
      .output("y");
}

TEST(Operators, Conv) {
  const Imported m = import(
      conv_graph({integer("group", 2), ints("strides", {2, 2}), ints("pads", {1, 1, 1, 1})}));
  ASSERT_EQ(m.error, "");
  EXPECT_EQ(m.layer().kind, LayerKind::kConvolution);
  EXPECT_EQ(m.layer().name, "c");
  EXPECT_EQ(m.layer().onnx_nodes, std::vector<std::string>{"c"});
  EXPECT_EQ(m.shape(), "N 4 5 ((W + 1)/2)");
  EXPECT_EQ(m.layer().as<ir::ConvolutionAttrs>().kernel, (ir::Ints{3, 3}));
}

TEST(Operators, ConvAutoPad) {
  const Imported same = import(conv_graph({integer("group", 2), text("auto_pad", "SAME_LOWER"),
                                           ints("strides", {2, 2}), ints("pads", {9, 9, 9, 9})}));
  EXPECT_EQ(same.shape(), "N 4 5 ((W + 1)/2)");
  EXPECT_EQ(same.layer().as<ir::ConvolutionAttrs>().padding_mode, ir::PaddingMode::kSameLower);
  EXPECT_EQ(import(conv_graph({integer("group", 2), text("auto_pad", "VALID")})).shape(),
            "N 4 7 (W - 2)");
}

TEST(Operators, ConvRefusesWhatDoesNotFit) {
  EXPECT_NE(import(conv_graph({})).error.find("1 groups do not match"), std::string::npos);
  EXPECT_NE(import(conv_graph({integer("group", 2), ints("kernel_shape", {5, 5})}))
                .error.find("kernel 5 does not match"),
            std::string::npos);
  EXPECT_NE(
      import(conv_graph({integer("group", 2), ints("strides", {0, 1})})).error.find("stride 0"),
      std::string::npos);
  EXPECT_NE(import(conv_graph({integer("group", 2), text("auto_pad", "SIDEWAYS")}))
                .error.find("auto_pad \"SIDEWAYS\""),
            std::string::npos);
}

TEST(Operators, ConvTranspose) {
  EXPECT_EQ(import(conv_graph({integer("group", 2), ints("strides", {2, 2}),
                               ints("pads", {1, 1, 1, 1}), ints("output_padding", {1, 1})},
                              "ConvTranspose"))
                .shape(),
            "N 4 18 W*2");
  const Imported same = import(
      conv_graph({integer("group", 2), ints("strides", {2, 2}), text("auto_pad", "SAME_UPPER")},
                 "ConvTranspose"));
  EXPECT_EQ(same.shape(), "N 4 18 W*2");
  EXPECT_EQ(same.layer().as<ir::ConvolutionAttrs>().post_padding, (ir::Ints{1, 1}));
  EXPECT_NE(
      import(conv_graph({integer("group", 2), ints("output_shape", {20, 20})}, "ConvTranspose"))
          .error.find("output_shape with an input of unknown extents"),
      std::string::npos);
}

TEST(Operators, Pooling) {
  EXPECT_EQ(one("MaxPool", {ints("kernel_shape", {3, 3}), ints("strides", {2, 2})}).shape(),
            "1 3 3 3");
  EXPECT_EQ(one("MaxPool",
                {ints("kernel_shape", {3, 3}), ints("strides", {2, 2}), integer("ceil_mode", 1)})
                .shape(),
            "1 3 4 4");
  EXPECT_EQ(
      one("AveragePool", {ints("kernel_shape", {2, 2}), text("auto_pad", "SAME_UPPER")}).shape(),
      "1 3 8 8");
  EXPECT_EQ(one("GlobalAveragePool").shape(), "1 3 1 1");
  EXPECT_EQ(one("GlobalMaxPool").layer().as<ir::PoolingAttrs>().type, ir::PoolingType::kMax);
  EXPECT_EQ(one("LpPool", {ints("kernel_shape", {2, 2}), integer("p", 3)})
                .layer()
                .as<ir::PoolingAttrs>()
                .p,
            3);
}

// --- elementwise

TEST(Operators, Activations) {
  EXPECT_EQ(one("LeakyRelu").layer().as<ir::PointOpAttrs>().x, 0.01f);
  EXPECT_EQ(one("HardSigmoid", {real("alpha", 0.5f)}).layer().as<ir::PointOpAttrs>().y, 0.5f);
  EXPECT_EQ(one("Selu").layer().as<ir::PointOpAttrs>().y, 1.05070102214813232421875f);
  EXPECT_EQ(one("Gelu", {text("approximate", "tanh")}, 20).layer().as<ir::PointOpAttrs>().op,
            ir::PointOp::kGeluTanh);
  EXPECT_EQ(one("IsInf", {integer("detect_negative", 0)}).graph->outputs()[0]->type,
            ir::DataType::kBool);
  EXPECT_EQ(one("Sqrt").layer().kind, LayerKind::kUnary);
  EXPECT_EQ(one("Relu").graph->outputs()[0]->facts.minimum, 0.0f);
}

TEST(Operators, ClipFromAttributesAndInputs) {
  const ir::PointOpAttrs old =
      one("Clip", {real("min", 0), real("max", 6)}, 6).layer().as<ir::PointOpAttrs>();
  EXPECT_EQ(old.op, ir::PointOp::kClip);
  EXPECT_EQ(old.y, 6);
  const auto limits = [] {
    return TestGraph().input("x", kFloat, {2, 3}).initializer(floats_tensor("six", {}, {6}));
  };
  const Imported upper = import(limits().node("Clip", {"x", "", "six"}, {"y"}).output("y"));
  EXPECT_EQ(upper.layer().as<ir::PointOpAttrs>().y, 6);
  EXPECT_EQ(upper.layer().as<ir::PointOpAttrs>().x, -std::numeric_limits<float>::infinity());
  const Imported variable = import(
      limits().input("low", kFloat, {}).node("Clip", {"x", "low", "six"}, {"y"}).output("y"));
  EXPECT_EQ(variable.kinds(), "ElementWise ElementWise");
}

TEST(Operators, BinaryBroadcasting) {
  const auto two = [](const std::vector<Extent>& a, const std::vector<Extent>& b,
                      std::vector<Attribute> attributes = {}, int64_t version = 17) {
    return import(TestGraph()
                      .input("a", kFloat, a)
                      .input("b", kFloat, b)
                      .node("Add", {"a", "b"}, {"y"}, attributes)
                      .output("y"),
                  version);
  };
  EXPECT_EQ(two({2, 3, 4}, {3, 1}).shape(), "2 3 4");
  EXPECT_EQ(two({"N", 1}, {"N", 5}).shape(), "N 5");
  EXPECT_EQ(two({"N"}, {4}).shape(), "4");
  EXPECT_NE(two({2, 3}, {2, 4}).error.find("do not broadcast"), std::string::npos);
  EXPECT_EQ(two({2, 3, 4, 5}, {3, 4}, {integer("broadcast", 1), integer("axis", 1)}, 6).kinds(),
            "Shuffle ElementWise");
  EXPECT_NE(import(TestGraph()
                       .input("a", kFloat, {2})
                       .input("b", kInt64, {2})
                       .node("Add", {"a", "b"}, {"y"})
                       .output("y"))
                .error.find("different types"),
            std::string::npos);
}

TEST(Operators, VariadicAndMixed) {
  const auto three = [](const std::string& op) {
    return import(TestGraph()
                      .input("a", kFloat, {2, 1})
                      .input("b", kFloat, {3})
                      .input("c", kFloat, {})
                      .node(op, {"a", "b", "c"}, {"y"})
                      .output("y"));
  };
  EXPECT_EQ(three("Max").kinds(), "ElementWise ElementWise");
  EXPECT_EQ(three("Mean").kinds(), "ElementWise ElementWise ElementWise");
  EXPECT_EQ(three("Sum").shape(), "2 3");
  EXPECT_EQ(one("Max").kinds(), "Unary");
  const Imported power = import(TestGraph()
                                    .input("a", kInt32, {2})
                                    .input("b", kFloat, {2})
                                    .node("Pow", {"a", "b"}, {"y"})
                                    .output("y"));
  EXPECT_EQ(power.kinds(), "Cast ElementWise Cast");
  EXPECT_EQ(power.graph->outputs()[0]->type, ir::DataType::kInt32);
}

TEST(Operators, CastAndWhere) {
  EXPECT_EQ(one("Cast", {integer("to", kHalf)}).graph->outputs()[0]->type, ir::DataType::kHalf);
  const Imported choice = import(TestGraph()
                                     .input("c", kBool, {2, 1})
                                     .input("a", kFloat, {3})
                                     .input("b", kFloat, {})
                                     .node("Where", {"c", "a", "b"}, {"y"})
                                     .output("y"));
  EXPECT_EQ(choice.shape(), "2 3");
  EXPECT_NE(import(TestGraph()
                       .input("x", kFloat, {1})
                       .node("Cast", {"x"}, {"y"}, {integer("to", kString)})
                       .output("y"))
                .error.find("element type STRING"),
            std::string::npos);
}

// --- products, softmax, normalization

TEST(Operators, MatMulAndGemm) {
  const auto product = [](const std::vector<Extent>& a, const std::vector<Extent>& b) {
    return import(TestGraph()
                      .input("a", kFloat, a)
                      .input("b", kFloat, b)
                      .node("MatMul", {"a", "b"}, {"y"})
                      .output("y"));
  };
  EXPECT_EQ(product({"N", 4, 5, 6}, {6, 7}).shape(), "N 4 5 7");
  EXPECT_EQ(product({6}, {2, 6, 7}).shape(), "2 7");
  EXPECT_EQ(product({5, 6}, {6}).shape(), "5");
  EXPECT_EQ(product({5, 6}, {6}).kinds(), "Shuffle MatrixMultiply Shuffle");
  EXPECT_EQ(product({"N"}, {"N"}).shape(), "");
  EXPECT_NE(product({5, 6}, {5, 6}).error.find("do not match"), std::string::npos);
  const Imported gemm = import(
      TestGraph()
          .input("a", kFloat, {6, 5})
          .floats("b", {7, 6})
          .floats("c", {7}, 3)
          .node("Gemm", {"a", "b", "c"}, {"y"},
                {integer("transA", 1), integer("transB", 1), real("beta", 2), real("alpha", 0.5f)})
          .output("y"));
  EXPECT_EQ(gemm.shape(), "5 7");
  EXPECT_EQ(gemm.layer().as<ir::MatrixMultiplyAttrs>().alpha, 0.5f);
  EXPECT_EQ(gemm.layer().inputs[2]->values<float>()[0], 6.0f);
}

TEST(Operators, SoftmaxFlattensBeforeOpset13) {
  const ir::SoftMaxAttrs old = one("Softmax", {}, 11).layer().as<ir::SoftMaxAttrs>();
  EXPECT_EQ(old.axis, 1);
  EXPECT_EQ(old.last_axis, 3);
  const ir::SoftMaxAttrs now =
      one("LogSoftmax", {integer("axis", -2)}, 13).layer().as<ir::SoftMaxAttrs>();
  EXPECT_EQ(now.axis, 2);
  EXPECT_EQ(now.last_axis, 2);
  EXPECT_TRUE(now.log);
}

TEST(Operators, BatchNormalizationBecomesScale) {
  const Imported m =
      import(TestGraph()
                 .input("x", kFloat, {1, 2, 4})
                 .floats("s", {2}, 2)
                 .floats("b", {2}, 1)
                 .floats("m", {2}, 3)
                 .floats("v", {2}, 0.25f)
                 .node("BatchNormalization", {"x", "s", "b", "m", "v"}, {"y"}, {real("epsilon", 0)})
                 .output("y"));
  ASSERT_EQ(m.kinds(), "Scale");
  EXPECT_EQ(m.layer().inputs[1]->values<float>()[0], 4.0f);    // 2 / sqrt(0.25)
  EXPECT_EQ(m.layer().inputs[2]->values<float>()[1], -11.0f);  // 1 - 3*4
}

TEST(Operators, Normalizations) {
  const auto scaled = [](const std::string& op, const std::vector<int64_t>& dims,
                         std::vector<Attribute> attributes, int64_t version) {
    return import(TestGraph()
                      .input("x", kFloat, {2, 6, 4})
                      .floats("s", dims)
                      .floats("b", dims)
                      .node(op, {"x", "s", "b"}, {"y"}, attributes)
                      .output("y"),
                  version);
  };
  EXPECT_EQ(scaled("LayerNormalization", {4}, {}, 17).layer().as<ir::NormalizationAttrs>().axis, 2);
  EXPECT_EQ(scaled("InstanceNormalization", {6}, {}, 17).layer().as<ir::NormalizationAttrs>().kind,
            ir::NormKind::kInstance);
  EXPECT_EQ(scaled("GroupNormalization", {6}, {integer("num_groups", 3)}, 21).kinds(),
            "Normalization");
  EXPECT_EQ(scaled("GroupNormalization", {3}, {integer("num_groups", 3)}, 18).layers(),
            7u);  // factors repeated per channel
  EXPECT_NE(
      scaled("GroupNormalization", {6}, {integer("num_groups", 4)}, 21).error.find("4 groups"),
      std::string::npos);
  EXPECT_EQ(one("LpNormalization").shape(), "1 3 8 8");
  EXPECT_EQ(one("MeanVarianceNormalization").shape(), "1 3 8 8");
}

// --- shapes

TEST(Operators, ReshapeForms) {
  const auto reshaped = [](std::vector<int64_t> target, std::vector<Attribute> attributes = {}) {
    return import(TestGraph()
                      .input("x", kFloat, {"N", 4, 6})
                      .ints("s", target)
                      .node("Reshape", {"x", "s"}, {"y"}, attributes)
                      .output("y"));
  };
  EXPECT_EQ(reshaped({0, -1}).shape(), "N 24");
  EXPECT_EQ(reshaped({-1, 6}).shape(), "N*4 6");
  EXPECT_EQ(reshaped({2, 0, -1}).shape(), "2 4 N*3");
  EXPECT_NE(reshaped({-1, -1}).error.find("more than one negative"), std::string::npos);
  EXPECT_NE(reshaped({1, 2, 3, 4, 5, 6, 7, 8, 9}).error.find("at most 8"), std::string::npos);
  const Imported dynamic = import(TestGraph()
                                      .input("x", kFloat, {"N", 4})
                                      .input("s", kInt64, {3})
                                      .node("Reshape", {"x", "s"}, {"y"})
                                      .output("y"));
  EXPECT_EQ(dynamic.layer().inputs.size(), 2u);
  EXPECT_EQ(dynamic.graph->outputs()[0]->shape.size(), 3u);
}

TEST(Operators, TransposeFlattenSqueeze) {
  EXPECT_EQ(one("Transpose").shape(), "8 8 3 1");
  EXPECT_EQ(one("Transpose", {ints("perm", {0, 2, 3, 1})}).shape(), "1 8 8 3");
  EXPECT_EQ(one("Flatten", {integer("axis", -3)}, 13, {"N", 3, "H", 2}).shape(), "N H*6");
  EXPECT_EQ(one("Flatten", {integer("axis", 4)}, 13, {2, 3, 4, 5}).shape(), "120 1");
  EXPECT_EQ(one("Squeeze", {ints("axes", {0})}, 11).shape(), "3 8 8");
  EXPECT_EQ(one("Squeeze").shape(), "3 8 8");
  EXPECT_EQ(one("Unsqueeze", {ints("axes", {0, -1})}, 11, {"N"}).shape(), "1 N 1");
  EXPECT_EQ(one("Squeeze", {}, 13, {"N", 1, 3}).shape(), "unknown");  // N may be 1
  const Imported bad = import(TestGraph()
                                  .input("x", kFloat, {2, 3})
                                  .ints("a", {0})
                                  .node("Squeeze", {"x", "a"}, {"y"})
                                  .output("y"));
  EXPECT_NE(bad.error.find("extent 2, not 1"), std::string::npos);
}

TEST(Operators, SliceForms) {
  EXPECT_EQ(
      one("Slice", {ints("starts", {1, -3}), ints("ends", {3, 1000}), ints("axes", {1, 2})}, 9)
          .shape(),
      "1 2 3 8");
  const auto sliced = [](std::vector<int64_t> starts, std::vector<int64_t> ends,
                         std::vector<int64_t> axes, std::vector<int64_t> steps) {
    return import(TestGraph()
                      .input("x", kFloat, {"N", 10})
                      .ints("s", starts)
                      .ints("e", ends)
                      .ints("a", axes)
                      .ints("t", steps)
                      .node("Slice", {"x", "s", "e", "a", "t"}, {"y"})
                      .output("y"));
  };
  EXPECT_EQ(sliced({0}, {INT64_MAX}, {0}, {2}).shape(), "((N + 1)/2) 10");
  EXPECT_EQ(sliced({-1}, {INT64_MIN}, {1}, {-1}).shape(), "N 10");
  EXPECT_EQ(sliced({-1}, {INT64_MIN + 1}, {0}, {-1}).shape(), "N 10");
  EXPECT_EQ(sliced({0}, {-1}, {0}, {1}).shape(), "max((N - 1), 0) 10");
  EXPECT_EQ(sliced({8}, {2}, {1}, {1}).shape(), "N 0");
  EXPECT_NE(sliced({0}, {5}, {2}, {1}).error.find("axis 2"), std::string::npos);
  EXPECT_NE(sliced({0}, {5}, {1}, {0}).error.find("step is 0"), std::string::npos);
  const Imported dynamic = import(TestGraph()
                                      .input("x", kFloat, {3, 10})
                                      .input("s", kInt64, {1})
                                      .ints("e", {9})
                                      .ints("a", {1})
                                      .node("Slice", {"x", "s", "e", "a"}, {"y"})
                                      .output("y"));
  EXPECT_EQ(dynamic.layer().inputs.size(), 4u);
  EXPECT_EQ(dynamic.graph->outputs()[0]->shape[0], ir::Dim(3));
}

TEST(Operators, SplitBecomesSlices) {
  const auto split = [](std::vector<Attribute> attributes, int64_t version, int outputs) {
    std::vector<std::string> names;
    TestGraph graph;
    graph.input("x", kFloat, {2, 7});
    for (int k = 0; k < outputs; ++k) names.push_back("y" + std::to_string(k));
    graph.node("Split", {"x"}, names, attributes, "s");
    for (const std::string& name : names) graph.output(name);
    return import(graph, version);
  };
  const Imported given = split({integer("axis", 1), ints("split", {3, 4})}, 11, 2);
  EXPECT_EQ(given.kinds(), "Slice Slice");
  EXPECT_EQ(given.shape(1), "2 4");
  EXPECT_EQ(given.layer(1).as<ir::SliceAttrs>().start[1], ir::Dim(3));
  const Imported uneven = split({integer("axis", 1), integer("num_outputs", 3)}, 18, 3);
  EXPECT_EQ(uneven.shape(0), "2 3");
  EXPECT_EQ(uneven.shape(2), "2 1");
  EXPECT_NE(split({integer("axis", 1)}, 13, 3).error.find("cannot be divided"), std::string::npos);
  EXPECT_NE(
      split({integer("axis", 1), ints("split", {3, 3})}, 11, 2).error.find("6 elements together"),
      std::string::npos);
}

TEST(Operators, PadForms) {
  EXPECT_EQ(
      one("Pad", {ints("pads", {0, 0, 1, 2, 0, 0, 3, 4}), text("mode", "reflect")}, 9).shape(),
      "1 3 12 14");
  const Imported axes = import(TestGraph()
                                   .input("x", kFloat, {2, "W"})
                                   .ints("p", {1, -2})
                                   .initializer(floats_tensor("v", {}, {7}))
                                   .ints("a", {-1})
                                   .node("Pad", {"x", "p", "v", "a"}, {"y"})
                                   .output("y"),
                               18);
  EXPECT_EQ(axes.shape(), "2 (W - 1)");
  EXPECT_EQ(axes.layer().as<ir::PadAttrs>().value, 7);
  EXPECT_EQ(axes.layer().inputs.size(), 1u);
}

TEST(Operators, ConcatExpandTile) {
  EXPECT_EQ(import(TestGraph()
                       .input("a", kFloat, {"N", 2})
                       .input("b", kFloat, {"N", "K"})
                       .node("Concat", {"a", "b"}, {"y"}, {integer("axis", -1)})
                       .output("y"))
                .shape(),
            "N (K + 2)");
  EXPECT_EQ(import(TestGraph()
                       .input("a", kFloat, {3, 1})
                       .ints("s", {2, 1, 6})
                       .node("Expand", {"a", "s"}, {"y"})
                       .output("y"))
                .shape(),
            "2 3 6");
  EXPECT_EQ(import(TestGraph()
                       .input("a", kFloat, {"N", 2})
                       .ints("r", {1, 3})
                       .node("Tile", {"a", "r"}, {"y"})
                       .output("y"))
                .shape(),
            "N 6");
  EXPECT_EQ(
      one("DepthToSpace", {integer("blocksize", 2), text("mode", "CRD")}, 13, {1, 8, 3, 4}).shape(),
      "1 2 6 8");
  EXPECT_EQ(one("SpaceToDepth", {integer("blocksize", 2)}).shape(), "1 12 4 4");
}

// Shape → Gather → Unsqueeze → Concat → Reshape disappears: the reshape is static.
TEST(Operators, ShapeArithmeticIsResolved) {
  const Imported m = import(TestGraph()
                                .input("x", kFloat, {"N", "T", 64})
                                .scalar("zero", 0)
                                .scalar("one", 1)
                                .ints("a0", {0})
                                .ints("heads", {8, 8})
                                .node("Shape", {"x"}, {"s"})
                                .node("Gather", {"s", "zero"}, {"n"})
                                .node("Gather", {"s", "one"}, {"t"})
                                .node("Mul", {"n", "t"}, {"nt"})
                                .node("Unsqueeze", {"nt", "a0"}, {"ntv"})
                                .node("Concat", {"ntv", "heads"}, {"target"}, {integer("axis", 0)})
                                .node("Reshape", {"x", "target"}, {"y"})
                                .output("y"));
  EXPECT_EQ(m.shape(), "N*T 8 8");
  EXPECT_EQ(m.graph->outputs()[0]->producer->inputs.size(), 1u);
}

// A shape may go through floats before it becomes one.
TEST(Operators, ConstantsOfFloatsThatMakeShapes) {
  const Imported m =
      import(TestGraph()
                 .input("x", kFloat, {196, 8})
                 .initializer(floats_tensor("pixels", {}, {196}))
                 .initializer(floats_tensor("half", {}, {0.5f}))
                 .ints("axis", {0})
                 .ints("channels", {8})
                 .node("Pow", {"pixels", "half"}, {"root"})
                 .node("Cast", {"root"}, {"side"}, {integer("to", kInt64)})
                 .node("Unsqueeze", {"side", "axis"}, {"sides"})
                 .node("Concat", {"sides", "sides", "channels"}, {"target"}, {integer("axis", 0)})
                 .node("Reshape", {"x", "target"}, {"y"})
                 .output("y"));
  EXPECT_EQ(m.shape(), "14 14 8");
  EXPECT_EQ(m.graph->outputs()[0]->producer->inputs.size(), 1u);
  const Imported of_shape =
      import(TestGraph()
                 .input("x", kFloat, {1, 196, 8})
                 .initializer(floats_tensor("half", {}, {0.5f}))
                 .scalar("one", 1)
                 .ints("axis", {0})
                 .ints("rest", {-1})
                 .node("Shape", {"x"}, {"s"})
                 .node("Gather", {"s", "one"}, {"pixels"})
                 .node("Cast", {"pixels"}, {"f"}, {integer("to", kFloat)})
                 .node("Pow", {"f", "half"}, {"root"})
                 .node("Cast", {"root"}, {"side"}, {integer("to", kInt64)})
                 .node("Unsqueeze", {"side", "axis"}, {"sides"})
                 .node("Concat", {"sides", "sides", "rest"}, {"target"}, {integer("axis", 0)})
                 .node("Reshape", {"x", "target"}, {"y"})
                 .output("y"));
  EXPECT_EQ(of_shape.shape(), "14 14 8");
  const Imported resized =
      import(TestGraph()
                 .input("x", kFloat, {1, 3, 8, 8})
                 .initializer(floats_tensor("three", {1}, {3}))
                 .initializer(floats_tensor("two", {1}, {2}))
                 .initializer(floats_tensor("one", {2}, {1, 1}))
                 .node("Div", {"three", "two"}, {"scale"})
                 .node("Concat", {"one", "scale", "scale"}, {"scales"}, {integer("axis", 0)})
                 .node("Resize", {"x", "", "scales"}, {"y"})
                 .output("y"));
  EXPECT_EQ(resized.shape(), "1 3 12 12");
}

// Division of integers goes toward zero, which is not down where what is divided may be negative.
TEST(Operators, LengthsThatMayBeNegativeOnTheWay) {
  const Imported m = import(TestGraph()
                                .input("x", kFloat, {"N", "T"})
                                .scalar("zero", 0)
                                .scalar("one", 1)
                                .scalar("two", 2)
                                .scalar("less", -3)
                                .node("Shape", {"x"}, {"s"})
                                .node("Gather", {"s", "one"}, {"t"})
                                .node("Add", {"less", "t"}, {"a"})
                                .node("Div", {"a", "two"}, {"d"})
                                .node("Add", {"d", "one"}, {"length"})
                                .node("Range", {"zero", "length", "one"}, {"r"})
                                .output("r"));
  const ir::Dim extent = m.graph->outputs()[0]->shape[0];
  const ir::Dim t = m.graph->inputs()[0]->shape[1];
  ASSERT_FALSE(m.graph->symbols().depends_on_runtime(extent));
  for (int64_t length = 0; length < 12; ++length) {
    std::vector<int64_t> bindings(m.graph->symbols().size());
    bindings[t.symbol_id()] = length;
    EXPECT_EQ(m.graph->symbols().evaluate(extent, bindings), (length - 3) / 2 + 1) << length;
  }
}

TEST(Operators, RangeAndMasksFollowSymbols) {
  const Imported m = import(TestGraph()
                                .input("x", kFloat, {"N", "T"})
                                .scalar("zero", 0)
                                .scalar("one", 1)
                                .node("Shape", {"x"}, {"s"})
                                .node("Gather", {"s", "one"}, {"t"})
                                .node("Range", {"zero", "t", "one"}, {"r"})
                                .output("r"));
  EXPECT_EQ(m.shape(), "T");
}

TEST(Operators, ConstantForms) {
  const auto constant = [](Attribute attribute) {
    return import(TestGraph()
                      .input("x", kFloat, {2})
                      .node("Constant", {}, {"c"}, {attribute})
                      .node("Cast", {"c"}, {"f"}, {integer("to", kFloat)})
                      .node("Add", {"x", "f"}, {"y"})
                      .output("y"));
  };
  EXPECT_EQ(constant(tensor_attr("value", floats_tensor("", {3, 2}, {1, 2, 3, 4, 5, 6}))).shape(),
            "3 2");
  EXPECT_EQ(constant(reals("value_floats", {1, 2})).shape(), "2");
  EXPECT_EQ(constant(integer("value_int", 5)).shape(), "2");
  EXPECT_NE(constant(text("value_string", "a")).error.find("strings"), std::string::npos);
  const Imported fill =
      import(TestGraph()
                 .ints("s", {2, 3})
                 .node("ConstantOfShape", {"s"}, {"y"},
                       {tensor_attr("value", raw_tensor<int64_t>("", kInt64, {1}, {9}))})
                 .output("y"));
  EXPECT_EQ(fill.layer().as<ir::FillAttrs>().value, 9);
  EXPECT_EQ(fill.shape(), "2 3");
}

// --- reductions, indices, resize, recurrence, quantization

TEST(Operators, ReduceForms) {
  EXPECT_EQ(one("ReduceMean", {ints("axes", {-1, 2}), integer("keepdims", 0)}).shape(), "1 3");
  EXPECT_EQ(one("ReduceSum").shape(), "1 1 1 1");
  EXPECT_EQ(one("ReduceSum", {integer("noop_with_empty_axes", 1)}).kinds(), "Unary");
  EXPECT_EQ(import(TestGraph()
                       .input("x", kFloat, {2, "H"})
                       .ints("a", {1})
                       .node("ReduceMax", {"x", "a"}, {"y"})
                       .output("y"),
                   18)
                .shape(),
            "2 1");
  EXPECT_EQ(one("ArgMax", {integer("axis", -1), integer("keepdims", 0)}).shape(), "1 3 8");
  const auto running_sum = [](const std::vector<Extent>& shape) {
    return import(TestGraph()
                      .input("x", kFloat, shape)
                      .scalar("zero", 0)
                      .node("CumSum", {"x", "zero"}, {"y"})
                      .output("y"));
  };
  EXPECT_EQ(running_sum({}).kinds(), "Unary");
  EXPECT_EQ(running_sum({3}).kinds(), "CumSum");
  EXPECT_EQ(import(TestGraph()
                       .input("x", kFloat, {2, 9})
                       .ints("k", {4})
                       .node("TopK", {"x", "k"}, {"v", "i"})
                       .output("v")
                       .output("i"))
                .shape(1),
            "2 4");
  EXPECT_NE(import(TestGraph()
                       .input("x", kFloat, {2, 3})
                       .ints("k", {4})
                       .node("TopK", {"x", "k"}, {"v", "i"})
                       .output("v"))
                .error.find("k = 4"),
            std::string::npos);
}

TEST(Operators, GatherForms) {
  const auto gathered = [](const std::string& op, const std::vector<Extent>& indices,
                           std::vector<Attribute> attributes) {
    return import(TestGraph()
                      .input("x", kFloat, {5, "N", 7})
                      .input("i", kInt64, indices)
                      .node(op, {"x", "i"}, {"y"}, attributes)
                      .output("y"))
        .shape();
  };
  EXPECT_EQ(gathered("Gather", {2, 3}, {integer("axis", 1)}), "5 2 3 7");
  EXPECT_EQ(gathered("Gather", {}, {integer("axis", -1)}), "5 N");
  EXPECT_EQ(gathered("GatherElements", {5, 2, 7}, {integer("axis", 1)}), "5 2 7");
  EXPECT_EQ(gathered("GatherND", {4, 2}, {}), "4 7");
  EXPECT_NE(import(TestGraph()
                       .input("x", kFloat, {5})
                       .ints("i", {5})
                       .node("Gather", {"x", "i"}, {"y"})
                       .output("y"))
                .error.find("index 5"),
            std::string::npos);
}

TEST(Operators, ColumnsByTheirNumbers) {
  const auto picked = [](const std::vector<int64_t>& columns, const std::vector<Extent>& x) {
    return import(TestGraph()
                      .input("x", kFloat, x)
                      .ints("i", columns)
                      .node("ArrayFeatureExtractor", {"x", "i"}, {"y"})
                      .output("y"));
  };
  EXPECT_EQ(picked({1, 5}, {"N", 9}).shape(), "N 2");
  EXPECT_EQ(picked({1, 5}, {"N", 9}).layer().kind, LayerKind::kGather);
  EXPECT_EQ(picked({-1}, {"N", 9}).layer().kind, LayerKind::kGeneric);  // an error, not a column
  EXPECT_EQ(picked({1, 5}, {9}).layer().kind, LayerKind::kGeneric);
}

TEST(Operators, CornersOfFractionsAreAWarning) {
  struct Recorder : Logger {
    std::string text;
    void log(Severity, std::string_view line) override { text += line; }
  } recorder;
  const auto warning = [&](float scale) {
    recorder.text.clear();
    set_logger(&recorder, Severity::kWarning);
    import(
        TestGraph()
            .input("x", kFloat, {1, 3, "H", 96})
            .initializer(floats_tensor("none", {0}, {}))
            .initializer(floats_tensor("by", {4}, {1, 1, 2, scale}))
            .node("Resize", {"x", "none", "by"}, {"y"},
                  {text("mode", "linear"), text("coordinate_transformation_mode", "align_corners")})
            .output("y"));
    set_logger(nullptr);
    return recorder.text;
  };
  EXPECT_EQ(warning(1.5f), "");
  EXPECT_NE(warning(1.7f).find("for 163.2 elements of 96"), std::string::npos);
}

TEST(Operators, ResizeForms) {
  const auto base = [] {
    return TestGraph()
        .input("x", kFloat, {1, 3, "H", 10})
        .initializer(floats_tensor("none", {0}, {}))
        .initializer(floats_tensor("by", {4}, {1, 1, 2, 0.5f}));
  };
  EXPECT_EQ(
      import(base().node("Upsample", {"x", "by"}, {"y"}, {text("mode", "nearest")}).output("y"), 9)
          .shape(),
      "1 3 H*2 5");
  const Imported scaled = import(
      base()
          .node("Resize", {"x", "none", "by"}, {"y"},
                {text("mode", "linear"), text("coordinate_transformation_mode", "align_corners")})
          .output("y"),
      11);
  EXPECT_EQ(scaled.shape(), "1 3 H*2 5");
  EXPECT_EQ(scaled.layer().as<ir::ResizeAttrs>().transform, ir::CoordinateTransform::kAlignCorners);
  EXPECT_EQ(
      import(
          base().ints("to", {1, 3, 20, 20}).node("Resize", {"x", "", "", "to"}, {"y"}).output("y"),
          13)
          .shape(),
      "1 3 20 20");
  EXPECT_EQ(import(base()
                       .ints("to", {5})
                       .node("Resize", {"x", "", "", "to"}, {"y"}, {ints("axes", {3})})
                       .output("y"),
                   18)
                .shape(),
            "1 3 H 5");
  EXPECT_NE(import(base().node("Resize", {"x"}, {"y"}).output("y"), 13)
                .error.find("exactly one of scales and sizes"),
            std::string::npos);
}

TEST(Operators, Recurrence) {
  const Imported m =
      import(TestGraph()
                 .input("x", kFloat, {"T", "N", 5})
                 .floats("w", {2, 16, 5})
                 .floats("r", {2, 16, 4})
                 .node("LSTM", {"x", "w", "r"}, {"y", "", "c"},
                       {text("direction", "bidirectional"), integer("hidden_size", 4)})
                 .output("y")
                 .output("c"));
  EXPECT_EQ(m.shape(0), "T 2 N 4");
  EXPECT_EQ(m.shape(1), "2 N 4");
  EXPECT_EQ(m.layer().outputs[1], nullptr);
  EXPECT_NE(import(TestGraph()
                       .input("x", kFloat, {1, 1, 5})
                       .floats("w", {1, 12, 5})
                       .floats("r", {1, 16, 4})
                       .node("LSTM", {"x", "w", "r"}, {"y"}, {integer("hidden_size", 4)})
                       .output("y"))
                .error.find("should be [1,16,5]"),
            std::string::npos);
}

TEST(Operators, QuantizedOperators) {
  const auto graph = [] {
    return TestGraph()
        .input("x", kFloat, {1, 2, 4, 4})
        .initializer(floats_tensor("s", {}, {0.5f}))
        .initializer(raw_tensor<uint8_t>("z", kUint8, {}, {128}))
        .initializer(floats_tensor("s2", {2}, {1, 2}))
        .initializer(raw_tensor<int8_t>("w", kInt8, {2, 2, 1, 1}, {1, 2, 3, 4}))
        .initializer(raw_tensor<int8_t>("wz", kInt8, {}, {0}));
  };
  const Imported qdq = import(graph()
                                  .node("QuantizeLinear", {"x", "s", "z"}, {"q"})
                                  .node("DequantizeLinear", {"q", "s", "z"}, {"y"})
                                  .output("y"));
  EXPECT_EQ(qdq.kinds(), "Quantize Dequantize");
  EXPECT_EQ(qdq.layer().outputs[0]->type, ir::DataType::kUInt8);
  const Imported conv =
      import(graph()
                 .node("QuantizeLinear", {"x", "s", "z"}, {"q"})
                 .node("QLinearConv", {"q", "s", "z", "w", "s", "wz", "s", "z"}, {"y"})
                 .output("y"));
  EXPECT_EQ(conv.kinds(), "Quantize Dequantize Dequantize Convolution Quantize");
  EXPECT_NE(
      import(
          graph().node("QuantizeLinear", {"x", "s2", "z"}, {"y"}, {integer("axis", 2)}).output("y"))
          .error.find("2 scales for axis 2"),
      std::string::npos);
}

TEST(Operators, IntegerProducts) {
  const auto product = [](const std::string& op, bool constant_zero) {
    TestGraph graph;
    graph.input("x", kUint8, {1, 2, 4, 4}).initializer(raw_tensor<uint8_t>("z", kUint8, {}, {7}));
    if (!constant_zero) graph.input("u", kUint8, {});
    graph
        .initializer(op == "ConvInteger"
                         ? raw_tensor<uint8_t>("w", kUint8, {2, 2, 1, 1}, {1, 128, 200, 255})
                         : raw_tensor<uint8_t>("w", kUint8, {4, 1}, {1, 128, 200, 255}))
        .initializer(raw_tensor<uint8_t>("wz", kUint8, {}, {128}));
    return import(graph.node(op, {"x", "w", constant_zero ? "z" : "u", "wz"}, {"y"}).output("y"));
  };
  const Imported conv = product("ConvInteger", true);
  EXPECT_EQ(conv.kinds(), "Convolution");
  EXPECT_EQ(conv.layer().as<ir::ConvolutionAttrs>().zero_point, 7);
  EXPECT_EQ(conv.layer().outputs[0]->type, ir::DataType::kInt32);
  EXPECT_EQ(conv.layer().inputs[1]->values<int8_t>()[0], -127);
  EXPECT_EQ(product("MatMulInteger", true).kinds(), "MatrixMultiply");
  EXPECT_EQ(product("MatMulInteger", false).kinds(), "Generic");
  const Imported dynamic = import(TestGraph()
                                      .input("a", kUint8, {2, 3, 4})
                                      .input("b", kUint8, {2, 4, 5})
                                      .initializer(raw_tensor<uint8_t>("z", kUint8, {}, {9}))
                                      .node("MatMulInteger", {"a", "b", "", "z"}, {"y"})
                                      .output("y"));
  EXPECT_EQ(dynamic.kinds(), "MatrixMultiply");
  EXPECT_EQ(dynamic.layer().as<ir::MatrixMultiplyAttrs>().b_zero_point, 9);
  EXPECT_EQ(dynamic.layer().outputs[0]->type, ir::DataType::kInt32);
  const Imported late = import(TestGraph()
                                   .input("a", kUint8, {2, 3, 4})
                                   .input("b", kUint8, {2, 4, 5})
                                   .input("az", kUint8, {})
                                   .input("bz", kUint8, {1})
                                   .node("MatMulInteger", {"a", "b", "az", "bz"}, {"y"})
                                   .output("y"));
  EXPECT_EQ(late.kinds().find("Generic"), std::string::npos);
  EXPECT_EQ(late.shape(), "2 3 5");
}

TEST(Operators, LogSumExpOfHalves) {
  const Imported y = import(
      TestGraph().input("x", kHalf, {2, 8}).node("ReduceLogSumExp", {"x"}, {"y"}).output("y"));
  EXPECT_EQ(
      y.kinds(),
      "Cast Reduce ElementWise ElementWise ElementWise Unary Reduce Unary ElementWise Cast Unary");
  EXPECT_EQ(y.shape(), "1 1");
}

TEST(Operators, TransformsAreFastOrProducts) {
  const auto transform = [](int length, int parts, bool inverse, bool onesided, int type = kFloat) {
    return import(
        TestGraph()
            .input("x", type, {3, length, parts})
            .node("DFT", {"x"}, {"y"}, {integer("inverse", inverse), integer("onesided", onesided)})
            .output("y"),
        20);
  };
  EXPECT_EQ(transform(1000, 1, false, true).kinds(), "Generic Shuffle");
  EXPECT_EQ(transform(1000, 1, false, true).shape(), "3 501 2");
  EXPECT_EQ(transform(513, 2, true, true).shape(), "3 1024 1");
  EXPECT_EQ(transform(509, 2, false, false).kinds(), "Shuffle MatrixMultiply Shuffle");
  EXPECT_EQ(transform(1000, 1, false, true, kHalf).kinds(), "Cast Generic Shuffle Cast");
  EXPECT_EQ(transform(509, 2, false, false, kHalf).kinds(),
            "Cast Shuffle MatrixMultiply Shuffle Cast");
  const auto frames = [](int length, int type = kFloat) {
    return import(TestGraph()
                      .input("x", type, {2, 5000, 1})
                      .input("w", type, {length})
                      .initializer(raw_tensor<int64_t>("step", 7, {}, {160}))
                      .node("STFT", {"x", "step", "w"}, {"y"})
                      .output("y"));
  };
  EXPECT_EQ(frames(400).kinds(), "Generic");
  EXPECT_EQ(frames(400).shape(), "2 29 201 2");
  EXPECT_EQ(frames(400, kHalf).kinds(), "Cast Cast Generic Cast");
}

Imported import_microsoft(const TestGraph& graph) {
  const std::string bytes = Wire()
                                .number(1, 8)
                                .message(7, graph.wire)
                                .message(8, opset(17))
                                .message(8, opset(1, "com.microsoft"))
                                .bytes;
  Result<ImportedModel> result = import_bytes(as_bytes(bytes));
  if (!result.ok()) return {nullptr, result.status().message()};
  EXPECT_TRUE(ir::verify(*result->graph).ok()) << ir::verify(*result->graph).message();
  return {std::move(result->graph), ""};
}

TEST(Operators, QuantizedOperatorsOfOnnxRuntime) {
  const auto graph = [] {
    return TestGraph()
        .input("x", kUint8, {2, 32})
        .initializer(floats_tensor("s", {}, {0.5f}))
        .initializer(raw_tensor<uint8_t>("z", kUint8, {}, {128}));
  };
  const auto imported = [&](const std::string& op, const std::vector<std::string>& inputs,
                            const std::vector<Attribute>& attributes = {}) {
    return import_microsoft(
        graph().node(op, inputs, {"y"}, attributes, "", "com.microsoft").output("y"));
  };
  EXPECT_EQ(imported("QLinearAdd", {"x", "s", "z", "x", "s", "z", "s", "z"}).kinds(),
            "Dequantize Dequantize ElementWise Quantize");
  EXPECT_EQ(imported("QLinearSigmoid", {"x", "s", "z", "s", "z"}).kinds(),
            "Dequantize Activation Quantize");
  EXPECT_EQ(
      imported("QLinearConcat", {"s", "z", "x", "s", "z", "x", "s", "z"}, {integer("axis", 1)})
          .shape(),
      "2 64");
  EXPECT_EQ(imported("QGemm", {"x", "s", "z", "x", "s", "z"}, {integer("transB", 1)}).kinds(),
            "Dequantize Dequantize MatrixMultiply");
  EXPECT_NE(imported("NoSuchOperator", {"x"}).error.find("com.microsoft"), std::string::npos);
}

// ONNX Runtime's transformer optimizer leaves out the import of com.microsoft, which has one
// version.
TEST(Operators, OfMicrosoftWithoutAnImport) {
  const auto imported = [](const std::string& domain, const std::string& op) {
    return import(
        TestGraph().input("x", kFloat, {2, 8}).node(op, {"x"}, {"y"}, {}, "", domain).output("y"));
  };
  EXPECT_EQ(imported("com.microsoft", "QuickGelu").shape(), "2 8");
  EXPECT_NE(imported("ai.onnx.ml", "Normalizer").error.find("ai.onnx.ml"), std::string::npos);
}

// What quantize_dynamic makes of an LSTM: weights transposed, as codes; a scale per direction or
// column.
TEST(Operators, DynamicQuantizeLstm) {
  const auto lstm = [](int64_t scales) {
    std::vector<uint8_t> codes(3 * 8);
    for (size_t k = 0; k < codes.size(); ++k) codes[k] = static_cast<uint8_t>(100 + k);
    const std::vector<uint8_t> zeros(static_cast<size_t>(scales), 110);
    std::vector<float> factors(static_cast<size_t>(scales), 0.5f);
    factors.back() = 2;
    return import_microsoft(TestGraph()
                                .input("x", kFloat, {4, 1, 3})
                                .initializer(raw_tensor<uint8_t>("w", kUint8, {1, 3, 8}, codes))
                                .initializer(raw_tensor<uint8_t>(
                                    "r", kUint8, {1, 2, 8}, {codes.begin(), codes.begin() + 16}))
                                .initializer(floats_tensor("s", {1, scales}, factors))
                                .initializer(raw_tensor<uint8_t>("z", kUint8, {1, scales}, zeros))
                                .node("DynamicQuantizeLSTM",
                                      {"x", "w", "r", "", "", "", "", "", "s", "z", "s", "z"},
                                      {"y"}, {integer("hidden_size", 2)}, "", "com.microsoft")
                                .output("y"));
  };
  const Imported by_column = lstm(8);
  ASSERT_EQ(by_column.error, "");
  EXPECT_EQ(by_column.kinds(), "Recurrence");
  EXPECT_EQ(by_column.shape(), "4 1 1 2");
  const auto& inputs = by_column.layer().inputs;
  ASSERT_EQ(inputs.size(), 12u);
  EXPECT_EQ(inputs[1]->values<uint8_t>()[1], 108);   // column 0, row 1
  EXPECT_EQ(inputs[1]->values<uint8_t>()[21], 107);  // column 7, row 0
  EXPECT_EQ(inputs[8]->values<float>()[7], 2);
  EXPECT_EQ(inputs[11]->values<uint8_t>()[7], 110);
  const Imported by_direction = lstm(1);
  EXPECT_EQ(by_direction.layer().inputs[10]->values<float>()[7], 2);
  EXPECT_EQ(by_direction.layer().inputs[9]->values<uint8_t>()[7], 110);
  EXPECT_NE(lstm(3).error.find("3 scales"), std::string::npos);
}

TEST(Operators, WeightsOfFourBits) {
  const auto product = [](int64_t k) {
    return import_microsoft(TestGraph()
                                .input("x", kFloat, {3, 16})
                                .initializer(raw_tensor<uint8_t>("w", kUint8, {1, 1, 8},
                                                                 {0x98, 0, 0xf1, 0, 0, 0, 0, 0x80}))
                                .initializer(floats_tensor("s", {1}, {0.5f}))
                                .node("MatMulNBits", {"x", "w", "s"}, {"y"},
                                      {integer("K", k), integer("N", 1), integer("block_size", 16)},
                                      "", "com.microsoft")
                                .output("y"));
  };
  const Imported m = product(16);
  ASSERT_EQ(m.error, "");
  EXPECT_EQ(m.shape(), "3 1");
  EXPECT_EQ(m.kinds(), "LowBitMultiply");
  const auto& weights = m.layer().as<ir::LowBitMultiplyAttrs>();
  EXPECT_EQ(weights.bits, 4);
  EXPECT_EQ(weights.zero, ir::DataType::kUndefined);  // all are 8
  const ir::RecordReader records(ir::RecordLayout(weights),
                                 m.layer().inputs[1]->constant->view.data());
  EXPECT_EQ(records.scale(0, 0), 0.5f);
  EXPECT_EQ(records.zero(0, 0), 8);
  EXPECT_EQ(records.code(0, 0, 0), 8);
  EXPECT_EQ(records.code(0, 0, 1), 9);
  EXPECT_EQ(records.code(0, 0, 4), 1);
  EXPECT_EQ(records.code(0, 0, 5), 15);
  EXPECT_NE(product(64).error.find("N, K and block_size"), std::string::npos);
}

TEST(Operators, MixtureOfExperts) {
  const auto mixture = [](int64_t k, int64_t fusion) {
    return import_microsoft(
        TestGraph()
            .input("x", kFloat, {1, 3, 2})
            .input("logits", kFloat, {3, 2})
            .initializer(raw_tensor<uint8_t>("w1", kUint8, {2, 4, 1},
                                             {0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe}))
            .initializer(floats_tensor("s1", {2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}))
            .initializer(floats_tensor("b1", {2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}))
            .initializer(raw_tensor<uint8_t>("w2", kUint8, {2, 2, 1}, {0x10, 0x32, 0x54, 0x76}))
            .initializer(floats_tensor("s2", {2, 2}, {1, 2, 3, 4}))
            .node("QMoE", {"x", "logits", "w1", "s1", "b1", "w2", "s2"}, {"y"},
                  {integer("k", k), integer("swiglu_fusion", fusion),
                   text("activation_type", "swiglu"), integer("expert_weight_bits", 4)},
                  "", "com.microsoft")
            .output("y"));
  };
  const Imported m = mixture(2, 1);
  ASSERT_EQ(m.error, "");
  EXPECT_EQ(m.shape(), "1 3 2");
  // The last: the network's output has its own name.
  EXPECT_EQ(m.kinds(), "TopK SoftMax Shuffle Experts Shuffle Unary");
  const ir::Layer& layer = m.layer(3);
  const auto& experts = layer.as<ir::ExpertsAttrs>();
  EXPECT_EQ(ir::to_string(experts.activation), "v2 = silu v0 1; v3 = mul v2 v1");
  // Even columns, the gates, come first: column 1 was 2, of codes 4 and 5.
  const ir::RecordReader second(
      ir::RecordLayout(ir::up_product(experts).low_bits()),
      layer.inputs[ir::kUpWeights]->constant->view.data() + ir::up_product(experts).bytes());
  EXPECT_EQ(second.scale(1, 0), 7);
  EXPECT_EQ(second.code(1, 0, 1), 13);
  EXPECT_EQ(second.zero(1, 0), 8);
  EXPECT_EQ(layer.inputs[ir::kUpBias]->values<float>()[5], 7);
  EXPECT_EQ(mixture(2, 2).layer(3).inputs[ir::kUpBias]->values<float>()[5], 6);
  EXPECT_NE(mixture(3, 1).error.find("k = 3 of 2 experts"), std::string::npos);
  EXPECT_NE(mixture(2, 0).error.find("without fc3 weights"), std::string::npos);
}

// ONNX Runtime hands the operator's defaults out with the node; RNN's are of two directions.
TEST(Operators, DefaultActivationsWrittenOut) {
  for (const char* direction : {"forward", "bidirectional"}) {
    const int64_t directions = std::string(direction) == "forward" ? 1 : 2;
    const Imported m =
        import(TestGraph()
                   .input("x", kFloat, {4, 1, 3})
                   .floats("w", {directions, 5, 3})
                   .floats("r", {directions, 5, 5})
                   .node("RNN", {"x", "w", "r"}, {"y"},
                         {text("direction", direction), texts("activations", {"Tanh", "Tanh"})})
                   .output("y"));
    ASSERT_EQ(m.error, "");
    const auto& attrs = std::get<ir::RnnAttrs>(m.layer().attrs);
    EXPECT_EQ(attrs.activations.size(), static_cast<size_t>(directions));
  }
}

// Neither a kernel nor another operator's import would tell.
TEST(Operators, InputsOfUnequalTypes) {
  const auto error_of = [](const std::string& op, const std::vector<int>& types) {
    TestGraph graph;
    std::vector<std::string> inputs;
    for (size_t k = 0; k < types.size(); ++k) {
      inputs.push_back("x" + std::to_string(k));
      graph.input(inputs.back(), types[k], {2, 3, 4});
    }
    return import(graph.node(op, inputs, {"y"}).output("y")).error;
  };
  EXPECT_NE(error_of("TensorScatter", {kFloat, kDouble})
                .find("inputs \"x0\" and \"x1\" have different types: float and double"),
            std::string::npos);
  EXPECT_NE(error_of("LSTM", {kFloat, kFloat, kFloat, kFloat, kInt32, kDouble}).find("\"x5\""),
            std::string::npos);
  EXPECT_NE(error_of("Sum", {kFloat, kFloat, kInt64}).find("\"x2\""), std::string::npos);
  EXPECT_EQ(error_of("Sum", {kFloat, kFloat, kFloat}), "");
}

TEST(Operators, GenericOperators) {
  const Imported m =
      import(TestGraph()
                 .input("a", kFloat, {"B", 3, 4})
                 .input("b", kFloat, {"B", 4, 5})
                 .node("Einsum", {"a", "b"}, {"y"}, {text("equation", "bij, bjk -> bik")})
                 .output("y"));
  EXPECT_EQ(m.shape(), "B 3 5");
  EXPECT_EQ(m.layer().kind, LayerKind::kMatrixMultiply);
  EXPECT_EQ(one("LRN", {integer("size", 3)}).kinds(), "Generic");
  const ImportOptions nothing{[](std::string_view) { return false; }};
  const std::string bytes = model(TestGraph()
                                      .input("x", kFloat, {1, 2})
                                      .node("LRN", {"x"}, {"y"}, {integer("size", 3)})
                                      .output("y"));
  const Result<ImportedModel> refused = import_bytes(as_bytes(bytes), {}, nothing);
  EXPECT_NE(refused.status().message().find("operator LRN has no kernel"), std::string::npos);
}

}  // namespace
}  // namespace camshaft::onnx_import
