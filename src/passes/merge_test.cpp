// SPDX-License-Identifier: Apache-2.0
// Siblings, focus, expansions, one-hot products.
#include <gtest/gtest.h>

#include "passes/test_util.h"

namespace camshaft::passes {
namespace {

TEST(HorizontalMerge, ConvolutionsOfOneTensor) {
  Records records;
  expect_rewrite(
      horizontal_merge,
      fmt::format(R"ir(graph "g" {{
    input x: float[n, 2, 5, 5]
    constant w: float[3, 2, 3, 3] = random(1)
    constant v: float[1, 2, 3, 3] = random(2)
    constant u: float[2, 2, 3, 3] = random(4)
    constant b: float[1] = random(3)
    a: float[n, 3, 5, 5] = Convolution(x, w) {{{0}, epilogue=<1: v1 = relu v0>}}
    c: float[n, 1, 5, 5] = Convolution(x, v, b) {{{0}, epilogue=<1: v1 = relu v0>}}
    d: float[n, 2, 5, 5] = Convolution(x, u) {{{0}}}
    output a, c, d
  }})ir",
                  kWindow3x3),
      fmt::format(
          R"ir("a || c" = Convolution(x, "w || v", "a || c bias") {{{0}, epilogue=<1: v1 = relu v0>}}
      a = Slice "a (slice)"("a || c") {{start=[0, 0, 0, 0], size=[n, 3, 5, 5], step=[1, 1, 1, 1]}}
      c = Slice "c (slice)"("a || c") {{start=[0, 3, 0, 0], size=[n, 1, 5, 5], step=[1, 1, 1, 1]}}
      d = Convolution(x, u) {{{0}}})ir",
          kWindow3x3),
      &records);
  EXPECT_EQ(records.front().text, "not merged with a: different attributes or epilogues");
}

TEST(SliceJoin, NeighboursInTensorAndConcatenation) {
  expect_rewrite(slice_join, R"ir(graph "g" {
    input x: float[n, 8, 5]
    input y: float[n, 3, 5]
    a: float[n, 4, 5] = Slice(x) {start=[0, 0, 0], size=[n, 4, 5], step=[1, 1, 1]}
    b: float[n, 4, 5] = Slice(x) {start=[0, 4, 0], size=[n, 4, 5], step=[1, 1, 1]}
    c: float[n, 2, 5] = Slice(x) {start=[0, 1, 0], size=[n, 2, 5], step=[1, 1, 1]}
    d: float[n, 1, 5] = Slice(x) {start=[0, 3, 0], size=[n, 1, 5], step=[1, 1, 1]}
    r: float[n, 4, 5] = Activation(b) {op=relu}
    e: float[n, 14, 5] = Concatenation(a, b, y, c, d) {axis=1}
    output e, r
  })ir",
                 R"ir(a = Slice(x) {start=[0, 0, 0], size=[n, 4, 5], step=[1, 1, 1]}
      b = Slice(x) {start=[0, 4, 0], size=[n, 4, 5], step=[1, 1, 1]}
      c = Slice(x) {start=[0, 1, 0], size=[n, 2, 5], step=[1, 1, 1]}
      d = Slice(x) {start=[0, 3, 0], size=[n, 1, 5], step=[1, 1, 1]}
      r = Activation(b) {op=relu}
      "x (joined slices)" = Slice(x) {start=[0, 1, 0], size=[n, 3, 5], step=[1, 1, 1]}
      e = Concatenation(x, y, "x (joined slices)") {axis=1})ir");
}

TEST(SliceJoin, LeavesWhatDoesNotAdjoin) {
  expect_rewrite(slice_join, R"ir(graph "g" {
    input x: float[n, 8, 5]
    a: float[n, 4, 5] = Slice(x) {start=[0, 4, 0], size=[n, 4, 5], step=[1, 1, 1]}
    b: float[n, 4, 5] = Slice(x) {start=[0, 0, 0], size=[n, 4, 5], step=[1, 1, 1]}
    c: float[n, 2, 5] = Slice(x) {start=[0, 4, 0], size=[n, 2, 5], step=[1, 2, 1]}
    d: float[n, 10, 5] = Concatenation(a, b, c) {axis=1}
    output d
  })ir",
                 R"ir(a = Slice(x) {start=[0, 4, 0], size=[n, 4, 5], step=[1, 1, 1]}
      b = Slice(x) {start=[0, 0, 0], size=[n, 4, 5], step=[1, 1, 1]}
      c = Slice(x) {start=[0, 4, 0], size=[n, 2, 5], step=[1, 2, 1]}
      d = Concatenation(a, b, c) {axis=1})ir");
}

TEST(SliceJoin, LeavesSlicesOfOtherAxes) {
  expect_rewrite(slice_join, R"ir(graph "g" {
    input x: float[n, 8, 5]
    a: float[n, 4, 5] = Slice(x) {start=[0, 0, 0], size=[n, 4, 5], step=[1, 1, 1]}
    b: float[n, 4, 5] = Slice(x) {start=[0, 4, 0], size=[n, 4, 5], step=[1, 1, 1]}
    c: float[n, 4, 10] = Concatenation(a, b) {axis=2}
    output c
  })ir",
                 R"ir(a = Slice(x) {start=[0, 0, 0], size=[n, 4, 5], step=[1, 1, 1]}
      b = Slice(x) {start=[0, 4, 0], size=[n, 4, 5], step=[1, 1, 1]}
      c = Concatenation(a, b) {axis=2})ir");
}

TEST(HorizontalMerge, ProductsStackTheirColumns) {
  expect_rewrite(horizontal_merge, R"ir(graph "g" {
    input x: float[2, 3, 4]
    constant w: float[4, 2] = random(1)
    constant v: float[4, 3] = random(2)
    constant b: float[3] = random(3)
    a: float[2, 3, 2] = MatrixMultiply(x, w)
    c: float[2, 3, 3] = MatrixMultiply(x, v, b)
    output a, c
  })ir",
                 R"ir("a || c" = MatrixMultiply(x, "w || v", "a || c bias")
      a = Slice "a (slice)"("a || c") {start=[0, 0, 0], size=[2, 3, 2], step=[1, 1, 1]}
      c = Slice "c (slice)"("a || c") {start=[0, 0, 2], size=[2, 3, 3], step=[1, 1, 1]})ir");
}

TEST(SpaceToDepthConvFusion, FocusBecomesAStridedConvolution) {
  expect_rewrite(
      space_to_depth_conv_fusion,
      fmt::format(R"ir(graph "g" {{
    input x: float[n, 3, 8, 6]
    constant w: float[2, 12, 3, 3] = random(1)
    constant b: float[2] = random(2)
    p: float[n, 3, 4, 3] = Slice(x) {{start=[0, 0, 0, 0], size=[n, 3, 4, 3], step=[1, 1, 2, 2]}}
    q: float[n, 3, 4, 3] = Slice(x) {{start=[0, 0, 1, 0], size=[n, 3, 4, 3], step=[1, 1, 2, 2]}}
    r: float[n, 3, 4, 3] = Slice(x) {{start=[0, 0, 0, 1], size=[n, 3, 4, 3], step=[1, 1, 2, 2]}}
    s: float[n, 3, 4, 3] = Slice(x) {{start=[0, 0, 1, 1], size=[n, 3, 4, 3], step=[1, 1, 2, 2]}}
    c: float[n, 12, 4, 3] = Concatenation(p, q, r, s) {{axis=1}}
    y: float[n, 2, 4, 3] = Convolution(c, w, b) {{{0}}}
    output y
  }})ir",
                  kWindow3x3),
      R"ir(y = Convolution "p + q + r + s + c + y"(x, "w (widened)", b) {kernel=[6, 6], stride=[2, 2], dilation=[1, 1], pre_padding=[2, 2], post_padding=[2, 2]})ir");
}

TEST(ExpandFusion, BroadcastingAndRepetitionOfConstants) {
  expect_rewrite(
      [](ir::Graph& graph, Records* records) {
        return expand_fusion(graph, records) + constant_folding(graph, nullptr) +
               const_shuffle_fusion(graph, nullptr);
      },
      R"ir(graph "g" {
    input x: float[n, 4]
    constant a: float[1, 2, 2] = random(1)
    constant b: float[1, 1, 1, 4] = random(2)
    constant s: float[1] = [3]
    e: float[n, 4] = Expand(s) {shape=[n, 4]}
    y: float[n, 4] = ElementWise(x, e) {op=mul}
    ta: float[n, 2, 2] = Tile(a) {shape=[n, 1, 1]}
    tb: float[n, 1, 1, 4] = Tile(b) {shape=[n, 1, 1, 1]}
    ra: float[n, 4] = Shuffle(ta) {has_reshape=true, reshape=[n, 4]}
    rb: float[n, 4] = Shuffle(tb) {has_reshape=true, reshape=[n, 4]}
    c: float[n, 8] = Concatenation(ra, rb) {axis=1}
    output y, c
  })ir",
      R"ir(e = Expand(s) {shape=[n, 4]}
      y = ElementWise(x, s) {op=mul}
      c = Expand("c (once)") {shape=[n, 8]})ir");
}

TEST(ExpandFusion, GroupedQueryAttentionBroadcastsItsBatch) {
  expect_rewrite(
      [](ir::Graph& graph, Records* records) {
        return expand_fusion(graph, records) + dead_layer_removal(graph, nullptr);
      },
      R"ir(graph "g" {
    input q: float[n, 8, 3, 5]
    input k: float[n, 2, 1, 5, 6]
    e: float[n, 2, 4, 5, 6] = Expand(k) {shape=[n, 2, 4, 5, 6]}
    r: float[n, 8, 5, 6] = Shuffle(e) {has_reshape=true, reshape=[n, 8, 5, 6]}
    y: float[n, 8, 3, 6] = MatrixMultiply(q, r) {alpha=0.5}
    output y
  })ir",
      R"ir("q (grouped)" = Shuffle "y (group)"(q) {has_reshape=true, reshape=[n, 2, 4, 3, 5]}
      "y (grouped)" = MatrixMultiply "y"("q (grouped)", k) {alpha=0.5}
      y = Shuffle "y (ungroup)"("y (grouped)") {has_reshape=true, reshape=[n, 8, 3, 6]})ir");
}

TEST(OneHotFusion, ProductsBecomeLookUpsAndRowsAreComputedNow) {
  expect_rewrite(
      [](ir::Graph& graph, Records* records) {
        return one_hot_fusion(graph, records) + dead_layer_removal(graph, nullptr);
      },
      R"ir(graph "g" {
    input k: int32[n, 3, 1]
    constant range: int32[1, 2] = [0, 1]
    constant w: float[2, 4] = random(1)
    constant b: float[4] = random(2)
    e: bool[n, 3, 2] = ElementWise(k, range) {op=equal}
    f: float[n, 3, 2] = Cast(e) {to=float}
    y: float[n, 3, 4] = MatrixMultiply(f, w)
    z: float[n, 3, 4] = ElementWise(y, b) {op=add}
    r: float[n, 3, 4] = Activation(z) {op=relu}
    output r
  })ir",
      R"ir("k (from -1)" = ElementWise "y (from -1)"(k, "y from -1") {op=max}
      "k (clamped)" = ElementWise "y (clamped)"("k (from -1)", "y clamped") {op=min}
      "k (moved)" = Shuffle "y (moved)"("k (clamped)") {has_reshape=true, reshape=[n, 3]}
      r = Gather "y + z + r"("w (rows) + z + r", "k (moved)"))ir");
}

TEST(MatMulOperandFusion, PullsTheSwapOutOfReshapes) {
  expect_rewrite(
      matmul_operand_fusion, R"ir(graph "g" {
    input q: float[n, 2, 3, 4]
    input k: float[n, 5, 8]
    r: float[n, 2, 4, 5] = Shuffle(k) {has_reshape=true, reshape=[n, 5, 2, 4], second_transpose=[0, 2, 3, 1]}
    y: float[n, 2, 3, 5] = MatrixMultiply(q, r)
    output y
  })ir",
      R"ir("r (straight)" = Shuffle(k) {has_reshape=true, reshape=[n, 5, 2, 4], second_transpose=[0, 2, 1, 3]}
      y = MatrixMultiply "r + y"(q, "r (straight)") {transpose_b=true})ir");
}

}  // namespace
}  // namespace camshaft::passes
