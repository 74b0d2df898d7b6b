// SPDX-License-Identifier: Apache-2.0
// Rotation: every tactic against the reference kernel.
#include "ir/rotation.h"
#include "kernels/vector/layer_test_util.h"

namespace camshaft::kernels::test {
namespace {

void check(const Extents& x, const Extents& factors, int64_t half, bool interleaved = false) {
  TestLayer test;
  test.layer = make_layer(ir::LayerKind::kGeneric, ir::rotation_attributes(half, interleaved));
  test.inputs = {{.extents = x}, {.extents = factors}, {.extents = factors}};
  test.outputs = {{.extents = x}};
  test.tolerance = 1e-6;
  check_layer(test, words({x.back(), factors.back(), half}));
}

TEST(Rotation, HalvesOfAllSizes) {
  for (const int64_t half : {1, 3, 7, 8, 15, 16, 17, 32, 40})
    for (const int64_t width : {half, 2 * half}) {
      check({2, 5, 3, 2 * half}, {2, 5, 1, width}, half);
      check({2, 5, 3, 2 * half + 3}, {5, 1, width}, half);  // a rest
    }
}

TEST(Rotation, NeighboursOfAllSizes) {
  for (const int64_t half : {1, 2, 3, 4, 7, 8, 15, 16, 17, 32})
    for (const int64_t width : {half, 2 * half}) {
      check({2, 5, 3, 2 * half}, {2, 5, 1, width}, half, true);
      check({2, 5, 3, 2 * half + 3}, {5, 1, width}, half, true);  // a rest
    }
}

TEST(Rotation, FactorsOfAnyRank) {
  for (const Extents& factors : {Extents{16}, {1, 16}, {4, 16}, {3, 4, 16}, {1, 4, 16}, {3, 1, 16}})
    check({3, 4, 32}, factors, 16);
  check({32}, {32}, 16);
  check({0, 32}, {32}, 16);
}

// Threads share rows.
TEST(Rotation, ManyRows) {
  check({1, 300, 6, 64}, {300, 1, 32}, 32);
}

}  // namespace
}  // namespace camshaft::kernels::test
