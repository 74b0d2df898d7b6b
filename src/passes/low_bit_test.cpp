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

int arithmetic_and_clean(ir::Graph& graph, Records* records) {
  const int edits = arithmetic_weights_fusion(graph, records);
  dead_layer_removal(graph, records);
  return edits;
}

std::string written(int bits, int block, const std::string& zero = "") {
  std::string fields = "columns=32, depth=64";
  if (bits != 4) fields += fmt::format(", bits={}", bits);
  if (block != 32) fields += fmt::format(", block={}", block);
  if (!zero.empty()) fields += ", zero=" + zero;
  return fmt::format(R"ir(y = LowBitMultiply "m"(x, "w (records)") {{{}}})ir", fields);
}

// Weights of groups of 16 codes: [32, 4, 16] less zero points, times scales, [32, 64], transposed.
TEST(ArithmeticWeightsFusion, GroupsWithZeroPoints) {
  expect_rewrite(arithmetic_and_clean,
                 graph(codes("q", "uint4", 32, 64) + "constant z: int8[32, 4, 1] = random(3)\n"
                                                     "constant s: float[32, 4, 1] = random(2)",
                       "g: uint4[32, 4, 16] = Shuffle(q) {has_reshape=true, reshape=[32, 4, 16]}\n"
                       "f: float[32, 4, 16] = Cast(g) {to=float}\n"
                       "zf: float[32, 4, 1] = Cast(z) {to=float}\n"
                       "d: float[32, 4, 16] = ElementWise(f, zf) {op=sub}\n"
                       "e: float[32, 4, 16] = ElementWise(s, d) {op=mul}\n"
                       "r: float[32, 64] = Shuffle(e) {has_reshape=true, reshape=[32, 64]}\n"
                       "w: float[64, 32] = Shuffle(r) {first_transpose=[1, 0]}\n"
                       "y: float[3, 32] = MatrixMultiply \"m\"(x, w)"),
                 written(4, 16, "uint8"));
}

// What a zero point is taken from as an integer, and added behind the scale: no integer then.
TEST(ArithmeticWeightsFusion, ShiftsBeforeAndBehindScales) {
  const std::string constants = codes("q", "int4", 64, 32) +
                                "constant s: float[2, 1, 32] = random(2)\n"
                                "constant b: float[2, 1, 32] = random(4)\n"
                                "constant two: int32[] = [2]";
  const std::string start =
      "i: int32[64, 32] = Cast(q) {to=int32}\n"
      "j: int32[64, 32] = ElementWise(i, two) {op=sub}\n"
      "f: float[64, 32] = Cast(j) {to=float}\n"
      "g: float[2, 32, 32] = Shuffle(f) {has_reshape=true, reshape=[2, 32, 32]}\n"
      "e: float[2, 32, 32] = ElementWise(g, s) {op=mul}\n";
  const std::string end = "y: float[3, 32] = MatrixMultiply \"m\"(x, w)";
  expect_rewrite(
      arithmetic_and_clean,
      graph(constants,
            start + "w: float[64, 32] = Shuffle(e) {has_reshape=true, reshape=[64, 32]}\n" + end),
      written(4, 32, "uint8"));
  expect_rewrite(
      arithmetic_and_clean,
      graph(constants, start +
                           "h: float[2, 32, 32] = ElementWise(e, b) {op=add}\n"
                           "w: float[64, 32] = Shuffle(h) {has_reshape=true, reshape=[64, 32]}\n" +
                           end),
      written(4, 32, "float"));
}

// Zero points and scales of every row, looked up by its group (GPTQ).
TEST(ArithmeticWeightsFusion, OperandsAsLargeAsTheWeights) {
  expect_rewrite(arithmetic_and_clean,
                 graph(
                     codes("q", "uint4", 64, 32) + "constant z: int8[2, 32] = random(3)\n" +
                         "constant s: float[2, 32] = random(2)\nconstant g: int64[64] = [" +
                         [] {
                           std::string groups;
                           for (int k = 0; k < 64; ++k)
                             groups += (k ? ", " : "") + std::to_string(k / 32);
                           return groups;
                         }() +
                         "]",
                     "c: int8[64, 32] = Cast(q) {to=int8}\n"
                     "zg: int8[64, 32] = Gather(z, g)\n"
                     "d: int8[64, 32] = ElementWise(c, zg) {op=sub}\n"
                     "f: float[64, 32] = Cast(d) {to=float}\n"
                     "sg: float[64, 32] = Gather(s, g)\n"
                     "w: float[64, 32] = ElementWise(sg, f) {op=mul}\n"
                     "y: float[3, 32] = MatrixMultiply \"m\"(x, w)"),
                 written(4, 32, "uint8"));
}

TEST(ArithmeticWeightsFusion, CodesThatAreCast) {
  expect_rewrite(
      arithmetic_and_clean,
      graph("constant q: int8[32, 64] = random(1)\n",
            "w: float[32, 64] = Cast(q) {to=float}\n"
            "y: float[3, 32] = MatrixMultiply \"m\"(x, w) {transpose_b=true, alpha=0.5}"),
      written(8, 64));
}

// A scale for every row of the depth, and integers of more than 8 bits.
TEST(ArithmeticWeightsFusion, OtherConstantsStayFloats) {
  const auto stays = [](const std::string& constants, const std::string& layers) {
    auto parsed = ir::parse_graph(graph(constants, layers));
    ASSERT_TRUE(parsed.ok()) << parsed.status().message();
    EXPECT_EQ(arithmetic_weights_fusion(*parsed.value(), nullptr), 0);
  };
  const std::string end = "y: float[3, 32] = MatrixMultiply \"m\"(x, w)";
  stays("constant q: int8[64, 32] = random(1)\nconstant s: float[64, 1] = random(2)",
        "f: float[64, 32] = Cast(q) {to=float}\n"
        "w: float[64, 32] = ElementWise(f, s) {op=mul}\n" +
            end);
  stays("constant q: int32[64, 32] = random(1)\n", "w: float[64, 32] = Cast(q) {to=float}\n" + end);
  stays("constant q: float[64, 32] = random(1)\nconstant s: float[1, 32] = random(2)",
        "w: float[64, 32] = ElementWise(q, s) {op=mul}\n" + end);
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
