// SPDX-License-Identifier: Apache-2.0
// ScatterElements and ScatterND: the data is copied, then updates go to their places in the order
// of the indices. Threads share what cannot meet (lines of ScatterElements, parts of slices or of
// the output), so that results are the same for any number of them.
#include "kernels/vector/copy.h"
#include "kernels/vector/copy_bytes.h"
#include "kernels/vector/indices.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

using ir::ScatterReduction;

const ir::ScatterAttrs& attrs_of(const ir::Layer& layer) {
  return *std::get_if<ir::ScatterAttrs>(&layer.attrs);
}

bool may_combine(DataType type) {
  return type == DataType::kFloat || type == DataType::kDouble || type == DataType::kInt64 ||
         type == DataType::kInt32;
}

std::string refuse_common(const Problem& p) {
  if (const char* reason = refuse_indexed(p.inputs[0], p.inputs[1])) return reason;
  if (attrs_of(*p.layer).reduction != ScatterReduction::kNone && !may_combine(p.inputs[0].type))
    return "a reduction of elements that are neither float, double, int64 nor int32";
  return "";
}

template <ScatterReduction reduction, class T>
CAMSHAFT_INLINE void combine(T& value, T update) {
  if constexpr (reduction == ScatterReduction::kNone)
    value = update;
  else if constexpr (reduction == ScatterReduction::kAdd)
    value += update;
  else if constexpr (reduction == ScatterReduction::kMul)
    value *= update;
  else if constexpr (reduction == ScatterReduction::kMin)
    value = update < value ? update : value;
  else
    value = value < update ? update : value;
}

// Calls body(std::integral_constant-like reduction, element): integers wrap around as unsigned
// ones, which only min and max tell from signed ones.
template <ScatterReduction reduction>
struct Reduction {
  static constexpr ScatterReduction kValue = reduction;
};

// What body returns: a function for these types. The loops around it are compiled once, not per
// type.
template <class Body>
auto with_type(ScatterReduction reduction, DataType type, const Body& body) {
  const auto by_type = [&](auto how) {
    constexpr ScatterReduction kHow = decltype(how)::kValue;
    constexpr bool kWraps = kHow == ScatterReduction::kAdd || kHow == ScatterReduction::kMul;
    switch (type) {
      case DataType::kFloat:
        return body(how, float());
      case DataType::kDouble:
        return body(how, double());
      case DataType::kInt64:
        if constexpr (kWraps) return body(how, uint64_t());
        return body(how, int64_t());
      default:
        if constexpr (kWraps) return body(how, uint32_t());
        return body(how, int32_t());
    }
  };
  switch (reduction) {
    case ScatterReduction::kNone:
      return with_element(bytes_of(type), [&](auto element) {
        return body(Reduction<ScatterReduction::kNone>(), element);
      });
    case ScatterReduction::kAdd:
      return by_type(Reduction<ScatterReduction::kAdd>());
    case ScatterReduction::kMul:
      return by_type(Reduction<ScatterReduction::kMul>());
    case ScatterReduction::kMin:
      return by_type(Reduction<ScatterReduction::kMin>());
    default:
      return by_type(Reduction<ScatterReduction::kMax>());
  }
}

// The output may lie where the data did.
void copy_data(const KernelArgs& args) {
  if (args.inputs[0].data != args.outputs[0].data)
    copy_view(args.inputs[0], args.outputs[0], args.pool);
}

double scatter_us(const Problem& p) {
  return traffic_us(p) + 0.002 * static_cast<double>(count_of(p.inputs[2]));
}

// --- elements

std::string refuse_elements(const Problem& p) {
  if (attrs_of(*p.layer).mode != ir::ScatterMode::kElements) return "whole slices per index";
  const ir::Extents &x = p.inputs[0].extents, &indices = p.inputs[1].extents;
  if (indices != p.inputs[2].extents || indices.size() != x.size())
    return "updates do not have the shape of the indices";
  for (size_t d = 0; d < x.size(); ++d)
    if (static_cast<int64_t>(d) != attrs_of(*p.layer).axis && indices[d] > x[d])
      return "more indices than the data has elements";
  return refuse_common(p);
}

TensorView without_axis(const TensorView& view, int axis) {
  TensorView rest = view;
  rest.rank = view.rank - 1;
  for (int d = axis; d < rest.rank; ++d)
    rest.extents[d] = view.extents[d + 1], rest.strides[d] = view.strides[d + 1];
  return rest;
}

// Lines along the axis: their elements follow each other, the lines are independent.
struct Line {
  int64_t count, extent;
  int64_t y, indices, updates;  // steps along it
};

// Where a tile of lines begins in each of the tensors.
struct ElementsAt {
  void* y;
  const void *updates, *indices;
};
using ScatterTile = void (*)(const Nest&, const Line&, const ElementsAt&, int64_t rows,
                             int64_t cols);

template <class Index>
bool all_inside(const Nest& nest, const Line& line, const void* first, int64_t rows, int64_t cols) {
  const auto* indices = static_cast<const Index*>(first);
  bool bad = false;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t k = 0; k < line.count; ++k)
      for (int64_t col = 0; col < cols; ++col)
        resolved(
            static_cast<int64_t>(
                indices[row * nest.row_stride(0) + k * line.indices + col * nest.col_stride(0)]),
            line.extent, bad);
  return !bad;
}

template <ScatterReduction reduction, class T, class Index>
void scatter_tile(const Nest& nest, const Line& line, const ElementsAt& at_tile, int64_t rows,
                  int64_t cols) {
  auto* y = static_cast<T*>(at_tile.y);
  const auto* updates = static_cast<const T*>(at_tile.updates);
  const auto* indices = static_cast<const Index*>(at_tile.indices);
  const auto put = [&](int64_t row, int64_t k, int64_t col) {
    bool bad = false;
    const int64_t at = resolved(
        static_cast<int64_t>(
            indices[row * nest.row_stride(0) + k * line.indices + col * nest.col_stride(0)]),
        line.extent, bad);
    combine<reduction>(
        y[row * nest.row_stride(2) + col * nest.col_stride(2) + at * line.y],
        updates[row * nest.row_stride(1) + k * line.updates + col * nest.col_stride(1)]);
  };
  const bool along_line = line.indices <= nest.col_stride(0);
  for (int64_t row = 0; row < rows; ++row) {
    if (along_line) {
      for (int64_t col = 0; col < cols; ++col)
        for (int64_t k = 0; k < line.count; ++k) put(row, k, col);
    } else {
      for (int64_t k = 0; k < line.count; ++k)
        for (int64_t col = 0; col < cols; ++col) put(row, k, col);
    }
  }
}

Status run_elements(const KernelArgs& args) {
  const auto& attrs = attrs_of(*args.layer);
  const TensorView &indices = args.inputs[1], &updates = args.inputs[2], &y = args.outputs[0];
  const int axis = static_cast<int>(attrs.axis);
  const Line line{indices.extents[axis], y.extents[axis], y.strides[axis], indices.strides[axis],
                  updates.strides[axis]};
  const TensorView lines = without_axis(indices, axis);
  TensorView targets = without_axis(y, axis);
  for (int d = 0; d < lines.rank; ++d) targets.extents[d] = lines.extents[d];
  Nest nest = make_nest(lines);
  add_tensor(nest, without_axis(updates, axis));
  add_tensor(nest, targets);
  collapse(nest);
  const double us = static_cast<double>(count_of(indices)) * 0.001;
  const bool is_long = indices.type == DataType::kInt64;
  const auto inside = is_long ? all_inside<int64_t> : all_inside<int32_t>;
  const ScatterTile tile =
      with_type(attrs.reduction, y.type, [&](auto how, auto type) -> ScatterTile {
        constexpr ScatterReduction kHow = decltype(how)::kValue;
        using T = decltype(type);
        return is_long ? scatter_tile<kHow, T, int64_t> : scatter_tile<kHow, T, int32_t>;
      });
  BadIndex bad;
  const auto indices_at = [&](int64_t offset) {
    return static_cast<const char*>(indices.data) + offset * bytes_of(indices.type);
  };
  for_tiles(nest, args.pool, us, [&](const int64_t* offsets, int64_t rows, int64_t cols) {
    bad.note(!inside(nest, line, indices_at(offsets[0]), rows, cols));
  });
  if (bad.set) return index_error(indices, {&line.extent, 1});
  copy_data(args);
  const int64_t bytes = bytes_of(y.type);
  for_tiles(nest, args.pool, us, [&](const int64_t* offsets, int64_t rows, int64_t cols) {
    tile(nest, line,
         {static_cast<char*>(y.data) + offsets[2] * bytes,
          static_cast<const char*>(updates.data) + offsets[1] * bytes, indices_at(offsets[0])},
         rows, cols);
  });
  return Status();
}

void run_elements_unchecked(const KernelArgs& args) {
  static_cast<void>(run_elements(args));
}

// --- slices

std::string refuse_slices(const Problem& p) {
  if (attrs_of(*p.layer).mode != ir::ScatterMode::kNd) return "one element per index";
  const ir::Extents &x = p.inputs[0].extents, &indices = p.inputs[1].extents,
                    &updates = p.inputs[2].extents;
  if (indices.empty() || indices.back() < 1 || indices.back() > static_cast<int64_t>(x.size()))
    return "index tuples do not fit";
  const size_t tuple_dims = indices.size() - 1, depth = static_cast<size_t>(indices.back());
  if (updates.size() != tuple_dims + x.size() - depth) return "updates do not fit the indices";
  for (size_t d = 0; d < updates.size(); ++d)
    if (updates[d] != (d < tuple_dims ? indices[d] : x[d - tuple_dims + depth]))
      return "updates do not fit the indices";
  return refuse_common(p);
}

int64_t tuples_of(const TensorView& indices) {
  const int64_t depth = indices.extents[indices.rank - 1];
  return depth == 0 ? 0 : count_of(indices) / depth;
}

// Where each tuple's slice starts in the output, and where in the updates.
size_t slices_workspace(const KernelArgs& args) {
  return 2 * sizeof(int64_t) * static_cast<size_t>(tuples_of(args.inputs[1]));
}

// Updates elements [first, last) of the slice of tuple k; a slice's elements are those of the nest
// (tensor 0: the output, 1: the updates).
template <ScatterReduction reduction, class T>
void put_slice(const Nest& nest, void* to_slice, const void* from_slice, int64_t rows,
               int64_t cols) {
  auto* y = static_cast<T*>(to_slice);
  const auto* updates = static_cast<const T*>(from_slice);
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t to = nest.col_stride(0), from = nest.col_stride(1);
    if (to == 1 && from == 1)
      for (int64_t col = 0; col < cols; ++col) combine<reduction>(y[col], updates[col]);
    else
      for (int64_t col = 0; col < cols; ++col) combine<reduction>(y[col * to], updates[col * from]);
    y += nest.row_stride(0), updates += nest.row_stride(1);
  }
}

using PutSlice = void (*)(const Nest&, void* y, const void* updates, int64_t rows, int64_t cols);

// Slices this long are cut among threads; of shorter ones each thread has those that start in its
// part of the output.
constexpr int64_t kCutSlice = 4096;
constexpr double kWorthScanning = 100;  // microseconds

void scatter_slices(const KernelArgs& args, const Nest& nest, PutSlice put, const int64_t* to,
                    const int64_t* from, int64_t tuples, int64_t size) {
  const int64_t bytes = bytes_of(args.outputs[0].type);
  const auto put_part = [&](int64_t k, const int64_t* offsets, int64_t rows, int64_t cols) {
    put(nest, static_cast<char*>(args.outputs[0].data) + (to[k] + offsets[0]) * bytes,
        static_cast<const char*>(args.inputs[2].data) + (from[k] + offsets[1]) * bytes, rows, cols);
  };
  const double us = static_cast<double>(tuples) * (0.002 + static_cast<double>(size) * 0.0004);
  const auto put_all = [&](const int64_t* offsets, int64_t rows, int64_t cols) {
    for (int64_t k = 0; k < tuples; ++k) put_part(k, offsets, rows, cols);
  };
  if (size >= kCutSlice) return for_tiles(nest, args.pool, us, put_all);
  const int64_t planes = nest.outer() * nest.rows();
  const auto put_one = [&](int64_t k) {
    for_rows(nest, 0, planes, [&](const int64_t* offsets, int64_t rows) {
      put_part(k, offsets, rows, nest.cols());
    });
  };
  const int threads = us < kWorthScanning ? 1 : threads_of(args);
  int64_t end = 0;
  for (int64_t k = 0; k < tuples; ++k) end = to[k] >= end ? to[k] + 1 : end;
  split(threads == 1 ? nullptr : args.pool, threads, us, [&](int, int64_t first, int64_t last) {
    const int64_t low = end * first / threads, high = end * last / threads;
    for (int64_t k = 0; k < tuples; ++k)
      if (to[k] >= low && to[k] < high) put_one(k);
  });
}

Status run_slices(const KernelArgs& args) {
  const TensorView &indices = args.inputs[1], &updates = args.inputs[2], &y = args.outputs[0];
  const int64_t depth = indices.extents[indices.rank - 1], tuples = tuples_of(indices);
  auto* to = reinterpret_cast<int64_t*>(args.workspace);
  int64_t* from = to + tuples;
  if (!resolve_tuples(indices, depth, y, 0, 0, to))
    return index_error(indices, {y.extents, static_cast<size_t>(depth)});
  copy_data(args);
  if (count_of(updates) == 0) return Status();
  int64_t n = 0;
  const int tuple_dims = indices.rank - 1;
  for_elements(updates, tuple_dims, [&](int64_t offset) { from[n++] = offset; });
  Nest nest;
  nest.tensors = 2;
  nest.rank = y.rank - static_cast<int>(depth);
  for (int d = 0; d < nest.rank; ++d) {
    nest.extents[d] = y.extents[d + depth];
    nest.strides[0][d] = y.strides[d + depth];
    nest.strides[1][d] = updates.strides[d + tuple_dims];
  }
  collapse(nest);
  const int64_t size = count_of(updates) / tuples;
  const PutSlice put =
      with_type(attrs_of(*args.layer).reduction, y.type, [](auto how, auto type) -> PutSlice {
        return put_slice<decltype(how)::kValue, decltype(type)>;
      });
  scatter_slices(args, nest, put, to, from, tuples, size);
  return Status();
}

void run_slices_unchecked(const KernelArgs& args) {
  static_cast<void>(run_slices(args));
}

constexpr Tactic kTactics[] = {
    {"scatter_elements", ir::LayerKind::kScatter, kIsa, FormatRule::kAny, 1, refuse_elements,
     scatter_us, CAMSHAFT_NOTHING_PACKED, run_elements_unchecked},
    {"scatter_slices", ir::LayerKind::kScatter, kIsa, FormatRule::kAny, 1, refuse_slices,
     scatter_us, no_packed_inputs, no_packed_bytes, pack_nothing, slices_workspace,
     run_slices_unchecked},
};

constexpr CheckedKernel kChecked[] = {
    {run_slices_unchecked, run_slices},
    {run_elements_unchecked, run_elements},
};

}  // namespace

std::span<const Tactic> scatter_tactics() {
  return kTactics;
}

std::span<const CheckedKernel> scatter_checked() {
  return kChecked;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
