// SPDX-License-Identifier: Apache-2.0
// The register tile of bytes over an arithmetic M: int32 accumulators, scaled, clamped and rounded
// to bytes where they are. Included by the byte tile sources only.
#pragma once

#include "kernels/simd/bytes.h"
#include "kernels/vector/gate.h"
#include "kernels/vector/gemm_byte_product.h"
#include "kernels/vector/gemm_multiply.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

template <int kRows, int kVecs>
CAMSHAFT_INLINE void start_bytes(const Tile& t, Accumulators<I32, kRows, kVecs>& acc) {
#pragma GCC unroll 8
  for (int v = 0; v < kVecs; ++v) {
    const I32 first = t.bias ? iload(static_cast<const int32_t*>(t.bias) + v * kLanes) : iset1(0);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) acc.v[r][v] = first;
  }
  if (!t.row_start) return;
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    const I32 more = iset1(t.row_start[r]);
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) acc.v[r][v] = acc.v[r][v] + more;
  }
}

// Stores value(r, v) with `store_one(pointer, value)`, the last vector of a row with
// `store_tail` where it is not full.
template <int kRows, int kVecs, class T, class Value, class StoreOne, class StoreTail>
CAMSHAFT_INLINE void store_tile(const Tile& t, const Value& value, const StoreOne& store_one,
                                const StoreTail& store_tail) {
  const bool full = t.cols == kVecs * kLanes;
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    T* c = reinterpret_cast<T*>(t.c + r * t.c_stride);
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) {
      if (v < kVecs - 1 || full)
        store_one(c + v * kLanes, value(r, v));
      else
        store_tail(c + v * kLanes, value(r, v));
    }
  }
}

// The same of codes; whole rows are packed four and two vectors at a time.
template <int kRows, int kVecs, class Value>
CAMSHAFT_INLINE void store_code_tile(const Tile& t, int tail_cols, const Value& value) {
  constexpr int kFours = kVecs / 4 * 4, kTwos = kVecs / 2 * 2;
  const bool full = t.cols == kVecs * kLanes;
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    uint8_t* c = reinterpret_cast<uint8_t*>(t.c + r * t.c_stride);
    if (full) {
#pragma GCC unroll 2
      for (int v = 0; v < kFours; v += 4)
        store_bytes(c + v * kLanes, value(r, v), value(r, v + 1), value(r, v + 2), value(r, v + 3));
      if constexpr (kFours < kTwos)
        store_bytes(c + kFours * kLanes, value(r, kFours), value(r, kFours + 1));
      if constexpr (kTwos < kVecs) store_codes(c + kTwos * kLanes, value(r, kTwos));
    } else {
#pragma GCC unroll 8
      for (int v = 0; v < kVecs - 1; ++v) store_codes(c + v * kLanes, value(r, v));
      store_codes(c + (kVecs - 1) * kLanes, value(r, kVecs - 1), tail_cols);
    }
  }
}

template <int kRows, int kVecs>
CAMSHAFT_INLINE void round_to_codes(const Tile& t, Accumulators<F32, kRows, kVecs>& acc) {
  const F32 low = set1(t.code_low), high = set1(t.code_high);
  const F32 scale = set1(t.code_scale), shift = set1(t.code_shift);
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v)
      acc.v[r][v] = fma(round_even(min(high, max(low, acc.v[r][v]))), scale, shift);
}

template <int kRows, int kVecs>
CAMSHAFT_INLINE void multiply_by_gate(const Tile& t, Accumulators<F32, kRows, kVecs>& acc) {
  const F32 scale = set1(t.code_scale), shift = set1(t.code_shift);
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v)
      acc.v[r][v] = fma(acc.v[r][v] * gate_of(*t.gate, acc.v[r][v]), scale, shift);
}

template <int kRows, int kVecs>
CAMSHAFT_INLINE void add_residual(const Tile& t, int tail_cols,
                                  Accumulators<F32, kRows, kVecs>& acc) {
  const F32 scale = set1(t.residual_scale);
  const M32 tail = first_n(tail_cols);
  const bool full = tail_cols == kLanes;  // part of a vector of bytes is slow to load without masks
  if (t.residual_is_byte) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const uint8_t* more = reinterpret_cast<const uint8_t*>(t.residual + r * t.residual_stride);
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) {
        const I32 codes = v < kVecs - 1 || full ? load_bytes(more + v * kLanes)
                                                : load_bytes(more + v * kLanes, tail_cols);
        acc.v[r][v] = fma(to_float(codes), scale, acc.v[r][v]);
      }
    }
    return;
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    const float* more = reinterpret_cast<const float*>(t.residual + r * t.residual_stride);
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) {
      const F32 value = v == kVecs - 1 ? load(more + v * kLanes, tail) : load(more + v * kLanes);
      acc.v[r][v] = fma(value, scale, acc.v[r][v]);
    }
  }
}

template <int kRows, int kVecs>
CAMSHAFT_INLINE void finish_bytes(const Tile& t, const Accumulators<I32, kRows, kVecs>& sums) {
  const int tail_cols = static_cast<int>(t.cols - (kVecs - 1) * kLanes);
  const M32 tail = first_n(tail_cols);
  if (t.out == TileOut::kInt) {
    const auto sum = [&sums](int r, int v) __attribute__((always_inline)) {
      return bits_as_float(sums.v[r][v]);
    };
    store_tile<kRows, kVecs, float>(
        t, sum, [](float* c, F32 v) { store(c, v); },
        [tail](float* c, F32 v) { store(c, v, tail); });
    return;
  }
  Accumulators<F32, kRows, kVecs> acc;
#pragma GCC unroll 8
  for (int v = 0; v < kVecs; ++v) {
    const F32 multiplier = load(t.multiplier + v * kLanes), addend = load(t.addend + v * kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) acc.v[r][v] = fma(to_float(sums.v[r][v]), multiplier, addend);
  }
  if (t.rounds_first) round_to_codes(t, acc);
  if (t.gate) multiply_by_gate(t, acc);
  if (t.residual) add_residual(t, tail_cols, acc);
  if (t.slope != 1) {
    const F32 slope = set1(t.slope), post = set1(t.post);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) acc.v[r][v] = max(slope * acc.v[r][v], acc.v[r][v]) + post;
    }
  }
  const F32 low = set1(t.low), high = set1(t.high);
  // The constant operand comes first, so that NaN stays NaN.
  const auto clamped = [&acc, low, high ](int r, int v) __attribute__((always_inline)) {
    return min(high, max(low, acc.v[r][v]));
  };
  if (t.out == TileOut::kFloat) {
    store_tile<kRows, kVecs, float>(
        t, clamped, [](float* c, F32 v) { store(c, v); },
        [tail](float* c, F32 v) { store(c, v, tail); });
    return;
  }
  const I32 offset = iset1(t.offset);
  const auto code = [&clamped, offset ](int r, int v) __attribute__((always_inline)) {
    return to_int(clamped(r, v)) + offset;
  };
  store_code_tile<kRows, kVecs>(t, tail_cols, code);
}

template <class M, int kRows, int kVecs>
CAMSHAFT_INLINE void run_byte_tile(const Tile& t) {
  Accumulators<I32, kRows, kVecs> acc;
  start_bytes(t, acc);
  multiply<M>(t, acc);
  finish_bytes(t, acc);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
