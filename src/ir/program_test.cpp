// SPDX-License-Identifier: Apache-2.0
#include "ir/program.h"

#include <gtest/gtest.h>

#include <cmath>

namespace camshaft::ir {
namespace {

Program parse(int num_inputs, std::string_view text) {
  Result<Program> program = parse_program(num_inputs, text);
  EXPECT_TRUE(program.ok()) << program.status().message();
  return program.ok() ? *program : Program();
}

double evaluate(const Program& program, std::vector<double> values) {
  for (const Instruction& code : program.code) {
    const auto value = [&](int k) { return k < 0 ? 0.0 : values[k]; };
    values.push_back(
        evaluate_point_op(code.op, value(code.a), value(code.b), value(code.c), code.x, code.y));
  }
  return values[program.result()];
}

TEST(Program, EveryOperatorRoundTripsThroughText) {
  for (int k = 0; k < kPointOpCount; ++k) {
    const PointOp op = static_cast<PointOp>(k);
    EXPECT_EQ(*parse_point_op(point_op_name(op)), op);
    Program program;
    program.num_inputs = 3;
    const int count = arity(op);
    append(program, op, count > 0 ? 0 : -1, count > 1 ? 1 : -1, count > 2 ? 2 : -1,
           literals(op) > 0 ? 0.1f : 0, literals(op) > 1 ? 1e-20f : 0);
    EXPECT_EQ(parse(3, to_string(program)), program) << to_string(program);
  }
}

TEST(Program, TextRejectsWhatIsNotAProgram) {
  for (std::string_view text :
       {"v2 = add v0 v1", "v1 = add v0", "v1 = add v0 v1", "v1 = frob v0", "v1 = clip v0 1",
        "v1 = clip v0 1 x", "v1 = relu v0 v0", "v1 relu v0", "v1 = relu v-1"})
    EXPECT_FALSE(parse_program(1, text).ok()) << text;
}

TEST(Program, OnnxSemantics) {
  const double inf = HUGE_VAL, nan = std::nan("");
  const auto op = [](PointOp which, double a, double b = 0, double c = 0, float x = 0,
                     float y = 0) { return evaluate_point_op(which, a, b, c, x, y); };
  EXPECT_EQ(op(PointOp::kRound, 2.5), 2);
  EXPECT_EQ(op(PointOp::kRound, -1.5), -2);
  EXPECT_EQ(op(PointOp::kMod, -7, 3), 2);
  EXPECT_EQ(op(PointOp::kMod, 7, -3), -2);
  EXPECT_EQ(op(PointOp::kMod, -3, inf), inf);
  EXPECT_TRUE(std::signbit(op(PointOp::kMod, 4, -2)));  // a zero of the divisor's sign
  EXPECT_FALSE(std::signbit(op(PointOp::kMod, -4, 2)));
  EXPECT_EQ(op(PointOp::kFmod, -7, 3), -1);
  EXPECT_EQ(op(PointOp::kClip, 5, 0, 0, 3, 1), 1);  // min > max gives max
  EXPECT_EQ(op(PointOp::kClip, -5, 0, 0, 3, 1), 1);
  EXPECT_TRUE(std::isnan(op(PointOp::kMax, nan, 1)));
  EXPECT_TRUE(std::isnan(op(PointOp::kMax, 1, nan)));
  EXPECT_EQ(op(PointOp::kIsInf, -inf, 0, 0, 0, 1), 0);
  EXPECT_EQ(op(PointOp::kIsInf, inf, 0, 0, 0, 1), 1);
  EXPECT_EQ(op(PointOp::kShrink, -2, 0, 0, 1.5f, 0.5f), -1.5);
  EXPECT_EQ(op(PointOp::kSelect, 1, 2, 3), 2);
  EXPECT_EQ(op(PointOp::kFma, 2, 3, 4), 10);
  EXPECT_EQ(op(PointOp::kShiftLeft, 3, 64), 0);
  EXPECT_EQ(op(PointOp::kShiftLeft, -3, -1), 0);
  EXPECT_EQ(op(PointOp::kShiftRight, -8, 1), -4);
  EXPECT_EQ(op(PointOp::kShiftRight, -8, 64), -1);
  EXPECT_EQ(op(PointOp::kShiftRight, 8, -1), 0);
  EXPECT_NEAR(op(PointOp::kSoftplus, 1000), 1000, 1e-9);
  EXPECT_NEAR(op(PointOp::kSelu, -1, 0, 0, 1.67326f, 1.0507f), 1.0507f * 1.67326f * std::expm1(-1),
              1e-6);
}

TEST(Program, ComposeRenumbersInputs) {
  const Program first = parse(2, "v2 = add v0 v1");
  const Program second = parse(3, "v3 = mul v0 v1; v4 = sub v3 v2");
  const Program both = compose(first, second, 1);
  EXPECT_EQ(to_string(both), "v4 = add v0 v1; v5 = mul v2 v4; v6 = sub v5 v3");
  EXPECT_EQ(evaluate(both, {1, 2, 5, 7}), 8);
}

struct SimplifyCase {
  int num_inputs;
  const char* before;
  const char* after;
};

class Simplify : public testing::TestWithParam<SimplifyCase> {};

TEST_P(Simplify, GivesTheShortFormWithTheSameValues) {
  const SimplifyCase& c = GetParam();
  const Program before = parse(c.num_inputs, c.before);
  const Program after = simplify(before);
  EXPECT_EQ(to_string(after), c.after);
  for (double v = -4; v <= 4; v += 0.37) {
    std::vector<double> inputs = {v, 0.3 - v, 1.5 * v};
    inputs.resize(c.num_inputs);
    const double expected = evaluate(before, inputs);
    EXPECT_NEAR(evaluate(after, inputs), expected, 2e-5 * std::max(1.0, std::abs(expected)));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Patterns, Simplify,
    testing::Values(
        SimplifyCase{1, "v1 = sigmoid v0; v2 = mul v1 v0", "v1 = silu v0 1"},
        SimplifyCase{1, "v1 = const 1.702; v2 = mul v0 v1; v3 = sigmoid v2; v4 = mul v0 v3",
                     "v1 = silu v0 1.702"},
        SimplifyCase{1,
                     "v1 = const 3; v2 = add v0 v1; v3 = clip v2 0 6; v4 = mul v0 v3; v5 = const "
                     "6; v6 = div v4 v5",
                     "v1 = hard_swish v0"},
        SimplifyCase{1,
                     "v1 = const 3; v2 = add v0 v1; v3 = clip v2 0 6; v4 = const 6; v5 = div v3 "
                     "v4; v6 = mul v5 v0",
                     "v1 = hard_swish v0"},
        SimplifyCase{1, "v1 = hard_sigmoid v0 0.16666667 0.5; v2 = mul v0 v1",
                     "v1 = hard_swish v0"},
        SimplifyCase{1,
                     "v1 = const 3; v2 = add v0 v1; v3 = relu v2; v4 = const 6; v5 = min v3 v4; v6 "
                     "= const 0.16666667; v7 = mul v5 v6",
                     "v1 = hard_sigmoid v0 0.16666667 0.5"},
        SimplifyCase{1,
                     "v1 = const 1.4142135; v2 = div v0 v1; v3 = erf v2; v4 = const 1; v5 = add v3 "
                     "v4; v6 = mul v0 v5; v7 = const 0.5; v8 = mul v6 v7",
                     "v1 = gelu v0"},
        SimplifyCase{1,
                     "v1 = const 0.5; v2 = mul v0 v1; v3 = const 0.70710677; v4 = mul v0 v3; v5 = "
                     "erf v4; v6 = const 1; v7 = add v6 v5; v8 = mul v2 v7",
                     "v1 = gelu v0"},
        SimplifyCase{1,
                     "v1 = const 3; v2 = pow v0 v1; v3 = const 0.044715; v4 = mul v2 v3; v5 = add "
                     "v0 v4; v6 = const 0.7978846; v7 = mul v5 v6; v8 = tanh v7; v9 = const 1; v10 "
                     "= add v8 v9; v11 = const 0.5; v12 = mul v10 v11; v13 = mul v0 v12",
                     "v1 = gelu_tanh v0"},
        SimplifyCase{1, "v1 = softplus v0; v2 = tanh v1; v3 = mul v0 v2", "v1 = mish v0"},
        SimplifyCase{1, "v1 = neg v0; v2 = exp v1; v3 = const 1; v4 = add v2 v3; v5 = div v3 v4",
                     "v1 = sigmoid v0"},
        SimplifyCase{2, "v2 = add v0 v1; v3 = exp v2; v4 = const 1; v5 = add v3 v4; v6 = log v5",
                     "v2 = add v0 v1; v3 = softplus v2"},
        SimplifyCase{1, "v1 = relu v0; v2 = const 6; v3 = min v1 v2", "v1 = clip v0 0 6"},
        SimplifyCase{1, "v1 = clip v0 -1 1; v2 = relu v1", "v1 = clip v0 0 1"},
        SimplifyCase{1, "v1 = const 0; v2 = max v0 v1", "v1 = relu v0"},
        SimplifyCase{1, "v1 = const 0.1; v2 = mul v0 v1; v3 = max v2 v0", "v1 = leaky_relu v0 0.1"},
        SimplifyCase{1, "v1 = const 2; v2 = pow v0 v1", "v1 = mul v0 v0"},
        SimplifyCase{1, "v1 = const 2; v2 = add v0 v1; v3 = const 4; v4 = mul v2 v3",
                     "v1 = const 4; v2 = const 8; v3 = fma v0 v1 v2"},
        SimplifyCase{3, "v3 = mul v0 v1; v4 = add v2 v3", "v3 = fma v0 v1 v2"},
        SimplifyCase{2, "v2 = add v0 v1; v3 = add v1 v0; v4 = mul v2 v3",
                     "v2 = add v0 v1; v3 = mul v2 v2"},
        SimplifyCase{2, "v2 = relu v0; v3 = exp v1", "v2 = exp v1"},
        SimplifyCase{1, "v1 = const 0; v2 = add v0 v1; v3 = const 1; v4 = mul v2 v3", ""},
        SimplifyCase{2, "v2 = identity v0", "v2 = identity v0"}));

TEST(Program, AHiddenBoundIsNotTakenForAnActivation) {
  const Program bounded = parse(1, "v1 = sigmoid v0; v2 = mul v0 v1; v3 = clip v2 -1 100");
  EXPECT_EQ(to_string(simplify(bounded)), "v1 = silu v0 1; v2 = clip v1 -1 100");
  const Program other = parse(1, "v1 = const 4; v2 = add v0 v1; v3 = clip v2 0 6; v4 = mul v0 v3");
  EXPECT_EQ(to_string(simplify(other)).find("hard_swish"), std::string::npos);
}

// (v - 117) s as s v - 117 s: the rounded product leaves something where 0 belongs.
TEST(Program, ZeroPointsStandForZero) {
  const auto result = [](const Program& program, std::vector<float> values) {
    for (const Instruction& code : simplify(program).code) {
      const auto value = [&](int k) { return k < 0 ? 0.0f : values[static_cast<size_t>(k)]; };
      values.push_back(static_cast<float>(
          evaluate_point_op(code.op, value(code.a), value(code.b), value(code.c), code.x, code.y)));
    }
    return values.back();
  };
  const auto at_zero_point = [&](std::string_view text) { return result(parse(1, text), {117}); };
  constexpr const char* kScaled =
      "v1 = const 117; v2 = sub v0 v1; v3 = const 0.0007929203; v4 = mul v2 v3";
  EXPECT_EQ(at_zero_point(kScaled), 0);
  EXPECT_EQ(at_zero_point(std::string(kScaled) + "; v5 = sqrt v4"), 0);
  EXPECT_EQ(at_zero_point("v1 = const 117; v2 = add v0 v1; v3 = clip v2 0 117; v4 = sub v3 v1; "
                          "v5 = const 0.0007929203; v6 = mul v4 v5"),
            0);
  // Contracted before the root was fused: taken apart again.
  Program contracted = parse(
      2, "v2 = const 0.0007929203; v3 = const 0; v4 = fma v0 v2 v3; v5 = add v4 v1; v6 = sqrt v5");
  contracted.code[1].x = -117 * contracted.code[0].x;
  EXPECT_EQ(result(contracted, {117, 0}), 0);
  // 128 times a scale is exact, and who adds does not mind.
  const auto simplified = [](int inputs, std::string_view text) {
    return to_string(simplify(parse(inputs, text)));
  };
  EXPECT_NE(simplified(1, "v1 = const 128; v2 = sub v0 v1; v3 = const 0.0007929203; v4 = mul v2 v3")
                .find("fma"),
            std::string::npos);
  EXPECT_NE(simplified(2,
                       "v2 = const 117; v3 = sub v0 v2; v4 = const 0.0007929203; v5 = mul v3 v4; "
                       "v6 = add v5 v1")
                .find("fma"),
            std::string::npos);
}

}  // namespace
}  // namespace camshaft::ir
