// SPDX-License-Identifier: Apache-2.0
// Elementwise operators on doubles: exact but for exponentials, logarithms and what is made of
// them.
#include <limits>

#include "kernels/prepared.h"
#include "kernels/vector/layer_test_util.h"

namespace camshaft::kernels {
namespace {

using ir::LayerKind;
using ir::PointOp;
using test::check_layer;
using test::make_layer;
using test::TestTensor;

double number(int64_t k) {
  const double special[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, 1e-310, 1e300, -1e300, 0.5, -2.5};
  return k % 211 < 10 ? special[k % 211] : static_cast<double>(k * 7919 % 1009) / 101 - 5;
}

TestTensor operand(const ir::Extents& extents) {
  return {.extents = extents, .type = DataType::kDouble, .value = number};
}

void check(LayerKind kind, ir::PointOpAttrs attrs, std::vector<TestTensor> inputs,
           double tolerance) {
  const DataType type = ir::gives_bool(attrs.op) ? DataType::kBool : DataType::kDouble;
  check_layer({.layer = make_layer(kind, attrs),
               .inputs = std::move(inputs),
               .outputs = {{.extents = {3, 20, 5, 70}, .type = type}},
               .tolerance = tolerance,
               .only = "f64"},
              std::string(ir::point_op_name(attrs.op)));
}

TEST(Doubles, OneOperand) {
  for (const PointOp op :
       {PointOp::kAbs, PointOp::kNeg, PointOp::kSign, PointOp::kSqrt, PointOp::kReciprocal,
        PointOp::kFloor, PointOp::kCeil, PointOp::kRound, PointOp::kErf, PointOp::kIsNan})
    check(LayerKind::kUnary, {op}, {operand({3, 20, 5, 70})}, 0);
  for (const float below : {0.0F, 1.0F})
    check(LayerKind::kUnary, {PointOp::kIsInf, below, 1 - below}, {operand({3, 20, 5, 70})}, 0);
  for (const PointOp op : {PointOp::kExp, PointOp::kLog, PointOp::kSin, PointOp::kCos})
    check(LayerKind::kUnary, {op}, {operand({3, 20, 5, 70})}, 1e-15);
  for (const PointOp op : {PointOp::kRelu, PointOp::kLeakyRelu, PointOp::kElu, PointOp::kClip})
    check(LayerKind::kActivation, {op, 0.25F, 2}, {operand({3, 20, 5, 70})}, 0);
  for (const PointOp op : {PointOp::kSigmoid, PointOp::kTanh})
    check(LayerKind::kActivation, {op}, {operand({3, 20, 5, 70})}, 1e-15);
}

TEST(Doubles, TwoOperands) {
  for (const PointOp op :
       {PointOp::kAdd, PointOp::kSub, PointOp::kMul, PointOp::kDiv, PointOp::kMin, PointOp::kMax,
        PointOp::kPow, PointOp::kFmod, PointOp::kEqual, PointOp::kLess, PointOp::kLessOrEqual,
        PointOp::kGreater, PointOp::kGreaterOrEqual})
    for (const ir::Extents& other : {ir::Extents{3, 20, 5, 70}, {70}, {3, 1, 5, 1}, {}, {20, 1, 1}})
      check(LayerKind::kElementWise, {op}, {operand({3, 20, 5, 70}), operand(other)}, 0);
}

TEST(Doubles, OnePower) {
  for (const double exponent : {1.0, 2.0, -1.0, 0.5, 3.0, -0.5, 0.0, std::nan("")})
    check(LayerKind::kElementWise, {PointOp::kPow},
          {operand({3, 20, 5, 70}),
           {.extents = {},
            .type = DataType::kDouble,
            .value = [exponent](int64_t) { return exponent; }}},
          5e-16);
}

std::vector<double> results(const Tactic& tactic, PointOp op, std::vector<double>& x) {
  const auto layer = make_layer(tactic.kind, ir::PointOpAttrs{op});
  std::vector<double> y(x.size());
  const int64_t extents[] = {static_cast<int64_t>(x.size())};
  const TensorView inputs[] = {make_view(x.data(), DataType::kDouble, Format::kLinear, extents)};
  const TensorView outputs[] = {make_view(y.data(), DataType::kDouble, Format::kLinear, extents)};
  KernelArgs args;
  args.layer = layer.get();
  args.inputs = inputs;
  args.outputs = outputs;
  EXPECT_TRUE(run_once(tactic, args).ok());
  return y;
}

// Distance from `want` in units of its last place.
double units(double got, double want) {
  if (got == want || (std::isnan(got) && std::isnan(want))) return 0;
  return std::abs(got - want) /
         std::max(std::nextafter(std::abs(want), INFINITY) - std::abs(want), 0x1p-1074);
}

// Of random numbers of all magnitudes that matter.
TEST(Doubles, LastPlaces) {
  struct Function {
    const char* tactic;
    PointOp op;
    double (*exact)(double);
    double low, high;  // exponents of two
    bool has_signs;
    double most;  // units
  };
  const Function functions[] = {
      {"unary_f64", PointOp::kExp, [](double v) { return std::exp(v); }, -60, 9.6, true, 2},
      {"unary_f64", PointOp::kLog, [](double v) { return std::log(v); }, -1070, 1023, false, 2},
      {"unary_f64", PointOp::kLog, [](double v) { return std::log(v); }, -0.7, 0.7, false, 2},
      {"unary_f64", PointOp::kSin, [](double v) { return std::sin(v); }, -60, 19.9, true, 2},
      {"unary_f64", PointOp::kCos, [](double v) { return std::cos(v); }, -60, 19.9, true, 2},
      {"activation_f64", PointOp::kTanh, [](double v) { return std::tanh(v); }, -60, 5, true, 4}};
  for (const Function& function : functions)
    for (const Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512}) {
      const Tactic* tactic = find_tactic(function.tactic, isa);
      if (tactic == nullptr) continue;
      std::mt19937_64 random(1);
      std::uniform_real_distribution<double> exponent(function.low, function.high);
      std::vector<double> x(100000);
      for (double& v : x) {
        v = std::exp2(exponent(random));
        if (function.has_signs && random() % 2 == 0) v = -v;
      }
      const std::vector<double> y = results(*tactic, function.op, x);
      for (size_t k = 0; k < x.size(); ++k)
        ASSERT_LE(units(y[k], function.exact(x[k])), function.most)
            << ir::point_op_name(function.op) << " of " << x[k] << " on " << isa_name(isa);
    }
}

}  // namespace
}  // namespace camshaft::kernels
