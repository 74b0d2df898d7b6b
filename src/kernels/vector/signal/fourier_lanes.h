// SPDX-License-Identifier: Apache-2.0
// Fourier transforms of short lengths, one in every lane: passes of Stockham's algorithm, which
// leaves results in order, over factors of 4, 2 and odd primes.
#pragma once

#include "kernels/fourier_length.h"
#include "kernels/vector/counts.h"
#include "kernels/vector/prepare.h"

#include <cmath>
#include <numbers>

namespace camshaft::kernels::CAMSHAFT_TARGET {

// A pass: `groups` * `stride` butterflies of `radix` elements.
struct FourierPass {
  int radix;
  int64_t groups, stride;
  const float* twiddles;  // per group those of elements 1 …, cosine and sine
  const float* roots;     // of odd radices: cosine and sine of 2π jk / radix, j, k in [1, radix/2]
};

struct LaneTransform {
  static constexpr int kMostPasses = 40;
  int64_t length = 1;
  int num_passes = 0;
  FourierPass passes[kMostPasses] = {};
};

// Element k: kLanes real and as many imaginary parts, `pitch` floats behind those of element k - 1.
struct LaneRows {
  float *re, *im;
  int64_t pitch;
};

static inline void put_root(int64_t k, int64_t length, float* to) {
  const double angle =
      2 * std::numbers::pi * static_cast<double>(k % length) / static_cast<double>(length);
  to[0] = static_cast<float>(std::cos(angle));
  to[1] = static_cast<float>(std::sin(angle));
}

static inline FourierPass make_pass(int radix, int64_t length, int64_t stride,
                                    PreparedKernel& kernel) {
  const int64_t groups = length / radix, half = radix / 2;
  float* twiddles = keep_array<float>(kernel, groups * (radix - 1) * 2);
  for (int64_t p = 0; p < groups; ++p)
    for (int64_t j = 1; j < radix; ++j)
      put_root(p * j, length, twiddles + (p * (radix - 1) + j - 1) * 2);
  float* roots = keep_array<float>(kernel, at_least_one(half * half * 2));
  for (int64_t j = 1; j <= half; ++j)
    for (int64_t k = 1; k <= half; ++k)
      put_root(j * k, radix, roots + ((j - 1) * half + k - 1) * 2);
  return {radix, groups, stride, twiddles, roots};
}

static inline LaneTransform make_lane_transform(int64_t length, PreparedKernel& kernel) {
  LaneTransform transform;
  transform.length = length;
  int64_t rest = length, stride = 1;
  while (rest > 1) {
    int radix = rest % 4 == 0 ? 4 : 2;
    while (rest % radix != 0) ++radix;
    transform.passes[transform.num_passes++] = make_pass(radix, rest, stride, kernel);
    rest /= radix, stride *= radix;
  }
  return transform;
}

// --- butterflies

CAMSHAFT_INLINE void butterfly_of_four(F32* re, F32* im) {
  const F32 even_re = re[0] + re[2], even_im = im[0] + im[2], first_re = re[0] - re[2],
            first_im = im[0] - im[2];
  const F32 odd_re = re[1] + re[3], odd_im = im[1] + im[3], last_re = re[1] - re[3],
            last_im = im[1] - im[3];
  re[0] = even_re + odd_re, im[0] = even_im + odd_im;
  re[2] = even_re - odd_re, im[2] = even_im - odd_im;
  re[1] = first_re + last_im, im[1] = first_im - last_re;
  re[3] = first_re - last_im, im[3] = first_im + last_re;
}

// Results j and radix - j share their products.
template <int kMost>
CAMSHAFT_INLINE void odd_butterfly(int radix, const float* roots, F32* re, F32* im) {
  constexpr int kHalf = kMost / 2;
  const int half = radix / 2;
  F32 plus_re[kHalf], plus_im[kHalf], minus_re[kHalf], minus_im[kHalf];
  const F32 x_re = re[0], x_im = im[0];
#pragma GCC unroll 4
  for (int k = 0; k < half; ++k) {
    const int a = k + 1, b = radix - 1 - k;
    plus_re[k] = re[a] + re[b], plus_im[k] = im[a] + im[b];
    minus_re[k] = re[a] - re[b], minus_im[k] = im[a] - im[b];
    re[0] = re[0] + plus_re[k], im[0] = im[0] + plus_im[k];
  }
#pragma GCC unroll 4
  for (int j = 0; j < half; ++j) {
    F32 sum_re = x_re, sum_im = x_im, turned_re = zero(), turned_im = zero();
#pragma GCC unroll 4
    for (int k = 0; k < half; ++k) {
      const F32 cosine = set1(roots[(j * half + k) * 2]),
                sine = set1(roots[(j * half + k) * 2 + 1]);
      sum_re = fma(cosine, plus_re[k], sum_re), sum_im = fma(cosine, plus_im[k], sum_im);
      turned_re = fma(sine, minus_im[k], turned_re), turned_im = fma(sine, minus_re[k], turned_im);
    }
    re[j + 1] = sum_re + turned_re, im[j + 1] = sum_im - turned_im;
    re[radix - 1 - j] = sum_re - turned_re, im[radix - 1 - j] = sum_im + turned_im;
  }
}

// kRadix 0: any odd one.
template <int kRadix>
CAMSHAFT_INLINE void butterfly(const FourierPass& pass, F32* re, F32* im) {
  if constexpr (kRadix == 2) {
    const F32 sum_re = re[0] + re[1], sum_im = im[0] + im[1];
    re[1] = re[0] - re[1], im[1] = im[0] - im[1];
    re[0] = sum_re, im[0] = sum_im;
  } else if constexpr (kRadix == 4) {
    butterfly_of_four(re, im);
  } else if constexpr (kRadix > 0) {
    odd_butterfly<kRadix>(kRadix, pass.roots, re, im);
  } else {
    odd_butterfly<kMostRadix>(pass.radix, pass.roots, re, im);
  }
}

template <int kRadix>
void run_pass(const FourierPass& pass, const LaneRows& x, const LaneRows& y) {
  constexpr int kMost = kRadix > 0 ? kRadix : static_cast<int>(kMostRadix);
  const int radix = kRadix > 0 ? kRadix : pass.radix;
  const float* twiddles = pass.twiddles;
  const int64_t step = pass.stride * pass.groups * x.pitch, y_step = pass.stride * y.pitch;
  for (int64_t p = 0; p < pass.groups; ++p, twiddles += 2 * (radix - 1)) {
    int64_t from = pass.stride * p * x.pitch, to = pass.stride * radix * p * y.pitch;
    for (int64_t q = 0; q < pass.stride; ++q, from += x.pitch, to += y.pitch) {
      F32 re[kMost], im[kMost];
#pragma GCC unroll 8
      for (int k = 0; k < radix; ++k)
        re[k] = load(x.re + from + k * step), im[k] = load(x.im + from + k * step);
      butterfly<kRadix>(pass, re, im);
      store(y.re + to, re[0]), store(y.im + to, im[0]);
#pragma GCC unroll 8
      for (int j = 1; j < radix; ++j) {
        F32 out_re = re[j], out_im = im[j];
        if (p > 0) {  // times cosine - i sine
          const F32 cosine = set1(twiddles[2 * (j - 1)]), sine = set1(twiddles[2 * (j - 1) + 1]);
          out_re = fma(cosine, re[j], sine * im[j]);
          out_im = fnma(sine, re[j], cosine * im[j]);
        }
        store(y.re + to + j * y_step, out_re), store(y.im + to + j * y_step, out_im);
      }
    }
  }
}

static inline void run_pass(const FourierPass& pass, const LaneRows& x, const LaneRows& y) {
  switch (pass.radix) {
    case 2:
      return run_pass<2>(pass, x, y);
    case 3:
      return run_pass<3>(pass, x, y);
    case 4:
      return run_pass<4>(pass, x, y);
    case 5:
      return run_pass<5>(pass, x, y);
    case 7:
      return run_pass<7>(pass, x, y);
    default:
      return run_pass<0>(pass, x, y);
  }
}

// From `x` to `y`, which is none of the two between.
static inline void transform_lanes(const LaneTransform& transform, LaneRows x, const LaneRows& y,
                                   const LaneRows (&between)[2]) {
  for (int k = 0; k < transform.num_passes; ++k) {
    const LaneRows& to = k + 1 == transform.num_passes ? y : between[k % 2];
    run_pass(transform.passes[k], x, to);
    x = to;
  }
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
