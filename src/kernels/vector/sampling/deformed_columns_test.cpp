// SPDX-License-Identifier: Apache-2.0
// DeformedColumns: taps moved inside, across the border and outside; groups that move together
// larger and smaller than those of the product.
#include "ir/deformed_columns.h"
#include "kernels/vector/layer_test_util.h"

namespace camshaft::kernels {
namespace {

using test::check_layer;

struct Groups {
  int64_t channels, product, offset;
};

TEST(DeformedColumns, MovedTaps) {
  for (const Groups& g : {Groups{1, 1, 1}, {40, 1, 2}, {36, 6, 2}, {36, 2, 6}, {150, 1, 1}})
    for (const bool masked : {false, true})
      for (const int64_t stride : {1, 2}) {
        const std::vector<ir::GenericAttribute> attributes = {
            {"kernel_shape", {3, 2}, {}, ""}, {"strides", {stride, 1}, {}, ""},
            {"dilations", {1, 2}, {}, ""},    {"pads", {1, 2, 1, 0}, {}, ""},
            {"group", {g.product}, {}, ""},   {"offset_group", {g.offset}, {}, ""}};
        const ir::Extents at = {2, 6 * g.offset, stride == 1 ? 7 : 4, 7};
        test::TestLayer layer{
            .layer = test::make_layer(ir::LayerKind::kGeneric,
                                      ir::GenericAttrs{ir::kDeformedColumns, 1, attributes}),
            .inputs = {{.extents = {2, g.channels, 7, 7}},
                       {.extents = {2, 2 * at[1], at[2], at[3]},
                        .value =
                            [](int64_t k) { return k == 5 ? 1e9 : (k * 37 % 101) / 20.0 - 2.5; }}},
            .outputs = {{.extents = {2, 6 * g.channels, at[2], at[3]}}}};
        if (masked) layer.inputs.push_back({.extents = at});
        check_layer(layer, std::to_string(g.channels) + " channels of " +
                               std::to_string(g.product) + " groups, " + std::to_string(g.offset) +
                               " that move together");
      }
}

}  // namespace
}  // namespace camshaft::kernels
