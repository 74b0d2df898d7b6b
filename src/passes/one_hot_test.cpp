// SPDX-License-Identifier: Apache-2.0
// One-hot products in the spellings of several exporters, with indices inside, from the end, and
// outside.
#include <gtest/gtest.h>

#include <algorithm>

#include "ir/text.h"
#include "passes/test_util.h"

namespace camshaft::passes {
namespace {

int fuse(ir::Graph& graph, Records* records) {
  return one_hot_fusion(graph, records) + dead_layer_removal(graph, nullptr);
}

// `layers` make y [n, 3, 4] of i: int64[n, 3], whose elements are -4, -1 and 2.
std::string network(const std::string& layers, const std::string& shape = "n, 3, 4") {
  return R"ir(graph "g" {
    input k: int64[n, 3]
    constant three: int64[] = [3]
    constant four: int64[] = [4]
    constant depth: int64[] = [3]
    constant values: float[2] = [0, 1]
    constant w: float[3, 4] = random(1)
    constant b: float[4] = random(2)
    j: int64[n, 3] = ElementWise(k, three) {op=mul}
    i: int64[n, 3] = ElementWise(j, four) {op=sub}
    )ir" +
         layers +
         R"ir(
    y: float[)ir" +
         shape + R"ir(] = Unary(p) {op=exp}
    output y
  })ir";
}

void expect_look_up(const std::string& text, double tolerance = 0) {
  SCOPED_TRACE(text);
  auto parsed = ir::parse_graph(text);
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  ASSERT_TRUE(ir::verify(*parsed.value()).ok()) << ir::verify(*parsed.value()).message();
  const auto after = std::move(ir::parse_graph(text)).value();
  for (int round = 0; round < 10 && fuse(*after, nullptr) > 0;) ++round;
  ASSERT_TRUE(ir::verify(*after).ok()) << ir::verify(*after).message();
  for (const auto& layer : after->layers())
    EXPECT_TRUE(layer->kind != ir::LayerKind::kMatrixMultiply &&
                layer->kind != ir::LayerKind::kConvolution &&
                layer->kind != ir::LayerKind::kGeneric && layer->kind != ir::LayerKind::kScatter)
        << layer_lines(*after);
  expect_same_numbers(*parsed.value(), *after, tolerance);
}

constexpr const char* kOneHot = "attributes=[(\"axis\", [-1], [], \"\")]";

TEST(OneHotFusion, OperatorsOfTensorflow) {
  // tf.one_hot and Tensordot.
  expect_look_up(network(
      std::string("e: float[n, 3, 3] = Generic(i, depth, values) {op_type=\"OneHot\", opset=11, ") +
      kOneHot + R"ir(}
    r: float[(n*3), 3] = Shuffle(e) {has_reshape=true, reshape=[(n*3), 3]}
    m: float[(n*3), 4] = MatrixMultiply(r, w, b)
    p: float[n, 3, 4] = Shuffle(m) {has_reshape=true, reshape=[n, 3, 4]})ir"));
}

TEST(OneHotFusion, EncodingsOfAnyAxisBehindCastsAndShuffles) {
  // One-hot integers along the second axis, cast, transposed; transposed weights, alpha.
  expect_look_up(network(R"ir(constant ints: int64[2] = [0, 1]
    constant wt: float[4, 3] = random(3)
    e: int64[n, 3, 3] = Generic(i, depth, ints) {op_type="OneHot", opset=11, attributes=[("axis", [1], [], "")]}
    c: float[n, 3, 3] = Cast(e) {to=float}
    t: float[n, 3, 3] = Shuffle(c) {first_transpose=[0, 2, 1]}
    p: float[n, 3, 4] = MatrixMultiply(t, wt) {transpose_b=true, alpha=0.5})ir"));
  // The transposition as a flag.
  expect_look_up(network(R"ir(
    e: float[n, 3, 3] = Generic(i, depth, values) {op_type="OneHot", opset=11, attributes=[("axis", [1], [], "")]}
    p: float[n, 3, 4] = MatrixMultiply(e, w) {transpose_a=true})ir"));
  // First axis, flattened.
  expect_look_up(network(R"ir(
    e: float[3, n, 3] = Generic(i, depth, values) {op_type="OneHot", opset=11, attributes=[("axis", [0], [], "")]}
    r: float[3, (n*3)] = Shuffle(e) {has_reshape=true, reshape=[3, (n*3)]}
    m: float[(n*3), 4] = MatrixMultiply(r, w) {transpose_a=true}
    p: float[n, 3, 4] = Shuffle(m) {has_reshape=true, reshape=[n, 3, 4]})ir"));
}

TEST(OneHotFusion, OtherValuesThanOneAndZero) {
  expect_look_up(network(R"ir(constant smooth: float[2] = [0.05, 0.85]
    e: float[n, 3, 3] = Generic(i, depth, smooth) {op_type="OneHot", opset=11, attributes=[]}
    p: float[n, 3, 4] = MatrixMultiply(e, w, b))ir"),
                 1e-6);
}

TEST(OneHotFusion, ComparisonsAsTorchDecomposesThem) {
  // Unsqueeze, == arange, Cast; then Where; then a comparison that starts elsewhere.
  const std::string unsqueezed =
      "u: int64[n, 3, 1] = Shuffle(i) {has_reshape=true, reshape=[n, 3, 1]}\n"
      "constant range: int64[3] = [0, 1, 2]\nconstant later: int64[1, 1, 3] = [1, 2, 3]\n"
      "constant one: float[] = [1]\nconstant zero: float[] = [0]\n";
  expect_look_up(network(unsqueezed + R"ir(e: bool[n, 3, 3] = ElementWise(u, range) {op=equal}
    c: float[n, 3, 3] = Cast(e) {to=float}
    p: float[n, 3, 4] = MatrixMultiply(c, w))ir"));
  expect_look_up(network(unsqueezed + R"ir(e: bool[n, 3, 3] = ElementWise(range, u) {op=equal}
    c: float[n, 3, 3] = Select(e, one, zero) {op=select}
    p: float[n, 3, 4] = MatrixMultiply(c, w))ir"));
  expect_look_up(network(unsqueezed + R"ir(e: bool[n, 3, 3] = ElementWise(u, later) {op=equal}
    c: float[n, 3, 3] = Cast(e) {to=float}
    p: float[n, 3, 4] = MatrixMultiply(c, w))ir"));
}

TEST(OneHotFusion, EncodingsOnTheRight) {
  // [4, 3] · [n, 3, 3], the classes along rows, as channel-first networks have them.
  expect_look_up(network(R"ir(constant range: int64[3, 1] = [0, 1, 2]
    constant wt: float[4, 3] = random(3)
    u: int64[n, 1, 3] = Shuffle(i) {has_reshape=true, reshape=[n, 1, 3]}
    e: bool[n, 3, 3] = ElementWise(u, range) {op=equal}
    c: float[n, 3, 3] = Cast(e) {to=float}
    p: float[n, 4, 3] = MatrixMultiply(wt, c))ir",
                         "n, 4, 3"));
  // The same as a convolution.
  expect_look_up(network(R"ir(constant wt: float[4, 3, 1] = random(3)
    e: float[n, 3, 3] = Generic(i, depth, values) {op_type="OneHot", opset=11, attributes=[("axis", [1], [], "")]}
    p: float[n, 4, 3] = Convolution(e, wt, b) {kernel=[1], stride=[1], dilation=[1], pre_padding=[0], post_padding=[0]})ir",
                         "n, 4, 3"));
}

TEST(OneHotFusion, OnesScatteredIntoZeros) {
  expect_look_up(R"ir(graph "g" {
    input i: int64[2, 3]
    constant zeros: float[2, 3, 3] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    constant one: float[] = [1]
    constant w: float[3, 4] = random(1)
    u: int64[2, 3, 1] = Shuffle(i) {has_reshape=true, reshape=[2, 3, 1]}
    ones: float[2, 3, 1] = Expand(one) {shape=[2, 3, 1]}
    e: float[2, 3, 3] = Scatter(zeros, u, ones) {axis=2}
    y: float[2, 3, 4] = MatrixMultiply(e, w)
    output y
  })ir");
}

TEST(OneHotFusion, ProductsOfLookedUpRows) {
  expect_look_up(R"ir(graph "g" {
    input i: int64[n, 3]
    constant eye: float[5, 5] = random(4)
    constant w: float[5, 4] = random(1)
    g: float[n, 3, 5] = Gather(eye, i)
    r: float[(n*3), 5] = Shuffle(g) {has_reshape=true, reshape=[(n*3), 5]}
    y: float[(n*3), 4] = MatrixMultiply(r, w)
    output y
  })ir",
                 1e-6);
}

TEST(OneHotFusion, NotAlongAnotherAxis) {
  const char* const kProduct = R"ir(graph "g" {
    input i: int64[3]
    constant range: int64[3] = [0, 1, 2]
    constant w: float[3, 4] = random(1)
    u: int64[3, 1] = Shuffle(i) {has_reshape=true, reshape=[3, 1]}
    e: bool[3, 3] = ElementWise(u, range) {op=equal}
    c: float[3, 3] = Cast(e) {to=float}
    y: float[3, 4] = MatrixMultiply(c, w) {transpose_a=true}
    output y
  })ir";
  const auto graph = std::move(ir::parse_graph(kProduct)).value();
  EXPECT_EQ(fuse(*graph, nullptr), 0);
}

}  // namespace
}  // namespace camshaft::passes
