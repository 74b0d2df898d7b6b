// SPDX-License-Identifier: Apache-2.0
// The register tile of int16 pairs. AVX2, 6x2: per step 12 vpmaddwd, 12 vpaddd, 6 broadcast loads
// and 2 loads of B; 192 MAC in 6 cycles. With VNNI one vpdpwssd does both.
#include "kernels/vector/gemm_int16_tile.h"

#include "kernels/vector/gemm_byte_kernels.h"
#include "kernels/vector/gemm_multiply.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

#if defined(CAMSHAFT_TARGET_scalar)

struct PairProduct {
  using Sum = I32;
  struct Row {
    I32 even, odd;
  };
  using Column = Row;

  static CAMSHAFT_INLINE_MEMBER Row halves(I32 pairs) {
    return {shift_right_arithmetic<16>(shift_left<16>(pairs)), shift_right_arithmetic<16>(pairs)};
  }
  CAMSHAFT_INLINE_MEMBER Column column(const std::byte* b) const {
    return halves(iload(reinterpret_cast<const int32_t*>(b)));
  }
  CAMSHAFT_INLINE_MEMBER Row row(const std::byte* a) const {
    int32_t pair;
    __builtin_memcpy(&pair, a, sizeof pair);
    return halves(iset1(pair));
  }
  CAMSHAFT_INLINE_MEMBER void add_product(const Row& row, const Column& column, I32& sum) const {
    sum = sum + row.even * column.even + row.odd * column.odd;
  }
};

#else

#if defined(CAMSHAFT_TARGET_avx512)
using Pairs = __m512i;
CAMSHAFT_INLINE Pairs multiply_pairs(Pairs a, Pairs b) {
  return _mm512_madd_epi16(a, b);
}
CAMSHAFT_INLINE Pairs add_lanes(Pairs a, Pairs b) {
  return _mm512_add_epi32(a, b);
}
#define CAMSHAFT_DPWSSD "vpdpwssd %2, %1, %0"
#define CAMSHAFT_REGISTER "v"
#else
using Pairs = __m256i;
CAMSHAFT_INLINE Pairs multiply_pairs(Pairs a, Pairs b) {
  return _mm256_madd_epi16(a, b);
}
CAMSHAFT_INLINE Pairs add_lanes(Pairs a, Pairs b) {
  return _mm256_add_epi32(a, b);
}
#define CAMSHAFT_DPWSSD "%{vex%} vpdpwssd %2, %1, %0"
#define CAMSHAFT_REGISTER "x"
#endif

struct PairProduct {
  static constexpr uintptr_t kAhead = 4096;
  using Sum = I32;
  using Row = Pairs;
  using Column = Pairs;

  CAMSHAFT_INLINE_MEMBER Column column(const std::byte* b) const {
    __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(b) + kAhead));
    return iload(reinterpret_cast<const int32_t*>(b)).v;
  }
  CAMSHAFT_INLINE_MEMBER Row row(const std::byte* a) const {
    int32_t pair;
    __builtin_memcpy(&pair, a, sizeof pair);
    return iset1(pair).v;
  }
  CAMSHAFT_INLINE_MEMBER void add_product(Row row, Column column, I32& sum) const {
    sum.v = add_lanes(sum.v, multiply_pairs(row, column));
  }
};

// Written in assembly: the rest of the source needs no VNNI.
struct VnniPairProduct : PairProduct {
  CAMSHAFT_INLINE_MEMBER void add_product(Row row, Column column, I32& sum) const {
    asm(CAMSHAFT_DPWSSD
        : "+" CAMSHAFT_REGISTER(sum.v)
        : CAMSHAFT_REGISTER(row), CAMSHAFT_REGISTER(column));
  }
};

#endif

template <class M, int kRows, int kVecs>
CAMSHAFT_INLINE void run_pair_product(const Tile& t) {
  Accumulators<I32, kRows, kVecs> acc;
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVecs; ++v) acc.v[r][v] = iset1(0);
  multiply<M>(t, acc);
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVecs; ++v)
      istore(reinterpret_cast<int32_t*>(t.c + r * t.c_stride) + v * kLanes, acc.v[r][v]);
}

template <int kRows, int kVecs>
struct PairTile {
  static void run(const Tile& t) { run_pair_product<PairProduct, kRows, kVecs>(t); }
};
constexpr KernelTable<PairTile, kMaxInt16Rows> kTable;

#if !defined(CAMSHAFT_TARGET_scalar)
template <int kRows, int kVecs>
struct VnniPairTile {
  static void run(const Tile& t) { run_pair_product<VnniPairProduct, kRows, kVecs>(t); }
};
constexpr KernelTable<VnniPairTile, kMaxInt16Rows> kVnniTable;
#endif

}  // namespace

TileKernel int16_tile_kernel(int vecs, int rows) {
#if !defined(CAMSHAFT_TARGET_scalar)
  if (uses_vnni()) return kVnniTable.at(vecs, rows);
#endif
  return kTable.at(vecs, rows);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
