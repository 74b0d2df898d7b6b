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

void check(PoolingType type, const ir::Extents& shape, const Window& w, bool with_padding,
           DataType data = DataType::kFloat) {
  PoolingAttrs attrs;
  attrs.type = type;
  attrs.padding_mode = w.mode;
  attrs.count_includes_padding = with_padding;
  ir::Extents out = {shape[0], shape[1]};
  for (size_t d = 2; d < shape.size(); ++d) {
    attrs.kernel.push_back(w.kernel), attrs.stride.push_back(w.stride),
        attrs.dilation.push_back(w.dilation);
    attrs.pre_padding.push_back(w.pre), attrs.post_padding.push_back(w.post);
    out.push_back(
        ir::resolve_window(w.mode, shape[d], w.kernel, w.stride, w.dilation, w.pre, w.post).output);
    if (out.back() < 1) return;
  }
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

}  // namespace
}  // namespace camshaft::kernels
