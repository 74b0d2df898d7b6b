// SPDX-License-Identifier: Apache-2.0
// Q/DQ: constants, motion, quantized products, their epilogues, pooling, unsigned codes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/log.h"
#include "ir/text.h"
#include "passes/pipeline.h"
#include "passes/test_util.h"

namespace camshaft::passes {
namespace {

// A graph of `layers` with scales s, t and zero points z (0, int8), u (128, uint8), o (3, uint8).
std::string graph(const std::string& inputs, const std::string& layers,
                  const std::string& outputs) {
  return "graph \"g\" {\n" + inputs + R"ir(
    constant s: float[] = [0.05]
    constant t: float[] = [0.08]
    constant z: int8[] = [0]
    constant u: uint8[] = [128]
    constant o: uint8[] = [3]
  )ir" + layers +
         "\n  output " + outputs + "\n}";
}

std::string q(const std::string& y, const std::string& x, const std::string& shape,
              const std::string& scale = "s") {
  return y + ": int8[" + shape + "] = Quantize(" + x + ", " + scale + ", z) {type=int8}\n";
}
std::string dq(const std::string& y, const std::string& x, const std::string& shape,
               const std::string& scale = "s") {
  return y + ": float[" + shape + "] = Dequantize(" + x + ", " + scale + ", z) {type=int8}\n";
}

TEST(ConstWeightsQuantizeFusion, ConstantsBecomeCodes) {
  expect_rewrite(const_weights_quantize_fusion,
                 graph("input x: float[2, 2]",
                       "constant w: float[2, 2] = [0.1, -0.3, 6.0, 10.0]\n" + q("v", "w", "2, 2") +
                           dq("d", "v", "2, 2") + "y: float[2, 2] = ElementWise(x, d) {op=mul}",
                       "y"),
                 R"ir(d = Dequantize("w + v", s, z)
                      y = ElementWise(x, d) {op=mul})ir");
}

TEST(ConstDequantizeFusion, WeightsOfQuantizedProductsStayCodes) {
  const std::string layers = std::string("constant w: int8[3, 2, 3, 3] = random(1)\n") +
                             "constant f: int8[4] = [1, 2, 3, 4]\n" + q("qx", "x", "1, 2, 4, 4") +
                             dq("dx", "qx", "1, 2, 4, 4") + dq("dw", "w", "3, 2, 3, 3") +
                             dq("df", "f", "4") + "c: float[1, 3, 4, 4] = Convolution(dx, dw) {" +
                             kWindow3x3 + "}\ne: float[1, 3, 4, 4] = Convolution(x, dw) {" +
                             kWindow3x3 + "}\ny: float[1, 3, 4, 4] = ElementWise(c, df) {op=mul}";
  expect_rewrite(const_dequantize_fusion, graph("input x: float[1, 2, 4, 4]", layers, "y, e"),
                 fmt::format(R"ir(qx = Quantize(x, s, z)
                      dx = Dequantize(qx, s, z)
                      dw = Dequantize(w, s, z)
                      c = Convolution(dx, dw) {{{0}}}
                      e = Convolution(x, dw) {{{0}}}
                      y = ElementWise(c, "f + df") {{op=mul}})ir",
                             kWindow3x3));
}

TEST(VanillaSwapWithFollowingQ, MovesAndMaximaPass) {
  expect_rewrite(
      vanilla_swap_with_following_q,
      graph("input x: float[1, 4, 6, 6]",
            "p: float[1, 4, 3, 3] = Pooling(x) {kernel=[2, 2], stride=[2, 2], dilation=[1, 1], "
            "pre_padding=[0, 0], post_padding=[0, 0]}\n"
            "r: float[1, 36] = Shuffle(p) {has_reshape=true, reshape=[1, 36]}\n" +
                q("y", "r", "1, 36"),
            "y"),
      R"ir(y_output_1 = Quantize "y"(x, s, z)
           y_output = Pooling "p"(y_output_1) {kernel=[2, 2], stride=[2, 2], dilation=[1, 1], pre_padding=[0, 0], post_padding=[0, 0]}
           y = Shuffle "r"(y_output) {has_reshape=true, reshape=[1, 36]})ir");
}

TEST(VanillaSwapWithFollowingQ, PaddedValuesAreQuantized) {
  expect_rewrite(vanilla_swap_with_following_q,
                 graph("input x: float[1, 2]",
                       "p: float[1, 4] = Pad(x) {pre=[0, 1], post=[0, 1], value=1}\n"
                       "y: uint8[1, 4] = Quantize(p, s, o) {type=uint8}",
                       "y"),
                 R"ir(y_output = Quantize "y"(x, s, o) {type=uint8}
                      y = Pad "p"(y_output) {pre=[0, 1], post=[0, 1], value=23})ir");
}

TEST(VanillaSwapWithFollowingQ, SlicesOfWhatIsReadAsFloatStay) {
  Records records;
  expect_rewrite(vanilla_swap_with_following_q,
                 graph("input x: float[4, 2]",
                       "a: float[2, 2] = Slice(x) {start=[0, 0], size=[2, 2], step=[1, 1]}\n" +
                           q("y", "a", "2, 2") + "r: float[4, 2] = Activation(x) {op=relu}",
                       "y, r"),
                 R"ir(a = Slice(x) {start=[0, 0], size=[2, 2], step=[1, 1]}
                      y = Quantize(a, s, z)
                      r = Activation(x) {op=relu})ir",
                 &records);
  EXPECT_EQ(records.back().text, "x is also read as float: quantizing all of it gains nothing");
}

TEST(SplitQAcrossPrecedingFanIn, EveryPartGetsAClone) {
  expect_rewrite(
      split_q_across_preceding_fan_in,
      graph("input a: float[1, 2]\ninput b: float[1, 3]",
            "c: float[1, 5] = Concatenation(a, b) {axis=1}\n" + q("y", "c", "1, 5"), "y"),
      R"ir(y_clone_0_output = Quantize "y_clone_0"(a, s, z)
                      y_clone_1_output = Quantize "y_clone_1"(b, s, z)
                      y = Concatenation "c"(y_clone_0_output, y_clone_1_output) {axis=1})ir");
}

TEST(SplitQAcrossPrecedingFanIn, NotWhenTheConcatenationIsAlsoReadAsFloat) {
  const std::string before =
      graph("input a: float[1, 2]\ninput b: float[1, 3]",
            "c: float[1, 5] = Concatenation(a, b) {axis=1}\n" + q("y", "c", "1, 5"), "y, c");
  expect_rewrite(split_q_across_preceding_fan_in, before, R"ir(c = Concatenation(a, b) {axis=1}
                      y = Quantize(c, s, z))ir");
}

TEST(HorizontalMergeQNodes, EqualGridsMergeOthersStay) {
  Records records;
  expect_rewrite(horizontal_merge_q_nodes,
                 graph("input x: float[4]",
                       "constant s2: float[] = [0.05]\n" + q("a", "x", "4") +
                           q("b", "x", "4", "s2") + q("c", "x", "4", "t") + dq("ya", "a", "4") +
                           dq("yb", "b", "4", "t") + dq("yc", "c", "4"),
                       "ya, yb, yc"),
                 R"ir(a = Quantize(x, s, z)
                      c = Quantize(x, t, z)
                      ya = Dequantize(a, s, z)
                      yb = Dequantize(a, t, z)
                      yc = Dequantize(c, s, z))ir",
                 &records);
  EXPECT_EQ(records[1].text, "Eliminating b which duplicates (Q) a");
}

TEST(DequantizeMotion, CodesAreMovedInsteadOfFloats) {
  expect_rewrite(dequantize_motion,
                 graph("input x: int8[2, 3]\ninput v: int8[2, 3]",
                       dq("a", "x", "2, 3") + dq("b", "v", "2, 3") +
                           "c: float[4, 3] = Concatenation(a, b) {axis=0}\n"
                           "y: float[3, 4] = Shuffle(c) {first_transpose=[1, 0]}",
                       "y"),
                 R"ir(b = Dequantize(v, s, z)
                      c_codes = Concatenation "c"(x, v)
                      y_codes = Shuffle "y"(c_codes) {first_transpose=[1, 0]}
                      y = Dequantize "a"(y_codes, s, z))ir");
}

TEST(DequantizeMotion, ScalesPerChannelFollowTheirAxis) {
  expect_rewrite(dequantize_motion, R"ir(graph "g" {
    input x: int8[2, 3]
    constant s: float[2] = [0.5, 0.25]
    constant z: int8[2] = [0, 0]
    d: float[2, 3] = Dequantize(x, s, z) {axis=0, type=int8}
    y: float[3, 2] = Shuffle(d) {first_transpose=[1, 0]}
    output y
  })ir",
                 R"ir(y_codes = Shuffle "y"(x) {first_transpose=[1, 0]}
                      y = Dequantize "d"(y_codes, s, z))ir");
}

TEST(DequantizeMotion, ScalesPerChannelPassPaddedImages) {
  const auto text = [](const char* zeros) {
    return fmt::format(R"ir(graph "g" {{
    input x: uint8[1, 2, 3]
    constant s: float[2] = [0.5, 0.25]
    constant z: uint8[2] = {}
    d: float[1, 2, 3] = Dequantize(x, s, z) {{axis=1, type=uint8}}
    y: float[1, 2, 5] = Pad(d) {{pre=[0, 0, 1], post=[0, 0, 1]}}
    output y
  }})ir",
                       zeros);
  };
  expect_rewrite(dequantize_motion, text("[7, 7]"),
                 R"ir(y_codes = Pad "y"(x) {pre=[0, 0, 1], post=[0, 0, 1], value=7}
                      y = Dequantize "d"(y_codes, s, z) {type=uint8})ir");
  const auto two_zeros = std::move(ir::parse_graph(text("[7, 8]"))).value();
  EXPECT_EQ(dequantize_motion(*two_zeros, nullptr), 0);
}

TEST(DequantizeQuantizeFusion, OnlyTheSameGridCancels) {
  expect_rewrite(dequantize_quantize_fusion,
                 graph("input x: int8[4]",
                       "k: int8[4] = Slice(x) {start=[3], size=[4], step=[-1]}\n" +
                           dq("d", "k", "4") + q("same", "d", "4") + q("other", "d", "4", "t") +
                           dq("y", "same", "4", "t") + dq("v", "other", "4"),
                       "y, v"),
                 R"ir(k = Slice(x) {start=[3], size=[4], step=[-1]}
                      d = Dequantize(k, s, z)
                      other = Quantize(d, t, z)
                      y = Dequantize(k, t, z)
                      v = Dequantize(other, s, z))ir");
}

std::string quantized_conv(const std::string& w_type, const std::string& w_zero,
                           const std::string& rest) {
  return graph(
      "input x: uint8[1, 2, 4, 4]",
      "constant w: " + w_type + "[3, 2, 3, 3] = random(1)\n" +
          "constant ws: float[3] = [0.01, 0.02, 0.03]\nconstant wz: " + w_type + "[3] = " + w_zero +
          "\nconstant b: float[3] = [0.1, 0.2, -0.5]\n"
          "dx: float[1, 2, 4, 4] = Dequantize(x, s, u) {type=uint8}\n"
          "dw: float[3, 2, 3, 3] = Dequantize(w, ws, wz) {axis=0, type=" +
          w_type + "}\nc: float[1, 3, 4, 4] = Convolution(dx, dw, b) {" + kWindow3x3 + "}\n" + rest,
      "y");
}

TEST(QuantizeDoubleInputNodes, ConvolutionOfCodesWithFactorsPerChannel) {
  Records records;
  expect_rewrite(
      quantize_double_input_nodes,
      quantized_conv("int8", "[0, 0, 0]", "y: float[1, 3, 4, 4] = Activation(c) {op=tanh}"),
      fmt::format(
          R"ir(c = Convolution "w + c"(x, w, _, "c scale", "c bias") {{{}, zero_point=128, epilogue=<3: v3 = fma v0 v1 v2>}}
               y = Activation(c) {{op=tanh}})ir",
          kWindow3x3),
      &records);
  ASSERT_GE(records.size(), 2U);
  EXPECT_EQ(records[records.size() - 2].text, "fusing (dx and dw) into c");
  EXPECT_EQ(records.back().pass, "ConstWeightsFusion");
  EXPECT_EQ(records.back().text, "Fusing w with c");
}

TEST(QuantizeDoubleInputNodes, UnsignedWeightsAreMadeSymmetric) {
  expect_rewrite(
      quantize_double_input_nodes,
      quantized_conv("uint8", "[128, 128, 128]", "y: float[1, 3, 4, 4] = Activation(c) {op=tanh}"),
      fmt::format(
          R"ir(c = Convolution "w + c"(x, "w (symmetric)", _, "c scale", "c bias") {{{}, zero_point=128, epilogue=<3: v3 = fma v0 v1 v2>}}
               y = Activation(c) {{op=tanh}})ir",
          kWindow3x3));
}

// Those below 127 are further from 255 than int8 reaches.
TEST(QuantizeDoubleInputNodes, WeightsThatInt8DoesNotHoldKeepTheirZeroPoint) {
  expect_rewrite(
      quantize_double_input_nodes,
      quantized_conv("uint8", "[255, 255, 255]", "y: float[1, 3, 4, 4] = Activation(c) {op=tanh}"),
      fmt::format(
          R"ir(c = Convolution "w + c"(x, w, _, "c scale", "c bias") {{{}, zero_point=128, w_zero_point=255, epilogue=<3: v3 = fma v0 v1 v2>}}
               y = Activation(c) {{op=tanh}})ir",
          kWindow3x3));
  Records records;
  const auto different =
      std::move(ir::parse_graph(quantized_conv("uint8", "[253, 254, 255]",
                                               "y: float[1, 3, 4, 4] = Activation(c) {op=tanh}")))
          .value();
  EXPECT_EQ(quantize_double_input_nodes(*different, &records), 0);
  ASSERT_FALSE(records.empty());
  EXPECT_EQ(records.back().text,
            "not quantized: its weights less their zero point do not fit in int8");
}

// Depthwise ones sum windows of up to 128 taps.
TEST(QuantizeDoubleInputNodes, DepthwiseWeightsKeepTheirZeroPoint) {
  const auto text = [](const std::string& window, const std::string& y) {
    const std::string kernel = window + ", " + window;
    return graph("input x: uint8[1, 3, 16, 16]",
                 "constant w: uint8[3, 1, " + kernel +
                     "] = random(1)\nconstant wz: uint8[] = [200]\n" +
                     dq("dx", "x", "1, 3, 16, 16") + "dw: float[3, 1, " + kernel +
                     "] = Dequantize(w, s, wz) {type=uint8}\ny: float[1, 3, " + y +
                     "] = Convolution(dx, dw) {kernel=[" + kernel +
                     "], stride=[1, 1], dilation=[1, 1], pre_padding=[0, 0], post_padding=[0, 0], "
                     "groups=3}\n",
                 "y");
  };
  expect_rewrite(
      quantize_double_input_nodes, text("5", "12, 12"),
      R"ir(y = Convolution "w + y"(x, w, _, "y scale") {kernel=[5, 5], stride=[1, 1], dilation=[1, 1], pre_padding=[0, 0], post_padding=[0, 0], groups=3, w_zero_point=200, epilogue=<2: v2 = mul v0 v1>})ir");
  const auto large = std::move(ir::parse_graph(text("12", "5, 5"))).value();
  EXPECT_EQ(quantize_double_input_nodes(*large, nullptr), 0);
}

// Channels that training has zeroed have scales next to nothing, denormal ones too.
TEST(QuantizeDoubleInputNodes, WeightScalesMayBeTiny) {
  for (const char* scale : {"[0.01, 1e-41, 0.02]", "[0.01, 0, 0.02]"}) {
    const std::string text = graph(
        "input x: int8[1, 2, 4, 4]",
        "constant w: int8[3, 2, 3, 3] = random(1)\nconstant ws: float[3] = " + std::string(scale) +
            "\nconstant wz: int8[3] = [0, 0, 0]\n" + dq("dx", "x", "1, 2, 4, 4") +
            "dw: float[3, 2, 3, 3] = Dequantize(w, ws, wz) {axis=0, type=int8}\n"
            "y: float[1, 3, 4, 4] = Convolution(dx, dw) {" +
            kWindow3x3 + "}",
        "y");
    const auto before = std::move(ir::parse_graph(text)).value();
    const auto after = std::move(ir::parse_graph(text)).value();
    EXPECT_EQ(quantize_double_input_nodes(*after, nullptr), 1) << scale;
    expect_same_numbers(*before, *after, 1e-5);
    const ir::Tensor* factors = after->layers().back()->inputs[3];
    for (float f : factors->values<float>()) EXPECT_TRUE(std::isnormal(f) && f > 0) << f;
    EXPECT_FLOAT_EQ(factors->values<float>()[2], 0.05f * 0.02f);
  }
}

TEST(QuantizeDoubleInputNodes, Deconvolutions) {
  const auto deconvolution = [](const char* stride, const char* dilation, const char* size) {
    return graph("input x: int8[1, 2, 4, 4]",
                 "constant w: int8[2, 3, 2, 2] = random(1)\nconstant ws: float[3] = [0.01, 0.02, "
                 "0.03]\nconstant wz: int8[3] = [0, 0, 0]\nconstant b: float[3] = [0.1, 0.2, "
                 "-0.5]\n" +
                     dq("dx", "x", "1, 2, 4, 4") +
                     "dw: float[2, 3, 2, 2] = Dequantize(w, ws, wz) {axis=1, type=int8}\n"
                     "y: float[1, 3, " +
                     size + ", " + size + "] = Deconvolution(dx, dw, b) {kernel=[2, 2], stride=[" +
                     stride + ", " + stride + "], dilation=[" + dilation + ", " + dilation +
                     "], pre_padding=[0, 0], post_padding=[0, 0]}",
                 "y");
  };
  const std::string text = deconvolution("2", "1", "8");
  const auto before = std::move(ir::parse_graph(text)).value();
  const auto after = std::move(ir::parse_graph(text)).value();
  EXPECT_EQ(quantize_double_input_nodes(*after, nullptr), 1);
  expect_same_numbers(*before, *after, 1e-5);
  Records records;
  const auto sparse = std::move(ir::parse_graph(deconvolution("3", "1", "11"))).value();
  EXPECT_EQ(quantize_double_input_nodes(*sparse, &records), 0);
  EXPECT_EQ(records.back().text, "not quantized: a deconvolution with outputs no tap reaches");
}

// Biases: int32 in units of the accumulator stays there; other scales become floats.
std::string conv_with_int32_bias(const char* bias_scale) {
  return graph("input x: int8[1, 2, 4, 4]",
               std::string("constant w: int8[3, 2, 3, 3] = random(1)\n") +
                   "constant b: int32[3] = [100, -200, 3000]\nconstant bs: float[] = [" +
                   bias_scale + "]\n" + dq("dx", "x", "1, 2, 4, 4") +
                   dq("dw", "w", "3, 2, 3, 3", "t") +
                   "db: float[3] = Dequantize(b, bs) {type=int32}\n"
                   "y: float[1, 3, 4, 4] = Convolution(dx, dw, db) {" +
                   kWindow3x3 + "}",
               "y");
}

TEST(QuantizeDoubleInputNodes, BiasInAccumulatorUnits) {
  expect_rewrite(quantize_double_input_nodes, conv_with_int32_bias("0.004"),
                 fmt::format(
                     R"ir(db = Dequantize(b, bs) {{type=int32}}
               y = Convolution "w + y"(x, w, b, "y scale") {{{}, epilogue=<2: v2 = mul v0 v1>}})ir",
                     kWindow3x3));
  expect_rewrite(quantize_double_input_nodes, conv_with_int32_bias("0.01"),
                 fmt::format(
                     R"ir(db = Dequantize(b, bs) {{type=int32}}
               y = Convolution "w + y"(x, w, _, "y scale", "y bias") {{{}, epilogue=<3: v3 = fma v0 v1 v2>}})ir",
                     kWindow3x3));
}

// Weights and biases behind quantizers of their own and layers that move or copy constants.
TEST(QuantizeDoubleInputNodes, ConstantsInAnySpelling) {
  const std::string conv =
      "y: float[1, 3, 4, 4] = Convolution(dx, vw, vb) {" + std::string(kWindow3x3) + "}";
  const std::string x = q("qx", "x", "1, 2, 4, 4") + dq("dx", "qx", "1, 2, 4, 4");
  const std::string spellings[] = {
      // A float bias with a power of two of its own, copies behind the Dequantize layers.
      "constant w: float[3, 2, 3, 3] = random(1)\nconstant b: float[3] = [0.5, -1, 1.25]\n"
      "constant p: float[] = [0.0078125]\n" +
          q("qw", "w", "3, 2, 3, 3", "p") + dq("dw", "qw", "3, 2, 3, 3", "p") +
          q("qb", "b", "3", "p") + dq("db", "qb", "3", "p") +
          "vw: float[3, 2, 3, 3] = Unary(dw) {op=identity}\n"
          "vb: float[3] = Unary(db) {op=identity}\n",
      // Stored codes, transposed weights, a bias of 8 bits with a scale per channel, squeezed.
      "constant w: int8[3, 3, 2, 3] = random(1)\nconstant b: uint8[1, 3] = [5, 128, 200]\n"
      "constant bs: float[3] = [0.5, 0.25, 0.125]\nconstant bz: uint8[3] = [128, 128, 128]\n" +
          dq("dw", "w", "3, 3, 2, 3", "t") +
          "vw: float[3, 2, 3, 3] = Shuffle(dw) {first_transpose=[3, 2, 0, 1]}\n"
          "db: float[1, 3] = Dequantize(b, bs, bz) {axis=1, type=uint8}\n"
          "vb: float[3] = Shuffle(db) {has_reshape=true, reshape=[3]}\n",
      // Scales behind casts, an int32 bias in units of its own behind a slice and an expand.
      "constant w: int8[3, 2, 3, 3] = random(1)\nconstant b: int32[1] = [300]\n"
      "constant h: float[] = [0.0625]\nhs: float[] = Cast(h) {to=float}\n" +
          dq("vw", "w", "3, 2, 3, 3", "hs") + "db: float[1] = Dequantize(b, hs) {type=int32}\n" +
          "vb: float[3] = Expand(db) {shape=[3]}\n",
  };
  for (const std::string& spelling : spellings) {
    const std::string text = graph("input x: float[1, 2, 4, 4]", spelling + x + conv, "y");
    const auto before = std::move(ir::parse_graph(text)).value();
    const auto after = std::move(ir::parse_graph(text)).value();
    PassRecord record;
    ASSERT_TRUE(optimize(*after, record).ok());
    const ir::Layer* last = after->layers().back().get();
    EXPECT_EQ(last->kind, ir::LayerKind::kConvolution) << ir::to_text(*after);
    EXPECT_TRUE(ir::is_quantized(last->inputs[0]->type)) << ir::to_text(*after);
    expect_same_numbers(*before, *after, 1e-5);
  }
}

TEST(QuantizeDoubleInputNodes, WarnsWhereMuchStaysFloat) {
  struct Recorder : Logger {
    std::string text;
    void log(Severity severity, std::string_view line) override {
      if (severity == Severity::kWarning) text += std::string(line) + "\n";
    }
  } recorder;
  const auto optimized = [&](const char* weights) {
    const auto g =
        std::move(ir::parse_graph(graph("input x: float[1, 2, 4, 4]",
                                        q("qx", "x", "1, 2, 4, 4") + dq("dx", "qx", "1, 2, 4, 4") +
                                            "constant w: int8[3, 2, 3, 3] = random(1)\nconstant f: "
                                            "float[3, 2, 3, 3] = random(2)\n" +
                                            dq("dw", "w", "3, 2, 3, 3") +
                                            "y: float[1, 3, 4, 4] = Convolution(dx, " + weights +
                                            ") {" + kWindow3x3 + "}",
                                        "y")))
            .value();
    PassRecord record;
    recorder.text.clear();
    set_logger(&recorder, Severity::kWarning);
    EXPECT_TRUE(optimize(*g, record).ok());
    set_logger(nullptr);
    return recorder.text;
  };
  EXPECT_EQ(optimized("dw"), "");
  EXPECT_EQ(optimized("f"),
            "1 of 1 products of quantized tensors run in float: its weights are not quantized "
            "(1 of them); `camshaft explain` has the reason of each\n");
}

TEST(QuantizeDoubleInputNodes, ProductsOfTwoActivations) {
  expect_rewrite(
      quantize_double_input_nodes,
      graph("input a: int8[2, 3, 4]\ninput b: uint8[2, 5, 4]",
            dq("da", "a", "2, 3, 4") +
                "db: float[2, 5, 4] = Dequantize(b, t, o) {type=uint8}\n"
                "y: float[2, 3, 5] = MatrixMultiply(da, db) {transpose_b=true, alpha=0.5}",
            "y"),
      R"ir(y = MatrixMultiply(a, b) {transpose_b=true, b_zero_point=3, epilogue=<1: v1 = const 0.002; v2 = mul v0 v1>})ir");
}

TEST(QuantizeDoubleInputNodes, ScalesAlongTheInputChannelsAreRefused) {
  Records records;
  const std::string before = R"ir(graph "g" {
    input a: int8[3, 2]
    constant s: float[] = [0.05]
    constant ws: float[2] = [0.01, 0.02]
    constant b: int8[2, 4] = random(3)
    da: float[3, 2] = Dequantize(a, s) {type=int8}
    db: float[2, 4] = Dequantize(b, ws) {axis=0, type=int8}
    y: float[3, 4] = MatrixMultiply(da, db)
    output y
  })ir";
  expect_rewrite(quantize_double_input_nodes, before,
                 R"ir(da = Dequantize(a, s)
                      db = Dequantize(b, ws) {axis=0}
                      y = MatrixMultiply(da, db))ir",
                 &records);
  EXPECT_EQ(records.back().text,
            "not quantized: its weights have scales along another axis than the output channels");
}

TEST(QConvScaleFusion, FoldsIntoFactorsAndBias) {
  const auto both = [](ir::Graph& g, Records* records) {
    return quantize_double_input_nodes(g, records) + q_conv_scale_fusion(g, records);
  };
  expect_rewrite(
      both,
      quantized_conv("int8", "[0, 0, 0]",
                     "constant g: float[3] = [0.5, -2, 3]\nconstant h: float[3] = [1, 0, -1]\n"
                     "y: float[1, 3, 4, 4] = Scale(c, g, h) {axis=1}"),
      fmt::format(
          R"ir(y = Convolution "w + c + y"(x, w, _, "c scale + y", "c bias + y") {{{}, zero_point=128, epilogue=<3: v3 = fma v0 v1 v2>}})ir",
          kWindow3x3));
}

// Zero point 32768: codes 0 and 65535 stand for −32768 and 32767 steps.
std::string wide(const std::string& layers, const std::string& outputs) {
  return "graph \"g\" {\n" + std::string(R"ir(input x: float[2, 3]
    constant s: float[] = [0.25]
    constant t: float[] = [0.5]
    constant z: uint16[] = [32768]
    constant h: int16[] = [0]
    q: uint16[2, 3] = Quantize(x, s, z) {type=uint16}
    d: float[2, 3] = Dequantize(q, s, z) {type=uint16}
    )ir") +
         layers + "\n  output " + outputs + "\n}";
}

TEST(WideQuantizeFusion, RoundsFloats) {
  expect_rewrite(
      wide_quantize_fusion, wide("y: float[2, 3] = Unary(d) {op=neg}", "y"),
      R"ir(d = PointWise "q + d"(x) {program=<1: v1 = const 0.25; v2 = div v0 v1; v3 = round v2; v4 = clip v3 -32768 32767; v5 = mul v4 v1>}
                      y = Unary(d) {op=neg})ir");
}

TEST(WideQuantizeFusion, WhatIsOnTheGridStays) {
  expect_rewrite(
      wide_quantize_fusion,
      wide(R"ir(m: float[3, 2] = Shuffle(d) {has_reshape=true, reshape=[3, 2]}
                           p: uint16[3, 2] = Quantize(m, s, z) {type=uint16}
                           e: float[3, 2] = Dequantize(p, s, z) {type=uint16}
                           f: float[3, 2] = Dequantize(p, s, z) {type=uint16}
                           y: float[3, 2] = ElementWise(e, f) {op=add}
                           r: int16[3, 2] = Quantize(m, t, h) {type=int16}
                           v: float[3, 2] = Dequantize(r, t, h) {type=int16})ir",
           "y, v"),
      R"ir(d = PointWise "q + d"(x) {program=<1: v1 = const 0.25; v2 = div v0 v1; v3 = round v2; v4 = clip v3 -32768 32767; v5 = mul v4 v1>}
                      m = Shuffle(d) {has_reshape=true, reshape=[3, 2]}
                      y = ElementWise(m, m) {op=add}
                      v = PointWise "r + v"(m) {program=<1: v1 = const 0.5; v2 = div v0 v1; v3 = round v2; v4 = clip v3 -32768 32767; v5 = mul v4 v1>})ir");
}

TEST(WideQuantizeFusion, CodesThatOthersReadStay) {
  const std::string start =
      "q = Quantize(x, s, z) {type=uint16}\nd = Dequantize(q, s, z) {type=uint16}\n";
  expect_rewrite(wide_quantize_fusion, wide("y: uint16[2, 3] = Unary(q) {op=identity}", "d, y"),
                 start + "y = Unary(q)");
  expect_rewrite(wide_quantize_fusion,
                 wide("y: float[2, 3] = Dequantize(q, t, z) {type=uint16}", "d, y"),
                 start + "y = Dequantize(q, t, z) {type=uint16}");
}

TEST(QDQToCopy, BecomePointWise) {
  expect_rewrite(
      qdq_to_copy,
      graph("input x: float[2, 3]",
            "a: uint8[2, 3] = Quantize(x, s, o) {type=uint8}\n"
            "y: float[2, 3] = Dequantize(a, s, o) {type=uint8}",
            "y"),
      R"ir(a = PointWise(x) {program=<1: v1 = const 20; v2 = mul v0 v1; v3 = round v2; v4 = const 3; v5 = add v3 v4>, type=uint8}
                      y = PointWise(a) {program=<1: v1 = const 3; v2 = sub v0 v1; v3 = const 0.05; v4 = mul v2 v3>})ir");
}

TEST(QDQToCopy, OneZeroPointOfAllChannels) {
  const auto text = [](int zero) {
    return fmt::format(R"ir(graph "g" {{
    input x: float[2, 3]
    constant s: float[3] = [0.5, 0.25, 0.1]
    constant z: uint8[3] = [{0}, {0}, {0}]
    a: uint8[2, 3] = Quantize(x, s, z) {{axis=1, type=uint8}}
    y: float[2, 3] = Dequantize(a, s, z) {{axis=1, type=uint8}}
    output y
  }})ir",
                       zero);
  };
  expect_rewrite(
      qdq_to_copy, text(0),
      R"ir(a = PointWise(x, "a scale") {program=<2: v2 = mul v0 v1; v3 = round v2>, type=uint8}
           y = PointWise(a, "y scale") {program=<2: v2 = mul v0 v1>})ir");
  expect_rewrite(
      qdq_to_copy, text(9),
      R"ir(a = PointWise(x, "a scale") {program=<2: v2 = mul v0 v1; v3 = round v2; v4 = const 9; v5 = add v3 v4>, type=uint8}
           y = PointWise(a, "y scale") {program=<2: v2 = const 9; v3 = sub v0 v2; v4 = mul v3 v1>})ir");
}

TEST(QDQToCopy, OneScalePerChannel) {
  expect_rewrite(
      qdq_to_copy, R"ir(graph "g" {
    input x: float[2, 3, 2]
    constant s: float[3] = [0.5, 0.25, 0.1]
    constant z: int8[3] = [0, 1, 2]
    a: int8[2, 3, 2] = Quantize(x, s, z) {axis=1, type=int8}
    y: float[2, 3, 2] = Dequantize(a, s, z) {axis=1, type=int8}
    output y
  })ir",
      R"ir(a = PointWise(x, "a scale", "a zero point") {program=<3: v3 = mul v0 v1; v4 = round v3; v5 = add v4 v2>, type=int8}
                      y = PointWise(a, "y scale", "y zero point") {program=<3: v3 = sub v0 v2; v4 = mul v3 v1>})ir");
}

TEST(QuantizePooling, AverageOfCodesIsScaledAfterwards) {
  expect_rewrite(quantize_pooling,
                 graph("input x: uint8[1, 2, 4, 4]",
                       "d: float[1, 2, 4, 4] = Dequantize(x, s, o) {type=uint8}\n"
                       "y: float[1, 2, 1, 1] = Pooling(d) {type=average, global=true}",
                       "y"),
                 R"ir("y (mean of codes)" = Pooling "y"(x) {type=average, global=true}
                      y = PointWise "d"("y (mean of codes)") {program=<1: v1 = const 3; v2 = sub v0 v1; v3 = const 0.05; v4 = mul v2 v3>})ir");
}

// The mean of a window without pixels is 0, which is not the code of 0.
TEST(QuantizePooling, WindowsInPaddingStayFloats) {
  const std::string input = "d: float[1, 2, 4, 4] = Dequantize(x, s, o) {type=uint8}\n";
  const auto stays = [&](const std::string& shape, const std::string& window) {
    expect_rewrite(
        quantize_pooling,
        graph("input x: uint8[1, 2, 4, 4]",
              input + "y: float" + shape + " = Pooling(d) {type=average, " + window + "}", "y"),
        "d = Dequantize(x, s, o) {type=uint8}\ny = Pooling(d) {type=average, " + window + "}");
  };
  stays("[1, 2, 6, 6]",
        "kernel=[1, 1], stride=[1, 1], dilation=[1, 1], pre_padding=[1, 1], post_padding=[1, 1]");
  // Taps on both sides of the image.
  stays("[1, 2, 4, 1]",
        "kernel=[1, 2], stride=[1, 1], dilation=[1, 5], pre_padding=[0, 1], post_padding=[0, 1]");
}

// --- chains between codes

int convert_and_fuse(ir::Graph& g, Records* records) {
  return qdq_to_copy(g, records) + pointwise_fusion(g, records) + epilogue_fusion(g, records);
}

TEST(PointWiseFusion, ChainBetweenCodesIsOneLayerOfOneInput) {
  expect_rewrite(
      convert_and_fuse,
      graph("input x: int8[4]",
            dq("a", "x", "4") + dq("b", "x", "4") + "g: float[4] = Activation(a) {op=sigmoid}\n" +
                q("h", "g", "4", "t") + dq("i", "h", "4", "t") +
                "m: float[4] = ElementWise(b, i) {op=mul}\n" + q("y", "m", "4"),
            "y"),
      R"ir(y = PointWise "PWN(a, g, h, i, b, m, y)"(x) {program=<1: v1 = const 0.05; v2 = mul v0 v1; v3 = sigmoid v2; v4 = const 12.5; v5 = mul v3 v4; v6 = round v5; v7 = clip v6 -128 127; v8 = mul v0 v7; v9 = const 0.080000006; v10 = mul v8 v9>, type=int8})ir");
}

TEST(PointWiseFusion, SumOfCodes) {
  expect_rewrite(
      convert_and_fuse,
      graph("input x: int8[4]\ninput v: int8[4]",
            dq("a", "x", "4") + dq("b", "v", "4", "t") +
                "m: float[4] = ElementWise(a, b) {op=add}\n" + q("y", "m", "4") +
                "r: float[4] = Activation(a) {op=relu}",
            "y, r"),
      R"ir(y = PointWise "PWN(b, a, m, y)"(v, x) {program=<2: v2 = const 0.08; v3 = const 0.05; v4 = mul v0 v2; v5 = fma v1 v3 v4; v6 = const 20; v7 = mul v5 v6>, type=int8}
                      r = PointWise "PWN(a, r)"(x) {program=<1: v1 = const 0.05; v2 = mul v0 v1; v3 = relu v2>})ir");
}

// Everything on a small network: layers of the optimized graph, and its numbers.
std::string optimized(const std::string& text) {
  std::unique_ptr<ir::Graph> graph = std::move(ir::parse_graph(text)).value();
  const std::unique_ptr<ir::Graph> original = std::move(ir::parse_graph(text)).value();
  PassRecord record;
  const Status status = optimize(*graph, record);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(ir::verify(*graph).ok()) << ir::verify(*graph).message();
  expect_same_numbers(*original, *graph, 1.01 / 127);  // one step, at rounding ties
  return layer_lines(*graph);
}

TEST(QuantizedNetwork, ConvolutionsTakeActivationResidualAndRequantization) {
  const std::string conv = std::string("{") + kWindow3x3 + "}\n";
  const std::string lines = optimized(graph(
      "input x: float[1, 4, 6, 6]",
      "constant w: int8[4, 4, 3, 3] = random(1)\nconstant k: int8[4, 4, 3, 3] = random(2)\n" +
          q("qx", "x", "1, 4, 6, 6") + dq("dx", "qx", "1, 4, 6, 6") +
          dq("dw", "w", "4, 4, 3, 3", "t") + "c: float[1, 4, 6, 6] = Convolution(dx, dw) " + conv +
          "r: float[1, 4, 6, 6] = Activation(c) {op=relu}\n" + q("qr", "r", "1, 4, 6, 6", "t") +
          dq("dr", "qr", "1, 4, 6, 6", "t") + dq("dk", "k", "4, 4, 3, 3", "t") +
          "e: float[1, 4, 6, 6] = Convolution(dr, dk) " + conv +
          "a: float[1, 4, 6, 6] = ElementWise(e, dx) {op=add}\n"
          "v: float[1, 4, 6, 6] = Activation(a) {op=relu}\n" +
          q("qv", "v", "1, 4, 6, 6", "t") + dq("y", "qv", "1, 4, 6, 6", "t"),
      "y"));
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 3) << lines;  // Q, conv, conv
  EXPECT_NE(lines.find("zero_point=128"), std::string::npos) << lines;
  EXPECT_EQ(lines.find("int8,"), lines.find("uint8,") + 1) << lines;
}

// As NNCF writes depthwise convolutions.
TEST(QuantizedNetwork, DepthwiseConvolutionsOfOneScalePerChannel) {
  const std::string lines = optimized(R"ir(graph "g" {
    input x: float[1, 3, 6, 6]
    constant s: float[3] = [0.02, 0.01, 0.0235]
    constant z: uint8[3] = [0, 0, 0]
    constant t: float[] = [0.03]
    constant v: float[6] = [0.1, 0.05, 0.02, 0.01, 0.2, 0.3]
    constant w: int8[6, 1, 3, 3] = random(1)
    constant zero: int8[] = [0]
    constant b: float[6] = [1, 2, 3, -1, -2, -3]
    r: float[1, 3, 6, 6] = Activation(x) {op=relu}
    a: uint8[1, 3, 6, 6] = Quantize(r, s, z) {axis=1, type=uint8}
    d: float[1, 3, 6, 6] = Dequantize(a, s, z) {axis=1, type=uint8}
    p: float[1, 3, 8, 8] = Pad(d) {pre=[0, 0, 1, 1], post=[0, 0, 1, 1]}
    dw: float[6, 1, 3, 3] = Dequantize(w, v) {axis=0, type=int8}
    c: float[1, 6, 6, 6] = Convolution(p, dw, b) {kernel=[3, 3], stride=[1, 1], dilation=[1, 1], pre_padding=[0, 0], post_padding=[0, 0], groups=3}
    k: int8[1, 6, 6, 6] = Quantize(c, t, zero) {type=int8}
    y: float[1, 6, 6, 6] = Dequantize(k, t, zero) {type=int8}
    output y
  })ir");
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 2) << lines;  // Q, convolution
  EXPECT_NE(lines.find("Convolution \"p + w + c"), std::string::npos) << lines;
  EXPECT_NE(lines.find("pre_padding=[1, 1]"), std::string::npos) << lines;
}

TEST(SignedToUnsigned, CodesMoveWithTheirReaders) {
  expect_rewrite(
      signed_to_unsigned, R"ir(graph "g" {
    input x: float[1, 4, 4, 4]
    constant w: int8[4, 4, 1, 1] = random(1)
    constant f: float[4, 1, 1] = [0.1, 0.2, 0.3, 0.4]
    a: int8[1, 4, 4, 4] = PointWise(x) {program=<1: v1 = const 40; v2 = mul v0 v1>, type=int8}
    p: int8[1, 4, 2, 2] = Pooling(a) {kernel=[2, 2], stride=[2, 2], dilation=[1, 1], pre_padding=[0, 0], post_padding=[0, 0]}
    c: int8[1, 4, 2, 2] = Convolution(p, w, _, f, p) {kernel=[1, 1], stride=[1, 1], dilation=[1, 1], pre_padding=[0, 0], post_padding=[0, 0], type=int8, epilogue=<3: v3 = fma v0 v1 v2; v4 = relu v3>}
    y: float[1, 4, 2, 2] = PointWise(c) {program=<1: v1 = sqrt v0>}
    output y
  })ir",
      R"ir(a = PointWise(x) {program=<1: v1 = const 40; v2 = mul v0 v1; v3 = round v2; v4 = const 128; v5 = add v3 v4>, type=uint8}
                      p = Pooling(a) {kernel=[2, 2], stride=[2, 2], dilation=[1, 1], pre_padding=[0, 0], post_padding=[0, 0]}
                      c = Convolution(p, w, _, f, p) {kernel=[1, 1], stride=[1, 1], dilation=[1, 1], pre_padding=[0, 0], post_padding=[0, 0], zero_point=128, type=uint8, epilogue=<3: v3 = const -128; v4 = add v2 v3; v5 = fma v0 v1 v4; v6 = clip v5 0 127>}
                      y = PointWise(c) {program=<1: v1 = sqrt v0>})ir");
}

// A SiLU gives -0.2785 at least: seven negative codes at this scale. Products learn the largest
// code, here and behind what only moves codes.
TEST(SignedToUnsigned, FewNegativeCodesMoveALittle) {
  const auto passes = [](ir::Graph& graph, Records* records) {
    return signed_to_unsigned(graph, records) + code_bounds(graph, records);
  };
  expect_rewrite(
      passes, R"ir(graph "g" {
    input x: float[1, 4, 4, 4]
    constant w: int8[4, 4, 1, 1] = random(1)
    a: int8[1, 4, 4, 4] = PointWise(x) {program=<1: v1 = silu v0 1; v2 = const 25; v3 = mul v1 v2>, type=int8}
    p: int8[1, 4, 2, 2] = Pooling(a) {kernel=[2, 2], stride=[2, 2], dilation=[1, 1], pre_padding=[0, 0], post_padding=[0, 0]}
    y: float[1, 4, 2, 2] = Convolution(p, w) {kernel=[1, 1], stride=[1, 1], dilation=[1, 1], pre_padding=[0, 0], post_padding=[0, 0]}
    z: float[1, 4, 4, 4] = PointWise(a) {program=<1: v1 = abs v0>}
    output y
    output z
  })ir",
      R"ir(a = PointWise(x) {program=<1: v1 = silu v0 1; v2 = const 25; v3 = mul v1 v2; v4 = clip v3 -7 127; v5 = round v4; v6 = const 7; v7 = add v5 v6>, type=uint8}
                      p = Pooling(a) {kernel=[2, 2], stride=[2, 2], dilation=[1, 1], pre_padding=[0, 0], post_padding=[0, 0]}
                      y = Convolution(p, w) {kernel=[1, 1], stride=[1, 1], dilation=[1, 1], pre_padding=[0, 0], post_padding=[0, 0], zero_point=7, x_maximum=134}
                      z = PointWise(a) {program=<1: v1 = const -7; v2 = add v0 v1; v3 = abs v2>})ir");
}

// Padding that an average counts is code 0: it would be another value.
TEST(SignedToUnsigned, CodesWhosePaddingCountsStay) {
  expect_rewrite(signed_to_unsigned, R"ir(graph "g" {
    input x: float[1, 4, 4, 4]
    a: int8[1, 4, 4, 4] = PointWise(x) {program=<1: v1 = const 40; v2 = mul v0 v1>, type=int8}
    y: float[1, 4, 4, 4] = Pooling(a) {type=average, kernel=[3, 3], stride=[1, 1], dilation=[1, 1], pre_padding=[1, 1], post_padding=[1, 1], count_includes_padding=true}
    output y
  })ir",
                 R"ir(a = PointWise(x) {program=<1: v1 = const 40; v2 = mul v0 v1>, type=int8}
                      y = Pooling(a) {type=average, kernel=[3, 3], stride=[1, 1], dilation=[1, 1], pre_padding=[1, 1], post_padding=[1, 1], count_includes_padding=true})ir");
}

// After a ReLU codes of zero point 128 are 128 to 255; they are 0 to 127 then, also in what is
// concatenated with them.
TEST(CodesFromZero, CodesMoveDownWithTheirReaders) {
  const auto passes = [](ir::Graph& graph, Records* records) {
    return codes_from_zero(graph, records) + code_bounds(graph, records);
  };
  expect_rewrite(
      passes, R"ir(graph "g" {
    input x: float[1, 4, 4, 4]
    constant w: int8[4, 8, 1, 1] = random(1)
    constant f: float[4, 1, 1] = [0.1, 0.2, 0.3, 0.4]
    a: uint8[1, 4, 4, 4] = PointWise(x) {program=<1: v1 = relu v0; v2 = const 40; v3 = mul v1 v2; v4 = round v3; v5 = const 128; v6 = add v4 v5>, type=uint8}
    b: uint8[1, 4, 4, 4] = PointWise(x) {program=<1: v1 = abs v0; v2 = const 130; v3 = add v1 v2>, type=uint8}
    p: uint8[1, 8, 4, 4] = Concatenation(a, b) {axis=1}
    y: uint8[1, 4, 4, 4] = Convolution(p, w, _, f) {kernel=[1, 1], stride=[1, 1], dilation=[1, 1], pre_padding=[0, 0], post_padding=[0, 0], zero_point=128, type=uint8, epilogue=<2: v2 = mul v0 v1; v3 = const 128; v4 = add v2 v3>}
    z: float[1, 4, 4, 4] = PointWise(y, a) {program=<2: v2 = add v0 v1>}
    output z
  })ir",
      R"ir(a = PointWise(x) {program=<1: v1 = relu v0; v2 = const 40; v3 = mul v1 v2; v4 = clip v3 0 127>, type=uint8}
                      b = PointWise(x) {program=<1: v1 = abs v0; v2 = const 130; v3 = add v1 v2; v4 = clip v3 128 255; v5 = round v4; v6 = const -128; v7 = add v5 v6>, type=uint8}
                      p = Concatenation(a, b) {axis=1}
                      y = Convolution(p, w, _, f) {kernel=[1, 1], stride=[1, 1], dilation=[1, 1], pre_padding=[0, 0], post_padding=[0, 0], x_maximum=127, type=uint8, epilogue=<2: v2 = mul v0 v1; v3 = const 128; v4 = add v2 v3>}
                      z = PointWise(y, a) {program=<2: v2 = const 128; v3 = add v1 v2; v4 = add v0 v3>})ir");
}

// Nothing is known to be the least code of a; b is the network's own result.
TEST(CodesFromZero, OthersStay) {
  const std::string kept =
      R"ir(a = PointWise(x) {program=<1: v1 = const 40; v2 = mul v0 v1; v3 = round v2; v4 = const 128; v5 = add v3 v4>, type=uint8}
                      b = PointWise(x) {program=<1: v1 = relu v0; v2 = round v1; v3 = const 128; v4 = add v2 v3>, type=uint8}
                      y = PointWise(a) {program=<1: v1 = sqrt v0>})ir";
  expect_rewrite(codes_from_zero, R"ir(graph "g" {
    input x: float[1, 4]
    a: uint8[1, 4] = PointWise(x) {program=<1: v1 = const 40; v2 = mul v0 v1; v3 = round v2; v4 = const 128; v5 = add v3 v4>, type=uint8}
    b: uint8[1, 4] = PointWise(x) {program=<1: v1 = relu v0; v2 = round v1; v3 = const 128; v4 = add v2 v3>, type=uint8}
    y: float[1, 4] = PointWise(a) {program=<1: v1 = sqrt v0>}
    output y
    output b
  })ir",
                 kept);
}

TEST(SignedToUnsigned, TheNetworksOwnCodesAreCopied) {
  expect_rewrite(
      signed_to_unsigned, R"ir(graph "g" {
    input x: int8[3, 4]
    constant w: int8[4, 5] = random(1)
    y: float[3, 5] = MatrixMultiply(x, w)
    output y
  })ir",
      R"ir("x (unsigned)" = PointWise(x) {program=<1: v1 = const 128; v2 = add v0 v1>, type=uint8}
                      y = MatrixMultiply("x (unsigned)", w) {a_zero_point=128})ir");
}

TEST(RequantizeFusion, ScalesReachTheFactorsAndBoundsGo) {
  expect_rewrite(
      requantize_fusion, R"ir(graph "g" {
    input x: uint8[1, 4]
    constant w: int8[4, 2] = random(1)
    constant f: float[2] = [0.01, 0.02]
    constant b: float[2] = [1, -1]
    y: uint8[1, 2] = MatrixMultiply(x, w, _, f, b) {type=uint8, epilogue=<3: v3 = fma v0 v1 v2; v4 = clip v3 0 6; v5 = const 50; v6 = mul v4 v5>}
    output y
  })ir",
      R"ir(y = MatrixMultiply(x, w, _, "f (requantized)", "b (requantized)") {type=uint8, epilogue=<3: v3 = fma v0 v1 v2>})ir");
}

// A bound that saturates in every channel goes, one that does not in some channel stays.
TEST(RequantizeFusion, BoundsInFrontOfOneScalePerChannel) {
  const auto text = [](const char* scales) {
    return fmt::format(R"ir(graph "g" {{
    input x: uint8[1, 4]
    constant w: int8[4, 2] = random(1)
    constant f: float[2] = [0.01, 0.02]
    constant b: float[2] = [1, -1]
    constant r: float[2] = {}
    y: uint8[1, 2] = MatrixMultiply(x, w, _, f, b, r) {{type=uint8, epilogue=<4: v4 = fma v0 v1 v2; v5 = clip v4 0 6; v6 = mul v3 v5; v7 = round v6>}}
    output y
  }})ir",
                       scales);
  };
  expect_rewrite(
      requantize_fusion, text("[50, 42.5]"),
      R"ir(y = MatrixMultiply(x, w, _, f, b, r) {type=uint8, epilogue=<4: v4 = fma v0 v1 v2; v5 = mul v3 v4; v6 = round v5>})ir");
  expect_rewrite(
      requantize_fusion, text("[50, 40]"),
      R"ir(y = MatrixMultiply(x, w, _, f, b, r) {type=uint8, epilogue=<4: v4 = fma v0 v1 v2; v5 = clip v4 -inf 6; v6 = mul v3 v5; v7 = round v6>})ir");
}

TEST(HorizontalMerge, QuantizedSiblingsStackFactorsAndBiases) {
  expect_rewrite(
      horizontal_merge, R"ir(graph "g" {
    input x: uint8[2, 4]
    constant w: int8[4, 2] = random(1)
    constant v: int8[4, 3] = random(2)
    constant f: float[2] = [0.01, 0.02]
    constant g: float[3] = [0.03, 0.04, 0.05]
    constant b: int32[3] = [10, 20, 30]
    y: float[2, 2] = MatrixMultiply(x, w, _, f) {a_zero_point=7, epilogue=<2: v2 = mul v0 v1>}
    z: float[2, 3] = MatrixMultiply(x, v, b, g) {a_zero_point=7, epilogue=<2: v2 = mul v0 v1>}
    output y, z
  })ir",
      R"ir("y || z" = MatrixMultiply(x, "w || v", b_1, "f || g") {a_zero_point=7, epilogue=<2: v2 = mul v0 v1>}
                      y = Slice "y (slice)"("y || z") {start=[0, 0], size=[2, 2], step=[1, 1]}
                      z = Slice "z (slice)"("y || z") {start=[0, 2], size=[2, 3], step=[1, 1]})ir");
}

}  // namespace
}  // namespace camshaft::passes
