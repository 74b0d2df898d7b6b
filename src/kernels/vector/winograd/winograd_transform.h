// SPDX-License-Identifier: Apache-2.0
// The transforms of Winograd convolution F(m,3) on vectors of channels; matrices as in Lavin &
// Gray, "Fast Algorithms for Convolutional Neural Networks".
//
// A form F makes kOut² pixels of kIn² and says how: input() and output() are one dimension of the
// transforms, weights() of that of the filter.
#pragma once

#include <cstddef>

#include "kernels/simd/words.h"
#include "kernels/vector/gemm/gemm_int16_tile.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

// What a form over floats and one over codes have to say of their vectors.
struct FloatLanes {
  using In = F32;
  using Sum = F32;
  using Element = float;
  using Value = float;  // of a product
  static constexpr int kInLanes = kLanes;
  static constexpr int kOfL2 = 3;  // V of a block takes a third of it
  using Tail = M32;                // which of the last channels there are
  CAMSHAFT_INLINE_MEMBER static Tail tail(int64_t channels) {
    return first_n(static_cast<int>(channels));
  }
  CAMSHAFT_INLINE_MEMBER static In padding() { return zero(); }
  // Channels of a pixel.
  struct Reader {
    static constexpr int64_t kBytes = 4;
    CAMSHAFT_INLINE_MEMBER In operator()(const std::byte* p) const {
      return load(reinterpret_cast<const float*>(p));
    }
    CAMSHAFT_INLINE_MEMBER In operator()(const std::byte* p, Tail tail) const {
      return load(reinterpret_cast<const float*>(p), tail);
    }
  };
  CAMSHAFT_INLINE_MEMBER static In get(const float* p) { return load(p); }
  CAMSHAFT_INLINE_MEMBER static void put(float* p, In a) { store(p, a); }
  CAMSHAFT_INLINE_MEMBER static Sum get_sum(const float* p) { return load(p); }
  static TileKernel product_kernel(int vecs, int rows) { return tile_kernel(vecs, rows); }
};
struct Int16Lanes {
  using In = W16;
  using Sum = I32;
  using Element = int16_t;
  using Value = int32_t;
  static constexpr int kInLanes = kWords;
  static constexpr int kOfL2 = 6;  // M takes twice V's bytes
  using Tail = int64_t;
  CAMSHAFT_INLINE_MEMBER static Tail tail(int64_t channels) {
    return channels < kWords ? channels : kWords;
  }
  CAMSHAFT_INLINE_MEMBER static In padding() { return wset1(0); }
  struct Reader {
    static constexpr int64_t kBytes = 1;
    W16 zero_point;
    CAMSHAFT_INLINE_MEMBER In operator()(const std::byte* p) const {
      return load_codes(reinterpret_cast<const uint8_t*>(p)) - zero_point;
    }
    CAMSHAFT_INLINE_MEMBER In operator()(const std::byte* p, Tail tail) const {
      return load_codes(reinterpret_cast<const uint8_t*>(p), tail) - zero_point;
    }
  };
  CAMSHAFT_INLINE_MEMBER static In get(const int16_t* p) { return wload(p); }
  CAMSHAFT_INLINE_MEMBER static void put(int16_t* p, In a) { wstore(p, a); }
  CAMSHAFT_INLINE_MEMBER static Sum get_sum(const int32_t* p) { return iload(p); }
  static TileKernel product_kernel(int vecs, int rows) { return int16_tile_kernel(vecs, rows); }
};

// Interpolation points 0, ±√½, ±√2, ∞ keep the error of floats near 1e-6 of the largest output.
struct F43 : FloatLanes {
  static constexpr int kOut = 4, kIn = 6;
  static constexpr float kA = 0.70710678118654752f, kB = 1.41421356237309505f;  // the points
  static constexpr float kA2 = 0.5f, kB2 = 2.0f;

  CAMSHAFT_INLINE_MEMBER static void input(const F32* d, F32* v) {
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
  CAMSHAFT_INLINE_MEMBER static void output(const F32* m, F32* y) {
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

struct F23 : FloatLanes {
  static constexpr int kOut = 2, kIn = 4;
  CAMSHAFT_INLINE_MEMBER static void input(const F32* d, F32* v) {
    v[0] = d[0] - d[2];
    v[1] = d[1] + d[2];
    v[2] = d[2] - d[1];
    v[3] = d[1] - d[3];
  }
  CAMSHAFT_INLINE_MEMBER static void output(const F32* m, F32* y) {
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

// Codes: points 0, ±1, ±2, ∞ with every fraction taken out of the weights' transform, so that all
// values are integers. Codes less their zero point are at most 255, so transformed ones at most
// 100 * 255 = 25,500, and transformed weights at most 49 * 128 = 6,272: both fit in 16 bits. The
// transform back gives denominator(i) * denominator(j) times the sums, modulo 2³²: dividing by 3
// is a multiplication there, dividing by 2^n costs the n highest bits. So sums are exact where
// they stay below 2^(31 - 2 * kMostShift), which is proved from the weights.
struct F43Codes : Int16Lanes {
  static constexpr int kOut = 4, kIn = 6;
  static constexpr int kShift[kOut] = {3, 2, 1, 1};  // denominators: 3 * 2^shift
  static constexpr int kMostShift = 3;
  static constexpr int32_t kInverse = 954437177;  // 9 * it = 1 modulo 2³²

  CAMSHAFT_INLINE_MEMBER static void input(const W16* d, W16* v) {
    const W16 even = d[4] - d[2], twice_odd = shift_left<1>(d[3] - d[1]);
    v[0] = shift_left<2>(d[0] - d[2]) + even;
    v[1] = shift_left<2>(d[1] + d[2]) - (d[3] + d[4]);
    v[2] = shift_left<2>(d[2] - d[1]) + (d[3] - d[4]);
    v[3] = even + twice_odd;
    v[4] = even - twice_odd;
    v[5] = (d[5] - d[3]) - shift_left<1>(twice_odd);
  }
  CAMSHAFT_INLINE_MEMBER static void output(const I32* m, I32* y) {
    const I32 s1 = m[1] + m[2], d1 = m[1] - m[2], s2 = m[3] + m[4], d2 = m[3] - m[4];
    y[0] = m[0] + shift_left<2>(s1) + s2;
    y[1] = shift_left<1>(d1) + d2;
    y[2] = s1 + s2;
    y[3] = d1 + shift_left<1>(d2) + m[5];
  }
  static void weights(const int* g, int* u) {
    u[0] = 6 * g[0];
    u[1] = g[0] + g[1] + g[2];
    u[2] = g[0] - g[1] + g[2];
    u[3] = g[0] + 2 * g[1] + 4 * g[2];
    u[4] = g[0] - 2 * g[1] + 4 * g[2];
    u[5] = 6 * g[2];
  }
};

struct F23Codes : Int16Lanes {
  static constexpr int kOut = 2, kIn = 4;
  static constexpr int kShift[kOut] = {1, 1};
  static constexpr int kMostShift = 1;
  static constexpr int32_t kInverse = 1;

  CAMSHAFT_INLINE_MEMBER static void input(const W16* d, W16* v) {
    v[0] = d[0] - d[2];
    v[1] = d[1] + d[2];
    v[2] = d[2] - d[1];
    v[3] = d[1] - d[3];
  }
  CAMSHAFT_INLINE_MEMBER static void output(const I32* m, I32* y) {
    y[0] = m[0] + m[1] + m[2];
    y[1] = m[1] - m[2] - m[3];
  }
  static void weights(const int* g, int* u) {
    u[0] = 2 * g[0];
    u[1] = g[0] + g[1] + g[2];
    u[2] = g[0] - g[1] + g[2];
    u[3] = 2 * g[2];
  }
};

// The transformed filter of one pair of channels.
template <class F, class T, class U>
void transform_filter(const T* g, U (&u)[F::kIn][F::kIn]) {
  U half[F::kIn][3], column_out[F::kIn];
  for (int j = 0; j < 3; ++j) {
    const U column[3] = {g[j], g[3 + j], g[6 + j]};
    F::weights(column, column_out);
    for (int i = 0; i < F::kIn; ++i) half[i][j] = column_out[i];
  }
  for (int i = 0; i < F::kIn; ++i) F::weights(half[i], u[i]);
}

// The vertical half of B^T d B for one pixel column: kIn rows down, kIn values out, `step`
// elements apart.
template <class F, class Load>
CAMSHAFT_INLINE void transform_column(const Load& row, typename F::Element* out, int64_t step) {
  typename F::In d[F::kIn], v[F::kIn];
#pragma GCC unroll 8
  for (int h = 0; h < F::kIn; ++h) d[h] = row(h);
  F::input(d, v);
#pragma GCC unroll 8
  for (int h = 0; h < F::kIn; ++h) F::put(out + h * step, v[h]);
}

// The horizontal half for one row of one tile: kIn neighbouring pixels in, points `plane`
// elements apart out.
template <class F>
CAMSHAFT_INLINE void transform_row(const typename F::Element* pixels, typename F::Element* out,
                                   int64_t plane) {
  typename F::In d[F::kIn], v[F::kIn];
#pragma GCC unroll 8
  for (int w = 0; w < F::kIn; ++w) d[w] = F::get(pixels + w * F::kInLanes);
  F::input(d, v);
#pragma GCC unroll 8
  for (int w = 0; w < F::kIn; ++w) F::put(out + w * plane, v[w]);
}

// A^T m A of one vector of channels: point t at m + t * kStep. Pixels come out row by row.
template <class F, int kStep>
CAMSHAFT_INLINE void transform_back(const typename F::Value* m,
                                    typename F::Sum (&y)[F::kOut][F::kOut]) {
  typename F::Sum half[F::kOut][F::kIn];
#pragma GCC unroll 8
  for (int w = 0; w < F::kIn; ++w) {
    typename F::Sum column[F::kIn], out[F::kOut];
#pragma GCC unroll 8
    for (int h = 0; h < F::kIn; ++h) column[h] = F::get_sum(m + (h * F::kIn + w) * kStep);
    F::output(column, out);
#pragma GCC unroll 4
    for (int h = 0; h < F::kOut; ++h) half[h][w] = out[h];
  }
#pragma GCC unroll 4
  for (int h = 0; h < F::kOut; ++h) F::output(half[h], y[h]);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
