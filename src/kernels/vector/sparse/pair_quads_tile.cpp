// SPDX-License-Identifier: Apache-2.0
// The register tile over panels of quads. Of four neighbouring elements of a row there are six
// pairs; a shuffle makes them all, once for all columns, and the codes of a vector of columns pick
// from them by a permutation of lanes. The rest is a dense step: the two products of a quad are
// added in the order of K.
#include "kernels/vector/sparse/pair_quads.h"

#include <type_traits>

#include "kernels/simd/picks.h"
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

// Vectors of fewer lanes than there are pairs: each lane looks its own up.
struct QuadByLanes : StoresByConversion {
  struct Table {
    float of_row[kQuadRows];
  };
  using Codes = PackedLanes;

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
    return shift_dwords<kCodeBits * kSlot>(load_lanes(at));
  }
  static void add(const Table& table, const Codes& codes, const std::byte* pairs, F32& sum) {
    uint32_t code[kLanes];
    float first[kLanes], second[kLanes];
    __builtin_memcpy(code, &codes, sizeof code);
    for (int lane = 0; lane < kLanes; ++lane) {
      const uint32_t pair = code[lane] & ((1 << kCodeBits) - 1);
      first[lane] = table.of_row[kFirstOfPair[pair]];
      second[lane] = table.of_row[kSecondOfPair[pair]];
    }
    const PackedLanes values = load_lanes(pairs);
    sum = fma(load(first), first_of_pairs(values), sum);
    sum = fma(load(second), second_of_pairs(values), sum);
  }
};

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

CAMSHAFT_INLINE PackedLanes pairs_at(const std::byte* a) {
  return pick(broadcast_eight(a), load_lanes(reinterpret_cast<const std::byte*>(kPairBytes.at)));
}

// Permutations look at the lowest bits of a lane only: codes need no mask.
struct QuadByPermutation : StoresByConversion {
  struct Table {
    F32 first, second;
  };
  using Codes = I32;

  static CAMSHAFT_INLINE_MEMBER Table table(const std::byte* a) {
    const PackedLanes pairs = pairs_at(a);
    return {first_of_pairs(pairs), second_of_pairs(pairs)};
  }
  template <int kSlot>
  static CAMSHAFT_INLINE_MEMBER Codes codes(const std::byte* at) {
    return int_lanes(shift_dwords<kCodeBits * kSlot>(load_lanes(at)));
  }
  static CAMSHAFT_INLINE_MEMBER void add(const Table& table, Codes codes, const std::byte* at,
                                         F32& sum) {
    const PackedLanes pairs = load_lanes(at);
    sum = fma(permute(table.second, codes), second_of_pairs(pairs),
              fma(permute(table.first, codes), first_of_pairs(pairs), sum));
  }
};

using QuadProduct = std::conditional_t<kLanes >= kQuadPairs, QuadByPermutation, QuadByLanes>;

#if defined(CAMSHAFT_HAS_BF16)
struct Dpbf16QuadProduct : StoresByInstruction {
  using Table = PackedLanes;
  using Codes = PackedLanes;

  static CAMSHAFT_INLINE_MEMBER Table table(const std::byte* a) { return pairs_at(a); }
  template <int kSlot>
  static CAMSHAFT_INLINE_MEMBER Codes codes(const std::byte* at) {
    return shift_dwords<kCodeBits * kSlot>(load_lanes(at));
  }
  static CAMSHAFT_INLINE_MEMBER void add(Table table, Codes codes, const std::byte* at, F32& sum) {
    Dpbf16Product().add_product(pick_dwords(table, codes), load_lanes(at), sum);
  }
};
#endif

template <class M, int kRows, int kVecs>
struct QuadLoop {
  Accumulators<F32, kRows, kVecs> acc;
  const std::byte *a, *b;
  int64_t a_stride, ahead;

  // The quad in `slot` of a block; codes: as they lie in front of it, kSlot codes to be shifted
  // out.
  template <int kSlot>
  CAMSHAFT_INLINE_MEMBER void add_quad(const std::byte* codes, int64_t slot) {
    typename M::Table tables[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) tables[r] = M::table(a + r * a_stride + slot * kQuadRows * 2);
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) {
      const std::byte* pairs = b + (v + (1 + slot) * kVecs) * kLanes * kLaneBytes;
      const typename M::Codes of_vector = M::template codes<kSlot>(codes + v * kLanes * kLaneBytes);
      __builtin_prefetch(pairs + ahead, 0, 2);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) M::add(tables[r], of_vector, pairs, acc.v[r][v]);
    }
  }
  template <int... kSlots>
  CAMSHAFT_INLINE_MEMBER void add_quads(std::integer_sequence<int, kSlots...>) {
    (add_quad<kSlots>(b, kSlots), ...);
  }
  // Fewer than a block holds: codes are shifted in memory, so that there is one copy of the code.
  CAMSHAFT_INLINE_MEMBER void add_some(int64_t quads) {
    std::byte codes[kVecs * kLanes * kLaneBytes];
    __builtin_memcpy(codes, b, sizeof codes);
    for (int64_t slot = 0; slot < quads; ++slot) {
      add_quad<0>(codes, slot);
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) {
        std::byte* const at = codes + v * kLanes * kLaneBytes;
        const PackedLanes shifted = shift_dwords<kCodeBits>(load_lanes(at));
        __builtin_memcpy(at, &shifted, sizeof shifted);
      }
    }
  }
  CAMSHAFT_INLINE_MEMBER void run(int64_t quads) {
    for (; quads >= kBlockQuads; quads -= kBlockQuads) {
      add_quads(std::make_integer_sequence<int, kBlockQuads>());
      a += kBlockQuads * kQuadRows * 2;
      b += kBlockRows * kVecs * kLanes * kLaneBytes;
    }
    if (quads > 0) add_some(quads);
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

constexpr KernelTable<WidenedQuads, kMaxQuadRows> kTable;

#if defined(CAMSHAFT_HAS_BF16)
template <int kRows, int kVecs>
struct Dpbf16Quads {
  static void run(const Tile& t) { run_quad_tile<Dpbf16QuadProduct, kRows, kVecs>(t); }
};
constexpr KernelTable<Dpbf16Quads, kMaxQuadRows> kDpbf16Table;
#endif

}  // namespace

int quad_max_rows(int vecs) {
  return kMaxQuadRows[vecs];
}

TileKernel quad_tile_kernel(int vecs, int rows) {
#if defined(CAMSHAFT_HAS_BF16)
  if (uses(Feature::kBf16)) return kDpbf16Table.at(vecs, rows);
#endif
  return kTable.at(vecs, rows);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
