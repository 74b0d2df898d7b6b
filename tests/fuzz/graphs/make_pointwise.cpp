// SPDX-License-Identifier: Apache-2.0
// Activation, Unary, ElementWise, Select, Scale, PointWise, Cast.
#include <cmath>

#include "fuzz/graphs/graph_maker.h"

namespace camshaft::fuzz {
namespace {

double from_whole(double v) {
  return std::fabs(v - std::round(v));
}
double from_half(double v) {
  return std::fabs(v - std::floor(v) - 0.5);
}
double from_zero(double v) {
  return std::fabs(v);
}

struct UnaryRow {
  PointOp op;
  float x_low = 0, x_high = 0, y_low = 0, y_high = 0;
};

const std::vector<UnaryRow>& smooth_operators() {
  static const std::vector<UnaryRow> rows = {
      {PointOp::kRelu},
      {PointOp::kRelu},
      {PointOp::kSigmoid},
      {PointOp::kTanh},
      {PointOp::kLeakyRelu, 0.01f, 0.5f},
      {PointOp::kElu, 0.5f, 1.5f},
      {PointOp::kSelu, 1.6f, 1.7f, 1.0f, 1.1f},
      {PointOp::kCelu, 0.5f, 2},
      {PointOp::kHardSigmoid, 0.1f, 0.3f, 0.3f, 0.6f},
      {PointOp::kHardSwish},
      {PointOp::kSoftplus},
      {PointOp::kSoftsign},
      {PointOp::kMish},
      {PointOp::kSilu, 1, 1},
      {PointOp::kSilu, 0.5f, 1.8f},
      {PointOp::kGelu},
      {PointOp::kGeluTanh},
      {PointOp::kClip, -1.5f, -0.1f, 0.5f, 6},
      {PointOp::kClip, 0, 0, 6, 6},
      {PointOp::kIdentity},
      {PointOp::kAbs},
      {PointOp::kNeg},
      {PointOp::kSqrt},
      {PointOp::kReciprocal},
      {PointOp::kExp},
      {PointOp::kLog},
      {PointOp::kErf},
      {PointOp::kSin},
      {PointOp::kCos},
      {PointOp::kTan},
      {PointOp::kAsin},
      {PointOp::kAcos},
      {PointOp::kAtan},
      {PointOp::kSinh},
      {PointOp::kCosh},
      {PointOp::kAsinh},
      {PointOp::kAcosh},
      {PointOp::kAtanh},
  };
  return rows;
}

bool smooth_unary(GraphMaker& m) {
  const UnaryRow row = m.pick(smooth_operators());
  Tensor* x = m.any_float();
  return x && m.unary(row.op, x, m.real(row.x_low, row.x_high), m.real(row.y_low, row.y_high));
}

bool stepped_unary(GraphMaker& m) {
  Tensor* x = m.any_float();
  if (!x) return false;
  const float lambda = m.real(0.2f, 1);
  switch (m.below(9)) {
    case 0:
      return m.is_clear(x, from_whole) && m.unary(PointOp::kFloor, x);
    case 1:
      return m.is_clear(x, from_whole) && m.unary(PointOp::kCeil, x);
    case 2:
      return m.is_clear(x, from_half) && m.unary(PointOp::kRound, x);
    case 3:
      return m.is_clear(x, from_zero) && m.unary(PointOp::kSign, x);
    case 4:
      return m.is_clear(x, [&](double v) { return std::fabs(v - lambda); }) &&
             m.unary(PointOp::kThresholdedRelu, x, lambda);
    case 5:
      return m.is_clear(x, [&](double v) { return std::fabs(std::fabs(v) - lambda); }) &&
             m.unary(PointOp::kShrink, x, lambda, m.real(0, 0.3f));
    case 6:
      return m.unary(PointOp::kIsNan, x);
    case 7:
      return m.unary(PointOp::kIsInf, x, 1, 1);
    default:
      return m.is_clear(x, from_whole) && m.unary(PointOp::kFloor, x);
  }
}

bool integer_unary(GraphMaker& m) {
  Tensor* x =
      m.any([](Tensor* t) { return ir::is_integer(t->type) || t->type == DataType::kBool; });
  if (!x) return false;
  if (x->type == DataType::kBool) return m.unary(m.pick({PointOp::kNot, PointOp::kIdentity}), x);
  return m.unary(m.pick({PointOp::kAbs, PointOp::kNeg, PointOp::kSign, PointOp::kRelu,
                         PointOp::kIdentity, PointOp::kBitNot}),
                 x);
}

// Something to combine x with: itself, another tensor, or a constant that broadcasts to it or makes
// it larger.
Tensor* partner_of(GraphMaker& m, Tensor* x) {
  const auto rank = static_cast<size_t>(m.rank(x));
  const auto is_float = x->type == DataType::kFloat;
  const auto make = [&](const Extents& extents) {
    return is_float ? m.floats(extents, -1.5f, 1.5f) : m.whole(x->type, extents, -3, 4);
  };
  switch (m.below(9)) {
    case 0:
      return x;
    case 1:
      return make({});
    case 2:  // per channel, as convolutional networks have it
      if (rank < 3 || !x->has_rank || !x->shape[1].is_known()) return make({1});
      {
        Extents extents(rank - 1, 1);
        extents[0] = x->shape[1].extent();
        return make(extents);
      }
    case 3:  // along the last dimension, as transformers have it
      return rank > 0 && x->has_rank && x->shape[rank - 1].is_known()
                 ? make({x->shape[rank - 1].extent()})
                 : make(Extents(rank, 1));
    case 4: {  // any mixture of whole dimensions and ones
      Extents extents;
      for (size_t d = static_cast<size_t>(m.below(static_cast<int64_t>(rank) + 1)); d < rank; ++d)
        extents.push_back(
            x->has_rank && x->shape[d].is_known() && m.chance(60) ? x->shape[d].extent() : 1);
      return make(extents);
    }
    default: {
      const bool same = m.chance(70);
      return m.any([&](Tensor* t) {
        return t->type == x->type && (!same || (t->has_rank && t->shape == x->shape));
      });
    }
  }
}

bool arithmetic(GraphMaker& m) {
  Tensor* x = m.any_float();
  if (!x) return false;
  Tensor* y = partner_of(m, x);
  if (m.chance(30)) std::swap(x, y);
  const PointOp op = m.pick({PointOp::kAdd, PointOp::kAdd, PointOp::kAdd, PointOp::kSub,
                             PointOp::kMul, PointOp::kMul, PointOp::kMul, PointOp::kDiv,
                             PointOp::kMin, PointOp::kMax, PointOp::kPRelu});
  return m.binary(op, x, y);
}

bool power(GraphMaker& m) {
  Tensor* x = m.any_float();
  return m.binary(PointOp::kPow, x,
                  m.scalar(DataType::kFloat, m.pick({2.0, 2.0, 3.0, 0.5, -1.0, -0.5, 1.0, 0.0})));
}

bool remainder(GraphMaker& m) {
  Tensor* x = m.any_float();
  const float divisor = m.pick({0.5f, 1.0f, 3.0f, -2.0f});
  if (!x || !m.is_clear(x, [&](double v) { return from_whole(v / divisor); })) return false;
  return m.binary(m.pick({PointOp::kMod, PointOp::kFmod}), x, m.scalar(DataType::kFloat, divisor));
}

bool integer_arithmetic(GraphMaker& m) {
  Tensor* x = m.any([](Tensor* t) { return ir::is_integer(t->type); });
  if (!x) return false;
  Tensor* y = partner_of(m, x);
  switch (m.below(10)) {
    case 0:
      return m.binary(PointOp::kDiv, x, m.scalar(x->type, m.pick({2, 3, -2, 1, -1})));
    case 1:
      return m.binary(m.pick({PointOp::kMod, PointOp::kFmod}), x,
                      m.scalar(x->type, m.pick({2, 3, 5, -3})));
    case 2:
      return m.binary(m.pick({PointOp::kBitAnd, PointOp::kBitOr, PointOp::kBitXor}), x, y);
    case 3:
      return m.binary(PointOp::kPow, x, m.scalar(x->type, m.pick({0, 1, 2})));
    default:
      return m.binary(
          m.pick({PointOp::kAdd, PointOp::kSub, PointOp::kMul, PointOp::kMin, PointOp::kMax}), x,
          y);
  }
}

bool comparison(GraphMaker& m) {
  Tensor* x = m.any([](Tensor* t) { return t->type != DataType::kBool; });
  if (!x) return false;
  Tensor* y = partner_of(m, x);
  if (!y || y->type != x->type) return false;
  if (ir::is_floating(x->type) && !(m.is_exact(x) && m.is_exact(y))) {
    y = m.scalar(x->type, m.real(-1, 1));
    const double limit = m.value(y, 0).to_doubles()[0];
    if (!m.is_clear(x, [&](double v) { return std::fabs(v - limit); })) return false;
  }
  return m.binary(m.pick({PointOp::kEqual, PointOp::kLess, PointOp::kLessOrEqual, PointOp::kGreater,
                          PointOp::kGreaterOrEqual}),
                  x, y);
}

bool logic(GraphMaker& m) {
  Tensor* x = m.any([](Tensor* t) { return t->type == DataType::kBool; });
  Tensor* y = m.any([&](Tensor* t) { return t->type == DataType::kBool && t != x; });
  return m.binary(m.pick({PointOp::kAnd, PointOp::kOr, PointOp::kXor, PointOp::kEqual}), x,
                  y ? y : x);
}

// A condition of x's shape or one that broadcasts to it.
Tensor* condition_for(GraphMaker& m, Tensor* x) {
  Tensor* made = m.any([&](Tensor* t) {
    return t->type == DataType::kBool && t->has_rank && x->has_rank &&
           (t->shape == x->shape || t->shape.empty());
  });
  if (made && m.chance(70)) return made;
  Extents extents;
  for (size_t d = 0; d < static_cast<size_t>(m.rank(x)); ++d)
    extents.push_back(x->has_rank && x->shape[d].is_known() && m.chance(60) ? x->shape[d].extent()
                                                                            : 1);
  return m.whole(DataType::kBool, extents, 0, 1);
}

bool select(GraphMaker& m) {
  Tensor* x = m.any([](Tensor*) { return true; });
  if (!x) return false;
  Tensor* y = m.chance(40) ? (x->type == DataType::kFloat
                                  ? m.scalar(x->type, m.pick({0.0, -1.0, -10000.0, 1.0}))
                                  : m.scalar(x->type, m.below(2)))
                           : partner_of(m, x);
  if (!y) return false;
  Tensor* condition = condition_for(m, x);
  if (m.chance(40)) std::swap(x, y);
  return m.add(LayerKind::kSelect, ir::PointOpAttrs{PointOp::kSelect, 0, 0}, {condition, x, y});
}

bool scale(GraphMaker& m) {
  Tensor* x = m.any_float(1);
  if (!x || !x->has_rank) return false;
  const int64_t axis = m.chance(70) && m.rank(x) > 1 ? 1 : m.below(m.rank(x));
  if (!x->shape[axis].is_known()) return false;
  const Extents extents = {x->shape[axis].extent()};
  return m.add(LayerKind::kScale, ir::ScaleAttrs{axis},
               {x, m.floats(extents, -1.5f, 1.5f), m.floats(extents, -1, 1)});
}

bool pointwise(GraphMaker& m) {
  Tensor* x = m.any_float();
  if (!x || !x->has_rank) return false;
  std::vector<Tensor*> inputs = {x};
  while (m.chance(40) && inputs.size() < 3) {
    Tensor* y = partner_of(m, x);
    if (y && y->has_rank && y->shape.size() <= x->shape.size()) inputs.push_back(y);
  }
  ir::PointWiseAttrs a;
  a.program.num_inputs = static_cast<int>(inputs.size());
  int last = 0;
  for (int64_t k = m.between(1, 5); k > 0; --k) {
    const auto count = a.program.num_inputs + static_cast<int64_t>(a.program.code.size());
    const auto other = static_cast<int>(m.below(count));
    if (m.chance(45)) {
      const UnaryRow row = m.pick(smooth_operators());
      last = ir::append(a.program, row.op, last, -1, -1, m.real(row.x_low, row.x_high),
                        m.real(row.y_low, row.y_high));
    } else if (m.chance(20)) {
      last = ir::append(a.program, PointOp::kFma, last, other, static_cast<int>(m.below(count)));
    } else {
      const PointOp op = m.pick({PointOp::kAdd, PointOp::kSub, PointOp::kMul, PointOp::kMin,
                                 PointOp::kMax, PointOp::kPRelu});
      last = m.chance(50) ? ir::append(a.program, op, last, other)
                          : ir::append(a.program, op, other, last);
    }
  }
  return m.add(LayerKind::kPointWise, a, inputs);
}

bool cast(GraphMaker& m) {
  Tensor* x = m.any([](Tensor*) { return true; });
  if (!x) return false;
  const DataType to = m.pick({DataType::kFloat, DataType::kFloat, DataType::kInt64,
                              DataType::kInt32, DataType::kBool, DataType::kUInt8, DataType::kInt8,
                              DataType::kDouble, DataType::kHalf});
  if (ir::is_floating(x->type) && to == DataType::kBool && !m.is_clear(x, from_zero)) return false;
  if (ir::is_floating(x->type) && ir::is_integer(to) && !m.is_clear(x, from_whole)) return false;
  // What does not fit is undefined.
  if (to == DataType::kUInt8 || to == DataType::kInt8)
    for (size_t run = 0; run < m.runs(); ++run)
      for (const double v : m.value(x, run).to_doubles())
        if (v < (to == DataType::kInt8 ? -128 : 0) || v > (to == DataType::kInt8 ? 127 : 255))
          return false;
  if (to == DataType::kHalf && !m.is_exact(x)) return false;
  Tensor* y = m.add(LayerKind::kCast, ir::CastAttrs{to}, {x});
  if (y && to == DataType::kHalf) m.add(LayerKind::kCast, ir::CastAttrs{DataType::kFloat}, {y});
  return y;
}

constexpr MakerRow kRows[] = {
    {"smooth_unary", 30, smooth_unary},
    {"stepped_unary", 4, stepped_unary},
    {"integer_unary", 4, integer_unary},
    {"arithmetic", 40, arithmetic},
    {"power", 4, power},
    {"remainder", 2, remainder},
    {"integer_arithmetic", 8, integer_arithmetic},
    {"comparison", 6, comparison},
    {"logic", 4, logic},
    {"select", 8, select},
    {"scale", 8, scale},
    {"pointwise", 8, pointwise},
    {"cast", 8, cast},
};

}  // namespace

MakerTable pointwise_makers() {
  return kRows;
}

}  // namespace camshaft::fuzz
