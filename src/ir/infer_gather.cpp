// SPDX-License-Identifier: Apache-2.0
// Shapes and known values of indexed layers, and of Resize.
#include <cmath>

#include "ir/infer_internal.h"

namespace camshaft::ir {
namespace {

bool is_index_type(DataType type) {
  return type == DataType::kInt64 || type == DataType::kInt32;
}

// Rows of a known value along axis 0.
void gather_known(Inference& f, int64_t axis) {
  const std::optional<Ints> indices = f.numbers(1);
  const std::optional<Extents> extents = known_extents(f.shape(0), f.symbols);
  if (!indices || !extents || !f.in(0).value || axis != 0 || extents->empty()) return;
  const int64_t rows = (*extents)[0];
  const int64_t row = rows == 0 ? 0 : static_cast<int64_t>(f.in(0).value->size()) / rows;
  std::vector<Dim> value;
  for (int64_t index : *indices) {
    if (index < -rows || index >= rows) return;
    const auto first = f.in(0).value->begin() + (index < 0 ? index + rows : index) * row;
    value.insert(value.end(), first, first + row);
  }
  f.out().value = std::move(value);
}

Status infer_gather_nd(Inference& f, int64_t batch_dims) {
  const Shape &data = f.shape(0), &indices = f.shape(1);
  if (data.empty() || indices.empty()) return invalid("a scalar cannot be indexed");
  const Dim depth = indices[indices.size() - 1];
  if (!depth.is_known()) return f.unranked(f.in(0).type);
  const size_t batch = static_cast<size_t>(batch_dims);
  if (batch_dims < 0 || batch >= std::min(data.size(), indices.size()) || depth.extent() < 1 ||
      depth.extent() > static_cast<int64_t>(data.size() - batch))
    return invalid("indices {} do not fit data {} with {} batch dimensions",
                   to_string(indices, f.symbols), to_string(data, f.symbols), batch_dims);
  const size_t kept = data.size() - batch - static_cast<size_t>(depth.extent());
  if (indices.size() - 1 + kept > kMaxRank)
    return make_error(ErrorCode::kUnsupported, "more than {} dimensions", kMaxRank);
  Shape shape(indices.begin(), indices.end() - 1);
  for (size_t d = data.size() - kept; d < data.size(); ++d) shape.push_back(data[d]);
  return f.give(f.in(0).type, shape);
}

}  // namespace

Status infer_gather(Inference& f) {
  CAMSHAFT_TRY(f.require(2));
  const auto& a = f.layer.as<GatherAttrs>();
  const DataType type = f.in(0).type;
  if (!is_index_type(f.in(1).type)) return invalid("indices have type {}", type_name(f.in(1).type));
  if (a.mode == GatherMode::kElements) {
    if (f.ranked(0) && f.ranked(1) && f.rank(0) != f.rank(1))
      return invalid("data and indices differ in rank");
    if (f.ranked(0) && wrap_axis(a.axis, f.rank(0)) != a.axis)
      return invalid("axis {} of {}", a.axis, to_string(f.shape(0), f.symbols));
    return f.ranked(1) ? f.give(type, f.shape(1)) : f.unranked(type);
  }
  if (!f.ranked(0) || !f.ranked(1)) return f.unranked(type);
  if (a.mode == GatherMode::kNd) return infer_gather_nd(f, a.batch_dims);
  const Shape &data = f.shape(0), &indices = f.shape(1);
  if (wrap_axis(a.axis, data.size()) != a.axis)
    return invalid("axis {} of {}", a.axis, to_string(data, f.symbols));
  if (data.size() + indices.size() - 1 > kMaxRank)
    return make_error(ErrorCode::kUnsupported, "more than {} dimensions", kMaxRank);
  Shape shape;
  for (int64_t d = 0; d < a.axis; ++d) shape.push_back(data[d]);
  for (Dim extent : indices) shape.push_back(extent);
  for (size_t d = a.axis + 1; d < data.size(); ++d) shape.push_back(data[d]);
  if (const std::optional<Ints> known = f.numbers(1); known && f.is_number(data[a.axis]))
    for (int64_t index : *known)
      if (wrap_axis(index, f.symbols.number(data[a.axis])) < 0)
        return invalid("index {} is outside axis {} of {}", index, a.axis,
                       to_string(data, f.symbols));
  gather_known(f, a.axis);
  return f.give(type, shape);
}

// Of mode kNd along an axis that is not the first: one index for each row, [n, 1]; updates have the
// data's shape but for n along the axis.
Status infer_scatter(Inference& f) {
  CAMSHAFT_TRY(f.require(3));
  const auto& a = f.layer.as<ScatterAttrs>();
  if (!is_index_type(f.in(1).type)) return invalid("indices have type {}", type_name(f.in(1).type));
  if (f.in(0).type != f.in(2).type) return invalid("data and updates have different types");
  if (!f.ranked(0)) return f.unranked(f.in(0).type);
  if (wrap_axis(a.axis, f.rank(0)) != a.axis && (a.mode == ScatterMode::kElements || a.axis != 0))
    return invalid("axis {} of {}", a.axis, to_string(f.shape(0), f.symbols));
  if (a.mode == ScatterMode::kNd && a.axis != 0 && f.ranked(1) &&
      (f.rank(1) != 2 || f.shape(1)[1] != Dim(1)))
    return invalid("indices {} of rows along axis {}", to_string(f.shape(1), f.symbols), a.axis);
  // Single elements of a vector replaced at known places: how some exporters edit shapes.
  const std::optional<Ints> indices = f.numbers(1);
  if (f.rank(0) == 1 && f.in(0).value && f.in(2).value && indices &&
      a.reduction == ScatterReduction::kNone && indices->size() == f.in(2).value->size()) {
    std::vector<Dim> value = *f.in(0).value;
    bool inside = true;
    for (size_t k = 0; k < indices->size(); ++k) {
      const int64_t position = wrap_axis((*indices)[k], value.size());
      inside = inside && position >= 0;
      if (position >= 0) value[position] = (*f.in(2).value)[k];
    }
    if (inside) f.out().value = std::move(value);
  }
  return f.give(f.in(0).type, f.shape(0));
}

Status infer_nonzero(Inference& f) {
  CAMSHAFT_TRY(f.require(1));
  if (!f.ranked(0)) return f.give(DataType::kInt64, f.unknown_shape(2));
  const std::optional<Ints> values = f.numbers(0);
  const std::optional<Extents> extents = known_extents(f.shape(0), f.symbols);
  if (!values || !extents)
    return f.give(DataType::kInt64, Shape{Dim(static_cast<int64_t>(f.rank(0))), f.unknown()});
  std::vector<Dim> positions;
  for (size_t d = 0; d < extents->size(); ++d) {
    const int64_t stride = dense_strides(*extents)[d];
    for (size_t k = 0; k < values->size(); ++k)
      if ((*values)[k] != 0) positions.push_back(static_cast<int64_t>(k) / stride % (*extents)[d]);
  }
  const int64_t rank = static_cast<int64_t>(f.rank(0));
  const int64_t count = rank == 0 ? 0 : static_cast<int64_t>(positions.size()) / rank;
  if (rank > 0) f.out().value = std::move(positions);
  return f.give(DataType::kInt64, Shape{Dim(rank), rank > 0 ? Dim(count) : f.unknown()});
}

namespace {

// floor(extent * scale), in the arithmetic of the ONNX definition (float).
Dim scaled_extent(Inference& f, Dim extent, float scale) {
  if (f.is_number(extent))
    return f.symbols.constant(
        static_cast<int64_t>(std::floor(static_cast<float>(f.symbols.number(extent)) * scale)));
  for (int64_t denominator = 1; denominator <= 64; denominator *= 2) {
    const float numerator = scale * static_cast<float>(denominator);
    if (numerator == std::floor(numerator))
      return f.symbols.floor_div(f.symbols.mul(extent, static_cast<int64_t>(numerator)),
                                 denominator);
  }
  return f.unknown();
}

}  // namespace

Status infer_resize(Inference& f) {
  CAMSHAFT_TRY(f.require(1));
  const auto& a = f.layer.as<ResizeAttrs>();
  const DataType type = f.in(0).type;
  if (!a.sizes.empty()) {
    if (f.ranked(0) && f.rank(0) != a.sizes.size())
      return invalid("{} sizes for {} dimensions", a.sizes.size(), f.rank(0));
    return f.give(type, a.sizes);
  }
  if (!f.ranked(0)) return f.unranked(type);
  const size_t rank = f.rank(0);
  if (f.has(3)) {
    if (!f.in(3).value) return f.give(type, f.unknown_shape(rank));
    if (f.in(3).value->size() != rank)
      return invalid("{} sizes for {} dimensions", f.in(3).value->size(), rank);
    return f.give(type, Shape(f.in(3).value->begin(), f.in(3).value->end()));
  }
  const float* scales =
      a.scales.empty() ? (f.has(2) ? f.in(2).float_value : nullptr) : a.scales.data();
  if (scales == nullptr) return f.give(type, f.unknown_shape(rank));
  const std::optional<int64_t> count = a.scales.empty() ? known_elements(f.shape(2), f.symbols)
                                                        : static_cast<int64_t>(a.scales.size());
  if (!count || *count != static_cast<int64_t>(rank))
    return invalid("{} scales for {} dimensions", count.value_or(-1), rank);
  Shape shape;
  for (size_t d = 0; d < rank; ++d) {
    if (!(scales[d] > 0) || scales[d] > 1e6f) return invalid("scale {}", scales[d]);
    shape.push_back(scaled_extent(f, f.shape(0)[d], scales[d]));
  }
  return f.give(type, shape);
}

}  // namespace camshaft::ir
