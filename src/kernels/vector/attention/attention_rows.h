// SPDX-License-Identifier: Apache-2.0
// What attention does with rows of scores and of results.
#pragma once

#include "kernels/simd/bytes.h"
#include "kernels/simd/float16.h"
#include "kernels/simd/products.h"
#include "kernels/simd/shuffles.h"
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

// Keys nobody sees have weight 0.
static inline void hide(float* scores, int64_t first, int64_t last) {
  for (int64_t k = first; k < last; ++k) scores[k] = -kInfinity;
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
  return fma(power_slope<Stored>(fraction) * fraction, power, power);
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

// Scores become e^(score - shift), shift being the largest, stored from scores + first on; gives
// their sum.
template <class Stored>
CAMSHAFT_INLINE float exponentials_of(float* scores, int64_t first, int64_t last, float shift) {
  // Of nothing but -infinity every weight is 0.
  const F32 by = set1(shift == -kInfinity ? 0 : shift);
  F32 a = zero(), b = zero();
  auto* to = reinterpret_cast<Stored*>(scores + first);
  int64_t k = first;
  for (; k + 2 * kLanes <= last; k += 2 * kLanes, to += 2 * kLanes) {
    const F32 e = weight_of<Stored>(load(scores + k) - by),
              f = weight_of<Stored>(load(scores + k + kLanes) - by);
    store_weights(to, e);
    store_weights(to + kLanes, f);
    a = a + e;
    b = b + f;
  }
  if (k < last) {
    const F32 e = weight_of<Stored>(load(scores + k) - by);
    store_weights(to, e);
    a = a + e;
  }
  return reduce_add(a + b);
}

CAMSHAFT_INLINE float exponential(float x) {
  float lanes[kLanes];
  store(lanes, weight_of(set1(x)));
  return lanes[0];
}

// The first block of a row: sets its maximum and sum.
template <class Stored = float>
CAMSHAFT_INLINE float first_exponentials(float* scores, int64_t first, int64_t last, float& maximum,
                                         float& sum) {
  maximum = largest_of(scores, first, last);
  sum = exponentials_of<Stored>(scores, first, last, maximum);
  return 1;
}

// Another block: the factor for what was summed before.
template <class Stored>
CAMSHAFT_INLINE float exponentials(float* scores, int64_t first, int64_t last, float& maximum,
                                   float& sum) {
  const float found = largest_of(scores, first, last), before = maximum;
  float rescale = 1;
  if (found > before) {
    maximum = found;
    rescale = exponential(before - found);
  }
  sum = sum * rescale + exponentials_of<Stored>(scores, first, last, maximum);
  return rescale;
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
