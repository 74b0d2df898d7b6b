// SPDX-License-Identifier: Apache-2.0
// GridSample: points inside, at the border, outside and far outside, and NaN.
#include <cmath>

#include "kernels/vector/layer_test_util.h"

namespace camshaft::kernels {
namespace {

using test::check_layer;
using test::TestTensor;

TestTensor points_of(const ir::Extents& extents) {
  return {.extents = extents, .value = [](int64_t k) {
            return k == 11   ? 1e12
                   : k == 30 ? std::nan("")
                   : k == 44 ? -1e12
                             : static_cast<double>(k * 37 % 101) / 40.0 - 1.25;
          }};
}

// All borders.
void check_sampling(const char* mode, const ir::Extents& x, const ir::Extents& grid) {
  ir::Extents y = {x[0], x[1]};
  for (size_t d = 1; d + 1 < grid.size(); ++d) y.push_back(grid[d]);
  for (const char* padding : {"zeros", "border", "reflection"})
    for (const int64_t aligns : {0, 1}) {
      const std::vector<ir::GenericAttribute> attributes = {{"mode", {}, {}, mode},
                                                            {"padding_mode", {}, {}, padding},
                                                            {"align_corners", {aligns}, {}, ""}};
      check_layer({.layer = test::make_layer(ir::LayerKind::kGeneric,
                                             ir::GenericAttrs{"GridSample", 20, attributes}),
                   .inputs = {{.extents = x}, points_of(grid)},
                   .outputs = {{.extents = y}},
                   .tolerance = std::string_view(mode) == "nearest" ? 0 : 1e-5},
                  std::string(mode) + " " + padding + (aligns != 0 ? " aligned " : " ") +
                      ::testing::PrintToString(std::vector<int64_t>(x.begin(), x.end())));
    }
}

TEST(GridSample, Lines) {
  for (const char* mode : {"linear", "cubic", "nearest"})
    check_sampling(mode, {2, 3, 11}, {2, 49, 1});
}

TEST(GridSample, Images) {
  for (const char* mode : {"bilinear", "bicubic", "nearest"})
    for (const ir::Extents& x :
         {ir::Extents{2, 1, 6, 9}, {2, 5, 1, 4}, {2, 8, 8, 3}, {2, 17, 8, 3}, {1, 40, 5, 5}})
      check_sampling(mode, x, {x[0], 5, 7, 2});
}

TEST(GridSample, Volumes) {
  for (const char* mode : {"linear", "cubic", "nearest"})
    for (const ir::Extents& x : {ir::Extents{2, 3, 4, 5, 6}, {2, 2, 1, 3, 1}, {1, 19, 3, 2, 4}})
      check_sampling(mode, x, {x[0], 3, 4, 5, 3});
}

}  // namespace
}  // namespace camshaft::kernels
