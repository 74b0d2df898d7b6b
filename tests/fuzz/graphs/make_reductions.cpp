// SPDX-License-Identifier: Apache-2.0
// Reduce, SoftMax, Normalization, CumSum; TopK, ArgMinMax, Gather, Scatter.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "fuzz/graphs/graph_maker.h"
#include "ir/chosen_product.h"
#include "passes/match.h"

namespace camshaft::fuzz {
namespace {

Tensor* any_ranked(GraphMaker& m, int64_t least, int64_t most, bool floats) {
  return m.any([&](Tensor* t) {
    return t->has_rank && m.rank(t) >= least && m.rank(t) <= most &&
           (floats ? t->type == DataType::kFloat
                   : t->type != DataType::kBool && t->type != DataType::kHalf);
  });
}

// How many elements each result is made of. Of hundreds of factors, the order decides whether a
// product overflows on its way.
int64_t factors(GraphMaker& m, Tensor* x, const Ints& axes) {
  int64_t count = 1;
  for (int64_t d = 0; d < m.rank(x); ++d)
    if (axes.empty() || std::count(axes.begin(), axes.end(), d) > 0) count *= m.most(x, d);
  return count;
}

bool reduce(GraphMaker& m) {
  Tensor* x = any_ranked(m, 1, 5, m.chance(85));
  if (!x) return false;
  ir::ReduceAttrs a;
  a.op = m.pick({ir::ReduceOp::kSum, ir::ReduceOp::kSum, ir::ReduceOp::kMean, ir::ReduceOp::kMean,
                 ir::ReduceOp::kMean, ir::ReduceOp::kMax, ir::ReduceOp::kMin, ir::ReduceOp::kProd,
                 ir::ReduceOp::kL1, ir::ReduceOp::kL2, ir::ReduceOp::kLogSum,
                 ir::ReduceOp::kLogSumExp, ir::ReduceOp::kSumSquare});
  if (ir::is_integer(x->type) && (a.op == ir::ReduceOp::kL2 || a.op == ir::ReduceOp::kLogSum ||
                                  a.op == ir::ReduceOp::kLogSumExp || a.op == ir::ReduceOp::kMean))
    a.op = ir::ReduceOp::kMax;
  a.keep_dims = m.chance(60);
  if (m.chance(40) && m.rank(x) >= 3)
    for (int64_t d = 2; d < m.rank(x); ++d) a.axes.push_back(d);
  else if (m.chance(50))
    a.axes = {m.rank(x) - 1};
  else
    for (int64_t d = 0; d < m.rank(x); ++d)
      if (m.chance(50)) a.axes.push_back(d);
  if (a.axes.empty() && !m.chance(20)) return false;
  if (a.op == ir::ReduceOp::kProd && factors(m, x, a.axes) > 100) a.op = ir::ReduceOp::kMax;
  if (m.chance(8)) {  // the axes as an input
    Tensor* axes = m.vector(a.axes);
    a.empty_is_none = a.axes.empty();
    a.axes.clear();
    return m.add(LayerKind::kReduce, a, {x, axes});
  }
  return m.add(LayerKind::kReduce, a, {x});
}

bool softmax(GraphMaker& m) {
  Tensor* x = any_ranked(m, 1, 5, true);
  if (!x) return false;
  ir::SoftMaxAttrs a;
  a.axis = m.chance(50) ? m.rank(x) - 1 : m.below(m.rank(x));
  a.last_axis = m.chance(85) ? a.axis : m.rank(x) - 1;
  a.log = m.chance(15);
  a.hard = !a.log && m.chance(5) && m.is_exact(x);
  return m.add(LayerKind::kSoftMax, a, {x});
}

bool normalization(GraphMaker& m) {
  Tensor* x = any_ranked(m, 2, 5, true);
  if (!x) return false;
  ir::NormalizationAttrs a;
  a.kind = m.pick({ir::NormKind::kLayer, ir::NormKind::kLayer, ir::NormKind::kRms,
                   ir::NormKind::kInstance, ir::NormKind::kGroup});
  a.epsilon = m.pick({1e-5f, 1e-3f, 0.1f});
  const bool per_channel = a.kind == ir::NormKind::kInstance || a.kind == ir::NormKind::kGroup;
  Extents extents;
  if (per_channel) {
    if (!x->shape[1].is_known() || m.rank(x) < 3) return false;
    const int64_t channels = x->shape[1].extent();
    for (const int64_t groups : {2, 3, 4, 1})
      if (a.kind == ir::NormKind::kGroup && channels % groups == 0 && m.chance(60))
        a.groups = groups;
    extents = {channels};
  } else {
    a.axis = m.chance(75) ? m.rank(x) - 1 : m.between(1, m.rank(x) - 1);
    for (int64_t d = a.axis; d < m.rank(x); ++d) {
      if (!x->shape[static_cast<size_t>(d)].is_known()) return false;
      extents.push_back(x->shape[static_cast<size_t>(d)].extent());
    }
  }
  return m.add(
      LayerKind::kNormalization, a,
      {x, m.chance(85) || per_channel ? m.floats(extents, 0.5f, 1.5f) : nullptr,
       m.chance(60) && a.kind != ir::NormKind::kRms ? m.floats(extents, -0.5f, 0.5f) : nullptr});
}

bool cumulative_sum(GraphMaker& m) {
  Tensor* x = any_ranked(m, 1, 4, m.chance(70));
  if (!x || x->type == DataType::kInt8 || x->type == DataType::kUInt8) return false;
  const int64_t axis = m.below(m.rank(x));
  return m.add(
      LayerKind::kCumSum, ir::CumSumAttrs{m.chance(30), m.chance(30)},
      {x, m.scalar(DataType::kInt64, static_cast<double>(m.chance(50) ? axis : axis - m.rank(x)))});
}

// No two elements of a line are so near that rounding could change their order.
bool has_clear_order(GraphMaker& m, Tensor* x) {
  if (m.is_exact(x) || ir::is_integer(x->type)) return true;
  for (size_t run = 0; run < m.runs(); ++run) {
    std::vector<double> values = m.value(x, run).to_doubles();
    std::sort(values.begin(), values.end());
    for (size_t k = 1; k < values.size(); ++k)
      if (values[k] - values[k - 1] < 1e-3) return false;
  }
  return true;
}

bool top_k(GraphMaker& m) {
  Tensor* x = any_ranked(m, 1, 4, m.chance(70));
  if (!x || !has_clear_order(m, x)) return false;
  ir::TopKAttrs a;
  a.axis = m.below(m.rank(x));
  a.largest = m.chance(60);
  if (m.least(x, a.axis) < 1) return false;
  const int64_t k = m.between(1, std::min<int64_t>(m.least(x, a.axis), 5));
  const std::vector<bool> wanted = {m.chance(80), m.chance(60)};
  if (!wanted[0] && !wanted[1]) return false;
  const auto outputs = m.add_many(LayerKind::kTopK, a, {x, m.vector({k})}, wanted);
  return outputs[0] || outputs[1];
}

bool arg_min_max(GraphMaker& m) {
  Tensor* x = any_ranked(m, 1, 4, m.chance(70));
  if (!x || !has_clear_order(m, x)) return false;
  ir::TopKAttrs a;
  a.axis = m.below(m.rank(x));
  a.largest = m.chance(60);
  a.keep_dims = m.chance(50);
  a.select_last_index = m.chance(25);
  return m.add(LayerKind::kArgMinMax, a, {x});
}

// Indices below `count` of the given extents: a constant, or whole numbers the graph has computed.
Tensor* indices(GraphMaker& m, const Extents& extents, int64_t count, bool any_extents) {
  const DataType type = m.chance(80) ? DataType::kInt64 : DataType::kInt32;
  if (any_extents && m.chance(35)) {
    Tensor* x = m.any([&](Tensor* t) {
      return (t->type == DataType::kInt64 || t->type == DataType::kInt32) && m.rank(t) <= 3;
    });
    if (Tensor* inside =
            x ? m.binary(PointOp::kMod, x, m.scalar(x->type, static_cast<double>(count))) : nullptr)
      return inside;
  }
  return m.whole(type, extents, m.chance(30) ? -count : 0, count - 1);
}

bool gather(GraphMaker& m) {
  Tensor* x = m.any([&](Tensor* t) { return t->has_rank && m.rank(t) >= 1 && m.rank(t) <= 4; });
  if (!x) return false;
  ir::GatherAttrs a;
  a.axis = m.below(m.rank(x));
  const int64_t count = m.least(x, a.axis);
  if (count < 1) return false;
  Extents extents;
  for (int64_t k = m.below(3); k > 0; --k) extents.push_back(m.between(1, 5));
  Tensor* from = x;
  if (m.chance(25) && x->type == DataType::kFloat) {  // an embedding
    from = m.floats({m.between(2, 9), m.between(1, 20)}, -1, 1);
    a.axis = 0;
    return m.add(LayerKind::kGather, a, {from, indices(m, extents, m.extents(from)[0], true)});
  }
  return m.add(LayerKind::kGather, a, {from, indices(m, extents, count, true)});
}

// A matrix for each row, and the product of the two on either side; or one layer of it.
bool gather_matrices(GraphMaker& m) {
  const int64_t count = m.between(1, 5), columns = m.between(1, 20), depth = m.between(1, 20);
  Tensor* chosen = indices(m, {m.between(1, 7)}, count, true);
  if (!chosen || !m.is_static(chosen) || ir::element_count(m.extents(chosen)) == 0) return false;
  const int64_t rows = ir::element_count(m.extents(chosen));
  if (rows > 400) return false;
  if (m.rank(chosen) != 1) chosen = m.reshape(chosen, {rows});
  if (!chosen) return false;
  if (chosen->is_constant() || m.chance(20)) {
    Tensor* x = m.any([&](Tensor* t) {
      return t->type == DataType::kFloat && m.rank(t) == 2 && m.is_static(t) &&
             m.extents(t)[0] == rows && m.extents(t)[1] > 0;
    });
    if (!x) x = m.floats({rows, depth}, -1, 1);
    return m.add(LayerKind::kGeneric, ir::GenericAttrs{ir::kChosenProduct, 1, {}},
                 {x, chosen, m.floats({count, columns, m.extents(x)[1]}, -1, 1)});
  }
  const bool is_right = m.chance(60);
  ir::MatrixMultiplyAttrs a;
  (is_right ? a.transpose_b : a.transpose_a) = m.chance(50);
  const bool depth_last = is_right == (is_right ? a.transpose_b : a.transpose_a);
  const Extents matrices =
      depth_last ? Extents{count, columns, depth} : Extents{count, depth, columns};
  Tensor* gathered =
      m.add(LayerKind::kGather, ir::GatherAttrs{}, {m.floats(matrices, -1, 1), chosen});
  if (!gathered) return false;
  if (is_right)
    return m.add(LayerKind::kMatrixMultiply, a, {m.floats({rows, 1, depth}, -1, 1), gathered});
  return m.add(LayerKind::kMatrixMultiply, a, {gathered, m.floats({rows, depth, 1}, -1, 1)});
}

bool gather_elements(GraphMaker& m) {
  Tensor* x = m.any([&](Tensor* t) {
    return m.rank(t) >= 1 && m.rank(t) <= 4 && m.is_static(t) &&
           ir::element_count(m.extents(t)) > 0;
  });
  if (!x) return false;
  ir::GatherAttrs a;
  a.mode = ir::GatherMode::kElements;
  a.axis = m.below(m.rank(x));
  Extents extents = m.extents(x);
  for (size_t d = 0; d < extents.size(); ++d)
    if (m.chance(40)) extents[d] = m.between(1, extents[d]);
  return m.add(LayerKind::kGather, a,
               {x, indices(m, extents, m.extents(x)[static_cast<size_t>(a.axis)], false)});
}

bool gather_nd(GraphMaker& m) {
  Tensor* x = m.any([&](Tensor* t) {
    return m.rank(t) >= 1 && m.rank(t) <= 4 && m.is_static(t) &&
           ir::element_count(m.extents(t)) > 0;
  });
  if (!x) return false;
  ir::GatherAttrs a;
  a.mode = ir::GatherMode::kNd;
  a.batch_dims = m.chance(25) && m.rank(x) > 1 ? 1 : 0;
  const int64_t depth = m.between(1, m.rank(x) - a.batch_dims);
  Extents extents;
  if (a.batch_dims) extents.push_back(m.extents(x)[0]);
  extents.push_back(m.between(1, 5));
  extents.push_back(depth);
  int64_t count = 1 << 20;
  for (int64_t d = 0; d < depth; ++d)
    count = std::min(count, m.extents(x)[static_cast<size_t>(a.batch_dims + d)]);
  return m.add(LayerKind::kGather, a, {x, m.whole(DataType::kInt64, extents, -count, count - 1)});
}

// Rows along a dimension that is not the first, as ScatterND alone can write them.
bool scatter_turned(GraphMaker& m, ir::ScatterAttrs a, std::array<Tensor*, 3> operands) {
  Ints there{a.axis};
  for (int64_t d = 0; d < m.rank(operands[0]); ++d)
    if (d != a.axis) there.push_back(d);
  a.axis = 0;
  Tensor* data = m.transpose(operands[0], there);
  Tensor* updates = data ? m.transpose(operands[2], there) : nullptr;
  Tensor* y = updates ? m.add(LayerKind::kScatter, a, {data, operands[1], updates}) : nullptr;
  return y && m.transpose(y, passes::inverse(there));
}

bool scatter(GraphMaker& m) {
  Tensor* x = m.any([&](Tensor* t) {
    return m.rank(t) >= 1 && m.rank(t) <= 4 && m.is_static(t) &&
           ir::element_count(m.extents(t)) > 0 &&
           (t->type == DataType::kFloat || t->type == DataType::kInt64);
  });
  if (!x) return false;
  const Extents& data = m.extents(x);
  ir::ScatterAttrs a;
  a.mode = m.pick({ir::ScatterMode::kElements, ir::ScatterMode::kNd});
  a.reduction =
      m.pick({ir::ScatterReduction::kNone, ir::ScatterReduction::kNone, ir::ScatterReduction::kAdd,
              ir::ScatterReduction::kMul, ir::ScatterReduction::kMin, ir::ScatterReduction::kMax});
  const bool repeats = a.reduction != ir::ScatterReduction::kNone && m.chance(60);
  // Positions along one dimension, each once unless they are combined.
  const auto positions = [&](int64_t count, int64_t wanted) {
    Ints list(static_cast<size_t>(count));
    std::iota(list.begin(), list.end(), 0);
    std::shuffle(list.begin(), list.end(), m.random());
    for (int64_t& position : list)
      if (repeats) position = m.below(count);
    list.resize(static_cast<size_t>(std::min(wanted, count)));
    return list;
  };
  a.axis = m.below(m.rank(x));
  const auto axis = static_cast<size_t>(a.axis);
  const Ints along = positions(data[axis], m.between(1, 4));
  Extents updates = data, shape{static_cast<int64_t>(along.size()), 1};
  updates[axis] = shape[0];
  std::vector<double> numbers(along.begin(), along.end());
  if (a.mode == ir::ScatterMode::kElements) {
    shape = updates;
    numbers.clear();
    int64_t inner = 1;
    for (size_t d = axis + 1; d < shape.size(); ++d) inner *= shape[d];
    for (int64_t k = 0; k < ir::element_count(shape); ++k)
      numbers.push_back(static_cast<double>(along[static_cast<size_t>(k / inner % shape[axis])]));
  }
  Tensor* index = m.constant(DataType::kInt64, shape, numbers);
  Tensor* update = m.any(
      [&](Tensor* t) { return t->type == x->type && m.is_static(t) && m.extents(t) == updates; });
  if (!update || m.chance(50))
    update = x->type == DataType::kFloat ? m.floats(updates, -1.5f, 1.5f)
                                         : m.whole(x->type, updates, -3, 3);
  if (a.mode == ir::ScatterMode::kNd && a.axis != 0 && m.chance(60))
    return scatter_turned(m, a, {x, index, update});
  return m.add(LayerKind::kScatter, a, {x, index, update});
}

constexpr MakerRow kReductions[] = {
    {"reduce", 20, reduce},
    {"softmax", 14, softmax},
    {"normalization", 14, normalization},
    {"cumulative_sum", 4, cumulative_sum},
};

constexpr MakerRow kIndices[] = {
    {"top_k", 6, top_k},
    {"arg_min_max", 6, arg_min_max},
    {"gather", 14, gather},
    {"gather_elements", 6, gather_elements},
    {"gather_matrices", 6, gather_matrices},
    {"gather_nd", 6, gather_nd},
    {"scatter", 8, scatter},
};

}  // namespace

MakerTable reduction_makers() {
  return kReductions;
}
MakerTable index_makers() {
  return kIndices;
}

}  // namespace camshaft::fuzz
