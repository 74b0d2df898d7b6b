// SPDX-License-Identifier: Apache-2.0
// Attention recognized, and the transposes around it.
#include <gtest/gtest.h>

#include "passes/test_util.h"

namespace camshaft::passes {
namespace {

int both(ir::Graph& graph, Records* records) {
  return attention_fusion(graph, records) + attention_layout_fusion(graph, records) +
         dead_layer_removal(graph, records);
}

TEST(AttentionFusion, ProductSoftmaxProduct) {
  expect_rewrite(
      attention_fusion, R"ir(graph "g" {
    input q: float[2, 3, 5, 4]
    input k: float[2, 3, 7, 4]
    input v: float[2, 3, 7, 6]
    input m: float[2, 1, 1, 7]
    s: float[2, 3, 5, 7] = MatrixMultiply(q, k, _, m) {transpose_b=true, alpha=0.5, epilogue=<2: v2 = add v0 v1>}
    w: float[2, 3, 5, 7] = SoftMax(s) {axis=3, last_axis=3}
    y: float[2, 3, 5, 6] = MatrixMultiply(w, v)
    output y
  })ir",
      R"ir(y = Attention "{Attention[s...y]}"(q, k, v, _, m) {scale=0.5, epilogue=<2: v2 = add v0 v1>})ir");
}

// A bias of the product, a choice by truth values behind it, weights that are no numbers.
TEST(AttentionFusion, MasksOfAllKinds) {
  expect_rewrite(
      attention_fusion, R"ir(graph "g" {
    input q: float[3, 5, 4]
    input k: float[3, 7, 4]
    input v: float[3, 7, 6]
    input b: float[3, 5, 7]
    input m: bool[5, 7]
    s: float[3, 5, 7] = MatrixMultiply(q, k, b) {transpose_b=true}
    c: float[3, 5, 7] = PointWise(m, s) {program=<2: v2 = const -1000; v3 = select v0 v1 v2>}
    w: float[3, 5, 7] = SoftMax(c) {axis=2, last_axis=2}
    n: float[3, 5, 7] = PointWise(w) {program=<1: v1 = is_nan v0; v2 = const 0; v3 = select v1 v2 v0>}
    y: float[3, 5, 6] = MatrixMultiply(n, v)
    output y
  })ir",
      R"ir(y = Attention "{Attention[s...y]}"(q, k, v, _, b, m) {nan_is_zero=true, epilogue=<3: v3 = add v0 v1; v4 = const -1000; v5 = select v2 v3 v4>})ir");
}

// Heads in groups that read the same keys; reshapes between the products undo each other.
TEST(AttentionFusion, GroupsOfHeads) {
  expect_rewrite(both, R"ir(graph "g" {
    symbols n, t
    input q: float[n, 6, t, 4]
    input k: float[n, 2, t, 4]
    input p: float[n, t, 8]
    input m: float[n, 1, 1, t, t]
    qg: float[n, 2, 3, t, 4] = Shuffle(q) {has_reshape=true, reshape=[n, 2, 3, t, 4]}
    kg: float[n, 2, 1, t, 4] = Shuffle(k) {has_reshape=true, reshape=[n, 2, 1, t, 4]}
    vg: float[n, 2, 1, t, 4] = Shuffle(p) {has_reshape=true, reshape=[1, n, t, 2, 4], second_transpose=[1, 3, 0, 2, 4]}
    s: float[n, 2, 3, t, t] = MatrixMultiply(qg, kg, _, m) {transpose_b=true, epilogue=<2: v2 = add v0 v1>}
    r: float[n, 6, t, t] = Shuffle(s) {has_reshape=true, reshape=[n, 6, t, t]}
    w: float[n, 6, t, t] = SoftMax(r) {axis=3, last_axis=3}
    u: float[n, 2, 3, t, t] = Shuffle(w) {has_reshape=true, reshape=[n, 2, 3, t, t]}
    y: float[n, 2, 3, t, 4] = MatrixMultiply(u, vg)
    output y
  })ir",
                 R"ir("m (heads)" = Shuffle(m) {has_reshape=true, reshape=[n, 1, t, t]}
                    "y (heads)" = Attention "{Attention[s...y]}"(q, k, p, _, "m (heads)") {kv_heads=2, v_steps_first=true, epilogue=<2: v2 = add v0 v1>}
                    y = Shuffle "y (groups)"("y (heads)") {has_reshape=true, reshape=[n, 2, 3, t, 4]})ir");
}

// The mask is added to the scores of all heads, which the products have in groups.
TEST(AttentionFusion, MaskBetweenUngroupingAndGrouping) {
  expect_rewrite(
      both, R"ir(graph "g" {
    symbols n, t
    input q: float[n, 6, t, 4]
    input k: float[n, 2, t, 4]
    input v: float[n, 2, t, 4]
    input m: float[n, 1, t, t]
    qg: float[n, 2, 3, t, 4] = Shuffle(q) {has_reshape=true, reshape=[n, 2, 3, t, 4]}
    kg: float[n, 2, 1, t, 4] = Shuffle(k) {has_reshape=true, reshape=[n, 2, 1, t, 4]}
    vg: float[n, 2, 1, t, 4] = Shuffle(v) {has_reshape=true, reshape=[n, 2, 1, t, 4]}
    s: float[n, 2, 3, t, t] = MatrixMultiply(qg, kg) {transpose_b=true, alpha=0.5}
    r: float[n, 6, t, t] = Shuffle(s) {has_reshape=true, reshape=[n, 6, t, t]}
    a: float[n, 6, t, t] = PointWise(r, m) {program=<2: v2 = add v0 v1>}
    w: float[n, 6, t, t] = SoftMax(a) {axis=3, last_axis=3}
    u: float[n, 2, 3, t, t] = Shuffle(w) {has_reshape=true, reshape=[n, 2, 3, t, t]}
    y: float[n, 2, 3, t, 4] = MatrixMultiply(u, vg)
    output y
  })ir",
      R"ir("y (heads)" = Attention "{Attention[s...y]}"(q, k, v, _, m) {scale=0.5, epilogue=<2: v2 = add v0 v1>}
                    y = Shuffle "y (groups)"("y (heads)") {has_reshape=true, reshape=[n, 2, 3, t, 4]})ir");
}

// Keys and values repeated for the heads of the queries, as exporters of grouped queries write it.
TEST(AttentionFusion, RepeatedHeadsAreReadOnce) {
  expect_rewrite(
      both, R"ir(graph "g" {
    symbols n, t
    input q: float[n, 6, t, 4]
    input k: float[n, 2, t, 4]
    input p: float[n, t, 2, 4]
    k5: float[n, 2, 1, t, 4] = Shuffle(k) {has_reshape=true, reshape=[n, 2, 1, t, 4]}
    ke: float[n, 2, 3, t, 4] = Expand(k5) {shape=[n, 2, 3, t, 4]}
    k4: float[n, 6, t, 4] = Shuffle(ke) {has_reshape=true, reshape=[n, 6, t, 4]}
    v5: float[n, 2, 1, t, 4] = Shuffle(p) {first_transpose=[0, 2, 1, 3], has_reshape=true, reshape=[n, 2, 1, t, 4]}
    ve: float[n, 2, 3, t, 4] = Expand(v5) {shape=[n, 2, 3, t, 4]}
    v4: float[n, 6, t, 4] = Shuffle(ve) {has_reshape=true, reshape=[n, 6, t, 4]}
    y: float[n, 6, t, 4] = Attention(q, k4, v4)
    output y
  })ir",
      R"ir(v5 = Shuffle(p) {first_transpose=[0, 2, 1, 3], has_reshape=true, reshape=[n, 2, 1, t, 4]}
                    "v5 (steps)" = Shuffle(v5) {has_reshape=true, reshape=[n, 2, t, 4]}
                    y = Attention(q, k, "v5 (steps)"))ir");
}

// Windows, and no batch at all.
TEST(AttentionFusion, OtherBatchDimensions) {
  expect_rewrite(attention_fusion, R"ir(graph "g" {
    input q: float[2, 3, 7, 5, 4]
    input k: float[2, 3, 7, 6, 4]
    input v: float[2, 3, 7, 6, 4]
    input m: float[7, 5, 6]
    s: float[2, 3, 7, 5, 6] = MatrixMultiply(q, k, _, m) {transpose_b=true, epilogue=<2: v2 = add v0 v1>}
    w: float[2, 3, 7, 5, 6] = SoftMax(s) {axis=4, last_axis=4}
    y: float[2, 3, 7, 5, 4] = MatrixMultiply(w, v)
    output y
  })ir",
                 R"ir("q (heads)" = Shuffle(q) {has_reshape=true, reshape=[6, 7, 5, 4]}
                    "k (heads)" = Shuffle(k) {has_reshape=true, reshape=[6, 7, 6, 4]}
                    "v (heads)" = Shuffle(v) {has_reshape=true, reshape=[6, 7, 6, 4]}
                    "m (heads)" = Shuffle(m) {has_reshape=true, reshape=[1, 7, 5, 6]}
                    "y (heads)" = Attention "{Attention[s...y]}"("q (heads)", "k (heads)", "v (heads)", _, "m (heads)") {epilogue=<2: v2 = add v0 v1>}
                    y = Shuffle "y (groups)"("y (heads)") {has_reshape=true, reshape=[2, 3, 7, 5, 4]})ir");
  expect_rewrite(attention_fusion, R"ir(graph "g" {
    symbols t
    input q: float[t, 4]
    input k: float[t, 4]
    input v: float[t, 4]
    s: float[t, t] = MatrixMultiply(q, k) {transpose_b=true}
    w: float[t, t] = SoftMax(s) {axis=1, last_axis=1}
    y: float[t, 4] = MatrixMultiply(w, v)
    output y
  })ir",
                 R"ir("q (heads)" = Shuffle(q) {has_reshape=true, reshape=[1, t, 4]}
                    "k (heads)" = Shuffle(k) {has_reshape=true, reshape=[1, t, 4]}
                    "v (heads)" = Shuffle(v) {has_reshape=true, reshape=[1, t, 4]}
                    "y (heads)" = Attention "{Attention[s...y]}"("q (heads)", "k (heads)", "v (heads)")
                    y = Shuffle "y (groups)"("y (heads)") {has_reshape=true, reshape=[t, 4]})ir");
}

// One product of all heads (baddbmm), the other one by heads: those batch dimensions are taken.
TEST(AttentionFusion, RegroupedBatches) {
  expect_rewrite(attention_fusion, R"ir(graph "g" {
    input q: float[6, 5, 4]
    input k: float[6, 7, 4]
    input b: float[6, 1, 7]
    input v: float[2, 3, 7, 4]
    s: float[6, 5, 7] = MatrixMultiply(q, k, _, b) {transpose_b=true, epilogue=<2: v2 = add v0 v1>}
    r: float[2, 3, 5, 7] = Shuffle(s) {has_reshape=true, reshape=[2, 3, 5, 7]}
    w: float[2, 3, 5, 7] = SoftMax(r) {axis=3, last_axis=3}
    y: float[2, 3, 5, 4] = MatrixMultiply(w, v)
    output y
  })ir",
                 R"ir("q (heads)" = Shuffle(q) {has_reshape=true, reshape=[2, 3, 5, 4]}
                    "k (heads)" = Shuffle(k) {has_reshape=true, reshape=[2, 3, 7, 4]}
                    "b (heads)" = Shuffle(b) {has_reshape=true, reshape=[2, 3, 1, 7]}
                    y = Attention "{Attention[s...y]}"("q (heads)", "k (heads)", v, _, "b (heads)") {epilogue=<2: v2 = add v0 v1>})ir");
  // Both are of all heads, the mask between them is not.
  expect_rewrite(attention_fusion, R"ir(graph "g" {
    input q: float[6, 5, 4]
    input k: float[6, 7, 4]
    input m: float[2, 1, 1, 7]
    input v: float[6, 7, 4]
    s: float[6, 5, 7] = MatrixMultiply(q, k) {transpose_b=true}
    r: float[2, 3, 5, 7] = Shuffle(s) {has_reshape=true, reshape=[2, 3, 5, 7]}
    a: float[2, 3, 5, 7] = PointWise(r, m) {program=<2: v2 = add v0 v1>}
    u: float[6, 5, 7] = Shuffle(a) {has_reshape=true, reshape=[6, 5, 7]}
    w: float[6, 5, 7] = SoftMax(u) {axis=2, last_axis=2}
    y: float[6, 5, 4] = MatrixMultiply(w, v)
    output y
  })ir",
                 R"ir("q (heads)" = Shuffle(q) {has_reshape=true, reshape=[2, 3, 5, 4]}
                    "k (heads)" = Shuffle(k) {has_reshape=true, reshape=[2, 3, 7, 4]}
                    "v (heads)" = Shuffle(v) {has_reshape=true, reshape=[2, 3, 7, 4]}
                    "y (heads)" = Attention "{Attention[s...y]}"("q (heads)", "k (heads)", "v (heads)", _, m) {epilogue=<2: v2 = add v0 v1>}
                    y = Shuffle "y (groups)"("y (heads)") {has_reshape=true, reshape=[6, 5, 4]})ir");
}

// Shifted windows: their mask is the same for all images.
TEST(AttentionFusion, MasksOfWindows) {
  expect_rewrite(attention_fusion, R"ir(graph "g" {
    input q: float[8, 3, 5, 4]
    input k: float[8, 3, 5, 4]
    input v: float[8, 3, 5, 4]
    input b: float[3, 5, 5]
    input m: float[1, 4, 1, 5, 5]
    s: float[8, 3, 5, 5] = MatrixMultiply(q, k, _, b) {transpose_b=true, epilogue=<2: v2 = add v0 v1>}
    r: float[2, 4, 3, 5, 5] = Shuffle(s) {has_reshape=true, reshape=[2, 4, 3, 5, 5]}
    a: float[2, 4, 3, 5, 5] = PointWise(r, m) {program=<2: v2 = add v0 v1>}
    u: float[8, 3, 5, 5] = Shuffle(a) {has_reshape=true, reshape=[8, 3, 5, 5]}
    w: float[8, 3, 5, 5] = SoftMax(u) {axis=3, last_axis=3}
    y: float[8, 3, 5, 4] = MatrixMultiply(w, v)
    output y
  })ir",
                 R"ir("m (groups)" = Expand(m) {shape=[2, 4, 1, 5, 5]}
                    "m (groups) (heads)" = Shuffle("m (groups)") {has_reshape=true, reshape=[8, 1, 5, 5]}
                    y = Attention "{Attention[s...y]}"(q, k, v, _, b, "m (groups) (heads)") {epilogue=<3: v3 = add v0 v1; v4 = add v2 v3>})ir");
}

// As transformers writes it behind the transpose to heads, and as RotaryEmbedding is taken apart.
TEST(RotationFusion, BothSpellings) {
  expect_rewrite(rotation_fusion, R"ir(graph "g" {
    input x: float[2, 5, 3, 8]
    input c: float[5, 8]
    input s: float[5, 8]
    t: float[2, 3, 5, 8] = Shuffle(x) {first_transpose=[0, 2, 1, 3]}
    low: float[2, 3, 5, 4] = Slice(t) {start=[0, 0, 0, 0], size=[2, 3, 5, 4], step=[1, 1, 1, 1]}
    high: float[2, 3, 5, 4] = Slice(t) {start=[0, 0, 0, 4], size=[2, 3, 5, 4], step=[1, 1, 1, 1]}
    n: float[2, 3, 5, 4] = Unary(high) {op=neg}
    turned: float[2, 3, 5, 8] = Concatenation(n, low) {axis=3}
    a: float[2, 3, 5, 8] = ElementWise(t, c) {op=mul}
    b: float[2, 3, 5, 8] = ElementWise(s, turned) {op=mul}
    y: float[2, 3, 5, 8] = ElementWise(b, a) {op=add}
    output y
  })ir",
                 R"ir("c (steps)" = Shuffle(c) {has_reshape=true, reshape=[1, 5, 1, 8]}
"s (steps)" = Shuffle(s) {has_reshape=true, reshape=[1, 5, 1, 8]}
"t (turned)" = Generic "y"(x, "c (steps)", "s (steps)") {op_type="Rotation", opset=1, attributes=[("half", [4], [], "")]}
y = Shuffle "t"("t (turned)") {first_transpose=[0, 2, 1, 3]})ir");
  expect_rewrite(
      rotation_fusion, R"ir(graph "g" {
    input x: float[2, 5, 3, 10]
    input c: float[2, 5, 1, 4]
    input s: float[2, 5, 1, 4]
    low: float[2, 5, 3, 4] = Slice(x) {start=[0, 0, 0, 0], size=[2, 5, 3, 4], step=[1, 1, 1, 1]}
    high: float[2, 5, 3, 4] = Slice(x) {start=[0, 0, 0, 4], size=[2, 5, 3, 4], step=[1, 1, 1, 1]}
    rest: float[2, 5, 3, 2] = Slice(x) {start=[0, 0, 0, 8], size=[2, 5, 3, 2], step=[1, 1, 1, 1]}
    lc: float[2, 5, 3, 4] = ElementWise(low, c) {op=mul}
    hs: float[2, 5, 3, 4] = ElementWise(high, s) {op=mul}
    ls: float[2, 5, 3, 4] = ElementWise(s, low) {op=mul}
    hc: float[2, 5, 3, 4] = ElementWise(high, c) {op=mul}
    real: float[2, 5, 3, 4] = ElementWise(lc, hs) {op=sub}
    imaginary: float[2, 5, 3, 4] = ElementWise(hc, ls) {op=add}
    y: float[2, 5, 3, 10] = Concatenation(real, imaginary, rest) {axis=3}
    output y
  })ir",
      R"ir(y = Generic(x, c, s) {op_type="Rotation", opset=1, attributes=[("half", [4], [], "")]})ir");
}

// Pairs of neighbours, as GPT-J has them, and as complex numbers are multiplied.
TEST(RotationFusion, Neighbours) {
  expect_rewrite(
      rotation_fusion, R"ir(graph "g" {
    input x: float[2, 5, 8]
    input c: float[5, 8]
    input s: float[5, 8]
    even: float[2, 5, 4] = Slice(x) {start=[0, 0, 0], size=[2, 5, 4], step=[1, 1, 2]}
    odd: float[2, 5, 4] = Slice(x) {start=[0, 0, 1], size=[2, 5, 4], step=[1, 1, 2]}
    n: float[2, 5, 4] = Unary(odd) {op=neg}
    left: float[2, 5, 4, 1] = Shuffle(n) {has_reshape=true, reshape=[2, 5, 4, 1]}
    right: float[2, 5, 4, 1] = Shuffle(even) {has_reshape=true, reshape=[2, 5, 4, 1]}
    pairs: float[2, 5, 4, 2] = Concatenation(left, right) {axis=3}
    turned: float[2, 5, 8] = Shuffle(pairs) {has_reshape=true, reshape=[2, 5, 8]}
    a: float[2, 5, 8] = ElementWise(x, c) {op=mul}
    b: float[2, 5, 8] = ElementWise(turned, s) {op=mul}
    y: float[2, 5, 8] = ElementWise(a, b) {op=add}
    output y
  })ir",
      R"ir(y = Generic(x, c, s) {op_type="Rotation", opset=1, attributes=[("half", [4], [], ""), ("interleaved", [1], [], "")]})ir");
  expect_rewrite(rotation_fusion, R"ir(graph "g" {
    input x: float[2, 5, 24]
    input c: float[5, 1, 4, 1]
    input s: float[5, 1, 4, 1]
    z: float[2, 5, 3, 4, 2] = Shuffle(x) {has_reshape=true, reshape=[2, 5, 3, 4, 2]}
    even: float[2, 5, 3, 4, 1] = Slice(z) {start=[0, 0, 0, 0, 0], size=[2, 5, 3, 4, 1], step=[1, 1, 1, 1, 1]}
    odd: float[2, 5, 3, 4, 1] = Slice(z) {start=[0, 0, 0, 0, 1], size=[2, 5, 3, 4, 1], step=[1, 1, 1, 1, 1]}
    ec: float[2, 5, 3, 4, 1] = ElementWise(even, c) {op=mul}
    os: float[2, 5, 3, 4, 1] = ElementWise(odd, s) {op=mul}
    es: float[2, 5, 3, 4, 1] = ElementWise(even, s) {op=mul}
    oc: float[2, 5, 3, 4, 1] = ElementWise(odd, c) {op=mul}
    real: float[2, 5, 3, 4, 1] = ElementWise(ec, os) {op=sub}
    imaginary: float[2, 5, 3, 4, 1] = ElementWise(es, oc) {op=add}
    pairs: float[2, 5, 3, 4, 2] = Concatenation(real, imaginary) {axis=4}
    y: float[2, 5, 24] = Shuffle(pairs) {has_reshape=true, reshape=[2, 5, 24]}
    output y
  })ir",
                 R"ir(z = Shuffle(x) {has_reshape=true, reshape=[2, 5, 3, 4, 2]}
           "z (pairs)" = Shuffle(z) {has_reshape=true, reshape=[2, 5, 3, 8]}
           "c (pairs)" = Shuffle(c) {has_reshape=true, reshape=[5, 1, 4]}
           "s (pairs)" = Shuffle(s) {has_reshape=true, reshape=[5, 1, 4]}
           "y (turned)" = Generic "y"("z (pairs)", "c (pairs)", "s (pairs)") {op_type="Rotation", opset=1, attributes=[("half", [4], [], ""), ("interleaved", [1], [], "")]}
           y = Shuffle "y (reshape)"("y (turned)") {has_reshape=true, reshape=[2, 5, 24]})ir");
}

// The second of a pair in front, or of another tensor.
TEST(RotationFusion, LeavesOtherNeighbours) {
  for (const auto& [first, of] :
       {std::pair<int, const char*>{0, "x"}, std::pair<int, const char*>{1, "c"}}) {
    const std::string text = fmt::format(R"ir(graph "g" {{
    input x: float[5, 8]
    input c: float[5, 8]
    input s: float[5, 8]
    even: float[5, 4] = Slice(x) {{start=[0, {}], size=[5, 4], step=[1, 2]}}
    odd: float[5, 4] = Slice({}) {{start=[0, {}], size=[5, 4], step=[1, 2]}}
    n: float[5, 4] = Unary(odd) {{op=neg}}
    left: float[5, 4, 1] = Shuffle(n) {{has_reshape=true, reshape=[5, 4, 1]}}
    right: float[5, 4, 1] = Shuffle(even) {{has_reshape=true, reshape=[5, 4, 1]}}
    pairs: float[5, 4, 2] = Concatenation(left, right) {{axis=2}}
    turned: float[5, 8] = Shuffle(pairs) {{has_reshape=true, reshape=[5, 8]}}
    a: float[5, 8] = ElementWise(x, c) {{op=mul}}
    b: float[5, 8] = ElementWise(turned, s) {{op=mul}}
    y: float[5, 8] = ElementWise(a, b) {{op=add}}
    output y
  }})ir",
                                         1 - first, of, first);
    expect_rewrite(rotation_fusion, text, layer_lines(*ir::parse_graph(text).value()));
  }
}

// Halves in the other order, or of unequal sizes, are something else.
TEST(RotationFusion, LeavesOtherHalves) {
  const char* text = R"ir(graph "g" {
    input x: float[5, 8]
    input c: float[8]
    input s: float[8]
    low: float[5, 4] = Slice(x) {start=[0, 0], size=[5, 4], step=[1, 1]}
    high: float[5, 4] = Slice(x) {start=[0, 4], size=[5, 4], step=[1, 1]}
    n: float[5, 4] = Unary(low) {op=neg}
    turned: float[5, 8] = Concatenation(n, high) {axis=1}
    a: float[5, 8] = ElementWise(x, c) {op=mul}
    b: float[5, 8] = ElementWise(turned, s) {op=mul}
    y: float[5, 8] = ElementWise(a, b) {op=add}
    output y
  })ir";
  expect_rewrite(rotation_fusion, text, layer_lines(*ir::parse_graph(text).value()));
}

// Both products of codes, whose weights are rounded between them; nothing else is fused.
TEST(QuantizedAttentionFusion, ProductSoftmaxCodesProduct) {
  const char* text = R"ir(graph "g" {
    input q: uint8[2, 3, 5, 4]
    input k: int8[2, 3, 7, 4]
    input v: int8[2, 3, 7, 6]
    input m: float[2, 1, 1, 7]
    s: float[2, 3, 5, 7] = MatrixMultiply(q, k, _, m) {transpose_b=true, a_zero_point=128, b_zero_point=2, epilogue=<2: v2 = const 0.01; v3 = fma v0 v2 v1>}
    w: float[2, 3, 5, 7] = SoftMax(s) {axis=3, last_axis=3}
    c: uint8[2, 3, 5, 7] = PointWise(w) {program=<1: v1 = const 255; v2 = mul v0 v1; v3 = round v2>, type=uint8}
    y: uint8[2, 3, 5, 6] = MatrixMultiply(c, v) {b_zero_point=-3, type=uint8, epilogue=<1: v1 = const 0.02; v2 = mul v0 v1; v3 = round v2>}
    output y
  })ir";
  expect_rewrite(
      quantized_attention_fusion, text,
      R"ir(y = Attention "{Attention[s...y]}"(q, k, v, _, m) {epilogue=<2: v2 = const 0.01; v3 = fma v0 v2 v1>, weights=uint8, q_zero_point=128, k_zero_point=2, v_zero_point=-3, weight_codes=<1: v1 = const 255; v2 = mul v0 v1; v3 = round v2>, result=<1: v1 = const 0.02; v2 = mul v0 v1; v3 = round v2>, type=uint8})ir");
  expect_rewrite(attention_fusion, text, layer_lines(*ir::parse_graph(text).value()));
}

// An activation behind it stays where it is, behind the transpose.
TEST(AttentionFusion, WhatFollowsStaysBehind) {
  const auto all = [](ir::Graph& graph, Records* records) {
    return pointwise_motion(graph, records) + epilogue_fusion(graph, records) +
           both(graph, records);
  };
  expect_rewrite(all, R"ir(graph "g" {
    input q: float[1, 3, 5, 4]
    input k: float[1, 3, 5, 4]
    input v: float[1, 3, 5, 4]
    s: float[1, 3, 5, 5] = MatrixMultiply(q, k) {transpose_b=true}
    w: float[1, 3, 5, 5] = SoftMax(s) {axis=3, last_axis=3}
    h: float[1, 3, 5, 4] = MatrixMultiply(w, v)
    t: float[1, 5, 12] = Shuffle(h) {first_transpose=[0, 2, 1, 3], has_reshape=true, reshape=[1, 5, 12]}
    y: float[1, 5, 12] = Activation(t) {op=hard_swish}
    output y
  })ir",
                 R"ir(t = Attention "{Attention[s...h]} + t"(q, k, v) {y_steps_first=true}
                    y = Activation(t) {op=hard_swish})ir");
}

TEST(AttentionFusion, LeavesScoresOthersRead) {
  Records records;
  const char* graph = R"ir(graph "g" {
    input q: float[3, 5, 11]
    input k: float[3, 11, 7]
    input l: float[3, 7, 11]
    input v: float[3, 7, 6]
    s: float[3, 5, 7] = MatrixMultiply(q, l) {transpose_b=true}
    w: float[3, 5, 7] = SoftMax(s) {axis=2, last_axis=2}
    y: float[3, 5, 6] = MatrixMultiply(w, v)
    t: float[3, 5, 7] = MatrixMultiply(q, k)
    x: float[3, 5, 7] = SoftMax(t) {axis=2, last_axis=2}
    z: float[3, 5, 6] = MatrixMultiply(x, v)
    output w, y, z
  })ir";
  expect_rewrite(attention_fusion, graph,
                 R"ir(s = MatrixMultiply(q, l) {transpose_b=true}
                    w = SoftMax(s) {axis=2, last_axis=2}
                    y = MatrixMultiply(w, v)
                    t = MatrixMultiply(q, k)
                    x = SoftMax(t) {axis=2, last_axis=2}
                    z = MatrixMultiply(x, v))ir",
                 &records);
  ASSERT_EQ(records.back().action, ir::Action::kDecline);
  EXPECT_EQ(records.back().text,
            "not fused with t and z: operands lie transposed, and turning them takes longer");
}

// A cache of keys as [depth, steps] (BLOOM's): turned for the one row of a decoder's step it would
// be read twice and written once.
TEST(AttentionFusion, LeavesTransposedCachesOfOpenRows) {
  Records records;
  const char* text = R"ir(graph "g" {
    input q: float[3, t, 4]
    input k: float[3, 4, s]
    input v: float[3, s, 4]
    c: float[3, t, s] = MatrixMultiply(q, k)
    w: float[3, t, s] = SoftMax(c) {axis=2, last_axis=2}
    y: float[3, t, 4] = MatrixMultiply(w, v)
    output y
  })ir";
  auto graph = ir::parse_graph(text);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ(attention_fusion(**graph, &records), 0);
  ASSERT_FALSE(records.empty());
  EXPECT_EQ(records.back().text,
            "not fused with c and y: operands lie transposed, and turning them takes longer");
}

// As channel-first networks write it: q, k and v are [channels, pixels], and so is the result.
TEST(AttentionFusion, OperandsThatLieTransposed) {
  const char* text = R"ir(graph "g" {
    input q: float[n, 3, 4, 6]
    input k: float[n, 3, 4, 9]
    input v: float[n, 3, 5, 9]
    s: float[n, 3, 6, 9] = MatrixMultiply(q, k) {transpose_a=true, alpha=0.5}
    w: float[n, 3, 6, 9] = SoftMax(s) {axis=3, last_axis=3}
    y: float[n, 3, 5, 6] = MatrixMultiply(v, w) {transpose_b=true}
    t: float[n, 3, 6, 9] = MatrixMultiply(q, k) {transpose_a=true}
    x: float[n, 3, 6, 9] = SoftMax(t) {axis=3, last_axis=3}
    z: float[n, 3, 6, 5] = MatrixMultiply(x, v) {transpose_b=true}
    output y, z
  })ir";
  expect_rewrite(attention_fusion, text,
                 R"ir("q (heads)" = Shuffle(q) {first_transpose=[0, 1, 3, 2]}
                    "k (heads)" = Shuffle(k) {first_transpose=[0, 1, 3, 2]}
                    "v (heads)" = Shuffle(v) {first_transpose=[0, 1, 3, 2]}
                    "y (heads)" = Attention "{Attention[s...y]}"("q (heads)", "k (heads)", "v (heads)") {scale=0.5}
                    y = Shuffle "y (groups)"("y (heads)") {has_reshape=true, reshape=[n, 3, 6, 5], second_transpose=[0, 1, 3, 2]}
                    "q (heads)_1" = Shuffle "q (heads)_2"(q) {first_transpose=[0, 1, 3, 2]}
                    "k (heads)_1" = Shuffle "k (heads)_2"(k) {first_transpose=[0, 1, 3, 2]}
                    "v (heads)_1" = Shuffle "v (heads)_2"(v) {first_transpose=[0, 1, 3, 2]}
                    z = Attention "{Attention[t...z]}"("q (heads)_1", "k (heads)_1", "v (heads)_1"))ir");
  auto before = ir::parse_graph(text), after = ir::parse_graph(text);
  ASSERT_TRUE(before.ok()) << before.status().message();
  EXPECT_GT(attention_fusion(**after, nullptr), 0);
  expect_same_numbers(**before, **after, 1e-6);
}

// LeViT's activation. Of 5 columns and 9 keys the product is left to attention; of 40 columns,
// which attention leaves alone, it takes the activation.
TEST(AttentionFusion, WhatFollowsStaysBehindWhatLiesTransposed) {
  const auto all = [](ir::Graph& graph, Records* records) {
    return epilogue_fusion(graph, records) + attention_fusion(graph, records);
  };
  expect_rewrite(all, R"ir(graph "g" {
    input q: float[n, 3, 6, 4]
    input k: float[n, 3, 9, 4]
    input v: float[n, 3, 5, 9]
    input u: float[n, 3, 40, 9]
    s: float[n, 3, 6, 9] = MatrixMultiply(q, k) {transpose_b=true}
    w: float[n, 3, 6, 9] = SoftMax(s) {axis=3, last_axis=3}
    h: float[n, 3, 5, 6] = MatrixMultiply(v, w) {transpose_b=true}
    y: float[n, 3, 5, 6] = Activation(h) {op=hard_swish}
    t: float[n, 3, 6, 9] = MatrixMultiply(q, k) {transpose_b=true}
    x: float[n, 3, 6, 9] = SoftMax(t) {axis=3, last_axis=3}
    g: float[n, 3, 40, 6] = MatrixMultiply(u, x) {transpose_b=true}
    z: float[n, 3, 40, 6] = Activation(g) {op=hard_swish}
    output y, z
  })ir",
                 R"ir("v (heads)" = Shuffle(v) {first_transpose=[0, 1, 3, 2]}
                    "h (heads)" = Attention "{Attention[s...h]}"(q, k, "v (heads)")
                    h = Shuffle "h (groups)"("h (heads)") {has_reshape=true, reshape=[n, 3, 6, 5], second_transpose=[0, 1, 3, 2]}
                    y = Activation(h) {op=hard_swish}
                    t = MatrixMultiply(q, k) {transpose_b=true}
                    x = SoftMax(t) {axis=3, last_axis=3}
                    z = MatrixMultiply "g + z"(u, x) {transpose_b=true, epilogue=<1: v1 = hard_swish v0>})ir");
}

TEST(AttentionFusion, LeavesVectorsOfValues) {
  const auto all = [](ir::Graph& graph, Records* records) {
    return epilogue_fusion(graph, records) + attention_fusion(graph, records);
  };
  expect_rewrite(all, R"ir(graph "g" {
    input q: float[6, 4]
    input k: float[9, 4]
    input v: float[9]
    s: float[6, 9] = MatrixMultiply(q, k) {transpose_b=true}
    w: float[6, 9] = SoftMax(s) {axis=1, last_axis=1}
    h: float[6] = MatrixMultiply(v, w) {transpose_b=true}
    y: float[6] = Activation(h) {op=relu}
    output y
  })ir",
                 R"ir(s = MatrixMultiply(q, k) {transpose_b=true}
                    w = SoftMax(s) {axis=1, last_axis=1}
                    y = MatrixMultiply "h + y"(v, w) {transpose_b=true, epilogue=<1: v1 = relu v0>})ir");
}

// [3 queries, 4 keys]: added, chosen, chosen the other way round, with a bias, behind a factor.
TEST(AttentionWindowFusion, ConstantMasksThatHideAllButARange) {
  const auto expect = [](const std::string& mask, const std::string& epilogue,
                         const std::string& attention) {
    SCOPED_TRACE(mask + epilogue);
    expect_rewrite(attention_window_fusion,
                   R"ir(graph "g" {
    input q: float[2, 6, 3, 8]
    input k: float[2, 6, 4, 8]
    input v: float[2, 6, 4, 8]
    input b: float[2, 1, 1, 4]
    constant m: )ir" + mask +
                       R"ir(
    y: float[2, 6, 3, 8] = Attention(q, k, v, _, )ir" +
                       epilogue + R"ir(}
    output y
  })ir",
                   "y = Attention" + attention);
  };
  const std::string causal =
      "float[1, 1, 3, 4] = [0, -inf, -inf, -1e38, 0, 0, -inf, -3e38, 0, 0, 0, -inf]";
  expect(causal, "m) {scale=0.5, epilogue=<2: v2 = add v0 v1>",
         "(q, k, v) {scale=0.5, right_window=0}");
  expect(causal, "m) {epilogue=<2: v2 = add v1 v0>", "(q, k, v) {right_window=0}");
  // What is added besides stays; a factor too.
  expect(causal, "b, m) {epilogue=<3: v3 = add v0 v1; v4 = add v3 v2>",
         "(q, k, v, _, b) {right_window=0, epilogue=<2: v2 = add v0 v1>}");
  expect(causal, "b, m) {epilogue=<3: v3 = fma v0 v1 v2>",
         "(q, k, v, _, b) {right_window=0, epilogue=<2: v2 = mul v0 v1>}");
  const std::string chosen = "bool[3, 4] = [1, 1, 0, 0, 1, 1, 1, 0, 0, 1, 1, 1]";
  expect(chosen, "m) {epilogue=<2: v2 = const -3.4e38; v3 = select v1 v0 v2>",
         "(q, k, v) {left_window=1, right_window=1}");
  const std::string turned = "bool[1, 3, 4] = [0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 0]";
  expect(turned, "m) {epilogue=<2: v2 = const -inf; v3 = select v1 v2 v0>",
         "(q, k, v) {right_window=1}");
  // A table of positions with the mask in it: what is seen still gets its bias.
  expect("float[3, 4] = [0.5, -inf, -inf, -inf, 1, 2, -inf, -inf, 0, 0, 0, -inf]",
         "m) {epilogue=<2: v2 = add v0 v1>",
         "(q, k, v, _, m) {right_window=0, epilogue=<2: v2 = add v0 v1>}");
}

TEST(AttentionWindowFusion, LeavesOtherMasksAlone) {
  const auto expect_none = [](const std::string& mask, const std::string& rest) {
    SCOPED_TRACE(mask + rest);
    const auto graph =
        std::move(
            ir::parse_graph(R"ir(graph "g" {
    input q: float[2, 6, 3, 8]
    input k: float[2, 6, 3, 8]
    constant m: )ir" + mask +
                            "\n    y: float[2, 6, 3, 8] = Attention(q, k, k, _, m) {epilogue=<2: " +
                            rest + ">}\n    output y\n  }"))
            .value();
    Records records;
    EXPECT_EQ(attention_window_fusion(*graph, &records), 0);
  };
  const std::string added = "v2 = add v0 v1";
  expect_none("float[3, 3] = [0, -10000, -10000, 0, 0, -10000, 0, 0, 0]", added);  // not hidden
  expect_none("float[3, 3] = [-inf, -inf, -inf, 0, -inf, -inf, 0, 0, -inf]",
              added);                                                     // one sees none
  expect_none("float[3, 3] = [0, -inf, 0, 0, 0, -inf, 0, 0, 0]", added);  // not one range
  expect_none("float[3, 3] = [0, -inf, -inf, 0, 0, 0, 0, 0, 0]", added);  // not as far everywhere
  expect_none("float[3, 3] = [0, 0, 0, 0, 0, 0, 0, 0, 0]", added);
  expect_none("float[1, 3] = [0, 0, -inf]", added);  // of keys: padding
  expect_none("bool[3, 3] = [1, 0, 0, 1, 1, 0, 1, 1, 1]", "v2 = const -1000; v3 = select v1 v0 v2");
  expect_none(
      "bool[3, 3] = [1, 0, 0, 1, 1, 0, 1, 1, 1]",
      "v2 = const -inf; v3 = select v1 v2 v0");  // the first sees keys 1 and 2, the last none
}

TEST(AttentionLayoutFusion, RowsAreReadAndWrittenWhereTheyLie) {
  expect_rewrite(
      both, R"ir(graph "g" {
    symbols n, t
    input x: float[n, t, 12]
    input a: float[n, t, 12]
    input b: float[t, 12]
    q: float[n, 3, t, 4] = Shuffle(x) {has_reshape=true, reshape=[n, t, 3, 4], second_transpose=[0, 2, 1, 3]}
    k: float[n, 3, t, 4] = Shuffle(a) {has_reshape=true, reshape=[n, t, 3, 4], second_transpose=[0, 2, 1, 3]}
    v: float[1, 3, t, 4] = Shuffle(b) {has_reshape=true, reshape=[1, t, 3, 4], second_transpose=[0, 2, 1, 3]}
    s: float[n, 3, t, t] = MatrixMultiply(q, k) {transpose_b=true}
    w: float[n, 3, t, t] = SoftMax(s) {axis=3, last_axis=3}
    h: float[n, 3, t, 4] = MatrixMultiply(w, k)
    y: float[n, t, 12] = Shuffle(h) {first_transpose=[0, 2, 1, 3], has_reshape=true, reshape=[n, t, 12]}
    output y
  })ir",
      R"ir(y = Attention "{Attention[s...h]} + y"(x, a, a) {heads=3, kv_heads=3, q_steps_first=true, k_steps_first=true, v_steps_first=true, y_steps_first=true})ir");
}

TEST(AttentionLayoutFusion, OtherShapesBehindIt) {
  expect_rewrite(attention_layout_fusion, R"ir(graph "g" {
    input q: float[1, 3, 5, 4]
    input k: float[1, 5, 3, 4]
    input v: float[1, 3, 5, 4]
    t: float[1, 3, 5, 4] = Shuffle(k) {first_transpose=[0, 2, 1, 3]}
    h: float[1, 3, 5, 4] = Attention(q, t, v)
    y: float[5, 12] = Shuffle(h) {first_transpose=[0, 2, 1, 3], has_reshape=true, reshape=[5, 12]}
    output y
  })ir",
                 R"ir(t = Shuffle(k) {first_transpose=[0, 2, 1, 3]}
                    "h (steps)" = Attention "h"(q, k, v) {kv_heads=3, k_steps_first=true, y_steps_first=true}
                    y = Shuffle("h (steps)") {has_reshape=true, reshape=[5, 12]})ir");
}

// Codes for the next product: their Q stood between the heads and their transpose.
TEST(AttentionLayoutFusion, APointwiseLayerGoesBehindTheTranspose) {
  constexpr std::string_view kText = R"ir(graph "g" {
    input q: float[1, 3, 5, 4]
    input k: float[1, 3, 7, 4]
    input v: float[1, 3, 7, 4]
    h: float[1, 3, 5, 4] = Attention(q, k, v)
    c: float[1, 3, 5, 4] = PointWise(h) {program=<1: v1 = const 8; v2 = mul v0 v1; v3 = round v2>}
    y: float[1, 5, 12] = Shuffle(c) {first_transpose=[0, 2, 1, 3], has_reshape=true, reshape=[1, 5, 12]}
    output y
  })ir";
  const auto before = std::move(ir::parse_graph(kText)).value();
  const auto after = std::move(ir::parse_graph(kText)).value();
  while (attention_layout_fusion(*after, nullptr) > 0) continue;
  ASSERT_TRUE(ir::verify(*after).ok());
  ASSERT_EQ(after->layers().size(), 2u) << layer_lines(*after);
  EXPECT_TRUE(after->layers()[0]->as<ir::AttentionAttrs>().y_steps_first);
  EXPECT_EQ(after->layers()[1]->kind, ir::LayerKind::kPointWise);
  EXPECT_EQ(after->layers()[1]->name, "c");
  expect_same_numbers(*before, *after, 0);
}

// It reads what has another place in the heads than behind the transpose.
TEST(AttentionLayoutFusion, APointwiseLayerOfTwoTensorsStays) {
  const auto graph = std::move(ir::parse_graph(R"ir(graph "g" {
    input q: float[1, 3, 5, 4]
    input k: float[1, 3, 7, 4]
    input v: float[1, 3, 7, 4]
    input b: float[3, 5, 4]
    h: float[1, 3, 5, 4] = Attention(q, k, v)
    c: float[1, 3, 5, 4] = PointWise(h, b) {program=<2: v2 = add v0 v1>}
    y: float[1, 5, 12] = Shuffle(c) {first_transpose=[0, 2, 1, 3], has_reshape=true, reshape=[1, 5, 12]}
    output y
  })ir"))
                         .value();
  EXPECT_EQ(attention_layout_fusion(*graph, nullptr), 0);
}

}  // namespace
}  // namespace camshaft::passes
