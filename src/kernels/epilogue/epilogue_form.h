// SPDX-License-Identifier: Apache-2.0
// What the values of a tile program are, as far as kernels compute them where their sums are: the
// one place that knows what an instruction does to a sum. Epilogues of floats and of bytes and the
// affine loops of pointwise layers are read from it. Constants are folded in double precision.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "ir/program.h"

namespace camshaft::kernels {

struct Gate {
  float scale = 0, shift = 0, low = 0, high = 0;
};

inline constexpr Gate kHardSwishGate = {1.0F / 6, 0.5F, 0, 1};

using ChannelValues = std::vector<double>;  // one, or one per channel

// A constant, or, of the inputs x = `main` and r = `residual`,
//   t = (x - zero) * multiplier + addend
//   t = round(clamp(t)) * code.scale + code.shift, or t * gate of t * code.scale + code.shift
//   t = t + (r - residual_zero) * residual_scale
//   t = max(t, slope * t) + post, before the residual where it leaks_first
//   t = clamp(t, low, high)
//   t = round(t) + offset, where it is rounded
// or whether x is below 0. Numbers of channels: double, or, of the sums of bytes, ChannelValues.
template <class Numbers>
struct Form {
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();
  // Of floats (x - zero) is kept, which is exactly 0 at a zero point, and gates only where the
  // program's values are the same.
  static constexpr bool kIsOfFloats = std::is_same_v<Numbers, double>;

  enum Kind : uint8_t { kOther, kConstant, kChain, kIsBelow, kIsAbove } kind = kOther;
  // Floats give the same bits as the program where multiplications with 1 and additions of 0 are
  // left out, and a multiplication and an addition are fused.
  bool exact = true;
  bool rounded = false, leaks_first = false;
  int main = -1, residual = -1;                        // inputs; -1: none
  Numbers multiplier = Numbers{}, addend = Numbers{};  // of a constant: addend
  double zero = 0, residual_zero = 0, residual_scale = 0;
  double slope = 1, post = 0, low = -kInfinity, high = kInfinity, offset = 0;
  double divisor = 0;  // ≠ 0: the multiplier is its reciprocal, rounded
  struct Code {
    bool present = false, is_gate = false;
    double low = 0, high = 0, scale = 1, shift = 0;
  } code;
  Gate gate = kHardSwishGate;

  static Form constant(Numbers value);
  static Form input(int number);

  bool is_constant() const { return kind == kConstant; }
  bool is_scalar() const;  // a constant of one value
  bool is_clamped() const { return low > -kInfinity || high < kInfinity; }
  // Nothing but multiplier and addend, and perhaps the residual.
  bool is_linear() const;
  bool is_input() const;  // the input less its zero
  bool is_bare() const { return is_input() && zero == 0; }
  void fold_zeros();  // into the addend

  // Each does one step; false: that has no place in the form any more, which is spoilt.
  bool scale(const Numbers& by);
  bool divide(const Numbers& by);
  bool shift(const Numbers& by);
  bool fuse(const Numbers& by, const Numbers& and_by);  // scale and shift in one operation
  bool clip(double from, double to);
  bool leak(double by);
  bool gate_itself();       // hard swish
  bool gate_by(Form line);  // times a clamped line of the same input
  bool round();
  bool add(const Form& other);  // not a constant

 private:
  bool go_on_from_codes();
  bool scale_each(const Numbers& by);
  bool add_term(int input, const Numbers& by, double zero_by);
};

// The value of an instruction whose operands have these forms; operands it lacks: any.
template <class Numbers>
Form<Numbers> form_of(const ir::Instruction& op, const Form<Numbers>& a, const Form<Numbers>& b,
                      const Form<Numbers>& c);

// The values of a program, behind those of its inputs.
template <class Numbers>
void find_forms(const ir::Instruction* code, int length, int num_inputs, Form<Numbers>* values);

extern template struct Form<double>;
extern template struct Form<ChannelValues>;

}  // namespace camshaft::kernels
