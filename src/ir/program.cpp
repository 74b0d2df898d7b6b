// SPDX-License-Identifier: Apache-2.0
// Pointwise operators: names, arity, meaning in double; the text form of programs.
#include "ir/program.h"

#include <algorithm>
#include <cassert>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <iterator>

#include "ir/truth_ops.h"

namespace camshaft::ir {
namespace {

struct OpRow {
  PointOp op;
  std::string_view name;
  int8_t arity, literals;
  bool gives_bool = false;
};

constexpr OpRow kOps[] = {
    {PointOp::kConst, "const", 0, 1},
    {PointOp::kIdentity, "identity", 1, 0},
    {PointOp::kAbs, "abs", 1, 0},
    {PointOp::kNeg, "neg", 1, 0},
    {PointOp::kSign, "sign", 1, 0},
    {PointOp::kSqrt, "sqrt", 1, 0},
    {PointOp::kReciprocal, "reciprocal", 1, 0},
    {PointOp::kExp, "exp", 1, 0},
    {PointOp::kLog, "log", 1, 0},
    {PointOp::kErf, "erf", 1, 0},
    {PointOp::kFloor, "floor", 1, 0},
    {PointOp::kCeil, "ceil", 1, 0},
    {PointOp::kRound, "round", 1, 0},
    {PointOp::kSin, "sin", 1, 0},
    {PointOp::kCos, "cos", 1, 0},
    {PointOp::kTan, "tan", 1, 0},
    {PointOp::kAsin, "asin", 1, 0},
    {PointOp::kAcos, "acos", 1, 0},
    {PointOp::kAtan, "atan", 1, 0},
    {PointOp::kSinh, "sinh", 1, 0},
    {PointOp::kCosh, "cosh", 1, 0},
    {PointOp::kAsinh, "asinh", 1, 0},
    {PointOp::kAcosh, "acosh", 1, 0},
    {PointOp::kAtanh, "atanh", 1, 0},
    {PointOp::kRelu, "relu", 1, 0},
    {PointOp::kSigmoid, "sigmoid", 1, 0},
    {PointOp::kTanh, "tanh", 1, 0},
    {PointOp::kLeakyRelu, "leaky_relu", 1, 1},
    {PointOp::kElu, "elu", 1, 1},
    {PointOp::kSelu, "selu", 1, 2},
    {PointOp::kCelu, "celu", 1, 1},
    {PointOp::kHardSigmoid, "hard_sigmoid", 1, 2},
    {PointOp::kHardSwish, "hard_swish", 1, 0},
    {PointOp::kSoftplus, "softplus", 1, 0},
    {PointOp::kSoftsign, "softsign", 1, 0},
    {PointOp::kMish, "mish", 1, 0},
    {PointOp::kThresholdedRelu, "thresholded_relu", 1, 1},
    {PointOp::kShrink, "shrink", 1, 2},
    {PointOp::kSilu, "silu", 1, 1},
    {PointOp::kGelu, "gelu", 1, 0},
    {PointOp::kGeluTanh, "gelu_tanh", 1, 0},
    {PointOp::kClip, "clip", 1, 2},
    {PointOp::kNot, "not", 1, 0, true},
    {PointOp::kIsNan, "is_nan", 1, 0, true},
    {PointOp::kIsInf, "is_inf", 1, 2, true},
    {PointOp::kAdd, "add", 2, 0},
    {PointOp::kSub, "sub", 2, 0},
    {PointOp::kMul, "mul", 2, 0},
    {PointOp::kDiv, "div", 2, 0},
    {PointOp::kMin, "min", 2, 0},
    {PointOp::kMax, "max", 2, 0},
    {PointOp::kPow, "pow", 2, 0},
    {PointOp::kPRelu, "prelu", 2, 0},
    {PointOp::kMod, "mod", 2, 0},
    {PointOp::kFmod, "fmod", 2, 0},
    {PointOp::kEqual, "equal", 2, 0, true},
    {PointOp::kLess, "less", 2, 0, true},
    {PointOp::kLessOrEqual, "less_or_equal", 2, 0, true},
    {PointOp::kGreater, "greater", 2, 0, true},
    {PointOp::kGreaterOrEqual, "greater_or_equal", 2, 0, true},
    {PointOp::kAnd, "and", 2, 0, true},
    {PointOp::kOr, "or", 2, 0, true},
    {PointOp::kXor, "xor", 2, 0, true},
    {PointOp::kBitAnd, "bit_and", 2, 0},
    {PointOp::kBitOr, "bit_or", 2, 0},
    {PointOp::kBitXor, "bit_xor", 2, 0},
    {PointOp::kBitNot, "bit_not", 1, 0},
    {PointOp::kShiftLeft, "shift_left", 2, 0},
    {PointOp::kShiftRight, "shift_right", 2, 0},
    {PointOp::kSelect, "select", 3, 0},
    {PointOp::kFma, "fma", 3, 0},
};

constexpr bool rows_are_in_order() {
  for (int k = 0; k < kPointOpCount; ++k)
    if (static_cast<int>(kOps[k].op) != k) return false;
  return std::size(kOps) == kPointOpCount;
}
static_assert(rows_are_in_order());

const OpRow& row(PointOp op) {
  return kOps[static_cast<int>(op)];
}

double clamp(double value, double low, double high) {
  return value < low ? std::min(low, high) : value > high ? high : value;
}
double sigmoid(double v) {
  return 1 / (1 + std::exp(-v));
}
double softplus(double v) {
  return std::max(v, 0.0) + std::log1p(std::exp(-std::abs(v)));
}
double elu(double v, double alpha) {
  return v < 0 ? alpha * std::expm1(v) : v;
}

double gelu_tanh(double v) {
  const double kSqrt2OverPi = 0.79788456080286535588;
  return 0.5 * v * (1 + std::tanh(kSqrt2OverPi * (v + 0.044715 * v * v * v)));
}

double sign(double v) {
  return v > 0 ? 1 : v < 0 ? -1 : v;
}  // NaN stays NaN

// NaN in any operand gives NaN, as numpy's minimum and maximum.
double minimum(double a, double b) {
  return std::isnan(a) || a < b ? a : b;
}
double maximum(double a, double b) {
  return std::isnan(a) || a > b ? a : b;
}

double floor_mod(double a, double b) {
  const double rest = std::fmod(a, b);
  if (rest == 0) return std::copysign(0.0, b);
  return (rest < 0) != (b < 0) ? rest + b : rest;
}

// Numbers of bits that are negative or too many shift everything out, but for the sign.
double shift(double a, double b, bool left) {
  const auto value = static_cast<int64_t>(a);
  if (!(b >= 0 && b < 64)) return !left && value < 0 ? -1 : 0;
  const int bits = static_cast<int>(b);
  return static_cast<double>(left ? static_cast<int64_t>(static_cast<uint64_t>(value) << bits)
                                  : value >> bits);
}

double evaluate_unary(PointOp op, double a, float x, float y) {
  switch (op) {
    case PointOp::kConst:
      return x;
    case PointOp::kIdentity:
      return a;
    case PointOp::kAbs:
      return std::abs(a);
    case PointOp::kNeg:
      return -a;
    case PointOp::kSign:
      return sign(a);
    case PointOp::kSqrt:
      return std::sqrt(a);
    case PointOp::kReciprocal:
      return 1 / a;
    case PointOp::kExp:
      return std::exp(a);
    case PointOp::kLog:
      return std::log(a);
    case PointOp::kErf:
      return std::erf(a);
    case PointOp::kFloor:
      return std::floor(a);
    case PointOp::kCeil:
      return std::ceil(a);
    case PointOp::kRound:
      return std::nearbyint(a);
    case PointOp::kSin:
      return std::sin(a);
    case PointOp::kCos:
      return std::cos(a);
    case PointOp::kTan:
      return std::tan(a);
    case PointOp::kAsin:
      return std::asin(a);
    case PointOp::kAcos:
      return std::acos(a);
    case PointOp::kAtan:
      return std::atan(a);
    case PointOp::kSinh:
      return std::sinh(a);
    case PointOp::kCosh:
      return std::cosh(a);
    case PointOp::kAsinh:
      return std::asinh(a);
    case PointOp::kAcosh:
      return std::acosh(a);
    case PointOp::kAtanh:
      return std::atanh(a);
    case PointOp::kRelu:
      return a < 0 ? 0 : a;
    case PointOp::kSigmoid:
      return sigmoid(a);
    case PointOp::kTanh:
      return std::tanh(a);
    case PointOp::kLeakyRelu:
      return a < 0 ? x * a : a;
    case PointOp::kElu:
      return elu(a, x);
    case PointOp::kSelu:
      return y * elu(a, x);
    case PointOp::kCelu:
      return a < 0 ? x * std::expm1(a / x) : a;
    case PointOp::kHardSigmoid:
      return clamp(double{x} * a + y, 0, 1);
    case PointOp::kHardSwish:
      return a * clamp(a / 6 + 0.5, 0, 1);
    case PointOp::kSoftplus:
      return softplus(a);
    case PointOp::kSoftsign:
      return a / (1 + std::abs(a));
    case PointOp::kMish:
      return a * std::tanh(softplus(a));
    case PointOp::kThresholdedRelu:
      return a > x ? a : 0;
    case PointOp::kShrink:
      return a < -x ? a + y : a > x ? a - y : 0;
    case PointOp::kSilu:
      return a * sigmoid(x * a);
    case PointOp::kGelu:
      return 0.5 * a * (1 + std::erf(a * M_SQRT1_2));
    case PointOp::kGeluTanh:
      return gelu_tanh(a);
    case PointOp::kClip:
      return clamp(a, x, y);
    case PointOp::kNot:
      return a == 0;
    case PointOp::kIsNan:
      return std::isnan(a);
    case PointOp::kIsInf:
      return std::isinf(a) && (a < 0 ? x != 0 : y != 0);
    case PointOp::kBitNot:
      return static_cast<double>(~static_cast<int64_t>(a));
    default:
      return std::nan("");
  }
}

double evaluate_binary(PointOp op, double a, double b) {
  switch (op) {
    case PointOp::kAdd:
      return a + b;
    case PointOp::kSub:
      return a - b;
    case PointOp::kMul:
      return a * b;
    case PointOp::kDiv:
      return a / b;
    case PointOp::kMin:
      return minimum(a, b);
    case PointOp::kMax:
      return maximum(a, b);
    case PointOp::kPow:
      return std::pow(a, b);
    case PointOp::kPRelu:
      return a < 0 ? a * b : a;
    case PointOp::kMod:
      return floor_mod(a, b);
    case PointOp::kFmod:
      return std::fmod(a, b);
    case PointOp::kBitAnd:
      return static_cast<double>(static_cast<int64_t>(a) & static_cast<int64_t>(b));
    case PointOp::kBitOr:
      return static_cast<double>(static_cast<int64_t>(a) | static_cast<int64_t>(b));
    case PointOp::kBitXor:
      return static_cast<double>(static_cast<int64_t>(a) ^ static_cast<int64_t>(b));
    case PointOp::kShiftLeft:
      return shift(a, b, true);
    case PointOp::kShiftRight:
      return shift(a, b, false);
    default:
      return is_truth_op(op) ? evaluate_truth_op(op, a, b) : std::nan("");
  }
}

}  // namespace

std::string_view point_op_name(PointOp op) {
  const size_t index = static_cast<size_t>(op);
  return index < std::size(kOps) ? kOps[index].name : std::string_view();
}

Result<PointOp> parse_point_op(std::string_view name) {
  for (const OpRow& candidate : kOps)
    if (candidate.name == name) return candidate.op;
  return make_error(ErrorCode::kInvalidArgument, "unknown pointwise operator '{}'", name);
}

int arity(PointOp op) {
  return row(op).arity;
}
int literals(PointOp op) {
  return row(op).literals;
}
bool gives_bool(PointOp op) {
  return row(op).gives_bool;
}

double evaluate_point_op(PointOp op, double a, double b, double c, float x, float y) {
  switch (arity(op)) {
    case 2:
      return evaluate_binary(op, a, b);
    case 3:
      return op == PointOp::kSelect ? (a != 0 ? b : c) : a * b + c;
    default:
      return evaluate_unary(op, a, x, y);
  }
}

std::string to_string(const Program& program) {
  std::string text;
  for (size_t k = 0; k < program.code.size(); ++k) {
    const Instruction& code = program.code[k];
    text +=
        fmt::format("{}v{} = {}", k ? "; " : "", program.num_inputs + k, point_op_name(code.op));
    const int16_t operands[] = {code.a, code.b, code.c};
    for (int n = 0; n < arity(code.op); ++n) text += fmt::format(" v{}", operands[n]);
    const float values[] = {code.x, code.y};
    for (int n = 0; n < literals(code.op); ++n) text += fmt::format(" {}", values[n]);
  }
  return text;
}

namespace {

// Splits off the next word at spaces.
std::string_view next_word(std::string_view& text) {
  const size_t first = std::min(text.find_first_not_of(" \t"), text.size());
  const size_t last = std::min(text.find_first_of(" \t", first), text.size());
  const std::string_view word = text.substr(first, last - first);
  text.remove_prefix(last);
  return word;
}

bool parse_value_number(std::string_view word, int& number) {
  if (word.size() < 2 || word[0] != 'v') return false;
  auto [end, error] = std::from_chars(word.data() + 1, word.data() + word.size(), number);
  return error == std::errc() && end == word.data() + word.size() && number >= 0;
}

bool parse_literal(std::string_view word, float& value) {
  const std::string text(word);
  char* end = nullptr;
  value = std::strtof(text.c_str(), &end);
  return !text.empty() && *end == '\0';
}

// "vK = op operands literals", K being the number of the value it makes.
Status parse_instruction(std::string_view text, int value, Instruction& code) {
  const std::string_view line = text;
  int number = -1;
  if (!parse_value_number(next_word(text), number) || number != value || next_word(text) != "=")
    return make_error(ErrorCode::kInvalidArgument, "program: expected 'v{} = …' in '{}'", value,
                      line);
  CAMSHAFT_ASSIGN(code.op, parse_point_op(next_word(text)));
  int16_t* operands[] = {&code.a, &code.b, &code.c};
  for (int n = 0; n < arity(code.op); ++n) {
    if (!parse_value_number(next_word(text), number) || number >= value)
      return make_error(ErrorCode::kInvalidArgument, "program: bad operand {} in '{}'", n, line);
    *operands[n] = static_cast<int16_t>(number);
  }
  float* values[] = {&code.x, &code.y};
  for (int n = 0; n < literals(code.op); ++n)
    if (!parse_literal(next_word(text), *values[n]))
      return make_error(ErrorCode::kInvalidArgument, "program: bad number {} in '{}'", n, line);
  if (!next_word(text).empty())
    return make_error(ErrorCode::kInvalidArgument, "program: more than expected in '{}'", line);
  return ok_status();
}

}  // namespace

Result<Program> parse_program(int num_inputs, std::string_view text) {
  Program program;
  program.num_inputs = num_inputs;
  while (text.find_first_not_of(" \t") != std::string_view::npos) {
    const size_t end = std::min(text.find(';'), text.size());
    Instruction code;
    CAMSHAFT_TRY(parse_instruction(text.substr(0, end), program.result() + 1, code));
    program.code.push_back(code);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return program;
}

int append(Program& program, PointOp op, int a, int b, int c, float x, float y) {
  Instruction code;
  code.op = op;
  code.a = static_cast<int16_t>(a);
  code.b = static_cast<int16_t>(b);
  code.c = static_cast<int16_t>(c);
  code.x = x;
  code.y = y;
  assert(std::max({a, b, c}) <= program.result());
  program.code.push_back(code);
  return program.result();
}

Program compose(const Program& first, const Program& second, int slot) {
  Program composed;
  composed.num_inputs = first.num_inputs + second.num_inputs - 1;
  // Value number in `first` → in the composition: inputs keep theirs, results move behind all
  // inputs.
  const auto of_first = [&](int value) {
    return value < first.num_inputs ? value : value + second.num_inputs - 1;
  };
  for (const Instruction& code : first.code)
    append(composed, code.op, of_first(code.a), of_first(code.b), of_first(code.c), code.x, code.y);
  const int joint = of_first(first.result());
  const int first_size = static_cast<int>(first.code.size());
  const auto of_second = [&](int value) {
    if (value < 0) return value;
    if (value == slot) return joint;
    if (value < second.num_inputs) return first.num_inputs + value - (value > slot);
    return composed.num_inputs + first_size + value - second.num_inputs;
  };
  for (const Instruction& code : second.code)
    append(composed, code.op, of_second(code.a), of_second(code.b), of_second(code.c), code.x,
           code.y);
  return composed;
}

}  // namespace camshaft::ir
