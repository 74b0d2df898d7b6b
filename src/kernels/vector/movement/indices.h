// SPDX-License-Identifier: Apache-2.0
// Indices of Gather and Scatter: counted from the end where negative, checked, resolved to offsets.
#pragma once

#include "kernels/index_error.h"
#include "kernels/vector/counts.h"
#include "kernels/vector/tactic_util.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

static inline const char* refuse_indexed(const ProblemTensor& data, const ProblemTensor& indices) {
  if (indices.type != DataType::kInt64 && indices.type != DataType::kInt32)
    return "indices are neither int64 nor int32";
  if (data.type == DataType::kInt4 || data.type == DataType::kUInt4) return "4-bit elements";
  return nullptr;
}

// The index counted from the start, without a branch: what is outside leaves its sign bit in
// `outside`, and is not to be used.
CAMSHAFT_INLINE int64_t from_start(int64_t index, int64_t extent, uint64_t& outside) {
  const uint64_t at = static_cast<uint64_t>(index) + static_cast<uint64_t>(index < 0 ? extent : 0);
  outside |= at | (static_cast<uint64_t>(extent - 1) - at);
  return static_cast<int64_t>(at);
}

// Calls body(k, index counted from the start) for `count` indices, `step` apart; false: one is out
// of range. The compiler makes vectors of it.
template <class Index, class Body>
CAMSHAFT_INLINE bool for_indices(const Index* indices, int64_t step, int64_t count, int64_t extent,
                                 const Body& body) {
  uint64_t outside = 0;
  if (step == 1)
    for (int64_t k = 0; k < count; ++k)
      body(k, from_start(static_cast<int64_t>(indices[k]), extent, outside));
  else
    for (int64_t k = 0; k < count; ++k)
      body(k, from_start(static_cast<int64_t>(indices[k * step]), extent, outside));
  return outside >> 63 == 0;
}

// A flag that several threads may set.
struct BadIndex {
  int set = 0;
  void note(bool bad) {
    if (bad) __atomic_store_n(&set, 1, __ATOMIC_RELAXED);
  }
};

// Calls body(index of int32 or int64): the element type of indices.
template <class Body>
CAMSHAFT_INLINE void with_index(DataType type, const Body& body) {
  return type == DataType::kInt64 ? body(int64_t()) : body(int32_t());
}

// Calls visit(offset) for every element of the leading `rank` dimensions of `view`, row major.
template <class Visit>
static inline void for_elements(const TensorView& view, int rank, const Visit& visit) {
  int64_t index[ir::kMaxRank] = {}, offset = 0;
  for (int d = 0; d < rank; ++d)
    if (view.extents[d] == 0) return;
  for (;;) {
    visit(offset);
    int d = rank - 1;
    for (; d >= 0; --d) {
      offset += view.strides[d];
      if (++index[d] < view.extents[d]) break;
      offset -= view.extents[d] * view.strides[d];
      index[d] = 0;
    }
    if (d < 0) return;
  }
}

// Index tuples in the last dimension of `indices` (one index each where `depth` is 0), for the
// dimensions of `data` from `first_dim` on: where the element or slice they mean starts. With
// `batch_dims` (all before `first_dim`), leading dimensions of both count together.
// False: one is out of range.
static inline bool resolve_tuples(const TensorView& indices, int64_t depth, const TensorView& data,
                                  int first_dim, int batch_dims, int64_t* offsets) {
  const int tuple_rank = depth == 0 ? indices.rank : indices.rank - 1;
  const int64_t step = depth == 0 ? 0 : indices.strides[indices.rank - 1];
  const int64_t length = depth == 0 ? 1 : depth;
  uint64_t outside = 0;
  with_index(indices.type, [&](auto type) {
    using Index = decltype(type);
    const Index* from = indices.as<const Index>();
    int64_t k = 0;
    const auto resolve = [&](int64_t at) {
      int64_t offset = 0;
      for (int64_t d = 0; d < length; ++d) {
        const int dim = first_dim + static_cast<int>(d);
        offset +=
            from_start(static_cast<int64_t>(from[at + d * step]), data.extents[dim], outside) *
            data.strides[dim];
      }
      offsets[k++] = offset;
    };
    // Tuples that follow each other, as they nearly always do: one loop.
    int64_t count = 1;
    bool follow = true;
    for (int d = tuple_rank - 1; d >= 0; --d) {
      follow &= indices.extents[d] == 1 || indices.strides[d] == count * length;
      count *= indices.extents[d];
    }
    if (follow)
      for (int64_t tuple = 0; tuple < count; ++tuple) resolve(tuple * length);
    else
      for_elements(indices, tuple_rank, resolve);
    if (batch_dims == 0) return;
    int64_t per_batch = 1;
    for (int d = batch_dims; d < tuple_rank; ++d) per_batch *= indices.extents[d];
    TensorView batch = data;
    for (int d = 0; d < batch_dims; ++d)
      batch.extents[d] = smaller(data.extents[d], indices.extents[d]);
    k = 0;
    for_elements(batch, batch_dims, [&](int64_t offset) {
      for (int64_t n = 0; n < per_batch; ++n) offsets[k++] += offset;
    });
  });
  return outside >> 63 == 0;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
