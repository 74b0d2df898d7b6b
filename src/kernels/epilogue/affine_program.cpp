// SPDX-License-Identifier: Apache-2.0
// Recognises affine programs by running them on symbols.
#include "kernels/epilogue/affine_program.h"

#include <cmath>

namespace camshaft::kernels {
namespace {

using ir::Instruction;
using ir::PointOp;

constexpr double kInf = HUGE_VAL;

bool is_whole(double v) {
  return v > -65536 && v < 65536 && v == std::floor(v);
}

// A program value as a function of the two operands. Whole shifts of a bare operand are kept apart
// (offset), so that (x - zero_point) * scale is exactly 0 at the zero point.
struct Symbol {
  bool valid = false;
  double scale[2] = {0, 0}, offset[2] = {0, 0};
  double shift = 0;  // the value, where both scales are 0
  double low = -kInf, high = kInf;
  bool rounds = false;
  double after = 0;
  double divisor = 0;

  bool is_constant() const { return scale[0] == 0 && scale[1] == 0; }
  bool is_linear() const { return valid && !rounds && low == -kInf && high == kInf; }
  bool is_bare(int k) const {
    return is_linear() && scale[k] == 1 && scale[1 - k] == 0 && shift == 0 && divisor == 0;
  }
};

double between(double v, double low, double high) {
  return v < low ? low : v > high ? high : v;
}

Symbol constant(double value) {
  Symbol s;
  s.valid = true, s.shift = value;
  return s;
}

Symbol shifted(Symbol s, double by) {
  for (int k = 0; k < 2; ++k)
    if (s.is_bare(k) && is_whole(by) && is_whole(s.offset[k] - by)) return s.offset[k] -= by, s;
  if (s.rounds) {
    s.after += by;
    s.valid = s.valid && is_whole(by);
  } else {
    s.shift += by, s.low += by, s.high += by;
    if (by != 0) s.divisor = 0;
  }
  return s;
}

Symbol scaled(Symbol s, double by) {
  s.valid = s.valid && !s.rounds && by != 0;
  s.scale[0] *= by, s.scale[1] *= by, s.shift *= by, s.low *= by, s.high *= by;
  if (by != 1) s.divisor = 0;
  if (by < 0) {
    const double low = s.low;
    s.low = s.high, s.high = low;
  }
  return s;
}

Symbol divided(const Symbol& s, double by) {
  Symbol quotient = scaled(s, 1 / by);
  const double size = std::abs(by);
  if (s.scale[0] == 1 && s.scale[1] == 0 && s.shift == 0 && s.offset[0] == 0) {
    quotient.divisor = by;
    quotient.valid = quotient.valid && size > 1e-30 && size < 1e30;
  }
  return quotient;
}

Symbol clamped(Symbol s, double low, double high) {
  if (s.rounds) {
    low -= s.after, high -= s.after;
    s.valid = s.valid && (low == -kInf || is_whole(low)) && (high == kInf || is_whole(high));
  }
  s.valid = s.valid && low <= high;
  s.low = between(s.low, low, high), s.high = between(s.high, low, high);
  return s;
}

// Offsets become part of the shift.
Symbol folded(Symbol s) {
  for (int k = 0; k < 2; ++k) s.shift -= s.scale[k] * s.offset[k], s.offset[k] = 0;
  return s;
}

Symbol sum(const Symbol& a, const Symbol& b) {
  if (!a.valid || !b.valid) return {};
  if (b.is_constant()) return shifted(a, b.shift);
  if (a.is_constant()) return shifted(b, a.shift);
  Symbol s = a, t = b;
  s.valid = a.is_linear() && b.is_linear();
  s.divisor = 0;
  for (int k = 0; k < 2; ++k)
    if (s.scale[k] != 0 && t.scale[k] != 0) s = folded(s), t = folded(t);
  s.shift += t.shift;
  for (int k = 0; k < 2; ++k) s.scale[k] += t.scale[k], s.offset[k] += t.offset[k];
  return s;
}

Symbol product(const Symbol& a, const Symbol& b) {
  if (!a.valid || !b.valid) return {};
  if (b.is_constant()) return scaled(a, b.shift);
  if (a.is_constant()) return scaled(b, a.shift);
  return {};
}

Symbol rounded(Symbol s) {
  s.rounds = true;
  return s;
}

Symbol apply(const Instruction& op, const Symbol& a, const Symbol& b, const Symbol& c) {
  const bool constant_b = b.valid && b.is_constant();
  switch (op.op) {
    case PointOp::kConst:
      return constant(op.x);
    case PointOp::kIdentity:
      return a;
    case PointOp::kNeg:
      return scaled(a, -1);
    case PointOp::kRound:
      return a.rounds ? a : rounded(a);
    case PointOp::kRelu:
      return clamped(a, 0, kInf);
    case PointOp::kClip:
      return clamped(a, op.x, op.y);
    case PointOp::kMin:
      return constant_b ? clamped(a, -kInf, b.shift) : Symbol{};
    case PointOp::kMax:
      return constant_b ? clamped(a, b.shift, kInf) : Symbol{};
    case PointOp::kAdd:
      return sum(a, b);
    case PointOp::kSub:
      return constant_b ? shifted(a, -b.shift) : sum(a, scaled(b, -1));
    case PointOp::kMul:
      return product(a, b);
    case PointOp::kDiv:
      return constant_b ? divided(a, b.shift) : Symbol{};
    case PointOp::kFma:
      return sum(product(a, b), c);
    default:
      return {};
  }
}

constexpr int kMaxSymbols = 24;

// Told before anything is evaluated: most programs that are not affine are seen by this.
bool may_be_affine(PointOp op) {
  switch (op) {
    case PointOp::kConst:
    case PointOp::kIdentity:
    case PointOp::kNeg:
    case PointOp::kRound:
    case PointOp::kRelu:
    case PointOp::kClip:
    case PointOp::kMin:
    case PointOp::kMax:
    case PointOp::kAdd:
    case PointOp::kSub:
    case PointOp::kMul:
    case PointOp::kDiv:
    case PointOp::kFma:
      return true;
    default:
      return false;
  }
}

// The program's result; `values` has its inputs and room for all others.
Symbol evaluate(const Instruction* code, int length, int num_inputs, Symbol* values) {
  const auto value = [&](int k) { return k < 0 ? constant(0) : values[k]; };
  for (int k = 0; k < length; ++k)
    values[num_inputs + k] = apply(code[k], value(code[k].a), value(code[k].b), value(code[k].c));
  return values[length > 0 ? num_inputs + length - 1 : 0];
}

// A vector takes one of the two places.
Symbol input_symbol(const AffineInput& input, int k, Affine& affine) {
  if (input.kind == AffineInput::kConstant) return constant(input.constant);
  Symbol s;
  if (input.kind != AffineInput::kVector) return s;
  for (int place = 0; place < 2; ++place) {
    if (affine.inputs[place] >= 0) continue;
    affine.inputs[place] = k;
    s.valid = true, s.scale[place] = 1;
    break;
  }
  return s;
}

bool is_finite(double v) {
  return v > -1e30 && v < 1e30;
}

bool set_affine(Symbol s, DataType out, Affine& affine) {
  const bool narrows = out == DataType::kUInt8;
  if (!s.valid || s.is_constant() || s.scale[0] == 0) return false;
  if (narrows) s = clamped(folded(rounded(s)), 0, 255);
  if (!s.valid || (s.rounds && !narrows) || (s.divisor != 0 && !narrows)) return false;
  if (!is_finite(s.scale[0]) || !is_finite(s.scale[1]) || !is_finite(s.shift)) return false;
  if (s.scale[1] == 0) affine.inputs[1] = -1;
  for (int k = 0; k < 2; ++k)
    affine.scale[k] = static_cast<float>(s.scale[k]),
    affine.offset[k] = static_cast<float>(s.offset[k]);
  affine.shift = static_cast<float>(s.shift);
  affine.low = static_cast<float>(s.low), affine.high = static_cast<float>(s.high);
  affine.after = static_cast<int32_t>(s.after);
  affine.divisor = static_cast<float>(s.divisor);
  return true;
}

}  // namespace

bool find_affine(const Instruction* code, int length, int num_inputs, const AffineInput* inputs,
                 DataType out, Affine& affine) {
  affine = {};
  if (out != DataType::kUInt8 && out != DataType::kFloat) return false;
  if (num_inputs + length > kMaxSymbols) return false;
  for (int k = 0; k < length; ++k)
    if (!may_be_affine(code[k].op)) return false;
  Symbol values[kMaxSymbols];
  for (int k = 0; k < num_inputs; ++k) values[k] = input_symbol(inputs[k], k, affine);
  return set_affine(evaluate(code, length, num_inputs, values), out, affine);
}

}  // namespace camshaft::kernels
