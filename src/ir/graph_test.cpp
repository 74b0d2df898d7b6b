// SPDX-License-Identifier: Apache-2.0
#include "ir/graph.h"

#include <gtest/gtest.h>

#include "ir/rewriter.h"

namespace camshaft::ir {
namespace {

PointOpAttrs point(PointOp op) {
  PointOpAttrs attrs;
  attrs.op = op;
  return attrs;
}

// in → relu → a → neg → b → out
struct Chain {
  Graph graph{"chain"};
  Tensor* in = graph.add_tensor("in", DataType::kFloat, {2, 3});
  Tensor* a = graph.add_tensor("a", DataType::kFloat, {2, 3});
  Tensor* b = graph.add_tensor("b", DataType::kFloat, {2, 3});
  Layer* relu = graph.add_layer(LayerKind::kActivation, "relu", point(PointOp::kRelu), {in}, {a});
  Layer* neg = graph.add_layer(LayerKind::kUnary, "neg", point(PointOp::kNeg), {a}, {b});
  Chain() {
    graph.add_input(in);
    graph.add_output(b);
    relu->onnx_nodes = {"n1"};
    neg->onnx_nodes = {"n2", "n1"};
  }
};

TEST(Graph, NamesAreUnique) {
  Graph graph("g");
  EXPECT_EQ(graph.add_tensor("x", DataType::kFloat, {})->name, "x");
  EXPECT_EQ(graph.add_tensor("x", DataType::kFloat, {})->name, "x_1");
  EXPECT_EQ(graph.add_tensor("x_2", DataType::kFloat, {})->name, "x_2");
  EXPECT_EQ(graph.add_tensor("x", DataType::kFloat, {})->name, "x_3");
}

TEST(Graph, OrderedInsertionAndPositions) {
  Graph graph("g");
  std::vector<Layer*> expected;
  for (int k = 0; k < 50; ++k)
    expected.push_back(graph.add_layer(LayerKind::kUnary, "u", point(PointOp::kNeg), {}, {}));
  for (int k = 0; k < 50; ++k) {
    Layer* made =
        graph.add_layer(LayerKind::kUnary, "v", point(PointOp::kNeg), {}, {}, expected[2 * k]);
    expected.insert(expected.begin() + 2 * k, made);
  }
  graph.move_before(expected[3], expected[70]);
  std::rotate(expected.begin() + 3, expected.begin() + 4, expected.begin() + 70);
  graph.move_before(expected[90], expected[10]);
  std::rotate(expected.begin() + 10, expected.begin() + 90, expected.begin() + 91);
  graph.remove_layer(expected[40]);
  expected.erase(expected.begin() + 40);
  for (size_t k = 0; k < expected.size(); ++k) {
    EXPECT_EQ(graph.layers()[k].get(), expected[k]);
    EXPECT_EQ(graph.position(expected[k]), k);
  }
}

TEST(Graph, LinksFollowEdits) {
  Chain chain;
  EXPECT_EQ(chain.a->producer, chain.relu);
  EXPECT_EQ(sole_consumer(chain.a), chain.neg);
  EXPECT_EQ(sole_consumer(chain.b), nullptr);  // a network output
  chain.graph.append_input(chain.neg, chain.a);
  EXPECT_EQ(chain.a->consumers.size(), 2u);
  EXPECT_EQ(sole_consumer(chain.a), nullptr);
  chain.graph.set_input(chain.neg, 1, nullptr);
  chain.graph.set_input(chain.neg, 0, chain.in);
  EXPECT_TRUE(chain.a->consumers.empty());
  chain.graph.remove_layer(chain.relu);
  chain.graph.remove_unused_tensors();
  EXPECT_EQ(chain.graph.tensors().size(), 2u);
  EXPECT_EQ(chain.graph.add_tensor("a", DataType::kFloat, {})->name, "a");
}

TEST(Rewriter, AbsorbMergesNamesAndProvenance) {
  Chain chain;
  std::vector<RewriteRecord> record;
  Rewriter rewriter(chain.graph, "P", &record);
  rewriter.fused(*chain.relu, *chain.neg);
  rewriter.absorb(chain.relu, chain.neg);
  ASSERT_EQ(chain.graph.layers().size(), 1u);
  EXPECT_EQ(chain.relu->name, "relu + neg");
  EXPECT_EQ(chain.relu->outputs[0], chain.b);
  EXPECT_EQ(chain.b->producer, chain.relu);
  EXPECT_EQ(chain.relu->onnx_nodes, (std::vector<std::string>{"n1", "n2"}));
  EXPECT_EQ(record[0].text, "Fusing relu with neg");
  EXPECT_EQ(record[0].action, Action::kFuse);
  EXPECT_EQ(record[0].layers, (std::vector<std::string>{"relu", "neg"}));
  EXPECT_TRUE(chain.relu->came_from(record[0].subject));
  EXPECT_EQ(rewriter.edits(), 1);
}

TEST(Rewriter, LayersKnowWhatTheyWereMadeOf) {
  Chain chain;
  const int relu = chain.relu->number(), neg = chain.neg->number();
  EXPECT_NE(relu, neg);
  Rewriter rewriter(chain.graph, "P", nullptr);
  Layer* group[] = {chain.relu, chain.neg};
  const Layer* made = rewriter.replace(group, LayerKind::kUnary, PointOpAttrs(), {chain.in});
  EXPECT_TRUE(made->came_from(relu) && made->came_from(neg));
  EXPECT_NE(made->number(), relu);
  EXPECT_NE(made->number(), neg);
}

TEST(Rewriter, WhatIsDeclinedTwiceIsToldOnce) {
  Chain chain;
  std::vector<RewriteRecord> record;
  Rewriter rewriter(chain.graph, "P", &record);
  rewriter.running(*chain.relu);
  rewriter.declined(*chain.relu, {Reason::kCost, "because"});
  rewriter.declined(*chain.relu, {Reason::kCost, "because"});
  rewriter.declined(*chain.neg, {Reason::kCost, "because"});
  rewriter.removed(*chain.neg);
  rewriter.removed(*chain.neg);
  const std::vector<RewriteRecord> told = told_once(record);
  ASSERT_EQ(told.size(), 4u);
  EXPECT_EQ(told[0].layers[0], "relu");
  EXPECT_EQ(told[1].layers[0], "neg");
  EXPECT_EQ(told[0].reason, Reason::kCost);
  EXPECT_EQ(told[2].reason, Reason::kNone);
}

TEST(Rewriter, ReplacingANetworkOutputKeepsItsName) {
  Chain chain;
  Rewriter rewriter(chain.graph, "P", nullptr);
  EXPECT_TRUE(rewriter.can_replace(chain.b, chain.a));
  rewriter.replace_uses(chain.b, chain.a);
  EXPECT_EQ(chain.graph.outputs()[0], chain.a);
  EXPECT_EQ(chain.a->name, "b");
  rewriter.remove(chain.neg);
  EXPECT_FALSE(rewriter.can_replace(chain.a, chain.in));
  rewriter.replace_uses(chain.a, chain.in);  // becomes a copy of the input
  const Tensor* output = chain.graph.outputs()[0];
  EXPECT_EQ(output->name, "b");
  ASSERT_NE(output->producer, nullptr);
  EXPECT_EQ(output->producer->inputs[0], chain.in);
}

TEST(Types, NamesAndSizes) {
  for (int k = 0; k <= static_cast<int>(DataType::kUInt4); ++k) {
    const DataType type = static_cast<DataType>(k);
    EXPECT_EQ(*parse_type(type_name(type)), type);
  }
  EXPECT_EQ(bytes_for(DataType::kInt4, 3), 2u);
  EXPECT_EQ(bytes_for(DataType::kFloat, 3), 12u);
  EXPECT_EQ(format_description(Format::kLinear, DataType::kFloat), "Row major linear FP32");
  EXPECT_EQ(format_description(Format::kLinear, DataType::kInt8), "Row major Int8 format");
  EXPECT_EQ(format_description(Format::kChannelLast, DataType::kInt8), "Channel major Int8 format");
  EXPECT_EQ(format_description(Format::kChannelLast, DataType::kFloat),
            "Channel major FP32 format");
}

TEST(Attrs, EqualComparesEveryField) {
  ConvolutionAttrs a, b;
  a.kernel = b.kernel = {3, 3};
  EXPECT_TRUE(equal(Attrs(a), Attrs(b)));
  b.epilogue.num_inputs = 1;
  append(b.epilogue, PointOp::kRelu, 0);
  EXPECT_FALSE(equal(Attrs(a), Attrs(b)));
  EXPECT_FALSE(equal(Attrs(a), Attrs(PoolingAttrs())));
  EXPECT_EQ(parse_enum<ReduceOp>("log_sum_exp"), ReduceOp::kLogSumExp);
  EXPECT_FALSE(parse_enum<ReduceOp>("median").has_value());
  EXPECT_EQ(*parse_kind("PointWise"), LayerKind::kPointWise);
  EXPECT_TRUE(std::holds_alternative<PoolingAttrs>(default_attrs(LayerKind::kPooling)));
}

}  // namespace
}  // namespace camshaft::ir
