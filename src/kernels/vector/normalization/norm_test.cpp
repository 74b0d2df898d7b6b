// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/layer_test_util.h"

namespace camshaft::kernels {
namespace {

using ir::LayerKind;
using ir::NormKind;
using test::check_layer;
using test::make_layer;
using test::TestLayer;

std::string text(const ir::Extents& shape) {
  return ::testing::PrintToString(std::vector<int64_t>(shape.begin(), shape.end()));
}

TestLayer normalization(ir::NormalizationAttrs attrs, const ir::Extents& shape,
                        const ir::Extents& affine, bool scale, bool bias, double mean) {
  TestLayer layer{.layer = make_layer(LayerKind::kNormalization, attrs),
                  .inputs = {{.extents = shape}},
                  .outputs = {{.extents = shape}},
                  .tolerance = 2e-5};
  layer.inputs[0].value = [mean](int64_t k) {
    return static_cast<float>(mean + static_cast<double>(k * 7919 % 1013) / 500);
  };
  layer.inputs.push_back({.extents = affine, .is_data = false, .present = scale});
  layer.inputs.push_back({.extents = affine, .is_data = false, .present = bias});
  return layer;
}

TEST(Normalization, Lines) {
  for (const NormKind kind : {NormKind::kLayer, NormKind::kRms})
    for (const ir::Extents& shape : {ir::Extents{2, 7, 120},
                                     {4, 64},
                                     {1, 3, 5, 17},
                                     {3, 1300},
                                     {5, 1},
                                     {2, 150, 4},
                                     {9, 21, 32},
                                     {1, 1, 3},
                                     {301, 33}})
      for (const bool affine : {false, true}) {
        ir::NormalizationAttrs attrs;
        attrs.kind = kind, attrs.axis = static_cast<int64_t>(shape.size()) - 1;
        TestLayer layer = normalization(attrs, shape, {shape.back()}, affine, affine, 1);
        check_layer(layer, text(shape));
      }
  ir::NormalizationAttrs attrs;
  attrs.axis = 1;
  TestLayer layer = normalization(attrs, {3, 4, 5}, {4, 5}, true, false, 100);
  layer.strided_inputs = layer.strided_outputs = false;
  layer.tolerance = 2e-4;  // of a mean a hundred times the deviation
  check_layer(layer, "two axes");
}

TEST(Normalization, LayerOverSpaceRunsChannelLast) {
  for (const ir::Extents& shape : {ir::Extents{1, 40, 9, 7}, {2, 5, 30}}) {
    ir::NormalizationAttrs attrs;
    attrs.axis = 2;
    TestLayer layer = normalization(attrs, shape, {1}, false, false, 2);
    layer.only = "nhwc";
    check_layer(layer, text(shape));
  }
}

TEST(Normalization, Maps) {
  for (const NormKind kind : {NormKind::kInstance, NormKind::kGroup})
    for (const ir::Extents& shape : {ir::Extents{2, 24, 9, 7},
                                     {1, 66, 5, 13},
                                     {3, 4, 100},
                                     {1, 12, 40, 40},
                                     {9, 20, 3, 2},
                                     {1, 150, 7, 9},
                                     {19, 96},
                                     {3, 70, 1, 1},
                                     {5, 6}}) {
      ir::NormalizationAttrs attrs;
      attrs.kind = kind, attrs.groups = 2, attrs.epsilon = 1e-3f;
      TestLayer layer = normalization(attrs, shape, {shape[1]}, true, true, 3);
      layer.strided_inputs = layer.strided_outputs = false;
      check_layer(layer, text(shape));
      ir::Program silu{2, {}};
      ir::append(silu, ir::PointOp::kAdd, ir::append(silu, ir::PointOp::kSilu, 0, -1, -1, 1), 1);
      attrs.epilogue = silu;
      layer.layer->attrs = attrs;
      layer.inputs.push_back({.extents = shape});
      check_layer(layer, "with an epilogue");
    }
}

// Of one factor per group, per channel of one group, and none.
TEST(Normalization, FactorsOfGroups) {
  for (const ir::Extents& shape : {ir::Extents{2, 96, 5, 3}, {7, 96}, {3, 12, 8}})
    for (const int64_t given : {int64_t{1}, int64_t{3}, shape[1]})
      for (const bool bias : {false, true}) {
        ir::NormalizationAttrs attrs;
        attrs.kind = NormKind::kGroup, attrs.groups = 3, attrs.epsilon = 1e-3f;
        TestLayer layer = normalization(attrs, shape, {given}, true, bias, 2);
        layer.strided_inputs = layer.strided_outputs = false;
        check_layer(layer, text(shape) + " factors of " + std::to_string(given));
      }
}

}  // namespace
}  // namespace camshaft::kernels
