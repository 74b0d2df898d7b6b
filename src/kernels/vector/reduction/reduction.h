// SPDX-License-Identifier: Apache-2.0
// Sums, maxima … of contiguous lines and of columns of rows. Long sums are taken in blocks that are
// then added, so that the error grows with the number of blocks and not of elements.
#pragma once

#include "kernels/kernel.h"
#include "kernels/nest.h"
#include "kernels/simd/simd.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

struct AddStep {
  static constexpr float kIdentity = 0;
  CAMSHAFT_INLINE F32 step(F32 sum, F32 v) { return sum + v; }
  CAMSHAFT_INLINE F32 merge(F32 a, F32 b) { return a + b; }
  CAMSHAFT_INLINE float merge(float a, float b) { return a + b; }
  CAMSHAFT_INLINE float fold(F32 a) { return reduce_add(a); }
};
struct AddAbsStep : AddStep {
  CAMSHAFT_INLINE F32 step(F32 sum, F32 v) { return sum + abs(v); }
};
struct AddSquareStep : AddStep {
  CAMSHAFT_INLINE F32 step(F32 sum, F32 v) { return fma(v, v, sum); }
};
struct MaxStep {
  static constexpr float kIdentity = -__builtin_inff();
  CAMSHAFT_INLINE F32 step(F32 most, F32 v) { return max(v, most); }  // a NaN is passed over
  CAMSHAFT_INLINE F32 merge(F32 a, F32 b) { return max(a, b); }
  CAMSHAFT_INLINE float merge(float a, float b) { return a > b ? a : b; }
  CAMSHAFT_INLINE float fold(F32 a) { return reduce_max(a); }
};
struct MinStep {
  static constexpr float kIdentity = __builtin_inff();
  CAMSHAFT_INLINE F32 step(F32 least, F32 v) { return min(v, least); }
  CAMSHAFT_INLINE F32 merge(F32 a, F32 b) { return min(a, b); }
  CAMSHAFT_INLINE float merge(float a, float b) { return a < b ? a : b; }
  CAMSHAFT_INLINE float fold(F32 a) { return reduce_min(a); }
};
struct MultiplyStep {
  static constexpr float kIdentity = 1;
  CAMSHAFT_INLINE F32 step(F32 product, F32 v) { return product * v; }
  CAMSHAFT_INLINE F32 merge(F32 a, F32 b) { return a * b; }
  CAMSHAFT_INLINE float merge(float a, float b) { return a * b; }
  CAMSHAFT_INLINE float fold(F32 a) {
    float lanes[kLanes], product = 1;
    store(lanes, a);
    for (float lane : lanes) product *= lane;
    return product;
  }
};

inline constexpr int64_t kReductionBlock = 32;  // steps of one accumulator before it is merged

template <class Step>
static inline float reduce_line(const float* x, int64_t count) {
  constexpr int kChains = 4;
  const F32 identity = set1(Step::kIdentity);
  F32 total[kChains];
  for (F32& t : total) t = identity;
  int64_t k = 0;
  constexpr int64_t kBlock = kReductionBlock * kChains * kLanes;
  for (; k + kBlock <= count; k += kBlock) {
    F32 part[kChains];
    for (F32& p : part) p = identity;
    for (int64_t n = 0; n < kBlock; n += kChains * kLanes)
      for (int chain = 0; chain < kChains; ++chain)
        part[chain] = Step::step(part[chain], load(x + k + n + chain * kLanes));
    for (int chain = 0; chain < kChains; ++chain)
      total[chain] = Step::merge(total[chain], part[chain]);
  }
  F32 part[kChains];
  for (F32& p : part) p = identity;
  for (; k + kChains * kLanes <= count; k += kChains * kLanes)
    for (int chain = 0; chain < kChains; ++chain)
      part[chain] = Step::step(part[chain], load(x + k + chain * kLanes));
  for (; k + kLanes <= count; k += kLanes) part[0] = Step::step(part[0], load(x + k));
  if (k < count) {
    const M32 mask = first_n(static_cast<int>(count - k));
    part[1] = select(mask, Step::step(part[1], load(x + k, mask)), part[1]);
  }
  for (int chain = 0; chain < kChains; ++chain)
    total[chain] = Step::merge(total[chain], part[chain]);
  return Step::fold(Step::merge(Step::merge(total[0], total[1]), Step::merge(total[2], total[3])));
}

// out[c] = merge over rows of x[r * row_stride + c]; with `merges`, out's values take part.
template <class Step, int kVectors>
static inline void reduce_column_block(const float* x, int64_t rows, int64_t row_stride, float* out,
                                       bool merges, const M32* mask) {
  const F32 identity = set1(Step::kIdentity);
  F32 total[kVectors] = {};
  for (int v = 0; v < kVectors; ++v) {
    total[v] = identity;
    if (merges) total[v] = mask != nullptr ? load(out + v * kLanes, *mask) : load(out + v * kLanes);
  }
  for (int64_t row = 0; row < rows;) {
    const int64_t end = row + kReductionBlock < rows ? row + kReductionBlock : rows;
    F32 part[kVectors] = {};
    for (int v = 0; v < kVectors; ++v) part[v] = identity;
    for (; row < end; ++row, x += row_stride)
      for (int v = 0; v < kVectors; ++v)
        part[v] = Step::step(part[v],
                             mask != nullptr ? load(x + v * kLanes, *mask) : load(x + v * kLanes));
    for (int v = 0; v < kVectors; ++v) total[v] = Step::merge(total[v], part[v]);
  }
  for (int v = 0; v < kVectors; ++v)
    mask != nullptr ? store(out + v * kLanes, total[v], *mask) : store(out + v * kLanes, total[v]);
}

inline constexpr int64_t kWideColumns = 1024;
inline constexpr int kRowsTogether = 8;

template <class Step>
CAMSHAFT_INLINE F32 step_rows(F32 result, const float* x, int64_t rows, int64_t row_stride) {
  if (rows == kRowsTogether) {
#pragma GCC unroll 8
    for (int r = 0; r < kRowsTogether; ++r) result = Step::step(result, load(x + r * row_stride));
    return result;
  }
  for (int64_t r = 0; r < rows; ++r) result = Step::step(result, load(x + r * row_stride));
  return result;
}

// The same for up to kWideColumns columns of whole vectors, eight rows at a time: eight long
// streams. Down narrow blocks every row is on another page (64 rows of 4 KB: 1.6 times as long).
template <class Step>
static inline void reduce_wide_columns(const float* x, int64_t rows, int64_t row_stride,
                                       int64_t cols, float* out, bool merges) {
  const F32 identity = set1(Step::kIdentity);
  alignas(64) float part[kWideColumns];
  for (int64_t row = 0; row < rows; merges = true) {
    const int64_t begin = row,
                  end = begin + kReductionBlock < rows ? begin + kReductionBlock : rows;
    while (row < end) {
      const int64_t count = end - row < kRowsTogether ? end - row : kRowsTogether;
      const bool is_first = row == begin, is_last = row + count == end;
      for (int64_t c = 0; c < cols; c += kLanes) {
        const F32 result = step_rows<Step>(is_first ? identity : load(part + c),
                                           x + row * row_stride + c, count, row_stride);
        if (is_last)
          store(out + c, Step::merge(merges ? load(out + c) : identity, result));
        else
          store(part + c, result);
      }
      row += count;
    }
  }
}

template <class Step>
static inline void reduce_columns(const float* x, int64_t rows, int64_t row_stride, int64_t cols,
                                  float* out, bool merges) {
  constexpr int kVectors = 4;
  int64_t c = 0;
  if (rows >= 2 * kRowsTogether)
    for (; c + 2 * kVectors * kLanes <= cols;) {
      const int64_t left = (cols - c) / kLanes * kLanes,
                    count = left < kWideColumns ? left : kWideColumns;
      reduce_wide_columns<Step>(x + c, rows, row_stride, count, out + c, merges);
      c += count;
    }
  for (; c + kVectors * kLanes <= cols; c += kVectors * kLanes)
    reduce_column_block<Step, kVectors>(x + c, rows, row_stride, out + c, merges, nullptr);
  for (; c + kLanes <= cols; c += kLanes)
    reduce_column_block<Step, 1>(x + c, rows, row_stride, out + c, merges, nullptr);
  if (c == cols) return;
  const M32 mask = first_n(static_cast<int>(cols - c));
  reduce_column_block<Step, 1>(x + c, rows, row_stride, out + c, merges, &mask);
}

// A reduction of a view to a view: a loop nest split into what is kept and what is reduced,
// innermost dimension apart.
struct Reduction {
  void (*run)(const Reduction&, const float* x, float* y, ThreadPool*);
  Nest nest;  // tensor 0: x, tensor 1: y
  int kept[ir::kMaxRank + 2], reduced[ir::kMaxRank + 2];
  int num_kept = 0, num_reduced = 0;
  int64_t kept_count = 1, reduced_count = 1;
  bool line = false;  // the innermost dimension is reduced
  ir::ReduceOp op;
  float scale;  // of means
  double predicted_us;

  // Offsets of the `index`-th element over the kept dimensions in tensor t, over the reduced ones
  // in x.
  int64_t offset_of_kept(int t, int64_t index) const {
    return offset_of(kept, num_kept, nest.strides[t], index);
  }
  int64_t offset_of_reduced(int64_t index) const {
    return offset_of(reduced, num_reduced, nest.strides[0], index);
  }

 private:
  int64_t offset_of(const int* dims, int count, const int64_t* strides, int64_t index) const {
    if (count == 0) return 0;
    int64_t offset = 0;
    for (int k = count - 1; k > 0; --k) {
      offset += index % nest.extents[dims[k]] * strides[dims[k]];
      index /= nest.extents[dims[k]];
    }
    offset += index * strides[dims[0]];
    return offset;
  }
};

static inline uint32_t dims_of(const ir::Ints& axes) {
  uint32_t dims = 0;
  for (const int64_t axis : axes) dims |= 1u << axis;
  return dims;
}

// y of a Reduce with x's rank: extents of 1 where dimensions are not kept.
TensorView with_reduced_extents(const TensorView& x, const TensorView& y,
                                const ir::ReduceAttrs& attrs);

// The loop nest alone, without `run`, `op` and what hangs on it.
Reduction split_reduction(const TensorView& x, const TensorView& y, uint32_t dims);

// y = op over the dimensions d of x with bit d of `dims`; y has x's rank, extent 1 there, and
// elements. Not kLogSumExp.
Reduction plan_reduction(const TensorView& x, const TensorView& y, uint32_t dims, ir::ReduceOp op);
static inline void run_reduction(const Reduction& r, const float* x, float* y, ThreadPool* pool) {
  r.run(r, x, y, pool);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
