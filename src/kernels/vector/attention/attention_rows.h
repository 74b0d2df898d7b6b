// SPDX-License-Identifier: Apache-2.0
// What attention does with rows of scores and of results.
#pragma once

#include "kernels/simd/bytes.h"
#include "kernels/simd/float16.h"
#include "kernels/simd/products.h"
#include "kernels/simd/shuffles.h"
#include "kernels/vector/gemm/gemm_tile.h"
#include "kernels/vector/math.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

static inline void scale_copy(const float* from, float factor, int64_t count, float* to) {
  const F32 by = set1(factor);
  int64_t k = 0;
  for (; k + kLanes <= count; k += kLanes) store(to + k, load(from + k) * by);
  if (k < count) {
    const int rest = static_cast<int>(count - k);
    store_first(to + k, load(from + k, first_n(rest)) * by, rest);
  }
}

static inline void scale_in_place(float* y, float factor, int64_t count) {
  scale_copy(y, factor, count, y);
}

// y += factor * x.
static inline void add_scaled(const float* x, float factor, int64_t count, float* y) {
  const F32 by = set1(factor);
  int64_t k = 0;
  for (; k + kLanes <= count; k += kLanes) store(y + k, fma(load(x + k), by, load(y + k)));
  if (k < count) {
    const int rest = static_cast<int>(count - k);
    const M32 mask = first_n(rest);
    store_first(y + k, fma(load(x + k, mask), by, load(y + k, mask)), rest);
  }
}

static inline void fill(float* y, float value, int64_t count) {
  for (int64_t k = 0; k < count; ++k) y[k] = value;
}

inline constexpr int kIntoL1 = 3, kIntoL2 = 2;

// Rows of a few lines each, which the processor does not fetch by itself. Inlined: GCC drops calls
// of a function that does nothing but fetch.
template <int kLocality = kIntoL1>
CAMSHAFT_INLINE void fetch(const float* row, int64_t step, int64_t rows, int64_t columns) {
  constexpr int64_t kLineFloats = kCacheLine / kLaneBytes;
  for (int64_t r = 0; r < rows; ++r, row += step)
    for (int64_t at = 0; at < columns; at += kLineFloats)
      __builtin_prefetch(row + at, 0, kLocality);
}

// Keys nobody sees have weight 0. By whole vectors, of which a row consists: a load of one waits
// for the stores of single elements.
static inline void hide(float* scores, int64_t first, int64_t last) {
  for (int64_t k = first / kLanes * kLanes; k < last; k += kLanes) {
    const F32 x = load(scores + k);
    const F32 until_last = select(first_n(static_cast<int>(last - k)), set1(-kInfinity), x);
    store(scores + k, select(first_n(static_cast<int>(first - k)), x, until_last));
  }
}

// (2^f - 1) / f for |f| ≤ 1/2: to 2e-7, or to 1e-4 where weights become bfloat16s (2e-3).
template <class Stored>
CAMSHAFT_INLINE F32 power_slope(F32 f) {
  constexpr float kFine[] = {0.6931470036506653f, 0.24022242426872253f, 0.05550733581185341f,
                             0.009671512991189957f, 0.001326472731307149f};
  constexpr float kCoarse[] = {0.69328292f, 0.24221076f, 0.05500875f};
  if constexpr (sizeof(Stored) == sizeof(float))
    return polynomial(f, kFine);
  else
    return polynomial(f, kCoarse);
}

// e^x for x ≤ 0, as a weight beside the largest one, which is 1: off by 2e-7 of itself and by 2e-8
// |x| of itself; 0 below -87.7, where 2^n has no exponent left.
template <class Stored = float>
CAMSHAFT_INLINE F32 weight_of(F32 x) {
  const F32 biased = set1(12582912.0f + 127);  // as in logistic_divisor()
  const F32 above = max(set1(-88.0f), x);      // NaN stays
  const F32 shifted = fma(above, set1(kLog2E), biased);
  const F32 fraction = fma(above, set1(kLog2E), biased - shifted);
  const F32 power = bits_as_float(shift_left<23>(bits_as_int(shifted)));
  return fma(power_slope<Stored>(fraction), fraction * power, power);
}

// The largest of whole vectors; a NaN is passed over.
CAMSHAFT_INLINE float largest_of(const float* scores, int64_t first, int64_t last) {
  F32 a = set1(-kInfinity), b = a;
  int64_t k = first;
  for (; k + 2 * kLanes <= last; k += 2 * kLanes) {
    a = max(load(scores + k), a);
    b = max(load(scores + k + kLanes), b);
  }
  if (k < last) a = max(load(scores + k), a);
  return reduce_max(max(a, b));
}

// bfloat16s are stored only where the tactic's feature, the instruction, is there.
template <class Stored>
CAMSHAFT_INLINE void store_weights(Stored* to, F32 weights) {
#if defined(CAMSHAFT_HAS_BF16)
  StoresByInstruction::put(to, weights);
#else
  store_floats(to, weights);
#endif
}

// What is added to scores; of nothing but -infinity every weight is 0.
CAMSHAFT_INLINE F32 shift_by(float maximum) {
  return set1(maximum == -kInfinity ? 0 : -maximum);
}

// Scores of kRows rows, `stride` apart, become e^(score - the row's maximum), stored from scores +
// first on; their sums, each added up in the same order whatever kRows is: which rows share a tile
// depends on the number of threads. `largest`: of the scores, or null.
template <class Stored, int kRows>
CAMSHAFT_INLINE void weigh_together(float* scores, int64_t stride, int64_t first, int64_t last,
                                    const float* maxima, float* sums, float* largest) {
  F32 shift[kRows], sum[kRows], top[kRows];
#pragma GCC unroll 2
  for (int r = 0; r < kRows; ++r)
    shift[r] = shift_by(maxima[r]), sum[r] = zero(), top[r] = set1(-kInfinity);
#pragma GCC unroll 2
  for (int64_t k = first; k < last; k += kLanes) {
    F32 weights[kRows];
#pragma GCC unroll 2
    for (int r = 0; r < kRows; ++r) {
      const F32 score = load(scores + r * stride + k);
      if (largest) top[r] = max(score, top[r]);
      weights[r] = weight_of<Stored>(shift[r] + score);
    }
#pragma GCC unroll 2
    for (int r = 0; r < kRows; ++r) {
      store_weights(reinterpret_cast<Stored*>(scores + r * stride + first) + (k - first),
                    weights[r]);
      sum[r] = sum[r] + weights[r];
    }
  }
#pragma GCC unroll 2
  for (int r = 0; r < kRows; ++r) {
    sums[r] = reduce_add(sum[r]);
    if (largest) largest[r] = reduce_max(top[r]);
  }
}

CAMSHAFT_INLINE float exponential(float x) {
  float lanes[kLanes];
  store(lanes, weight_of(set1(x)));
  return lanes[0];
}

// Scores of rows become weights beside the largest one of their row. Two rows at a time: the chain
// of instructions of one vector is long, and a row may have but few (64 keys: 0.85 of the time,
// Zen 3).
template <class Stored = float>
CAMSHAFT_INLINE void weigh_rows(float* scores, int64_t stride, int64_t rows, int64_t first,
                                int64_t last, const float* maxima, float* sums,
                                float* largest = nullptr) {
  int64_t r = 0;
  const auto largest_from = [&] { return largest ? largest + r : nullptr; };
  for (; r + 2 <= rows; r += 2)
    weigh_together<Stored, 2>(scores + r * stride, stride, first, last, maxima + r, sums + r,
                              largest_from());
  if (r < rows)
    weigh_together<Stored, 1>(scores + r * stride, stride, first, last, maxima + r, sums + r,
                              largest_from());
}

// A product of `a`, without bias and epilogue; rows of floats are a_stride and c_stride apart.
static inline Tile plain_tile(const float* a, int64_t a_stride, int64_t c_stride) {
  static constexpr Segment kAllSteps{0, 0};
  Tile tile{};
  tile.a.first = reinterpret_cast<const std::byte*>(a);
  tile.a.stride = a_stride * kLaneBytes;
  tile.k.segments = &kAllSteps;
  tile.k.num_segments = 1;
  tile.c.stride = c_stride * kLaneBytes;
  tile.floats.low = -kInfinity;
  tile.floats.high = kInfinity;
  tile.floats.slope = 1;
  return tile;
}

inline constexpr int64_t kDotsTogether = 4;

// y[0 … kCount) = factor * q · rows of k.
template <int kCount>
CAMSHAFT_INLINE void dots_of(const float* q, const float* k, int64_t k_stride, int64_t depth,
                             float factor, float* y) {
  F32 sum[kCount];
#pragma GCC unroll 4
  for (int c = 0; c < kCount; ++c) sum[c] = zero();
  int64_t p = 0;
  for (; p + kLanes <= depth; p += kLanes) {
    const F32 left = load(q + p);
#pragma GCC unroll 4
    for (int c = 0; c < kCount; ++c) sum[c] = fma(left, load(k + c * k_stride + p), sum[c]);
  }
  if (p < depth) {
    const M32 tail = first_n(static_cast<int>(depth - p));
    const F32 left = load(q + p, tail);
#pragma GCC unroll 4
    for (int c = 0; c < kCount; ++c) sum[c] = fma(left, load(k + c * k_stride + p, tail), sum[c]);
  }
  store_sums(sum, factor, y);
}

static inline void dots(const float* q, const float* k, int64_t k_stride, int64_t count,
                        int64_t depth, float factor, float* y) {
  if (count == kDotsTogether) return dots_of<kDotsTogether>(q, k, k_stride, depth, factor, y);
  for (int64_t c = 0; c < count; ++c) dots_of<1>(q, k + c * k_stride, 0, depth, factor, y + c);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
