// SPDX-License-Identifier: Apache-2.0
// Products of dequantized constants whose weights stay codes.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "passes/test_util.h"

namespace camshaft::passes {
namespace {

// 64 x 32 weights (or their transpose): layers with {} for what comes before the product.
std::string graph(const std::string& constants, const std::string& layers) {
  return "graph \"g\" {\n  input x: float[3, 64]\n" + constants + "\n" + layers + "\n  output y\n}";
}

// A constant of codes of 4 bits.
std::string codes(const std::string& name, const std::string& type, int rows, int columns) {
  std::string text = fmt::format("constant {}: {}[{}, {}] = hex \"", name, type, rows, columns);
  for (int k = 0; k < rows * columns / 2; ++k)
    text += fmt::format("{:02x}", (k * 37 + k / 7) % 256);
  return text + "\"\n";
}

std::string product(const std::string& scales, int bits, int block, int zero) {
  return fmt::format(
      R"ir(y = Generic "d + m"(x, "{}") {{op_type="LowBitMultiply", opset=1, attributes=[("columns", [32], [], ""), ("depth", [64], [], ""), ("bits", [{}], [], ""), ("block", [{}], [], ""), ("zero", [{}], [], ""), ("codes_rows", [0], [], "")]}})ir",
      scales, bits, block, zero);
}

TEST(LowBitWeightsFusion, BlocksOf4Bits) {
  expect_rewrite(low_bit_weights_fusion,
                 graph(codes("w", "int4", 64, 32) + "constant s: float[4, 32] = random(2)",
                       "d: float[64, 32] = Dequantize(w, s) {axis=0, block_size=16, type=int4}\n"
                       "y: float[3, 32] = MatrixMultiply \"m\"(x, d)"),
                 product("w (records)", 4, 16, 0));
}

TEST(LowBitWeightsFusion, ZeroPoints) {
  expect_rewrite(
      low_bit_weights_fusion,
      graph(codes("w", "uint4", 64, 32) + codes("z", "uint4", 4, 32) +
                "constant s: float[4, 32] = random(2)",
            "d: float[64, 32] = Dequantize(w, s, z) {axis=0, block_size=16, type=uint4}\n"
            "y: float[3, 32] = MatrixMultiply \"m\"(x, d)"),
      product("w (records)", 4, 16, 1));
}

TEST(LowBitWeightsFusion, OneScalePerColumnOfTransposedWeights) {
  expect_rewrite(
      low_bit_weights_fusion,
      graph("constant w: int8[32, 64] = random(1)\nconstant s: float[32] = random(2)",
            "d: float[32, 64] = Dequantize(w, s) {axis=0, type=int8}\n"
            "y: float[3, 32] = MatrixMultiply \"m\"(x, d) {transpose_b=true, alpha=0.5}"),
      product("w (records)", 8, 64, 0));
}

TEST(LowBitWeightsFusion, ThroughTransposes) {
  expect_rewrite(low_bit_weights_fusion,
                 graph(codes("w", "int4", 32, 64) + "constant s: float[32, 2] = random(2)",
                       "d: float[32, 64] = Dequantize(w, s) {axis=1, block_size=32, type=int4}\n"
                       "t: float[64, 32] = Shuffle(d) {first_transpose=[1, 0]}\n"
                       "y: float[3, 32] = MatrixMultiply \"m\"(x, t)"),
                 "d = Dequantize(w, s) {block_size=32, type=int4}\n"
                 "t = Shuffle(d) {first_transpose=[1, 0]}\n" +
                     product("w (records)", 4, 32, 0));
}

TEST(LowBitWeightsFusion, LeavesProductsOfCodesAndOtherScalesAlone) {
  const std::string quantized =
      "q: int8[3, 64] = Quantize(x, a) {type=int8}\n"
      "c: float[3, 64] = Dequantize(q, a) {type=int8}\n"
      "d: float[64, 32] = Dequantize(w, s) {axis=1, type=int8}\n"
      "y: float[3, 32] = MatrixMultiply \"m\"(c, d)";
  expect_rewrite(low_bit_weights_fusion,
                 graph("constant w: int8[64, 32] = random(1)\nconstant s: float[32] = random(2)\n"
                       "constant a: float[] = [0.1]",
                       quantized),
                 "q = Quantize(x, a)\nc = Dequantize(q, a)\n"
                 "d = Dequantize(w, s)\ny = MatrixMultiply \"m\"(c, d)");
  // A scale per row of the depth.
  expect_rewrite(low_bit_weights_fusion,
                 graph("constant w: int8[64, 32] = random(1)\nconstant s: float[64] = random(2)",
                       "d: float[64, 32] = Dequantize(w, s) {axis=0, type=int8}\n"
                       "y: float[3, 32] = MatrixMultiply \"m\"(x, d)"),
                 "d = Dequantize(w, s) {axis=0}\ny = MatrixMultiply \"m\"(x, d)");
}

}  // namespace
}  // namespace camshaft::passes
