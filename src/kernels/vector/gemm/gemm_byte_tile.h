// SPDX-License-Identifier: Apache-2.0
// The register tile of bytes over an arithmetic M: int32 accumulators, scaled, clamped and rounded
// to bytes where they are. Included by the byte tile sources only.
#pragma once

#include "kernels/simd/bytes.h"
#include "kernels/simd/products.h"
#include "kernels/vector/gemm/gemm_multiply.h"
#include "kernels/vector/program/gate.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

// One of the tiles of a call: what differs from one to the next.
struct TilePart {
  const std::byte* a;
  std::byte* c;
  const std::byte* residual;
  const int32_t* row_start;

  explicit TilePart(const Tile& t)
      : a(t.a.first), c(t.c.first), residual(t.residual.first), row_start(t.start.rows) {}
  CAMSHAFT_INLINE_MEMBER void advance(const Tile& t, int rows) {
    a += rows * t.a.stride;
    c += rows * t.c.stride;
    if (residual) residual += rows * t.residual.stride;
    if (row_start) row_start += rows;
  }
};

template <int kRows, int kVecs>
CAMSHAFT_INLINE void start_bytes(const Tile& t, const TilePart& part,
                                 Accumulators<I32, kRows, kVecs>& acc) {
#pragma GCC unroll 8
  for (int v = 0; v < kVecs; ++v) {
    const I32 first =
        t.start.bias ? iload(static_cast<const int32_t*>(t.start.bias) + v * kLanes) : iset1(0);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) acc.v[r][v] = first;
  }
  if (!part.row_start) return;
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    const I32 more = iset1(part.row_start[r]);
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) acc.v[r][v] = acc.v[r][v] + more;
  }
}

// Stores value(r, v) with `store_one(pointer, value)`, the last vector of a row with
// `store_tail` where it is not full.
template <int kRows, int kVecs, class T, class Value, class StoreOne, class StoreTail>
CAMSHAFT_INLINE void store_tile(const Tile& t, std::byte* to, const Value& value,
                                const StoreOne& store_one, const StoreTail& store_tail) {
  const bool full = t.c.cols == kVecs * kLanes;
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    T* c = reinterpret_cast<T*>(to + r * t.c.stride);
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) {
      if (v < kVecs - 1 || full)
        store_one(c + v * kLanes, value(r, v));
      else
        store_tail(c + v * kLanes, value(r, v));
    }
  }
}

#if defined(CAMSHAFT_HAS_CODE_PACKING)

// The same of codes: four vectors at a time, whatever rows they are of. What does not fit saturates
// in 16 bits; the bounds are those of bytes, where four vectors are one.
template <int kRows, int kVecs>
CAMSHAFT_INLINE void store_code_tile(const Tile& t, std::byte* to, int tail_cols,
                                     const Accumulators<F32, kRows, kVecs>& acc) {
  constexpr int kCount = kRows * kVecs;
  const CodePacking packing(t.bytes.offset, t.bytes.code_min, t.bytes.code_max);
  const bool full = tail_cols == kLanes;
  const auto value = [&acc](int k) __attribute__((always_inline)) {
    const int last = k < kCount ? k : kCount - 1;
    return to_int(acc.v[last / kVecs][last % kVecs]);
  };
#pragma GCC unroll 16
  for (int first = 0; first < kCount; first += 4) {
    const PackedCodes codes =
        packing.pack(value(first), value(first + 1), value(first + 2), value(first + 3));
    const auto place = [ to, &t, first ](int k) __attribute__((always_inline)) {
      return reinterpret_cast<uint8_t*>(to + (first + k) / kVecs * t.c.stride) +
             (first + k) % kVecs * kLanes;
    };
    if (kVecs % 4 == 0 && full) {
      codes.store(place(0));
    } else if (kVecs % 2 == 0 && full) {
      codes.store_half<0>(place(0));
      if (first + 2 < kCount) codes.store_half<1>(place(2));
    } else {
      const auto fits = [ first, full ](int k) __attribute__((always_inline)) {
        return full || (first + k) % kVecs < kVecs - 1;
      };
      fits(0) ? codes.store_quarter<0>(place(0)) : codes.store_quarter<0>(place(0), tail_cols);
      if (first + 1 < kCount)
        fits(1) ? codes.store_quarter<1>(place(1)) : codes.store_quarter<1>(place(1), tail_cols);
      if (first + 2 < kCount)
        fits(2) ? codes.store_quarter<2>(place(2)) : codes.store_quarter<2>(place(2), tail_cols);
      if (first + 3 < kCount)
        fits(3) ? codes.store_quarter<3>(place(3)) : codes.store_quarter<3>(place(3), tail_cols);
    }
  }
}

#else

// The same of codes; whole rows are packed four and two vectors at a time.
template <int kRows, int kVecs, class Value>
CAMSHAFT_INLINE void store_code_tile(const Tile& t, std::byte* to, int tail_cols,
                                     const Value& value) {
  constexpr int kFours = kVecs / 4 * 4, kTwos = kVecs / 2 * 2;
  const bool full = t.c.cols == kVecs * kLanes;
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    uint8_t* c = reinterpret_cast<uint8_t*>(to + r * t.c.stride);
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

#endif

template <int kRows, int kVecs>
CAMSHAFT_INLINE void round_to_codes(const Tile& t, Accumulators<F32, kRows, kVecs>& acc) {
  const F32 low = set1(t.bytes.code_low), high = set1(t.bytes.code_high);
  const F32 scale = set1(t.bytes.code_scale), shift = set1(t.bytes.code_shift);
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v)
      acc.v[r][v] = fma(round_even(min(high, max(low, acc.v[r][v]))), scale, shift);
}

template <int kRows, int kVecs>
CAMSHAFT_INLINE void multiply_by_gate(const Tile& t, Accumulators<F32, kRows, kVecs>& acc) {
  const F32 scale = set1(t.bytes.code_scale), shift = set1(t.bytes.code_shift);
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v)
      acc.v[r][v] = fma(acc.v[r][v] * gate_of(*t.bytes.gate, acc.v[r][v]), scale, shift);
}

template <int kRows, int kVecs>
CAMSHAFT_INLINE void add_residual(const Tile& t, const std::byte* from, int tail_cols,
                                  Accumulators<F32, kRows, kVecs>& acc) {
  const F32 scale = set1(t.bytes.residual_scale);
  const M32 tail = first_n(tail_cols);
  const bool full = tail_cols == kLanes;  // part of a vector of bytes is slow to load without masks
  if (t.residual.type == ResidualType::kByte) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const uint8_t* more = reinterpret_cast<const uint8_t*>(from + r * t.residual.stride);
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
    const float* more = reinterpret_cast<const float*>(from + r * t.residual.stride);
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) {
      const F32 value = v == kVecs - 1 ? load(more + v * kLanes, tail) : load(more + v * kLanes);
      acc.v[r][v] = fma(value, scale, acc.v[r][v]);
    }
  }
}

template <int kRows, int kVecs>
CAMSHAFT_INLINE void finish_bytes(const Tile& t, const TilePart& part,
                                  const Accumulators<I32, kRows, kVecs>& sums) {
  const int tail_cols = static_cast<int>(t.c.cols - (kVecs - 1) * kLanes);
  if (t.c.type == TileOut::kInt) {
    const auto sum = [&sums](int r, int v) __attribute__((always_inline)) {
      return bits_as_float(sums.v[r][v]);
    };
    store_tile<kRows, kVecs, float>(
        t, part.c, sum, [](float* c, F32 v) { store(c, v); },
        [tail_cols](float* c, F32 v) { store_first(c, v, tail_cols); });
    return;
  }
  Accumulators<F32, kRows, kVecs> acc;
#pragma GCC unroll 8
  for (int v = 0; v < kVecs; ++v) {
    const F32 multiplier = load(t.bytes.multiplier + v * kLanes),
              addend = load(t.bytes.addend + v * kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) acc.v[r][v] = fma(to_float(sums.v[r][v]), multiplier, addend);
  }
  if (t.bytes.middle == ByteMiddle::kRounds) round_to_codes(t, acc);
  if (t.bytes.middle == ByteMiddle::kGates) multiply_by_gate(t, acc);
  if (t.residual.first) add_residual(t, part.residual, tail_cols, acc);
  if (t.bytes.slope != 1) {
    const F32 slope = set1(t.bytes.slope), post = set1(t.bytes.post);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) acc.v[r][v] = max(slope * acc.v[r][v], acc.v[r][v]) + post;
    }
  }
  const F32 low = set1(t.bytes.low), high = set1(t.bytes.high);
#if defined(CAMSHAFT_HAS_CODE_PACKING)
  if (t.c.type == TileOut::kByte) {
    if (!t.bytes.fits_int)
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
        for (int v = 0; v < kVecs; ++v) acc.v[r][v] = min(high, acc.v[r][v]);
    store_code_tile(t, part.c, tail_cols, acc);
    return;
  }
#endif
  // The constant operand comes first, so that NaN stays NaN.
  const auto clamped = [&acc, low, high ](int r, int v) __attribute__((always_inline)) {
    return min(high, max(low, acc.v[r][v]));
  };
#if !defined(CAMSHAFT_HAS_CODE_PACKING)
  if (t.c.type == TileOut::kByte) {
    const I32 offset = iset1(t.bytes.offset);
    const auto code = [&clamped, offset ](int r, int v) __attribute__((always_inline)) {
      return to_int(clamped(r, v)) + offset;
    };
    store_code_tile<kRows, kVecs>(t, part.c, tail_cols, code);
    return;
  }
#endif
  store_tile<kRows, kVecs, float>(
      t, part.c, clamped, [](float* c, F32 v) { store(c, v); },
      [tail_cols](float* c, F32 v) { store_first(c, v, tail_cols); });
}

// The tiles of a call; add(part, sums) adds the products.
template <int kRows, int kVecs, class Add>
CAMSHAFT_INLINE void run_byte_tiles(const Tile& t, const Add& add) {
  TilePart part(t);
  for (int64_t left = t.repeats.count; left > 0; --left) {
    Accumulators<I32, kRows, kVecs> acc;
    start_bytes(t, part, acc);
    add(part, acc);
    finish_bytes(t, part, acc);
    part.advance(t, kRows);
  }
}

template <class M, int kRows, int kVecs>
CAMSHAFT_INLINE void run_byte_tile(const Tile& t) {
  run_byte_tiles<kRows, kVecs>(
      t, [&t](const TilePart& part, Accumulators<I32, kRows, kVecs>& acc)
             __attribute__((always_inline)) { multiply<M>(t, part.a, acc); });
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
