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

// Down to where results are denormal, and nothing.
TEST(SoftMax, SmallWeights) {
  static constexpr double kValues[] = {0,     -1e-3, -20,  -80,   -87,
                                       -87.5, -88.5, -104, -1e30, -INFINITY};
  const auto value = [](int64_t k) { return kValues[k % 10]; };
  for (const bool log : {false, true}) {
    EXPECT_GT(check({6, 70}, 1, log, value), 0);
    EXPECT_GT(check({6, 10}, 1, log, value), 0);
    EXPECT_GT(check({30, 9}, 0, log, value), 0);
  }
}

TEST(SoftMax, RowsBeyondCaches) {
  for (const bool log : {false, true}) EXPECT_GT(check({5, 131, 801}, 2, log), 0);
}

TEST(SoftMax, LargeEnoughForThreads) {
  EXPECT_GT(check({12, 40, 40}, 2, false), 0);
}

// Doubles: over one dimension or several, infinities and NaN among them.
void check_doubles(Extents extents, int64_t axis, int64_t last_axis, bool log) {
  ir::SoftMaxAttrs attrs;
  attrs.axis = axis, attrs.last_axis = last_axis;
  attrs.log = log;
  const auto value = [](int64_t k) {
    return k % 9973 == 5    ? -INFINITY
           : k % 9973 == 50 ? static_cast<double>(NAN)
                            : static_cast<double>(k * 7919 % 1009) / 100 - 5;
  };
  check_layer({.layer = make_layer(ir::LayerKind::kSoftMax, attrs),
               .inputs = {{.extents = extents, .type = DataType::kDouble, .value = value}},
               .outputs = {{.extents = extents, .type = DataType::kDouble}},
               .tolerance = 1e-14},
              words({axis, last_axis}));
}

TEST(SoftMax, Doubles) {
  for (bool log : {false, true}) {
    for (int64_t axis : {0, 1, 2, 3})
      for (int64_t last = axis; last < 4; ++last) check_doubles({3, 5, 7, 19}, axis, last, log);
    for (const int64_t length : {1, 2, 31, 32, 64, 65, 1000}) {
      check_doubles({3, length}, 1, 1, log);
      check_doubles({length, 300}, 0, 0, log);
    }
    check_doubles({2, 3000, 40}, 1, 1, log);
  }
}

}  // namespace
}  // namespace camshaft::kernels::test
