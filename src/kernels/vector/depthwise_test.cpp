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
