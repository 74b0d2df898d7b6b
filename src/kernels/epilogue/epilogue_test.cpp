// SPDX-License-Identifier: Apache-2.0
// Float epilogues: what is recognised, and that it gives the bits of the program.
#include "kernels/epilogue/epilogue.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "kernels/testing/epilogue_spellings.h"

namespace camshaft::kernels {
namespace {

using Op = ir::PointOp;

// Of an operand that is NaN they give the second one, as instructions do.
float least(float a, float b) {
  return a < b ? a : b;
}
float largest(float a, float b) {
  return a > b ? a : b;
}

// An operator of floats as tile programs do it.
float applied(const ir::Instruction& op, float a, float b, float c) {
  switch (op.op) {
    case Op::kRelu:
      return largest(0, a);
    case Op::kClip:
      return least(op.y, largest(op.x, a));
    case Op::kMin:
      return std::isnan(a) ? a : least(a, b);
    case Op::kMax:
      return std::isnan(a) ? a : largest(a, b);
    case Op::kLeakyRelu:
      return a < 0 ? a * op.x : a;
    case Op::kHardSigmoid:
      return least(1, largest(0, std::fma(a, op.x, op.y)));
    case Op::kHardSwish:
      return a * least(1, largest(0, std::fma(a, 1.0F / 6, 0.5F)));
    case Op::kFma:
      return std::fma(a, b, c);
    case Op::kAdd:
      return a + b;
    case Op::kSub:
      return a - b;
    case Op::kMul:
      return a * b;
    case Op::kDiv:
      return a / b;
    default:
      return static_cast<float>(ir::evaluate_point_op(op.op, static_cast<double>(a),
                                                      static_cast<double>(b),
                                                      static_cast<double>(c), op.x, op.y));
  }
}

float run(const ir::Program& program, const std::vector<float>& inputs) {
  std::vector<float> values(inputs.begin(), inputs.begin() + program.num_inputs);
  for (const ir::Instruction& op : program.code) {
    const auto at = [&values](int k) { return k < 0 ? 0 : values[static_cast<size_t>(k)]; };
    values.push_back(applied(op, at(op.a), at(op.b), at(op.c)));
  }
  return values.back();
}

float run(const Epilogue& e, const std::vector<float>& inputs) {
  float v = inputs[0];
  if (e.slope != 1) v = largest(v * e.slope, v);
  if (e.is_gated)
    v = v * least(e.gate.high, largest(e.gate.low, std::fma(v, e.gate.scale, e.gate.shift)));
  if (e.adds()) v = v + inputs[1 + static_cast<size_t>(e.residual)];
  return least(e.high, largest(e.low, v));
}

bool are_same(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

class Values {
 public:
  explicit Values(uint32_t seed) : random_(seed) {}
  uint32_t below(uint32_t count) { return static_cast<uint32_t>(random_()) % count; }
  float operator()() {
    static constexpr float kSpecial[] = {
        0, -0.0F, 1, -1, 3, -3, 6, HUGE_VALF, -HUGE_VALF, 1e-40F, -1e-40F, 1e38F, -1e38F, NAN};
    if (below(2) == 0) return kSpecial[below(std::size(kSpecial))];
    return static_cast<float>(below(16001)) / 1000 - 8;
  }

 private:
  std::mt19937 random_;
};

void expect_same_bits(const ir::Program& program, const Epilogue& epilogue, Values& values) {
  for (int n = 0; n < 100; ++n) {
    const std::vector<float> inputs = {values(), values(), values()};
    const float wanted = run(program, inputs), got = run(epilogue, inputs);
    ASSERT_TRUE(are_same(wanted, got))
        << ir::to_string(program) << " of " << inputs[0] << ", " << inputs[1] << ", " << inputs[2]
        << ": " << wanted << ", not " << got;
  }
}

TEST(Epilogue, TakesEverySpelling) {
  Values values(1);
  for (uint32_t seed = 0; seed < 5000; ++seed) {
    const ir::Program program = EpilogueSpelling(seed).program();
    const Epilogue epilogue = classify_epilogue(program);
    ASSERT_FALSE(epilogue.is_program) << ir::to_string(program);
    expect_same_bits(program, epilogue, values);
  }
}

ir::Program random_program(Values& values) {
  static constexpr Op kOps[] = {Op::kIdentity,    Op::kNeg,       Op::kRound, Op::kRelu,
                                Op::kClip,        Op::kMin,       Op::kMax,   Op::kAdd,
                                Op::kSub,         Op::kMul,       Op::kDiv,   Op::kFma,
                                Op::kLeakyRelu,   Op::kHardSwish, Op::kLess,  Op::kSelect,
                                Op::kHardSigmoid, Op::kGreater,   Op::kAbs};
  static constexpr float kNumbers[] = {0, 1, -1, 0.5F, 3, 6, 1.0F / 6, 0.1F, -0.0F, -2.3F};
  const auto number = [&values] { return kNumbers[values.below(std::size(kNumbers))]; };
  ir::Program program;
  program.num_inputs = 1 + static_cast<int>(values.below(3));
  for (uint32_t more = 1 + values.below(5); more > 0; --more) {
    if (values.below(2) == 0) ir::append(program, Op::kConst, -1, -1, -1, number());
    const Op op = kOps[values.below(std::size(kOps))];
    const int last = program.result();
    int operands[3] = {-1, -1, -1};
    for (int n = 0; n < ir::arity(op); ++n)
      operands[n] = values.below(2) == 0
                        ? last
                        : static_cast<int>(values.below(static_cast<uint32_t>(last) + 1));
    ir::append(program, op, operands[0], operands[1], operands[2], number(), number());
  }
  return program;
}

// But for activations alone: a gate may have a factor, and a slope of 0 makes no NaN.
TEST(Epilogue, GivesTheBitsOfRandomPrograms) {
  Values values(2);
  int taken = 0;
  for (int n = 0; n < 200000; ++n) {
    const ir::Program program = random_program(values);
    const Epilogue epilogue = classify_epilogue(program);
    const bool is_alone = !epilogue.adds() && program.num_inputs == 1;
    if (epilogue.is_program || (is_alone && (epilogue.is_gated || epilogue.slope == 0))) continue;
    ++taken;
    expect_same_bits(program, epilogue, values);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(taken, 5000);
}

TEST(Epilogue, GatesMayHaveAFactor) {
  for (const char* text :
       {"v1 = hard_swish v0", "v1 = const 3; v2 = add v0 v1; v3 = clip v2 0 6; v4 = mul v0 v3",
        "v1 = const 3; v2 = add v1 v0; v3 = relu v2; v4 = mul v3 v0; v5 = const "
        "4; v6 = div v4 v5",
        "v1 = hard_sigmoid v0 0.2 0.5; v2 = mul v1 v0; v3 = const 2; v4 = mul "
        "v3 v2",
        "v1 = const 0.5; v2 = fma v0 v1 v1; v3 = clip v2 -1 1; v4 = mul v0 v3"}) {
    const ir::Program program = ir::parse_program(1, text).value();
    const Epilogue epilogue = classify_epilogue(program);
    ASSERT_TRUE(epilogue.is_gated) << text;
    for (float v = -9; v < 9; v += 0.37F)
      EXPECT_NEAR(run(epilogue, {v}), run(program, {v}), 1e-5) << text << " of " << v;
  }
}

TEST(Epilogue, LeavesProgramsAlone) {
  for (const char* text :
       {"v3 = silu v0 1", "v3 = mul v0 v0", "v3 = const 3; v4 = add v0 v3",
        "v3 = clip v0 0 1; v4 = clip v0 0 2; v5 = mul v3 v4",
        "v3 = hard_swish v0; v4 = const 1; v5 = add v3 v4",
        "v3 = hard_swish v0; v4 = const -1; v5 = mul v3 v4",
        // What would round otherwise.
        "v3 = const 2; v4 = mul v0 v3; v5 = const 0.5; v6 = mul v4 v5",
        "v3 = hard_swish v0; v4 = const 2; v5 = mul v3 v4; v6 = add v5 v1",
        "v3 = clip v0 1 2; v4 = fma v0 v3 v1",
        // The sign of a zero.
        "v3 = const 0; v4 = max v0 v3", "v3 = const 0; v4 = add v0 v3",
        // NaN.
        "v3 = const 0; v4 = greater v0 v3; v5 = select v4 v0 v3",
        // What comes after the residual, or after a clamp.
        "v3 = add v0 v1; v4 = leaky_relu v3 0.1", "v3 = relu v0; v4 = add v3 v1",
        "v3 = add v0 v1; v4 = add v3 v2", "v3 = sub v0 v1", "v3 = relu v1",
        "v3 = leaky_relu v0 1.5", "v3 = leaky_relu v0 0; v4 = add v3 v1", "v3 = clip v0 2 1"})
    EXPECT_TRUE(classify_epilogue(ir::parse_program(3, text).value()).is_program) << text;
}

TEST(Epilogue, SaysWhichOperandIsAdded) {
  const Epilogue epilogue = classify_epilogue(
      ir::parse_program(3, "v3 = leaky_relu v0 0.1; v4 = add v2 v3; v5 = clip v4 -1 6").value());
  EXPECT_EQ(epilogue.residual, 1);
  EXPECT_EQ(epilogue.slope, 0.1F);
  EXPECT_EQ(epilogue.low, -1);
  EXPECT_EQ(epilogue.high, 6);
  EXPECT_FALSE(epilogue.is_clamp());
}

}  // namespace
}  // namespace camshaft::kernels
