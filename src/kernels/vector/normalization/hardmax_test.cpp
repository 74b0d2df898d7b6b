// SPDX-License-Identifier: Apache-2.0
// Hardmax: every length, along every dimension; equal elements, NaN in front and behind.
#include "kernels/vector/layer_test_util.h"

namespace camshaft::kernels::test {
namespace {

void check(const Extents& extents, int64_t axis, int64_t last_axis,
           std::function<double(int64_t)> value = {}) {
  ir::SoftMaxAttrs attrs;
  attrs.axis = axis, attrs.last_axis = last_axis, attrs.hard = true;
  check_layer({.layer = make_layer(ir::LayerKind::kSoftMax, attrs),
               .inputs = {{.extents = extents, .value = std::move(value)}},
               .outputs = {{.extents = extents}},
               .tolerance = 0},
              ::testing::PrintToString(std::vector<int64_t>(extents.begin(), extents.end())) +
                  words({axis}));
}

TEST(Hardmax, EveryDimension) {
  for (const int64_t length : {1, 2, 7, 8, 16, 17, 33, 300})
    for (const int64_t axis : {0, 1, 2}) {
      Extents extents = {3, 5, 6};
      extents[axis] = length;
      check(extents, axis, axis);
      check(extents, axis, axis, [](int64_t k) { return k * 7 % 3; });  // which of equal ones
    }
  for (const int64_t axis : {0, 1, 2, 3}) check({2, 5, 3, 300}, axis, axis);
  check({4, 9, 1, 1}, 1, 3);  // as opset 12 flattens them
}

TEST(Hardmax, NotANumber) {
  for (const int64_t axis : {0, 1})
    for (const int64_t where : {0, 1, 20, 39})
      check({40, 40}, axis, axis, [where](int64_t k) {
        return k % 40 == where || k / 40 == where ? std::nan("") : -static_cast<double>(k % 13);
      });
}

}  // namespace
}  // namespace camshaft::kernels::test
