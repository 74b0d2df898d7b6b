// SPDX-License-Identifier: Apache-2.0
// Gather along one axis and GatherND: indices become offsets once, then slices are copied, as whole
// rows where they are contiguous. GatherElements: one element per index. Every index is checked.
#include "kernels/vector/copy.h"
#include "kernels/vector/copy_bytes.h"
#include "kernels/vector/indices.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
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

size_t slices_workspace(const KernelArgs& args) {
  const TensorView& indices = args.inputs[1];
  const SliceGather gather(attrs_of(*args.layer), indices);
  return 2 * sizeof(int64_t) * static_cast<size_t>(tuples_of(indices, gather.depth));
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
  TensorView from_outer, to_outer;  // dimensions in front of the index
  Nest nest;                        // of one slice: tensor 0 is y, 1 is x
  int64_t count = 0, size = 1;      // indices, elements of a slice
  const int64_t *from = nullptr, *to = nullptr;
  bool contiguous = false;
};

Slices make_slices(const KernelArgs& args, const SliceGather& gather) {
  const TensorView &x = args.inputs[0], &y = args.outputs[0];
  Slices s;
  s.from_outer = x, s.to_outer = y;
  s.from_outer.rank = s.to_outer.rank = gather.outer_dims;
  s.nest.tensors = 2;
  s.nest.rank = x.rank - gather.slice_dim;
  const int to_dim = gather.outer_dims + gather.index_dims - gather.slice_dim;
  for (int d = gather.slice_dim; d < x.rank; ++d) {
    const int at = d - gather.slice_dim;
    s.nest.extents[at] = x.extents[d];
    s.nest.strides[0][at] = y.strides[d + to_dim];
    s.nest.strides[1][at] = x.strides[d];
    s.size *= x.extents[d];
  }
  collapse(s.nest);
  s.contiguous = s.size == 1 || (s.nest.outer() == 1 && s.nest.rows() == 1 &&
                                 s.nest.col_stride(0) == 1 && s.nest.col_stride(1) == 1);
  return s;
}

template <class T>
void copy_singles(const Slices& s, const T* from, T* to, int64_t first, int64_t last) {
  for (int64_t k = first; k < last; ++k) to[s.to[k]] = from[s.from[k]];
}

// Slices [first, last) of all, index by index within each outer position.
void copy_slices(const KernelArgs& args, const Slices& s, int64_t first, int64_t last,
                 ThreadPool* pool) {
  const TensorView &x = args.inputs[0], &y = args.outputs[0];
  const int64_t bytes = bytes_of(y.type), row_bytes = s.size * bytes;
  while (first < last) {
    const int64_t begin = first % s.count,
                  end = begin + (last - first) < s.count ? begin + (last - first) : s.count;
    int64_t rest = first / s.count, from_offset = 0, to_offset = 0;
    for (int d = s.from_outer.rank - 1; d >= 0; --d) {
      const int64_t index = rest % s.from_outer.extents[d];
      rest /= s.from_outer.extents[d];
      from_offset += index * s.from_outer.strides[d];
      to_offset += index * s.to_outer.strides[d];
    }
    const char* from = x.as<const char>() + from_offset * bytes;
    char* to = y.as<char>() + to_offset * bytes;
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
        Nest nest = s.nest;
        copy_nest(nest, source, target, bytes, pool);
      }
    }
  }
}

Status run_slices(const KernelArgs& args) {
  const TensorView &x = args.inputs[0], &indices = args.inputs[1], &y = args.outputs[0];
  const SliceGather gather(attrs_of(*args.layer), indices);
  if (count_of(y) == 0) return Status();
  Slices s = make_slices(args, gather);
  s.count = tuples_of(indices, gather.depth);
  auto* from = reinterpret_cast<int64_t*>(args.workspace);
  int64_t* to = from + s.count;
  if (!resolve_tuples(indices, gather.depth, x, gather.first_dim, gather.batch_dims, from))
    return index_error(indices, {x.extents + gather.first_dim,
                                 static_cast<size_t>(gather.depth == 0 ? 1 : gather.depth)});
  TensorView targets = y;
  for (int d = 0; d < gather.index_dims; ++d) {
    targets.extents[d] = y.extents[d + gather.outer_dims];
    targets.strides[d] = y.strides[d + gather.outer_dims];
  }
  int64_t n = 0;
  for_elements(targets, gather.index_dims, [&](int64_t offset) { to[n++] = offset; });
  s.from = from, s.to = to;
  const int64_t slices = count_of(y) / s.size, bytes = s.size * bytes_of(y.type);
  if (bytes >= kSharedSliceBytes && slices < 4 * threads_of(args)) {
    copy_slices(args, s, 0, slices, args.pool);
    return Status();
  }
  const double us = static_cast<double>(slices * (bytes + 16)) / 20000;
  split(args.pool, slices, us,
        [&](int, int64_t first, int64_t last) { copy_slices(args, s, first, last, nullptr); });
  return Status();
}

void run_slices_unchecked(const KernelArgs& args) {
  static_cast<void>(run_slices(args));
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

// Indices are checked a chunk at a time, in a loop of its own that the compiler makes vectors of.
template <class T, class Index>
bool gather_tile(const Nest& nest, T* to, const T* from, const Index* indices, int64_t rows,
                 int64_t cols, int64_t extent, int64_t stride) {
  constexpr int64_t kChunk = 256;
  int64_t offsets[kChunk];
  bool bad = false;
  const int64_t step = nest.col_stride(1), from_step = nest.col_stride(2);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t col = 0; col < cols; col += kChunk) {
      const int64_t count = cols - col < kChunk ? cols - col : kChunk;
      for (int64_t k = 0; k < count; ++k)
        offsets[k] = resolved(static_cast<int64_t>(indices[(col + k) * step]), extent, bad);
      const T* source = from + col * from_step;
      if (stride == 1 && from_step == 0)
        for (int64_t k = 0; k < count; ++k) to[col + k] = source[offsets[k]];
      else
        for (int64_t k = 0; k < count; ++k)
          to[col + k] = source[k * from_step + offsets[k] * stride];
    }
    to += nest.row_stride(0), indices += nest.row_stride(1), from += nest.row_stride(2);
  }
  return bad;
}

Status run_elements(const KernelArgs& args) {
  const TensorView &x = args.inputs[0], &indices = args.inputs[1], &y = args.outputs[0];
  const int axis = static_cast<int>(attrs_of(*args.layer).axis);
  const int64_t extent = x.extents[axis], stride = x.strides[axis], count = count_of(y);
  if (count == 0) return Status();
  if (extent == 0) return index_error(indices, {&extent, 1});
  // The data at index 0 of the axis, as large as the output.
  TensorView base = x;
  for (int d = 0; d < x.rank; ++d) base.extents[d] = y.extents[d];
  base.strides[axis] = 0;
  Nest nest = make_nest(y);
  add_tensor(nest, indices);
  add_tensor(nest, base);
  collapse(nest);
  BadIndex bad;
  with_element(bytes_of(y.type), [&](auto type) {
    using T = decltype(type);
    with_index(indices.type, [&](auto index_type) {
      using Index = decltype(index_type);
      for_tiles(nest, args.pool, static_cast<double>(count) * 0.001,
                [&](const int64_t* offsets, int64_t rows, int64_t cols) {
                  bad.note(gather_tile(nest, y.as<T>() + offsets[0], x.as<const T>() + offsets[2],
                                       indices.as<const Index>() + offsets[1], rows, cols, extent,
                                       stride));
                });
    });
  });
  return bad.set ? index_error(indices, {&extent, 1}) : Status();
}

void run_elements_unchecked(const KernelArgs& args) {
  static_cast<void>(run_elements(args));
}

constexpr Tactic kTactics[] = {
    {"gather_copy", ir::LayerKind::kGather, kIsa, FormatRule::kAny, 2, refuse_slices, gather_us,
     no_packed_inputs, no_packed_bytes, pack_nothing, slices_workspace, run_slices_unchecked},
    {"gather_elements", ir::LayerKind::kGather, kIsa, FormatRule::kAny, 1, refuse_elements,
     elements_us, CAMSHAFT_NOTHING_PACKED, run_elements_unchecked},
};

constexpr CheckedKernel kChecked[] = {
    {run_slices_unchecked, run_slices},
    {run_elements_unchecked, run_elements},
};

}  // namespace

std::span<const Tactic> gather_tactics() {
  return kTactics;
}

std::span<const CheckedKernel> gather_checked() {
  return kChecked;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
