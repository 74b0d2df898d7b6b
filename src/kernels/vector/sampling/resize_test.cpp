// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/layer_test_util.h"

namespace camshaft::kernels::test {
namespace {

using ir::CoordinateTransform;
using ir::NearestRounding;
using ir::ResizeMode;

ir::ResizeAttrs make_attrs(ResizeMode mode,
                           CoordinateTransform transform = CoordinateTransform::kHalfPixel,
                           NearestRounding rounding = NearestRounding::kRoundPreferFloor) {
  ir::ResizeAttrs attrs;
  attrs.mode = mode;
  attrs.transform = transform;
  attrs.rounding = rounding;
  return attrs;
}

int check(ir::ResizeAttrs attrs, Extents x, Extents y, bool by_scale) {
  attrs.sizes.assign(y.begin(), y.end());
  if (by_scale)
    for (size_t d = 0; d < x.size(); ++d)
      attrs.scales.push_back(static_cast<float>(y[d]) / static_cast<float>(x[d]));
  int runs = 0;
  for (const DataType type : {DataType::kFloat, DataType::kUInt8, DataType::kInt8}) {
    LayerCheck layer({.layer = make_layer(ir::LayerKind::kResize, attrs),
                      .inputs = {{.extents = x, .type = type}},
                      .outputs = {{.extents = y, .type = type}},
                      .off_by_one = attrs.mode == ResizeMode::kNearest ? 0 : 0.06});
    const int own = layer.run();
    runs = type == DataType::kFloat ? own : std::min(runs, own);
  }
  return runs;
}

TEST(Resize, NearestModes) {
  for (CoordinateTransform transform :
       {CoordinateTransform::kAsymmetric, CoordinateTransform::kHalfPixel,
        CoordinateTransform::kAlignCorners, CoordinateTransform::kPytorchHalfPixel})
    for (NearestRounding rounding :
         {NearestRounding::kFloor, NearestRounding::kCeil, NearestRounding::kRoundPreferFloor,
          NearestRounding::kRoundPreferCeil}) {
      const ir::ResizeAttrs attrs = make_attrs(ResizeMode::kNearest, transform, rounding);
      EXPECT_GT(check(attrs, {1, 5, 4, 6}, {1, 5, 8, 12}, true), 0);
      check(attrs, {2, 19, 5, 3}, {2, 19, 7, 10}, false);
      check(attrs, {1, 3, 9, 8}, {1, 3, 4, 3}, false);
      check(attrs, {2, 7, 9}, {2, 7, 20}, false);
      check(attrs, {2, 1, 6, 7}, {2, 1, 15, 14}, false);
    }
}

TEST(Resize, LinearModes) {
  for (CoordinateTransform transform :
       {CoordinateTransform::kAsymmetric, CoordinateTransform::kHalfPixel,
        CoordinateTransform::kAlignCorners, CoordinateTransform::kHalfPixelSymmetric}) {
    const ir::ResizeAttrs attrs = make_attrs(ResizeMode::kLinear, transform);
    EXPECT_GT(check(attrs, {1, 5, 4, 6}, {1, 5, 8, 12}, true), 0);
    check(attrs, {2, 33, 5, 3}, {2, 33, 7, 10}, false);
    check(attrs, {1, 3, 9, 8}, {1, 3, 4, 3}, false);
    check(attrs, {1, 4, 1, 1}, {1, 4, 17, 17}, false);
    check(attrs, {2, 7, 9}, {2, 7, 20}, false);
    check(attrs, {2, 1, 6, 7}, {2, 1, 15, 14}, false);
    check(attrs, {1, 2, 6, 35}, {1, 2, 21, 70}, false);
  }
}

TEST(Resize, LargeEnoughForThreads) {
  EXPECT_GT(check(make_attrs(ResizeMode::kLinear), {1, 24, 20, 20}, {1, 24, 40, 40}, true), 0);
}

TEST(Resize, LeavesCubicAndChannelsAlone) {
  EXPECT_EQ(check(make_attrs(ResizeMode::kCubic), {1, 3, 4, 4}, {1, 3, 8, 8}, true), 0);
  EXPECT_EQ(check({}, {1, 3, 4, 4}, {1, 6, 8, 8}, true), 0);
}

}  // namespace
}  // namespace camshaft::kernels::test
