// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/layer_test_util.h"

namespace camshaft::kernels::test {
namespace {

int check(Extents extents, int64_t axis, bool log, std::function<double(int64_t)> value = {}) {
  ir::SoftMaxAttrs attrs;
  attrs.axis = attrs.last_axis = axis;
  attrs.log = log;
  LayerCheck layer({.layer = make_layer(ir::LayerKind::kSoftMax, attrs),
                    .inputs = {{.extents = extents, .value = value}},
                    .outputs = {{.extents = extents}},
                    .tolerance = 2e-6});
  return layer.run();
}

TEST(SoftMax, RowsOfEveryLength) {
  for (bool log : {false, true})
    for (int64_t length : {1, 2, 3, 8, 9, 15, 16, 17, 33, 100, 1000}) {
      EXPECT_GT(check({3, length}, 1, log), 0);
      EXPECT_GT(check({2, 37, length}, 2, log), 0);
    }
  for (int64_t length : {2, 3, 4, 5, 12, 21, 24, 25})
    EXPECT_GT(check({2, 301, length}, 2, false), 0);
}

TEST(SoftMax, ColumnsAndChannels) {
  for (bool log : {false, true})
    for (int64_t axis : {0, 1, 2, 3}) EXPECT_GT(check({3, 5, 7, 19}, axis, log), 0);
  EXPECT_GT(check({1, 2, 40, 30}, 1, false), 0);
}

TEST(SoftMax, LargeValuesDoNotOverflow) {
  EXPECT_GT(check({4, 20}, 1, false, [](int64_t k) { return k % 7 == 0 ? 1e4 : -1e4; }), 0);
  EXPECT_GT(check({4, 20}, 0, true, [](int64_t k) { return k % 7 == 0 ? 300.0 : -300.0; }), 0);
}

TEST(SoftMax, LargeEnoughForThreads) {
  EXPECT_GT(check({12, 40, 40}, 2, false), 0);
}

}  // namespace
}  // namespace camshaft::kernels::test
