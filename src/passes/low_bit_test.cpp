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
  std::string fields = "columns=32, depth=64";
  if (bits != 4) fields += fmt::format(", bits={}", bits);
  if (block != 32) fields += fmt::format(", block={}", block);
  if (zero) fields += ", zero=uint8";
  return fmt::format(R"ir(y = LowBitMultiply "d + m"(x, "{}") {{{}}})ir", scales, fields);
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

// Two products of 32 x 8 weights of 8 bits.
constexpr const char* kPair = R"ir(graph "g" {
    input x: float[3, 8]
    input r: float[3, 32]
    constant w: uint8[32, 1, 16] = random(1)
    constant v: uint8[16, 1, 16] = random(2)
    constant b: float[32] = random(3)
    constant c: float[16] = random(4)
    p: float[3, 32] = LowBitMultiply(x, w) {columns=32, depth=8, bits=8, block=8}
    q: float[3, 16] = LowBitMultiply(x, v) {columns=16, depth=8, bits=8, block=8}
    )ir";

TEST(LowBitWeightsFusion, AnAddedConstantIsTheBias) {
  expect_rewrite(low_bit_weights_fusion,
                 std::string(kPair) + R"ir(a: float[3, 32] = ElementWise(p, b) {op=add}
    s: float[3, 16] = ElementWise(q, c) {op=mul}
    output a, s
  })ir",
                 R"ir(q = LowBitMultiply(x, v) {columns=16, depth=8, bits=8, block=8}
    a = LowBitMultiply "p + a"(x, w, "p bias + a") {columns=32, depth=8, bits=8, block=8}
    s = ElementWise(q, c) {op=mul})ir");
}

TEST(LowBitWeightsFusion, ResidualAndActivationAreTheEpilogue) {
  expect_rewrite(
      epilogue_fusion, std::string(kPair) + R"ir(a: float[3, 32] = ElementWise(p, r) {op=add}
    s: float[3, 16] = Activation(q) {op=relu}
    output a, s
  })ir",
      R"ir(a = LowBitMultiply "p + a"(x, w, _, r) {columns=32, depth=8, bits=8, block=8, epilogue=<2: v2 = add v0 v1>}
    s = LowBitMultiply "q + s"(x, v) {columns=16, depth=8, bits=8, block=8, epilogue=<1: v1 = relu v0>})ir");
}

TEST(HorizontalMerge, ProductsOfWeightsOfFewBits) {
  Records records;
  expect_rewrite(
      horizontal_merge,
      std::string(kPair) +
          R"ir(t: float[3, 32] = LowBitMultiply(x, w) {columns=32, depth=8, bits=8, block=8, codes_rows=true}
    output p, q, t
  })ir",
      R"ir("p || q" = LowBitMultiply(x, "w || v") {columns=48, depth=8, bits=8, block=8}
    p = Slice "p (slice)"("p || q") {start=[0, 0], size=[3, 32], step=[1, 1]}
    q = Slice "q (slice)"("p || q") {start=[0, 32], size=[3, 16], step=[1, 1]}
    t = LowBitMultiply(x, w) {columns=32, depth=8, bits=8, block=8, codes_rows=true})ir",
      &records);
  EXPECT_EQ(records.front().text, "not merged with p: different attributes or epilogues");
}

}  // namespace
}  // namespace camshaft::passes
