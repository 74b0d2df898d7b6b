// SPDX-License-Identifier: Apache-2.0
// Gather along one axis and GatherND: indices become offsets once, then slices are copied, as whole
// rows where they are contiguous. GatherElements: one element per index. Every index is checked.
#include "kernels/vector/movement/copy.h"
#include "kernels/vector/movement/copy_bytes.h"
#include "kernels/vector/movement/indices.h"
#include "kernels/vector/prepare.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::gather {
namespace {

const ir::GatherAttrs& attrs_of(const ir::Layer& layer) {
  return *std::get_if<ir::GatherAttrs>(&layer.attrs);
}

// --- slices

// y[o…, i…, s…] = x[o…, index(i…)…, s…]: dimensions in front of the index, of the index, of the
// slice.
struct SliceGather {
  int outer_dims = 0, index_dims = 0;
  int64_t depth = 0;  // of index tuples; 0: single indices
  int first_dim = 0;  // of x that an index counts in
  int slice_dim = 0;  // of x where a slice begins
  int batch_dims = 0;

  SliceGather(const ir::GatherAttrs& attrs, const TensorView& indices) {
    if (attrs.mode == ir::GatherMode::kNd) {
      depth = indices.extents[indices.rank - 1];
      index_dims = indices.rank - 1;
      batch_dims = static_cast<int>(attrs.batch_dims);
      first_dim = batch_dims;
      slice_dim = batch_dims + static_cast<int>(depth);
    } else {
      outer_dims = first_dim = static_cast<int>(attrs.axis);
      index_dims = indices.rank;
      slice_dim = outer_dims + 1;
    }
  }
};

int64_t tuples_of(const TensorView& indices, int64_t depth) {
  return depth == 0 ? count_of(indices) : count_of(indices) / depth;
}

std::string refuse_slices(const Problem& p) {
  const auto& attrs = attrs_of(*p.layer);
  const ProblemTensor& indices = p.inputs[1];
  if (attrs.mode == ir::GatherMode::kElements) return "one element per index";
  if (attrs.mode == ir::GatherMode::kNd &&
      (indices.extents.empty() || indices.extents.back() < 1 || attrs.batch_dims < 0 ||
       attrs.batch_dims + indices.extents.back() >
           static_cast<int64_t>(p.inputs[0].extents.size())))
    return "index tuples do not fit";
  for (size_t d = 0; d < static_cast<size_t>(attrs.batch_dims); ++d)
    if (p.inputs[0].extents[d] != indices.extents[d]) return "batches differ";
  const char* reason = refuse_indexed(p.inputs[0], indices);
  return reason ? reason : "";
}

double gather_us(const Problem& p) {
  const double bytes = static_cast<double>(count_of(p.outputs[0]) * bytes_of(p.outputs[0].type));
  return 0.2 + 0.002 * static_cast<double>(count_of(p.inputs[1])) + 2 * bytes / kBytesPerUs;
}

// Slices longer than this are shared by threads, else whole slices go to threads.
constexpr int64_t kSharedSliceBytes = 1 << 16;

// Where slices lie: of both tensors, and offsets of each index in both.
struct Slices {
  Nest outer{};                 // dimensions in front of the index: of y, of x
  CopyPlan copy;                // of one slice
  int64_t count = 0, size = 1;  // indices, elements of a slice
  int64_t element_bytes;
  const int64_t *from = nullptr, *to = nullptr;
  bool contiguous = false;
};

// Merged: where one index follows, every dimension costs as much as a short slice.
Nest make_outer(const TensorView& x, const TensorView& y, int dims) {
  Nest nest{};
  nest.tensors = 2;
  nest.rank = dims;
  for (int d = 0; d < dims; ++d) {
    nest.extents[d] = x.extents[d];
    nest.strides[0][d] = y.strides[d];
    nest.strides[1][d] = x.strides[d];
  }
  collapse(nest);
  return nest;
}

Slices make_slices(const KernelArgs& args, const SliceGather& gather) {
  const TensorView &x = args.inputs[0], &y = args.outputs[0];
  Slices s;
  s.outer = make_outer(x, y, gather.outer_dims);
  s.count = tuples_of(args.inputs[1], gather.depth);
  s.element_bytes = bytes_of(y.type);
  Nest nest{};
  nest.tensors = 2;
  nest.rank = x.rank - gather.slice_dim;
  const int to_dim = gather.outer_dims + gather.index_dims - gather.slice_dim;
  for (int d = gather.slice_dim; d < x.rank; ++d) {
    const int at = d - gather.slice_dim;
    nest.extents[at] = x.extents[d];
    nest.strides[0][at] = y.strides[d + to_dim];
    nest.strides[1][at] = x.strides[d];
    s.size *= x.extents[d];
  }
  collapse(nest);
  s.copy = plan_copy(nest, s.element_bytes);
  s.contiguous = s.size == 1 || (nest.outer() == 1 && nest.rows() == 1 && nest.col_stride(0) == 1 &&
                                 nest.col_stride(1) == 1);
  return s;
}

template <class T>
void copy_singles(const Slices& s, const T* from, T* to, int64_t first, int64_t last) {
  for (int64_t k = first; k < last; ++k) to[s.to[k]] = from[s.from[k]];
}

// Slices [first, last) of all, index by index within each outer position.
void copy_slices(const Slices& s, const char* x, char* y, int64_t first, int64_t last,
                 ThreadPool* pool) {
  const int64_t bytes = s.element_bytes, row_bytes = s.size * bytes;
  while (first < last) {
    const int64_t begin = first % s.count,
                  end = begin + (last - first) < s.count ? begin + (last - first) : s.count;
    int64_t rest = first / s.count, from_offset = 0, to_offset = 0;
    for (int d = s.outer.rank - 1; d >= 0 && rest > 0; --d) {
      const int64_t extent = s.outer.extents[d];
      const int64_t above = rest < extent ? 0 : rest / extent, index = rest - above * extent;
      rest = above;
      to_offset += index * s.outer.strides[0][d];
      from_offset += index * s.outer.strides[1][d];
    }
    const char* from = x + from_offset * bytes;
    char* to = y + to_offset * bytes;
    first += end - begin;
    if (s.size == 1) {
      with_element(bytes, [&](auto type) {
        using T = decltype(type);
        copy_singles(s, reinterpret_cast<const T*>(from), reinterpret_cast<T*>(to), begin, end);
      });
      continue;
    }
    for (int64_t k = begin; k < end; ++k) {
      const char* source = from + s.from[k] * bytes;
      char* target = to + s.to[k] * bytes;
      if (s.contiguous && pool == nullptr) {
        if (k + 1 < end) __builtin_prefetch(from + s.from[k + 1] * bytes);
        copy_bytes(source, target, row_bytes);
      } else {
        run_copy(s.copy, source, target, pool);
      }
    }
  }
}

struct GatherSlices {
  SliceGather gather;
  TensorView x, indices;
  Slices slices;  // offsets in x are the workspace
  int64_t count;  // of slices
  bool shares;    // threads take parts of a slice
  double predicted_us;
};

Status run_slices(GatherSlices& g, const KernelCall& call) {
  Slices& s = g.slices;
  auto* from = reinterpret_cast<int64_t*>(call.workspace);
  g.indices.data = call.inputs[1];
  if (!resolve_tuples(g.indices, g.gather.depth, g.x, g.gather.first_dim, g.gather.batch_dims,
                      from))
    return index_error(g.indices, {g.x.extents + g.gather.first_dim,
                                   static_cast<size_t>(g.gather.depth == 0 ? 1 : g.gather.depth)});
  s.from = from;
  const char* x = call.input<const char>(0);
  char* y = call.output<char>(0);
  if (g.shares) {
    copy_slices(s, x, y, 0, g.count, call.pool);
    return Status();
  }
  split(call.pool, g.count, g.predicted_us, [&s, x, y](int, int64_t first, int64_t last) {
    copy_slices(s, x, y, first, last, nullptr);
  });
  return Status();
}

// Where in y the slice of every index starts.
const int64_t* make_targets(const TensorView& y, const SliceGather& gather, int64_t count,
                            PreparedKernel& kernel) {
  TensorView targets = y;
  for (int d = 0; d < gather.index_dims; ++d) {
    targets.extents[d] = y.extents[d + gather.outer_dims];
    targets.strides[d] = y.strides[d + gather.outer_dims];
  }
  auto* to = keep_array<int64_t>(kernel, count);
  int64_t n = 0;
  for_elements(targets, gather.index_dims, [&](int64_t offset) { to[n++] = offset; });
  return to;
}

void prepare_slices(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const TensorView &x = args.inputs[0], &indices = args.inputs[1], &y = args.outputs[0];
  const SliceGather gather(attrs_of(*args.layer), indices);
  Slices s = make_slices(args, gather);
  s.to = make_targets(y, gather, s.count, kernel);
  const int64_t count = count_of(y) / s.size, bytes = s.size * s.element_bytes;
  const bool shares = bytes >= kSharedSliceBytes && count < 4 * threads_of(args);
  keep_checked_state<run_slices>(kernel,
                                 GatherSlices{gather, x, indices, s, count, shares,
                                              static_cast<double>(count * (bytes + 16)) / 20000});
  kernel.workspace_bytes = sizeof(int64_t) * static_cast<size_t>(s.count);
}

// --- elements

std::string refuse_elements(const Problem& p) {
  if (attrs_of(*p.layer).mode != ir::GatherMode::kElements) return "whole slices per index";
  const ir::Extents &x = p.inputs[0].extents, &indices = p.inputs[1].extents;
  for (size_t d = 0; d < x.size() && d < indices.size(); ++d)
    if (static_cast<int64_t>(d) != attrs_of(*p.layer).axis && indices[d] > x[d])
      return "more indices than the data has elements";
  const char* reason = refuse_indexed(p.inputs[0], p.inputs[1]);
  return reason ? reason : "";
}

double elements_us(const Problem& p) {
  return 0.2 + static_cast<double>(count_of(p.outputs[0])) * 0.001;
}

// Where `count` elements of a row lie: the indices along the axis and the steps beside it. False:
// an index is out of range. Loops that the compiler makes vectors of: a sign bit tells what is
// outside.
constexpr int64_t kChunk = 256;
template <class Index>
bool resolve_chunk(const Index* indices, int64_t step, int64_t count, int64_t extent,
                   int64_t stride, int64_t from_step, int64_t* offsets) {
  if (!for_indices(indices, step, count, extent,
                   [offsets](int64_t k, int64_t index) { offsets[k] = index; }))
    return false;
  if (stride != 1 || from_step != 0)
    for (int64_t k = 0; k < count; ++k) offsets[k] = offsets[k] * stride + k * from_step;
  return true;
}

template <class T, class Index>
bool gather_tile(const Nest& nest, T* to, const T* from, const Index* indices, int64_t rows,
                 int64_t cols, int64_t extent, int64_t stride) {
  int64_t offsets[kChunk];
  bool bad = false;
  const int64_t step = nest.col_stride(1), from_step = nest.col_stride(2);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t col = 0; col < cols; col += kChunk) {
      const int64_t count = smaller(kChunk, cols - col);
      if (!resolve_chunk(indices + col * step, step, count, extent, stride, from_step, offsets)) {
        bad = true;
        continue;
      }
      const T* source = from + col * from_step;
      for (int64_t k = 0; k < count; ++k) to[col + k] = source[offsets[k]];
    }
    to += nest.row_stride(0), indices += nest.row_stride(1), from += nest.row_stride(2);
  }
  return bad;
}

struct GatherElements {
  TensorView indices;
  Nest nest;               // y, the indices, x at index 0 of the axis
  int64_t extent, stride;  // of x along the axis
  int64_t element_bytes;
  double predicted_us;
};

template <class T, class Index>
void gather_tiles(const GatherElements& g, const KernelCall& call, BadIndex& bad) {
  T* y = call.output<T>(0);
  const T* x = call.input<const T>(0);
  const Index* indices = call.input<const Index>(1);
  for_tiles(g.nest, call.pool, g.predicted_us,
            [&g, &bad, x, y, indices](const int64_t* offsets, int64_t rows, int64_t cols) {
              bad.note(gather_tile(g.nest, y + offsets[0], x + offsets[2], indices + offsets[1],
                                   rows, cols, g.extent, g.stride));
            });
}

Status run_elements(GatherElements& g, const KernelCall& call) {
  g.indices.data = call.inputs[1];
  if (g.extent == 0) return index_error(g.indices, {&g.extent, 1});
  BadIndex bad;
  with_element(g.element_bytes, [&](auto type) {
    with_index(g.indices.type,
               [&](auto index) { gather_tiles<decltype(type), decltype(index)>(g, call, bad); });
  });
  return bad.set ? index_error(g.indices, {&g.extent, 1}) : Status();
}

void prepare_elements(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const TensorView &x = args.inputs[0], &indices = args.inputs[1], &y = args.outputs[0];
  const int axis = static_cast<int>(attrs_of(*args.layer).axis);
  TensorView base = x;
  for (int d = 0; d < x.rank; ++d) base.extents[d] = y.extents[d];
  base.strides[axis] = 0;
  GatherElements gather{indices,          make_nest(y),
                        x.extents[axis],  x.strides[axis],
                        bytes_of(y.type), static_cast<double>(count_of(y)) * 0.001};
  add_tensor(gather.nest, indices);
  add_tensor(gather.nest, base);
  collapse(gather.nest);
  keep_checked_state<run_elements>(kernel, gather);
}

constexpr Tactic kTactics[] = {
    {"gather_copy", ir::LayerKind::kGather, kIsa, FormatRule::kAny, 2, refuse_slices, gather_us,
     CAMSHAFT_NOTHING_PACKED, prepare_slices},
    {"gather_elements", ir::LayerKind::kGather, kIsa, FormatRule::kAny, 2, refuse_elements,
     elements_us, CAMSHAFT_NOTHING_PACKED, prepare_elements},
};

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::gather
