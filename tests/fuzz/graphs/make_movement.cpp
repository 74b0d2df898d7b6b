// SPDX-License-Identifier: Apache-2.0
// Shuffle, Slice, Pad, Concatenation, Expand, Tile, Resize, DepthToSpace, SpaceToDepth.
#include <algorithm>
#include <numeric>

#include "fuzz/graphs/graph_maker.h"

namespace camshaft::fuzz {
namespace {

Tensor* any_of_rank(GraphMaker& m, int64_t least, int64_t most = 6) {
  return m.any([&](Tensor* t) { return t->has_rank && m.rank(t) >= least && m.rank(t) <= most; });
}

bool transpose(GraphMaker& m) {
  Tensor* x = any_of_rank(m, 2);
  if (!x) return false;
  Ints order(static_cast<size_t>(m.rank(x)));
  std::iota(order.begin(), order.end(), 0);
  if (m.chance(40)) {
    std::shuffle(order.begin(), order.end(), m.random());
  } else if (m.chance(50) && order.size() > 2) {  // channels last, and back
    if (m.chance(50))
      std::rotate(order.begin() + 1, order.begin() + 2, order.end());
    else
      std::rotate(order.begin() + 1, order.end() - 1, order.end());
  } else {
    std::swap(order[order.size() - 1], order[order.size() - 2]);
  }
  return m.transpose(x, order);
}

// The shape with neighbours merged, an extent split, ones added or taken away.
Shape reshaped(GraphMaker& m, Tensor* x) {
  Shape shape = x->shape;
  for (int64_t k = m.between(1, 3); k > 0; --k) {
    const auto rank = static_cast<int64_t>(shape.size());
    const auto d = static_cast<size_t>(rank > 0 ? m.below(rank) : 0);
    switch (m.below(4)) {
      case 0:
        if (rank < 2) break;
        if (d + 1 < shape.size()) {
          shape[d] = m.symbols().mul(shape[d], shape[d + 1]);
          shape.erase(d + 1);
        }
        break;
      case 1:
        for (const int64_t part : {2, 3, 4, 8, 5})
          if (rank > 0 && rank < 6 && shape[d].is_known() && shape[d].extent() % part == 0 &&
              m.chance(50)) {
            const Dim rest = shape[d].extent() / part;
            shape[d] = m.chance(50) ? Dim(part) : rest;
            shape.insert(d, shape[d] == rest ? Dim(part) : rest);
            break;
          }
        break;
      case 2:
        if (rank < 6) shape.insert(static_cast<size_t>(m.below(rank + 1)), Dim(1));
        break;
      default:
        if (rank > 0 && shape[d] == Dim(1)) shape.erase(d);
        break;
    }
  }
  return shape;
}

bool reshape(GraphMaker& m) {
  Tensor* x = any_of_rank(m, 0);
  if (!x) return false;
  ir::ShuffleAttrs a;
  a.has_reshape = true;
  a.reshape = reshaped(m, x);
  if (m.chance(20) && x->shape.size() > 1) {
    a.first_transpose.resize(x->shape.size());
    std::iota(a.first_transpose.begin(), a.first_transpose.end(), 0);
    std::swap(a.first_transpose[0], a.first_transpose[x->shape.size() - 1]);
  }
  if (m.chance(25) && a.reshape.size() > 1) {
    a.second_transpose.resize(a.reshape.size());
    std::iota(a.second_transpose.begin(), a.second_transpose.end(), 0);
    std::shuffle(a.second_transpose.begin(), a.second_transpose.end(), m.random());
  }
  return m.add(LayerKind::kShuffle, a, {x});
}

// Reshape, transpose, reshape back: window partitions, shuffled channels, heads.
bool rearrange(GraphMaker& m) {
  Tensor* x = any_of_rank(m, 2, 4);
  if (!x || !m.is_static(x)) return false;
  const Shape split = reshaped(m, x);
  Tensor* y = m.reshape(x, split);
  if (!y) return false;
  Ints order(split.size());
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), m.random());
  y = m.transpose(y, order);
  return y && m.reshape(y, m.chance(50) ? reshaped(m, y) : x->shape);
}

// A Slice of numbers along one dimension.
Tensor* slice_of(GraphMaker& m, Tensor* x, int64_t axis, int64_t first, Dim size, int64_t step) {
  ir::SliceAttrs a;
  a.size = x->shape;
  a.start = Shape(x->shape.size(), Dim(0));
  a.step = Ints(x->shape.size(), 1);
  a.start[static_cast<size_t>(axis)] = first;
  a.size[static_cast<size_t>(axis)] = size;
  a.step[static_cast<size_t>(axis)] = step;
  return m.add(LayerKind::kSlice, a, {x});
}

bool slice(GraphMaker& m) {
  Tensor* x = any_of_rank(m, 1);
  if (!x) return false;
  const int64_t axis = m.below(m.rank(x)), room = m.least(x, axis);
  const Dim extent = x->shape[static_cast<size_t>(axis)];
  if (room < 1) return false;
  const int64_t first = m.below(room);
  if (!extent.is_known())  // what is left of a symbol, or a number of its elements
    return slice_of(m, x, axis, first,
                    m.chance(50) ? m.symbols().sub(extent, first) : Dim(m.between(1, room - first)),
                    1);
  if (m.chance(15)) {  // backwards
    const int64_t step = -m.between(1, 2);
    return slice_of(m, x, axis, first, Dim(m.between(1, first / -step + 1)), step);
  }
  const int64_t step = m.chance(25) ? m.between(2, 3) : 1;
  return slice_of(m, x, axis, first,
                  Dim(m.between(m.chance(3) ? 0 : 1, (room - first - 1) / step + 1)), step);
}

// Slices that make up the whole; some are worked on; put together again in some order.
bool split(GraphMaker& m) {
  Tensor* x = any_of_rank(m, 1, 5);
  if (!x) return false;
  const int64_t axis = m.below(m.rank(x));
  const Dim extent = x->shape[static_cast<size_t>(axis)];
  if (!extent.is_known() || extent.extent() < 2) return false;
  std::vector<Tensor*> parts;
  for (int64_t first = 0; first < extent.extent();) {
    const int64_t size = m.chance(40) ? std::max<int64_t>(extent.extent() / 2, 1)
                                      : m.between(1, extent.extent() - first);
    const int64_t kept = std::min(size, extent.extent() - first);
    parts.push_back(slice_of(m, x, axis, first, kept, 1));
    if (!parts.back()) return false;
    first += kept;
  }
  if (m.chance(40)) return true;
  for (Tensor*& part : parts)
    if (x->type == DataType::kFloat && m.chance(40))
      if (Tensor* worked = m.unary(m.pick({PointOp::kRelu, PointOp::kNeg, PointOp::kTanh}), part))
        part = worked;
  if (m.chance(40)) std::shuffle(parts.begin(), parts.end(), m.random());
  return m.add(LayerKind::kConcatenation, ir::AxisAttrs{axis}, parts);
}

bool concatenation(GraphMaker& m) {
  Tensor* x = any_of_rank(m, 1);
  if (!x) return false;
  const auto axis = static_cast<size_t>(m.chance(50) && m.rank(x) > 1 ? 1 : m.below(m.rank(x)));
  std::vector<Tensor*> parts = {x};
  const auto fits = [&](Tensor* t) {
    if (t->type != x->type || !t->has_rank || t->shape.size() != x->shape.size()) return false;
    for (size_t d = 0; d < x->shape.size(); ++d)
      if (d != axis && t->shape[d] != x->shape[d]) return false;
    return true;
  };
  while (m.chance(65) && parts.size() < 5)
    if (Tensor* part = m.any(fits)) parts.push_back(part);
  if (m.chance(15) && m.is_static(x)) {
    Extents extents = m.extents(x);
    extents[axis] = m.between(1, 3);
    parts.push_back(x->type == DataType::kFloat ? m.floats(extents, -1, 1)
                                                : m.whole(x->type, extents, 0, 1));
  }
  std::shuffle(parts.begin(), parts.end(), m.random());
  return m.add(LayerKind::kConcatenation, ir::AxisAttrs{static_cast<int64_t>(axis)}, parts);
}

bool pad(GraphMaker& m) {
  Tensor* x = any_of_rank(m, 1, 5);
  if (!x) return false;
  ir::PadAttrs a;
  a.mode = m.pick({ir::PadMode::kConstant, ir::PadMode::kConstant, ir::PadMode::kConstant,
                   ir::PadMode::kReflect, ir::PadMode::kEdge, ir::PadMode::kWrap});
  const bool constant = a.mode == ir::PadMode::kConstant;
  if (x->type == DataType::kFloat && constant) a.value = m.pick({0.0f, 0.0f, 1.0f, -2.0f});
  for (int64_t d = 0; d < m.rank(x); ++d) {
    const int64_t room = m.least(x, d);
    const int64_t most = constant ? 3 : std::clamp<int64_t>(room - 1, 0, 3);
    const bool crops = m.chance(10) && room > 2;
    a.pre.push_back(m.chance(50) ? 0 : crops ? -1 : m.between(0, most));
    a.post.push_back(m.chance(50) ? 0 : crops ? -1 : m.between(0, most));
  }
  if (x->type == DataType::kBool && a.mode == ir::PadMode::kConstant) a.value = 0;
  return m.add(LayerKind::kPad, a, {x});
}

bool expand(GraphMaker& m) {
  Tensor* x = any_of_rank(m, 0, 5);
  if (!x) return false;
  ir::ShapeAttrs a;
  a.shape = x->shape;
  for (Dim& dim : a.shape)
    if (dim == Dim(1) && m.chance(70)) dim = m.between(1, 4);
  if (m.chance(30) && a.shape.size() < 6) a.shape.insert(0, Dim(m.between(1, 3)));
  return m.add(LayerKind::kExpand, a, {x});
}

bool tile(GraphMaker& m) {
  Tensor* x = any_of_rank(m, 1, 5);
  if (!x) return false;
  ir::ShapeAttrs a;
  for (int64_t d = 0; d < m.rank(x); ++d) a.shape.push_back(m.chance(60) ? 1 : m.between(1, 3));
  return m.add(LayerKind::kTile, a, {x});
}

// Starts, then ends, as shares of each dimension; now and then beyond it.
void choose_crop(GraphMaker& m, ir::ResizeAttrs& a, size_t rank) {
  a.transform = ir::CoordinateTransform::kTfCropAndResize;
  a.antialias = false;
  for (size_t d = 0; d < rank; ++d) a.roi.push_back(d < 2 ? 0 : m.pick({0.0f, 0.125f, -0.25f}));
  for (size_t d = 0; d < rank; ++d) a.roi.push_back(d < 2 ? 1 : m.pick({1.0f, 0.75f, 1.25f}));
  a.extrapolation_value = m.pick({0.0f, 0.5f});
}

bool resize(GraphMaker& m) {
  Tensor* x = m.any_float(3, 5);
  if (!x || !x->has_rank) return false;
  ir::ResizeAttrs a;
  a.mode = m.pick({ir::ResizeMode::kNearest, ir::ResizeMode::kNearest, ir::ResizeMode::kLinear,
                   ir::ResizeMode::kLinear, ir::ResizeMode::kCubic});
  a.transform =
      m.pick({ir::CoordinateTransform::kHalfPixel, ir::CoordinateTransform::kPytorchHalfPixel,
              ir::CoordinateTransform::kAlignCorners, ir::CoordinateTransform::kAsymmetric,
              ir::CoordinateTransform::kHalfPixelSymmetric});
  a.rounding =
      m.pick({ir::NearestRounding::kRoundPreferFloor, ir::NearestRounding::kRoundPreferCeil,
              ir::NearestRounding::kFloor, ir::NearestRounding::kCeil});
  a.antialias = a.mode != ir::ResizeMode::kNearest && m.chance(10);
  const bool by_scale = m.chance(60) || !m.is_static(x);
  const size_t first = m.chance(90) ? 2 : 1;  // else channels come last
  for (size_t d = 0; d < x->shape.size(); ++d) {
    const bool changes = (d >= first && d < x->shape.size() + first - 2) || m.chance(3);
    if (by_scale)
      a.scales.push_back(changes ? m.pick({2.0f, 2.0f, 3.0f, 0.5f, 1.5f, 1.0f}) : 1);
    else
      a.sizes.push_back(changes ? Dim(m.between(1, 12)) : x->shape[d]);
  }
  if (a.mode == ir::ResizeMode::kCubic && m.chance(30)) a.cubic_coefficient = -0.5f;
  a.exclude_outside = a.mode == ir::ResizeMode::kCubic && m.chance(20);
  if (m.chance(8)) choose_crop(m, a, x->shape.size());
  return m.add(LayerKind::kResize, a, {x});
}

bool depth_to_space(GraphMaker& m) {
  Tensor* x = any_of_rank(m, 4, 4);
  if (!x || !x->shape[1].is_known()) return false;
  const int64_t block = x->shape[1].extent() % 9 == 0 ? 3 : 2;
  return x->shape[1].extent() % (block * block) == 0 &&
         m.add(LayerKind::kDepthToSpace, ir::DepthSpaceAttrs{block, m.chance(50)}, {x});
}

bool space_to_depth(GraphMaker& m) {
  Tensor* x = any_of_rank(m, 4, 4);
  if (!x) return false;
  return m.add(LayerKind::kSpaceToDepth, ir::DepthSpaceAttrs{m.between(1, 3), false}, {x});
}

constexpr MakerRow kRows[] = {
    {"transpose", 20, transpose},
    {"reshape", 20, reshape},
    {"rearrange", 8, rearrange},
    {"slice", 16, slice},
    {"split", 8, split},
    {"concatenation", 16, concatenation},
    {"pad", 10, pad},
    {"expand", 6, expand},
    {"tile", 4, tile},
    {"resize", 8, resize},
    {"depth_to_space", 4, depth_to_space},
    {"space_to_depth", 4, space_to_depth},
};

}  // namespace

MakerTable movement_makers() {
  return kRows;
}

}  // namespace camshaft::fuzz
