// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/layer_test_util.h"

namespace camshaft::kernels {
namespace {

using ir::ReduceOp;
using test::check_layer;
using test::TestLayer;

TestLayer reduce_of(ReduceOp op, const ir::Extents& shape, const ir::Ints& axes, bool keep_dims,
                    DataType type) {
  ir::Extents out;
  for (size_t d = 0; d < shape.size(); ++d) {
    bool reduced = false;
    for (const int64_t axis : axes) reduced |= axis == static_cast<int64_t>(d);
    if (!reduced)
      out.push_back(shape[d]);
    else if (keep_dims)
      out.push_back(1);
  }
  return {.layer = test::make_layer(ir::LayerKind::kReduce, ir::ReduceAttrs{op, axes, keep_dims}),
          .inputs = {{.extents = shape, .type = type}},
          .outputs = {{.extents = out, .type = type}}};
}

std::string words(ReduceOp op, const ir::Extents& shape, const ir::Ints& axes) {
  return std::string(ir::enum_name(op)) + " of " +
         ::testing::PrintToString(std::vector<int64_t>(shape.begin(), shape.end())) + " over " +
         ::testing::PrintToString(axes);
}

void check(ReduceOp op, const ir::Extents& shape, const ir::Ints& axes, bool keep_dims) {
  TestLayer layer = reduce_of(op, shape, axes, keep_dims, DataType::kFloat);
  layer.tolerance = 2e-5;
  // Products of many numbers need values near one, logarithms positive sums.
  layer.inputs[0].value = [op](int64_t k) {
    const double v = static_cast<float>(static_cast<double>(k * 7919 % 1009) / 500 - 1);
    return op == ReduceOp::kProd ? 1 + v / 100 : op == ReduceOp::kLogSum ? 1.5 + v : v;
  };
  check_layer(layer, words(op, shape, axes));
}

TEST(Reduce, EveryOperator) {
  for (const ReduceOp op :
       {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMax, ReduceOp::kMin, ReduceOp::kProd,
        ReduceOp::kL1, ReduceOp::kL2, ReduceOp::kLogSum, ReduceOp::kSumSquare})
    for (const ir::Ints& axes : {ir::Ints{2, 3}, {1}, {3}, {0, 1, 2, 3}})
      check(op, {2, 19, 5, 7}, axes, true);
}

TEST(Reduce, EveryAxisSet) {
  for (uint32_t set = 1; set < 16; ++set) {
    ir::Ints axes;
    for (int d = 0; d < 4; ++d)
      if ((set >> d & 1) != 0) axes.push_back(d);
    for (const bool keep_dims : {false, true}) {
      check(ReduceOp::kSum, {3, 37, 4, 70}, axes, keep_dims);
      check(ReduceOp::kMax, {1, 300, 9, 1}, axes, keep_dims);
    }
  }
  check(ReduceOp::kMean, {5, 6}, {1}, false);
  check(ReduceOp::kMean, {1, 40, 60, 60}, {2, 3}, true);
  check(ReduceOp::kSum, {20000}, {0}, true);
}

TEST(Reduce, LongColumns) {
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kProd})
    for (const int64_t rows : {15, 16, 33, 71})
      for (const int64_t cols : {127, 128, 1500}) {
        check(op, {2, rows, cols}, {1}, true);
        check(op, {2, rows, 2, cols}, {0, 1}, false);
      }
}

// Integers and truth values to the bit, of all that wraps around; doubles up to the order of sums.
void check_numbers(ReduceOp op, DataType type, const ir::Extents& shape, const ir::Ints& axes) {
  TestLayer layer = reduce_of(op, shape, axes, shape.size() % 2 == 0, type);
  layer.tolerance = type == DataType::kDouble ? 1e-13 : 0;
  if (type == DataType::kDouble)
    layer.inputs[0].value = [op](int64_t k) {
      const double v = static_cast<double>(k * 7919 % 1009) / 500 - 1;
      return op == ReduceOp::kProd ? 1 + v / 1000 : op == ReduceOp::kLogSum ? 1.5 + v : v;
    };
  else if (type != DataType::kBool)
    layer.inputs[0].value = [](int64_t k) {
      return k % 97 == 0 ? 2147483647.0 : static_cast<double>(k * 37 % 255 - 127);
    };
  check_layer(layer, std::string(ir::type_name(type)) + words(op, shape, axes));
}

TEST(Reduce, Numbers) {
  for (const DataType type : {DataType::kInt64, DataType::kInt32, DataType::kUInt64,
                              DataType::kUInt32, DataType::kDouble})
    for (const ReduceOp op :
         {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMax, ReduceOp::kMin, ReduceOp::kProd,
          ReduceOp::kL1, ReduceOp::kSumSquare, ReduceOp::kL2, ReduceOp::kLogSum}) {
      const bool has_root = op == ReduceOp::kL2 || op == ReduceOp::kLogSum;
      if (has_root && type != DataType::kDouble) continue;
      for (const ir::Ints& axes : {ir::Ints{2, 3}, {1}, {3}, {0, 2}, {0, 1, 2, 3}})
        check_numbers(op, type, {2, 19, 5, 7}, axes);
      check_numbers(op, type, {3, 35, 700}, {1});
      check_numbers(op, type, {3, 700}, {1});
    }
  for (const DataType type : {DataType::kInt8, DataType::kUInt8, DataType::kBool})
    for (const ReduceOp op : {ReduceOp::kMax, ReduceOp::kMin})
      for (const ir::Ints& axes : {ir::Ints{2, 3}, {1}, {3}, {0, 2}, {0, 1, 2, 3}})
        for (const ir::Extents& shape : {ir::Extents{2, 19, 5, 7}, {2, 3, 20, 700}})
          check_numbers(op, type, shape, axes);
}

TEST(Reduce, NanOfDoubles) {
  for (const ReduceOp op : {ReduceOp::kMax, ReduceOp::kMin})
    for (const int64_t axis : {0, 1}) {
      TestLayer layer = reduce_of(op, {40, 5000}, {axis}, true, DataType::kDouble);
      layer.inputs[0].value = [](int64_t k) {
        return k % 27777 == 5      ? NAN
               : k % 6666 == 50    ? INFINITY
               : k % 17777 == 4999 ? -INFINITY
                                   : static_cast<double>(k * 37 % 201);
      };
      check_layer(layer, "axis " + std::to_string(axis));
    }
}

}  // namespace
}  // namespace camshaft::kernels
