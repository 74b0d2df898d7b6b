// SPDX-License-Identifier: Apache-2.0
// RoiAlign: regions inside, across the border, outside, turned inside out, of no size.
#include "kernels/vector/layer_test_util.h"

namespace camshaft::kernels {
namespace {

using test::check_layer;

constexpr double kRegions[][4] = {{1, 2, 9, 7},     {-4, -3, 5, 30},    {0, 0, 0, 0},
                                  {200, 8, 260, 9}, {12, 9, 3, 1},      {0.2, 0.4, 0.7, 0.9},
                                  {3, 3, 40, 4},    {-90, -90, 90, 90}, {5, 5, 5.5, 17}};
constexpr int64_t kCount = std::size(kRegions);

void check_regions(const ir::Extents& x, int64_t height, int64_t width,
                   const std::vector<ir::GenericAttribute>& more, int64_t opset) {
  std::vector<ir::GenericAttribute> attributes = {{"output_height", {height}, {}, ""},
                                                  {"output_width", {width}, {}, ""}};
  attributes.insert(attributes.end(), more.begin(), more.end());
  const int64_t images = x[0];
  std::string what = ::testing::PrintToString(std::vector<int64_t>(x.begin(), x.end()));
  for (const ir::GenericAttribute& attribute : more) what += " " + attribute.name + attribute.text;
  check_layer(
      {.layer = test::make_layer(ir::LayerKind::kGeneric,
                                 ir::GenericAttrs{"RoiAlign", opset, attributes}),
       .inputs = {{.extents = x},
                  {.extents = {kCount, 4},
                   .value = [](int64_t k) { return kRegions[k / 4][k % 4]; }},
                  {.extents = {kCount},
                   .type = DataType::kInt64,
                   .value = [images](int64_t k) { return static_cast<double>(k % images); }}},
       .outputs = {{.extents = {kCount, x[1], height, width}}}},
      what);
}

TEST(RoiAlign, RegionsOfAllKinds) {
  for (const ir::Extents& x : {ir::Extents{1, 1, 12, 15}, {2, 19, 9, 11}, {3, 150, 6, 5}})
    for (const char* mode : {"avg", "max"})
      for (const int64_t ratio : {0, 1, 2}) {
        const std::vector<ir::GenericAttribute> sampled = {{"mode", {}, {}, mode},
                                                           {"sampling_ratio", {ratio}, {}, ""}};
        check_regions(x, 3, 4, sampled, 16);
        check_regions(x, 7, 1, sampled, 10);  // without half pixels
      }
}

TEST(RoiAlign, ScalesRegions) {
  for (const char* mode : {"half_pixel", "output_half_pixel"})
    check_regions(
        {2, 40, 8, 8}, 7, 7,
        {{"spatial_scale", {}, {0.25f}, ""}, {"coordinate_transformation_mode", {}, {}, mode}}, 16);
}

}  // namespace
}  // namespace camshaft::kernels
