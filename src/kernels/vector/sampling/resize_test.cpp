// SPDX-License-Identifier: Apache-2.0
#include "kernels/resize_axis.h"
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

// Any dimensions, of any rank: images whose channels come last, volumes, one dimension alone.
TEST(Resize, AnyDimensions) {
  struct Row {
    Extents x, y;
  };
  for (const Row& row : {Row{{2, 7, 9, 5}, {2, 14, 18, 5}},
                         {{1, 9, 11, 40}, {1, 4, 25, 40}},
                         {{2, 6, 8, 70}, {2, 9, 8, 70}},
                         {{1, 3, 4, 4}, {1, 6, 8, 8}},
                         {{1, 2, 5, 6, 7}, {1, 2, 8, 9, 20}},
                         {{5, 37}, {9, 37}},
                         {{5, 37}, {5, 80}},
                         {{23}, {60}},
                         {{2, 3, 70, 21}, {2, 3, 30, 50}}})
    for (const ResizeMode mode : {ResizeMode::kNearest, ResizeMode::kLinear, ResizeMode::kCubic})
      for (const CoordinateTransform transform :
           {CoordinateTransform::kHalfPixel, CoordinateTransform::kAlignCorners})
        EXPECT_GT(check(make_attrs(mode, transform), row.x, row.y,
                        transform == CoordinateTransform::kHalfPixel),
                  0);
}

TEST(Resize, Antialiased) {
  for (const ResizeMode mode : {ResizeMode::kLinear, ResizeMode::kCubic})
    for (const bool exclude_outside : {false, true})
      for (const auto& [x, y] : {std::pair<Extents, Extents>{{1, 3, 50, 61}, {1, 3, 20, 24}},
                                 {{2, 19, 12, 33}, {2, 19, 30, 7}},
                                 {{1, 30, 31, 3}, {1, 7, 40, 3}},
                                 {{3, 90}, {3, 4}}}) {
        ir::ResizeAttrs attrs = make_attrs(mode);
        attrs.antialias = true;
        attrs.exclude_outside = exclude_outside;
        attrs.cubic_coefficient = exclude_outside ? -0.5f : -0.75f;
        EXPECT_GT(check(attrs, x, y, false), 0);
        attrs.antialias = false;
        EXPECT_GT(check(attrs, x, y, true), 0);
      }
}

TEST(Resize, NearestOfEveryType) {
  for (const DataType type :
       {DataType::kBool, DataType::kInt64, DataType::kInt32, DataType::kDouble, DataType::kInt16,
        DataType::kHalf, DataType::kBFloat16}) {
    ir::ResizeAttrs attrs = make_attrs(ResizeMode::kNearest);
    attrs.sizes = {2, 3, 11, 20};
    LayerCheck layer({.layer = make_layer(ir::LayerKind::kResize, attrs),
                      .inputs = {{.extents = {2, 3, 5, 9}, .type = type}},
                      .outputs = {{.extents = {2, 3, 11, 20}, .type = type}},
                      .tolerance = 0});
    EXPECT_GT(layer.run(), 0) << layer.last_refusal();
  }
}

TEST(Resize, LargeDimensionsForThreads) {
  ir::ResizeAttrs attrs = make_attrs(ResizeMode::kCubic);
  attrs.antialias = true;
  EXPECT_GT(check(attrs, {1, 3, 300, 211}, {1, 3, 100, 90}, true), 0);
  EXPECT_GT(check(make_attrs(ResizeMode::kLinear), {40, 3000}, {90, 3000}, true), 0);
}

// What lies between two inputs in doubles is one of them in floats.
TEST(ResizeAxis, NearestPositionsAreThoseOfFloats) {
  ir::ResizeAttrs attrs =
      make_attrs(ResizeMode::kNearest, CoordinateTransform::kAsymmetric, NearestRounding::kFloor);
  attrs.scales = {0.6f};
  const ResizeAxis axis = resize_axis(attrs, 0, 9, 5);
  const int64_t wanted[] = {0, 1, 3, 5, 6};
  for (int64_t k = 0; k < 5; ++k) EXPECT_EQ(nearest_position(attrs, axis, k), wanted[k]) << k;
}

}  // namespace
}  // namespace camshaft::kernels::test
