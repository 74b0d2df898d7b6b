// SPDX-License-Identifier: Apache-2.0
// Layers that only move elements: every one is a copy between two strided views, or a table of
// source positions per dimension.
#include <algorithm>
#include <cstring>

#include "kernels/reference/access.h"
#include "kernels/reference/slice_range.h"
#include "kernels/reference/tables.h"

namespace camshaft::kernels::reference {
namespace {

size_t element_bytes(const TensorView& view) {
  return ir::bits_of(view.type) / 8;
}

TensorView permuted(const TensorView& view, const Ints& permutation) {
  if (permutation.empty()) return view;
  TensorView result = view;
  for (size_t d = 0; d < permutation.size(); ++d) {
    result.extents[d] = view.extents[permutation[d]];
    result.strides[d] = view.strides[permutation[d]];
  }
  return result;
}

Status shuffle(const KernelArgs& args) {
  const auto& attrs = args.layer->as<ir::ShuffleAttrs>();
  const TensorView &x = args.inputs[0], &y = args.outputs[0];
  if (x.elements() != y.elements())
    return make_error(ErrorCode::kInvalidArgument, "{} elements cannot become {}", x.elements(),
                      y.elements());
  const TensorView source = permuted(x, attrs.first_transpose);
  std::vector<std::byte> dense(x.elements() * element_bytes(x));
  copy_view(source, make_view(dense.data(), x.type, Format::kLinear, extents_of(source)));
  // The extents between reshape and second transpose follow from those of the output.
  Extents reshaped = extents_of(y);
  for (size_t d = 0; d < attrs.second_transpose.size(); ++d)
    reshaped[attrs.second_transpose[d]] = y.extents[d];
  copy_view(
      permuted(make_view(dense.data(), x.type, Format::kLinear, reshaped), attrs.second_transpose),
      y);
  return ok_status();
}

Status check_known(std::span<const ir::Dim> dims) {
  for (const ir::Dim dim : dims)
    if (!dim.is_known())
      return make_error(ErrorCode::kInternal, "an attribute still holds a symbol");
  return ok_status();
}

}  // namespace

Result<SliceRange> slice_range(const KernelArgs& args) {
  const auto& attrs = args.layer->as<ir::SliceAttrs>();
  const TensorView& x = args.inputs[0];
  SliceRange range{Ints(x.rank, 0), Ints(x.rank, 1), {}};
  if (args.inputs.size() < 2) {
    CAMSHAFT_TRY(check_known(attrs.start));
    for (int d = 0; d < x.rank; ++d) range.start[d] = attrs.start[d].extent();
    if (!attrs.step.empty()) range.step = attrs.step;
    return range;
  }
  const Ints starts = load_ints(args.inputs[1]), ends = load_ints(input(args, 2)),
             axes = load_ints(input(args, 3)), steps = load_ints(input(args, 4));
  if (ends.size() != starts.size() || (!axes.empty() && axes.size() != starts.size()) ||
      (!steps.empty() && steps.size() != starts.size()) ||
      (axes.empty() && starts.size() > static_cast<size_t>(x.rank)))
    return make_error(ErrorCode::kInvalidArgument, "starts, ends, axes and steps differ in length");
  range.size.assign(x.extents, x.extents + x.rank);
  for (size_t k = 0; k < starts.size(); ++k) {
    CAMSHAFT_ASSIGN(const int64_t d,
                    normalize_axis(axes.empty() ? static_cast<int64_t>(k) : axes[k], x.rank));
    const int64_t step = steps.empty() ? 1 : steps[k], extent = x.extents[d];
    if (step == 0) return make_error(ErrorCode::kInvalidArgument, "a slice with step 0");
    const auto from_end = [extent](int64_t k) { return k < 0 ? k + extent : k; };
    // Backwards the first may be before all: nothing is taken then.
    const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? extent : extent - 1;
    const int64_t start = std::clamp(from_end(starts[k]), low, high),
                  stop = std::clamp(from_end(ends[k]), low, high);
    range.start[d] = std::max<int64_t>(start, 0);
    range.step[d] = step;
    const int64_t stride = step > 0 ? step : -step, length = step > 0 ? stop - start : start - stop;
    range.size[d] = length <= 0 ? 0 : (length - 1) / stride + 1;
  }
  return range;
}

namespace {

Status slice(const KernelArgs& args) {
  const TensorView &x = args.inputs[0], &y = args.outputs[0];
  CAMSHAFT_ASSIGN(const SliceRange range, slice_range(args));
  if (y.rank != x.rank) return make_error(ErrorCode::kInternal, "a slice cannot change the rank");
  if (y.elements() == 0) return ok_status();
  TensorView source = x;
  int64_t offset = 0;
  for (int d = 0; d < x.rank; ++d) {
    const int64_t last = range.start[d] + (y.extents[d] - 1) * range.step[d];
    if (range.start[d] < 0 || range.start[d] >= x.extents[d] || last < 0 || last >= x.extents[d])
      return make_error(ErrorCode::kInvalidArgument,
                        "slice [{}, {}] of dimension {} leaves its extent {}", range.start[d], last,
                        d, x.extents[d]);
    offset += range.start[d] * x.strides[d];
    source.strides[d] *= range.step[d];
    source.extents[d] = y.extents[d];
  }
  source.data = x.as<std::byte>() + offset * static_cast<int64_t>(element_bytes(x));
  copy_view(source, y);
  return ok_status();
}

// y[i0, i1, …] = x[table0[i0], table1[i1], …], or `fill` where a table says -1.
void gather_by_tables(const TensorView& x, const TensorView& y, const std::vector<Ints>& tables,
                      const std::byte* fill) {
  const size_t bytes = element_bytes(x);
  for_each_index(extents_of(y), [&](const Extents& index) {
    int64_t from = 0, to = 0;
    bool outside = false;
    for (size_t d = 0; d < index.size(); ++d) {
      const int64_t coordinate = tables[d][index[d]];
      outside = outside || coordinate < 0;
      from += coordinate * x.strides[d];
      to += index[d] * y.strides[d];
    }
    std::memcpy(y.as<std::byte>() + to * bytes, outside ? fill : x.as<std::byte>() + from * bytes,
                bytes);
  });
}

// The position a padded coordinate reads, in a map of `count` elements; -1: the constant.
int64_t padded_source(ir::PadMode mode, int64_t position, int64_t count) {
  if (position >= 0 && position < count) return position;
  switch (mode) {
    case ir::PadMode::kConstant:
      return -1;
    case ir::PadMode::kEdge:
      return std::clamp<int64_t>(position, 0, count - 1);
    case ir::PadMode::kWrap:
      return ((position % count) + count) % count;
    case ir::PadMode::kReflect: {
      if (count == 1) return 0;
      const int64_t period = 2 * (count - 1);
      const int64_t folded = ((position % period) + period) % period;
      return folded < count ? folded : period - folded;
    }
  }
  return -1;
}

Status pad(const KernelArgs& args) {
  const auto& attrs = args.layer->as<ir::PadAttrs>();
  const TensorView &x = args.inputs[0], &y = args.outputs[0];
  Ints pre(x.rank, 0), post(x.rank, 0);
  double value = attrs.value;
  if (args.inputs.size() > 1) {
    const Ints pads = load_ints(args.inputs[1]), axes = load_ints(input(args, 3));
    const std::vector<double> given = load<double>(input(args, 2));
    if (!given.empty()) value = given[0];
    const size_t count = pads.size() / 2;
    if (pads.size() % 2 ||
        (axes.empty() ? count != static_cast<size_t>(x.rank) : count != axes.size()))
      return make_error(ErrorCode::kInvalidArgument, "{} pad amounts for rank {}", pads.size(),
                        x.rank);
    for (size_t k = 0; k < count; ++k) {
      CAMSHAFT_ASSIGN(const int64_t d,
                      normalize_axis(axes.empty() ? static_cast<int64_t>(k) : axes[k], x.rank));
      pre[d] = pads[k];
      post[d] = pads[k + count];
    }
  } else if (!attrs.pre.empty()) {
    pre = attrs.pre;
    post = attrs.post;
  }
  std::vector<Ints> tables(x.rank);
  for (int d = 0; d < x.rank; ++d) {  // crop first, then pad what is left
    const int64_t first = std::max<int64_t>(-pre[d], 0),
                  count = x.extents[d] - first - std::max<int64_t>(-post[d], 0);
    if (y.extents[d] != x.extents[d] + pre[d] + post[d])
      return make_error(ErrorCode::kInvalidArgument,
                        "padding {} and {} of extent {} does not give {}", pre[d], post[d],
                        x.extents[d], y.extents[d]);
    if (count <= 0 && y.extents[d] > 0 && attrs.mode != ir::PadMode::kConstant)
      return make_error(ErrorCode::kInvalidArgument,
                        "an empty dimension can only be padded with a constant");
    for (int64_t k = 0; k < y.extents[d]; ++k) {
      const int64_t source =
          padded_source(attrs.mode, k - std::max<int64_t>(pre[d], 0), std::max<int64_t>(count, 0));
      tables[d].push_back(source < 0 ? -1 : source + first);
    }
  }
  alignas(8) std::byte fill[8] = {};
  store<double>(make_view(fill, x.type, Format::kLinear, {}), std::vector<double>{value});
  gather_by_tables(x, y, tables, fill);
  return ok_status();
}

Status concatenation(const KernelArgs& args) {
  const int64_t axis = args.layer->as<ir::AxisAttrs>().axis;
  const TensorView& y = args.outputs[0];
  int64_t first = 0;
  for (const TensorView& x : args.inputs) {
    if (x.rank != y.rank)
      return make_error(ErrorCode::kInvalidArgument, "ranks {} and {} cannot be concatenated",
                        x.rank, y.rank);
    TensorView part = y;
    part.data =
        y.as<std::byte>() + first * y.strides[axis] * static_cast<int64_t>(element_bytes(y));
    for (int d = 0; d < y.rank; ++d) {
      if (d != axis && x.extents[d] != y.extents[d])
        return make_error(ErrorCode::kInvalidArgument,
                          "extents {} and {} cannot be concatenated along {}", x.extents[d],
                          y.extents[d], axis);
      part.extents[d] = x.extents[d];
    }
    first += x.extents[axis];
    if (first > y.extents[axis])
      return make_error(ErrorCode::kInternal, "concatenated inputs exceed the output");
    copy_view(x, part);
  }
  return ok_status();
}

Status expand(const KernelArgs& args) {
  const TensorView &x = args.inputs[0], &y = args.outputs[0];
  for (int d = 0; d < x.rank; ++d)
    if (y.rank < x.rank || (x.extents[d] != 1 && x.extents[d] != y.extents[d + y.rank - x.rank]))
      return make_error(ErrorCode::kInvalidArgument, "extent {} does not expand", x.extents[d]);
  copy_view(broadcast_to(x, extents_of(y)), y);
  return ok_status();
}

Status tile(const KernelArgs& args) {
  const TensorView &x = args.inputs[0], &y = args.outputs[0];
  if (x.rank != y.rank) return make_error(ErrorCode::kInternal, "a tile cannot change the rank");
  std::vector<Ints> tables(x.rank);
  for (int d = 0; d < x.rank; ++d)
    for (int64_t k = 0; k < y.extents[d]; ++k) tables[d].push_back(k % x.extents[d]);
  gather_by_tables(x, y, tables, nullptr);
  return ok_status();
}

Status fill(const KernelArgs& args) {
  const TensorView& y = args.outputs[0];
  store(y, std::vector<double>(y.elements(), args.layer->as<ir::FillAttrs>().value));
  return ok_status();
}

Status shape_of(const KernelArgs& args) {
  const auto& attrs = args.layer->as<ir::ShapeOfAttrs>();
  const TensorView& x = args.inputs[0];
  Ints extents;
  for (int64_t d = attrs.first; d < attrs.last && d < x.rank; ++d) extents.push_back(x.extents[d]);
  if (static_cast<int64_t>(extents.size()) != args.outputs[0].elements())
    return make_error(ErrorCode::kInternal, "extents [{}, {}) of a tensor of rank {}", attrs.first,
                      attrs.last, x.rank);
  store(args.outputs[0], extents);
  return ok_status();
}

// The view [N, C, H, W] with H and W split into (blocks, block): [N, C, H/b, b, W/b, b].
TensorView split_space(const TensorView& view, int64_t block) {
  TensorView six = view;
  six.rank = 6;
  const int64_t h = view.extents[2], w = view.extents[3], hs = view.strides[2],
                ws = view.strides[3];
  const int64_t extents[] = {view.extents[0], view.extents[1], h / block, block, w / block, block};
  const int64_t strides[] = {view.strides[0], view.strides[1], hs * block, hs, ws * block, ws};
  std::copy_n(extents, 6, six.extents);
  std::copy_n(strides, 6, six.strides);
  return six;
}

// The view [N, C, H, W] with C split, its parts in the order of split_space: [N, C', H, b, W, b].
TensorView split_depth(const TensorView& view, int64_t block, bool column_row_depth) {
  TensorView six = view;
  six.rank = 6;
  const int64_t depth = view.extents[1] / (block * block), cs = view.strides[1];
  const int64_t depth_stride = column_row_depth ? cs * block * block : cs;
  const int64_t column = column_row_depth ? cs : cs * depth, row = column * block;
  const int64_t extents[] = {view.extents[0], depth,           view.extents[2],
                             block,           view.extents[3], block};
  const int64_t strides[] = {view.strides[0], depth_stride, view.strides[2], row,
                             view.strides[3], column};
  std::copy_n(extents, 6, six.extents);
  std::copy_n(strides, 6, six.strides);
  return six;
}

Status depth_to_space(const KernelArgs& args) {
  const auto& attrs = args.layer->as<ir::DepthSpaceAttrs>();
  const TensorView& x = args.inputs[0];
  if (x.rank != 4 || attrs.block < 1 || x.extents[1] % (attrs.block * attrs.block))
    return make_error(ErrorCode::kInvalidArgument, "channels do not divide into blocks of {}",
                      attrs.block);
  copy_view(split_depth(x, attrs.block, attrs.column_row_depth),
            split_space(args.outputs[0], attrs.block));
  return ok_status();
}

Status space_to_depth(const KernelArgs& args) {
  const auto& attrs = args.layer->as<ir::DepthSpaceAttrs>();
  const TensorView& x = args.inputs[0];
  if (x.rank != 4 || attrs.block < 1 || x.extents[2] % attrs.block || x.extents[3] % attrs.block)
    return make_error(ErrorCode::kInvalidArgument, "the map does not divide into blocks of {}",
                      attrs.block);
  copy_view(split_space(x, attrs.block),
            split_depth(args.outputs[0], attrs.block, attrs.column_row_depth));
  return ok_status();
}

Status reformat(const KernelArgs& args) {
  const TensorView &x = args.inputs[0], &y = args.outputs[0];
  if (x.type == y.type)
    copy_view(x, y);
  else
    store(y, load<double>(x));
  return ok_status();
}

}  // namespace

std::span<const KindRow> movement_kinds() {
  static constexpr KindRow kRows[] = {
      {ir::LayerKind::kShuffle, {unpacked<shuffle>, nullptr}},
      {ir::LayerKind::kSlice, {unpacked<slice>, nullptr}},
      {ir::LayerKind::kPad, {unpacked<pad>, nullptr}},
      {ir::LayerKind::kConcatenation, {unpacked<concatenation>, nullptr}},
      {ir::LayerKind::kExpand, {unpacked<expand>, nullptr}},
      {ir::LayerKind::kTile, {unpacked<tile>, nullptr}},
      {ir::LayerKind::kFill, {fill, nullptr}},
      {ir::LayerKind::kShapeOf, {shape_of, nullptr}},
      {ir::LayerKind::kDepthToSpace, {unpacked<depth_to_space>, nullptr}},
      {ir::LayerKind::kSpaceToDepth, {unpacked<space_to_depth>, nullptr}},
      {ir::LayerKind::kReformat, {unpacked<reformat>, nullptr}},
  };
  return kRows;
}

}  // namespace camshaft::kernels::reference
