// SPDX-License-Identifier: Apache-2.0
#include "ir/infer.h"
#include "kernels/vector/layer_test_util.h"

namespace camshaft::kernels {
namespace {

using ir::PaddingMode;
using ir::PoolingAttrs;
using ir::PoolingType;
using test::check_layer;
using test::TestLayer;

struct Window {
  int64_t kernel, stride, dilation, pre, post;
  PaddingMode mode = PaddingMode::kExplicit;
};

// Maxima keep the type, averages are float.
DataType pooled_type(PoolingType pooling, DataType type) {
  return pooling == PoolingType::kMax ? type : DataType::kFloat;
}

// Sets the window of all spatial dimensions and the output's extents; false: there is no output.
bool set_window(PoolingAttrs& attrs, const ir::Extents& shape, const Window& w, ir::Extents& out) {
  attrs.padding_mode = w.mode;
  out = {shape[0], shape[1]};
  for (size_t d = 2; d < shape.size(); ++d) {
    attrs.kernel.push_back(w.kernel), attrs.stride.push_back(w.stride),
        attrs.dilation.push_back(w.dilation);
    attrs.pre_padding.push_back(w.pre), attrs.post_padding.push_back(w.post);
    out.push_back(
        ir::resolve_window(w.mode, shape[d], w.kernel, w.stride, w.dilation, w.pre, w.post).output);
    if (out.back() < 1) return false;
  }
  return true;
}

void check(PoolingType type, const ir::Extents& shape, const Window& w, bool with_padding,
           DataType data = DataType::kFloat) {
  PoolingAttrs attrs;
  attrs.type = type;
  attrs.count_includes_padding = with_padding;
  ir::Extents out;
  if (!set_window(attrs, shape, w, out)) return;
  const TestLayer layer{.layer = test::make_layer(ir::LayerKind::kPooling, attrs),
                        .inputs = {{.extents = shape, .type = data}},
                        .outputs = {{.extents = out, .type = pooled_type(type, data)}}};
  check_layer(layer,
              ::testing::PrintToString(std::vector<int64_t>(shape.begin(), shape.end())) +
                  test::words({w.kernel, w.stride, w.dilation, w.pre, w.post, with_padding}));
}

const Window kWindows[] = {{2, 2, 1, 0, 0},
                           {3, 2, 1, 1, 1},
                           {3, 1, 1, 1, 1},
                           {5, 1, 1, 2, 2},
                           {3, 2, 1, 0, 1, PaddingMode::kExplicitRoundUp},
                           {3, 2, 1, 0, 0, PaddingMode::kSameUpper},
                           {2, 2, 1, 0, 0, PaddingMode::kSameLower},
                           {3, 1, 2, 2, 2},
                           {13, 1, 1, 6, 6},
                           {1, 3, 1, 0, 0},
                           {4, 3, 1, 2, 1}};

TEST(Pooling, Windows) {
  for (const PoolingType type : {PoolingType::kMax, PoolingType::kAverage})
    for (const Window& w : kWindows)
      for (const ir::Extents& shape :
           {ir::Extents{1, 20, 7, 9}, {2, 3, 13, 35}, {1, 80, 8, 8}, {1, 5, 1, 40}, {2, 17, 33}})
        for (const bool with_padding : {false, true}) {
          if (type == PoolingType::kMax && with_padding) continue;
          check(type, shape, w, with_padding);
        }
}

TEST(Pooling, EightBitWindows) {
  for (const PoolingType type : {PoolingType::kMax, PoolingType::kAverage})
    for (const DataType data : {DataType::kUInt8, DataType::kInt8})
      for (const Window& w : kWindows)
        for (const ir::Extents& shape :
             {ir::Extents{1, 20, 7, 9}, {2, 3, 5, 35}, {1, 336, 4, 4}, {2, 70, 13}})
          for (const bool with_padding : {false, true}) {
            if (type == PoolingType::kMax && with_padding) continue;
            check(type, shape, w, with_padding, data);
          }
}

TEST(Pooling, Indices) {
  for (const Window& w : kWindows)
    for (const ir::Extents& shape :
         {ir::Extents{1, 20, 7, 9}, {2, 3, 13, 35}, {1, 5, 1, 40}, {2, 17, 33}})
      for (const bool column_major : {false, true}) {
        PoolingAttrs attrs;
        attrs.type = PoolingType::kMax, attrs.column_major_indices = column_major;
        ir::Extents out;
        if (!set_window(attrs, shape, w, out)) continue;
        check_layer(
            {.layer = test::make_layer(ir::LayerKind::kPooling, attrs),
             // Few values: the first of equal ones is meant.
             .inputs = {{.extents = shape, .value = [](int64_t k) { return k * 7 % 5 - k % 3; }}},
             .outputs = {{.extents = out}, {.extents = out, .type = DataType::kInt64}},
             .tolerance = 0},
            test::words({w.kernel, w.stride, w.dilation, w.pre, w.post, column_major}));
      }
}

TEST(Pooling, Global) {
  for (const PoolingType type : {PoolingType::kMax, PoolingType::kAverage})
    for (const ir::Extents& shape :
         {ir::Extents{2, 33, 7, 7}, {1, 300, 12, 13}, {3, 5, 1, 1}, {1, 24, 50}, {1, 3, 4, 5, 6}}) {
      PoolingAttrs attrs;
      attrs.type = type, attrs.global = true;
      ir::Extents out = shape;
      for (size_t d = 2; d < out.size(); ++d) out[d] = 1;
      for (const DataType data : {DataType::kFloat, DataType::kUInt8, DataType::kInt8}) {
        if (data != DataType::kFloat && shape.size() > 4) continue;
        check_layer({.layer = test::make_layer(ir::LayerKind::kPooling, attrs),
                     .inputs = {{.extents = shape, .type = data}},
                     .outputs = {{.extents = out, .type = pooled_type(type, data)}}},
                    "global");
      }
    }
}

// What stands behind a pooling, over operands of the output's extents, one per channel (behind a
// unit of batch or without), one per pixel, and a number.
struct Behind {
  const char* program;
  std::vector<const char*> operands;
};

ir::Extents operand_extents(std::string_view what, const ir::Extents& y) {
  ir::Extents extents = y;
  if (what == "number") return {1};
  if (what == "channels" || what == "short channels")
    for (size_t d = 2; d < y.size(); ++d) extents[d] = 1;
  if (what == "pixels") extents[1] = 1;
  if (what != "whole") extents[0] = 1;
  if (what == "short channels") extents.erase(0);
  return extents;
}

const Behind kBehind[] = {
    {"v1 = relu v0", {}},
    {"v1 = hard_sigmoid v0 0.2 0.5", {}},
    {"v2 = sub v0 v1", {"whole"}},
    {"v3 = fma v0 v1 v2; v4 = tanh v3", {"channels", "pixels"}},
    {"v4 = sub v0 v1; v5 = mul v4 v2; v6 = add v5 v3; v7 = mul v6 v4",
     {"whole", "short channels", "number"}},
};

// Each on 16-bit floats, too: rounded once, behind the epilogue.
void check_behind(const Behind& behind, PoolingAttrs attrs, const ir::Extents& shape,
                  const ir::Extents& out) {
  const auto program =
      ir::parse_program(static_cast<int>(behind.operands.size()) + 1, behind.program);
  ASSERT_TRUE(program.ok()) << program.status().message();
  attrs.epilogue = *program;
  for (const DataType data : {DataType::kFloat, DataType::kBFloat16, DataType::kHalf}) {
    if (data != DataType::kFloat && shape.size() > 4) continue;
    TestLayer layer{.layer = test::make_layer(ir::LayerKind::kPooling, attrs),
                    .inputs = {{.extents = shape, .type = data}},
                    .outputs = {{.extents = out, .type = data}}};
    if (data != DataType::kFloat) layer.tolerance = 1.0 / 128;
    for (const char* operand : behind.operands)
      layer.inputs.push_back(
          {.extents = operand_extents(operand, out),
           .type = std::string_view(operand) == "whole" ? data : DataType::kFloat});
    check_layer(layer,
                std::string(behind.program) + " " + std::string(ir::type_name(data)) + " " +
                    ::testing::PrintToString(std::vector<int64_t>(shape.begin(), shape.end())));
  }
}

TEST(Pooling, Epilogues) {
  for (const Behind& behind : kBehind)
    for (const PoolingType type : {PoolingType::kMax, PoolingType::kAverage})
      for (const Window& w : {Window{3, 1, 1, 1, 1}, Window{2, 2, 1, 0, 0}})
        for (const ir::Extents& shape : {ir::Extents{1, 20, 7, 9},
                                         {2, 3, 13, 35},
                                         {3, 80, 8, 8},
                                         {2, 1, 9, 40},
                                         {1, 9, 70, 66},
                                         {2, 17, 33},
                                         {3, 1, 12}}) {
          PoolingAttrs attrs;
          attrs.type = type;
          ir::Extents out = {shape[0], shape[1]};
          for (size_t d = 2; d < shape.size(); ++d) {
            attrs.kernel.push_back(w.kernel), attrs.stride.push_back(w.stride);
            attrs.dilation.push_back(1);
            attrs.pre_padding.push_back(w.pre), attrs.post_padding.push_back(w.post);
            out.push_back((shape[d] + w.pre + w.post - w.kernel) / w.stride + 1);
          }
          check_behind(behind, attrs, shape, out);
        }
}

TEST(Pooling, EpiloguesOfGlobal) {
  for (const Behind& behind : kBehind)
    for (const PoolingType type : {PoolingType::kMax, PoolingType::kAverage})
      for (const ir::Extents& shape :
           {ir::Extents{2, 33, 7, 7}, {3, 5, 1, 1}, {1, 24, 50}, {1, 3, 4, 5, 6}}) {
        PoolingAttrs attrs;
        attrs.type = type, attrs.global = true;
        ir::Extents out = shape;
        for (size_t d = 2; d < out.size(); ++d) out[d] = 1;
        check_behind(behind, attrs, shape, out);
      }
}

// Many operands, as EpilogueFusion allows them; codes have no kernel with one.
TEST(Pooling, EpiloguesAtTheLimits) {
  PoolingAttrs attrs;
  attrs.global = true;
  attrs.epilogue.num_inputs = 12;
  int sum = 0;
  for (int k = 1; k < 12; ++k) sum = ir::append(attrs.epilogue, ir::PointOp::kAdd, sum, k);
  TestLayer layer{.layer = test::make_layer(ir::LayerKind::kPooling, attrs),
                  .inputs = {{.extents = {2, 6, 5, 5}}},
                  .outputs = {{.extents = {2, 6, 1, 1}}}};
  for (int k = 1; k < 12; ++k) layer.inputs.push_back({.extents = {2, 6, 1, 1}});
  check_layer(layer, "eleven operands");

  attrs.type = PoolingType::kAverage;
  attrs.epilogue = {1, {{ir::PointOp::kRelu, 0}}};
  const TestLayer codes{.layer = test::make_layer(ir::LayerKind::kPooling, attrs),
                        .inputs = {{.extents = {2, 6, 5, 5}, .type = DataType::kUInt8}},
                        .outputs = {{.extents = {2, 6, 1, 1}}}};
  test::LayerCheck check(codes);
  EXPECT_EQ(check.run(), 0);
}

}  // namespace
}  // namespace camshaft::kernels
