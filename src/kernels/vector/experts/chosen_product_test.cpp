// SPDX-License-Identifier: Apache-2.0
// ChosenProduct against the reference kernel, which computes in double.
#include "ir/chosen_product.h"
#include "kernels/vector/byte_test_util.h"
#include "kernels/vector/layer_test_util.h"

namespace camshaft::kernels::test {
namespace {

struct Rows {
  int64_t rows = 1, matrices = 5, columns = 48, depth = 64;
  DataType numbers = DataType::kInt64;
  int64_t favourite = -1;  // of all but one row in four, if not -1
};

TestLayer layer_of(const Rows& r) {
  TestLayer test;
  test.layer = make_layer(ir::LayerKind::kGeneric, ir::GenericAttrs{ir::kChosenProduct, 1, {}});
  test.inputs.push_back({.extents = {r.rows, r.depth}});
  test.inputs.push_back(
      {.extents = {r.rows}, .type = r.numbers, .is_data = false, .value = [r](int64_t row) {
         if (r.favourite >= 0 && row % 4 != 3) return static_cast<double>(r.favourite);
         // Also from the end.
         return static_cast<double>(row * 7 % (2 * r.matrices) - r.matrices);
       }});
  test.inputs.push_back(
      {.extents = {r.matrices, r.columns, r.depth}, .is_data = false, .is_constant = true});
  test.outputs.push_back({.extents = {r.rows, r.columns}});
  return test;
}

void check(const Rows& r) {
  TestLayer test = layer_of(r);
  test.tolerance = 0x1p-22 * static_cast<double>(r.depth);
  check_layer(test, words({r.rows, r.matrices, r.columns, r.depth, r.favourite}));
}

TEST(ChosenProduct, RowsColumnsAndDepths) {
  for (const int64_t rows : {1, 2, 7, 33})
    for (const int64_t columns : {1, 8, 31, 100})
      for (const int64_t depth : {1, 17, 64, 300})
        check({.rows = rows, .columns = columns, .depth = depth});
}

// More rows of one matrix than a tile and than a batch has.
TEST(ChosenProduct, ManyRowsOfOneMatrix) {
  for (const int64_t rows : {40, 128, 129, 400})
    for (const int64_t favourite : {0, 4}) check({.rows = rows, .favourite = favourite});
}

TEST(ChosenProduct, ManyMatricesAndNumbersOfInt32) {
  check({.rows = 20, .matrices = 200, .columns = 20, .depth = 20});
  check({.rows = 20, .numbers = DataType::kInt32});
  check({.rows = 9, .matrices = 1});
}

}  // namespace
}  // namespace camshaft::kernels::test
