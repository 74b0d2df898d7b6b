// SPDX-License-Identifier: Apache-2.0
// Shapes and known values of layers that move elements: shuffle, slice, pad, concatenation, expand,
// tile, fill, range …
#include <algorithm>
#include <cmath>

#include "ir/infer_internal.h"

namespace camshaft::ir {
namespace {

bool is_permutation(const Ints& order, size_t rank) {
  Ints sorted = order;
  std::sort(sorted.begin(), sorted.end());
  for (size_t d = 0; d < sorted.size(); ++d)
    if (sorted[d] != static_cast<int64_t>(d)) return false;
  return order.size() == rank;
}

Shape permute(const Shape& shape, const Ints& order) {
  Shape result;
  for (int64_t d : order) result.push_back(shape[d]);
  return result;
}

// The value of a transposed tensor, if its extents are numbers.
void transpose_value(std::optional<std::vector<Dim>>& value, const Shape& shape, const Ints& order,
                     const SymbolTable& symbols) {
  const std::optional<Extents> extents = known_extents(shape, symbols);
  if (!value || !extents || static_cast<int64_t>(value->size()) != element_count(*extents))
    return value.reset();
  const Ints strides = dense_strides(*extents);
  Ints new_extents, new_strides;
  for (int64_t d : order) {
    new_extents.push_back((*extents)[d]);
    new_strides.push_back(strides[d]);
  }
  value = gather_values(*value, new_extents, new_strides, 0);
}

}  // namespace

Result<Shape> resolve_reshape(const Shape& input, std::span<const Dim> requested, bool allow_zero,
                              SymbolTable& symbols) {
  if (requested.size() > kMaxRank)
    return make_error(ErrorCode::kUnsupported, "{} dimensions (at most {})", requested.size(),
                      kMaxRank);
  Shape shape;
  int inferred = -1;
  for (size_t d = 0; d < requested.size(); ++d) {
    Dim extent = requested[d];
    if (symbols.is_number(extent) && symbols.number(extent) < 0) {
      if (symbols.number(extent) != -1 || inferred >= 0)
        return invalid("the requested shape has more than one negative extent");
      inferred = static_cast<int>(d);
      extent = 1;
    } else if (extent == Dim(0) && !allow_zero) {
      if (d >= input.size())
        return invalid("extent {} is 0, but the input {} has no such dimension", d,
                       to_string(input, symbols));
      extent = input[d];
    }
    shape.push_back(extent);
  }
  const Dim total = elements(input, symbols), rest = elements(shape, symbols);
  if (inferred >= 0) {
    if (rest == Dim(0) && total != Dim(0))
      return invalid("the input {} does not fill the requested shape", to_string(input, symbols));
    const bool even =
        !symbols.is_number(total) || !symbols.is_number(rest) || symbols.mod(total, rest) == Dim(0);
    if (!even)
      return invalid("{} elements cannot be divided by {}", symbols.number(total),
                     symbols.number(rest));
    shape[inferred] = symbols.floor_div(total, rest);
  } else if (!compatible(total, rest, symbols)) {
    return invalid("{} has {} elements, {} has {}", to_string(input, symbols),
                   symbols.number(total), to_string(shape, symbols), symbols.number(rest));
  }
  return shape;
}

Status infer_shuffle(Inference& f) {
  CAMSHAFT_TRY(f.require(1));
  const auto& a = f.layer.as<ShuffleAttrs>();
  const DataType type = f.in(0).type;
  const bool at_run_time = f.has(1);
  for (const Ints* order : {&a.first_transpose, &a.second_transpose})
    if (!is_permutation(*order, order->size()))
      return invalid("the transposition is not a permutation");
  if (!f.ranked(0)) {
    if (a.has_reshape && !at_run_time && a.first_transpose.empty()) {
      Shape shape = a.reshape;
      return f.give(type, a.second_transpose.empty() ? shape : permute(shape, a.second_transpose));
    }
    if (at_run_time && f.ranked(1) && f.shape(1).size() == 1 && f.shape(1)[0].is_known() &&
        f.shape(1)[0].extent() <= static_cast<int64_t>(kMaxRank))
      return f.give(type, f.unknown_shape(f.shape(1)[0].extent()));
    return f.unranked(type);
  }
  Shape shape = f.shape(0);
  std::optional<std::vector<Dim>> value = f.in(0).value;
  if (!a.first_transpose.empty()) {
    if (!is_permutation(a.first_transpose, shape.size()))
      return invalid("the transposition does not fit {}", to_string(shape, f.symbols));
    transpose_value(value, shape, a.first_transpose, f.symbols);
    shape = permute(shape, a.first_transpose);
  }
  if (at_run_time && !f.in(1).value) {
    if (!f.ranked(1)) return f.unranked(type);
    if (f.rank(1) != 1) return invalid("the requested shape is not a vector");
    const Dim count = f.shape(1)[0];
    if (!count.is_known()) return f.unranked(type);
    if (count.extent() > static_cast<int64_t>(kMaxRank))
      return invalid("{} dimensions (at most {})", count.extent(), kMaxRank);
    shape = f.unknown_shape(static_cast<size_t>(count.extent()));
  } else if (at_run_time) {
    CAMSHAFT_ASSIGN(shape, resolve_reshape(shape, *f.in(1).value, a.allow_zero, f.symbols));
  } else if (a.has_reshape) {
    CAMSHAFT_ASSIGN(shape, resolve_reshape(shape, a.reshape, true, f.symbols));
  }
  if (!a.second_transpose.empty()) {
    if (!is_permutation(a.second_transpose, shape.size()))
      return invalid("the transposition does not fit {}", to_string(shape, f.symbols));
    transpose_value(value, shape, a.second_transpose, f.symbols);
    shape = permute(shape, a.second_transpose);
  }
  f.out().value = std::move(value);
  return f.give(type, shape);
}

std::optional<SliceRange> resolve_slice(Dim extent, Dim start, Dim end, int64_t step,
                                        SymbolTable& symbols) {
  constexpr int64_t kEverything = kMaxExtent;  // what exporters write for "to the end"
  const auto from_end = [&](Dim position) {
    const SymbolTable::Bounds bounds = symbols.bounds(position);
    if (bounds.high < 0 && bounds.low <= -kEverything) return symbols.constant(-kEverything);
    const Dim is_negative = symbols.min(symbols.max(symbols.sub(0, position), 0), 1);
    return symbols.add(position, symbols.mul(is_negative, extent));
  };
  const Dim first = from_end(start), last = from_end(end);
  if (step == 0) return std::nullopt;
  const auto clamp = [&](Dim position, Dim low, Dim high) {
    if (symbols.is_number(position) && symbols.number(position) >= kEverything) return high;
    if (symbols.is_number(position) && symbols.number(position) <= -kEverything) return low;
    return symbols.max(symbols.min(position, high), low);
  };
  SliceRange range;
  if (step > 0) {
    range.start = clamp(first, 0, extent);
    const Dim stop = clamp(last, 0, extent);
    range.size = symbols.max(symbols.ceil_div(symbols.sub(stop, range.start), step), 0);
  } else {
    const Dim behind = symbols.sub(extent, 1), before = symbols.constant(-1);
    range.start = clamp(first, before, behind);
    const Dim stop = clamp(last, before, behind);
    range.size =
        symbols.max(symbols.ceil_div(symbols.sub(range.start, stop), symbols.constant(-step)), 0);
  }
  return range;
}

namespace {

void slice_value(Inference& f, const Shape& start, const Shape& size, const Ints& step) {
  const std::optional<Extents> extents = known_extents(f.shape(0), f.symbols),
                               first = known_extents(start, f.symbols),
                               count = known_extents(size, f.symbols);
  if (!f.in(0).value || !extents || !first || !count) return;
  Ints strides = dense_strides(*extents);
  int64_t offset = 0;
  for (size_t d = 0; d < strides.size(); ++d) {
    const int64_t last = (*first)[d] + ((*count)[d] - 1) * step[d];
    if ((*count)[d] > 0 &&
        ((*first)[d] < 0 || (*first)[d] >= (*extents)[d] || last < 0 || last >= (*extents)[d]))
      return;
    offset += (*first)[d] * strides[d];
    strides[d] *= step[d];
  }
  f.out().value = gather_values(*f.in(0).value, *count, strides, offset);
}

Status infer_slice_at_run_time(Inference& f) {
  CAMSHAFT_TRY(f.require(3));
  const size_t rank = f.rank(0);
  const std::optional<Ints> axes = f.numbers(3), steps = f.numbers(4);
  const size_t count = f.in(1).value ? f.in(1).value->size() : 0;
  const bool static_axes = !f.has(3) || axes, static_steps = !f.has(4) || steps;
  if (!f.in(1).value || !f.in(2).value || !static_axes || !static_steps) {
    Shape shape = f.unknown_shape(rank);
    if (f.has(3) && axes) {  // the other dimensions stay
      shape = f.shape(0);
      for (int64_t axis : *axes) {
        if (wrap_axis(axis, rank) < 0)
          return invalid("axis {} of {}", axis, to_string(f.shape(0), f.symbols));
        shape[wrap_axis(axis, rank)] = f.unknown();
      }
    }
    return f.give(f.in(0).type, shape);
  }
  if (f.in(2).value->size() != count || (axes && axes->size() != count) ||
      (steps && steps->size() != count))
    return invalid("starts, ends, axes and steps differ in length");
  Shape start, size = f.shape(0);
  start.resize(rank, 0);
  Ints step(rank, 1);
  for (size_t k = 0; k < count; ++k) {
    const int64_t d = wrap_axis(axes ? (*axes)[k] : static_cast<int64_t>(k), rank);
    if (d < 0)
      return invalid("axis {} of {}", axes ? (*axes)[k] : static_cast<int64_t>(k),
                     to_string(f.shape(0), f.symbols));
    step[d] = steps ? (*steps)[k] : 1;
    if (step[d] == 0) return invalid("a step is 0");
    const std::optional<SliceRange> range =
        resolve_slice(f.shape(0)[d], (*f.in(1).value)[k], (*f.in(2).value)[k], step[d], f.symbols);
    start[d] = range ? range->start : f.unknown();
    size[d] = range ? range->size : f.unknown();
  }
  slice_value(f, start, size, step);
  return f.give(f.in(0).type, size);
}

}  // namespace

Status infer_slice(Inference& f) {
  CAMSHAFT_TRY(f.require(1));
  const auto& a = f.layer.as<SliceAttrs>();
  if (!f.ranked(0)) return f.unranked(f.in(0).type);
  const size_t rank = f.rank(0);
  if (f.has(1)) return infer_slice_at_run_time(f);
  if (a.start.size() != rank || a.size.size() != rank || a.step.size() != rank)
    return invalid("the slice has {} dimensions, the input {}", a.size.size(), rank);
  for (size_t d = 0; d < rank; ++d) {
    if (!f.is_number(a.start[d]) || !f.is_number(a.size[d]) || !f.is_number(f.shape(0)[d]) ||
        a.size[d] == Dim(0))
      continue;
    const int64_t first = f.symbols.number(a.start[d]), count = f.symbols.number(a.size[d]);
    const int64_t last = first + (count - 1) * a.step[d];
    if (count < 0 || first < 0 || first >= f.symbols.number(f.shape(0)[d]) || last < 0 ||
        last >= f.symbols.number(f.shape(0)[d]))
      return invalid("[{}:{}:{}] leaves dimension {} of {}", first, last, a.step[d], d,
                     to_string(f.shape(0), f.symbols));
  }
  slice_value(f, a.start, a.size, a.step);
  return f.give(f.in(0).type, a.size);
}

Status infer_pad(Inference& f) {
  CAMSHAFT_TRY(f.require(1));
  const auto& a = f.layer.as<PadAttrs>();
  if (!f.ranked(0)) return f.unranked(f.in(0).type);
  const size_t rank = f.rank(0);
  std::vector<Dim> pre(rank, 0), post(rank, 0);
  if (f.has(1)) {
    const std::optional<Ints> axes = f.numbers(3);
    if (!f.in(1).value || (f.has(3) && !axes)) return f.give(f.in(0).type, f.unknown_shape(rank));
    const auto& pads = *f.in(1).value;
    const size_t count = axes ? axes->size() : rank;
    if (pads.size() != 2 * count) return invalid("{} pads for {} dimensions", pads.size(), count);
    for (size_t k = 0; k < count; ++k) {
      const int64_t d = axes ? wrap_axis((*axes)[k], rank) : static_cast<int64_t>(k);
      if (d < 0) return invalid("axis {} of {}", (*axes)[k], to_string(f.shape(0), f.symbols));
      pre[d] = pads[k];
      post[d] = pads[k + count];
    }
  } else {
    if (a.pre.size() != rank || a.post.size() != rank)
      return invalid("{} pads for {} dimensions", a.pre.size() + a.post.size(), rank);
    for (size_t d = 0; d < rank; ++d) {
      pre[d] = f.symbols.constant(a.pre[d]);
      post[d] = f.symbols.constant(a.post[d]);
    }
  }
  Shape shape;
  for (size_t d = 0; d < rank; ++d)
    shape.push_back(f.symbols.add(f.shape(0)[d], f.symbols.add(pre[d], post[d])));
  return f.give(f.in(0).type, shape);
}

Status infer_concatenation(Inference& f) {
  CAMSHAFT_TRY(f.require(std::max<size_t>(f.inputs.size(), 1)));
  const int64_t axis = f.layer.as<AxisAttrs>().axis;
  const DataType type = f.in(0).type;
  Shape shape;
  bool ranked = true, valued = true;
  std::vector<Dim> value;
  Dim total = 0;
  for (size_t k = 0; k < f.inputs.size(); ++k) {
    if (f.in(k).type != type)
      return invalid("input {} has type {}, input 0 {}", k, type_name(f.in(k).type),
                     type_name(type));
    if (!f.ranked(k)) {
      ranked = false;
      continue;
    }
    const Shape& part = f.shape(k);
    if (axis < 0 || axis >= static_cast<int64_t>(part.size()))
      return invalid("axis {} of {}", axis, to_string(part, f.symbols));
    if (shape.empty()) shape = part;
    if (part.size() != shape.size())
      return invalid("input {} has {} dimensions, others {}", k, part.size(), shape.size());
    for (size_t d = 0; d < part.size(); ++d) {
      if (d == static_cast<size_t>(axis)) continue;
      if (!compatible(part[d], shape[d], f.symbols))
        return invalid("inputs {} and {} differ outside axis {}", to_string(shape, f.symbols),
                       to_string(part, f.symbols), axis);
      if (f.is_number(part[d])) shape[d] = part[d];
    }
    total = f.symbols.add(total, part[axis]);
    if (f.in(k).value && part.size() == 1)
      value.insert(value.end(), f.in(k).value->begin(), f.in(k).value->end());
    else
      valued = false;
  }
  if (!ranked && shape.empty()) return f.unranked(type);
  shape[axis] = ranked ? total : f.unknown();
  if (ranked && valued) f.out().value = std::move(value);
  return f.give(type, shape);
}

Status infer_expand(Inference& f) {
  CAMSHAFT_TRY(f.require(1));
  const auto& a = f.layer.as<ShapeAttrs>();
  const DataType type = f.in(0).type;
  Shape target = a.shape;
  if (!a.is_static) {
    CAMSHAFT_TRY(f.require(2));
    if (!f.in(1).value) {
      if (!f.ranked(0) || !f.ranked(1) || f.rank(1) != 1 || !f.shape(1)[0].is_known())
        return f.unranked(type);
      const size_t rank = std::max<size_t>(f.rank(0), f.shape(1)[0].extent());
      return rank > kMaxRank ? invalid("{} dimensions", rank) : f.give(type, f.unknown_shape(rank));
    }
    if (f.in(1).value->size() > kMaxRank) return invalid("{} dimensions", f.in(1).value->size());
    target = Shape(f.in(1).value->begin(), f.in(1).value->end());
  }
  if (!f.ranked(0)) return f.unranked(type);
  CAMSHAFT_ASSIGN(const Shape shape, broadcast_shapes(f.shape(0), target, f.symbols));
  const std::optional<int64_t> count = known_elements(shape, f.symbols);
  if (f.in(0).value && f.in(0).value->size() == 1 && count && *count <= kMaxValues)
    f.out().value = std::vector<Dim>(*count, (*f.in(0).value)[0]);
  else if (f.in(0).value && shape == f.shape(0))
    f.out().value = f.in(0).value;
  return f.give(type, shape);
}

Status infer_tile(Inference& f) {
  CAMSHAFT_TRY(f.require(1));
  const auto& a = f.layer.as<ShapeAttrs>();
  if (!f.ranked(0)) return f.unranked(f.in(0).type);
  std::vector<Dim> repeats(a.shape.begin(), a.shape.end());
  if (!a.is_static) {
    CAMSHAFT_TRY(f.require(2));
    if (!f.in(1).value) return f.give(f.in(0).type, f.unknown_shape(f.rank(0)));
    repeats = *f.in(1).value;
  }
  if (repeats.size() != f.rank(0))
    return invalid("{} repeats for {} dimensions", repeats.size(), f.rank(0));
  Shape shape;
  for (size_t d = 0; d < repeats.size(); ++d)
    shape.push_back(f.symbols.mul(f.shape(0)[d], repeats[d]));
  const std::optional<int64_t> count = known_elements(shape, f.symbols);
  if (f.in(0).value && count && *count <= kMaxValues && shape.size() == 1 &&
      !f.in(0).value->empty()) {
    std::vector<Dim> value;
    for (int64_t k = 0; k < *count; ++k)
      value.push_back((*f.in(0).value)[k % f.in(0).value->size()]);
    f.out().value = std::move(value);
  }
  return f.give(f.in(0).type, shape);
}

Status infer_fill(Inference& f) {
  const auto& a = f.layer.as<FillAttrs>();
  Shape shape = a.shape;
  if (!a.is_static) {
    CAMSHAFT_TRY(f.require(1));
    if (!f.in(0).value) {
      const bool countable = f.ranked(0) && f.rank(0) == 1 && f.shape(0)[0].is_known();
      if (!countable) return f.unranked(a.type);
      const size_t rank = static_cast<size_t>(f.shape(0)[0].extent());
      return rank > kMaxRank ? invalid("{} dimensions", rank)
                             : f.give(a.type, f.unknown_shape(rank));
    }
    if (f.in(0).value->size() > kMaxRank) return invalid("{} dimensions", f.in(0).value->size());
    shape = Shape(f.in(0).value->begin(), f.in(0).value->end());
  }
  const std::optional<int64_t> count = known_elements(shape, f.symbols);
  if (count && *count >= 0 && *count <= kMaxValues &&
      a.value == static_cast<double>(static_cast<int32_t>(a.value)))
    f.out().value = std::vector<Dim>(*count, f.symbols.constant(static_cast<int64_t>(a.value)));
  return f.give(a.type, shape);
}

Status infer_shape_of(Inference& f) {
  CAMSHAFT_TRY(f.require(1));
  const auto& a = f.layer.as<ShapeOfAttrs>();
  if (!f.ranked(0)) return f.give(DataType::kInt64, Shape{f.unknown()});
  const int64_t last = a.last == ShapeOfAttrs::kToTheEnd ? static_cast<int64_t>(f.rank(0)) : a.last;
  if (a.first < 0 || a.first > last || last > static_cast<int64_t>(f.rank(0)))
    return invalid("[{}, {}) of {}", a.first, last, to_string(f.shape(0), f.symbols));
  f.out().value = std::vector<Dim>(f.shape(0).begin() + a.first, f.shape(0).begin() + last);
  return f.give(DataType::kInt64, Shape{Dim(last - a.first)});
}

// The number of steps of a range of floats; empty where start, limit or delta is not known.
static std::optional<int64_t> float_range_count(const Inference& f) {
  double numbers[3];
  for (size_t k = 0; k < 3; ++k) {
    const InferInput& in = f.in(k);
    if (!in.float_value && !in.double_value) return std::nullopt;
    numbers[k] = in.float_value ? *in.float_value : *in.double_value;
  }
  const auto [start, limit, delta] = numbers;
  if (delta == 0) return std::nullopt;
  // The difference is one of the type's: from 0.1 to -7.9 as floats are exactly two steps of -4.
  const double distance =
      f.in(0).float_value ? static_cast<double>(static_cast<float>(limit - start)) : limit - start;
  const double count = std::ceil(distance / delta);
  return count < static_cast<double>(kMaxExtent)
             ? std::optional(static_cast<int64_t>(std::max(count, 0.0)))
             : std::nullopt;
}

Status infer_range(Inference& f) {
  CAMSHAFT_TRY(f.require(3));
  const DataType type = f.in(0).type;
  for (size_t k = 0; k < 3; ++k) {
    if (f.in(k).type != type) return invalid("start, limit and delta have different types");
    if (f.in(k).value && f.in(k).value->size() != 1)
      return invalid("start, limit and delta must be scalars");
  }
  if (const std::optional<int64_t> count = float_range_count(f))
    return f.give(type, Shape{Dim(*count)});
  const std::optional<int64_t> delta = f.number(2);
  if (!f.in(0).value || !f.in(1).value || !delta) return f.give(type, Shape{f.unknown()});
  if (*delta == 0) return invalid("delta is 0");
  const Dim start = (*f.in(0).value)[0], limit = (*f.in(1).value)[0];
  const Dim distance = *delta > 0 ? f.symbols.sub(limit, start) : f.symbols.sub(start, limit);
  const Dim count = f.symbols.max(f.symbols.ceil_div(distance, std::abs(*delta)), 0);
  if (count.is_known() && count.extent() <= kMaxValues) {
    std::vector<Dim> value;
    for (int64_t k = 0; k < count.extent(); ++k)
      value.push_back(f.symbols.add(start, f.symbols.constant(k * *delta)));
    f.out().value = std::move(value);
  }
  return f.give(type, Shape{count});
}

Status infer_depth_to_space(Inference& f) {
  CAMSHAFT_TRY(f.require(1));
  const int64_t block = f.layer.as<DepthSpaceAttrs>().block;
  if (!f.ranked(0)) return f.give(f.in(0).type, f.unknown_shape(4));
  const Shape& x = f.shape(0);
  if (x.size() != 4 || block < 1 || block > kMaxExtent)
    return invalid("input {}, block {}", to_string(x, f.symbols), block);
  if (f.is_number(x[1]) && f.symbols.number(x[1]) % (block * block) != 0)
    return invalid("{} channels cannot be divided by {}", f.symbols.number(x[1]), block * block);
  return f.give(f.in(0).type, Shape{x[0], f.symbols.floor_div(x[1], block * block),
                                    f.symbols.mul(x[2], block), f.symbols.mul(x[3], block)});
}

Status infer_space_to_depth(Inference& f) {
  CAMSHAFT_TRY(f.require(1));
  const int64_t block = f.layer.as<DepthSpaceAttrs>().block;
  if (!f.ranked(0)) return f.give(f.in(0).type, f.unknown_shape(4));
  const Shape& x = f.shape(0);
  if (x.size() != 4 || block < 1 || block > kMaxExtent)
    return invalid("input {}, block {}", to_string(x, f.symbols), block);
  for (size_t d = 2; d < 4; ++d)
    if (f.is_number(x[d]) && f.symbols.number(x[d]) % block != 0)
      return invalid("{} cannot be divided into blocks of {}", to_string(x, f.symbols), block);
  return f.give(f.in(0).type,
                Shape{x[0], f.symbols.mul(x[1], block * block), f.symbols.floor_div(x[2], block),
                      f.symbols.floor_div(x[3], block)});
}

}  // namespace camshaft::ir
