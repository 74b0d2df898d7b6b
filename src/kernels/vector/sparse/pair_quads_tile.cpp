// SPDX-License-Identifier: Apache-2.0
// The register tile over panels of quads. Of four neighbouring elements of a row there are six
// pairs; a shuffle makes them all, once for all columns, and the codes of a vector of columns pick
// from them by a permutation of lanes. The rest is a dense step: the two products of a quad are
// added in the order of K.
#include "kernels/vector/sparse/pair_quads.h"

#include "kernels/simd/products.h"
#include "kernels/vector/gemm/gemm_bf16.h"
#include "kernels/vector/gemm/gemm_bf16_tile.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

struct StoresByConversion {
  template <class T>
  static CAMSHAFT_INLINE_MEMBER void put(T* c, F32 v) {
    store_floats(c, v);
  }
  template <class T>
  static CAMSHAFT_INLINE_MEMBER void put(T* c, F32 v, int64_t count) {
    store_floats(c, v, count);
  }
};

#if defined(CAMSHAFT_TARGET_scalar)

struct QuadProduct : StoresByConversion {
  struct Table {
    float of_row[kQuadRows];
  };
  using Codes = I32;

  static CAMSHAFT_INLINE_MEMBER float widened(uint16_t bits) {
    const uint32_t wide = static_cast<uint32_t>(bits) << 16;
    float value;
    __builtin_memcpy(&value, &wide, sizeof value);
    return value;
  }
  static Table table(const std::byte* a) {
    uint16_t bits[kQuadRows];
    __builtin_memcpy(bits, a, sizeof bits);
    Table table;
    for (int row = 0; row < kQuadRows; ++row) table.of_row[row] = widened(bits[row]);
    return table;
  }
  template <int kSlot>
  static Codes codes(const std::byte* at) {
    I32 codes = iload(reinterpret_cast<const int32_t*>(at));
    for (int lane = 0; lane < kLanes; ++lane)
      codes.v[lane] =
          static_cast<int32_t>(static_cast<uint32_t>(codes.v[lane]) >> (kCodeBits * kSlot) & 15);
    return codes;
  }
  static void add(const Table& table, Codes codes, const std::byte* pairs, F32& sum) {
    uint16_t bits[2 * kLanes];
    __builtin_memcpy(bits, pairs, sizeof bits);
    for (int lane = 0; lane < kLanes; ++lane) {
      const int pair = codes.v[lane];
      sum.v[lane] += table.of_row[kFirstOfPair[pair]] * widened(bits[2 * lane]);
      sum.v[lane] += table.of_row[kSecondOfPair[pair]] * widened(bits[2 * lane + 1]);
    }
  }
};

#else

// Bytes of the pair a code stands for; lanes of 128 bits hold the quad twice.
struct PairBytes {
  alignas(64) uint8_t at[kLanes * kLaneBytes] = {};
  constexpr PairBytes() {
    for (int lane = 0; lane < kLanes; ++lane) {
      const int pair = lane < kQuadPairs ? lane : 0;
      for (int byte = 0; byte < 2; ++byte) {
        at[4 * lane + byte] = static_cast<uint8_t>(2 * kFirstOfPair[pair] + byte);
        at[4 * lane + 2 + byte] = static_cast<uint8_t>(2 * kSecondOfPair[pair] + byte);
      }
    }
  }
};
constexpr PairBytes kPairBytes;

#if defined(CAMSHAFT_TARGET_avx512)
using Words = __m512i;
CAMSHAFT_INLINE Words load_words(const void* p) {
  return _mm512_loadu_si512(p);
}
CAMSHAFT_INLINE Words pairs_of(int64_t quad) {
  return _mm512_shuffle_epi8(_mm512_set1_epi64(quad), load_words(kPairBytes.at));
}
CAMSHAFT_INLINE F32 low_halves(Words pairs) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16))};
}
CAMSHAFT_INLINE F32 high_halves(Words pairs) {
  return {_mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(-65536)))};
}
template <int kBits>
CAMSHAFT_INLINE Words shifted(Words codes) {
  return _mm512_srli_epi32(codes, kBits);
}
#else
using Words = __m256i;
CAMSHAFT_INLINE Words load_words(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
CAMSHAFT_INLINE Words pairs_of(int64_t quad) {
  return _mm256_shuffle_epi8(_mm256_set1_epi64x(quad), load_words(kPairBytes.at));
}
CAMSHAFT_INLINE F32 low_halves(Words pairs) {
  return {_mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16))};
}
CAMSHAFT_INLINE F32 high_halves(Words pairs) {
  return {_mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32(-65536)))};
}
template <int kBits>
CAMSHAFT_INLINE Words shifted(Words codes) {
  return _mm256_srli_epi32(codes, kBits);
}
#endif

CAMSHAFT_INLINE Words pairs_at(const std::byte* a) {
  int64_t quad;
  __builtin_memcpy(&quad, a, sizeof quad);
  return pairs_of(quad);
}

// Permutations look at the lowest bits of a lane only: codes need no mask.
struct QuadProduct : StoresByConversion {
  struct Table {
    F32 first, second;
  };
  using Codes = I32;

  static CAMSHAFT_INLINE_MEMBER Table table(const std::byte* a) {
    const Words pairs = pairs_at(a);
    return {low_halves(pairs), high_halves(pairs)};
  }
  template <int kSlot>
  static CAMSHAFT_INLINE_MEMBER Codes codes(const std::byte* at) {
    return {shifted<kCodeBits * kSlot>(load_words(at))};
  }
  static CAMSHAFT_INLINE_MEMBER void add(const Table& table, Codes codes, const std::byte* at,
                                         F32& sum) {
    const Words pairs = load_words(at);
    sum = fma(permute(table.second, codes), high_halves(pairs),
              fma(permute(table.first, codes), low_halves(pairs), sum));
  }
};

#endif

#if defined(CAMSHAFT_TARGET_avx512)
struct Dpbf16QuadProduct : StoresByInstruction {
  using Table = Words;
  using Codes = Words;

  static CAMSHAFT_INLINE_MEMBER Words table(const std::byte* a) { return pairs_at(a); }
  template <int kSlot>
  static CAMSHAFT_INLINE_MEMBER Words codes(const std::byte* at) {
    return shifted<kCodeBits * kSlot>(load_words(at));
  }
  static CAMSHAFT_INLINE_MEMBER void add(Words table, Words codes, const std::byte* at, F32& sum) {
    asm("vdpbf16ps %2, %1, %0"
        : "+v"(sum.v)
        : "v"(_mm512_permutexvar_epi32(codes, table)), "v"(load_words(at)));
  }
};
#endif

template <class M, int kRows, int kVecs>
struct QuadLoop {
  Accumulators<F32, kRows, kVecs> acc;
  const std::byte *a, *b;
  int64_t a_stride, ahead;

  template <int kSlot>
  CAMSHAFT_INLINE_MEMBER void add_quad() {
    typename M::Table tables[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) tables[r] = M::table(a + r * a_stride + kSlot * kQuadRows * 2);
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) {
      const std::byte* column = b + v * kLanes * kLaneBytes;
      const std::byte* pairs = column + (1 + kSlot) * kVecs * kLanes * kLaneBytes;
      const typename M::Codes codes = M::template codes<kSlot>(column);
      __builtin_prefetch(pairs + ahead, 0, 2);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) M::add(tables[r], codes, pairs, acc.v[r][v]);
    }
  }
  template <int... kSlots>
  CAMSHAFT_INLINE_MEMBER void add_quads(std::integer_sequence<int, kSlots...>) {
    (add_quad<kSlots>(), ...);
  }
  template <int... kSlots>
  CAMSHAFT_INLINE_MEMBER void add_some(int64_t quads, std::integer_sequence<int, kSlots...>) {
    ((kSlots < quads ? add_quad<kSlots>() : void()), ...);
  }
  CAMSHAFT_INLINE_MEMBER void run(int64_t quads) {
    constexpr auto kAll = std::make_integer_sequence<int, kBlockQuads>();
    for (; quads >= kBlockQuads; quads -= kBlockQuads) {
      add_quads(kAll);
      a += kBlockQuads * kQuadRows * 2;
      b += kBlockRows * kVecs * kLanes * kLaneBytes;
    }
    if (quads > 0) add_some(quads, kAll);
  }
};

template <class M, int kRows, int kVecs>
CAMSHAFT_INLINE void run_quad_tile(const Tile& t) {
  QuadLoop<M, kRows, kVecs> loop;
  start_floats(t, t.c.first, first_n(static_cast<int>(t.c.cols - (kVecs - 1) * kLanes)), loop.acc);
  if (t.k.num_segments > 0) {  // one: K of a product
    loop.a = t.a.first + t.k.segments[0].a;
    loop.b = t.b.first;
    loop.a_stride = t.a.stride;
    loop.ahead = t.ahead.from ? t.ahead.from - t.b.first : 0;
    loop.run(t.k.length * 2 / kQuadRows);
  }
  finish_pairs<M>(t, loop.acc);
}

template <int kRows, int kVecs>
struct WidenedQuads {
  static void run(const Tile& t) { run_quad_tile<QuadProduct, kRows, kVecs>(t); }
};

// Sums, tables of each row and a vector of codes in registers.
#if defined(CAMSHAFT_TARGET_avx512)
constexpr int kMaxQuadTileRows[kMaxVecs + 1] = {0, 4, 4, 4, 4, 4, 4, 3, 2};
#elif defined(CAMSHAFT_TARGET_avx2)
constexpr int kMaxQuadTileRows[kMaxVecs + 1] = {0, 3, 3, 2, 2, 1, 1, 1, 1};
#else
constexpr int kMaxQuadTileRows[kMaxVecs + 1] = {0, 2, 2};
#endif
constexpr KernelTable<WidenedQuads, kMaxQuadTileRows> kTable;

#if defined(CAMSHAFT_TARGET_avx512)
template <int kRows, int kVecs>
struct Dpbf16Quads {
  static void run(const Tile& t) { run_quad_tile<Dpbf16QuadProduct, kRows, kVecs>(t); }
};
constexpr KernelTable<Dpbf16Quads, kMaxQuadTileRows> kDpbf16Table;
#endif

}  // namespace

int quad_max_rows(int vecs) {
  return kMaxQuadTileRows[vecs];
}

TileKernel quad_tile_kernel(int vecs, int rows) {
#if defined(CAMSHAFT_TARGET_avx512)
  if (uses(Feature::kBf16)) return kDpbf16Table.at(vecs, rows);
#endif
  return kTable.at(vecs, rows);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
