// SPDX-License-Identifier: Apache-2.0
// Dead layers, no-ops, constants, duplicates, shuffles.
#include <gtest/gtest.h>

#include "passes/test_util.h"

namespace camshaft::passes {
namespace {

TEST(RemoveDeadLayers, TakesWholeChains) {
  expect_rewrite(dead_layer_removal, R"ir(graph "g" {
    input x: float[2]
    a: float[2] = Unary(x) {op=neg}
    b: float[2] = Unary(a) {op=exp}
    c: float[2] = Unary(x) {op=abs}
    output c
  })ir",
                 "c = Unary(x) {op=abs}");
}

TEST(RemoveNoOps, UsersReadTheInput) {
  expect_rewrite(no_op_removal, R"ir(graph "g" {
    input x: float[2, n]
    constant zero: float[1] = [0]
    constant one: float[] = [1]
    a: float[2, n] = Unary(x) {op=identity}
    b: float[2, n] = Slice(a) {start=[0, 0], size=[2, n], step=[1, 1]}
    c: float[2, n] = Cast(b)
    d: float[2, n] = Concatenation(c)
    e: float[2, n] = ElementWise(d, zero) {op=add}
    f: float[2, n] = ElementWise(one, e) {op=mul}
    g: float[2, n] = Pad(f) {pre=[0, 0], post=[0, 0]}
    h: float[2, n] = Unary(g) {op=neg}
    i: float[2, n] = Expand(h) {shape=[2, n]}
    output i
  })ir",
                 "i = Unary \"h\"(x) {op=neg}");
}

TEST(RemoveNoOps, NeutralConstantsOfAnyShape) {
  expect_rewrite(no_op_removal, R"ir(graph "g" {
    input x: float[2, 3]
    input k: int64[2, 3]
    input c: bool[2, 3]
    constant zeros: float[1, 3] = [0, 0, 0]
    constant ones: int64[2, 3] = [1, 1, 1, 1, 1, 1]
    constant some: float[3] = [0, 0, 1]
    true: bool[2, 3] = Fill() {type=bool, value=1, shape=[2, 3]}
    a: float[2, 3] = ElementWise(zeros, x) {op=add}
    b: float[2, 3] = ElementWise(a, some) {op=add}
    d: int64[2, 3] = ElementWise(k, ones) {op=mul}
    e: int64[2, 3] = Unary(d) {op=neg}
    f: bool[2, 3] = ElementWise(true, c) {op=and}
    g: bool[2, 3] = Unary(f) {op=not}
    output b, e, g
  })ir",
                 R"ir(true = Fill() {type=bool, value=1, shape=[2, 3]}
                    b = ElementWise(x, some) {op=add}
                    e = Unary(k) {op=neg}
                    g = Unary(c) {op=not})ir");
}

TEST(RemoveNoOps, KeepsWhatIsNone) {
  const char* text = R"ir(graph "g" {
    input x: float[2, 4]
    constant zero: float[3, 1, 1] = fill(0)
    constant one: float[1] = [1]
    a: float[3, 2, 4] = ElementWise(x, zero) {op=add}
    b: float[3, 2, 4] = ElementWise(one, a) {op=sub}
    c: float[3, 1, 4] = Slice(b) {start=[0, 1, 0], size=[3, 1, 4], step=[1, 1, 1]}
    d: float[3, 1, 4] = Slice(c) {start=[2, 0, 0], size=[3, 1, 4], step=[-1, 1, 1]}
    e: float[2, 4] = Unary(x) {op=identity}
    output d, e
  })ir";
  std::unique_ptr<ir::Graph> graph = std::move(ir::parse_graph(text)).value();
  EXPECT_EQ(no_op_removal(*graph, nullptr),
            0);  // e is the copy that keeps a network output apart from an input
}

TEST(FoldConstants, EvaluatesAndReadsKnownShapes) {
  expect_rewrite(constant_folding, R"ir(graph "g" {
    input x: float[2, 3]
    constant a: float[3] = [1, 2, 3]
    constant b: float[3] = fill(1)
    s: int64[2] value [2, 3] = ShapeOf(x) {first=0, last=2}
    t: int64[1] value [3] = Slice(s) {start=[1], size=[1], step=[1]}
    u: float[1] = Cast(t) {to=float}
    c: float[3] = ElementWise(a, b) {op=add}
    d: float[2, 3] = ElementWise(x, c) {op=mul}
    output d, t
  })ir",
                 R"ir(d = ElementWise(x, c) {op=mul}
                    t = Unary "t_1_copy"(t_1_copy))ir");
}

// Exporters write an Identity for every further use of a weight: 1,202 of them in a decoder whose
// 50 steps are written out.
TEST(FoldConstants, CopiesShareTheirBytes) {
  std::unique_ptr<ir::Graph> graph = std::move(ir::parse_graph(R"ir(graph "g" {
    input x: float[2, 3]
    constant w: float[3] = random(1)
    again: float[3] = Unary(w) {op=identity}
    y: float[2, 3] = ElementWise(x, w) {op=mul}
    z: float[2, 3] = ElementWise(y, again) {op=add}
    output z
  })ir"))
                                         .value();
  EXPECT_GT(constant_folding(*graph, nullptr), 0);
  const ir::Tensor* first = graph->layers()[0]->inputs[1];
  const ir::Tensor* second = graph->layers()[1]->inputs[1];
  ASSERT_TRUE(first->is_constant() && second->is_constant());
  EXPECT_EQ(first->constant, second->constant);
}

TEST(FoldConstants, DoesNotBlowUpZeros) {
  const char* text = R"ir(graph "g" {
    constant v: float[1] = [2]
    big: float[1000, 1000] = Expand(v) {shape=[1000, 1000]}
    output big
  })ir";
  std::unique_ptr<ir::Graph> graph = std::move(ir::parse_graph(text)).value();
  EXPECT_EQ(constant_folding(*graph, nullptr), 0);
}

TEST(ConstShuffleFusion, NamesTheNewConstant) {
  Records records;
  expect_rewrite(const_shuffle_fusion, R"ir(graph "g" {
    input x: float[3, 2]
    constant c: float[2, 3] = [1, 2, 3, 4, 5, 6]
    t: float[3, 2] = Shuffle(c) {first_transpose=[1, 0]}
    y: float[3, 2] = ElementWise(x, t) {op=add}
    output y
  })ir",
                 "y = ElementWise(x, \"c + t\") {op=add}", &records);
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[1].text, "Fusing c with t");
}

TEST(RemoveDuplicates, KeepsTheFirst) {
  expect_rewrite(duplicate_layer_removal, R"ir(graph "g" {
    input x: float[2]
    constant a: float[1] = [3]
    constant b: float[1] = [3]
    p: float[2] = ElementWise(x, a) {op=add}
    q: float[2] = ElementWise(x, b) {op=add}
    r: float[2] = ElementWise(x, b) {op=mul}
    s: float[2] = ElementWise(p, q) {op=mul}
    y: float[2] = ElementWise(s, r) {op=add}
    output y
  })ir",
                 R"ir(p = ElementWise(x, a) {op=add}
                    r = ElementWise(x, a) {op=mul}
                    s = ElementWise(p, p) {op=mul}
                    y = ElementWise(s, r) {op=add})ir");
}

TEST(RemoveDuplicates, EqualShapeValues) {
  expect_rewrite(
      [](ir::Graph& graph, Records* records) {
        return duplicate_layer_removal(graph, records) + dead_layer_removal(graph, nullptr);
      },
      R"ir(graph "g" {
    input x: float[n, 4]
    input k: int64[1]
    a: float[n, 4] = Unary(x) {op=exp}
    s: int64[1] value [n] = ShapeOf(x) {first=0, last=1}
    t: int64[1] value [n] = ShapeOf(a) {first=0, last=1}
    p: int64[1] = ElementWise(s, k) {op=add}
    q: int64[1] = ElementWise(t, k) {op=mul}
    output a, p, q
  })ir",
      R"ir(a = Unary(x) {op=exp}
      s = ShapeOf(x) {last=1}
      p = ElementWise(s, k) {op=add}
      q = ElementWise(s, k) {op=mul})ir");
}

TEST(ShuffleShuffleFusion, TransposesCombineAndCancel) {
  expect_rewrite(shuffle_shuffle_fusion, R"ir(graph "g" {
    input x: float[2, 3, 4]
    a: float[3, 4, 2] = Shuffle(x) {first_transpose=[1, 2, 0]}
    b: float[4, 3, 2] = Shuffle(a) {first_transpose=[1, 0, 2]}
    c: float[2, 3, 4] = Shuffle(a) {first_transpose=[2, 0, 1]}
    d: float[2, 3, 4] = Unary(c) {op=neg}
    output b, d
  })ir",
                 R"ir(b = Shuffle "a + b"(x) {first_transpose=[2, 1, 0]}
                    d = Unary(x) {op=neg})ir");
}

TEST(ShuffleShuffleFusion, ReshapesMergeWhenNothingMovesBetween) {
  expect_rewrite(
      shuffle_shuffle_fusion, R"ir(graph "g" {
    input x: float[2, 12]
    a: float[2, 3, 1, 4] = Shuffle(x) {has_reshape=true, reshape=[2, 3, 1, 4]}
    b: float[2, 1, 3, 4] = Shuffle(a) {first_transpose=[0, 2, 1, 3]}
    c: float[6, 4] = Shuffle(b) {has_reshape=true, reshape=[6, 4]}
    d: float[4, 6] = Shuffle(c) {first_transpose=[1, 0]}
    output d
  })ir",
      R"ir(d = Shuffle "a + b + c + d"(x) {has_reshape=true, reshape=[6, 4], second_transpose=[1, 0]})ir");
}

TEST(ShuffleShuffleFusion, DeclinesATransposeBetweenReshapes) {
  Records records;
  expect_rewrite(
      shuffle_shuffle_fusion, R"ir(graph "g" {
    input x: float[2, 12]
    a: float[2, 3, 4] = Shuffle(x) {has_reshape=true, reshape=[2, 3, 4]}
    b: float[2, 4, 3] = Shuffle(a) {first_transpose=[0, 2, 1]}
    c: float[8, 3] = Shuffle(b) {has_reshape=true, reshape=[8, 3]}
    output c
  })ir",
      R"ir(b = Shuffle "a + b"(x) {has_reshape=true, reshape=[2, 3, 4], second_transpose=[0, 2, 1]}
                    c = Shuffle(b) {has_reshape=true, reshape=[8, 3]})ir",
      &records);
  EXPECT_EQ(records.back().action, ir::Action::kDecline);
}

}  // namespace
}  // namespace camshaft::passes
