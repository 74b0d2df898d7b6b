// SPDX-License-Identifier: Apache-2.0
// What instructions mean: the step each of them is.
#include <utility>

#include "kernels/epilogue/form_numbers.h"

namespace camshaft::kernels {
namespace {

using ir::Instruction;
using ir::PointOp;

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
    Form<N> form = op == PointOp::kMax ? clipped(b, bound, Form<double>::kInfinity)
                                       : clipped(b, -Form<double>::kInfinity, bound);
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
      return clipped(a, 0, Form<double>::kInfinity);
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

template Form<double> form_of(const Instruction&, const Form<double>&, const Form<double>&,
                              const Form<double>&);
template Form<ChannelValues> form_of(const Instruction&, const Form<ChannelValues>&,
                                     const Form<ChannelValues>&, const Form<ChannelValues>&);
template void find_forms(const Instruction*, int, int, Form<double>*);

}  // namespace camshaft::kernels
