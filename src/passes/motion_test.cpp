// SPDX-License-Identifier: Apache-2.0
// Movements: chains of them, transposes around regions, squeezes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "passes/pipeline.h"
#include "passes/test_util.h"

namespace camshaft::passes {
namespace {

int flip_and_clean(ir::Graph& graph, Records* records) {
  int edits = transpose_motion(graph, records);
  for (PassFunction pass :
       {const_shuffle_fusion, shuffle_shuffle_fusion, duplicate_layer_removal, dead_layer_removal})
    edits += pass(graph, nullptr);
  return edits;
}

TEST(MovementFusion, ChannelShuffleAndGatherBecomeSlicesInSteps) {
  expect_rewrite(
      [](ir::Graph& graph, Records* records) {
        return movement_fusion(graph, records) + dead_layer_removal(graph, nullptr);
      },
      R"ir(graph "g" {
    input x: float[1, 6, 2, 2]
    constant zero: int64[] = [0]
    constant one: int64[] = [-1]
    r: float[3, 2, 4] = Shuffle(x) {has_reshape=true, reshape=[3, 2, 4]}
    t: float[2, 3, 4] = Shuffle(r) {first_transpose=[1, 0, 2]}
    u: float[2, 1, 3, 2, 2] = Shuffle(t) {has_reshape=true, reshape=[2, 1, 3, 2, 2]}
    a: float[1, 3, 2, 2] = Gather(u, zero)
    b: float[1, 3, 2, 2] = Gather(u, one)
    output a, b
  })ir",
      R"ir(a = Slice "r + t + u + a (slice) + a"(x) {start=[0, 0, 0, 0], size=[1, 3, 2, 2], step=[1, 2, 1, 1]}
          b = Slice "r + t + u + b (slice) + b"(x) {start=[0, 1, 0, 0], size=[1, 3, 2, 2], step=[1, 2, 1, 1]})ir");
}

TEST(MovementFusion, SlicesOfSlicesAndIndices) {
  expect_rewrite(movement_fusion, R"ir(graph "g" {
    input x: float[n, 8, 6]
    constant odd: int64[3] = [5, 3, 1]
    constant some: int64[3] = [0, 1, 3]
    constant two: int64[] = [2]
    a: float[n, 4, 6] = Slice(x) {start=[0, 0, 0], size=[n, 4, 6], step=[1, 2, 1]}
    b: float[n, 2, 3] = Slice(a) {start=[0, 1, 1], size=[n, 2, 3], step=[1, 2, 2]}
    c: float[n, 8, 3] = Gather(x, odd) {axis=2}
    d: float[n, 3, 6] = Gather(x, some) {axis=1}
    e: float[n, 6] = Gather(x, two) {axis=1}
    output b, c, d, e
  })ir",
                 R"ir(b = Slice "a + b"(x) {start=[0, 2, 1], size=[n, 2, 3], step=[1, 4, 2]}
      c = Slice(x) {start=[0, 0, 5], size=[n, 8, 3], step=[1, 1, -2]}
      d = Gather(x, some) {axis=1}
      "e (slice)" = Slice(x) {start=[0, 2, 0], size=[n, 1, 6], step=[1, 1, 1]}
      e = Shuffle("e (slice)") {has_reshape=true, reshape=[n, 6]})ir");
}

// As F.unfold of one dimension is exported: indices [[0]] along an axis of extent 1.
TEST(MovementFusion, OneIndexOfAnyRank) {
  expect_rewrite(
      movement_fusion, R"ir(graph "g" {
    input x: float[n, 8, 1]
    input z: float[n, 8, 6]
    constant zero: int64[1, 1] = [0]
    constant back: int64[1, 1] = [-1]
    constant two: int64[1, 1, 1] = [2]
    constant both: int64[1, 2] = [0, 0]
    a: float[n, 8, 1, 1] = Gather(x, zero) {axis=2}
    b: float[n, 1, 1, 1, 6] = Gather(z, two) {axis=1}
    c: float[n, 8, 1, 2] = Gather(x, both) {axis=2}
    d: float[n, 8, 1, 1] = Gather(z, back) {axis=2}
    output a, b, c, d
  })ir",
      R"ir(a = Shuffle(x) {first_transpose=[2, 0, 1], has_reshape=true, reshape=[n, 8, 1, 1]}
      "b (slice)" = Slice(z) {start=[0, 2, 0], size=[n, 1, 6], step=[1, 1, 1]}
      b = Shuffle("b (slice)") {has_reshape=true, reshape=[n, 1, 1, 1, 6]}
      c = Gather(x, both) {axis=2}
      "d (slice)" = Slice(z) {start=[0, 0, 5], size=[n, 8, 1], step=[1, 1, 1]}
      d = Shuffle("d (slice)") {has_reshape=true, reshape=[n, 8, 1, 1]})ir");
}

// Strides of what holds nothing are 0: no step of a slice can be told from them.
TEST(MovementFusion, NothingStaysAsItIs) {
  expect_rewrite(movement_fusion, R"ir(graph "g" {
    input x: float[4, 6]
    a: float[4, 6] = Slice(x) {start=[0, 5], size=[4, 6], step=[1, -1]}
    b: float[4, 0] = Slice(a) {start=[0, 2], size=[4, 0], step=[1, 1]}
    c: float[0, 2, 2] = Shuffle(b) {has_reshape=true, reshape=[0, 2, 2]}
    d: float[0, 1, 2] = Slice(c) {start=[0, 1, 0], size=[0, 1, 2], step=[1, -1, 1]}
    output d
  })ir",
                 R"ir(a = Slice(x) {start=[0, 5], size=[4, 6], step=[1, -1]}
      b = Slice(a) {start=[0, 2], size=[4, 0], step=[1, 1]}
      c = Shuffle(b) {has_reshape=true, reshape=[0, 2, 2]}
      d = Slice(c) {start=[0, 1, 0], size=[0, 1, 2], step=[1, -1, 1]})ir");
}

TEST(MovementFusion, ReversedChannels) {
  expect_rewrite(
      [](ir::Graph& graph, Records* records) { return movement_fusion(graph, records); },
      R"ir(graph "g" {
    input x: float[1, 4, 3]
    a: float[1, 4, 1] = Slice(x) {start=[0, 0, 0], size=[1, 4, 1], step=[1, 1, 1]}
    b: float[1, 4, 1] = Slice(x) {start=[0, 0, 1], size=[1, 4, 1], step=[1, 1, 1]}
    c: float[1, 4, 1] = Slice(x) {start=[0, 0, 2], size=[1, 4, 1], step=[1, 1, 1]}
    y: float[1, 4, 3] = Concatenation(c, b, a) {axis=2}
    output y
  })ir",
      R"ir(y = Slice "a + b + c + y"(x) {start=[0, 0, 2], size=[1, 4, 3], step=[1, 1, -1]})ir");
}

TEST(MovementFusion, ReshapesThatSplitAndMergeAreFollowed) {
  expect_rewrite(movement_fusion, R"ir(graph "g" {
    input x: float[n, 3, 4]
    a: float[n, 3, 2, 2] = Shuffle(x) {has_reshape=true, reshape=[n, 3, 2, 2]}
    b: float[n, 2, 2, 3] = Shuffle(a) {first_transpose=[0, 2, 3, 1]}
    c: float[n, 4, 3] = Shuffle(b) {has_reshape=true, reshape=[n, 4, 3]}
    output c
  })ir",
                 R"ir(c = Shuffle "a + b + c"(x) {first_transpose=[0, 2, 1]})ir");
}

TEST(TransposeMotion, RegionBetweenTransposesIsComputedInTheOtherOrder) {
  expect_rewrite(flip_and_clean, R"ir(graph "g" {
    input x: float[1, 3, 4, 5]
    constant s: float[3] = random(1)
    t: float[1, 4, 5, 3] = Shuffle(x) {first_transpose=[0, 2, 3, 1]}
    a: float[1, 4, 5, 3] = ElementWise(t, s) {op=mul}
    p: float[1, 5, 5, 3] = Pad(a) {pre=[0, 1, 0, 0], post=[0, 0, 0, 0]}
    c: float[1, 5, 5, 3] = Slice(p) {start=[0, 0, 0, 2], size=[1, 5, 5, 3], step=[1, 1, 1, -1]}
    m: float[1, 1, 1, 3] = Reduce(c) {op=mean, axes=[1, 2]}
    d: float[1, 5, 5, 3] = ElementWise(c, m) {op=sub}
    e: float[1, 5, 5, 6] = Concatenation(d, c) {axis=3}
    y: float[1, 6, 5, 5] = Shuffle(e) {first_transpose=[0, 3, 1, 2]}
    r: float[1, 6, 5, 5] = Activation(y) {op=relu}
    output r
  })ir",
                 R"ir(a = ElementWise(x, "s + s (transposed)") {op=mul}
      p = Pad(a) {pre=[0, 0, 1, 0], post=[0, 0, 0, 0]}
      c = Slice(p) {start=[0, 2, 0, 0], size=[1, 3, 5, 5], step=[1, -1, 1, 1]}
      m = Reduce(c) {op=mean, axes=[2, 3]}
      d = ElementWise(c, m) {op=sub}
      e_1 = Concatenation "e"(d, c) {axis=1}
      r = Activation(e_1) {op=relu})ir");
}

TEST(TransposeMotion, StaysWhereNothingIsGained) {
  expect_rewrite(flip_and_clean, R"ir(graph "g" {
    input x: float[1, 3, 4]
    input z: float[1, 4, 3]
    t: float[1, 4, 3] = Shuffle(x) {first_transpose=[0, 2, 1]}
    a: float[1, 4, 3] = ElementWise(t, z) {op=mul}
    output a
  })ir",
                 R"ir(t = Shuffle(x) {first_transpose=[0, 2, 1]}
      a = ElementWise(t, z) {op=mul})ir");
}

// Flipped, x would be transposed twice, which was taken for less than once: again and again, until
// memory was full.
TEST(TransposeMotion, TransposeOfTheRegionsOwnResultStays) {
  expect_rewrite(flip_and_clean, R"ir(graph "g" {
    input x: float[2, 2, 3, 3]
    constant some: bool[1, 2, 1, 1] = [0, 1]
    constant zero: int64[] = [0]
    c: int64[2, 2, 3, 3] = Cast(x) {to=int64}
    t: int64[2, 2, 3, 3] = Shuffle(c) {first_transpose=[0, 1, 3, 2]}
    a: bool[2, 2, 3, 3] = ElementWise(c, t) {op=less_or_equal}
    b: int64[2, 2, 3, 3] = Select(some, zero, t) {op=select}
    output a, b
  })ir",
                 R"ir(c = Cast(x) {to=int64}
      t = Shuffle(c) {first_transpose=[0, 1, 3, 2]}
      a = ElementWise(c, t) {op=less_or_equal}
      b = Select(some, zero, t) {op=select})ir");
}

// One region is turned over in a round of the stage.
TEST(TransposeMotion, HundredsOfRegionsOfADeepNetwork) {
  constexpr int kRegions = 240;
  std::string text = "graph \"g\" {\n  input x0: float[1, 3, 4, 5]\n";
  for (int k = 0; k < kRegions; ++k)
    text += fmt::format(
        "  t{0}: float[1, 4, 5, 3] = Shuffle(x{0}) {{first_transpose=[0, 2, 3, 1]}}\n"
        "  m{0}: float[1, 1, 1, 3] = Reduce(t{0}) {{op=max, axes=[1, 2]}}\n"
        "  s{0}: float[1, 4, 5, 3] = ElementWise(t{0}, m{0}) {{op=mul}}\n"
        "  u{0}: float[1, 3, 4, 5] = Shuffle(s{0}) {{first_transpose=[0, 3, 1, 2]}}\n"
        "  x{1}: float[1, 3, 4, 5] = SoftMax(u{0}) {{axis=1, last_axis=1}}\n",
        k, k + 1);
  std::unique_ptr<ir::Graph> graph =
      std::move(ir::parse_graph(text + fmt::format("  output x{}\n}}", kRegions))).value();
  PassRecord record;
  const Status status = optimize(*graph, record);
  ASSERT_TRUE(status.ok()) << status.message();
  for (const auto& layer : graph->layers()) EXPECT_NE(layer->kind, ir::LayerKind::kShuffle);
}

TEST(SqueezeMotion, DroppedDimensionsMeetTheReshapeThatPutsThemBack) {
  expect_rewrite(
      [](ir::Graph& graph, Records* records) {
        return squeeze_motion(graph, records) + shuffle_shuffle_fusion(graph, nullptr) +
               softmax_fusion(graph, nullptr) + dead_layer_removal(graph, nullptr);
      },
      R"ir(graph "g" {
    input x: float[n, 5]
    m: float[n] = Reduce(x) {op=max, axes=[1], keep_dims=false}
    u: float[n, 1] = Shuffle(m) {has_reshape=true, reshape=[n, 1]}
    d: float[n, 5] = ElementWise(x, u) {op=sub}
    e: float[n, 5] = Unary(d) {op=exp}
    s: float[n] = Reduce(e) {op=sum, axes=[1], keep_dims=false}
    r: float[n] = Unary(s) {op=reciprocal}
    v: float[n, 1] = Shuffle(r) {has_reshape=true, reshape=[n, 1]}
    y: float[n, 5] = ElementWise(e, v) {op=mul}
    output y
  })ir",
      R"ir(y = SoftMax "{SoftMax[m...y]}"(x) {axis=1, last_axis=1})ir");
}

// A factor for the last dimension stays one for it where a dimension before it stands again.
TEST(SqueezeMotion, ScaleFollowsItsDimension) {
  expect_rewrite(squeeze_motion, R"ir(graph "g" {
    input x: float[n, 1, 6, 1]
    constant s: float[1] = [2]
    constant t: float[1] = [3]
    d: float[n, 6, 1] = Shuffle(x) {has_reshape=true, reshape=[n, 6, 1]}
    y: float[n, 6, 1] = Scale(d, s, t) {axis=2}
    output y
  })ir",
                 R"ir(d = Shuffle(x) {has_reshape=true, reshape=[n, 6, 1]}
      "y (kept)" = Scale "y"(x, s, t) {axis=3}
      y = Shuffle "y (squeeze)"("y (kept)") {has_reshape=true, reshape=[n, 6, 1]})ir");
}

TEST(MovementFusion, ConcatenationsFlattenAndPartsOfOneTensorJoin) {
  expect_rewrite(
      [](ir::Graph& graph, Records* records) {
        return movement_fusion(graph, records) + dead_layer_removal(graph, nullptr);
      },
      R"ir(graph "g" {
    input x: float[n, 4, 3]
    input z: float[n, 1, 3]
    a: float[n, 2, 3] = Slice(x) {start=[0, 0, 0], size=[n, 2, 3], step=[1, 1, 1]}
    b: float[n, 2, 3] = Slice(x) {start=[0, 2, 0], size=[n, 2, 3], step=[1, 1, 1]}
    s: float[n, 3, 2, 1] = Shuffle(a) {has_reshape=true, reshape=[n, 2, 3, 1], second_transpose=[0, 2, 1, 3]}
    t: float[n, 3, 2, 1] = Shuffle(b) {has_reshape=true, reshape=[n, 2, 3, 1], second_transpose=[0, 2, 1, 3]}
    c: float[n, 3, 2, 2] = Concatenation(s, t) {axis=3}
    p: float[n, 2, 3] = Concatenation(z, z) {axis=1}
    q: float[n, 3, 3] = Concatenation(p, z) {axis=1}
    output c, q
  })ir",
      R"ir(c = Shuffle "a + b + s + t + c"(x) {has_reshape=true, reshape=[n, 2, 2, 3], second_transpose=[0, 3, 2, 1]}
      q = Concatenation "p + q"(z, z, z) {axis=1})ir");
}

TEST(SlicePadFusion, CropsAndPadsInOne) {
  expect_rewrite(
      slice_pad_fusion, R"ir(graph "g" {
    input x: float[n, 3, 8]
    a: float[n, 3, 5] = Slice(x) {start=[0, 0, 3], size=[n, 3, 5], step=[1, 1, 1]}
    b: float[n, 3, 8] = Pad(a) {pre=[0, 0, 0], post=[0, 0, 3], value=2}
    c: float[n, 3, 8] = Pad(x) {pre=[0, 0, 1], post=[0, 0, -1], value=2}
    d: float[n, 6, 8] = Concatenation(b, c) {axis=1}
    e: float[n, 6, 7] = Slice(d) {start=[0, 0, 0], size=[n, 6, 7], step=[1, 1, 1]}
    f: float[n, 4, 8] = Pad(x) {pre=[0, 1, 0], post=[0, 0, 0]}
    g: float[n, 4, 1, 8] = Shuffle(f) {has_reshape=true, reshape=[n, 4, 1, 8]}
    output e, g
  })ir",
      R"ir("b (cut)" = Pad "a + b + e_clone_0"(x) {pre=[0, 0, -3], post=[0, 0, 2], value=2}
      "c (cut)" = Pad "c + e_clone_1"(x) {pre=[0, 0, 1], post=[0, 0, -2], value=2}
      e = Concatenation "d"("b (cut)", "c (cut)") {axis=1}
      "x (reshaped)" = Shuffle "g (before the pad)"(x) {has_reshape=true, reshape=[n, 3, 1, 8]}
      g = Pad "f"("x (reshaped)") {pre=[0, 1, 0, 0], post=[0, 0, 0, 0]})ir");
}

TEST(PointWiseMotion, BehindShufflesAndConcatenationsOfKernels) {
  expect_rewrite(
      [](ir::Graph& graph, Records* records) {
        return pointwise_motion(graph, records) + const_shuffle_fusion(graph, nullptr) +
               epilogue_fusion(graph, nullptr);
      },
      R"ir(graph "g" {
    input x: float[n, 4]
    input z: float[n, 3]
    constant w: float[4, 6] = random(1)
    constant v: float[3, 6] = random(2)
    constant b: float[6] = random(3)
    y: float[n, 6] = MatrixMultiply(x, w)
    r: float[n, 1, 6] = Shuffle(y) {has_reshape=true, reshape=[n, 1, 6]}
    a: float[n, 1, 6] = ElementWise(r, b) {op=add}
    p: float[n, 6] = MatrixMultiply(x, w)
    q: float[n, 6] = MatrixMultiply(z, v)
    s: float[n, 3, 2] = Shuffle(q) {has_reshape=true, reshape=[n, 3, 2]}
    t: float[n, 3, 2] = Shuffle(p) {has_reshape=true, reshape=[n, 3, 2]}
    c: float[n, 6, 2] = Concatenation(s, t) {axis=1}
    d: float[n, 6, 2] = Activation(c) {op=sigmoid}
    output a, d
  })ir",
      R"ir("a (before the shuffle)" = MatrixMultiply "y + a"(x, w, _, "b + b (shuffled back)") {epilogue=<2: v2 = add v0 v1>}
      a = Shuffle "r"("a (before the shuffle)") {has_reshape=true, reshape=[n, 1, 6]}
      "s (before the concatenation) (before the shuffle)" = MatrixMultiply "q + d_clone_0"(z, v) {epilogue=<1: v1 = sigmoid v0>}
      "s (before the concatenation)" = Shuffle "s"("s (before the concatenation) (before the shuffle)") {has_reshape=true, reshape=[n, 3, 2]}
      "t (before the concatenation) (before the shuffle)" = MatrixMultiply "p + d_clone_1"(x, w) {epilogue=<1: v1 = sigmoid v0>}
      "t (before the concatenation)" = Shuffle "t"("t (before the concatenation) (before the shuffle)") {has_reshape=true, reshape=[n, 3, 2]}
      d = Concatenation "c"("s (before the concatenation)", "t (before the concatenation)") {axis=1})ir");
}

// Either product could take the sum behind its own reshape; one of them does, once.
TEST(PointWiseMotion, StaysWithTheFirstOfTwoKernelsOfOtherShapes) {
  expect_rewrite(
      [](ir::Graph& graph, Records* records) {
        int edits = 0;
        for (int round = 0; round < 4; ++round)
          edits += pointwise_motion(graph, records) + shuffle_shuffle_fusion(graph, nullptr) +
                   dead_layer_removal(graph, nullptr);
        return edits;
      },
      R"ir(graph "g" {
    input x: float[4, 8]
    input z: float[2, 2, 8]
    constant w: float[8, 6] = random(1)
    constant v: float[8, 6] = random(2)
    a: float[4, 6] = MatrixMultiply(x, w)
    b: float[2, 2, 6] = MatrixMultiply(z, v)
    as: float[24] = Shuffle(a) {has_reshape=true, reshape=[24]}
    bs: float[24] = Shuffle(b) {has_reshape=true, reshape=[24]}
    y: float[24] = PointWise(as, bs) {program=<2: v2 = mul v0 v1>}
    output y
  })ir",
      R"ir(a = MatrixMultiply(x, w)
      b = MatrixMultiply(z, v)
      "bs (shuffled back)" = Shuffle "bs + bs (shuffled back)"(b) {has_reshape=true, reshape=[4, 6]}
      "y (before the shuffle)" = PointWise "y"(a, "bs (shuffled back)") {program=<2: v2 = mul v0 v1>}
      y = Shuffle "as"("y (before the shuffle)") {has_reshape=true, reshape=[24]})ir");
}

}  // namespace
}  // namespace camshaft::passes
