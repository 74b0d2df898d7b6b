// SPDX-License-Identifier: Apache-2.0
// Recognises affine programs by running them on symbols, and runs them.
#include "kernels/vector/affine_tile.h"

#include "kernels/simd/bytes.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

using ir::Instruction;
using ir::PointOp;

constexpr double kInf = __builtin_inf();

bool is_whole(double v) {
  return v > -65536 && v < 65536 && v == __builtin_floor(v);
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
  const double size = __builtin_fabs(by);
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

bool is_taken(const TileOperand& a) {
  return a.col_stride == 1 && (a.type == DataType::kFloat || a.type == DataType::kUInt8);
}

// The symbol of input k; a vector takes one of the two places.
Symbol input_symbol(const TileOperand* operands, int k, Affine& affine) {
  const TileOperand& a = operands[k];
  if (a.type == DataType::kFloat && a.col_stride == 0 && a.row_stride == 0)
    return constant(*static_cast<const float*>(a.data));
  Symbol s;
  if (!is_taken(a)) return s;
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

// --- the loops

struct Factors {
  F32 scale[2], offset[2], shift, low, high, divisor, reciprocal;
  I32 after;
};

Factors splat(const Affine& f) {
  return {{set1(f.scale[0]), set1(f.scale[1])},
          {set1(f.offset[0]), set1(f.offset[1])},
          set1(f.shift),
          set1(f.low),
          set1(f.high),
          set1(f.divisor),
          set1(f.divisor != 0 ? 1 / f.divisor : 0),
          iset1(f.after)};
}

CAMSHAFT_INLINE F32 fetch(const float* p) {
  return load(p);
}
CAMSHAFT_INLINE F32 fetch(const uint8_t* p) {
  return to_float(load_bytes(p));
}
CAMSHAFT_INLINE F32 fetch(const float* p, int64_t count) {
  return load(p, first_n(static_cast<int>(count)));
}
CAMSHAFT_INLINE F32 fetch(const uint8_t* p, int64_t count) {
  return to_float(load_bytes(p, count));
}

// What is done with the operands: kOne: scale, kTwo: both, kDivide.
enum class Form { kOne, kTwo, kDivide };

// a / divisor, correctly rounded: the product with the rounded reciprocal is one step off at most,
// and its remainder is exact where fma is fused. Clamped before, that infinities have one too.
CAMSHAFT_INLINE F32 quotient(const Factors& f, F32 a) {
#if defined(CAMSHAFT_TARGET_scalar)
  return a / f.divisor;
#else
  const F32 near = min(f.high, max(f.low, a * f.reciprocal));
  return fma(fnma(near, f.divisor, a), f.reciprocal, near);
#endif
}

template <Form kForm, bool kHasOffsets>
CAMSHAFT_INLINE F32 combine(const Factors& f, F32 a, F32 b) {
  F32 t;
  if constexpr (kForm == Form::kDivide) {
    t = quotient(f, a);
  } else {
    if (kHasOffsets) a = a - f.offset[0];
    t = fma(a, f.scale[0], f.shift);
    if (kForm == Form::kTwo) t = fma(kHasOffsets ? b - f.offset[1] : b, f.scale[1], t);
  }
  return min(f.high, max(f.low, t));
}

template <Form kForm, class A, class B>
void affine_row(const Factors& factors, const A* a, const B* b, float* out, int64_t count) {
  const Factors f = factors;
  int64_t k = 0;
  const auto at = [&](int64_t n) {
    return combine<kForm, true>(f, fetch(a + n), kForm == Form::kTwo ? fetch(b + n) : zero());
  };
  for (; k + kLanes <= count; k += kLanes) store(out + k, at(k));
  if (k == count) return;
  const int64_t rest = count - k;
  store(out + k,
        combine<kForm, true>(f, fetch(a + k, rest),
                             kForm == Form::kTwo ? fetch(b + k, rest) : zero()),
        first_n(static_cast<int>(rest)));
}

template <Form kForm, class A, class B>
void affine_row(const Factors& factors, const A* a, const B* b, uint8_t* out, int64_t count) {
  const Factors f = factors;
  int64_t k = 0;
  const auto code = [&](int64_t n) {
    return to_int(combine<kForm, false>(f, fetch(a + n),
                                        kForm == Form::kTwo ? fetch(b + n) : zero())) +
           f.after;
  };
  for (; k + 4 * kLanes <= count; k += 4 * kLanes)
    store_bytes(out + k, code(k), code(k + kLanes), code(k + 2 * kLanes), code(k + 3 * kLanes));
  for (; k + kLanes <= count; k += kLanes) store_bytes(out + k, code(k));
  if (k == count) return;
  const int64_t rest = count - k;
  const F32 t = combine<kForm, false>(f, fetch(a + k, rest),
                                      kForm == Form::kTwo ? fetch(b + k, rest) : zero());
  store_bytes(out + k, to_int(t) + f.after, rest);
}

template <Form kForm, class A, class B, class Out>
void affine_rows(const Factors& f, const TileOperand& a, const TileOperand& b,
                 const TileResult& out, int64_t rows, int64_t cols) {
  const A* row_a = static_cast<const A*>(a.data);
  const B* row_b = static_cast<const B*>(b.data);
  Out* to = static_cast<Out*>(out.data);
  for (int64_t row = 0; row < rows; ++row) {
    affine_row<kForm>(f, row_a, row_b, to, cols);
    row_a += a.row_stride, row_b += b.row_stride, to += out.row_stride;
  }
}

template <class Out>
void run_one(const Affine& affine, const TileOperand& a, const TileResult& out, int64_t rows,
             int64_t cols) {
  const Factors f = splat(affine);
  if (a.type == DataType::kUInt8)
    return affine_rows<Form::kOne, uint8_t, uint8_t, Out>(f, a, a, out, rows, cols);
  if (affine.divisor != 0)
    return affine_rows<Form::kDivide, float, float, Out>(f, a, a, out, rows, cols);
  affine_rows<Form::kOne, float, float, Out>(f, a, a, out, rows, cols);
}

template <class Out>
void run_two(const Affine& affine, const TileOperand& a, const TileOperand& b,
             const TileResult& out, int64_t rows, int64_t cols) {
  const Factors f = splat(affine);
  const bool bytes_a = a.type == DataType::kUInt8, bytes_b = b.type == DataType::kUInt8;
  if (bytes_a && bytes_b)
    return affine_rows<Form::kTwo, uint8_t, uint8_t, Out>(f, a, b, out, rows, cols);
  if (bytes_a) return affine_rows<Form::kTwo, uint8_t, float, Out>(f, a, b, out, rows, cols);
  if (bytes_b) return affine_rows<Form::kTwo, float, uint8_t, Out>(f, a, b, out, rows, cols);
  affine_rows<Form::kTwo, float, float, Out>(f, a, b, out, rows, cols);
}

}  // namespace

bool find_affine(const Instruction* code, int length, int num_inputs, const TileOperand* operands,
                 DataType out, Affine& affine) {
  constexpr int kMaxLength = 24;
  bool has_bytes = out == DataType::kUInt8;
  for (int k = 0; k < num_inputs; ++k) has_bytes |= operands[k].type == DataType::kUInt8;
  if (!has_bytes || (out != DataType::kUInt8 && out != DataType::kFloat)) return false;
  if (num_inputs + length > kMaxLength) return false;
  Symbol values[kMaxLength + 1];
  for (int k = 0; k < num_inputs; ++k) values[k] = input_symbol(operands, k, affine);
  const auto value = [&](int k) { return k < 0 ? constant(0) : values[k]; };
  for (int k = 0; k < length; ++k)
    values[num_inputs + k] = apply(code[k], value(code[k].a), value(code[k].b), value(code[k].c));
  return set_affine(values[num_inputs + length - 1], out, affine);
}

void run_affine(const Affine& affine, const TileOperand* operands, const TileResult& out,
                int64_t rows, int64_t cols) {
  const TileOperand a = operands[affine.inputs[0]];
  const bool two = affine.inputs[1] >= 0;
  const TileOperand b = two ? operands[affine.inputs[1]] : a;
  if (a.row_stride == cols && b.row_stride == cols && out.row_stride == cols)
    cols *= rows, rows = 1;
  if (out.type == DataType::kUInt8)
    return two ? run_two<uint8_t>(affine, a, b, out, rows, cols)
               : run_one<uint8_t>(affine, a, out, rows, cols);
  two ? run_two<float>(affine, a, b, out, rows, cols) : run_one<float>(affine, a, out, rows, cols);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
