// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "passes/passes.h"
#include "passes/test_util.h"

namespace camshaft::passes {
namespace {

constexpr const char* kInteger = R"ir({op_type="MatMulInteger", opset=13, attributes=[]})ir";

std::string graph(const std::string& lines) {
  return "graph \"g\" {\n" + lines + "}";
}

TEST(DynamicQuantization, ScaleZeroPointAndCodes) {
  expect_rewrite(dynamic_quantization_fusion, graph(R"ir(
    input x: float[2, 3, 5]
    q: uint8[2, 3, 5], s: float[], z: uint8[] = Generic "d"(x) {op_type="DynamicQuantizeLinear", opset=13, attributes=[]}
    output q, s, z
  )ir"),
                 R"ir("d (minimum)" = Reduce(x) {op=min, axes=[0, 1, 2], keep_dims=false}
                      "d (maximum)" = Reduce(x) {op=max, axes=[0, 1, 2], keep_dims=false}
                      s = PointWise "d (scale)"("d (minimum)", "d (maximum)") {program=<2: v2 = const 0; v3 = min v0 v2; v4 = max v1 v2; v5 = sub v4 v3; v6 = const 255; v7 = div v5 v6; v8 = const 1; v9 = equal v4 v3; v10 = select v9 v8 v7>}
                      "d (zero point)" = PointWise("d (minimum)", s) {program=<2: v2 = const 0; v3 = min v0 v2; v4 = neg v3; v5 = div v4 v1; v6 = round v5; v7 = clip v6 0 255>}
                      z = PointWise "d (code of zero)"("d (zero point)") {program=<1: v1 = identity v0>, type=uint8}
                      q = PointWise "d (codes)"(x, s, "d (zero point)") {program=<3: v3 = div v0 v1; v4 = round v3; v5 = add v4 v2>, type=uint8})ir");
}

TEST(DynamicQuantization, ProductsOfCodesLessTheZeroPointsShare) {
  expect_rewrite(dynamic_quantization_fusion,
                 graph(R"ir(
    input q: uint8[2, 4]
    input z: uint8[]
    constant w: int8[4, 3] = random(1)
    i: int32[2, 3] = Generic "m"(q, w, z) )ir" +
                       std::string(kInteger) +
                       R"ir(
    y: float[2, 3] = Cast(i) {to=float}
    output y
  )ir"),
                 R"ir("m (zero point)" = PointWise(z, "w (sums)") {program=<2: v2 = mul v0 v1>}
                      y = MatrixMultiply "w + m"(q, w, _, "m (zero point)") {epilogue=<2: v2 = sub v0 v1>})ir");
}

TEST(DynamicQuantization, WeightsWithZeroPointsBeyondInt8AreFloats) {
  expect_rewrite(dynamic_quantization_fusion,
                 graph(R"ir(
    input q: uint8[2, 4]
    input z: uint8[]
    constant w: uint8[4, 2] = [0, 255, 7, 8, 9, 10, 11, 12]
    constant o: uint8[2] = [100, 3]
    i: int32[2, 2] = Generic "m"(q, w, z, o) )ir" +
                       std::string(kInteger) +
                       R"ir(
    y: float[2, 2] = Cast(i) {to=float}
    output y
  )ir"),
                 R"ir("m (floats)" = PointWise(q, z) {program=<2: v2 = sub v0 v1>}
                      y = MatrixMultiply "w + m"("m (floats)", "w (floats)"))ir");
}

TEST(DynamicQuantization, OneZeroPointOfWeightsIsKept) {
  const auto product = [](const std::string& zeros, const std::string& operands) {
    return graph(R"ir(
    input q: uint8[2, 4]
    input z: uint8[]
    constant w: uint8[4, 2] = [0, 255, 7, 8, 9, 10, 11, 12]
    )ir" + zeros +
                 "\n    i: int32[2, 2] = Generic \"m\"(" + operands + ") " + std::string(kInteger) +
                 "\n    y: float[2, 2] = Cast(i) {to=float}\n    output y");
  };
  expect_rewrite(dynamic_quantization_fusion,
                 product("constant o: uint8[2] = [100, 100]", "q, w, z, o"),
                 R"ir("m (zero point)" = PointWise(z, "w (sums)") {program=<2: v2 = mul v0 v1>}
                      y = MatrixMultiply "w + m"(q, w, _, "m (zero point)") {b_zero_point=100, epilogue=<2: v2 = sub v0 v1>})ir");
  expect_rewrite(dynamic_quantization_fusion, product("", "q, w"),
                 R"ir(y = MatrixMultiply "w + m"(q, w))ir");
}

TEST(DynamicQuantization, ConvolutionsWithoutPadding) {
  expect_rewrite(dynamic_quantization_fusion, graph(R"ir(
    input q: uint8[2, 4, 5, 5]
    input z: uint8[]
    constant w: int8[6, 2, 3, 3] = random(1)
    constant o: int8[1] = [1]
    i: int32[2, 6, 3, 3] = Generic "c"(q, w, z, o) {op_type="ConvInteger", opset=13, attributes=[("group", [2], [], "")]}
    y: float[2, 6, 3, 3] = Cast(i) {to=float}
    output y
  )ir"),
                 R"ir("c (zero point)" = PointWise(z, "w (sums)") {program=<2: v2 = mul v0 v1>}
                      y = Convolution "w + c"(q, "w (symmetric)", _, "c (zero point)") {kernel=[3, 3], stride=[1, 1], dilation=[1, 1], pre_padding=[0, 0], post_padding=[0, 0], groups=2, epilogue=<2: v2 = sub v0 v1>})ir");
}

TEST(DynamicQuantization, ConvolutionsOfFloats) {
  expect_rewrite(dynamic_quantization_fusion, graph(R"ir(
    input q: uint8[1, 2, 5, 5]
    input z: uint8[]
    constant w: int8[4, 1, 3, 3] = random(1)
    i: int32[1, 4, 3, 3] = Generic "c"(q, w, z) {op_type="ConvInteger", opset=13, attributes=[("pads", [1, 1, 1, 1], [], ""), ("strides", [2, 2], [], ""), ("group", [2], [], "")]}
    y: float[1, 4, 3, 3] = Cast(i) {to=float}
    output y
  )ir"),
                 R"ir("c (floats)" = PointWise(q, z) {program=<2: v2 = sub v0 v1>}
                      y = Convolution "w + c"("c (floats)", "w (floats)") {kernel=[3, 3], stride=[2, 2], dilation=[1, 1], pre_padding=[1, 1], post_padding=[1, 1], groups=2})ir");
}

TEST(DynamicQuantization, SumsReadAsIntegersStay) {
  const std::string text = R"ir(
    input q: uint8[2, 4]
    input z: uint8[]
    constant w: int8[4, 3] = random(1)
    i: int32[2, 3] = Generic "m"(q, w, z) )ir" +
                           std::string(kInteger) +
                           R"ir(
    output i
  )ir";
  expect_rewrite(dynamic_quantization_fusion, graph(text),
                 R"ir(i = Generic "m"(q, w, z) {op_type="MatMulInteger", opset=13})ir");
}

}  // namespace
}  // namespace camshaft::passes
