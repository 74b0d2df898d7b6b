// SPDX-License-Identifier: Apache-2.0
// Shapes that are computed: ShapeOf and its arithmetic, and what only running can tell: NonZero,
// Range, Reshape, Slice, Expand, Tile, Fill, Pad, Resize and TopK by values.
#include <cmath>

#include "fuzz/graphs/graph_maker.h"

namespace camshaft::fuzz {
namespace {

Tensor* shape_of(GraphMaker& m, Tensor* x, int64_t first, int64_t last) {
  return m.add(LayerKind::kShapeOf, ir::ShapeOfAttrs{first, last}, {x});
}

Tensor* any_ranked(GraphMaker& m, int64_t least, int64_t most = 5) {
  return m.any([&](Tensor* t) { return t->has_rank && m.rank(t) >= least && m.rank(t) <= most; });
}

bool shape(GraphMaker& m) {
  Tensor* x = any_ranked(m, 1);
  if (!x) return false;
  const int64_t first = m.below(m.rank(x));
  return shape_of(m, x, first, m.between(first + 1, m.rank(x)));
}

// Reshape to pieces of the input's shape, -1 among them: what exporters write.
bool reshape_by_shape(GraphMaker& m) {
  Tensor* x = any_ranked(m, 2);
  for (int64_t d = 0; x && d < m.rank(x); ++d)
    if (m.least(x, d) == 0) return false;  // what -1 stands for beside 0 is not defined
  if (!x) return false;
  Tensor* all = shape_of(m, x, 0, m.rank(x));
  if (!all) return false;
  std::vector<Tensor*> parts;
  const int64_t kept = m.between(1, m.rank(x) - 1);
  for (int64_t d = 0; d < kept; ++d)
    parts.push_back(m.add(LayerKind::kGather, ir::GatherAttrs{}, {all, m.vector({d})}));
  parts.push_back(m.vector({-1}));
  if (m.chance(30)) parts.push_back(m.vector({1}));
  for (const Tensor* part : parts)
    if (!part) return false;
  Tensor* target = m.add(LayerKind::kConcatenation, ir::AxisAttrs{0}, parts);
  return target && m.add(LayerKind::kShuffle, ir::ShuffleAttrs{}, {x, target});
}

// A whole number in [low, high] that depends on data: inference cannot know it.
Tensor* late_number(GraphMaker& m, int64_t low, int64_t high, bool vector) {
  Tensor* x = m.any([&](Tensor* t) {
    return (t->type == DataType::kInt64 || (t->type == DataType::kFloat && m.is_exact(t))) &&
           t->has_rank && m.rank(t) <= 5;
  });
  if (!x || low > high) return nullptr;
  ir::ReduceAttrs sum;
  sum.op = ir::ReduceOp::kMax;
  for (int64_t d = 0; d < m.rank(x); ++d) {
    if (m.least(x, d) < 1) return nullptr;
    sum.axes.push_back(d);
  }
  sum.keep_dims = false;
  Tensor* number = m.rank(x) > 0 ? m.add(LayerKind::kReduce, sum, {x}) : x;
  if (number && number->type == DataType::kFloat)
    number = m.add(LayerKind::kCast, ir::CastAttrs{DataType::kInt64}, {number});
  if (!number) return nullptr;
  number = m.binary(PointOp::kMod, number, m.scalar(DataType::kInt64, high - low + 1));
  number = m.binary(PointOp::kAdd, number, m.scalar(DataType::kInt64, low));
  return vector ? m.reshape(number, {Dim(1)}) : number;
}

bool late_slice(GraphMaker& m) {
  Tensor* x = any_ranked(m, 1);
  if (!x) return false;
  const int64_t axis = m.below(m.rank(x)), room = m.least(x, axis);
  if (room < 1) return false;
  const bool from_start = m.chance(60);
  Tensor* bound = late_number(m, from_start ? 1 : 0, from_start ? room : room - 1, true);
  Tensor* start = from_start ? m.vector({0}) : bound;
  Tensor* end = from_start ? bound : m.vector({int64_t{1} << 40});
  if (!bound) return false;
  return m.add(LayerKind::kSlice, ir::SliceAttrs{},
               {x, start, end, m.vector({m.chance(50) ? axis : axis - m.rank(x)}),
                m.chance(50) ? m.vector({1}) : nullptr});
}

bool nonzero(GraphMaker& m) {
  Tensor* x = m.any([&](Tensor* t) { return m.is_exact(t) && m.rank(t) >= 1 && m.rank(t) <= 4; });
  if (!x) return false;
  Tensor* where = m.add(LayerKind::kNonZero, ir::NoAttrs{}, {x});
  if (!where || m.chance(30)) return where;
  Tensor* rows = m.transpose(where, {1, 0});
  if (m.chance(60)) {
    ir::GatherAttrs nd;
    nd.mode = ir::GatherMode::kNd;
    return m.add(LayerKind::kGather, nd, {x, rows});
  }
  return rows;
}

bool range(GraphMaker& m) {
  Tensor* limit = m.chance(50) ? late_number(m, 0, 9, false) : nullptr;
  if (!limit) {
    Tensor* x = any_ranked(m, 1);
    if (!x) return false;
    limit = m.add(LayerKind::kGather, ir::GatherAttrs{},
                  {shape_of(m, x, 0, m.rank(x)), m.scalar(DataType::kInt64, m.below(m.rank(x)))});
  }
  if (!limit) return false;
  Tensor* made = m.add(LayerKind::kRange, ir::NoAttrs{},
                       {m.scalar(DataType::kInt64, m.between(-2, 1)), limit,
                        m.scalar(DataType::kInt64, m.chance(70) ? 1 : 2)});
  if (!made || m.chance(40)) return made;
  // As a mask, or as positions.
  Tensor* column = m.reshape(made, {made->shape[0], Dim(1)});
  return column && m.binary(m.pick({PointOp::kLessOrEqual, PointOp::kSub}), made, column);
}

bool late_reshape(GraphMaker& m) {
  Tensor* x = any_ranked(m, 1);
  if (!x) return false;
  int64_t count = 1;
  for (int64_t d = 0; d < m.rank(x); ++d) {
    if (m.least(x, d) != m.most(x, d)) return false;
    count *= m.least(x, d);
  }
  // 1 or 2 rows, whichever the data says.
  Tensor* rows = count % 2 == 0 ? late_number(m, 1, 2, true) : nullptr;
  if (!rows) return false;
  Tensor* target = m.add(LayerKind::kConcatenation, ir::AxisAttrs{0}, {rows, m.vector({-1})});
  return target && m.add(LayerKind::kShuffle, ir::ShuffleAttrs{}, {x, target});
}

// Rank 4 and late, as detectors have it: the channels stay known.
bool late_map(GraphMaker& m) {
  Tensor* x = m.any([&](Tensor* t) {
    return t->type == DataType::kFloat && t->has_rank && m.rank(t) == 4 && m.least(t, 2) >= 3;
  });
  if (!x) return false;
  Tensor* bound = late_number(m, 3, m.least(x, 2), true);
  return bound && m.add(LayerKind::kSlice, ir::SliceAttrs{},
                        {x, m.vector({0}), bound, m.vector({2}), nullptr});
}

bool late_expand(GraphMaker& m) {
  Tensor* x = m.any([&](Tensor* t) {
    return t->has_rank && m.rank(t) >= 1 && m.rank(t) <= 4 && t->shape[0] == Dim(1);
  });
  Tensor* rows = x ? late_number(m, 1, 4, true) : nullptr;
  if (!rows) return false;
  std::vector<Tensor*> parts = {rows};
  for (int64_t d = 1; d < m.rank(x); ++d) parts.push_back(m.vector({1}));
  Tensor* target = m.add(LayerKind::kConcatenation, ir::AxisAttrs{0}, parts);
  ir::ShapeAttrs a;
  a.is_static = false;
  return target && m.add(m.chance(50) ? LayerKind::kExpand : LayerKind::kTile, a, {x, target});
}

bool fill(GraphMaker& m) {
  Tensor* x = any_ranked(m, 1);
  ir::FillAttrs a;
  a.type = m.pick({DataType::kFloat, DataType::kFloat, DataType::kInt64, DataType::kBool});
  a.value = a.type == DataType::kFloat ? 0.5 : 1;
  if (!x) return false;
  if (m.chance(50)) {
    a.shape = x->shape;
    return m.add(LayerKind::kFill, a, {});
  }
  a.is_static = false;
  Tensor* extents = m.chance(50) ? shape_of(m, x, 0, m.rank(x)) : late_number(m, 0, 6, true);
  return extents && m.add(LayerKind::kFill, a, {extents});
}

bool late_pad(GraphMaker& m) {
  Tensor* x = any_ranked(m, 1, 4);
  Tensor* amount = x ? late_number(m, 0, 3, true) : nullptr;
  if (!amount) return false;
  std::vector<Tensor*> parts;
  for (int64_t d = 0; d < 2 * m.rank(x); ++d)
    parts.push_back(m.chance(40) ? amount : m.vector({0}));
  Tensor* pads = m.add(LayerKind::kConcatenation, ir::AxisAttrs{0}, parts);
  return pads && m.add(LayerKind::kPad, ir::PadAttrs{}, {x, pads});
}

bool late_top_k(GraphMaker& m) {
  Tensor* x = m.any([&](Tensor* t) {
    return m.is_exact(t) && t->type != DataType::kBool && t->type != DataType::kHalf &&
           m.rank(t) >= 1 && m.rank(t) <= 4;
  });
  if (!x) return false;
  ir::TopKAttrs a;
  a.axis = m.below(m.rank(x));
  Tensor* k = late_number(m, 1, m.least(x, a.axis), true);
  return k && m.add_many(LayerKind::kTopK, a, {x, k}, {true, m.chance(50)})[0];
}

bool late_resize(GraphMaker& m) {
  Tensor* x = m.any([&](Tensor* t) {
    return t->type == DataType::kFloat && t->has_rank && m.rank(t) == 4 && m.least(t, 2) >= 1 &&
           m.least(t, 3) >= 1;
  });
  if (!x) return false;
  Tensor* height = late_number(m, 2, 7, true);
  Tensor* batch = shape_of(m, x, 0, 2);
  if (!height || !batch) return false;
  Tensor* sizes =
      m.add(LayerKind::kConcatenation, ir::AxisAttrs{0}, {batch, height, m.vector({5})});
  ir::ResizeAttrs a;
  a.mode = m.pick({ir::ResizeMode::kNearest, ir::ResizeMode::kLinear});
  a.transform = ir::CoordinateTransform::kAsymmetric;
  a.rounding = ir::NearestRounding::kFloor;
  return sizes && m.add(LayerKind::kResize, a, {x, nullptr, nullptr, sizes});
}

bool compress(GraphMaker& m) {
  Tensor* x = m.any([&](Tensor* t) {
    return m.rank(t) >= 1 && m.rank(t) <= 4 && t->has_rank && t->shape[0].is_known();
  });
  if (!x || x->shape[0].extent() < 1) return false;
  Tensor* kept = m.any([&](Tensor* t) {
    return t->type == DataType::kBool && t->has_rank && t->shape == Shape{x->shape[0]};
  });
  if (!kept) kept = m.whole(DataType::kBool, {x->shape[0].extent()}, 0, 1);
  return m.generic("Compress", 11, {x, kept}, {{"axis", {0}, {}, ""}});
}

bool unique(GraphMaker& m) {
  Tensor* x = m.any([&](Tensor* t) {
    return m.is_exact(t) && m.rank(t) >= 1 && m.rank(t) <= 3 &&
           (t->type == DataType::kFloat || t->type == DataType::kInt64);
  });
  return x && m.generic("Unique", 11, {x}, {{"sorted", {1}, {}, ""}}, 4, 0);
}

constexpr MakerRow kRows[] = {
    {"shape", 6, shape},
    {"reshape_by_shape", 16, reshape_by_shape},
    {"late_slice", 10, late_slice},
    {"nonzero", 10, nonzero},
    {"range", 8, range},
    {"late_reshape", 6, late_reshape},
    {"late_map", 8, late_map},
    {"late_expand", 5, late_expand},
    {"fill", 6, fill},
    {"late_pad", 5, late_pad},
    {"late_top_k", 4, late_top_k},
    {"late_resize", 4, late_resize},
    {"compress", 4, compress},
    {"unique", 4, unique},
};

}  // namespace

MakerTable late_makers() {
  return kRows;
}

}  // namespace camshaft::fuzz
