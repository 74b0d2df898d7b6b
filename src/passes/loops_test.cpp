// SPDX-License-Identifier: Apache-2.0
// Layers with bodies.
#include <gtest/gtest.h>

#include "ir/text.h"
#include "passes/test_util.h"

namespace camshaft::passes {
namespace {

std::unique_ptr<ir::Graph> rewritten(const char* text) {
  auto graph = ir::parse_graph(text);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  if (!graph.ok()) return nullptr;
  loop_invariants(**graph, nullptr);
  EXPECT_TRUE(ir::verify(**graph).ok()) << ir::verify(**graph).message();
  auto before = ir::parse_graph(text);
  expect_same_numbers(**before, **graph, 0);
  return std::move(*graph);
}

// The weights go through a copy, the state does not stay, the constant step is captured.
TEST(LoopInvariants, WeightsThatALoopCarries) {
  const auto graph = rewritten(R"(graph "g" {
    input start: float[2, 3]
    constant trips: int64[] = [4]
    constant go: bool[] = [1]
    constant weights: float[3, 3] = random(1)
    constant shift: float[3] = random(2)
    last: float[2, 3], kept: float[3, 3], all: float[4, 2, 3] = Loop(trips, go, start, weights, shift) {scan_output_axes=[0]} graph "body" {
      input k: int64[]
      input on: bool[]
      input state: float[2, 3]
      input w: float[3, 3]
      input b: float[3]
      on_out: bool[] = Unary(on) {op=identity}
      product: float[2, 3] = MatrixMultiply(state, w)
      next: float[2, 3] = ElementWise(product, b) {op=add}
      copy: float[2, 3] = Unary(next) {op=identity}
      w_first: float[3, 3] = Unary(w) {op=identity}
      w_out: float[3, 3] = Unary(w_first) {op=identity}
      output on_out
      output next
      output w_out
      output copy
    }
    y: float[3, 3] = Unary(kept) {op=neg}
    output last
    output y
    output all
  })");
  ASSERT_TRUE(graph);
  const ir::Layer& loop = *graph->layers()[0];
  EXPECT_EQ(loop.inputs[3]->shape, ir::Shape{ir::Dim(1)});  // nothing in place of the weights
  EXPECT_EQ(loop.outputs[1], nullptr);
  EXPECT_EQ(graph->layers()[1]->inputs[0]->name, "weights");
  for (const auto& layer : loop.bodies[0]->layers()) {
    if (layer->kind == ir::LayerKind::kMatrixMultiply) {
      EXPECT_TRUE(layer->inputs[1]->is_constant());
    }
  }
}

// What is no constant is captured; a state that ends as it began stays carried if it is an output
// of the network that only the loop can make.
TEST(LoopInvariants, CapturedTensorsAndOutputsOfTheNetwork) {
  const char* const text = R"(graph "g" {
    input start: float[3]
    input rate: float[3]
    constant trips: int64[] = [3]
    constant go: bool[] = [1]
    last: float[3], same: float[3] = Loop(trips, go, start, rate) graph "body" {
      input k: int64[]
      input on: bool[]
      input state: float[3]
      input r: float[3]
      on_out: bool[] = Unary(on) {op=identity}
      next: float[3] = ElementWise(state, r) {op=mul}
      r_out: float[3] = Unary(r) {op=identity}
      output on_out
      output next
      output r_out
    }
    output last
    %s
  })";
  const auto with = [&](const std::string& line) {
    std::string whole = text;
    return whole.replace(whole.find("%s"), 2, line);
  };
  const auto free = rewritten(with("").c_str());
  ASSERT_TRUE(free);
  EXPECT_EQ(free->layers()[0]->inputs.size(), 5u);
  EXPECT_EQ(free->layers()[0]->inputs[4]->name, "rate");
  const auto bound = rewritten(with("output same").c_str());
  ASSERT_TRUE(bound);
  EXPECT_EQ(bound->layers()[0]->inputs.size(), 4u);
}

TEST(LoopInvariants, ScansAndBranches) {
  const auto scan = rewritten(R"(graph "g" {
    input x: float[5, 3]
    constant zero: float[3] = [0, 0, 0]
    constant factor: float[3] = random(1)
    constant offset: float[3] = random(2)
    last: float[3], f: float[3], all: float[5, 3] = Scan(zero, factor, x, offset) {num_scan_inputs=1, scan_input_axes=[0], scan_input_directions=[0], scan_output_axes=[0], scan_output_directions=[0]} graph "body" {
      input sum: float[3]
      input scale: float[3]
      input row: float[3]
      input plus: float[3]
      scaled: float[3] = ElementWise(row, scale) {op=mul}
      moved: float[3] = ElementWise(scaled, plus) {op=add}
      next: float[3] = ElementWise(sum, moved) {op=add}
      scale_out: float[3] = Unary(scale) {op=identity}
      copy: float[3] = Unary(next) {op=identity}
      output next
      output scale_out
      output copy
    }
    output last
    output all
  })");
  ASSERT_TRUE(scan);
  EXPECT_EQ(scan->layers()[0]->inputs[1]->shape, ir::Shape{ir::Dim(1)});
  for (const auto& layer : scan->layers()[0]->bodies[0]->layers()) {
    if (layer->name == "scaled" || layer->name == "moved") {
      EXPECT_TRUE(layer->inputs[1]->is_constant());
    }
  }
  const auto branches = rewritten(R"(graph "g" {
    input which: bool[]
    input x: float[3]
    constant c: float[3] = random(1)
    y: float[3] = If(which, c, x) graph "then" {
      input a: float[3]
      input b: float[3]
      sum: float[3] = ElementWise(a, b) {op=add}
      output sum
    } graph "else" {
      input d: float[3]
      input e: float[3]
      other: float[3] = Unary(e) {op=neg}
      output other
    }
    output y
  })");
  ASSERT_TRUE(branches);
  EXPECT_TRUE(branches->layers()[0]->bodies[0]->layers()[0]->inputs[0]->is_constant());
}

// --- layers that move in front

// Steps of a decoder that projects the keys of its attention anew; `trips` of them.
std::string decoder(const std::string& trips) {
  return R"(graph "g" {
    input keys: float[6, 4]
    input start: float[1, 3]
    constant trips: int64[] = [)" +
         trips + R"(]
    constant go: bool[] = [1]
    last: float[1, 3], all: float[)" +
         trips + R"(, 1, 6] = Loop(trips, go, start, keys) {scan_output_axes=[0]} graph "body" {
      input k: int64[]
      input on: bool[]
      input state: float[1, 3]
      input keys: float[6, 4]
      constant w: float[4, 3] = random(1)
      constant b: float[3] = random(2)
      on_out: bool[] = Unary(on) {op=identity}
      product: float[6, 3] = MatrixMultiply "projection"(keys, w)
      shifted: float[6, 3] = ElementWise "shift"(product, b) {op=add}
      across: float[3, 6] = Shuffle "across"(shifted) {first_transpose=[1, 0]}
      scores: float[1, 6] = MatrixMultiply "scores"(state, across)
      shares: float[1, 6] = SoftMax "shares"(scores)
      read: float[1, 3] = MatrixMultiply "read"(shares, shifted)
      next: float[1, 3] = ElementWise "next"(read, state) {op=add}
      output on_out
      output next
      output shares
    }
    output last
    output all
  })";
}

std::vector<std::string> names_of(const ir::Graph& graph) {
  std::vector<std::string> names;
  for (const auto& layer : graph.layers()) names.push_back(layer->name);
  return names;
}

TEST(LoopHoisting, KeysOfADecoderAreProjectedOnce) {
  for (const char* const trips : {"4", "0"}) {
    auto before = ir::parse_graph(decoder(trips)), after = ir::parse_graph(decoder(trips));
    ASSERT_TRUE(before.ok()) << before.status().message();
    EXPECT_EQ(loop_hoisting(**after, nullptr), 3);
    ASSERT_TRUE(ir::verify(**after).ok()) << ir::verify(**after).message();
    const std::vector<std::string> outside = names_of(**after);
    ASSERT_EQ(outside.size(), 4u);
    EXPECT_EQ(std::vector(outside.begin(), outside.begin() + 3),
              (std::vector<std::string>{"projection", "shift", "across"}));
    const ir::Layer& loop = *(*after)->layers()[3];
    EXPECT_EQ(names_of(*loop.bodies[0]),
              (std::vector<std::string>{"on_out", "scores", "shares", "read", "next"}));
    expect_same_numbers(**before, **after, 0);
    EXPECT_EQ(loop_hoisting(**after, nullptr), 0);
  }
}

// An output of the body that no iteration changes; a row of a scan, integers and what reads a
// state stay.
TEST(LoopHoisting, WhatMayNotMove) {
  const char* const text = R"(graph "g" {
    input rows: float[5, 3]
    input x: float[3]
    input n: int64[3]
    constant zero: float[3] = [0, 0, 0]
    last: float[3], all: float[5, 3], same: float[5, 3], counts: int64[5, 3] = Scan(zero, rows, x, n) {num_scan_inputs=1, scan_input_axes=[0], scan_input_directions=[0], scan_output_axes=[0, 0, 0], scan_output_directions=[0, 0, 0]} graph "body" {
      input sum: float[3]
      input row: float[3]
      input x: float[3]
      input n: int64[3]
      of_row: float[3] = ElementWise(row, x) {op=mul}
      next: float[3] = ElementWise(sum, of_row) {op=add}
      copy: float[3] = Unary(next) {op=identity}
      fixed: float[3] = Unary "fixed"(x) {op=exp}
      twice: int64[3] = ElementWise(n, n) {op=add}
      output next
      output copy
      output fixed
      output twice
    }
    output last
    output all
    output same
    output counts
  })";
  auto before = ir::parse_graph(text), after = ir::parse_graph(text);
  ASSERT_TRUE(before.ok()) << before.status().message();
  EXPECT_EQ(loop_hoisting(**after, nullptr), 1);
  ASSERT_TRUE(ir::verify(**after).ok()) << ir::verify(**after).message();
  EXPECT_EQ((*after)->layers()[0]->name, "fixed");
  expect_same_numbers(**before, **after, 0);
}

// EmbeddingBag, `ends` those of its bags of two.
std::string bag_loop(const std::string& ends, const std::string& op) {
  return R"(graph "g" {
    input indices: int64[6]
    constant table: float[5, 3] = random(1)
    constant trips: int64[] = [3]
    constant go: bool[] = [1]
    y: float[3, 3] = Loop(trips, go, indices) {scan_output_axes=[0], scan_output_directions=[0]} graph "body" {
      input k: int64[]
      input on: bool[]
      input all: int64[6]
      constant starts: int64[4] = [0, 2, 4, 6]
      constant ends: int64[3] = [)" +
         ends + R"(]
      constant rows: float[5, 3] = random(1)
      constant first: int64[1] = [0]
      on_out: bool[] = Unary(on) {op=identity}
      from: int64[] = Gather(starts, k) {axis=0}
      to: int64[] = Gather(ends, k) {axis=0}
      from1: int64[1] = Shuffle(from) {has_reshape=true, reshape=[1]}
      to1: int64[1] = Shuffle(to) {has_reshape=true, reshape=[1]}
      bag: int64[?0run] = Slice(all, from1, to1, first)
      found: float[?0run, 3] = Gather(rows, bag) {axis=0}
      sum: float[1, 3] = Reduce(found) {op=)" +
         op + R"(, axes=[0]}
      row: float[3] = Shuffle(sum) {has_reshape=true, reshape=[3]}
      output on_out
      output row
    }
    output y
  })";
}

TEST(LoopBatching, BagsOfOneLength) {
  for (const char* op : {"sum", "mean", "max"}) {
    auto text = bag_loop("2, 4, 6", op);
    // Random indices would lie outside: they are constants here.
    text.replace(text.find("input indices: int64[6]"), 23,
                 "constant indices: int64[6] = [4, 0, 1, 1, 3, 2]");
    auto before = ir::parse_graph(text), after = ir::parse_graph(text);
    ASSERT_TRUE(before.ok()) << before.status().message();
    EXPECT_EQ(loop_batching(**after, nullptr), 1);
    ASSERT_TRUE(ir::verify(**after).ok()) << ir::verify(**after).message();
    for (const auto& layer : (*after)->layers()) EXPECT_TRUE(layer->bodies.empty());
    expect_same_numbers(**before, **after, 0);
  }
}

TEST(LoopBatching, OtherBagsStayALoop) {
  auto graph = ir::parse_graph(bag_loop("2, 5, 6", "sum"));
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  Records records;
  EXPECT_EQ(loop_batching(**graph, &records), 0);
  EXPECT_EQ(records.back().text, "its body does not add up bags of one length");
}

}  // namespace
}  // namespace camshaft::passes
