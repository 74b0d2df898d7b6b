// SPDX-License-Identifier: Apache-2.0
// AffineGrid: maps and volumes, of one element along a dimension, too.
#include "kernels/vector/layer_test_util.h"

namespace camshaft::kernels {
namespace {

TEST(AffineGrid, MapsAndVolumes) {
  for (const ir::Ints& spatial :
       {ir::Ints{5, 7}, {1, 1}, {40, 33}, {1, 300}, {3, 5, 9}, {2, 1, 17}})
    for (const int64_t align : {0, 1}) {
      const auto axes = static_cast<int64_t>(spatial.size());
      ir::Ints size = {3, 4};
      size.insert(size.end(), spatial.begin(), spatial.end());
      ir::Extents grid = {3};
      for (const int64_t extent : spatial) grid.push_back(extent);
      grid.push_back(axes);
      test::check_layer(
          {.layer = test::make_layer(
               ir::LayerKind::kGeneric,
               ir::GenericAttrs{"AffineGrid", 20, {{"align_corners", {align}, {}, ""}}}),
           .inputs = {{.extents = {3, axes, axes + 1}, .is_data = false},
                      {.extents = {axes + 2},
                       .type = DataType::kInt64,
                       .is_data = false,
                       .value = [size](int64_t k) { return static_cast<double>(size[k]); }}},
           .outputs = {{.extents = grid}},
           .strided_outputs = false},
          ::testing::PrintToString(spatial) + std::to_string(align));
    }
}

}  // namespace
}  // namespace camshaft::kernels
