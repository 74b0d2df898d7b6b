// SPDX-License-Identifier: Apache-2.0
// Weights, patterns, pointwise layers, epilogues.
#include <gtest/gtest.h>

#include <algorithm>

#include "passes/pipeline.h"
#include "passes/test_util.h"

namespace camshaft::passes {
namespace {

TEST(VectorProductTurn, ColumnsBecomeRows) {
  const char* text = R"ir(graph "g" {
    input x: float[n, 4, 1]
    input u: float[n, 1, 4]
    input m: float[n, 3, 4]
    input v: float[4, 1]
    constant w: float[6, 4] = random(1)
    a: float[n, 6, 1] = MatrixMultiply(w, x) {alpha=0.5}
    b: float[n, 3, 1] = MatrixMultiply(m, u) {transpose_b=true}
    c: float[n, 3, 1] = MatrixMultiply(m, v)
    d: float[n, 1, 1] = MatrixMultiply(u, x)
    output a, b, c, d
  })ir";
  expect_rewrite(vector_product_turn, text,
                 R"ir("x (rows)" = Shuffle(x) {has_reshape=true, reshape=[n, 1, 4]}
                    "a (rows)" = MatrixMultiply "a"("x (rows)", w) {transpose_b=true, alpha=0.5}
                    a = Shuffle "a (columns)"("a (rows)") {has_reshape=true, reshape=[n, 6, 1]}
                    "b (rows)" = MatrixMultiply "b"(u, m) {transpose_b=true}
                    b = Shuffle "b (columns)"("b (rows)") {has_reshape=true, reshape=[n, 3, 1]}
                    c = MatrixMultiply(m, v)
                    d = MatrixMultiply(u, x))ir");
  auto before = ir::parse_graph(text), after = ir::parse_graph(text);
  ASSERT_TRUE(before.ok()) << before.status().message();
  EXPECT_GT(vector_product_turn(**after, nullptr), 0);
  expect_same_numbers(**before, **after, 1e-6);
}

// The product of two tensors of these extents, summed over axes, as a matrix product.
void expect_weighted_sum(const std::string& a, const std::string& b, const std::string& product,
                         const std::string& axes, const std::string& sum, const char* op = "sum") {
  const std::string text = fmt::format(
      R"ir(graph "g" {{
    input a: float[{0}]
    input b: float[{1}]
    p: float[{2}] = ElementWise(a, b) {{op=mul}}
    y: float[{4}] = Reduce(p) {{op={5}, axes=[{3}], keep_dims={6}}}
    output y
  }})ir",
      a, b, product, axes, sum, op,
      std::count(product.begin(), product.end(), ',') == std::count(sum.begin(), sum.end(), ','));
  auto before = ir::parse_graph(text), after = ir::parse_graph(text);
  ASSERT_TRUE(before.ok()) << before.status().message() << text;
  EXPECT_GT(weighted_sum_fusion(**after, nullptr), 0) << text;
  EXPECT_EQ(ir::verify(**after).message(), "") << text;
  expect_same_numbers(**before, **after, 1e-5);
}

TEST(WeightedSumFusion, FactorsThatLackDimensions) {
  expect_weighted_sum("2, 20, 16", "2, 20, 1", "2, 20, 16", "1", "2, 16");     // pooling
  expect_weighted_sum("1, 20, 1", "2, 20, 16", "2, 20, 16", "1", "2, 1, 16");  // the same weights
  expect_weighted_sum("2, 20, 16", "20, 1", "2, 20, 16", "1", "2, 16", "mean");
  expect_weighted_sum("3, 5, 4, 8, 1", "3, 1, 4, 8, 10", "3, 5, 4, 8, 10", "2, 3", "3, 5, 10");
  expect_weighted_sum("2, 3, 5, 6, 1, 1", "2, 1, 5, 6, 2, 4", "2, 3, 5, 6, 2, 4", "2, 3",
                      "2, 3, 2, 4");
  expect_weighted_sum("2, 9, 40", "40", "2, 9, 40", "2", "2, 9");
  expect_weighted_sum("2, 5, 1, 12", "2, 1, 9, 12", "2, 5, 9, 12", "3", "2, 5, 9");  // all pairs
  expect_weighted_sum("2, 1, 9, 12", "2, 5, 1, 12", "2, 5, 9, 12", "3", "2, 5, 9, 1");
  expect_weighted_sum("8, 1, 3, 16", "9, 3, 16", "8, 9, 3, 16", "3", "8, 9, 3");  // bilinear forms
  expect_weighted_sum("9, 3, 16", "8, 1, 3, 16", "8, 9, 3, 16", "3", "8, 9, 3, 1", "mean");
}

TEST(WeightedSumFusion, LeavesOthers) {
  const char* const kOthers = R"ir(p = ElementWise(a, b) {op=mul}
                    y = Reduce(p) {axes=[1]}
                    q = ElementWise(a, c) {op=mul}
                    z = Reduce(q) {axes=[1]}
                    r = ElementWise(a, d) {op=mul}
                    u = Reduce(r) {axes=[1]}
                    s = ElementWise(e, f) {op=mul}
                    v = Reduce(s) {axes=[1]})ir";
  expect_rewrite(weighted_sum_fusion, R"ir(graph "g" {
    input a: float[2, 20, 16]
    input b: float[2, 20, 16]
    input c: float[2, 1, 16]
    input d: float[2, 1, 1]
    input e: float[900, 4, 8]
    input f: float[900, 4, 1]
    p: float[2, 20, 16] = ElementWise(a, b) {op=mul}
    y: float[2, 1, 16] = Reduce(p) {axes=[1]}
    q: float[2, 20, 16] = ElementWise(a, c) {op=mul}
    z: float[2, 1, 16] = Reduce(q) {axes=[1]}
    r: float[2, 20, 16] = ElementWise(a, d) {op=mul}
    u: float[2, 1, 16] = Reduce(r) {axes=[1]}
    s: float[900, 4, 8] = ElementWise(e, f) {op=mul}
    v: float[900, 1, 8] = Reduce(s) {axes=[1]}
    output y, z, u, v
  })ir",
                 kOthers);
}

TEST(ScalarProductToEltwise, ProductsThatSumOverOneElement) {
  const char* text = R"ir(graph "g" {
    input x: float[2, 4, 1]
    input r: float[2, 1, 4]
    input s: float[2, 1, 1]
    a: float[2, 4, 1] = MatrixMultiply(x, s)
    b: float[2, 4, 1] = MatrixMultiply(r, s) {transpose_a=true, transpose_b=true}
    c: float[2, 1, 4] = MatrixMultiply(s, x) {transpose_b=true}
    d: float[2, 4, 4] = MatrixMultiply(x, r)
    e: float[2, 4, 1] = MatrixMultiply(x, s) {alpha=2}
    output a, b, c, d, e
  })ir";
  expect_rewrite(scalar_product_to_eltwise, text,
                 R"ir(a = ElementWise(x, s) {op=mul}
                    "r (straight)" = Shuffle(r) {has_reshape=true, reshape=[2, 4, 1]}
                    b = ElementWise("r (straight)", s) {op=mul}
                    "x (straight)" = Shuffle(x) {has_reshape=true, reshape=[2, 1, 4]}
                    c = ElementWise(s, "x (straight)") {op=mul}
                    d = MatrixMultiply(x, r)
                    e = MatrixMultiply(x, s) {alpha=2})ir");
  auto before = ir::parse_graph(text), after = ir::parse_graph(text);
  ASSERT_TRUE(before.ok()) << before.status().message();
  EXPECT_GT(scalar_product_to_eltwise(**after, nullptr), 0);
  expect_same_numbers(**before, **after, 0);
}

TEST(ConvScaleFusion, FoldsBatchNormalizationMulAndAdd) {
  expect_rewrite(conv_scale_fusion,
                 fmt::format(R"ir(graph "g" {{
    input x: float[1, 4, 5, 5]
    constant w: float[6, 2, 3, 3] = random(1)
    constant b: float[6] = random(2)
    constant s: float[6] = random(3)
    constant t: float[6] = random(4)
    constant m: float[6, 1, 1] = random(5)
    constant d: float[1] = [4]
    y: float[1, 6, 5, 5] = Convolution(x, w, b) {{{0}, groups=2}}
    n: float[1, 6, 5, 5] = Scale(y, s, t)
    o: float[1, 6, 5, 5] = ElementWise(n, m) {{op=mul}}
    p: float[1, 6, 5, 5] = ElementWise(m, o) {{op=sub}}
    q: float[1, 6, 5, 5] = ElementWise(p, d) {{op=div}}
    output q
  }})ir",
                             kWindow3x3),
                 fmt::format("q = Convolution \"y + n + o + p + q\"(x, \"w + n + o + p + q\", \"b "
                             "+ n + o + p + q\") {{{}, groups=2}}",
                             kWindow3x3));
}

TEST(ConvScaleFusion, FoldsIntoDeconvolutionAndProducts) {
  expect_rewrite(
      conv_scale_fusion, R"ir(graph "g" {
    input x: float[1, 4, 3]
    constant w: float[4, 3, 2] = random(1)
    constant s: float[6] = random(3)
    constant t: float[6] = random(4)
    constant m: float[5, 3] = random(5)
    constant a: float[5] = random(6)
    y: float[1, 6, 4] = Deconvolution(x, w) {kernel=[2], stride=[1], dilation=[1], pre_padding=[0], post_padding=[0], groups=2}
    n: float[1, 6, 4] = Scale(y, s, t)
    z: float[1, 4, 5] = MatrixMultiply(x, m) {transpose_b=true, alpha=0.5}
    u: float[1, 4, 5] = ElementWise(a, z) {op=mul}
    v: float[1, 4, 5] = ElementWise(u, a) {op=add}
    output n, v
  })ir",
      R"ir(n = Deconvolution "y + n"(x, "w + n", "y bias + n") {kernel=[2], stride=[1], dilation=[1], pre_padding=[0], post_padding=[0], groups=2}
                    v = MatrixMultiply "z + u + v"(x, "m + u", "z + u bias + v") {transpose_b=true, alpha=0.5})ir");
}

TEST(ConvScaleFusion, BeforeTheConvolutionOnlyWithoutShiftIntoPadding) {
  Records records;
  expect_rewrite(conv_scale_fusion,
                 fmt::format(R"ir(graph "g" {{
    input x: float[1, 2, 5, 5]
    constant w: float[3, 2, 3, 3] = random(1)
    constant v: float[3, 2, 1, 1] = random(2)
    constant m: float[1, 2, 1, 1] = random(5)
    a: float[1, 2, 5, 5] = ElementWise(x, m) {{op=sub}}
    y: float[1, 3, 5, 5] = Convolution(a, w) {{{0}}}
    b: float[1, 2, 5, 5] = ElementWise(x, m) {{op=mul}}
    z: float[1, 3, 5, 5] = Convolution(b, w) {{{0}}}
    c: float[1, 2, 5, 5] = ElementWise(x, m) {{op=add}}
    u: float[1, 3, 5, 5] = Convolution(c, v) {{{1}}}
    output y, z, u
  }})ir",
                             kWindow3x3, kWindow1x1),
                 fmt::format(R"ir(a = ElementWise(x, m) {{op=sub}}
                    y = Convolution(a, w) {{{0}}}
                    z = Convolution "b + z"(x, "w + b") {{{0}}}
                    u = Convolution "c + u"(x, "v + c", "u bias + c") {{{1}}})ir",
                             kWindow3x3, kWindow1x1),
                 &records);
}

// The 0.5 of a spelled-out GELU stays with it: one operator then, six without.
// A normalization of features whose mean is many times their deviation.
TEST(ConvScaleFusion, NotWhereItsShiftWouldCancel) {
  Records records;
  expect_rewrite(conv_scale_fusion, R"ir(graph "g" {
    input x: float[4, 3]
    constant s: float[3] = [1, 30, 2]
    constant t: float[3] = [0, -300, 1]
    constant u: float[3] = [0, -3, 1]
    constant w: float[3, 5] = random(1)
    n: float[4, 3] = Scale(x, s, t)
    y: float[4, 5] = MatrixMultiply(n, w)
    o: float[4, 3] = Scale(x, s, u)
    z: float[4, 5] = MatrixMultiply(o, w)
    output y, z
  })ir",
                 R"ir(n = Scale(x, s, t)
                    y = MatrixMultiply(n, w)
                    z = MatrixMultiply "o + z"(x, "w + o", "z bias + o"))ir",
                 &records);
  EXPECT_TRUE(std::any_of(records.begin(), records.end(), [](const ir::RewriteRecord& record) {
    return record.action == ir::Action::kDecline &&
           record.text == "what it subtracts would cancel in the sums of y";
  }));
}

TEST(ConvScaleFusion, NotTheLastStepOfAnActivation) {
  const char* const kGelu = R"ir(a = ElementWise(x, c) {op=mul}
                    e = Unary(a) {op=erf}
                    p = ElementWise(e, one) {op=add}
                    m = ElementWise(x, p) {op=mul}
                    h = ElementWise(m, half) {op=mul}
                    y = MatrixMultiply(h, w))ir";
  expect_rewrite(conv_scale_fusion, R"ir(graph "g" {
    input x: float[1, 4, 8]
    constant w: float[8, 3] = random(1)
    constant c: float[1] = [0.70710678]
    constant one: float[1] = [1]
    constant half: float[1] = [0.5]
    a: float[1, 4, 8] = ElementWise(x, c) {op=mul}
    e: float[1, 4, 8] = Unary(a) {op=erf}
    p: float[1, 4, 8] = ElementWise(e, one) {op=add}
    m: float[1, 4, 8] = ElementWise(x, p) {op=mul}
    h: float[1, 4, 8] = ElementWise(m, half) {op=mul}
    y: float[1, 4, 3] = MatrixMultiply(h, w)
    output y
  })ir",
                 kGelu);
}

TEST(ConvScaleFusion, NotWhenTheResultIsReadElsewhere) {
  expect_rewrite(conv_scale_fusion,
                 fmt::format(R"ir(graph "g" {{
    input x: float[1, 2, 5, 5]
    constant w: float[2, 2, 3, 3] = random(1)
    constant s: float[2] = random(3)
    y: float[1, 2, 5, 5] = Convolution(x, w) {{{0}}}
    n: float[1, 2, 5, 5] = Scale(y, s, s)
    output y, n
  }})ir",
                             kWindow3x3),
                 fmt::format("y = Convolution(x, w) {{{}}}\nn = Scale(y, s, s)", kWindow3x3));
}

std::string cropped(int columns) {
  return fmt::format(R"ir(graph "g" {{
    input x: float[1, 1, 1, 4]
    constant w: float[1, 1, 3, 3] = random(1)
    c: float[1, 1, 1, 4] = Convolution(x, w) {{kernel=[3, 3], stride=[1, 1], dilation=[1, 1], pre_padding=[1, 1], post_padding=[1, 1]}}
    y: float[1, 1, 1, {0}] = Slice(c) {{start=[0, 0, 0, 0], size=[1, 1, 1, {0}], step=[1, 1, 1, 1]}}
    output y
  }})ir",
                     columns);
}

// What is left of a padded border goes into the padding; of nothing there is no window.
TEST(CropFusion, ConvolutionsComputeWhatIsLeft) {
  expect_rewrite(
      crop_fusion, cropped(3),
      R"ir(y = Convolution "c + y"(x, w) {kernel=[3, 3], stride=[1, 1], dilation=[1, 1], pre_padding=[1, 1], post_padding=[1, 0]})ir");
  expect_rewrite(
      crop_fusion, cropped(0),
      R"ir(c = Convolution(x, w) {kernel=[3, 3], stride=[1, 1], dilation=[1, 1], pre_padding=[1, 1], post_padding=[1, 1]}
                      y = Slice(c) {start=[0, 0, 0, 0], size=[1, 1, 1, 0], step=[1, 1, 1, 1]})ir");
}

TEST(PaddingFusion, ConvolutionAndPooling) {
  expect_rewrite(
      padding_fusion, R"ir(graph "g" {
    input x: float[1, 1, 5, 5]
    constant w: float[1, 1, 3, 3] = random(1)
    a: float[1, 1, 6, 7] = Pad(x) {pre=[0, 0, 0, 1], post=[0, 0, 1, 1]}
    y: float[1, 1, 4, 5] = Convolution(a, w) {kernel=[3, 3], stride=[1, 1], dilation=[1, 1], pre_padding=[0, 0], post_padding=[0, 0]}
    r: float[1, 1, 5, 5] range [0, inf] = Activation(x) {op=relu}
    b: float[1, 1, 7, 7] = Pad(r) {pre=[0, 0, 1, 1], post=[0, 0, 1, 1]}
    m: float[1, 1, 5, 5] = Pooling(b) {kernel=[3, 3], stride=[1, 1], dilation=[1, 1], pre_padding=[0, 0], post_padding=[0, 0]}
    n: float[1, 1, 5, 5] = Pooling(b) {type=average, kernel=[3, 3], stride=[1, 1], dilation=[1, 1], pre_padding=[0, 0], post_padding=[0, 0]}
    c: float[1, 1, 7, 7] = Pad(x) {pre=[0, 0, 1, 1], post=[0, 0, 1, 1]}
    o: float[1, 1, 5, 5] = Pooling(c) {kernel=[3, 3], stride=[1, 1], dilation=[1, 1], pre_padding=[0, 0], post_padding=[0, 0]}
    output y, m, n, o
  })ir",
      R"ir(y = Convolution "a + y"(x, w) {kernel=[3, 3], stride=[1, 1], dilation=[1, 1], pre_padding=[0, 1], post_padding=[1, 1]}
      r = Activation(x) {op=relu}
      m = Pooling "b + m"(r) {kernel=[3, 3], stride=[1, 1], dilation=[1, 1], pre_padding=[1, 1], post_padding=[1, 1]}
      n = Pooling "b + n"(r) {type=average, kernel=[3, 3], stride=[1, 1], dilation=[1, 1], pre_padding=[1, 1], post_padding=[1, 1], count_includes_padding=true}
      c = Pad(x) {pre=[0, 0, 1, 1], post=[0, 0, 1, 1]}
      o = Pooling(c) {kernel=[3, 3], stride=[1, 1], dilation=[1, 1], pre_padding=[0, 0], post_padding=[0, 0]})ir");
}

TEST(MatMulOperandFusion, TransposesAndFactors) {
  expect_rewrite(matmul_operand_fusion, R"ir(graph "g" {
    input q: float[2, 3, 4, 5]
    input k: float[2, 3, 6, 5]
    constant eight: float[] = [8]
    t: float[2, 3, 5, 6] = Shuffle(k) {first_transpose=[0, 1, 3, 2]}
    s: float[2, 3, 4, 5] = ElementWise(q, eight) {op=mul}
    y: float[2, 3, 4, 6] = MatrixMultiply(s, t)
    z: float[2, 3, 4, 6] = ElementWise(y, eight) {op=div}
    output z
  })ir",
                 R"ir(z = MatrixMultiply "s + t + y + z"(q, k) {transpose_b=true})ir");
}

TEST(ReduceToPooling, MeanAndMaximumOverSpace) {
  expect_rewrite(reduce_to_pooling, R"ir(graph "g" {
    input x: float[2, 3, 4, 5]
    a: float[2, 3, 1, 1] = Reduce(x) {op=mean, axes=[2, 3]}
    b: float[2, 3] = Reduce(x) {op=max, axes=[2, 3], keep_dims=false}
    c: float[2, 1, 1, 5] = Reduce(x) {op=mean, axes=[1, 2]}
    output a, b, c
  })ir",
                 R"ir(a = Pooling(x) {type=average, global=true}
                    "b (pooled)" = Pooling "b"(x) {global=true}
                    b = Shuffle "b (squeeze)"("b (pooled)") {has_reshape=true, reshape=[2, 3]}
                    c = Reduce(x) {op=mean, axes=[1, 2]})ir");
}

TEST(NormalizationFusion, LayerNormalizationAsExportersWriteIt) {
  expect_rewrite(
      normalization_fusion, R"ir(graph "g" {
    input x: float[2, 3, 8]
    constant two: float[] = [2]
    constant eps: float[] = [1e-5]
    constant gamma: float[8] = random(1)
    constant beta: float[8] = random(2)
    m: float[2, 3, 1] = Reduce(x) {op=mean, axes=[2]}
    d: float[2, 3, 8] = ElementWise(x, m) {op=sub}
    p: float[2, 3, 8] = ElementWise(d, two) {op=pow}
    v: float[2, 3, 1] = Reduce(p) {op=mean, axes=[2]}
    e: float[2, 3, 1] = ElementWise(v, eps) {op=add}
    r: float[2, 3, 1] = Unary(e) {op=sqrt}
    q: float[2, 3, 8] = ElementWise(d, r) {op=div}
    g: float[2, 3, 8] = ElementWise(q, gamma) {op=mul}
    y: float[2, 3, 8] = ElementWise(g, beta) {op=add}
    z: float[2, 3, 8] = Activation(y) {op=relu}
    output z
  })ir",
      R"ir(y = Normalization "{Norm[m...y]}"(x, "gamma (shaped)", "beta (shaped)") {axis=2}
                    z = Activation(y) {op=relu})ir");
}

// Clamps that values near zero do not reach: of the result (20 standard deviations), of the
// variance.
TEST(NormalizationFusion, ClampsAreNotSwallowed) {
  expect_rewrite(normalization_fusion, R"ir(graph "g" {
    input x: float[2, 8]
    constant eps: float[1] = [1e-5]
    m: float[2, 1] = Reduce(x) {op=mean, axes=[1]}
    d: float[2, 8] = ElementWise(x, m) {op=sub}
    s: float[2, 8] = ElementWise(d, d) {op=mul}
    v: float[2, 1] = Reduce(s) {op=mean, axes=[1]}
    e: float[2, 1] = ElementWise(v, eps) {op=add}
    r: float[2, 1] = Unary(e) {op=sqrt}
    q: float[2, 8] = ElementWise(d, r) {op=div}
    z: float[2, 8] = Activation(q) {op=clip, x=-20, y=20}
    output z
  })ir",
                 R"ir(q = Normalization "{Norm[m...q]}"(x) {axis=1}
                    z = Activation(q) {op=clip, x=-20, y=20})ir");
  expect_rewrite(normalization_fusion, R"ir(graph "g" {
    input x: float[2, 8]
    constant eps: float[1] = [1e-5]
    m: float[2, 1] = Reduce(x) {op=mean, axes=[1]}
    d: float[2, 8] = ElementWise(x, m) {op=sub}
    s: float[2, 8] = ElementWise(d, d) {op=mul}
    v: float[2, 1] = Reduce(s) {op=mean, axes=[1]}
    c: float[2, 1] = Activation(v) {op=clip, x=0.01, y=1000}
    e: float[2, 1] = ElementWise(c, eps) {op=add}
    r: float[2, 1] = Unary(e) {op=sqrt}
    q: float[2, 8] = ElementWise(d, r) {op=div}
    output q
  })ir",
                 R"ir(m = Reduce(x) {op=mean, axes=[1]}
                    d = ElementWise(x, m) {op=sub}
                    s = ElementWise(d, d) {op=mul}
                    v = Reduce(s) {op=mean, axes=[1]}
                    c = Activation(v) {op=clip, x=0.01, y=1000}
                    e = ElementWise(c, eps) {op=add}
                    r = Unary(e) {op=sqrt}
                    q = ElementWise(d, r) {op=div})ir");
}

TEST(NormalizationFusion, TensorflowSpellingAndRms) {
  expect_rewrite(
      normalization_fusion, R"ir(graph "g" {
    input x: float[2, 8]
    constant eps: float[1] = [0.001]
    constant gamma: float[8] = random(1)
    constant beta: float[8] = random(2)
    m: float[2, 1] = Reduce(x) {op=mean, axes=[1]}
    d: float[2, 8] = ElementWise(x, m) {op=sub}
    s: float[2, 8] = ElementWise(d, d) {op=mul}
    v: float[2, 1] = Reduce(s) {op=mean, axes=[1]}
    e: float[2, 1] = ElementWise(v, eps) {op=add}
    q: float[2, 1] = Unary(e) {op=sqrt}
    r: float[2, 1] = Unary(q) {op=reciprocal}
    rg: float[2, 8] = ElementWise(r, gamma) {op=mul}
    xg: float[2, 8] = ElementWise(x, rg) {op=mul}
    mg: float[2, 8] = ElementWise(m, rg) {op=mul}
    bm: float[2, 8] = ElementWise(beta, mg) {op=sub}
    y: float[2, 8] = ElementWise(xg, bm) {op=add}
    p2: float[2, 8] = ElementWise(y, y) {op=mul}
    v2: float[2, 1] = Reduce(p2) {op=mean, axes=[1]}
    e2: float[2, 1] = ElementWise(v2, eps) {op=add}
    r2: float[2, 1] = Unary(e2) {op=sqrt}
    n2: float[2, 8] = ElementWise(y, r2) {op=div}
    z: float[2, 8] = ElementWise(gamma, n2) {op=mul}
    output z
  })ir",
      R"ir(y = Normalization "{Norm[m...y]}"(x, "gamma (shaped)", "beta (shaped)") {axis=1, epsilon=0.001}
                    z = Normalization "{Norm[p2...z]}"(y, "gamma (shaped)_1") {kind=rms, axis=1, epsilon=0.001})ir");
}

TEST(NormalizationFusion, InstanceNormalizationWithRawMoments) {
  expect_rewrite(
      normalization_fusion, R"ir(graph "g" {
    input x: float[2, 3, 4, 4]
    constant eps: float[1] = [0.01]
    constant gamma: float[1, 3, 1, 1] = random(1)
    constant beta: float[3, 1, 1] = random(2)
    m: float[2, 3, 1, 1] = Reduce(x) {op=mean, axes=[2, 3]}
    s: float[2, 3, 4, 4] = ElementWise(x, x) {op=mul}
    q: float[2, 3, 1, 1] = Reduce(s) {op=mean, axes=[2, 3]}
    mm: float[2, 3, 1, 1] = ElementWise(m, m) {op=mul}
    v: float[2, 3, 1, 1] = ElementWise(q, mm) {op=sub}
    e: float[2, 3, 1, 1] = ElementWise(v, eps) {op=add}
    r: float[2, 3, 1, 1] = Unary(e) {op=sqrt}
    d: float[2, 3, 4, 4] = ElementWise(x, m) {op=sub}
    n: float[2, 3, 4, 4] = ElementWise(d, r) {op=div}
    g: float[2, 3, 4, 4] = ElementWise(n, gamma) {op=mul}
    y: float[2, 3, 4, 4] = ElementWise(g, beta) {op=add}
    output y
  })ir",
      R"ir(y = Normalization "{Norm[m...y]}"(x, "gamma (per channel)", "beta (per channel)") {kind=instance, axis=2, epsilon=0.01})ir");
}

TEST(SoftMaxFusion, WithAndWithoutMaximumAndLog) {
  expect_rewrite(softmax_fusion, R"ir(graph "g" {
    input x: float[2, 5]
    m: float[2, 1] = Reduce(x) {op=max, axes=[1]}
    d: float[2, 5] = ElementWise(x, m) {op=sub}
    e: float[2, 5] = Unary(d) {op=exp}
    s: float[2, 1] = Reduce(e) {op=sum, axes=[1]}
    y: float[2, 5] = ElementWise(e, s) {op=div}
    e2: float[2, 5] = Unary(x) {op=exp}
    s2: float[2, 1] = Reduce(e2) {op=sum, axes=[1]}
    r2: float[2, 1] = Unary(s2) {op=reciprocal}
    z: float[2, 5] = ElementWise(e2, r2) {op=mul}
    l: float[2, 1] = Unary(s2) {op=log}
    w: float[2, 5] = ElementWise(x, l) {op=sub}
    f: float[2, 5] = SoftMax(x) {axis=1, last_axis=1}
    g: float[2, 5] = Unary(f) {op=log}
    output y, z, w, g
  })ir",
                 R"ir(y = SoftMax "{SoftMax[m...y]}"(x) {axis=1, last_axis=1}
                    z = SoftMax "{SoftMax[e2...z]}"(x) {axis=1, last_axis=1}
                    w = SoftMax "{SoftMax[e2...w]}"(x) {axis=1, last_axis=1, log=true}
                    g = SoftMax "f + g"(x) {axis=1, last_axis=1, log=true})ir");
}

TEST(PointWiseFusion, TreesBecomeOneLayer) {
  expect_rewrite(pointwise_fusion, R"ir(graph "g" {
    input x: float[2, 3]
    input z: float[3]
    constant three: float[] = [3]
    constant six: float[] = [6]
    a: float[2, 3] = ElementWise(x, three) {op=add}
    b: float[2, 3] = Activation(a) {op=clip, x=0, y=6}
    c: float[2, 3] = ElementWise(x, b) {op=mul}
    s: float[2, 3] = ElementWise(c, six) {op=div}
    d: float[2, 3] = ElementWise(s, z) {op=mul}
    n: float[3] = Unary(z) {op=exp}
    e: float[2, 3] = ElementWise(d, n) {op=add}
    output e
  })ir",
                 R"ir(n = Unary(z) {op=exp}
                    e = PointWise "PWN(a, b, c, s, d, e)"(x, z, n) {program=<3: v3 = hard_swish v0; v4 = fma v1 v3 v2>})ir");
}

// A quotient that is rounded, also in another layer, turns ties if it is a product.
TEST(PointWiseFusion, QuotientsThatAreRoundedStayQuotients) {
  expect_rewrite(pointwise_fusion, R"ir(graph "g" {
    input x: float[2, 3]
    constant c: float[] = [127.5]
    constant four: float[] = [4]
    a: float[2, 3] = Unary(x) {op=abs}
    s: float[2, 3] = ElementWise(a, c) {op=div}
    t: float[3, 2] = Shuffle(s) {first_transpose=[1, 0]}
    r: float[3, 2] = Unary(t) {op=round}
    f: float[2, 3] = ElementWise(x, c) {op=div}
    g: float[2, 3] = Unary(f) {op=floor}
    h: float[2, 3] = Unary(x) {op=exp}
    i: float[2, 3] = ElementWise(h, c) {op=div}
    j: float[2, 3] = Unary(x) {op=sin}
    k: float[2, 3] = ElementWise(j, four) {op=div}
    l: float[2, 3] = Unary(k) {op=ceil}
    output r, g, i, l
  })ir",
                 R"ir(s = PointWise "PWN(a, s)"(x, c) {program=<2: v2 = abs v0; v3 = div v2 v1>}
                    t = Shuffle(s) {first_transpose=[1, 0]}
                    r = Unary(t) {op=round}
                    g = PointWise "PWN(f, g)"(x, c) {program=<2: v2 = div v0 v1; v3 = floor v2>}
                    i = PointWise "PWN(h, i)"(x) {program=<1: v1 = exp v0; v2 = const 0.007843138; v3 = mul v1 v2>}
                    l = PointWise "PWN(j, k, l)"(x) {program=<1: v1 = sin v0; v2 = const 0.25; v3 = mul v1 v2; v4 = ceil v3>})ir");
}
TEST(PointWiseFusion, KeepsSharedResultsAndIntegers) {
  expect_rewrite(pointwise_fusion, R"ir(graph "g" {
    input x: float[2]
    input k: int32[2]
    a: float[2] = Unary(x) {op=exp}
    b: float[2] = Unary(a) {op=neg}
    c: float[2] = Unary(a) {op=sqrt}
    d: int32[2] = ElementWise(k, k) {op=add}
    e: int32[2] = ElementWise(d, k) {op=mul}
    output b, c, e
  })ir",
                 R"ir(a = Unary(x) {op=exp}
                    b = Unary(a) {op=neg}
                    c = Unary(a) {op=sqrt}
                    d = ElementWise(k, k) {op=add}
                    e = ElementWise(d, k) {op=mul})ir");
}

TEST(PointWiseFusion, ComparisonsAndSelect) {
  expect_rewrite(
      pointwise_fusion, R"ir(graph "g" {
    input x: float[2, 2]
    input m: bool[2, 2]
    constant zero: float[1] = [0]
    a: bool[2, 2] = ElementWise(x, zero) {op=less}
    b: bool[2, 2] = ElementWise(a, m) {op=and}
    c: float[2, 2] = Select(b, x, zero) {op=select}
    output c
  })ir",
      R"ir(c = PointWise "PWN(a, b, c)"(x, m) {program=<2: v2 = const 0; v3 = less v0 v2; v4 = and v1 v3; v5 = select v4 v0 v2>})ir");
}

TEST(ScaleActivationFusion, OneLayer) {
  expect_rewrite(
      scale_activation_fusion, R"ir(graph "g" {
    input x: float[1, 2, 3, 3]
    constant s: float[2] = random(1)
    constant t: float[2] = random(2)
    n: float[1, 2, 3, 3] = Scale(x, s, t)
    y: float[1, 2, 3, 3] = Activation(n) {op=relu}
    output y
  })ir",
      R"ir(y = PointWise "n + y"(x, "s (broadcast)", "t (broadcast)") {program=<3: v3 = fma v0 v1 v2; v4 = relu v3>})ir");
}

TEST(EpilogueFusion, ActivationResidualAndGate) {
  expect_rewrite(epilogue_fusion,
                 fmt::format(R"ir(graph "g" {{
    input x: float[1, 2, 5, 5]
    input g: float[1, 2, 1, 1]
    constant w: float[2, 2, 3, 3] = random(1)
    constant b: float[2] = random(2)
    y: float[1, 2, 5, 5] = Convolution(x, w, b) {{{0}}}
    z: float[1, 2, 5, 5] = Convolution(x, w) {{{0}}}
    s: float[1, 2, 5, 5] = ElementWise(y, z) {{op=add}}
    r: float[1, 2, 5, 5] = Activation(s) {{op=relu}}
    u: float[1, 2, 5, 5] = Convolution(r, w) {{{0}}}
    v: float[1, 2, 5, 5] = ElementWise(g, u) {{op=mul}}
    output v
  }})ir",
                             kWindow3x3),
                 fmt::format(R"ir(y = Convolution(x, w, b) {{{0}}}
      r = Convolution "z + s + r"(x, w, _, y) {{{0}, epilogue=<2: v2 = add v0 v1; v3 = relu v2>}}
      v = Convolution "u + v"(r, w, _, g) {{{0}, epilogue=<2: v2 = mul v0 v1>}})ir",
                             kWindow3x3));
}

constexpr const char* kPool3x3 =
    "kernel=[3, 3], stride=[1, 1], dilation=[1, 1], pre_padding=[1, 1], post_padding=[1, 1]";

TEST(EpilogueFusion, PoolingMinusItsInput) {
  expect_rewrite(
      epilogue_fusion,
      fmt::format(R"ir(graph "g" {{
    input x: float[n, 2, 5, 5]
    constant s: float[2, 1, 1] = random(1)
    a: float[n, 2, 5, 5] = Pooling(x) {{type=average, {0}}}
    p: float[n, 2, 5, 5] = PointWise(a, x, s) {{program=<3: v3 = sub v0 v1; v4 = fma v3 v2 v1>}}
    m: float[n, 2, 5, 5] = Pooling(p) {{{0}}}
    r: float[n, 2, 5, 5] = Activation(m) {{op=relu}}
    g: float[n, 2, 1, 1] = Pooling(r) {{type=average, global=true}}
    h: float[n, 2, 1, 1] = Activation(g) {{op=hard_sigmoid, x=0.2, y=0.5}}
    output h
  }})ir",
                  kPool3x3),
      fmt::format(
          R"ir(p = Pooling "a + p"(x, x, s) {{type=average, {0}, epilogue=<3: v3 = sub v0 v1; v4 = fma v2 v3 v1>}}
      r = Pooling "m + r"(p) {{{0}, epilogue=<1: v1 = relu v0>}}
      h = Pooling "g + h"(r) {{type=average, global=true, epilogue=<1: v1 = hard_sigmoid v0 0.2 0.5>}})ir",
          kPool3x3));
}

TEST(EpilogueFusion, ProductsAreBeforePooling) {
  Records records;
  expect_rewrite(epilogue_fusion,
                 fmt::format(R"ir(graph "g" {{
    input x: float[1, 2, 5, 5]
    constant w: float[2, 2, 3, 3] = random(1)
    y: float[1, 2, 5, 5] = Convolution(x, w) {{{0}}}
    a: float[1, 2, 5, 5] = Pooling(x) {{type=average, {0}}}
    s: float[1, 2, 5, 5] = ElementWise(y, a) {{op=add}}
    output s
  }})ir",
                             kPool3x3),
                 fmt::format(R"ir(a = Pooling(x) {{type=average, {0}}}
      s = Convolution "y + s"(x, w, _, a) {{{0}, epilogue=<2: v2 = add v0 v1>}})ir",
                             kPool3x3),
                 &records);
  EXPECT_TRUE(std::any_of(records.begin(), records.end(), [](const auto& record) {
    return record.text == "not fused with s: y takes it";
  }));
}

TEST(EpilogueFusion, LeavesPoolingWhereNoKernelTakesOne) {
  const auto reason = [](const std::string& input, const std::string& outputs,
                         const std::string& window) {
    const std::string text =
        fmt::format(R"ir(graph "g" {{
    input x: {}
    {} = Pooling(x) {{{}}}
    z: float[1, 2, 4, 4{}] = Activation(y) {{op=relu}}
    output z{}
  }})ir",
                    input, outputs, window, input.find("4, 4, 4") != std::string::npos ? ", 4" : "",
                    outputs.find(", i:") != std::string::npos ? ", i" : "");
    auto graph = ir::parse_graph(text);
    EXPECT_TRUE(graph.ok()) << graph.status().message();
    Records records;
    if (!graph.ok()) return std::string();
    EXPECT_EQ(epilogue_fusion(**graph, &records), 0);
    return records.empty() ? std::string() : records.back().text;
  };
  EXPECT_EQ(reason("float[1, 2, 4, 4]", "y: float[1, 2, 4, 4], i: int64[1, 2, 4, 4]", kPool3x3),
            "not fused with z: its indices are wanted");
  EXPECT_EQ(
      reason("uint8[1, 2, 4, 4]", "y: float[1, 2, 4, 4]", std::string("type=average, ") + kPool3x3),
      "not fused with z: it pools codes");
  EXPECT_EQ(
      reason("float[1, 2, 4, 4]", "y: float[1, 2, 4, 4]", std::string("type=lp, ") + kPool3x3),
      "not fused with z: Lp pooling");
  EXPECT_EQ(reason("float[1, 2, 4, 4, 4]", "y: float[1, 2, 4, 4, 4]",
                   "kernel=[3, 3, 3], stride=[1, 1, 1], dilation=[1, 1, 1], pre_padding=[1, 1, 1], "
                   "post_padding=[1, 1, 1]"),
            "not fused with z: it pools volumes");
}

TEST(EpilogueFusion, DeclinesABroadcastToALargerShape) {
  Records records;
  expect_rewrite(epilogue_fusion, R"ir(graph "g" {
    input x: float[1, 4]
    input b: float[3, 4]
    constant w: float[4, 4] = random(1)
    y: float[1, 4] = MatrixMultiply(x, w)
    z: float[3, 4] = ElementWise(y, b) {op=add}
    output z
  })ir",
                 R"ir(y = MatrixMultiply(x, w)
                    z = ElementWise(y, b) {op=add})ir",
                 &records);
  EXPECT_EQ(records.back().text, "not fused with z: the result is broadcast to a larger shape");
}

TEST(EpilogueFusion, NoMoreOperandsThanKernelsTake) {
  const auto is_fused = [](int operands) {
    std::string text = R"ir(graph "g" {
    input x: float[40, 2]
    constant w: float[2, 2] = random(1)
)ir",
                names, code;
    for (int k = 1; k <= operands; ++k) {
      text += fmt::format("    input a{}: float[40, {}]\n", k, k % 2 + 1);
      names += fmt::format(", a{}", k);
      code += fmt::format("{}v{} = mul v{} v{}", k > 1 ? "; " : "", operands + k,
                          k > 1 ? operands + k - 1 : 0, k);
    }
    text += fmt::format(
        "    y: float[40, 2] = MatrixMultiply(x, w)\n"
        "    z: float[40, 2] = PointWise(y{}) {{program=<{}: {}>}}\n    output z\n  }}",
        names, operands + 1, code);
    auto graph = ir::parse_graph(text);
    EXPECT_TRUE(graph.ok()) << graph.status().message();
    return graph.ok() && epilogue_fusion(**graph, nullptr) > 0;
  };
  EXPECT_TRUE(is_fused(8));
  EXPECT_FALSE(is_fused(9));
}

TEST(Pipeline, SmallNetworkEndsInKernels) {
  const std::string text = fmt::format(R"ir(graph "g" {{
    input x: float[n, 2, 5, 5]
    constant w: float[2, 2, 3, 3] = random(1)
    constant s: float[2] = random(3)
    constant six: float[] = [6]
    constant three: float[] = [3]
    y: float[n, 2, 5, 5] = Convolution "conv"(x, w) {{{0}}}
    b: float[n, 2, 5, 5] = Scale "bn"(y, s, s)
    sg: float[n, 2, 5, 5] = Activation "sigmoid"(b) {{op=sigmoid}}
    m: float[n, 2, 5, 5] = ElementWise "mul"(b, sg) {{op=mul}}
    u: float[n, 2, 5, 5] = Convolution "conv2"(m, w) {{{0}}}
    a3: float[n, 2, 5, 5] = ElementWise(u, three) {{op=add}}
    c6: float[n, 2, 5, 5] = Activation(a3) {{op=clip, x=0, y=6}}
    m6: float[n, 2, 5, 5] = ElementWise(u, c6) {{op=mul}}
    d6: float[n, 2, 5, 5] = ElementWise(m6, six) {{op=div}}
    r: float[n, 2, 5, 5] = ElementWise(d6, m) {{op=add}}
    g: float[n, 2, 1, 1] = Reduce(r) {{op=mean, axes=[2, 3]}}
    o: float[n, 2] = Shuffle(g) {{has_reshape=true, reshape=[n, 2]}}
    output o
  }})ir",
                                       kWindow3x3);
  std::unique_ptr<ir::Graph> before = std::move(ir::parse_graph(text)).value();
  std::unique_ptr<ir::Graph> graph = std::move(ir::parse_graph(text)).value();
  PassRecord record;
  const Status status = optimize(*graph, record);
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_TRUE(ir::verify(*graph).ok()) << ir::verify(*graph).message();
  EXPECT_EQ(
      layer_lines(*graph),
      fmt::format(
          R"ir(m = Convolution "conv + bn + PWN(sigmoid, mul)"(x, "w + bn", "conv bias + bn") {{{0}, epilogue=<1: v1 = silu v0 1>}}
r = Convolution "conv2 + PWN(a3, c6, m6, d6, r)"(m, w, _, m) {{{0}, epilogue=<2: v2 = hard_swish v0; v3 = add v1 v2>}}
g = Pooling(r) {{type=average, global=true}}
o = Shuffle(g) {{has_reshape=true, reshape=[n, 2]}}
)ir",
          kWindow3x3));
  expect_same_numbers(*before, *graph, 1e-5);
  EXPECT_EQ(record.layer_counts.front().second, 12);
  EXPECT_EQ(record.layer_counts.back().second, 4);
}

// Stored [depth, columns] and gathered by tuples; stored [columns, depth] and transposed behind the
// Gather; on the left of a column; of several rows for each matrix it stays.
TEST(ChosenProductFusion, MatricesOfEitherOrderOnEitherSide) {
  expect_rewrite(
      [](ir::Graph& graph, Records* records) {
        return chosen_product_fusion(graph, records) + dead_layer_removal(graph, nullptr);
      },
      R"ir(graph "g" {
    input x: float[5, 1, 2]
    input c: float[5, 3, 1]
    input m: float[5, 2, 2]
    input i: int64[5]
    input t: int64[5, 1]
    constant w: float[8, 2, 3] = random(1)
    constant v: float[8, 3, 2] = random(2)
    g: float[5, 2, 3] = Gather(w, t) {mode=nd}
    y: float[5, 1, 3] = MatrixMultiply(x, g)
    h: float[5, 3, 2] = Gather(v, i)
    ht: float[5, 2, 3] = Shuffle(h) {first_transpose=[0, 2, 1]}
    z: float[5, 1, 3] = MatrixMultiply(x, ht)
    gl: float[5, 2, 3] = Gather(w, i)
    l: float[5, 2, 1] = MatrixMultiply(gl, c)
    many: float[5, 2, 3] = MatrixMultiply(m, gl)
    output y, z, l, many
  })ir",
      R"ir("y (rows)" = Shuffle(x) {has_reshape=true, reshape=[5, 2]}
                    "y (numbers)" = Shuffle(t) {has_reshape=true, reshape=[5]}
                    "y (product)" = Generic "y"("y (rows)", "y (numbers)", "w (transposed)") {op_type="ChosenProduct", opset=1}
                    y = Shuffle "y (shape)"("y (product)") {has_reshape=true, reshape=[5, 1, 3]}
                    "z (rows)" = Shuffle(x) {has_reshape=true, reshape=[5, 2]}
                    "z (product)" = Generic "z"("z (rows)", i, v) {op_type="ChosenProduct", opset=1}
                    z = Shuffle "z (shape)"("z (product)") {has_reshape=true, reshape=[5, 1, 3]}
                    gl = Gather(w, i)
                    "l (rows)" = Shuffle(c) {has_reshape=true, reshape=[5, 3]}
                    "l (product)" = Generic "l"("l (rows)", i, w) {op_type="ChosenProduct", opset=1}
                    l = Shuffle "l (shape)"("l (product)") {has_reshape=true, reshape=[5, 2, 1]}
                    many = MatrixMultiply(m, gl))ir");
}

// Of groups, with a mask and a bias; weights that only running tells stay.
TEST(DeformConvSplit, ColumnsAndAProduct) {
  expect_rewrite(
      deform_conv_split,
      R"ir(graph "g" {
    input x: float[2, 4, 6, 5]
    input o: float[2, 36, 6, 5]
    input m: float[2, 18, 6, 5]
    input v: float[3, 4, 1, 1]
    constant w: float[6, 2, 3, 3] = random(1)
    constant b: float[6] = random(2)
    y: float[2, 6, 6, 5] = Generic "d"(x, w, o, b, m) {op_type="DeformConv", opset=19, attributes=[("pads", [1, 1, 1, 1], [], ""), ("group", [2], [], ""), ("offset_group", [2], [], "")]}
    f: float[2, 2, 6, 5] = Slice(o) {start=[0, 0, 0, 0], size=[2, 2, 6, 5], step=[1, 1, 1, 1]}
    z: float[2, 3, 6, 5] = Generic "e"(x, v, f) {op_type="DeformConv", opset=19, attributes=[]}
    output y, z
  })ir",
      R"ir("d (columns)" = Generic(x, o, m) {op_type="DeformedColumns", opset=1, attributes=[("kernel_shape", [3, 3], [], ""), ("pads", [1, 1, 1, 1], [], ""), ("group", [2], [], ""), ("offset_group", [2], [], "")]}
                    y = Convolution "d"("d (columns)", "w (columns)", b) {kernel=[1, 1], stride=[1, 1], dilation=[1, 1], pre_padding=[0, 0], post_padding=[0, 0], groups=2}
                    f = Slice(o) {start=[0, 0, 0, 0], size=[2, 2, 6, 5], step=[1, 1, 1, 1]}
                    z = Generic "e"(x, v, f) {op_type="DeformConv", opset=19})ir");
}

// The window of an even size reaches one channel further up.
TEST(LocalResponseSplit, SquaresMeansAndAQuotient) {
  expect_rewrite(local_response_split,
                 R"ir(graph "g" {
    input x: float[2, 7, 3, 5]
    y: float[2, 7, 3, 5] = Generic "n"(x) {op_type="LRN", opset=13, attributes=[("size", [4], [], ""), ("alpha", [], [0.5], ""), ("bias", [], [2], "")]}
    z: float[2, 7, 3, 5] = Generic "m"(x) {op_type="LRN", opset=13, attributes=[("size", [3], [], ""), ("alpha", [], [0.5], ""), ("beta", [], [1.25], "")]}
    output y, z
  })ir",
                 R"ir("n (rows)" = Shuffle(x) {has_reshape=true, reshape=[2, 1, 7, 15]}
                    "n (squares)" = PointWise("n (rows)") {program=<1: v1 = mul v0 v0>}
                    "n (means)" = Pooling("n (squares)") {type=average, kernel=[4, 1], stride=[1, 1], dilation=[1, 1], pre_padding=[1, 0], post_padding=[2, 0], count_includes_padding=true}
                    "n (quotient)" = PointWise("n (rows)", "n (means)") {program=<2: v2 = const 0.5; v3 = const 2; v4 = fma v1 v2 v3; v5 = sqrt v4; v6 = sqrt v5; v7 = mul v5 v6; v8 = div v0 v7>}
                    y = Shuffle "n (shape)"("n (quotient)") {has_reshape=true, reshape=[2, 7, 3, 5]}
                    "m (rows)" = Shuffle(x) {has_reshape=true, reshape=[2, 1, 7, 15]}
                    "m (squares)" = PointWise("m (rows)") {program=<1: v1 = mul v0 v0>}
                    "m (means)" = Pooling("m (squares)") {type=average, kernel=[3, 1], stride=[1, 1], dilation=[1, 1], pre_padding=[1, 0], post_padding=[1, 0], count_includes_padding=true}
                    "m (quotient)" = PointWise("m (rows)", "m (means)") {program=<2: v2 = const 0.5; v3 = const 1; v4 = fma v1 v2 v3; v5 = const 1.25; v6 = pow v4 v5; v7 = div v0 v6>}
                    z = Shuffle "m (shape)"("m (quotient)") {has_reshape=true, reshape=[2, 7, 3, 5]})ir");
}

TEST(LpPoolSplit, PowersMeansAndRoots) {
  expect_rewrite(lp_pool_split,
                 R"ir(graph "g" {
    input x: float[1, 3, 8, 8]
    y: float[1, 3, 7, 7] = Pooling "n"(x) {type=lp, kernel=[2, 2], stride=[1, 1], dilation=[1, 1], pre_padding=[0, 0], post_padding=[0, 0]}
    z: float[1, 3, 1, 1] = Pooling "g"(x) {type=lp, global=true, p=3}
    r: float[1, 3, 4, 4] = Pooling "u"(x) {type=lp, kernel=[3, 3], stride=[2, 2], dilation=[1, 1], pre_padding=[0, 0], post_padding=[0, 0], padding_mode=explicit_round_up}
    output y, z, r
  })ir",
                 R"ir("n (powers)" = PointWise(x) {program=<1: v1 = mul v0 v0>}
                    "n (means)" = Pooling("n (powers)") {type=average, kernel=[2, 2], stride=[1, 1], dilation=[1, 1], pre_padding=[0, 0], post_padding=[0, 0], count_includes_padding=true}
                    y = PointWise "n"("n (means)") {program=<1: v1 = const 4; v2 = mul v0 v1; v3 = sqrt v2>}
                    "g (powers)" = PointWise(x) {program=<1: v1 = abs v0; v2 = const 3; v3 = pow v1 v2>}
                    "g (means)" = Pooling("g (powers)") {type=average, global=true, count_includes_padding=true}
                    z = PointWise "g"("g (means)") {program=<1: v1 = const 64; v2 = mul v0 v1; v3 = const 0.33333334; v4 = pow v2 v3>}
                    r = Pooling "u"(x) {type=lp, kernel=[3, 3], stride=[2, 2], dilation=[1, 1], pre_padding=[0, 0], post_padding=[0, 0], padding_mode=explicit_round_up})ir");
}

}  // namespace
}  // namespace camshaft::passes
