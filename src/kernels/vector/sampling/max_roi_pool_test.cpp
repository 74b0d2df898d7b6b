// SPDX-License-Identifier: Apache-2.0
// MaxRoiPool: regions inside, across the border, outside, turned inside out, of one pixel.
#include "kernels/vector/layer_test_util.h"

namespace camshaft::kernels {
namespace {

constexpr double kRegions[][4] = {{1, 2, 9, 7},      {-4, -3, 5, 30}, {0, 0, 0, 0},
                                  {200, 8, 260, 9},  {12, 9, 3, 1},   {2.5, 3.5, 4.5, 5.49},
                                  {-90, -90, 90, 90}};
constexpr int64_t kCount = std::size(kRegions);

TEST(MaxRoiPool, RegionsOfAllKinds) {
  for (const ir::Extents& x : {ir::Extents{1, 1, 12, 15}, {2, 19, 9, 11}, {3, 150, 6, 5}})
    for (const auto& [height, width] : {std::pair<int64_t, int64_t>{3, 4}, {7, 1}, {1, 1}})
      for (const float scale : {1.0f, 0.25f}) {
        const std::vector<ir::GenericAttribute> attributes = {
            {"pooled_shape", {height, width}, {}, ""}, {"spatial_scale", {}, {scale}, ""}};
        const int64_t images = x[0];
        test::check_layer(
            {.layer = test::make_layer(ir::LayerKind::kGeneric,
                                       ir::GenericAttrs{"MaxRoiPool", 22, attributes}),
             .inputs = {{.extents = x},
                        {.extents = {kCount, 5},
                         .value =
                             [images](int64_t k) {
                               return k % 5 == 0 ? static_cast<double>(k / 5 % images)
                                                 : kRegions[k / 5][k % 5 - 1];
                             }}},
             .outputs = {{.extents = {kCount, x[1], height, width}}},
             .tolerance = 0},
            ::testing::PrintToString(std::vector<int64_t>(x.begin(), x.end())) +
                test::words({height, width}));
      }
}

}  // namespace
}  // namespace camshaft::kernels
