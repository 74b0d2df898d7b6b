// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/layer_test_util.h"

namespace camshaft::kernels {
namespace {

using ir::Instruction;
using ir::LayerKind;
using ir::PointOp;
using test::check_layer;
using test::make_layer;
using test::TestLayer;
using test::TestTensor;

TestTensor floats(ir::Extents extents) {
  return {.extents = extents};
}
TestTensor bools(ir::Extents extents) {
  return {.extents = extents, .type = DataType::kBool};
}

Instruction instruction(PointOp op) {
  switch (op) {
    case PointOp::kSelu:
      return {op, 0, -1, -1, 1.6732632f, 1.0507010f};
    case PointOp::kClip:
      return {op, 0, -1, -1, -0.5f, 1.25f};
    case PointOp::kIsInf:
      return {op, 0, -1, -1, 1, 1};
    case PointOp::kHardSigmoid:
      return {op, 0, -1, -1, 0.2f, 0.5f};
    case PointOp::kLeakyRelu:
      return {op, 0, -1, -1, 0.01f, 0};
    default:
      return {op, 0, -1, -1, 1, 0.5f};
  }
}

bool is_integer_only(PointOp op) {
  return op >= PointOp::kBitAnd && op <= PointOp::kShiftRight;
}

// Every operator as a layer of its own, with tails.
TEST(Pointwise, EveryOperator) {
  for (int k = 0; k < ir::kPointOpCount; ++k) {
    const auto op = static_cast<PointOp>(k);
    if (is_integer_only(op)) continue;
    const ir::Extents shape = {2, 5, 3, 7};
    const DataType out = ir::gives_bool(op) ? DataType::kBool : DataType::kFloat;
    const Instruction literals = instruction(op);
    const bool logic =
        op == PointOp::kNot || op == PointOp::kAnd || op == PointOp::kOr || op == PointOp::kXor;
    const TestTensor in = logic ? bools(shape) : floats(shape);
    const ir::PointOpAttrs attrs{op, literals.x, literals.y};
    TestLayer layer{.layer = {}, .inputs = {in}, .outputs = {{.extents = shape, .type = out}}};
    switch (ir::arity(op)) {
      case 1:
        layer.layer = make_layer(LayerKind::kUnary, attrs);
        break;
      case 2:
        layer.layer = make_layer(LayerKind::kElementWise, attrs), layer.inputs.push_back(in);
        break;
      case 3:
        if (op != PointOp::kSelect) continue;
        layer.layer = make_layer(LayerKind::kSelect, attrs);
        layer.inputs = {bools(shape), in, in};
        break;
      default:
        continue;
    }
    check_layer(layer, std::string(ir::point_op_name(op)));
  }
}

TEST(Pointwise, Broadcasts) {
  const ir::Extents shapes[][3] = {
      {{2, 5, 3, 7}, {5, 1, 1}, {2, 5, 3, 7}},
      {{2, 5, 3, 7}, {}, {2, 5, 3, 7}},
      {{2, 5, 3, 7}, {7}, {2, 5, 3, 7}},
      {{2, 1, 3, 7}, {5, 1, 7}, {2, 5, 3, 7}},
      {{1, 40, 1, 1}, {2, 40, 9, 11}, {2, 40, 9, 11}},
      {{3, 1}, {1, 4}, {3, 4}},
      {{}, {}, {}},
      {{4, 1, 6, 1, 2}, {1, 5, 1, 3, 1}, {4, 5, 6, 3, 2}},
      {{0, 3}, {1, 3}, {0, 3}},
      {{1, 64, 33, 35}, {1, 64, 33, 35}, {1, 64, 33, 35}},
      {{1, 3, 200, 200}, {3, 1, 1}, {1, 3, 200, 200}},
      {{70000}, {70000}, {70000}},
  };
  for (const auto& [a, b, out] : shapes) {
    const TestLayer layer{
        .layer = make_layer(LayerKind::kElementWise, ir::PointOpAttrs{PointOp::kSub}),
        .inputs = {floats(a), floats(b)},
        .outputs = {floats(out)}};
    check_layer(layer, ::testing::PrintToString(std::vector<int64_t>(out.begin(), out.end())));
  }
}

TEST(Pointwise, ProgramsWithMixedTypes) {
  const ir::Extents shape = {2, 20, 9, 31};
  ir::Program program{4, {}};  // select(mask & (a < b), silu(a) + b, 0.5 c)
  const int less = ir::append(program, PointOp::kLess, 0, 1);
  const int both = ir::append(program, PointOp::kAnd, 3, less);
  const int sum =
      ir::append(program, PointOp::kAdd, ir::append(program, PointOp::kSilu, 0, -1, -1, 1), 1);
  const int half =
      ir::append(program, PointOp::kMul, 2, ir::append(program, PointOp::kConst, -1, -1, -1, 0.5f));
  ir::append(program, PointOp::kSelect, both, sum, half);
  TestLayer layer{
      .layer = make_layer(LayerKind::kPointWise, ir::PointWiseAttrs{program}),
      .inputs = {floats(shape), floats({20, 1, 1}), floats({2, 1, 9, 31}), bools(shape)},
      .outputs = {floats(shape)}};
  check_layer(layer, "float result");
  ir::append(program, PointOp::kLess, program.result(), 0);
  layer.layer->attrs = ir::PointWiseAttrs{program};
  layer.outputs[0].type = DataType::kBool;
  check_layer(layer, "bool result");
}

TEST(Pointwise, ScaleAlongAnAxis) {
  for (const int64_t axis : {0, 1, 2, 3}) {
    const ir::Extents shape = {3, 17, 5, 19};
    const TestTensor vector{
        .extents = {shape[static_cast<size_t>(axis)]}, .is_data = false, .is_constant = true};
    check_layer({.layer = make_layer(LayerKind::kScale, ir::ScaleAttrs{axis}),
                 .inputs = {floats(shape), vector, vector},
                 .outputs = {floats(shape)}},
                "axis " + std::to_string(axis));
  }
}

TEST(Pointwise, RefusesIntegers) {
  const Problem problem{nullptr,
                        {{true, DataType::kInt64, Format::kLinear, {4}, nullptr}},
                        {{true, DataType::kInt64, Format::kLinear, {4}, nullptr}},
                        1};
  for (const Tactic* tactic : tactics_for(LayerKind::kUnary))
    EXPECT_NE(tactic->refusal(problem), "");
}

}  // namespace
}  // namespace camshaft::kernels
