// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/layer_test_util.h"

namespace camshaft::kernels {
namespace {

using ir::ConvolutionAttrs;
using ir::LayerKind;
using ir::PointOp;
using test::check_layer;
using test::TestLayer;

struct Case {
  int64_t n, c, h, w, k, stride, dilation, pad;
};

TestLayer depthwise(const Case& t, ir::Program epilogue = {}) {
  ConvolutionAttrs attrs;
  attrs.kernel = {t.k, t.k}, attrs.stride = {t.stride, t.stride},
  attrs.dilation = {t.dilation, t.dilation};
  attrs.pre_padding = attrs.post_padding = {t.pad, t.pad};
  attrs.groups = t.c;
  attrs.epilogue = epilogue;
  const int64_t reach = (t.k - 1) * t.dilation + 1;
  const int64_t oh = (t.h + 2 * t.pad - reach) / t.stride + 1,
                ow = (t.w + 2 * t.pad - reach) / t.stride + 1;
  TestLayer layer{.layer = test::make_layer(LayerKind::kConvolution, attrs),
                  .inputs = {{.extents = {t.n, t.c, t.h, t.w}},
                             {.extents = {t.c, 1, t.k, t.k}, .is_data = false, .is_constant = true},
                             {.extents = {t.c}, .is_data = false, .is_constant = true}},
                  .outputs = {{.extents = {t.n, t.c, oh, ow}}},
                  .tolerance = 1e-6 * static_cast<double>(t.k * t.k),
                  .only = "depthwise"};
  return layer;
}

std::string name(const Case& t) {
  return test::words({t.n, t.c, t.h, t.w, t.k, t.stride, t.dilation, t.pad});
}

// Channel tails, pixel tails, borders on every side, windows larger than the map.
TEST(Depthwise, Shapes) {
  for (const int64_t c : {3, 16, 24, 33, 112, 120})
    for (const int64_t w : {1, 2, 5, 7, 13, 20})
      for (const Case& base : {Case{1, 0, 5, 0, 3, 1, 1, 1},
                               {2, 0, 6, 0, 3, 2, 1, 1},
                               {1, 0, 6, 0, 3, 2, 1, 0},
                               {1, 0, 7, 0, 5, 1, 1, 2},
                               {1, 0, 7, 0, 5, 2, 1, 2},
                               {1, 0, 9, 0, 3, 1, 2, 2},
                               {1, 0, 9, 0, 3, 1, 12, 12},
                               {1, 0, 7, 0, 7, 3, 1, 3},
                               {1, 0, 8, 0, 7, 1, 1, 3},
                               {1, 0, 8, 0, 7, 1, 1, 0},
                               {2, 0, 5, 0, 9, 1, 1, 4},
                               {1, 0, 4, 0, 1, 1, 1, 0},
                               {1, 0, 5, 0, 2, 1, 1, 1}}) {
        Case t = base;
        t.c = c, t.w = w;
        if (t.w + 2 * t.pad < (t.k - 1) * t.dilation + 1 ||
            t.h + 2 * t.pad < (t.k - 1) * t.dilation + 1)
          continue;
        check_layer(depthwise(t), name(t));
      }
}

// Several outputs of each channel, of one as well: whole vectors of outputs, tails, strides.
TEST(Depthwise, ChannelMultipliers) {
  for (const auto& [c, multiplier] :
       {std::pair<int64_t, int64_t>{32, 2}, {5, 4}, {17, 3}, {1, 32}, {40, 5}, {130, 2}, {3, 8}})
    for (const Case& base : {Case{2, 0, 7, 9, 3, 1, 1, 1},
                             {1, 0, 9, 20, 5, 2, 1, 2},
                             {1, 0, 11, 13, 3, 1, 2, 2},
                             {1, 0, 13, 70, 7, 3, 1, 3},
                             {1, 0, 9, 17, 2, 4, 1, 0}})
      for (const char* epilogue : {"", "v1 = silu v0 1", "v2 = add v0 v1; v3 = relu v2"}) {
        Case t = base;
        t.c = c;
        const bool adds = std::string_view(epilogue).find("v0 v1") != std::string_view::npos;
        TestLayer layer = depthwise(t, ir::parse_program(adds ? 2 : 1, epilogue).value());
        for (size_t k : {1, 2}) layer.inputs[k].extents[0] *= multiplier;
        layer.outputs[0].extents[1] *= multiplier;
        if (adds) layer.inputs.push_back(layer.outputs[0]);
        layer.only = "depthwise_lines";
        check_layer(layer, name(t) + " times " + std::to_string(multiplier) + epilogue);
      }
}

// Weights that only running can tell, with a bias that is constant or not, or none.
TEST(Depthwise, DynamicWeights) {
  for (const Case& t : {Case{1, 128, 27, 27, 11, 1, 1, 0},
                        {1, 3, 9, 9, 5, 1, 1, 2},
                        {2, 16, 6, 7, 3, 2, 1, 1},
                        {1, 33, 7, 20, 3, 1, 2, 2},
                        {1, 120, 5, 5, 5, 1, 1, 0},
                        {2, 40, 8, 61, 4, 3, 1, 1}})
    for (const bool dynamic_bias : {false, true}) {
      TestLayer layer = depthwise(t);
      layer.inputs[1].is_constant = false;
      layer.inputs[2].is_constant = !dynamic_bias;
      layer.only = "depthwise_dynamic";
      check_layer(layer, name(t));
    }
}

// Several strips of columns, blocks of channels and chunks of rows.
TEST(Depthwise, LargeMaps) {
  for (const Case& t : {Case{1, 140, 11, 70, 3, 1, 1, 1},
                        {2, 72, 9, 61, 5, 2, 1, 2},
                        {1, 33, 12, 70, 7, 1, 1, 3},
                        {1, 104, 12, 41, 9, 1, 1, 4},
                        {1, 24, 9, 70, 3, 2, 2, 2},
                        {1, 40, 3, 50, 5, 1, 4, 8},
                        {1, 70, 17, 9, 1, 2, 1, 0},
                        {1, 520, 7, 7, 3, 1, 1, 1}})
    check_layer(depthwise(t), name(t));
}

TEST(Depthwise, Epilogues) {
  const Case t{1, 140, 9, 11, 3, 1, 1, 1};
  ir::Program relu6{1, {}}, silu{1, {}}, leaky{1, {}}, add_relu{2, {}}, gate{3, {}};
  ir::append(relu6, PointOp::kClip, 0, -1, -1, 0, 6);
  ir::append(silu, PointOp::kSilu, 0, -1, -1, 1);
  ir::append(leaky, PointOp::kLeakyRelu, 0, -1, -1, 0.1f);
  ir::append(add_relu, PointOp::kRelu, ir::append(add_relu, PointOp::kAdd, 0, 1));
  ir::append(gate, PointOp::kFma, 0, 1, 2);
  check_layer(depthwise(t, relu6), "relu6");
  check_layer(depthwise(t, silu), "silu");
  check_layer(depthwise(t, leaky), "leaky");
  check_layer(depthwise(t, ir::parse_program(1, "v1 = hard_swish v0").value()), "hard swish");
  TestLayer layer = depthwise(t, add_relu);
  layer.inputs.push_back(layer.outputs[0]);
  check_layer(layer, "residual");
  layer.inputs[3].extents = {1, 140, 1, 1};
  check_layer(layer, "residual per channel");
  layer = depthwise(t, gate);
  layer.inputs.push_back({.extents = {1, 140, 1, 1}});
  layer.inputs.push_back(layer.outputs[0]);
  check_layer(layer, "gate and residual");
}

// --- quantized

// uint8 inputs and int8 weights with their extremes, a bias, and a multiplier per channel.
TestLayer quantized(const Case& t, const char* epilogue, DataType out, int64_t zero_point,
                    int operands = 2) {
  TestLayer layer = depthwise(t, ir::parse_program(operands, epilogue).value());
  auto& attrs = std::get<ConvolutionAttrs>(layer.layer->attrs);
  attrs.zero_point = zero_point;
  attrs.type = out;
  layer.inputs[0].type = DataType::kUInt8;
  layer.inputs[0].value = [](int64_t k) {
    return k % 7 == 0 ? 255 : k % 5 == 0 ? 0 : k * 37 % 256;
  };
  layer.inputs[1].type = DataType::kInt8;
  layer.inputs[1].value = [](int64_t k) {
    return k % 4 == 0 ? -128 : k % 3 == 0 ? 127 : k * 29 % 256 - 128;
  };
  layer.inputs[2].type = DataType::kInt32;
  layer.inputs[2].value = [](int64_t k) { return k * 977 % 20011 - 10000; };
  layer.inputs.push_back(
      {.extents = {t.c, 1, 1}, .is_data = false, .is_constant = true, .value = [&t](int64_t k) {
         return static_cast<float>(k % 5 + 1) * 1e-5f;
       }});
  layer.outputs[0].type = out;
  layer.off_by_one = 0.002;
  layer.tolerance = 1e-5;
  return layer;
}

constexpr const char* kRequantize =
    "v2 = mul v0 v1; v3 = clip v2 0 6; v4 = const 41; v5 = mul v3 v4; v6 = round v5; "
    "v7 = const 3; v8 = add v6 v7";

TEST(Depthwise, QuantizedShapes) {
  for (const int64_t c : {3, 24, 33, 64, 140})
    for (const int64_t w : {1, 5, 7, 20})
      for (const Case& base : {Case{1, 0, 5, 0, 3, 1, 1, 1},
                               {2, 0, 6, 0, 3, 2, 1, 1},
                               {1, 0, 6, 0, 3, 2, 1, 0},
                               {1, 0, 7, 0, 5, 1, 1, 2},
                               {1, 0, 7, 0, 5, 2, 1, 2},
                               {1, 0, 9, 0, 3, 1, 2, 2},
                               {1, 0, 7, 0, 7, 3, 1, 3},
                               {1, 0, 5, 0, 2, 1, 1, 1}}) {
        Case t = base;
        t.c = c, t.w = w;
        if (t.w + 2 * t.pad < (t.k - 1) * t.dilation + 1 ||
            t.h + 2 * t.pad < (t.k - 1) * t.dilation + 1)
          continue;
        check_layer(quantized(t, kRequantize, DataType::kUInt8, w == 5 ? 0 : 113), name(t));
      }
}

// Weights less a zero point that takes them beyond int8.
TEST(Depthwise, QuantizedCenteredWeights) {
  for (const DataType type : {DataType::kUInt8, DataType::kInt8})
    for (const int64_t w_zero_point : {0, 77, 255})
      for (const Case& t : {Case{1, 33, 5, 20, 3, 1, 1, 1},
                            {2, 24, 6, 7, 3, 2, 1, 1},
                            {1, 64, 7, 20, 5, 1, 1, 2},
                            {1, 24, 7, 20, 5, 2, 1, 2},
                            {1, 3, 9, 20, 3, 1, 2, 2},
                            {1, 40, 23, 24, 11, 1, 1, 5}}) {
        TestLayer layer = quantized(t, kRequantize, DataType::kUInt8, 113);
        const bool is_signed = type == DataType::kInt8;
        layer.inputs[1].type = type;
        layer.inputs[1].value = [is_signed](int64_t k) {
          return (k % 4 == 0 ? 0 : k % 3 == 0 ? 255 : k * 29 % 256) - (is_signed ? 128 : 0);
        };
        std::get<ConvolutionAttrs>(layer.layer->attrs).w_zero_point =
            w_zero_point - (is_signed ? 128 : 0);
        check_layer(layer, name(t) + ", zero point " + std::to_string(w_zero_point));
      }
}

// Several lines of columns, an odd number of rows.
TEST(Depthwise, QuantizedWideMaps) {
  for (const Case& t : {Case{1, 80, 5, 71, 3, 1, 1, 1},
                        {1, 40, 6, 70, 3, 2, 1, 1},
                        {1, 24, 3, 97, 5, 1, 1, 2},
                        {1, 17, 3, 45, 3, 1, 3, 3}})
    check_layer(quantized(t, kRequantize, DataType::kUInt8, 200), name(t));
}

TEST(Depthwise, QuantizedEpilogues) {
  for (const Case& t : {Case{1, 140, 9, 11, 3, 1, 1, 1}, {2, 20, 6, 9, 5, 2, 1, 2}}) {
    check_layer(quantized(t, "v2 = mul v0 v1", DataType::kFloat, 7), "dequantized");
    check_layer(quantized(t, "v2 = mul v0 v1; v3 = silu v2 1", DataType::kFloat, 7), "silu");
    check_layer(quantized(t, kRequantize, DataType::kInt8, 255), "int8");
    const char* swish =
        "v2 = mul v0 v1; v3 = hard_swish v2; v4 = const 33; v5 = mul v3 v4; v6 = round v5; "
        "v7 = const 20; v8 = add v6 v7";
    check_layer(quantized(t, swish, DataType::kUInt8, 128), "hard swish");
    check_layer(quantized(t, swish, DataType::kInt8, 128), "hard swish, int8");
    check_layer(quantized(t, "v2 = mul v0 v1; v3 = hard_swish v2", DataType::kFloat, 128),
                "hard swish, float");
    const char* shifted_swish =
        "v3 = fma v0 v1 v2; v4 = const 33; v5 = hard_swish v3; v6 = const 2.5; v7 = fma v5 v4 v6; "
        "v8 = clip v7 -inf 127; v9 = round v8; v10 = const 20; v11 = add v9 v10";
    TestLayer gated = quantized(t, shifted_swish, DataType::kUInt8, 128, 3);
    gated.inputs.push_back({.extents = {t.c, 1, 1}, .is_data = false, .is_constant = true});
    check_layer(gated, "hard swish of a line");
    const char* residual =
        "v3 = mul v0 v1; v4 = const 0.011; v5 = fma v2 v4 v3; v6 = relu v5; v7 = const 41; "
        "v8 = mul v6 v7; v9 = round v8";
    TestLayer layer = quantized(t, residual, DataType::kUInt8, 128, 3);
    layer.inputs.push_back({.extents = layer.outputs[0].extents, .type = DataType::kUInt8});
    check_layer(layer, "residual");
    const char* shift = "v3 = fma v0 v1 v2; v4 = relu v3; v5 = const 41; v6 = mul v4 v5";
    layer = quantized(t, shift, DataType::kUInt8, 128, 3);
    layer.inputs.push_back({.extents = {1, t.c, 1, 1}, .is_data = false, .is_constant = true});
    check_layer(layer, "bias in the epilogue");
    layer.inputs[3].is_constant = false;
    check_layer(layer, "multiplier that is not constant");
  }
}

TEST(Depthwise, QuantizedOneDimension) {
  TestLayer layer = quantized({1, 70, 1, 33, 3, 1, 1, 0}, kRequantize, DataType::kUInt8, 99);
  auto& attrs = std::get<ConvolutionAttrs>(layer.layer->attrs);
  attrs.kernel = {3}, attrs.stride = {1}, attrs.dilation = {1}, attrs.pre_padding = {2},
  attrs.post_padding = {1};
  layer.inputs[0].extents = {2, 70, 31}, layer.inputs[1].extents = {70, 1, 3};
  layer.inputs[3].extents = {70, 1};
  layer.inputs[2].present = false;
  layer.outputs[0].extents = {2, 70, 32};
  check_layer(layer, "1-D");
}

TEST(Depthwise, OneDimensionNoBiasAndUnevenPadding) {
  ConvolutionAttrs attrs;
  attrs.kernel = {3}, attrs.stride = {1}, attrs.dilation = {1}, attrs.pre_padding = {2},
  attrs.post_padding = {0};
  attrs.groups = 20;
  TestLayer layer{.layer = test::make_layer(LayerKind::kConvolution, attrs),
                  .inputs = {{.extents = {2, 20, 31}},
                             {.extents = {20, 1, 3}, .is_data = false, .is_constant = true}},
                  .outputs = {{.extents = {2, 20, 31}}},
                  .tolerance = 1e-5,
                  .only = "depthwise"};
  check_layer(layer, "1-D");
  layer = depthwise({1, 8, 8, 10, 3, 2, 1, 0});
  auto& same = std::get<ConvolutionAttrs>(layer.layer->attrs);
  same.padding_mode = ir::PaddingMode::kSameUpper;
  layer.outputs[0].extents = {1, 8, 4, 5};
  check_layer(layer, "same upper");
}

}  // namespace
}  // namespace camshaft::kernels
