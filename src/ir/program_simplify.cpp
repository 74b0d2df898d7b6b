// SPDX-License-Identifier: Apache-2.0
// simplify(): rebuilds a program bottom up through a builder that shares equal values, folds
// constants and recognizes composite activations; then drops what is unused. Repeated until nothing
// changes. One file: rules are tried together, on what others left.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>

#include "ir/program.h"

namespace camshaft::ir {
namespace {

bool near(float value, double wanted) {
  return std::abs(value - wanted) <= 1e-5 * std::abs(wanted);
}

// Operators that tell 0 from a number near it: what a zero point stands for has to be 0.
bool tells_zero(PointOp op) {
  switch (op) {
    case PointOp::kSign:
    case PointOp::kSqrt:
    case PointOp::kReciprocal:
    case PointOp::kLog:
    case PointOp::kFloor:
    case PointOp::kCeil:
    case PointOp::kThresholdedRelu:
    case PointOp::kShrink:
    case PointOp::kNot:
    case PointOp::kDiv:
    case PointOp::kPow:
    case PointOp::kMod:
    case PointOp::kFmod:
    case PointOp::kEqual:
    case PointOp::kLess:
    case PointOp::kLessOrEqual:
    case PointOp::kGreater:
    case PointOp::kGreaterOrEqual:
      return true;
    default:
      return false;
  }
}

// The result is scaled by a constant last: codes as floats, for whoever reads them.
bool ends_in_scale(const Program& program) {
  const auto is_constant = [&](int value) {
    return value >= program.num_inputs &&
           program.code[value - program.num_inputs].op == PointOp::kConst;
  };
  if (program.code.empty()) return false;
  const Instruction& last = program.code.back();
  return (last.op == PointOp::kMul && (is_constant(last.a) || is_constant(last.b))) ||
         (last.op == PointOp::kFma && is_constant(last.b) && is_constant(last.c));
}

bool keeps_zeros(const Program& program) {
  return ends_in_scale(program) ||
         std::any_of(program.code.begin(), program.code.end(),
                     [](const Instruction& code) { return tells_zero(code.op); });
}

// A zero point times a scale, rounded: (v + k) l is 0 for v = -k, l v + kl may be off and below.
bool rounds_zero_point(float k, float l) {
  constexpr float kMostCodes = 255;
  return k == std::round(k) && std::abs(k) <= kMostCodes && std::fma(k, l, -(k * l)) != 0;
}

class Builder {
 public:
  Builder(int num_inputs, bool keeps_zeros) : keeps_zeros_(keeps_zeros) {
    program_.num_inputs = num_inputs;
  }

  // The number of a value equal to op(a, b, c): an old one, a simpler one, or a new one.
  int emit(PointOp op, int a, int b, int c, float x, float y);
  const Program& program() const { return program_; }

 private:
  const Instruction* def(int value) const {
    return value >= program_.num_inputs ? &program_.code[value - program_.num_inputs] : nullptr;
  }
  bool is(int value, PointOp op) const { return def(value) && def(value)->op == op; }
  std::optional<float> constant(int value) const {
    return is(value, PointOp::kConst) ? std::optional<float>(def(value)->x) : std::nullopt;
  }
  bool is_integral(int value) const;
  int constant_value(float x) { return emit(PointOp::kConst, -1, -1, -1, x, 0); }
  int unary(PointOp op, int a, float x = 0, float y = 0) { return emit(op, a, -1, -1, x, y); }
  int binary(PointOp op, int a, int b) { return emit(op, a, b, -1, 0, 0); }
  int share(const Instruction& code);

  // Each gives the simpler value, or -1.
  int fold(const Instruction& code);
  int simplify_unary(const Instruction& code);
  int simplify_clip(int a, float low, float high);
  int simplify_add(int a, int b);
  int simplify_mul(int a, int b);
  int simplify_min_max(PointOp op, int a, int b);
  int simplify_pow(int a, int b);
  int simplify_binary(const Instruction& code);

  // value = scale * rest, with a constant scale.
  struct Scaled {
    int rest;
    float scale;
  };
  Scaled scaled(int value) const;

  Program program_;
  bool keeps_zeros_;
  std::map<std::tuple<PointOp, int, int, int, uint32_t, uint32_t>, int> known_;
};

uint32_t bits(float value) {
  uint32_t word;
  __builtin_memcpy(&word, &value, sizeof(word));
  return word;
}

int Builder::share(const Instruction& code) {
  auto [at, is_new] =
      known_.try_emplace({code.op, code.a, code.b, code.c, bits(code.x), bits(code.y)}, 0);
  if (is_new) at->second = append(program_, code.op, code.a, code.b, code.c, code.x, code.y);
  return at->second;
}

bool commutes(PointOp op) {
  return op == PointOp::kAdd || op == PointOp::kMul || op == PointOp::kMin || op == PointOp::kMax ||
         op == PointOp::kAnd || op == PointOp::kOr || op == PointOp::kXor || op == PointOp::kEqual;
}

int Builder::emit(PointOp op, int a, int b, int c, float x, float y) {
  Instruction code;
  code.op = op;
  // Constants on the right, else the smaller number on the left, so that equal values look equal.
  if (commutes(op) && (constant(a) ? !constant(b) || a > b : !constant(b) && a > b))
    std::swap(a, b);
  code.a = static_cast<int16_t>(a);
  code.b = static_cast<int16_t>(b);
  code.c = static_cast<int16_t>(c);
  code.x = x;
  code.y = y;
  int simpler = fold(code);
  if (simpler < 0 && arity(op) == 1) simpler = simplify_unary(code);
  if (simpler < 0 && arity(op) == 2) simpler = simplify_binary(code);
  return simpler >= 0 ? simpler : share(code);
}

int Builder::fold(const Instruction& code) {
  const int operands[] = {code.a, code.b, code.c};
  double values[3] = {};
  const int count = arity(code.op);
  if (count == 0) return -1;
  for (int n = 0; n < count; ++n) {
    if (!constant(operands[n])) return -1;
    values[n] = *constant(operands[n]);
  }
  return constant_value(static_cast<float>(
      evaluate_point_op(code.op, values[0], values[1], values[2], code.x, code.y)));
}

Builder::Scaled Builder::scaled(int value) const {
  if (is(value, PointOp::kMul) && constant(def(value)->b))
    return {def(value)->a, *constant(def(value)->b)};
  if (is(value, PointOp::kNeg)) return {def(value)->a, -1};
  return {value, 1};
}

// Rounding changes nothing any more.
bool Builder::is_integral(int value) const {
  const Instruction* code = def(value);
  if (!code) return false;
  const auto is_whole = [](float v) { return std::isinf(v) || v == std::floor(v); };
  switch (code->op) {
    case PointOp::kRound:
    case PointOp::kFloor:
    case PointOp::kCeil:
      return true;
    case PointOp::kConst:
      return code->x == std::floor(code->x) && std::abs(code->x) < 0x1p22f;
    case PointOp::kClip:
      return is_whole(code->x) && is_whole(code->y) && is_integral(code->a);
    case PointOp::kRelu:
    case PointOp::kNeg:
    case PointOp::kAbs:
      return is_integral(code->a);
    case PointOp::kAdd:
    case PointOp::kSub:
    case PointOp::kMin:
    case PointOp::kMax:
      return is_integral(code->a) && is_integral(code->b);
    default:
      return false;
  }
}

int Builder::simplify_unary(const Instruction& code) {
  const int a = code.a;
  const Instruction* inner = def(a);
  switch (code.op) {
    case PointOp::kIdentity:
      return a;
    case PointOp::kNeg:
      if (is(a, PointOp::kNeg)) return inner->a;
      return binary(PointOp::kMul, a, constant_value(-1));
    case PointOp::kAbs:
    case PointOp::kFloor:
    case PointOp::kCeil:
      return is(a, code.op) ? a : -1;
    case PointOp::kRound:
      return is_integral(a) ? a : -1;
    case PointOp::kRelu:
      if (is(a, PointOp::kRelu) || is(a, PointOp::kSigmoid) || is(a, PointOp::kExp) ||
          is(a, PointOp::kAbs))
        return a;
      if (is(a, PointOp::kClip) && inner->x <= inner->y) return simplify_clip(a, 0, HUGE_VALF);
      return -1;
    case PointOp::kClip:
      return simplify_clip(a, code.x, code.y);
    case PointOp::kReciprocal:
      if (is(a, PointOp::kReciprocal)) return inner->a;
      // 1 / (1 + exp(-v))
      if (is(a, PointOp::kAdd) && constant(inner->b) == 1.0f && is(inner->a, PointOp::kExp)) {
        const Scaled argument = scaled(def(inner->a)->a);
        if (argument.scale == -1) return unary(PointOp::kSigmoid, argument.rest);
      }
      return -1;
    case PointOp::kLog:  // log(1 + exp(v))
      if (is(a, PointOp::kAdd) && constant(inner->b) == 1.0f && is(inner->a, PointOp::kExp))
        return unary(PointOp::kSoftplus, def(inner->a)->a);
      return -1;
    case PointOp::kHardSigmoid:
      if (code.x == 1 && code.y == 0) return unary(PointOp::kClip, a, 0, 1);
      return -1;
    default:
      return -1;
  }
}

int Builder::simplify_clip(int a, float low, float high) {
  const Instruction* inner = def(a);
  if (low == -HUGE_VALF && high == HUGE_VALF) return a;
  if (is(a, PointOp::kRelu)) return unary(PointOp::kClip, inner->a, std::max(low, 0.0f), high);
  if (is(a, PointOp::kClip) && inner->x <= inner->y && low <= high)
    return unary(PointOp::kClip, inner->a, std::clamp(inner->x, low, high),
                 std::clamp(inner->y, low, high));
  if (low == 0 && high == HUGE_VALF) return unary(PointOp::kRelu, a);
  if (low == 0 && high == 1 && is(a, PointOp::kAdd) && constant(inner->b)) {
    const Scaled scaled_part = scaled(inner->a);
    return unary(PointOp::kHardSigmoid, scaled_part.rest, scaled_part.scale, *constant(inner->b));
  }
  return -1;
}

int Builder::simplify_add(int a, int b) {
  if (constant(b) == 0.0f) return a;
  // (v + k) + l
  if (constant(b) && is(a, PointOp::kAdd) && constant(def(a)->b))
    return binary(PointOp::kAdd, def(a)->a, constant_value(*constant(def(a)->b) + *constant(b)));
  if (keeps_zeros_ && constant(b) && is(a, PointOp::kMul) && constant(def(a)->b)) {  // undo the fma
    const float l = *constant(def(a)->b), k = std::round(*constant(b) / l);
    if (k * l == *constant(b) && rounds_zero_point(k, l))
      return binary(PointOp::kMul, binary(PointOp::kAdd, def(a)->a, constant_value(k)), def(a)->b);
  }
  return -1;
}

int Builder::simplify_mul(int a, int b) {
  if (const std::optional<float> factor = constant(b)) {
    if (*factor == 1) return a;
    if (is(a, PointOp::kMul) && constant(def(a)->b)) {
      // A scale and its reciprocal, rounded, cancel.
      const float product = *constant(def(a)->b) * *factor;
      const float exact = std::abs(product - 1) <= 0x1p-23f ? 1.0f : product;
      return binary(PointOp::kMul, def(a)->a, constant_value(exact));
    }
    // (v + 3 clipped to 6) / 6
    if (is(a, PointOp::kClip) && def(a)->x == 0 && near(def(a)->y * *factor, 1) &&
        is(def(a)->a, PointOp::kAdd) && constant(def(def(a)->a)->b)) {
      const Instruction* sum = def(def(a)->a);
      const Scaled part = scaled(sum->a);
      return unary(PointOp::kHardSigmoid, part.rest, part.scale * *factor,
                   *constant(sum->b) * *factor);
    }
    // (v + k) l = l v + kl: one fma
    if (is(a, PointOp::kAdd) && constant(def(a)->b) &&
        !(keeps_zeros_ && rounds_zero_point(*constant(def(a)->b), *factor))) {
      const int shift = constant_value(*constant(def(a)->b) * *factor);
      return binary(PointOp::kAdd, binary(PointOp::kMul, def(a)->a, b), shift);
    }
    return -1;
  }
  for (const auto& [v, gate] : {std::pair(a, b), std::pair(b, a)}) {  // v * sigmoid(k v)
    if (!is(gate, PointOp::kSigmoid)) continue;
    const Scaled argument = scaled(def(gate)->a);
    if (argument.rest == v && argument.scale > 0) return unary(PointOp::kSilu, v, argument.scale);
  }
  // Constant factors move to the outside: (k u)(l w) = kl (u w).
  const Scaled left = scaled(a), right = scaled(b);
  if (left.scale == 1 && right.scale == 1) return -1;
  const int product = binary(PointOp::kMul, left.rest, right.rest);
  return binary(PointOp::kMul, product, constant_value(left.scale * right.scale));
}

int Builder::simplify_min_max(PointOp op, int a, int b) {
  if (a == b) return a;
  if (const std::optional<float> bound = constant(b)) {
    if (op == PointOp::kMax) return unary(PointOp::kClip, a, *bound, HUGE_VALF);
    return unary(PointOp::kClip, a, -HUGE_VALF, *bound);
  }
  if (op != PointOp::kMax) return -1;
  // max(v, alpha v), 0 ≤ alpha ≤ 1
  for (const auto& [v, other] : {std::pair(a, b), std::pair(b, a)}) {
    const Scaled part = scaled(other);
    if (part.rest == v && part.scale >= 0 && part.scale <= 1)
      return unary(PointOp::kLeakyRelu, v, part.scale);
    if (is(other, PointOp::kLeakyRelu) && def(other)->a == v && def(other)->x <= 1) return other;
  }
  return -1;
}

int Builder::simplify_pow(int a, int b) {
  const std::optional<float> power = constant(b);
  if (!power) return -1;
  if (*power == 1) return a;
  if (*power == 2) return binary(PointOp::kMul, a, a);
  if (*power == 3) return binary(PointOp::kMul, a, binary(PointOp::kMul, a, a));
  if (*power == 0.5f) return unary(PointOp::kSqrt, a);
  if (*power == -1) return unary(PointOp::kReciprocal, a);
  if (*power == -0.5f) return unary(PointOp::kReciprocal, unary(PointOp::kSqrt, a));
  return -1;
}

int Builder::simplify_binary(const Instruction& code) {
  const int a = code.a, b = code.b;
  switch (code.op) {
    case PointOp::kAdd:
      return simplify_add(a, b);
    case PointOp::kSub:
      if (constant(b)) return binary(PointOp::kAdd, a, constant_value(-*constant(b)));
      return -1;
    case PointOp::kMul:
      return simplify_mul(a, b);
    case PointOp::kDiv:
      if (constant(b) && std::isnormal(1 / *constant(b)))
        return binary(PointOp::kMul, a, constant_value(1 / *constant(b)));
      if (constant(a) == 1.0f) return unary(PointOp::kReciprocal, b);
      if (is(b, PointOp::kReciprocal)) return binary(PointOp::kMul, a, def(b)->a);
      return -1;
    case PointOp::kMin:
    case PointOp::kMax:
      return simplify_min_max(code.op, a, b);
    case PointOp::kPow:
      return simplify_pow(a, b);
    case PointOp::kPRelu:
      if (constant(b)) return unary(PointOp::kLeakyRelu, a, *constant(b));
      return -1;
    default:
      return -1;
  }
}

// Keeps what the result needs. A result that is an input becomes an identity (or an empty program
// of one input).
Program keep_needed(const Program& program, int result) {
  Program kept;
  kept.num_inputs = program.num_inputs;
  if (result < program.num_inputs) {
    if (program.num_inputs > 1) append(kept, PointOp::kIdentity, result);
    return kept;
  }
  std::vector<int> renumbered(program.result() + 1, -1);
  std::vector<bool> needed(program.result() + 1);
  needed[result] = true;
  for (int value = result; value >= program.num_inputs; --value) {
    if (!needed[value]) continue;
    const Instruction& code = program.code[value - program.num_inputs];
    for (int operand : {code.a, code.b, code.c})
      if (operand >= 0) needed[operand] = true;
  }
  for (int value = 0; value < program.num_inputs; ++value) renumbered[value] = value;
  for (int value = program.num_inputs; value <= result; ++value) {
    if (!needed[value]) continue;
    const Instruction& code = program.code[value - program.num_inputs];
    const auto number = [&](int operand) { return operand < 0 ? operand : renumbered[operand]; };
    renumbered[value] =
        append(kept, code.op, number(code.a), number(code.b), number(code.c), code.x, code.y);
  }
  return kept;
}

// The activations that models write out in many ways. They are recognized by their values, not by
// their spelling: a value that depends on one other value only and agrees with the activation on
// all samples is that activation.
constexpr PointOp kRecognized[] = {PointOp::kSigmoid,   PointOp::kTanh,     PointOp::kSilu,
                                   PointOp::kHardSwish, PointOp::kGelu,     PointOp::kGeluTanh,
                                   PointOp::kMish,      PointOp::kSoftplus, PointOp::kSoftsign};

const std::vector<double>& samples() {
  static const std::vector<double> points = [] {
    std::vector<double> made;
    for (double v = -7.9; v < 8; v += 0.49) made.push_back(v);
    // Far out, where a hidden bound would show.
    for (double v : {12.0, 30.0, 80.0, 1e3, 1e6, 1e12}) made.insert(made.end(), {v, -v});
    return made;
  }();
  return points;
}

// Models write √(2/π) with five digits or more; gelu and its tanh form are 4e-4 apart.
bool agrees(PointOp op, const std::vector<double>& values) {
  size_t compared = 0;
  for (size_t k = 0; k < values.size(); ++k) {
    if (!std::isfinite(values[k]))
      continue;  // the spelled-out form overflowed where the activation does not
    const double wanted = evaluate_point_op(op, samples()[k], 0, 0, 1, 0);
    if (std::abs(values[k] - wanted) > 1e-5 * std::max(1.0, std::abs(wanted))) return false;
    ++compared;
  }
  return 10 * compared >= 8 * values.size();
}

// Instruction k of `program` as a recognized activation of `source`, if it is one and is not a
// single operator already. values[v]: v on the samples, for the values that depend on `source` and
// constants alone; else empty.
bool recognize_from(Program& program, int source) {
  std::vector<std::vector<double>> values(program.result() + 1);
  values[source] = samples();
  bool changed = false;
  for (int value = program.num_inputs; value <= program.result(); ++value) {
    Instruction& code = program.code[value - program.num_inputs];
    const int count = arity(code.op);
    const int operands[] = {code.a, code.b, code.c};
    const auto has_value = [&](int operand) { return !values[operand].empty(); };
    if (value == source || !std::all_of(operands, operands + count, has_value)) continue;
    if (code.op == PointOp::kEqual) continue;  // what is true of one number no sample shows
    std::vector<double>& mine = values[value];
    mine.resize(samples().size());
    for (size_t k = 0; k < mine.size(); ++k) {
      double of[3] = {};
      for (int n = 0; n < count; ++n) of[n] = values[operands[n]][k];
      mine[k] = evaluate_point_op(code.op, of[0], of[1], of[2], code.x, code.y);
    }
    if (count == 0 || (count == 1 && code.a == source)) continue;
    for (PointOp op : kRecognized) {
      if (!agrees(op, mine)) continue;
      code = {op, static_cast<int16_t>(source), -1, -1, op == PointOp::kSilu ? 1.0f : 0.0f, 0};
      changed = true;
      break;
    }
  }
  return changed;
}

Program recognize(Program program) {
  const auto is_trace = [](const Instruction& code) {
    return code.op == PointOp::kExp || code.op == PointOp::kErf || code.op == PointOp::kTanh ||
           code.op == PointOp::kSigmoid || code.op == PointOp::kClip ||
           code.op == PointOp::kHardSigmoid || code.op == PointOp::kSoftplus ||
           code.op == PointOp::kAbs;
  };
  if (program.code.size() < 2 || std::none_of(program.code.begin(), program.code.end(), is_trace))
    return program;
  for (int source = 0; source < program.result(); ++source)
    if (recognize_from(program, source)) program = keep_needed(program, program.result());
  return program;
}

Program rebuild(const Program& program) {
  Builder builder(program.num_inputs, keeps_zeros(program));
  std::vector<int> value_of(program.result() + 1);
  for (int k = 0; k < program.num_inputs; ++k) value_of[k] = k;
  for (size_t k = 0; k < program.code.size(); ++k) {
    const Instruction& code = program.code[k];
    const auto number = [&](int operand) { return operand < 0 ? operand : value_of[operand]; };
    const int a = number(code.a), b = number(code.b), c = number(code.c);
    int& value = value_of[program.num_inputs + k];
    if (code.op ==
        PointOp::kFma)  // taken apart so that patterns see the sum; contracted again at the end
      value = builder.emit(PointOp::kAdd, builder.emit(PointOp::kMul, a, b, -1, 0, 0), c, -1, 0, 0);
    else
      value = builder.emit(code.op, a, b, c, code.x, code.y);
  }
  return recognize(keep_needed(builder.program(), value_of[program.result()]));
}

// add(mul(a, b), c) → fma where the product has no other use.
Program contract(const Program& program) {
  std::vector<int> uses(program.result() + 1);
  for (const Instruction& code : program.code)
    for (int operand : {code.a, code.b, code.c})
      if (operand >= 0) ++uses[operand];
  Program contracted = program;
  for (Instruction& code : contracted.code) {
    if (code.op != PointOp::kAdd && code.op != PointOp::kSub) continue;
    for (auto [product, addend] : {std::pair(code.a, code.b), std::pair(code.b, code.a)}) {
      if (code.op == PointOp::kSub) break;
      if (product < program.num_inputs || uses[product] != 1) continue;
      const Instruction& mul = program.code[product - program.num_inputs];
      if (mul.op != PointOp::kMul) continue;
      code = {PointOp::kFma, mul.a, mul.b, addend, 0, 0};
      break;
    }
  }
  return keep_needed(contracted, contracted.result());
}

}  // namespace

Program simplify(const Program& program) {
  if (program.empty()) return program;
  Program current = program;
  for (int round = 0; round < 8 && !current.empty(); ++round) {
    Program next = rebuild(current);
    if (next == current) break;
    current = std::move(next);
  }
  return current.empty() ? current : contract(current);
}

}  // namespace camshaft::ir
