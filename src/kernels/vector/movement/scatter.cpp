// SPDX-License-Identifier: Apache-2.0
// ScatterElements and ScatterND (along `axis`: with that dimension in front of the others): the
// data is copied, then updates go to their places in the order of the indices. Threads share what
// cannot meet (lines of ScatterElements, parts of slices or of the output), so that results are the
// same for any number of them.
#include <algorithm>

#include "kernels/vector/movement/copy.h"
#include "kernels/vector/movement/copy_bytes.h"
#include "kernels/vector/movement/indices.h"
#include "kernels/vector/prepare.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::scatter {
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

// The data go to the output first; it may lie where they do.
CopyPlan plan_data(const KernelArgs& args) {
  Nest nest = make_nest(args.outputs[0]);
  add_tensor(nest, args.inputs[0]);
  return plan_copy(nest, bytes_of(args.outputs[0].type));
}
void copy_data(const CopyPlan& copy, const KernelCall& call) {
  if (call.inputs[0] != call.outputs[0]) run_copy(copy, call.inputs[0], call.outputs[0], call.pool);
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

// Whether a tile's elements are visited line by line, in the order they lie in.
bool is_along_line(const Nest& nest, const Line& line) {
  return line.indices <= nest.col_stride(0);
}

template <class Index>
bool all_inside(const Nest& nest, const Line& line, const void* first, int64_t rows, int64_t cols) {
  const auto* indices = static_cast<const Index*>(first);
  const bool along_line = is_along_line(nest, line);
  const int64_t step = along_line ? line.indices : nest.col_stride(0),
                outer_step = along_line ? nest.col_stride(0) : line.indices,
                count = along_line ? line.count : cols, outer = along_line ? cols : line.count;
  bool inside = true;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t n = 0; n < outer; ++n)
      inside &= for_indices(indices + row * nest.row_stride(0) + n * outer_step, step, count,
                            line.extent, [](int64_t, int64_t) {});
  return inside;
}

// Indices were looked at before.
template <ScatterReduction reduction, class T, class Index>
void scatter_tile(const Nest& nest, const Line& line, const ElementsAt& at_tile, int64_t rows,
                  int64_t cols) {
  const bool along_line = is_along_line(nest, line);
  for (int64_t row = 0; row < rows; ++row) {
    auto* y = static_cast<T*>(at_tile.y) + row * nest.row_stride(2);
    const auto* updates = static_cast<const T*>(at_tile.updates) + row * nest.row_stride(1);
    const auto* indices = static_cast<const Index*>(at_tile.indices) + row * nest.row_stride(0);
    const auto put = [&](int64_t k, int64_t col) {
      const auto index = static_cast<int64_t>(indices[k * line.indices + col * nest.col_stride(0)]);
      combine<reduction>(
          y[col * nest.col_stride(2) + (index < 0 ? index + line.extent : index) * line.y],
          updates[k * line.updates + col * nest.col_stride(1)]);
    };
    if (along_line) {
      for (int64_t col = 0; col < cols; ++col)
        for (int64_t k = 0; k < line.count; ++k) put(k, col);
    } else {
      for (int64_t k = 0; k < line.count; ++k)
        for (int64_t col = 0; col < cols; ++col) put(k, col);
    }
  }
}

using AllInside = bool (*)(const Nest&, const Line&, const void*, int64_t rows, int64_t cols);

struct ScatterElements {
  CopyPlan copy;
  Line line;
  Nest nest;  // of lines: the indices, the updates, the output
  AllInside inside;
  ScatterTile tile;
  TensorView indices;
  int64_t bytes, index_bytes;  // of an element
  double predicted_us;
};

Status run_elements(ScatterElements& s, const KernelCall& call) {
  const auto indices_at = [&](int64_t offset) {
    return call.input<const char>(1) + offset * s.index_bytes;
  };
  BadIndex bad;
  for_tiles(s.nest, call.pool, s.predicted_us,
            [&](const int64_t* offsets, int64_t rows, int64_t cols) {
              bad.note(!s.inside(s.nest, s.line, indices_at(offsets[0]), rows, cols));
            });
  if (bad.set) {
    s.indices.data = call.inputs[1];
    return index_error(s.indices, {&s.line.extent, 1});
  }
  copy_data(s.copy, call);
  for_tiles(s.nest, call.pool, s.predicted_us,
            [&](const int64_t* offsets, int64_t rows, int64_t cols) {
              s.tile(s.nest, s.line,
                     {call.output<char>(0) + offsets[2] * s.bytes,
                      call.input<const char>(2) + offsets[1] * s.bytes, indices_at(offsets[0])},
                     rows, cols);
            });
  return Status();
}

ScatterTile tile_of(ScatterReduction reduction, DataType type, bool is_long) {
  return with_type(reduction, type, [&](auto how, auto element) -> ScatterTile {
    constexpr ScatterReduction kHow = decltype(how)::kValue;
    using T = decltype(element);
    return is_long ? scatter_tile<kHow, T, int64_t> : scatter_tile<kHow, T, int32_t>;
  });
}

void prepare_elements(const KernelArgs& args, PreparedKernel& kernel) {
  const auto& attrs = attrs_of(*args.layer);
  const TensorView &indices = args.inputs[1], &updates = args.inputs[2], &y = args.outputs[0];
  const int axis = static_cast<int>(attrs.axis);
  const TensorView lines = without_axis(indices, axis);
  TensorView targets = without_axis(y, axis);
  for (int d = 0; d < lines.rank; ++d) targets.extents[d] = lines.extents[d];
  Nest nest = make_nest(lines);
  add_tensor(nest, without_axis(updates, axis));
  add_tensor(nest, targets);
  collapse(nest);
  const bool is_long = indices.type == DataType::kInt64;
  keep_checked_state<run_elements>(
      kernel, ScatterElements{plan_data(args),
                              {indices.extents[axis], y.extents[axis], y.strides[axis],
                               indices.strides[axis], updates.strides[axis]},
                              nest,
                              is_long ? all_inside<int64_t> : all_inside<int32_t>,
                              tile_of(attrs.reduction, y.type, is_long),
                              indices,
                              bytes_of(y.type),
                              bytes_of(indices.type),
                              static_cast<double>(count_of(indices)) * 0.001});
}

// --- slices

std::string refuse_slices(const Problem& p) {
  if (attrs_of(*p.layer).mode != ir::ScatterMode::kNd) return "one element per index";
  const ir::Extents& indices = p.inputs[1].extents;
  ir::Extents x = p.inputs[0].extents, updates = p.inputs[2].extents;
  if (const auto axis = static_cast<std::ptrdiff_t>(attrs_of(*p.layer).axis); axis != 0) {
    if (x.size() != updates.size()) return "updates do not fit the indices";
    for (ir::Extents* extents : {&x, &updates})  // as axis_first()
      std::rotate(extents->begin(), extents->begin() + axis, extents->begin() + axis + 1);
  }
  if (indices.empty() || indices.back() < 1 || indices.back() > static_cast<int64_t>(x.size()))
    return "index tuples do not fit";
  const size_t tuple_dims = indices.size() - 1, depth = static_cast<size_t>(indices.back());
  if (updates.size() != tuple_dims + x.size() - depth) return "updates do not fit the indices";
  for (size_t d = 0; d < updates.size(); ++d)
    if (updates[d] != (d < tuple_dims ? indices[d] : x[d - tuple_dims + depth]))
      return "updates do not fit the indices";
  return refuse_common(p);
}

// With that dimension in front of the others.
TensorView axis_first(const TensorView& view, int64_t axis) {
  TensorView turned = view;
  std::rotate(turned.extents, turned.extents + axis, turned.extents + axis + 1);
  std::rotate(turned.strides, turned.strides + axis, turned.strides + axis + 1);
  return turned;
}

int64_t tuples_of(const TensorView& indices) {
  const int64_t depth = indices.extents[indices.rank - 1];
  return depth == 0 ? 0 : count_of(indices) / depth;
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

// Slices of one element, those that go to [low, high).
struct Elements {
  const int64_t *to, *from;
  int64_t count, low, high;
};

template <ScatterReduction reduction, class T>
void put_elements(const Elements& e, void* data, const void* from_updates) {
  auto* y = static_cast<T*>(data);
  const auto* updates = static_cast<const T*>(from_updates);
  for (int64_t k = 0; k < e.count; ++k)
    if (e.to[k] >= e.low && e.to[k] < e.high) combine<reduction>(y[e.to[k]], updates[e.from[k]]);
}

using PutElements = void (*)(const Elements&, void* y, const void* updates);

// Slices this long are cut among threads; of shorter ones each thread has those that start in its
// part of the output.
constexpr int64_t kCutSlice = 4096;
constexpr double kWorthScanning = 100;  // microseconds

struct ScatterSlices {
  CopyPlan copy;
  TensorView indices, y;
  int64_t depth, tuples;
  Nest nest;  // of a slice: the output, the updates
  PutSlice put;
  PutElements put_elements;
  const int64_t* from;  // where in the updates the slices start; where in the output: the workspace
  int64_t size, bytes;  // of a slice, of an element
  double predicted_us;
  int threads;
};

void scatter_slices(const ScatterSlices& s, const int64_t* to, const KernelCall& call) {
  const Nest& nest = s.nest;
  const auto put_part = [&](int64_t k, const int64_t* offsets, int64_t rows, int64_t cols) {
    s.put(nest, call.output<char>(0) + (to[k] + offsets[0]) * s.bytes,
          call.input<const char>(2) + (s.from[k] + offsets[1]) * s.bytes, rows, cols);
  };
  const auto put_all = [&](const int64_t* offsets, int64_t rows, int64_t cols) {
    for (int64_t k = 0; k < s.tuples; ++k) put_part(k, offsets, rows, cols);
  };
  if (s.size >= kCutSlice) return for_tiles(nest, call.pool, s.predicted_us, put_all);
  const int64_t planes = nest.outer() * nest.rows();
  const auto put_one = [&](int64_t k) {
    for_rows(nest, 0, planes, [&](const int64_t* offsets, int64_t rows) {
      put_part(k, offsets, rows, nest.cols());
    });
  };
  int64_t end = 0;
  for (int64_t k = 0; k < s.tuples; ++k) end = to[k] >= end ? to[k] + 1 : end;
  split(s.threads == 1 ? nullptr : call.pool, s.threads, s.predicted_us,
        [&](int, int64_t first, int64_t last) {
          const int64_t low = end * first / s.threads, high = end * last / s.threads;
          if (s.size == 1)
            return s.put_elements({to, s.from, s.tuples, low, high}, call.output<char>(0),
                                  call.input<const char>(2));
          for (int64_t k = 0; k < s.tuples; ++k)
            if (to[k] >= low && to[k] < high) put_one(k);
        });
}

Status run_slices(ScatterSlices& s, const KernelCall& call) {
  auto* to = reinterpret_cast<int64_t*>(call.workspace);
  s.indices.data = call.inputs[1];
  if (!resolve_tuples(s.indices, s.depth, s.y, 0, 0, to))
    return index_error(s.indices, {s.y.extents, static_cast<size_t>(s.depth)});
  copy_data(s.copy, call);
  if (s.size > 0) scatter_slices(s, to, call);
  return Status();
}

Nest slice_nest(const TensorView& y, const TensorView& updates, int64_t depth, int tuple_dims) {
  Nest nest{};
  nest.tensors = 2;
  nest.rank = y.rank - static_cast<int>(depth);
  for (int d = 0; d < nest.rank; ++d) {
    nest.extents[d] = y.extents[d + depth];
    nest.strides[0][d] = y.strides[d + depth];
    nest.strides[1][d] = updates.strides[d + tuple_dims];
  }
  collapse(nest);
  return nest;
}

void prepare_slices(const KernelArgs& args, PreparedKernel& kernel) {
  const int64_t axis = attrs_of(*args.layer).axis;
  const TensorView &indices = args.inputs[1], updates = axis_first(args.inputs[2], axis),
                   y = axis_first(args.outputs[0], axis);
  const int64_t depth = indices.extents[indices.rank - 1], tuples = tuples_of(indices);
  const int64_t size = tuples == 0 ? 0 : count_of(updates) / tuples;
  const double us = static_cast<double>(tuples) * (0.002 + static_cast<double>(size) * 0.0004);
  auto* from = keep_array<int64_t>(kernel, tuples);
  int64_t n = 0;
  for_elements(updates, indices.rank - 1, [&](int64_t offset) { from[n++] = offset; });
  const PutSlice put =
      with_type(attrs_of(*args.layer).reduction, y.type, [](auto how, auto type) -> PutSlice {
        return put_slice<decltype(how)::kValue, decltype(type)>;
      });
  const PutElements put_elements_of =
      with_type(attrs_of(*args.layer).reduction, y.type, [](auto how, auto type) -> PutElements {
        return put_elements<decltype(how)::kValue, decltype(type)>;
      });
  keep_checked_state<run_slices>(
      kernel,
      ScatterSlices{plan_data(args), indices, y, depth, tuples,
                    slice_nest(y, updates, depth, indices.rank - 1), put, put_elements_of, from,
                    size, bytes_of(y.type), us, us < kWorthScanning ? 1 : threads_of(args)});
  kernel.workspace_bytes = sizeof(int64_t) * static_cast<size_t>(tuples);
}

constexpr Tactic kTactics[] = {
    {"scatter_elements", ir::LayerKind::kScatter, kIsa, FormatRule::kAny, 2, refuse_elements,
     scatter_us, CAMSHAFT_NOTHING_PACKED, prepare_elements},
    {"scatter_slices", ir::LayerKind::kScatter, kIsa, FormatRule::kAny, 2, refuse_slices,
     scatter_us, CAMSHAFT_NOTHING_PACKED, prepare_slices},
};

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::scatter
