// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/layer_test_util.h"

namespace camshaft::kernels {
namespace {

using ir::ReduceOp;
using test::check_layer;
using test::TestLayer;

void check(ReduceOp op, const ir::Extents& shape, const ir::Ints& axes, bool keep_dims) {
  ir::Extents out;
  for (size_t d = 0; d < shape.size(); ++d) {
    bool reduced = false;
    for (const int64_t axis : axes) reduced |= axis == static_cast<int64_t>(d);
    if (!reduced)
      out.push_back(shape[d]);
    else if (keep_dims)
      out.push_back(1);
  }
  TestLayer layer{
      .layer = test::make_layer(ir::LayerKind::kReduce, ir::ReduceAttrs{op, axes, keep_dims}),
      .inputs = {{.extents = shape}},
      .outputs = {{.extents = out}},
      .tolerance = 2e-5};
  // Products of many numbers need values near one, logarithms positive sums.
  layer.inputs[0].value = [op](int64_t k) {
    const double v = static_cast<float>(static_cast<double>(k * 7919 % 1009) / 500 - 1);
    return op == ReduceOp::kProd ? 1 + v / 100 : op == ReduceOp::kLogSum ? 1.5 + v : v;
  };
  check_layer(layer,
              std::string(ir::enum_name(op)) + " of " +
                  ::testing::PrintToString(std::vector<int64_t>(shape.begin(), shape.end())) +
                  " over " + ::testing::PrintToString(axes));
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

}  // namespace
}  // namespace camshaft::kernels
