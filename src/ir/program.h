// SPDX-License-Identifier: Apache-2.0
// Pointwise operators and tile programs: a short SSA program of elementwise operations, the body of
// a PointWise layer and the epilogue of convolutions, matrix products and others.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace camshaft::ir {

// Every elementwise operator. x, y are the instruction's literals. ONNX semantics unless said.
enum class PointOp : uint8_t {
  // constants
  kConst,  // x
  // unary arithmetic
  kIdentity,
  kAbs,
  kNeg,
  kSign,
  kSqrt,
  kReciprocal,
  kExp,
  kLog,
  kErf,
  kFloor,
  kCeil,
  kRound,  // half to even
  kSin,
  kCos,
  kTan,
  kAsin,
  kAcos,
  kAtan,
  kSinh,
  kCosh,
  kAsinh,
  kAcosh,
  kAtanh,
  // activations
  kRelu,
  kSigmoid,
  kTanh,
  kLeakyRelu,    // x = alpha
  kElu,          // x = alpha
  kSelu,         // x = alpha, y = gamma
  kCelu,         // x = alpha
  kHardSigmoid,  // x = alpha, y = beta: clamp(alpha*v + beta, 0, 1)
  kHardSwish,    // v * clamp(v/6 + 0.5, 0, 1)
  kSoftplus,
  kSoftsign,
  kMish,
  kThresholdedRelu,  // x = alpha
  kShrink,           // x = lambd, y = bias
  kSilu,             // v * sigmoid(x * v), x = 1 for SiLU
  kGelu,             // v * 0.5 * (1 + erf(v / sqrt(2)))
  kGeluTanh,         // the tanh approximation
  kClip,             // min(max(v, x), y)
  // logic and tests
  kNot,
  kIsNan,
  kIsInf,  // x ≠ 0: detects negative, y ≠ 0: detects positive
  // binary
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMin,
  kMax,
  kPow,
  kPRelu,
  kMod,   // sign of the divisor (integers)
  kFmod,  // sign of the dividend
  kEqual,
  kLess,
  kLessOrEqual,
  kGreater,
  kGreaterOrEqual,
  kAnd,
  kOr,
  kXor,
  kBitAnd,
  kBitOr,
  kBitXor,
  kBitNot,
  kShiftLeft,
  kShiftRight,
  // ternary
  kSelect,  // a ≠ 0 ? b : c
  kFma,     // a*b + c
};
inline constexpr int kPointOpCount = static_cast<int>(PointOp::kFma) + 1;

std::string_view point_op_name(PointOp op);  // "add", "hard_sigmoid" …
Result<PointOp> parse_point_op(std::string_view name);
int arity(PointOp op);     // 0 … 3
int literals(PointOp op);  // how many of x, y count: 0 … 2
bool gives_bool(PointOp op);

// The operator on one double: the definition every kernel is tested against.
double evaluate_point_op(PointOp op, double a, double b, double c, float x, float y);

// Values are numbered: 0 … num_inputs-1 are the inputs, num_inputs + k is the result of code[k].
struct Instruction {
  PointOp op = PointOp::kIdentity;
  int16_t a = -1, b = -1, c = -1;
  float x = 0, y = 0;
  friend bool operator==(const Instruction&, const Instruction&) = default;
};

struct Program {
  int num_inputs = 0;
  std::vector<Instruction> code;

  bool empty() const { return code.empty(); }
  int result() const { return num_inputs + static_cast<int>(code.size()) - 1; }  // the last value
  friend bool operator==(const Program&, const Program&) = default;
};

// "v2 = add v0 v1; v3 = relu v2": readable, and parsed back.
std::string to_string(const Program& program);
Result<Program> parse_program(int num_inputs, std::string_view text);

// Appends to `program` the operator on already defined values; gives the number of its value.
int append(Program& program, PointOp op, int a = -1, int b = -1, int c = -1, float x = 0,
           float y = 0);

// `second` after `first`: input `slot` of `second` is the result of `first`; the other inputs of
// `second` follow those of `first`.
Program compose(const Program& first, const Program& second, int slot);

// Known identities with the same or better numbers: v*sigmoid(v) → silu, x*clamp(x+3,0,6)/6 →
// hard_swish, max(min()) → clip, mul+add → fma, unused code removed, equal values shared. Results
// may differ by rounding.
Program simplify(const Program& program);

}  // namespace camshaft::ir
