// SPDX-License-Identifier: Apache-2.0
// Cast, Quantize, Dequantize and Gather: exact.
#include "kernels/vector/layer_test_util.h"

namespace camshaft::kernels {
namespace {

using ir::LayerKind;
using test::check_layer;
using test::make_layer;
using test::TestLayer;

TEST(Cast, EveryPair) {
  const DataType types[] = {
      DataType::kFloat, DataType::kDouble, DataType::kInt64,   DataType::kInt32,  DataType::kInt16,
      DataType::kInt8,  DataType::kUInt64, DataType::kUInt32,  DataType::kUInt16, DataType::kUInt8,
      DataType::kBool,  DataType::kHalf,   DataType::kBFloat16};
  for (const DataType from : types)
    for (const DataType to : types) {
      TestLayer layer{.layer = make_layer(LayerKind::kCast, ir::CastAttrs{to}),
                      .inputs = {{.extents = {2, 5, 3, 77}, .type = from}},
                      .outputs = {{.extents = {2, 5, 3, 77}, .type = to}},
                      .tolerance = 0};
      if (ir::is_floating(from))
        layer.inputs[0].value = [](int64_t k) {
          const double special[] = {NAN,    INFINITY, -INFINITY, 1e30,  -1e30, 300.7,
                                    -300.7, 0,        -0.5,      255.9, 4e9,   1e-40};
          return k < 12     ? static_cast<float>(special[k])
                 : k > 2000 ? static_cast<float>(k * 1e16)
                            : static_cast<float>(static_cast<double>(k % 200) / 3 - 30);
        };
      check_layer(layer,
                  std::string(ir::type_name(from)) + " to " + std::string(ir::type_name(to)));
    }
}

TEST(Quantize, OneScaleAndPerAxis) {
  const ir::Extents shape = {2, 20, 3, 23};
  for (const DataType type :
       {DataType::kInt8, DataType::kUInt8, DataType::kInt16, DataType::kUInt16})
    for (const bool has_zero_point : {false, true})
      for (const int64_t axis : {-1, 0, 1, 3}) {
        ir::QuantizeAttrs attrs;
        attrs.axis = axis < 0 ? 1 : axis, attrs.type = type;
        const ir::Extents grid =
            axis < 0 ? ir::Extents{} : ir::Extents{shape[static_cast<size_t>(axis)]};
        TestLayer layer{.layer = make_layer(LayerKind::kQuantize, attrs),
                        .inputs = {{.extents = shape},
                                   {.extents = grid, .is_data = false},
                                   {.extents = grid,
                                    .type = type,
                                    .is_data = false,
                                    .present = has_zero_point}},
                        .outputs = {{.extents = shape, .type = type}},
                        .tolerance = 0};
        // Multiples of half a step, so that ties are hit; and what must saturate.
        layer.inputs[0].value = [](int64_t k) {
          const double saturating[] = {INFINITY, -1e30, 9000, -9000, 20000};
          return k < 5 ? saturating[k] : static_cast<double>(k % 801 - 400) / 8;
        };
        layer.inputs[1].value = [](int64_t k) { return 0.25 * static_cast<double>(1 + k % 3); };
        layer.inputs[2].value = [type](int64_t k) {
          return static_cast<double>(k % 5) + (type == DataType::kUInt8    ? 120
                                               : type == DataType::kUInt16 ? 32768
                                                                           : -2);
        };
        check_layer(layer, "quantize axis " + std::to_string(axis));
        layer.layer = make_layer(LayerKind::kDequantize, attrs);
        layer.inputs[0] = {.extents = shape, .type = type};
        layer.outputs[0].type = DataType::kFloat;
        check_layer(layer, "dequantize axis " + std::to_string(axis));
      }
}

// Halves of steps and their neighbours: what a product with the reciprocal rounds otherwise.
TEST(Quantize, NearHalves) {
  for (const double scale : {0.02, 0.3, 1.7, 1e-3, 3e-38, 1e38})
    for (const DataType type : {DataType::kInt8, DataType::kUInt8, DataType::kInt16}) {
      ir::QuantizeAttrs attrs;
      attrs.type = type;
      TestLayer layer{.layer = make_layer(LayerKind::kQuantize, attrs),
                      .inputs = {{.extents = {7000}},
                                 {.extents = {}, .is_data = false},
                                 {.extents = {}, .present = false}},
                      .outputs = {{.extents = {7000}, .type = type}},
                      .tolerance = 0};
      layer.inputs[0].value = [scale](int64_t k) {
        if (k % 1000 == 999) return static_cast<double>(NAN);
        auto half = static_cast<float>((static_cast<double>(k / 7 - 500) + 0.5) *
                                       static_cast<double>(static_cast<float>(scale)));
        for (int64_t n = k % 7; n < 3; ++n) half = std::nextafter(half, -INFINITY);
        for (int64_t n = k % 7; n > 3; --n) half = std::nextafter(half, INFINITY);
        return static_cast<double>(half);
      };
      layer.inputs[1].value = [scale](int64_t) { return scale; };
      check_layer(layer, "scale " + std::to_string(scale));
    }
}

TEST(Quantize, Blocks) {
  const ir::Extents shape = {2, 20, 3, 70};
  for (const DataType type :
       {DataType::kInt8, DataType::kUInt8, DataType::kInt16, DataType::kUInt16, DataType::kInt32})
    for (const bool has_zero_point : {false, true})
      for (const int64_t axis : {0, 1, 3})
        for (const int64_t block : {1, 4, 7, 16, 100}) {
          ir::QuantizeAttrs attrs;
          attrs.axis = axis, attrs.type = type, attrs.block_size = block;
          ir::Extents grid = shape;
          int64_t& blocks = grid[static_cast<size_t>(axis)];
          blocks = (blocks + block - 1) / block;
          TestLayer layer{.layer = make_layer(LayerKind::kQuantize, attrs),
                          .inputs = {{.extents = shape},
                                     {.extents = grid, .is_data = false},
                                     {.extents = grid,
                                      .type = type,
                                      .is_data = false,
                                      .present = has_zero_point}},
                          .outputs = {{.extents = shape, .type = type}},
                          .tolerance = 0};
          layer.inputs[0].value = [](int64_t k) { return static_cast<double>(k % 801 - 400) / 8; };
          layer.inputs[1].value = [](int64_t k) { return 0.25 * static_cast<double>(1 + k % 3); };
          layer.inputs[2].value = [](int64_t k) { return static_cast<double>(k % 5); };
          const std::string name = "axis " + std::to_string(axis) + " of " + std::to_string(block);
          if (type != DataType::kInt32) check_layer(layer, "quantize " + name);
          layer.layer = make_layer(LayerKind::kDequantize, attrs);
          layer.inputs[0] = {.extents = shape, .type = type};
          layer.outputs[0].type = DataType::kFloat;
          check_layer(layer, "dequantize " + name);
        }
}

// Of each channel, of each element, of all; with and without zero points.
TEST(Quantize, Programs) {
  const ir::Extents shape = {2, 20, 3, 70};
  const char* quantizers[] = {"v3 = mul v0 v1; v4 = round v3; v5 = add v4 v2",
                              "v3 = mul v0 v1; v4 = round v3",
                              "v3 = const 0.3; v4 = mul v0 v3; v5 = round v4; v6 = const 3; "
                              "v7 = add v6 v5"};
  const char* dequantizers[] = {"v3 = sub v0 v2; v4 = mul v3 v1", "v3 = mul v1 v0",
                                "v3 = const 3; v4 = sub v0 v3; v5 = const 0.3; v6 = mul v4 v5"};
  for (const DataType type : {DataType::kInt8, DataType::kUInt8})
    for (const ir::Extents& grid : {ir::Extents{20, 1, 1}, {1, 1, 1, 1}, {70}, {2, 1, 1, 70}})
      for (const bool quantizes : {true, false})
        for (const char* text : quantizes ? quantizers : dequantizers) {
          const Result<ir::Program> program = ir::parse_program(3, text);
          ASSERT_TRUE(program.ok()) << program.status().message();
          ir::PointWiseAttrs attrs{*program};
          if (quantizes) attrs.type = type;
          TestLayer layer{.layer = make_layer(LayerKind::kPointWise, attrs),
                          .inputs = {{.extents = shape}, {.extents = grid}, {.extents = grid}},
                          .outputs = {{.extents = shape}},
                          .tolerance = 0,
                          .only = "pointwise_quantize"};
          layer.inputs[0].type = quantizes ? DataType::kFloat : type;
          layer.outputs[0].type = quantizes ? type : DataType::kFloat;
          if (quantizes)
            layer.inputs[0].value = [](int64_t k) {
              const double special[] = {NAN, INFINITY, -INFINITY, 1e30, -1e30, 300, -300};
              return k % 97 < 7 ? special[k % 97] : static_cast<double>(k % 801 - 400) / 8;
            };
          layer.inputs[1].value = [](int64_t k) { return 0.25 * static_cast<double>(1 + k % 5); };
          layer.inputs[2].value = [](int64_t k) { return static_cast<double>(k % 7 - 2); };
          check_layer(layer, text);
        }
}

TEST(Dequantize, Wide) {
  for (const bool has_zero_point : {false, true})
    for (const int64_t axis : {-1, 1, 3}) {
      const ir::Extents shape = {2, 20, 3, 70};
      ir::QuantizeAttrs attrs;
      attrs.axis = axis < 0 ? 1 : axis;
      const ir::Extents grid =
          axis < 0 ? ir::Extents{} : ir::Extents{shape[static_cast<size_t>(axis)]};
      TestLayer layer{.layer = make_layer(LayerKind::kDequantize, attrs),
                      .inputs = {{.extents = shape, .type = DataType::kInt32},
                                 {.extents = grid, .is_data = false},
                                 {.extents = grid,
                                  .type = DataType::kInt32,
                                  .is_data = false,
                                  .present = has_zero_point}},
                      .outputs = {{.extents = shape}},
                      .tolerance = 0};
      layer.inputs[0].value = [](int64_t k) {
        return k % 31 == 3 ? -2147483648.0 : static_cast<double>(k * 65537 % 2147483647);
      };
      layer.inputs[1].value = [](int64_t k) { return 0.1 * static_cast<double>(1 + k % 3); };
      layer.inputs[2].value = [](int64_t k) { return static_cast<double>(k % 5 + 1); };
      check_layer(layer, "axis " + std::to_string(axis));
    }
}

TEST(Gather, ConstantIndices) {
  for (const int64_t axis : {0, 1, 2, 3})
    for (const ir::Extents& indices : {ir::Extents{}, {4}, {2, 3}}) {
      const ir::Extents shape = {3, 18, 4, 5};
      ir::Extents out;
      for (int64_t d = 0; d < 4; ++d) {
        if (d != axis)
          out.push_back(shape[static_cast<size_t>(d)]);
        else
          for (const int64_t extent : indices) out.push_back(extent);
      }
      for (const DataType type : {DataType::kFloat, DataType::kInt64, DataType::kUInt8}) {
        TestLayer layer{.layer = make_layer(LayerKind::kGather,
                                            ir::GatherAttrs{ir::GatherMode::kDefault, axis, 0}),
                        .inputs = {{.extents = shape, .type = type},
                                   {.extents = indices,
                                    .type = DataType::kInt64,
                                    .is_data = false,
                                    .is_constant = true}},
                        .outputs = {{.extents = out, .type = type}},
                        .tolerance = 0};
        layer.inputs[1].value = [](int64_t k) {
          return static_cast<double>(k % 3 - (k % 2 == 0 ? 0 : 3));
        };
        check_layer(layer, "axis " + std::to_string(axis));
      }
    }
}

}  // namespace
}  // namespace camshaft::kernels
