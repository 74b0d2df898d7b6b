// SPDX-License-Identifier: Apache-2.0
// Elementwise operators on integers, selections and fills of any type: exact.
#include "kernels/prepared.h"
#include "kernels/vector/layer_test_util.h"

namespace camshaft::kernels {
namespace {

using ir::LayerKind;
using test::check_layer;
using test::make_layer;
using test::TestTensor;

constexpr DataType kIntegerTypes[] = {DataType::kInt64,  DataType::kInt32,  DataType::kInt16,
                                      DataType::kInt8,   DataType::kUInt64, DataType::kUInt32,
                                      DataType::kUInt16, DataType::kUInt8};

bool divides(ir::PointOp op) {
  return op == ir::PointOp::kDiv || op == ir::PointOp::kMod || op == ir::PointOp::kFmod;
}

// Numbers of both signs, and the least ones; of int64 also some that no double holds, in some
// chunks only.
double dividend(DataType type, int64_t k) {
  if (k == 3 && type == DataType::kInt32) return INT32_MIN;
  if (k == 3 && type == DataType::kInt64) return -0x1p63;
  if (type == DataType::kInt64 && k % 1500 == 7) return 0x1.8p62 + 4096.0 * static_cast<double>(k);
  return static_cast<double>(k * 37 % 201 - 100) * (ir::bits_of(type) >= 32 ? 10007 : 1);
}

double divisor(int64_t k) {
  return k % 23 == 12 ? 100 : static_cast<double>(k % 23 - 12);
}

double exponent(int64_t k) {
  return static_cast<double>(k % 11 - 2);
}

std::string words(const ir::Extents& shape) {
  return ::testing::PrintToString(std::vector<int64_t>(shape.begin(), shape.end()));
}

TEST(Integers, IntegerArithmetic) {
  using ir::PointOp;
  for (const PointOp op :
       {PointOp::kAdd, PointOp::kSub, PointOp::kMul, PointOp::kDiv, PointOp::kMod, PointOp::kMin,
        PointOp::kMax, PointOp::kFmod, PointOp::kPow, PointOp::kShiftLeft, PointOp::kShiftRight,
        PointOp::kBitAnd, PointOp::kBitOr, PointOp::kBitXor, PointOp::kEqual, PointOp::kLess,
        PointOp::kLessOrEqual, PointOp::kGreater, PointOp::kGreaterOrEqual})
    for (const DataType type : kIntegerTypes)
      for (const ir::Extents& other :
           {ir::Extents{3, 20, 5, 70}, {70}, {3, 1, 5, 1}, {}, {20, 1, 1}}) {
        TestTensor left{.extents = {3, 20, 5, 70}, .type = type},
            right{.extents = other, .type = type};
        if (divides(op)) {
          left.value = [type](int64_t k) { return dividend(type, k); };
          right.value = divisor;
        } else if (op == PointOp::kPow || op == PointOp::kShiftLeft || op == PointOp::kShiftRight) {
          right.value = exponent;
        }
        check_layer(
            {.layer = make_layer(LayerKind::kElementWise, ir::PointOpAttrs{op}),
             .inputs = {left, right},
             .outputs = {{.extents = {3, 20, 5, 70},
                          .type = ir::gives_bool(op) ? DataType::kBool : type}},
             .tolerance = 0},
            std::string(ir::type_name(type)) + std::string(ir::point_op_name(op)) + words(other));
      }
  for (const PointOp op : {PointOp::kAbs, PointOp::kNeg, PointOp::kSign, PointOp::kBitNot})
    for (const DataType type : kIntegerTypes)
      check_layer({.layer = make_layer(LayerKind::kUnary, ir::PointOpAttrs{op}),
                   .inputs = {{.extents = {3, 20, 300}, .type = type}},
                   .outputs = {{.extents = {3, 20, 300}, .type = type}},
                   .tolerance = 0},
                  std::string(ir::point_op_name(op)));
  for (const DataType type : kIntegerTypes)
    check_layer({.layer = make_layer(LayerKind::kActivation, ir::PointOpAttrs{PointOp::kRelu}),
                 .inputs = {{.extents = {3, 20, 30}, .type = type}},
                 .outputs = {{.extents = {3, 20, 30}, .type = type}},
                 .tolerance = 0},
                "relu");
}

// Rows that are taken together: more than a block of them, of a plane and of several.
TEST(Integers, ShortRows) {
  for (const ir::Extents& shape : {ir::Extents{2, 40, 3, 6}, {3, 300, 7}, {2, 5, 130}})
    for (const ir::PointOp op : {ir::PointOp::kAdd, ir::PointOp::kLess})
      for (const DataType type : kIntegerTypes)
        for (const bool wide : {false, true})
          for (const bool tall : {false, true}) {
            ir::Extents other = shape;
            if (!wide) other.back() = 1;
            if (!tall) other[other.size() - 2] = 1;
            check_layer(
                {.layer = make_layer(LayerKind::kElementWise, ir::PointOpAttrs{op}),
                 .inputs = {{.extents = shape, .type = type}, {.extents = other, .type = type}},
                 .outputs = {{.extents = shape,
                              .type = ir::gives_bool(op) ? DataType::kBool : type}},
                 .tolerance = 0},
                std::string(ir::point_op_name(op)) + words(other));
            check_layer(
                {.layer = make_layer(LayerKind::kSelect, ir::PointOpAttrs{ir::PointOp::kSelect}),
                 .inputs = {{.extents = other, .type = DataType::kBool},
                            {.extents = shape, .type = type},
                            {.extents = other, .type = type}},
                 .outputs = {{.extents = shape, .type = type}},
                 .tolerance = 0},
                "select" + words(other));
          }
}

TEST(Integers, TellsDivisionByZero) {
  const auto layer = make_layer(LayerKind::kElementWise, ir::PointOpAttrs{ir::PointOp::kMod});
  std::vector<int64_t> a = {1, 2, 3}, b = {4, 0, 5}, y(3);
  const TensorView inputs[] = {make_view(a.data(), DataType::kInt64, Format::kLinear, {{3}}),
                               make_view(b.data(), DataType::kInt64, Format::kLinear, {{3}})};
  const TensorView outputs[] = {make_view(y.data(), DataType::kInt64, Format::kLinear, {{3}})};
  KernelArgs args;
  args.layer = layer.get();
  args.inputs = inputs;
  args.outputs = outputs;
  const Tactic* tactic = find_tactic("elementwise_integers", Isa::kScalar);
  ASSERT_NE(tactic, nullptr);
  EXPECT_EQ(run_once(*tactic, args).message(), "integer division by zero");
}

TEST(Integers, Selections) {
  for (const DataType type :
       {DataType::kInt64, DataType::kInt32, DataType::kUInt8, DataType::kBool, DataType::kDouble})
    for (const ir::Extents& other : {ir::Extents{3, 20, 5, 70}, {70}, {3, 1, 5, 1}, {}})
      check_layer({.layer = make_layer(LayerKind::kSelect, ir::PointOpAttrs{ir::PointOp::kSelect}),
                   .inputs = {{.extents = {20, 5, 70}, .type = DataType::kBool},
                              {.extents = {3, 20, 5, 70}, .type = type},
                              {.extents = other, .type = type}},
                   .outputs = {{.extents = {3, 20, 5, 70}, .type = type}},
                   .tolerance = 0},
                  words(other));
}

TEST(Integers, FillsAnyNumber) {
  for (const auto& [type, value] :
       {std::pair(DataType::kFloat, -7.25), std::pair(DataType::kInt64, -7.0),
        std::pair(DataType::kInt32, 40000.0), std::pair(DataType::kBool, 1.0),
        std::pair(DataType::kDouble, 0.1)})
    check_layer(
        {.layer = make_layer(LayerKind::kFill, ir::FillAttrs{type, value, true, {3, 40, 2}}),
         .inputs = {},
         .outputs = {{.extents = {3, 40, 2}, .type = type}},
         .tolerance = 0},
        "fill");
}

}  // namespace
}  // namespace camshaft::kernels
