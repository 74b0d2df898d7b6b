// SPDX-License-Identifier: Apache-2.0
// The transforms of Winograd convolution F(m,3) on vectors of channels. Interpolation points 0,
// ±√½, ±√2, ∞ keep the error of F(4,3) near 1e-6 of the largest output; matrices as in Lavin &
// Gray, "Fast Algorithms for Convolutional Neural Networks", with those points.
#pragma once

#include "kernels/simd/simd.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

struct F43 {
  static constexpr int kOut = 4, kIn = 6;
  static constexpr float kA = 0.70710678118654752f, kB = 1.41421356237309505f;  // the points
  static constexpr float kA2 = 0.5f, kB2 = 2.0f;

  CAMSHAFT_INLINE void input(const F32* d, F32* v) {
    const F32 a2 = set1(kA2), b2 = set1(kB2), a = set1(kA), b = set1(kB), sum = set1(kA2 + kB2);
    const F32 even1 = fnma(b2, d[2], d[4]), odd1 = fnma(b2, d[1], d[3]);
    const F32 even2 = fnma(a2, d[2], d[4]), odd2 = fnma(a2, d[1], d[3]);
    v[0] = fnma(sum, d[2], d[0] + d[4]);
    v[1] = fma(a, odd1, even1);
    v[2] = fnma(a, odd1, even1);
    v[3] = fma(b, odd2, even2);
    v[4] = fnma(b, odd2, even2);
    v[5] = fnma(sum, d[3], d[1] + d[5]);
  }
  CAMSHAFT_INLINE void output(const F32* m, F32* y) {
    const F32 s1 = m[1] + m[2], d1 = m[1] - m[2], s2 = m[3] + m[4], d2 = m[3] - m[4];
    y[0] = m[0] + s1 + s2;
    y[1] = fma(set1(kA), d1, set1(kB) * d2);
    y[2] = fma(set1(kA2), s1, set1(kB2) * s2);
    y[3] = fma(set1(kA * kA2), d1, fma(set1(kB * kB2), d2, m[5]));
  }
  // G applied to three weights, in double: done once, while building.
  static void weights(const double* g, double* u) {
    const double a = 0.70710678118654752440, b = 1.41421356237309504880, a2 = 0.5, b2 = 2;
    const double na = 2 * a2 * (a2 - b2), nb = 2 * b2 * (b2 - a2);
    u[0] = g[0] / (a2 * b2);
    u[1] = (g[0] + a * g[1] + a2 * g[2]) / na;
    u[2] = (g[0] - a * g[1] + a2 * g[2]) / na;
    u[3] = (g[0] + b * g[1] + b2 * g[2]) / nb;
    u[4] = (g[0] - b * g[1] + b2 * g[2]) / nb;
    u[5] = g[2];
  }
};

struct F23 {
  static constexpr int kOut = 2, kIn = 4;
  CAMSHAFT_INLINE void input(const F32* d, F32* v) {
    v[0] = d[0] - d[2];
    v[1] = d[1] + d[2];
    v[2] = d[2] - d[1];
    v[3] = d[1] - d[3];
  }
  CAMSHAFT_INLINE void output(const F32* m, F32* y) {
    y[0] = m[0] + m[1] + m[2];
    y[1] = m[1] - m[2] - m[3];
  }
  static void weights(const double* g, double* u) {
    u[0] = g[0];
    u[1] = (g[0] + g[1] + g[2]) / 2;
    u[2] = (g[0] - g[1] + g[2]) / 2;
    u[3] = g[2];
  }
};

// The vertical half of B^T d B for one pixel column: kIn rows down, kIn values out, `step` floats
// apart.
template <class F, class Load>
CAMSHAFT_INLINE void transform_column(const Load& row, float* out, int64_t step) {
  F32 d[F::kIn], v[F::kIn];
#pragma GCC unroll 8
  for (int h = 0; h < F::kIn; ++h) d[h] = row(h);
  F::input(d, v);
#pragma GCC unroll 8
  for (int h = 0; h < F::kIn; ++h) store(out + h * step, v[h]);
}

// The horizontal half for one row of one tile: kIn neighbouring pixels in, points `plane` floats
// apart out.
template <class F>
CAMSHAFT_INLINE void transform_row(const float* pixels, float* out, int64_t plane) {
  F32 d[F::kIn], v[F::kIn];
#pragma GCC unroll 8
  for (int w = 0; w < F::kIn; ++w) d[w] = load(pixels + w * kLanes);
  F::input(d, v);
#pragma GCC unroll 8
  for (int w = 0; w < F::kIn; ++w) store(out + w * plane, v[w]);
}

// A^T m A of one vector of channels: point t at m + t * kStep. Pixels come out row by row.
template <class F, int kStep>
CAMSHAFT_INLINE void transform_back(const float* m, F32 (&y)[F::kOut][F::kOut]) {
  F32 half[F::kOut][F::kIn];
#pragma GCC unroll 8
  for (int w = 0; w < F::kIn; ++w) {
    F32 column[F::kIn], out[F::kOut];
#pragma GCC unroll 8
    for (int h = 0; h < F::kIn; ++h) column[h] = load(m + (h * F::kIn + w) * kStep);
    F::output(column, out);
#pragma GCC unroll 4
    for (int h = 0; h < F::kOut; ++h) half[h][w] = out[h];
  }
#pragma GCC unroll 4
  for (int h = 0; h < F::kOut; ++h) F::output(half[h], y[h]);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
