// SPDX-License-Identifier: Apache-2.0
// The same meaning as different exporters spell it: TorchScript, functions inlined by newer ones,
// Keras and by hand. The whole pipeline runs; what is left and its numbers are compared.
#include <gtest/gtest.h>

#include <algorithm>

#include "ir/text.h"
#include "passes/pipeline.h"
#include "passes/test_util.h"

namespace camshaft::passes {
namespace {

// The kinds of the layers that are left, in alphabetical order.
std::string optimized(const std::string& text, double tolerance = 1e-4) {
  auto before = ir::parse_graph(text);
  EXPECT_TRUE(before.ok()) << before.status().message() << "\n" << text;
  if (!before.ok()) return "";
  EXPECT_TRUE(ir::verify(*before.value()).ok()) << ir::verify(*before.value()).message();
  const auto after = std::move(ir::parse_graph(text)).value();
  PassRecord record;
  EXPECT_TRUE(optimize(*after, record).ok());
  EXPECT_TRUE(ir::verify(*after).ok()) << ir::verify(*after).message();
  expect_same_numbers(*before.value(), *after, tolerance);
  std::vector<std::string> kinds;
  for (const auto& layer : after->layers()) kinds.emplace_back(ir::kind_name(layer->kind));
  std::sort(kinds.begin(), kinds.end());
  std::string list;
  for (const std::string& kind : kinds) list += (list.empty() ? "" : " ") + kind;
  return list;
}

// `layers` make y of x, with constants for all of them.
std::string network(const std::string& x, const std::string& layers) {
  return "graph \"g\" {\n    input x: float[" + x + R"ir(]
    constant two: float[] = [2]
    constant half: float[] = [0.5]
    constant one: float[] = [1]
    constant three: float[] = [3]
    constant six: float[] = [6]
    constant eps: float[1] = [1e-5]
    )ir" +
         layers + "\n    output y\n  }";
}

TEST(Spellings, LayerNormalizationOfChannels) {
  const std::string factors =
      "constant g: float[6, 1, 1] = random(1)\nconstant b: float[1, 6, 1, 1] = random(2)\n";
  const char* const kNormalized = "Normalization Shuffle Shuffle";
  EXPECT_EQ(optimized(network("2, 6, 5, 4", factors + R"ir(
    m: float[2, 1, 5, 4] = Reduce(x) {op=mean, axes=[1]}
    d: float[2, 6, 5, 4] = ElementWise(x, m) {op=sub}
    p: float[2, 6, 5, 4] = ElementWise(d, two) {op=pow}
    v: float[2, 1, 5, 4] = Reduce(p) {op=mean, axes=[1]}
    e: float[2, 1, 5, 4] = ElementWise(v, eps) {op=add}
    r: float[2, 1, 5, 4] = Unary(e) {op=sqrt}
    q: float[2, 6, 5, 4] = ElementWise(d, r) {op=div}
    w: float[2, 6, 5, 4] = ElementWise(g, q) {op=mul}
    y: float[2, 6, 5, 4] = ElementWise(w, b) {op=add})ir")),
            kNormalized);
  // Sums times 1/n, dropped dimensions, a reciprocal.
  EXPECT_EQ(optimized(network("2, 6, 5, 4", factors + R"ir(
    constant n: float[] = [0.16666667]
    constant six1: float[] = [6]
    s: float[2, 5, 4] = Reduce(x) {op=sum, axes=[1], keep_dims=false}
    m0: float[2, 5, 4] = ElementWise(s, n) {op=mul}
    m: float[2, 1, 5, 4] = Shuffle(m0) {has_reshape=true, reshape=[2, 1, 5, 4]}
    d: float[2, 6, 5, 4] = ElementWise(x, m) {op=sub}
    p: float[2, 6, 5, 4] = ElementWise(d, d) {op=mul}
    t: float[2, 1, 5, 4] = Reduce(p) {op=sum, axes=[1]}
    v: float[2, 1, 5, 4] = ElementWise(t, six1) {op=div}
    e: float[2, 1, 5, 4] = ElementWise(v, eps) {op=add}
    r: float[2, 1, 5, 4] = Unary(e) {op=sqrt}
    i: float[2, 1, 5, 4] = Unary(r) {op=reciprocal}
    q: float[2, 6, 5, 4] = ElementWise(d, i) {op=mul}
    w: float[2, 6, 5, 4] = ElementWise(q, g) {op=mul}
    y: float[2, 6, 5, 4] = ElementWise(w, b) {op=add})ir")),
            kNormalized);
  // Raw moments.
  EXPECT_EQ(optimized(network("2, 6, 5, 4", factors + R"ir(
    m: float[2, 1, 5, 4] = Reduce(x) {op=mean, axes=[1]}
    p: float[2, 6, 5, 4] = ElementWise(x, x) {op=mul}
    v0: float[2, 1, 5, 4] = Reduce(p) {op=mean, axes=[1]}
    mm: float[2, 1, 5, 4] = ElementWise(m, m) {op=mul}
    v: float[2, 1, 5, 4] = ElementWise(v0, mm) {op=sub}
    e: float[2, 1, 5, 4] = ElementWise(v, eps) {op=add}
    r: float[2, 1, 5, 4] = Unary(e) {op=sqrt}
    d: float[2, 6, 5, 4] = ElementWise(x, m) {op=sub}
    q: float[2, 6, 5, 4] = ElementWise(d, r) {op=div}
    w: float[2, 6, 5, 4] = ElementWise(q, g) {op=mul}
    y: float[2, 6, 5, 4] = ElementWise(w, b) {op=add})ir"),
                      1e-3),
            kNormalized);
}

TEST(Spellings, GroupNormalization) {
  const std::string factors =
      "constant g: float[6, 1, 1] = random(1)\nconstant b: float[6, 1, 1] = random(2)\n";
  // TorchScript: an instance normalization of groups.
  EXPECT_EQ(optimized(network("2, 6, 5, 4", factors + R"ir(
    constant ones: float[3] = [1, 1, 1]
    constant zeros: float[3] = [0, 0, 0]
    r: float[2, 3, 40] = Shuffle(x) {has_reshape=true, reshape=[2, 3, 40]}
    i: float[2, 3, 40] = Normalization(r, ones, zeros) {kind=instance}
    s: float[2, 6, 5, 4] = Shuffle(i) {has_reshape=true, reshape=[2, 6, 5, 4]}
    w: float[2, 6, 5, 4] = ElementWise(s, g) {op=mul}
    y: float[2, 6, 5, 4] = ElementWise(w, b) {op=add})ir")),
            "Normalization");
  // Decomposed into moments.
  EXPECT_EQ(optimized(network("2, 6, 5, 4", factors + R"ir(
    r: float[2, 3, 2, 20] = Shuffle(x) {has_reshape=true, reshape=[2, 3, 2, 20]}
    m: float[2, 3, 1, 1] = Reduce(r) {op=mean, axes=[2, 3]}
    d: float[2, 3, 2, 20] = ElementWise(r, m) {op=sub}
    p: float[2, 3, 2, 20] = ElementWise(d, d) {op=mul}
    v: float[2, 3, 1, 1] = Reduce(p) {op=mean, axes=[2, 3]}
    e: float[2, 3, 1, 1] = ElementWise(v, eps) {op=add}
    q: float[2, 3, 1, 1] = Unary(e) {op=sqrt}
    n: float[2, 3, 2, 20] = ElementWise(d, q) {op=div}
    s: float[2, 6, 5, 4] = Shuffle(n) {has_reshape=true, reshape=[2, 6, 5, 4]}
    w: float[2, 6, 5, 4] = ElementWise(s, g) {op=mul}
    y: float[2, 6, 5, 4] = ElementWise(w, b) {op=add})ir")),
            "Normalization");
  // Keras, channels last: over height, width and the channels of a group.
  const std::string keras = optimized(network("2, 5, 4, 6", R"ir(
    constant g: float[6] = random(1)
    constant b: float[6] = random(2)
    r: float[2, 5, 4, 3, 2] = Shuffle(x) {has_reshape=true, reshape=[2, 5, 4, 3, 2]}
    m: float[2, 1, 1, 3, 1] = Reduce(r) {op=mean, axes=[1, 2, 4]}
    d: float[2, 5, 4, 3, 2] = ElementWise(r, m) {op=sub}
    p: float[2, 5, 4, 3, 2] = ElementWise(d, d) {op=mul}
    v: float[2, 1, 1, 3, 1] = Reduce(p) {op=mean, axes=[1, 2, 4]}
    e: float[2, 1, 1, 3, 1] = ElementWise(v, eps) {op=add}
    q: float[2, 1, 1, 3, 1] = Unary(e) {op=sqrt}
    i: float[2, 1, 1, 3, 1] = Unary(q) {op=reciprocal}
    n: float[2, 5, 4, 3, 2] = ElementWise(d, i) {op=mul}
    s: float[2, 5, 4, 6] = Shuffle(n) {has_reshape=true, reshape=[2, 5, 4, 6]}
    w: float[2, 5, 4, 6] = ElementWise(s, g) {op=mul}
    y: float[2, 5, 4, 6] = ElementWise(w, b) {op=add})ir"));
  EXPECT_EQ(keras.find("Reduce"), std::string::npos) << keras;
  EXPECT_NE(keras.find("Normalization"), std::string::npos) << keras;
}

TEST(Spellings, NormalizationOfOneRow) {
  EXPECT_EQ(optimized(network("1, 1, 8", R"ir(
    constant g: float[8] = random(1)
    m: float[1, 1, 1] = Reduce(x) {op=mean, axes=[0, 1, 2]}
    d: float[1, 1, 8] = ElementWise(x, m) {op=sub}
    p: float[1, 1, 8] = ElementWise(d, two) {op=pow}
    v: float[1, 1, 1] = Reduce(p) {op=mean, axes=[0, 1, 2]}
    e: float[1, 1, 1] = ElementWise(v, eps) {op=add}
    r: float[1, 1, 1] = Unary(e) {op=sqrt}
    q: float[1, 1, 8] = ElementWise(d, r) {op=div}
    y: float[1, 1, 8] = ElementWise(q, g) {op=mul})ir")),
            "Normalization");
  EXPECT_EQ(optimized(network("8", R"ir(
    constant g: float[8] = random(1)
    p: float[8] = ElementWise(x, two) {op=pow}
    v: float[] = Reduce(p) {op=mean, axes=[0], keep_dims=false}
    e: float[1] = ElementWise(v, eps) {op=add}
    r: float[1] = Unary(e) {op=sqrt}
    q: float[8] = ElementWise(x, r) {op=div}
    y: float[8] = ElementWise(q, g) {op=mul})ir")),
            "Normalization");
  EXPECT_EQ(optimized(network("1, 8", R"ir(
    constant g: float[1, 8] = random(1)
    p: float[1, 8] = ElementWise(x, x) {op=mul}
    v: float[1] = Reduce(p) {op=mean, axes=[1], keep_dims=false}
    u: float[1, 1] = Shuffle(v) {has_reshape=true, reshape=[1, 1]}
    e: float[1, 1] = ElementWise(u, eps) {op=add}
    r: float[1, 1] = Unary(e) {op=sqrt}
    i: float[1, 1] = Unary(r) {op=reciprocal}
    q: float[1, 8] = ElementWise(x, i) {op=mul}
    y: float[1, 8] = ElementWise(g, q) {op=mul})ir")),
            "Normalization");
}

// A linear layer in front, so that the activation must become its epilogue.
std::string activation(const std::string& layers) {
  return network("3, 4",
                 "constant w: float[4, 5] = random(1)\n"
                 "v: float[3, 5] = MatrixMultiply(x, w)\n" +
                     layers);
}

TEST(Spellings, ActivationsAreEpilogues) {
  const char* const kSpellings[] = {
      // GELU: divided by sqrt(2); multiplied, the factors in another order; with the half first.
      R"ir(constant r2: float[] = [1.4142135]
    a: float[3, 5] = ElementWise(v, r2) {op=div}
    e: float[3, 5] = Unary(a) {op=erf}
    p: float[3, 5] = ElementWise(e, one) {op=add}
    m: float[3, 5] = ElementWise(v, p) {op=mul}
    y: float[3, 5] = ElementWise(m, half) {op=mul})ir",
      R"ir(constant r2: float[1] = [0.70710678]
    a: float[3, 5] = ElementWise(r2, v) {op=mul}
    e: float[3, 5] = Unary(a) {op=erf}
    p: float[3, 5] = ElementWise(one, e) {op=add}
    h: float[3, 5] = ElementWise(half, p) {op=mul}
    y: float[3, 5] = ElementWise(h, v) {op=mul})ir",
      // Its tanh form, with a power and with products.
      R"ir(constant c: float[] = [0.044715]
    constant k: float[] = [0.7978846]
    a: float[3, 5] = ElementWise(v, three) {op=pow}
    b: float[3, 5] = ElementWise(a, c) {op=mul}
    d: float[3, 5] = ElementWise(v, b) {op=add}
    e: float[3, 5] = ElementWise(d, k) {op=mul}
    t: float[3, 5] = Activation(e) {op=tanh}
    p: float[3, 5] = ElementWise(t, one) {op=add}
    h: float[3, 5] = ElementWise(v, half) {op=mul}
    y: float[3, 5] = ElementWise(h, p) {op=mul})ir",
      R"ir(constant c: float[] = [0.044715]
    constant k: float[] = [0.7978846]
    a: float[3, 5] = ElementWise(v, v) {op=mul}
    b: float[3, 5] = ElementWise(a, c) {op=mul}
    o: float[3, 5] = ElementWise(b, one) {op=add}
    i: float[3, 5] = ElementWise(v, k) {op=mul}
    e: float[3, 5] = ElementWise(i, o) {op=mul}
    t: float[3, 5] = Activation(e) {op=tanh}
    p: float[3, 5] = ElementWise(one, t) {op=add}
    h: float[3, 5] = ElementWise(p, half) {op=mul}
    y: float[3, 5] = ElementWise(v, h) {op=mul})ir",
      // Quick GELU, SiLU, SiLU as a quotient.
      R"ir(constant k: float[] = [1.702]
    a: float[3, 5] = ElementWise(v, k) {op=mul}
    s: float[3, 5] = Activation(a) {op=sigmoid}
    y: float[3, 5] = ElementWise(s, v) {op=mul})ir",
      R"ir(n: float[3, 5] = Unary(v) {op=neg}
    e: float[3, 5] = Unary(n) {op=exp}
    o: float[3, 5] = ElementWise(e, one) {op=add}
    y: float[3, 5] = ElementWise(v, o) {op=div})ir",
      // Mish.
      R"ir(s: float[3, 5] = Activation(v) {op=softplus}
    t: float[3, 5] = Activation(s) {op=tanh}
    y: float[3, 5] = ElementWise(v, t) {op=mul})ir",
      R"ir(e: float[3, 5] = Unary(v) {op=exp}
    o: float[3, 5] = ElementWise(e, one) {op=add}
    s: float[3, 5] = Unary(o) {op=log}
    t: float[3, 5] = Activation(s) {op=tanh}
    y: float[3, 5] = ElementWise(v, t) {op=mul})ir",
      // Hard swish: clipped and divided, hard sigmoid, ReLU6 and a factor.
      R"ir(a: float[3, 5] = ElementWise(v, three) {op=add}
    c: float[3, 5] = Activation(a) {op=clip, x=0, y=6}
    m: float[3, 5] = ElementWise(v, c) {op=mul}
    y: float[3, 5] = ElementWise(m, six) {op=div})ir",
      R"ir(s: float[3, 5] = Activation(v) {op=hard_sigmoid, x=0.16666667, y=0.5}
    y: float[3, 5] = ElementWise(v, s) {op=mul})ir",
      R"ir(constant sixth: float[] = [0.16666667]
    a: float[3, 5] = ElementWise(v, three) {op=add}
    r: float[3, 5] = Activation(a) {op=relu}
    c: float[3, 5] = ElementWise(r, six) {op=min}
    s: float[3, 5] = ElementWise(c, sixth) {op=mul}
    y: float[3, 5] = ElementWise(s, v) {op=mul})ir",
  };
  for (const char* spelling : kSpellings) {
    SCOPED_TRACE(spelling);
    const auto graph = std::move(ir::parse_graph(activation(spelling))).value();
    PassRecord record;
    ASSERT_TRUE(optimize(*graph, record).ok());
    ASSERT_EQ(graph->layers().size(), 1u) << layer_lines(*graph);
    const ir::Program& epilogue = graph->layers()[0]->as<ir::MatrixMultiplyAttrs>().epilogue;
    EXPECT_EQ(epilogue.code.size(), 1u) << ir::to_string(epilogue);
    EXPECT_EQ(optimized(activation(spelling), 1e-3), "MatrixMultiply");
  }
}

TEST(Spellings, MasksAndTablesOfConstantsFold) {
  // A causal mask from ranges, expanded and compared; wider than what small constants are.
  const std::string scores = "constant low: float[] = [-1e30]\nconstant zero: float[] = [0]\n";
  EXPECT_EQ(optimized(network("1, 2, 200, 200", scores + R"ir(
    constant z: int64[] = [0]
    constant n: int64[] = [200]
    constant s: int64[] = [1]
    r: int64[200] = Range(z, n, s)
    row: int64[200, 1] = Shuffle(r) {has_reshape=true, reshape=[200, 1]}
    wide: int64[200, 200] = Expand(row) {shape=[200, 200]}
    b: bool[200, 200] = ElementWise(r, wide) {op=less_or_equal}
    m: float[200, 200] = Select(b, zero, low) {op=select}
    f: float[1, 1, 200, 200] = Shuffle(m) {has_reshape=true, reshape=[1, 1, 200, 200]}
    y: float[1, 2, 200, 200] = ElementWise(x, f) {op=add})ir")),
            "PointWise");
  // All positions may be seen: nothing is added at all.
  EXPECT_EQ(optimized(network("1, 2, 200, 200", scores + R"ir(
    constant t: bool[1, 1, 1, 1] = [1]
    e: bool[1, 1, 200, 200] = Expand(t) {shape=[1, 1, 200, 200]}
    m: float[1, 1, 200, 200] = Select(e, zero, low) {op=select}
    a: float[1, 2, 200, 200] = ElementWise(x, m) {op=add}
    y: float[1, 2, 200, 200] = Unary(a) {op=neg})ir")),
            "PointWise");
  // A table of relative positions, looked up, transposed.
  EXPECT_EQ(optimized(network("1, 3, 60, 60", R"ir(
    constant table: float[11, 3] = random(1)
    constant z: int64[] = [0]
    constant n: int64[] = [60]
    constant s: int64[] = [1]
    constant ten: int64[] = [10]
    r: int64[60] = Range(z, n, s)
    row: int64[60, 1] = Shuffle(r) {has_reshape=true, reshape=[60, 1]}
    d: int64[60, 60] = ElementWise(r, row) {op=sub}
    a: int64[60, 60] = Unary(d) {op=abs}
    c: int64[60, 60] = ElementWise(a, ten) {op=min}
    g: float[60, 60, 3] = Gather(table, c)
    t: float[3, 60, 60] = Shuffle(g) {first_transpose=[2, 0, 1]}
    y: float[1, 3, 60, 60] = ElementWise(x, t) {op=add})ir")),
            "PointWise");
}

TEST(Spellings, TypesAndPositionsOfTokens) {
  const std::string embeddings = R"ir(graph "g" {
    input ids: int64[n, m]
    constant words: float[7, 4] = random(1)
    constant types: float[2, 4] = random(2)
    constant places: float[9, 4] = random(3)
    constant zeros: int64[1, 6] = [0, 0, 0, 0, 0, 0]
    constant range: int64[1, 6] = [0, 1, 2, 3, 4, 5]
    constant zero: int64[] = [0]
    w: float[n, m, 4] = Gather(words, ids)
    )ir";
  const std::string sum = R"ir(
    a: float[n, m, 4] = ElementWise(w, t) {op=add}
    b: float[n, m, 4] = ElementWise(a, p) {op=add}
    y: float[n, m, 4] = Unary(b) {op=exp}
    output y
  })ir";
  const std::string places = R"ir(
    r: int64[1, m] = Slice(range) {start=[0, 0], size=[1, m], step=[1, 1]}
    p: float[1, m, 4] = Gather(places, r))ir";
  // A slice of stored zeros, expanded; looked up at positions; filled.
  EXPECT_EQ(optimized(embeddings +
                      R"ir(s: int64[1, m] = Slice(zeros) {start=[0, 0], size=[1, m], step=[1, 1]}
    e: int64[n, m] = Expand(s) {shape=[n, m]}
    t: float[n, m, 4] = Gather(types, e))ir" +
                      places + sum),
            "Gather PointWise Slice");
  EXPECT_EQ(optimized(embeddings +
                      R"ir(q: int64[1, m] = Slice(range) {start=[0, 0], size=[1, m], step=[1, 1]}
    s: int64[1, m] = Gather(zeros, q) {mode=elements, axis=1}
    e: int64[n, m] = Expand(s) {shape=[n, m]}
    t: float[n, m, 4] = Gather(types, e))ir" +
                      places + sum),
            "Gather PointWise Slice");
  EXPECT_EQ(optimized(embeddings + R"ir(e: int64[n, m] = Fill() {type=int64, value=1, shape=[n, m]}
    t: float[n, m, 4] = Gather(types, e))ir" +
                      places + sum),
            "Gather PointWise Slice");
}

TEST(Spellings, LinearLayersWithResiduals) {
  const std::string weights =
      "constant w: float[4, 4] = random(1)\nconstant b: float[4] = random(2)\n";
  // MatMul and Add; Gemm between reshapes; a 1x1 convolution of a row.
  EXPECT_EQ(optimized(network("n, 3, 4", weights + R"ir(
    m: float[n, 3, 4] = MatrixMultiply(x, w)
    a: float[n, 3, 4] = ElementWise(b, m) {op=add}
    y: float[n, 3, 4] = ElementWise(x, a) {op=add})ir")),
            "MatrixMultiply");
  EXPECT_EQ(optimized(network("n, 3, 4", weights + R"ir(
    r: float[(n*3), 4] = Shuffle(x) {has_reshape=true, reshape=[(n*3), 4]}
    m: float[(n*3), 4] = MatrixMultiply(r, w, b) {transpose_b=true}
    s: float[n, 3, 4] = Shuffle(m) {has_reshape=true, reshape=[n, 3, 4]}
    y: float[n, 3, 4] = ElementWise(x, s) {op=add})ir")),
            "MatrixMultiply Shuffle Shuffle");
  EXPECT_EQ(optimized(network("n, 4, 3", R"ir(constant w: float[4, 4, 1] = random(1)
    constant b: float[4] = random(2)
    m: float[n, 4, 3] = Convolution(x, w, b) {kernel=[1], stride=[1], dilation=[1], pre_padding=[0], post_padding=[0]}
    y: float[n, 4, 3] = ElementWise(m, x) {op=add})ir")),
            "Convolution");
}

TEST(Spellings, GroupedQueryAttention) {
  // Keys are repeated, flattened, transposed as matrices, and multiplied; a mask is added.
  EXPECT_EQ(optimized(R"ir(graph "g" {
    input q: float[n, 8, 3, 5]
    input k: float[n, 2, 6, 5]
    input mask: float[n, 1, 3, 6]
    u: float[n, 2, 1, 6, 5] = Shuffle(k) {has_reshape=true, reshape=[n, 2, 1, 6, 5]}
    e: float[n, 2, 4, 6, 5] = Expand(u) {shape=[n, 2, 4, 6, 5]}
    r: float[n, 8, 6, 5] = Shuffle(e) {has_reshape=true, reshape=[n, 8, 6, 5]}
    t: float[n, 8, 5, 6] = Shuffle(r) {first_transpose=[0, 1, 3, 2]}
    m: float[n, 8, 3, 6] = MatrixMultiply(q, t) {alpha=0.5}
    a: float[n, 8, 3, 6] = ElementWise(m, mask) {op=add}
    y: float[n, 8, 3, 6] = SoftMax(a) {axis=3, last_axis=3}
    output y
  })ir"),
            "MatrixMultiply Shuffle Shuffle Shuffle Shuffle SoftMax");
}

TEST(Spellings, CausalConvolutionsAndCroppedDeconvolutions) {
  const std::string weights =
      "constant w: float[3, 3, 4] = random(1)\nconstant b: float[3] = random(2)\n";
  // Padded before; padded on both sides and cut; cut by a negative Pad.
  EXPECT_EQ(optimized(network("2, 3, n", weights + R"ir(
    p: float[2, 3, (n+3)] = Pad(x) {pre=[0, 0, 3], post=[0, 0, 0]}
    y: float[2, 3, n] = Convolution(p, w, b) {kernel=[4], stride=[1], dilation=[1], pre_padding=[0], post_padding=[0]})ir")),
            "Convolution");
  EXPECT_EQ(optimized(network("2, 3, n", weights + R"ir(
    c: float[2, 3, (n+3)] = Convolution(x, w, b) {kernel=[4], stride=[1], dilation=[1], pre_padding=[3], post_padding=[3]}
    s: float[2, 3, n] = Slice(c) {start=[0, 0, 0], size=[2, 3, n], step=[1, 1, 1]}
    y: float[2, 3, n] = Activation(s) {op=silu, x=1})ir")),
            "Convolution");
  EXPECT_EQ(optimized(network("2, 3, 9", weights + R"ir(
    c: float[2, 3, 12] = Convolution(x, w, b) {kernel=[4], stride=[1], dilation=[1], pre_padding=[3], post_padding=[3]}
    y: float[2, 3, 9] = Pad(c) {pre=[0, 0, 0], post=[0, 0, -3]})ir")),
            "Convolution");
  EXPECT_EQ(optimized(network("2, 3, 5, 5", R"ir(
    constant w: float[3, 2, 4, 4] = random(1)
    d: float[2, 2, 12, 12] = Deconvolution(x, w) {kernel=[4, 4], stride=[2, 2], dilation=[1, 1], pre_padding=[0, 0], post_padding=[0, 0]}
    y: float[2, 2, 10, 9] = Slice(d) {start=[0, 0, 1, 2], size=[2, 2, 10, 9], step=[1, 1, 1, 1]})ir")),
            "Deconvolution");
  // What padding does not account for stays.
  EXPECT_EQ(optimized(network("2, 3, 9", weights + R"ir(
    c: float[2, 3, 9] = Convolution(x, w, b) {kernel=[4], stride=[1], dilation=[1], pre_padding=[2], post_padding=[1]}
    y: float[2, 3, 6] = Slice(c) {start=[0, 0, 3], size=[2, 3, 6], step=[1, 1, 1]})ir")),
            "Convolution Slice");
}

TEST(Spellings, SqueezeAndExcite) {
  const std::string weights =
      "constant w: float[6, 2] = random(1)\nconstant v: float[2, 6] = random(2)\n";
  const std::string gate = R"ir(
    h: float[n, 2] = MatrixMultiply(s, w)
    r: float[n, 2] = Activation(h) {op=relu}
    e: float[n, 6] = MatrixMultiply(r, v)
    g: float[n, 6] = Activation(e) {op=sigmoid}
    u: float[n, 6, 1, 1] = Shuffle(g) {has_reshape=true, reshape=[n, 6, 1, 1]}
    y: float[n, 6, 4, 4] = ElementWise(x, u) {op=mul})ir";
  const char* const kLeft = "MatrixMultiply MatrixMultiply PointWise Pooling Shuffle Shuffle";
  EXPECT_EQ(optimized(network("n, 6, 4, 4", weights + R"ir(
    s: float[n, 6] = Reduce(x) {op=mean, axes=[2, 3], keep_dims=false})ir" +
                                                gate)),
            kLeft);
  EXPECT_EQ(optimized(network("n, 6, 4, 4", weights + R"ir(
    p: float[n, 6, 1, 1] = Pooling(x) {type=average, global=true}
    s: float[n, 6] = Shuffle(p) {has_reshape=true, reshape=[n, 6]})ir" +
                                                gate)),
            kLeft);
  EXPECT_EQ(optimized(network("n, 6, 4, 4", weights + R"ir(
    constant c: float[] = [0.0625]
    t: float[n, 6] = Reduce(x) {op=sum, axes=[2, 3], keep_dims=false}
    s: float[n, 6] = ElementWise(t, c) {op=mul})ir" +
                                                gate)),
            kLeft);
}

// One Shuffle moves; a reshape stands behind it, which costs nothing.
TEST(Spellings, WindowsAndPixelShufflesMoveOnce) {
  EXPECT_EQ(optimized(network("1, 16, 3", R"ir(
    a: float[1, 4, 4, 3] = Shuffle(x) {has_reshape=true, reshape=[1, 4, 4, 3]}
    b: float[1, 2, 2, 2, 2, 3] = Shuffle(a) {has_reshape=true, reshape=[1, 2, 2, 2, 2, 3]}
    c: float[1, 2, 2, 2, 2, 3] = Shuffle(b) {first_transpose=[0, 1, 3, 2, 4, 5]}
    d: float[4, 2, 2, 3] = Shuffle(c) {has_reshape=true, reshape=[4, 2, 2, 3]}
    e: float[4, 4, 3] = Shuffle(d) {has_reshape=true, reshape=[4, 4, 3]}
    y: float[4, 4, 3] = Unary(e) {op=exp})ir")),
            "PointWise Shuffle Shuffle");
  EXPECT_EQ(optimized(network("1, 8, 3, 3", R"ir(
    a: float[1, 2, 2, 2, 3, 3] = Shuffle(x) {has_reshape=true, reshape=[1, 2, 2, 2, 3, 3]}
    b: float[1, 2, 3, 2, 3, 2] = Shuffle(a) {first_transpose=[0, 1, 4, 2, 5, 3]}
    c: float[1, 2, 6, 6] = Shuffle(b) {has_reshape=true, reshape=[1, 2, 6, 6]}
    y: float[1, 2, 6, 6] = Unary(c) {op=exp})ir")),
            "PointWise Shuffle Shuffle");
}

}  // namespace
}  // namespace camshaft::passes
