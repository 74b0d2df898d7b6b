// SPDX-License-Identifier: Apache-2.0
// Gather and Scatter in all their forms; every index is checked.
#include <algorithm>
#include <cstring>

#include "kernels/reference/access.h"
#include "kernels/reference/tables.h"

namespace camshaft::kernels::reference {
namespace {

// The bytes of a view in row-major order: its own memory where it lies so, else a copy.
class RowMajorBytes {
 public:
  explicit RowMajorBytes(const TensorView& view) : data_(view.as<std::byte>()) {
    const Ints strides = dense_strides(extents_of(view));
    for (int d = 0; d < view.rank; ++d)
      if (view.extents[d] > 1 && view.strides[d] != strides[d]) data_ = nullptr;
    if (data_) return;
    copy_.resize(view.elements() * ir::bits_of(view.type) / 8);
    copy_view(view, make_view(copy_.data(), view.type, Format::kLinear, extents_of(view)));
    data_ = copy_.data();
  }
  const std::byte* data() const { return data_; }

 private:
  const std::byte* data_;
  std::vector<std::byte> copy_;
};

Result<int64_t> checked_index(int64_t index, int64_t extent) {
  if (index < -extent || index >= extent)
    return make_error(ErrorCode::kInvalidArgument, "index {} is out of range for extent {}", index,
                      extent);
  return index < 0 ? index + extent : index;
}

// Copies slices of `slice` elements, number source[k] to position k.
void copy_slices(const TensorView& x, const TensorView& y, const Ints& source, int64_t slice) {
  const size_t bytes = ir::bits_of(x.type) / 8 * slice;
  const RowMajorBytes from(x);
  const auto copy_to = [&](std::byte* to) {
    for (size_t k = 0; bytes > 0 && k < source.size(); ++k)
      std::memcpy(to + k * bytes, from.data() + source[k] * bytes, bytes);
  };
  if (y.format == Format::kLinear && is_dense(y)) return copy_to(y.as<std::byte>());
  std::vector<std::byte> dense(source.size() * bytes);
  copy_to(dense.data());
  copy_view(make_view(dense.data(), y.type, Format::kLinear, extents_of(y)), y);
}

Status gather_default(const TensorView& x, const TensorView& indices, const TensorView& y,
                      int64_t axis) {
  const Extents extents = extents_of(x);
  const int64_t outer = count_of(std::span<const int64_t>(extents).first(axis)),
                count = extents[axis];
  const int64_t slice = count_of(std::span<const int64_t>(extents).subspan(axis + 1));
  Ints wanted = load_ints(indices);
  for (int64_t& index : wanted) {
    CAMSHAFT_ASSIGN(index, checked_index(index, count));
  }
  Ints source;
  source.reserve(outer * wanted.size());
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t index : wanted) source.push_back(o * count + index);
  copy_slices(x, y, source, slice);
  return ok_status();
}

// The element of `data` each element of `indices` means, for the element-wise forms.
Result<Ints> element_targets(std::span<const int64_t> data, const TensorView& indices,
                             int64_t axis) {
  if (indices.rank != static_cast<int>(data.size()))
    return make_error(ErrorCode::kInvalidArgument, "rank of indices ({}) and data ({}) differ",
                      indices.rank, data.size());
  const Ints wanted = load_ints(indices), strides = dense_strides(data);
  for (size_t d = 0; d < data.size(); ++d)
    if (static_cast<int64_t>(d) != axis && indices.extents[d] > data[d])
      return make_error(ErrorCode::kInvalidArgument, "indices of extent {} exceed the data's {}",
                        indices.extents[d], data[d]);
  Ints targets;
  targets.reserve(wanted.size());
  Status failed;
  for_each_index(extents_of(indices), [&](const Extents& index) {
    const Result<int64_t> coordinate = checked_index(wanted[targets.size()], data[axis]);
    if (!coordinate.ok()) failed = coordinate.status();
    targets.push_back(offset_of(index, strides) +
                      ((coordinate.ok() ? coordinate.value() : 0) - index[axis]) * strides[axis]);
  });
  if (!failed.ok()) return failed;
  return targets;
}

// The slices the index tuples of `indices` mean, and how many elements one has.
struct Slices {
  Ints first;  // in slices
  int64_t size;
};
Result<Slices> tuple_targets(std::span<const int64_t> data, const TensorView& indices,
                             int64_t batch_dims) {
  if (indices.rank < 1)
    return make_error(ErrorCode::kInvalidArgument, "index tuples need a dimension");
  const int64_t depth = indices.extents[indices.rank - 1];
  if (batch_dims < 0 || batch_dims >= indices.rank ||
      batch_dims + depth > static_cast<int64_t>(data.size()))
    return make_error(ErrorCode::kInvalidArgument, "index tuples of {} do not fit data of rank {}",
                      depth, data.size());
  const Ints wanted = load_ints(indices);
  const int64_t batches = count_of(data.first(batch_dims));
  const int64_t tuples = depth == 0 ? count_of(std::span(indices.extents, indices.rank - 1))
                                    : static_cast<int64_t>(wanted.size()) / depth;
  const int64_t per_batch = batches == 0 ? 0 : tuples / batches;
  Slices slices{{}, count_of(data.subspan(batch_dims + depth))};
  for (int64_t k = 0; k < tuples; ++k) {
    int64_t position = per_batch == 0 ? 0 : k / per_batch;
    for (int64_t d = 0; d < depth; ++d) {
      CAMSHAFT_ASSIGN(const int64_t coordinate,
                      checked_index(wanted[k * depth + d], data[batch_dims + d]));
      position = position * data[batch_dims + d] + coordinate;
    }
    slices.first.push_back(position);
  }
  return slices;
}

Status gather(const KernelArgs& args) {
  const auto& attrs = args.layer->as<ir::GatherAttrs>();
  const TensorView &x = args.inputs[0], &indices = args.inputs[1], &y = args.outputs[0];
  const Extents extents = extents_of(x);
  if (attrs.mode == ir::GatherMode::kNd) {
    CAMSHAFT_ASSIGN(const Slices slices, tuple_targets(extents, indices, attrs.batch_dims));
    copy_slices(x, y, slices.first, slices.size);
    return ok_status();
  }
  CAMSHAFT_ASSIGN(const int64_t axis, normalize_axis(attrs.axis, x.rank));
  if (attrs.mode == ir::GatherMode::kDefault) return gather_default(x, indices, y, axis);
  CAMSHAFT_ASSIGN(const Ints targets, element_targets(extents, indices, axis));
  copy_slices(x, y, targets, 1);
  return ok_status();
}

template <class T>
T combine(ir::ScatterReduction reduction, T old, T update) {
  using Wrapping = std::conditional_t<std::is_integral_v<T>, uint64_t, T>;
  const auto a = static_cast<Wrapping>(old), b = static_cast<Wrapping>(update);
  switch (reduction) {
    case ir::ScatterReduction::kNone:
      return update;
    case ir::ScatterReduction::kAdd:
      return static_cast<T>(a + b);
    case ir::ScatterReduction::kMul:
      return static_cast<T>(a * b);
    case ir::ScatterReduction::kMin:
      return std::min(old, update);
    case ir::ScatterReduction::kMax:
      return std::max(old, update);
  }
  return update;
}

template <class T>
void scatter_as(const KernelArgs& args, const Ints& first, int64_t size,
                ir::ScatterReduction reduction) {
  std::vector<T> values = load<T>(args.inputs[0]);
  const std::vector<T> updates = load<T>(args.inputs[2]);
  for (size_t k = 0; k < first.size(); ++k)
    for (int64_t e = 0; e < size; ++e) {
      T& value = values[first[k] * size + e];
      value = combine(reduction, value, updates[k * size + e]);
    }
  store(args.outputs[0], values);
}

Status scatter_slices(const KernelArgs& args, const Slices& slices) {
  const TensorView &x = args.inputs[0], &updates = args.inputs[2];
  const ir::ScatterReduction reduction = args.layer->as<ir::ScatterAttrs>().reduction;
  if (updates.elements() != static_cast<int64_t>(slices.first.size()) * slices.size)
    return make_error(ErrorCode::kInvalidArgument, "{} updates for {} indices", updates.elements(),
                      slices.first.size());
  if (ir::is_floating(x.type))
    scatter_as<double>(args, slices.first, slices.size, reduction);
  else
    scatter_as<int64_t>(args, slices.first, slices.size, reduction);
  return ok_status();
}

// Rows along a dimension that is not the first: the same ones for each of those before it.
Status scatter_along(const KernelArgs& args, int64_t axis) {
  const TensorView& x = args.inputs[0];
  int64_t outer = 1, inner = 1;
  for (int d = 0; d < x.rank; ++d) (d < axis ? outer : inner) *= d == axis ? 1 : x.extents[d];
  CAMSHAFT_ASSIGN(const Slices rows,
                  tuple_targets(ir::Extents{x.extents[axis], inner}, args.inputs[1], 0));
  Slices slices{{}, rows.size};
  for (int64_t line = 0; line < outer; ++line)
    for (const int64_t row : rows.first) slices.first.push_back(line * x.extents[axis] + row);
  return scatter_slices(args, slices);
}

Status scatter(const KernelArgs& args) {
  const auto& attrs = args.layer->as<ir::ScatterAttrs>();
  const TensorView &x = args.inputs[0], &indices = args.inputs[1];
  if (attrs.mode == ir::ScatterMode::kNd && attrs.axis != 0) return scatter_along(args, attrs.axis);
  Slices slices{{}, 1};
  if (attrs.mode == ir::ScatterMode::kElements) {
    CAMSHAFT_ASSIGN(const int64_t axis, normalize_axis(attrs.axis, x.rank));
    CAMSHAFT_ASSIGN(slices.first, element_targets(extents_of(x), indices, axis));
  } else {
    CAMSHAFT_ASSIGN(slices, tuple_targets(extents_of(x), indices, 0));
  }
  return scatter_slices(args, slices);
}

}  // namespace

std::span<const KindRow> gather_kinds() {
  static constexpr KindRow kRows[] = {
      {ir::LayerKind::kGather, {unpacked<gather>, nullptr}},
      {ir::LayerKind::kScatter, {scatter, nullptr}},
  };
  return kRows;
}

}  // namespace camshaft::kernels::reference
