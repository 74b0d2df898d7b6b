// SPDX-License-Identifier: Apache-2.0
// Comparisons and truth values: exact.
#include "kernels/vector/layer_test_util.h"

namespace camshaft::kernels {
namespace {

using ir::LayerKind;
using ir::PointOp;
using test::check_layer;
using test::make_layer;
using test::TestTensor;

// Equal numbers and NaNs among them.
double number(int64_t k) {
  return k % 41 == 7 ? NAN : static_cast<double>(k * 7 % 13) / 4 - 1;
}

const ir::Extents kShape = {3, 20, 5, 70};

TestTensor operand(DataType type, const ir::Extents& extents) {
  TestTensor tensor{.extents = extents, .type = type};
  if (type == DataType::kFloat) tensor.value = number;
  return tensor;
}

TEST(Truth, OneOperator) {
  const auto check = [](LayerKind kind, PointOp op, std::vector<TestTensor> inputs) {
    check_layer({.layer = make_layer(kind, ir::PointOpAttrs{op}),
                 .inputs = std::move(inputs),
                 .outputs = {{.extents = kShape, .type = DataType::kBool}},
                 .tolerance = 0,
                 .only = "truth"},
                std::string(ir::point_op_name(op)));
  };
  for (const ir::Extents& other : {kShape, {70}, {3, 1, 5, 1}, {}, {20, 1, 1}}) {
    for (const PointOp op : {PointOp::kEqual, PointOp::kLess, PointOp::kLessOrEqual,
                             PointOp::kGreater, PointOp::kGreaterOrEqual})
      check(LayerKind::kElementWise, op,
            {operand(DataType::kFloat, kShape), operand(DataType::kFloat, other)});
    for (const PointOp op : {PointOp::kAnd, PointOp::kOr, PointOp::kXor, PointOp::kEqual})
      check(LayerKind::kElementWise, op,
            {operand(DataType::kBool, kShape), operand(DataType::kBool, other)});
  }
  check(LayerKind::kUnary, PointOp::kNot, {operand(DataType::kBool, kShape)});
  check(LayerKind::kUnary, PointOp::kIsNan, {operand(DataType::kFloat, kShape)});
}

TEST(Truth, Programs) {
  for (const char* text : {"v3 = less v0 v1; v4 = and v3 v2",
                           "v3 = const 0.25; v4 = equal v0 v3; v5 = not v4; v6 = or v5 v2",
                           "v3 = is_nan v0; v4 = greater_or_equal v1 v0; v5 = xor v3 v4; "
                           "v6 = equal v5 v2"})
    for (const ir::Extents& other : {kShape, {5, 1}, {}}) {
      const Result<ir::Program> program = ir::parse_program(3, text);
      ASSERT_TRUE(program.ok()) << program.status().message();
      check_layer({.layer = make_layer(LayerKind::kPointWise, ir::PointWiseAttrs{*program}),
                   .inputs = {operand(DataType::kFloat, kShape), operand(DataType::kFloat, other),
                              operand(DataType::kBool, other)},
                   .outputs = {{.extents = kShape, .type = DataType::kBool}},
                   .tolerance = 0,
                   .only = "truth"},
                  text);
    }
}

}  // namespace
}  // namespace camshaft::kernels
