// SPDX-License-Identifier: Apache-2.0
// Layers that only move elements: exact, for elements of 1, 2, 4 and 8 bytes.
#include "kernels/vector/layer_test_util.h"

namespace camshaft::kernels {
namespace {

using ir::LayerKind;
using test::check_layer;
using test::make_layer;
using test::TestLayer;

constexpr DataType kTypes[] = {DataType::kFloat, DataType::kInt64, DataType::kUInt8,
                               DataType::kHalf};

std::string text(const ir::Extents& shape) {
  return ::testing::PrintToString(std::vector<int64_t>(shape.begin(), shape.end()));
}

ir::Extents permuted(const ir::Extents& shape, const ir::Ints& permutation) {
  ir::Extents result = shape;
  for (size_t d = 0; d < permutation.size(); ++d)
    result[d] = shape[static_cast<size_t>(permutation[d])];
  return result;
}

ir::Shape to_shape(const ir::Extents& extents) {
  ir::Shape shape;
  for (const int64_t extent : extents) shape.push_back(extent);
  return shape;
}

TEST(Movement, Transposes) {
  const ir::Ints permutations[] = {{0, 2, 3, 1}, {0, 3, 1, 2}, {0, 2, 1, 3}, {0, 1, 3, 2},
                                   {3, 2, 1, 0}, {1, 0, 2, 3}, {0, 1, 2, 3}};
  for (const ir::Ints& permutation : permutations)
    for (const ir::Extents& shape :
         {ir::Extents{2, 3, 5, 7}, {1, 32, 17, 33}, {1, 3, 40, 41}, {2, 64, 8, 4}})
      for (const DataType type : kTypes) {
        ir::ShuffleAttrs attrs;
        attrs.first_transpose = permutation;
        check_layer({.layer = make_layer(LayerKind::kShuffle, attrs),
                     .inputs = {{.extents = shape, .type = type}},
                     .outputs = {{.extents = permuted(shape, permutation), .type = type}},
                     .tolerance = 0},
                    text(shape) + ::testing::PrintToString(permutation));
      }
}

TEST(Movement, Reshapes) {
  struct Case {
    ir::Extents in;
    ir::Ints first;
    ir::Extents reshape;
    ir::Ints second;
  };
  const Case cases[] = {{{2, 12, 5, 7}, {}, {2, 3, 4, 35}, {0, 2, 1, 3}},  // channel shuffle
                        {{1, 35, 96}, {}, {1, 35, 6, 16}, {0, 2, 1, 3}},   // heads
                        {{1, 6, 35, 16}, {0, 2, 1, 3}, {1, 35, 96}, {}},
                        {{4, 6}, {}, {6, 4}, {1, 0}},  // no common dimensions
                        {{2, 3, 4}, {2, 0, 1}, {3, 8}, {}},
                        {{5, 1, 7}, {}, {35}, {}},
                        {{30}, {}, {1, 5, 1, 6, 1}, {}}};
  for (const Case& c : cases) {
    ir::ShuffleAttrs attrs;
    attrs.first_transpose = c.first, attrs.has_reshape = true, attrs.reshape = to_shape(c.reshape),
    attrs.second_transpose = c.second;
    check_layer({.layer = make_layer(LayerKind::kShuffle, attrs),
                 .inputs = {{.extents = c.in}},
                 .outputs = {{.extents = permuted(c.reshape, c.second)}},
                 .tolerance = 0},
                text(c.in) + text(c.reshape));
  }
}

TEST(Movement, ReformatAndDepth) {
  for (const DataType type : kTypes)
    for (const ir::Extents& shape :
         {ir::Extents{1, 3, 33, 35}, {2, 16, 9, 9}, {1, 100, 5, 16}, {2, 17, 40}})
      check_layer({.layer = make_layer(LayerKind::kReformat, ir::NoAttrs()),
                   .inputs = {{.extents = shape, .type = type}},
                   .outputs = {{.extents = shape, .type = type}},
                   .tolerance = 0},
                  text(shape));
  for (const bool column_row_depth : {false, true}) {
    check_layer(
        {.layer = make_layer(LayerKind::kDepthToSpace, ir::DepthSpaceAttrs{3, column_row_depth}),
         .inputs = {{.extents = {2, 18, 5, 7}}},
         .outputs = {{.extents = {2, 2, 15, 21}}},
         .tolerance = 0},
        "depth to space");
    check_layer(
        {.layer = make_layer(LayerKind::kSpaceToDepth, ir::DepthSpaceAttrs{2, column_row_depth}),
         .inputs = {{.extents = {1, 3, 8, 6}}},
         .outputs = {{.extents = {1, 12, 4, 3}}},
         .tolerance = 0},
        "space to depth");
  }
}

TEST(Movement, Slices) {
  struct Case {
    ir::Extents start, size;
    ir::Ints step;
  };
  for (const Case& c : {Case{{0, 3, 0, 0}, {2, 9, 7, 11}, {}},
                        {{0, 0, 1, 0}, {2, 20, 3, 6}, {1, 1, 2, 2}},
                        {{1, 19, 6, 10}, {1, 20, 7, 11}, {1, -1, -1, -1}},
                        {{0, 0, 0, 1}, {2, 20, 7, 0}, {1, 1, 1, 1}}})
    for (const DataType type : kTypes) {
      const ir::SliceAttrs attrs{to_shape(c.start), to_shape(c.size), c.step};
      check_layer({.layer = make_layer(LayerKind::kSlice, attrs),
                   .inputs = {{.extents = {2, 20, 7, 11}, .type = type}},
                   .outputs = {{.extents = c.size, .type = type}},
                   .tolerance = 0},
                  text(c.start) + text(c.size));
    }
}

void check_concatenation(int64_t axis, DataType type) {
  TestLayer layer{.layer = make_layer(LayerKind::kConcatenation, ir::AxisAttrs{axis}),
                  .inputs = {},
                  .outputs = {{.extents = {2, 5, 3, 4}, .type = type}},
                  .tolerance = 0};
  layer.outputs[0].extents[static_cast<size_t>(axis)] = 0;
  for (const int64_t part : {7, 16, 0, 1}) {
    ir::Extents shape = {2, 5, 3, 4};
    shape[static_cast<size_t>(axis)] = part;
    layer.inputs.push_back({.extents = shape, .type = type});
    layer.outputs[0].extents[static_cast<size_t>(axis)] += part;
  }
  check_layer(layer, "axis " + std::to_string(axis));
}

TEST(Movement, Concatenations) {
  for (const int64_t axis : {0, 1, 2, 3})
    for (const DataType type : {DataType::kFloat, DataType::kUInt8})
      check_concatenation(axis, type);
}

TEST(Movement, GathersBytes) {
  for (const int64_t axis : {0, 1, 3})
    for (const DataType type : {DataType::kFloat, DataType::kUInt8}) {
      ir::GatherAttrs attrs;
      attrs.axis = axis;
      ir::Extents out = {3, 20, 5, 7};
      out[static_cast<size_t>(axis)] = 4;
      check_layer({.layer = make_layer(LayerKind::kGather, attrs),
                   .inputs = {{.extents = {3, 20, 5, 7}, .type = type},
                              {.extents = {4},
                               .type = DataType::kInt64,
                               .is_data = false,
                               .is_constant = true,
                               .value = [](int64_t k) { return k % 3 - 1; }}},
                   .outputs = {{.extents = out, .type = type}},
                   .tolerance = 0},
                  "axis " + std::to_string(axis));
    }
}

TEST(Movement, Pads) {
  const ir::Extents shape = {2, 5, 6, 7};
  struct Case {
    ir::PadMode mode;
    ir::Ints pre, post;
  };
  for (const Case& c : {Case{ir::PadMode::kConstant, {0, 0, 1, 2}, {0, 0, 3, 0}},
                        {ir::PadMode::kConstant, {1, 2, 0, 0}, {0, 1, 0, 0}},
                        {ir::PadMode::kConstant, {0, 0, -1, 2}, {0, -2, 0, -3}},
                        {ir::PadMode::kEdge, {0, 1, 2, 3}, {1, 0, 4, 9}},
                        {ir::PadMode::kReflect, {0, 4, 2, 3}, {1, 0, 5, 6}},
                        {ir::PadMode::kWrap, {0, 4, 2, 7}, {2, 0, 6, 1}}}) {
    ir::Extents out = shape;
    for (size_t d = 0; d < out.size(); ++d) out[d] += c.pre[d] + c.post[d];
    for (const auto& [type, value] :
         {std::pair(DataType::kFloat, 1.5f), std::pair(DataType::kUInt8, 113.0f),
          std::pair(DataType::kInt8, -128.0f)})
      check_layer({.layer = make_layer(LayerKind::kPad, ir::PadAttrs{c.mode, c.pre, c.post, value}),
                   .inputs = {{.extents = shape, .type = type}},
                   .outputs = {{.extents = out, .type = type}},
                   .tolerance = 0},
                  text(out) + std::string(ir::enum_name(c.mode)));
  }
}

// Amounts, the constant and the axes come from layers before.
TEST(Movement, PadsWhoseAmountsAreComputed) {
  const ir::Extents shape = {2, 5, 6, 7};
  for (const DataType type : {DataType::kFloat, DataType::kInt64, DataType::kUInt8})
    for (const bool has_axes : {false, true}) {
      static const int64_t kAll[] = {0, 0, -1, 2, 1, 0, 3, -3}, kSome[] = {-1, 2, 3, -3};
      TestLayer layer{.layer = make_layer(LayerKind::kPad, ir::PadAttrs{}),
                      .inputs = {{.extents = shape, .type = type},
                                 {.extents = {has_axes ? 4 : 8},
                                  .type = DataType::kInt64,
                                  .is_data = false,
                                  .value = [=](int64_t k) { return (has_axes ? kSome : kAll)[k]; }},
                                 {.extents = {},
                                  .type = type,
                                  .is_data = false,
                                  .value = [](int64_t) { return 9; }}},
                      .outputs = {{.extents = {has_axes ? 2 : 3, 5, 8, 6}, .type = type}},
                      .tolerance = 0};
      if (has_axes)
        layer.inputs.push_back(
            {.extents = {2}, .type = DataType::kInt64, .is_data = false, .value = [](int64_t k) {
               return k == 0 ? 2 : -1;
             }});
      check_layer(layer, has_axes ? "axes" : "all");
    }
}

TEST(Movement, ExpandTileFill) {
  check_layer({.layer = make_layer(LayerKind::kExpand, ir::ShapeAttrs{true, {2, 3, 5, 4}}),
               .inputs = {{.extents = {3, 1, 4}}},
               .outputs = {{.extents = {2, 3, 5, 4}}},
               .tolerance = 0},
              "expand");
  check_layer({.layer = make_layer(LayerKind::kTile, ir::ShapeAttrs{true, {2, 1, 3, 2}}),
               .inputs = {{.extents = {1, 3, 2, 5}}},
               .outputs = {{.extents = {2, 3, 6, 10}}},
               .tolerance = 0},
              "tile");
  check_layer({.layer = make_layer(LayerKind::kFill,
                                   ir::FillAttrs{DataType::kFloat, 2.5, true, {3, 40, 2}}),
               .inputs = {},
               .outputs = {{.extents = {3, 40, 2}}},
               .tolerance = 0},
              "fill");
}

}  // namespace
}  // namespace camshaft::kernels
