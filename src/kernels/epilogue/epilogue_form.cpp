// SPDX-License-Identifier: Apache-2.0
#include "kernels/epilogue/epilogue_form.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace camshaft::kernels {
namespace {

using ir::Instruction;
using ir::PointOp;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kLargestOffset = 32000;  // what kernels add in 16 bits, saturating

bool is_integral(double value) {
  return std::isinf(value) || value == std::nearbyint(value);
}
bool is_whole(double v) {
  return v > -65536 && v < 65536 && v == std::floor(v);
}

// --- numbers of one value or many

double first_of(double value) {
  return value;
}
double first_of(const ChannelValues& values) {
  return values[0];
}
bool is_one(double) {
  return true;
}
bool is_one(const ChannelValues& values) {
  return values.size() == 1;
}
bool is_all(double value, double wanted) {
  return value == wanted;
}
bool is_all(const ChannelValues& values, double wanted) {
  return values.size() == 1 && values[0] == wanted;
}
bool are_positive(double value) {
  return value > 0;
}
bool are_positive(const ChannelValues& values) {
  return std::all_of(values.begin(), values.end(), [](double v) { return v > 0; });
}
template <class F>
void combine(double& to, double with, F f) {
  to = f(to, with);
}
template <class F>
void combine(ChannelValues& to, const ChannelValues& with, F f) {
  if (to.size() == 1 && with.size() > 1) to.assign(with.size(), to[0]);
  for (size_t k = 0; k < to.size(); ++k) to[k] = f(to[k], with[with.size() == 1 ? 0 : k]);
}

template <class Numbers>
Numbers made_of(double value) {
  return Numbers{value};
}
template <class Numbers>
Numbers inverse_of(Numbers values) {
  combine(values, made_of<Numbers>(1), [](double v, double one) { return one / v; });
  return values;
}
double evaluated(const Instruction& op, double a, double b, double c) {
  return ir::evaluate_point_op(op.op, a, b, c, op.x, op.y);
}
ChannelValues evaluated(const Instruction& op, const ChannelValues& a, const ChannelValues& b,
                        const ChannelValues& c) {
  ChannelValues values(std::max({a.size(), b.size(), c.size()}));
  const auto at = [](const ChannelValues& from, size_t k) {
    return from[from.size() == 1 ? 0 : k];
  };
  for (size_t k = 0; k < values.size(); ++k)
    values[k] = evaluated(op, at(a, k), at(b, k), at(c, k));
  return values;
}

constexpr auto kTimes = [](double a, double b) { return a * b; };
constexpr auto kPlus = [](double a, double b) { return a + b; };

}  // namespace

// --- forms

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

// --- what instructions mean

namespace {

template <class N, class F>
Form<N> done(const Form<N>& a, F step) {
  if (a.kind != Form<N>::kChain) return {};
  Form<N> form = a;
  if (!step(form)) return {};
  return form;
}

// The same with a constant, which is exact unless it was computed here.
template <class N, class F>
Form<N> done_by(const Form<N>& a, const Form<N>& by, F step) {
  Form<N> form = done(a, [&by, step](Form<N>& spoilt) { return step(spoilt, by.addend); });
  form.exact = form.exact && by.exact;
  return form;
}

constexpr auto kScale = [](auto& form, const auto& by) { return form.scale(by); };
constexpr auto kDivide = [](auto& form, const auto& by) { return form.divide(by); };
constexpr auto kShift = [](auto& form, const auto& by) { return form.shift(by); };

template <class N>
Form<N> clipped(const Form<N>& a, double low, double high) {
  return done(a, [low, high](Form<N>& form) { return form.clip(low, high); });
}

template <class N>
Form<N> negated(Form<N> constant) {
  combine(constant.addend, made_of<N>(-1), kTimes);
  return constant;
}
template <class N>
Form<N> product_of_constants(Form<N> a, const Form<N>& b) {
  combine(a.addend, b.addend, kTimes);
  a.exact = false;
  return a;
}

template <class N>
Form<N> sum(const Form<N>& a, const Form<N>& b) {
  if (b.is_constant()) return done_by(a, b, kShift);
  if (a.is_constant()) return sum(b, a);
  // What is scaled and shifted alone is the operand of the other.
  const bool is_left = a.main <= b.main;
  const Form<N>& more = is_left ? b : a;
  if (more.kind != Form<N>::kChain) return {};
  return done(is_left ? a : b, [&more](Form<N>& form) { return form.add(more); });
}

template <class N>
Form<N> difference(const Form<N>& a, const Form<N>& b) {
  const Form<N> minus_one = Form<N>::constant(made_of<N>(-1));
  return sum(a, b.is_constant() ? negated(b) : done_by(b, minus_one, kScale));
}

template <class N>
Form<N> product(const Form<N>& a, const Form<N>& b) {
  if (b.is_constant()) return done_by(a, b, kScale);
  if (a.is_constant()) return done_by(b, a, kScale);
  if (a.is_bare()) return done(a, [&b](Form<N>& form) { return form.gate_by(b); });
  return done(b, [&a](Form<N>& form) { return form.gate_by(a); });
}

template <class N>
Form<N> quotient(const Form<N>& a, const Form<N>& b) {
  if (!b.is_constant()) return {};
  return done_by(a, b, kDivide);
}

template <class N>
Form<N> fused(const Form<N>& a, const Form<N>& b, const Form<N>& c) {
  if (a.is_constant() && b.is_constant()) return sum(product_of_constants(a, b), c);
  if (a.is_constant()) return fused(b, a, c);
  Form<N> form;
  if (b.is_constant() && c.is_constant())
    form = done(a, [&b, &c](Form<N>& spoilt) { return spoilt.fuse(b.addend, c.addend); });
  else
    form = sum(product(a, b), c);
  form.exact = form.exact && b.exact && b.is_constant() && c.exact;
  return form;
}

// a, with a factor on its negative values, is `scaled`.
template <class N>
Form<N> leaky(const Form<N>& a, const Form<N>& scaled) {
  const bool scales = a.is_bare() && a.exact && scaled.is_linear() && scaled.exact &&
                      scaled.main == a.main && scaled.residual < 0 && scaled.zero == 0 &&
                      scaled.divisor == 0 && is_all(scaled.addend, 0);
  if (!scales || !is_one(scaled.multiplier) || !are_positive(scaled.multiplier)) return {};
  return done(a, [&scaled](Form<N>& form) { return form.leak(first_of(scaled.multiplier)); });
}

// A bound on the left is kept where it is equal, as that of a clamp is.
template <class N>
Form<N> bounded(PointOp op, const Form<N>& a, const Form<N>& b) {
  if (b.is_constant()) {
    Form<N> form = bounded(op, b, a);
    form.exact = form.exact && !is_all(b.addend, 0);
    return form;
  }
  if (a.is_constant()) {
    if (!a.is_scalar()) return {};
    const double bound = first_of(a.addend);
    Form<N> form =
        op == PointOp::kMax ? clipped(b, bound, kInfinity) : clipped(b, -kInfinity, bound);
    form.exact = form.exact && a.exact;
    return form;
  }
  if (op == PointOp::kMin) return {};
  return a.is_bare() ? leaky(a, b) : leaky(b, a);
}

template <class N>
Form<N> compared(const Form<N>& a, const Form<N>& b, bool is_less) {
  if (a.is_scalar()) return compared(b, a, !is_less);
  if (!a.is_bare() || !a.exact || !b.is_scalar() || !is_all(b.addend, 0)) return {};
  Form<N> form = a;
  form.kind = is_less ? Form<N>::kIsBelow : Form<N>::kIsAbove;
  return form;
}

template <class N>
Form<N> selected(const Form<N>& test, const Form<N>& yes, const Form<N>& no) {
  if (test.kind != Form<N>::kIsBelow && test.kind != Form<N>::kIsAbove) return {};
  const bool is_below = test.kind == Form<N>::kIsBelow;
  const Form<N>& above = is_below ? no : yes;
  return above.main == test.main ? leaky(above, is_below ? yes : no) : Form<N>();
}

}  // namespace

namespace {

template <class N>
Form<N> computed(const Instruction& op, const Form<N>& a, const Form<N>& b, const Form<N>& c) {
  Form<N> form = Form<N>::constant(evaluated(op, a.addend, b.addend, c.addend));
  form.exact = a.exact && op.op == PointOp::kIdentity;
  return form;
}

}  // namespace

template <class N>
Form<N> form_of(const Instruction& op, const Form<N>& a, const Form<N>& b, const Form<N>& c) {
  if (a.is_constant() && (op.b < 0 || b.is_constant()) && (op.c < 0 || c.is_constant()))
    return computed(op, a, op.b < 0 ? a : b, op.c < 0 ? a : c);
  switch (op.op) {
    case PointOp::kConst:
      return Form<N>::constant(made_of<N>(op.x));
    case PointOp::kIdentity:
      return a;
    case PointOp::kNeg:
      return product(a, Form<N>::constant(made_of<N>(-1)));
    case PointOp::kRound:
      return done(a, [](Form<N>& form) { return form.round(); });
    case PointOp::kRelu:
      return clipped(a, 0, kInfinity);
    case PointOp::kClip:
      return clipped(a, op.x, op.y);
    case PointOp::kMin:
    case PointOp::kMax:
      return bounded(op.op, a, b);
    case PointOp::kLeakyRelu:
      return done(a, [&op](Form<N>& form) { return form.leak(op.x); });
    case PointOp::kHardSwish:
      return done(a, [](Form<N>& form) { return form.gate_itself(); });
    case PointOp::kHardSigmoid:
      return done(a, [&op](Form<N>& form) {
        return form.fuse(made_of<N>(op.x), made_of<N>(op.y)) && form.clip(0, 1);
      });
    case PointOp::kAdd:
      return sum(a, b);
    case PointOp::kSub:
      return difference(a, b);
    case PointOp::kMul:
      return product(a, b);
    case PointOp::kDiv:
      return quotient(a, b);
    case PointOp::kFma:
      return fused(a, b, c);
    case PointOp::kLess:
    case PointOp::kLessOrEqual:
      return compared(a, b, true);
    case PointOp::kGreater:
    case PointOp::kGreaterOrEqual:
      return compared(a, b, false);
    case PointOp::kSelect:
      return selected(a, b, c);
    default:
      return {};
  }
}

template <class N>
void find_forms(const Instruction* code, int length, int num_inputs, Form<N>* values) {
  const Form<N> none;
  const auto value = [&none, values](int k) -> const Form<N>& { return k < 0 ? none : values[k]; };
  for (int k = 0; k < length; ++k)
    values[num_inputs + k] = form_of(code[k], value(code[k].a), value(code[k].b), value(code[k].c));
}

template struct Form<double>;
template struct Form<ChannelValues>;
template Form<double> form_of(const Instruction&, const Form<double>&, const Form<double>&,
                              const Form<double>&);
template Form<ChannelValues> form_of(const Instruction&, const Form<ChannelValues>&,
                                     const Form<ChannelValues>&, const Form<ChannelValues>&);
template void find_forms(const Instruction*, int, int, Form<double>*);

}  // namespace camshaft::kernels
