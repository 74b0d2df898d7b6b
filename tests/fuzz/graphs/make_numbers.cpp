// SPDX-License-Identifier: Apache-2.0
// Doubles, and integers of all widths: elementwise, reduced, multiplied; casts to them and back.
#include "fuzz/graphs/graph_maker.h"

namespace camshaft::fuzz {
namespace {

Tensor* cast(GraphMaker& m, Tensor* x, DataType type) {
  return x ? m.add(LayerKind::kCast, ir::CastAttrs{type}, {x}) : nullptr;
}

Tensor* any_whole(GraphMaker& m, int64_t least_rank) {
  return m.any([&](Tensor* t) {
    return (t->type == DataType::kInt64 || t->type == DataType::kInt32) && t->has_rank &&
           m.rank(t) >= least_rank;
  });
}

// Of x's last dimensions, where these are known, some of them 1.
Extents any_operand(GraphMaker& m, Tensor* x) {
  Extents extents;
  const auto rank = static_cast<size_t>(m.rank(x));
  for (size_t d = static_cast<size_t>(m.below(static_cast<int64_t>(rank) + 1)); d < rank; ++d)
    extents.push_back(x->shape[d].is_known() && m.chance(80) ? x->shape[d].extent() : 1);
  return extents;
}

Tensor* reduce(GraphMaker& m, Tensor* x, ir::ReduceOp op) {
  ir::ReduceAttrs attrs;
  attrs.op = op;
  attrs.keep_dims = m.chance(50);
  for (int64_t d = 0; d < m.rank(x); ++d)
    if (m.chance(40)) attrs.axes.push_back(d);
  return attrs.axes.empty() ? x : m.add(LayerKind::kReduce, attrs, {x});
}

Tensor* one_double(GraphMaker& m, Tensor* x) {
  switch (m.below(4)) {
    case 0:
      return m.unary(m.pick({PointOp::kExp, PointOp::kTanh, PointOp::kSigmoid, PointOp::kAbs,
                             PointOp::kNeg, PointOp::kSqrt, PointOp::kLog, PointOp::kReciprocal,
                             PointOp::kRelu, PointOp::kErf, PointOp::kSoftplus}),
                     x);
    case 1:
      return reduce(m, x,
                    m.pick({ir::ReduceOp::kSum, ir::ReduceOp::kMean, ir::ReduceOp::kMax,
                            ir::ReduceOp::kMin, ir::ReduceOp::kL1, ir::ReduceOp::kL2,
                            ir::ReduceOp::kSumSquare, ir::ReduceOp::kProd}));
    default: {
      Tensor* other = cast(m, m.floats(any_operand(m, x), 0.3f, 1.5f), DataType::kDouble);
      return m.binary(m.pick({PointOp::kAdd, PointOp::kSub, PointOp::kMul, PointOp::kDiv,
                              PointOp::kMin, PointOp::kMax}),
                      x, other);
    }
  }
}

bool doubles(GraphMaker& m) {
  Tensor* x = m.any_float();
  x = x ? cast(m, x, DataType::kDouble) : nullptr;
  for (int64_t k = m.between(1, 3); x && k > 0; --k) x = one_double(m, x);
  return cast(m, x, DataType::kFloat);
}

bool widths(GraphMaker& m) {
  const DataType type =
      m.pick({DataType::kInt8, DataType::kUInt8, DataType::kInt16, DataType::kUInt16,
              DataType::kUInt32, DataType::kUInt64, DataType::kInt32, DataType::kInt64});
  Tensor* x = any_whole(m, 0);
  const DataType was = x ? x->type : DataType::kUndefined;
  if (x && x->type != type) x = cast(m, x, type);
  if (!x) return false;
  const bool shifts = m.chance(20), divides = !shifts && m.chance(30);
  Tensor* other = m.whole(type, any_operand(m, x), shifts || divides ? 1 : 0, shifts ? 3 : 9);
  const PointOp op =
      shifts    ? m.pick({PointOp::kShiftLeft, PointOp::kShiftRight, PointOp::kPow})
      : divides ? m.pick({PointOp::kDiv, PointOp::kMod, PointOp::kFmod})
                : m.pick({PointOp::kAdd, PointOp::kSub, PointOp::kMul, PointOp::kMin, PointOp::kMax,
                          PointOp::kBitAnd, PointOp::kBitOr, PointOp::kBitXor});
  Tensor* y = m.binary(op, x, other);
  if (y && ir::bits_of(type) >= 32 && m.chance(40))
    y = reduce(m, y,
               m.pick({ir::ReduceOp::kSum, ir::ReduceOp::kMean, ir::ReduceOp::kMax,
                       ir::ReduceOp::kMin, ir::ReduceOp::kL1}));
  return y && (type == was || cast(m, y, was));
}

bool number_product(GraphMaker& m) {
  const bool is_double = m.chance(50);
  Tensor* x = is_double ? m.any_float(1) : any_whole(m, 1);
  if (!x || !x->shape.back().is_known() || x->shape.back().extent() < 1) return false;
  if (is_double) x = cast(m, x, DataType::kDouble);
  if (!x) return false;
  ir::MatrixMultiplyAttrs attrs;
  attrs.transpose_b = m.chance(30);
  const int64_t k = x->shape.back().extent(),
                n = m.chance(20) ? m.between(20, 60) : m.between(1, 9);
  const Extents extents = attrs.transpose_b ? Extents{n, k} : Extents{k, n};
  Tensor* w = is_double ? cast(m, m.floats(extents, -0.4f, 0.4f), DataType::kDouble)
                        : m.whole(x->type, extents, -3, 3);
  Tensor* y = m.add(LayerKind::kMatrixMultiply, attrs, {x, w});
  return y && (!is_double || cast(m, y, DataType::kFloat));
}

constexpr MakerRow kRows[] = {
    {"doubles", 3, doubles},
    {"widths", 3, widths},
    {"number_product", 2, number_product},
};

}  // namespace

MakerTable number_makers() {
  return kRows;
}

}  // namespace camshaft::fuzz
