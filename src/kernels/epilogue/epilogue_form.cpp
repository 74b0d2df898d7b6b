// SPDX-License-Identifier: Apache-2.0
#include "kernels/epilogue/epilogue_form.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/epilogue/form_numbers.h"

namespace camshaft::kernels {
namespace {

constexpr double kLargestOffset = 32000;  // what kernels add in 16 bits, saturating

bool is_whole(double v) {
  return v > -65536 && v < 65536 && v == std::floor(v);
}

}  // namespace

template <class Numbers>
Form<Numbers> Form<Numbers>::constant(Numbers value) {
  Form form;
  form.kind = kConstant;
  form.addend = std::move(value);
  return form;
}

template <class Numbers>
Form<Numbers> Form<Numbers>::input(int number) {
  Form form;
  form.kind = kChain;
  form.main = number;
  form.multiplier = made_of<Numbers>(1), form.addend = made_of<Numbers>(0);
  return form;
}

template <class Numbers>
bool Form<Numbers>::is_scalar() const {
  return kind == kConstant && is_one(addend);
}

template <class Numbers>
bool Form<Numbers>::is_linear() const {
  return kind == kChain && !code.present && slope == 1 && !is_clamped() && !rounded;
}

template <class Numbers>
bool Form<Numbers>::is_input() const {
  return is_linear() && residual < 0 && divisor == 0 && is_all(multiplier, 1) && is_all(addend, 0);
}

template <class Numbers>
void Form<Numbers>::fold_zeros() {
  if (zero != 0)
    combine(addend, multiplier, [this](double to, double by) { return to - by * zero; });
  if (residual_zero != 0)
    combine(addend, made_of<Numbers>(residual_scale * residual_zero),
            [](double to, double by) { return to - by; });
  zero = residual_zero = 0;
}

// The codes the chain has come to become a value again.
template <class Numbers>
bool Form<Numbers>::go_on_from_codes() {
  if (code.present || residual >= 0 || slope != 1) return false;
  code = {true, false, low, high, 1, offset};
  low = -kInfinity, high = kInfinity, offset = 0;
  rounded = false;
  return true;
}

template <class Numbers>
bool Form<Numbers>::scale(const Numbers& by) {
  const bool is_kept = is_all(by, 1);
  exact = exact && (is_kept || is_bare());
  if (!is_kept) divisor = 0;
  if (rounded && !go_on_from_codes()) return false;
  const bool scalar = is_one(by);
  const double number = first_of(by);
  const bool plain = !is_clamped() && slope == 1;
  if (!plain && !scalar) return scale_each(by);
  if (!plain && !(number > 0) && !(number < 0 && slope == 1)) return false;
  if ((residual >= 0 || code.present) && !scalar) return false;
  if (kIsOfFloats && code.is_gate && !(number > 0)) return false;
  if (code.present) {
    code.scale *= number, code.shift *= number;
  } else {
    combine(multiplier, by, kTimes);
    combine(addend, by, kTimes);
  }
  if (!scalar) return true;
  residual_scale *= number, post *= number;
  if (is_clamped()) low *= number, high *= number;
  if (number < 0 && low > high) std::swap(low, high);
  return true;
}

// Of clamped values: what is clamped at 0 only may be scaled before.
template <class Numbers>
bool Form<Numbers>::scale_each(const Numbers& by) {
  const bool commutes = (low == 0 || low == -kInfinity) && high == kInfinity && post == 0;
  if (!commutes || !are_positive(by) || residual >= 0 || code.present) return false;
  combine(multiplier, by, kTimes);
  combine(addend, by, kTimes);
  return true;
}

template <class Numbers>
bool Form<Numbers>::divide(const Numbers& by) {
  const bool is_of_input =
      kIsOfFloats && is_all(multiplier, 1) && is_all(addend, 0) && zero == 0 && residual < 0;
  const bool scaled = scale(inverse_of(by));
  exact = exact && is_all(by, 1);
  if (is_of_input) divisor = first_of(by);
  return scaled;
}

template <class Numbers>
bool Form<Numbers>::shift(const Numbers& by) {
  const bool scalar = is_one(by);
  const double number = first_of(by);
  exact = exact && scalar && number != 0 && is_linear() && residual < 0 && zero == 0 &&
          is_all(addend, 0) && (is_all(multiplier, 1) || is_all(multiplier, -1));
  if (kIsOfFloats && is_input() && is_whole(number) && is_whole(zero - number)) {
    zero -= number;
    return true;
  }
  if ((is_clamped() || slope != 1 || rounded || code.present) && !scalar) return false;
  if (rounded && is_integral(number)) {
    offset += number;
    return std::abs(offset) <= kLargestOffset;
  }
  if (rounded && !go_on_from_codes()) return false;
  if (kIsOfFloats && code.is_gate) return false;
  if (!scalar || number != 0) divisor = 0;
  if (slope != 1)
    post += number;
  else if (code.present)
    code.shift += number;
  else
    combine(addend, by, kPlus);
  if (is_clamped()) low += number, high += number;
  return true;
}

template <class Numbers>
bool Form<Numbers>::fuse(const Numbers& by, const Numbers& and_by) {
  const bool fuses = exact && is_bare() && is_one(and_by) && first_of(and_by) != 0;
  if (!scale(by) || !shift(and_by)) return false;
  exact = fuses;
  return true;
}

template <class Numbers>
bool Form<Numbers>::clip(double from, double to) {
  if (!(from <= to) || (rounded && !(is_integral(from) && is_integral(to)))) return false;
  from -= offset, to -= offset;
  exact = exact && low <= to && high >= from;  // else a constant, but for the sign of zeros
  low = std::clamp(low, from, to), high = std::clamp(high, from, to);
  return true;
}

template <class Numbers>
bool Form<Numbers>::leak(double by) {
  if (is_clamped() || rounded || slope != 1 || !(by >= 0 && by <= 1)) return false;
  slope = by;
  return true;
}

template <class Numbers>
bool Form<Numbers>::gate_itself() {
  if (code.present || residual >= 0 || slope != 1 || is_clamped() || rounded) return false;
  if (kIsOfFloats && !(exact && is_bare())) return false;
  code.present = code.is_gate = true;
  return true;
}

template <class Numbers>
bool Form<Numbers>::gate_by(Form line) {
  const bool is_line = line.kind == kChain && !line.code.present && line.slope == 1 &&
                       line.is_clamped() && !line.rounded && line.residual < 0 && line.exact;
  if (!is_bare() || !is_line || line.main != main || !is_one(line.multiplier)) return false;
  line.fold_zeros();
  const auto number = [](double v) { return static_cast<float>(v); };
  // v * scale - 0 has the sign of v, v * scale + 0 has not.
  const float shift_by = is_all(line.addend, 0) ? -0.0F : number(first_of(line.addend));
  gate = {number(first_of(line.multiplier)), shift_by, number(line.low), number(line.high)};
  return gate_itself();
}

template <class Numbers>
bool Form<Numbers>::round() {
  rounded = true;
  return true;
}

// scale * (input - its zero), beside what there is: of linear forms.
template <class Numbers>
bool Form<Numbers>::add_term(int input, const Numbers& by, double zero_by) {
  if (input == main || input == residual) fold_zeros();
  if (input == main || input == residual)
    combine(addend, by, [zero_by](double to, double scale) { return to - scale * zero_by; });
  if (input == main) {
    combine(multiplier, by, kPlus);
    return true;
  }
  if (!is_one(by) || (residual >= 0 && residual != input)) return false;
  if (residual < 0) residual = input, residual_zero = zero_by;
  residual_scale += first_of(by);
  return true;
}

template <class Numbers>
bool Form<Numbers>::add(const Form& other) {
  if (!other.is_linear()) return false;
  const bool is_new = residual < 0 && other.main != main && other.residual < 0;
  exact = exact && is_new && other.exact && other.is_bare();
  divisor = 0;
  if (is_new) {
    if (rounded && !go_on_from_codes()) return false;
    if (is_clamped() || post != 0 || !is_one(other.addend)) return false;
    leaks_first = slope != 1;
  } else if (!is_linear()) {
    return false;
  }
  const Numbers more = made_of<Numbers>(other.residual_scale);
  if (!add_term(other.main, other.multiplier, other.zero)) return false;
  if (other.residual >= 0 && !add_term(other.residual, more, other.residual_zero)) return false;
  if (is_all(other.addend, 0)) return true;
  if (is_new) return shift(other.addend);
  combine(addend, other.addend, kPlus);
  return true;
}

template struct Form<double>;
template struct Form<ChannelValues>;

}  // namespace camshaft::kernels
