// SPDX-License-Identifier: Apache-2.0
// The register tile over sparse panels. Per step of eight bytes of A, row and vector of output
// channels: a shuffle and what a dense step of four bytes takes. 6x1 on AVX2 in chains of four: 13
// operations for 32 bytes of K, dense tiles take 18.
//
// Rows of A are broadcast again for every vector: loads have ports of their own, and tiles as high
// as dense ones stay in registers so.
#include "kernels/vector/sparse/gemm_sparse.h"

#include "kernels/vector/gemm/gemm_byte_kernels.h"
#include "kernels/vector/gemm/gemm_byte_tile.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

constexpr int kKinds = 4;

const SparseHeader& header_of(const Tile& t) {
  return *(reinterpret_cast<const SparseHeader*>(t.chain.ends) - 1);
}

// Rows r of A: a step's bytes lie at base[r / 4] + r % 4 * stride.
template <int kRows>
struct StepRows {
  static constexpr int kBases = (kRows + kRowsPerBase - 1) / kRowsPerBase;
  const std::byte* base[kBases];
  int64_t s, s3;

  CAMSHAFT_INLINE_MEMBER StepRows(const std::byte* a, int64_t stride) : s(stride), s3(3 * stride) {
    base[0] = a;
#pragma GCC unroll 8
    for (int k = 1; k < kBases; ++k) base[k] = base[k - 1] + kRowsPerBase * stride;
  }
  CAMSHAFT_INLINE_MEMBER const std::byte* at(int r) const {
    const int step = r % kRowsPerBase;
    return base[r / kRowsPerBase] + (step == 3 ? s3 : step * s);
  }
};

#if defined(CAMSHAFT_TARGET_scalar)

struct Select {
  uint8_t position[kLanes * kLaneBytes];
};
template <bool kBits>
Select selection(const std::byte* positions, int64_t row_bytes, int slot) {
  Select select;
  for (int k = 0; k < kLanes * kLaneBytes; ++k)
    select.position[k] =
        kBits ? static_cast<uint8_t>((std::to_integer<int>(positions[k]) >> (2 * slot) & 3) +
                                     (k % 2 == 0 ? 0 : 4))
              : std::to_integer<uint8_t>(positions[slot * row_bytes + k]);
  return select;
}

void add_product(const std::byte* a, const Select& select, const std::byte* weights, I32& sum) {
  int32_t lanes[kLanes];
  istore(lanes, sum);
  for (int k = 0; k < kLanes * kLaneBytes; ++k)
    lanes[k / kLaneBytes] += std::to_integer<int32_t>(a[select.position[k]]) *
                             static_cast<int8_t>(std::to_integer<uint8_t>(weights[k]));
  sum = iload(lanes);
}

template <bool kBits, int kRows, int kVecs>
void add_group(const Tile& t, const std::byte* a, const int32_t* order, const std::byte* b,
               Accumulators<I32, kRows, kVecs>& acc) {
  for (int slot = 0; slot < kSparseGroup; ++slot) {
    const StepRows<kRows> rows(a + t.chain.offsets[order[slot]], t.a.stride);
    for (int v = 0; v < kVecs; ++v) {
      const int64_t column = v * kLanes * kLaneBytes;
      const Select select =
          selection<kBits>(b + kSparseGroup * t.b.stride + column, t.b.stride, slot);
      for (int r = 0; r < kRows; ++r)
        add_product(rows.at(r), select, b + slot * t.b.stride + column, acc.v[r][v]);
    }
  }
}

#else

#if defined(CAMSHAFT_TARGET_avx512)
using Bytes = __m512i;
CAMSHAFT_INLINE Bytes broadcast_step(const std::byte* p) {
  int64_t eight;
  __builtin_memcpy(&eight, p, sizeof eight);
  return _mm512_set1_epi64(eight);
}
CAMSHAFT_INLINE Bytes pick(Bytes eight, Bytes positions) {
  return _mm512_shuffle_epi8(eight, positions);
}
template <int kSlot>
CAMSHAFT_INLINE Bytes unpack_bits(Bytes packed) {
  const Bytes mask = _mm512_set1_epi32(0x03030303), high = _mm512_set1_epi32(0x04000400);
  return _mm512_ternarylogic_epi32(_mm512_srli_epi16(packed, 2 * kSlot), mask, high, 0xEA);
}
#else
using Bytes = __m256i;
CAMSHAFT_INLINE Bytes broadcast_step(const std::byte* p) {
  int64_t eight;
  __builtin_memcpy(&eight, p, sizeof eight);
  return _mm256_set1_epi64x(eight);
}
CAMSHAFT_INLINE Bytes pick(Bytes eight, Bytes positions) {
  return _mm256_shuffle_epi8(eight, positions);
}
template <int kSlot>
CAMSHAFT_INLINE Bytes unpack_bits(Bytes packed) {
  const Bytes mask = _mm256_set1_epi32(0x03030303), high = _mm256_set1_epi32(0x04000400);
  return _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(packed, 2 * kSlot), mask), high);
}
#endif

// `positions`: the first row behind the weights.
template <bool kBits, int kSlot>
CAMSHAFT_INLINE Bytes selection(const std::byte* positions, int64_t row_bytes) {
  if constexpr (kBits)
    return unpack_bits<kSlot>(load_lanes(positions));
  else
    return load_lanes(positions + kSlot * row_bytes);
}

// One step of a group: do_product(picked bytes, weights, r, v).
template <bool kBits, int kSlot, int kRows, int kVecs, class Product>
CAMSHAFT_INLINE void add_step(const Tile& t, const std::byte* a, const int32_t* order,
                              const std::byte* b, const Product& do_product) {
  const StepRows<kRows> rows(a + t.chain.offsets[order[kSlot]], t.a.stride);
#pragma GCC unroll 8
  for (int v = 0; v < kVecs; ++v) {
    const std::byte* column = b + v * kLanes * kLaneBytes;
    const Bytes weights = load_lanes(column + kSlot * t.b.stride);
    const Bytes select = selection<kBits, kSlot>(column + kSparseGroup * t.b.stride, t.b.stride);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r)
      do_product(pick(broadcast_step(rows.at(r)), select), weights, r, v);
  }
}

template <bool kBits, int kRows, int kVecs, class Product>
CAMSHAFT_INLINE void add_steps(const Tile& t, const std::byte* a, const int32_t* order,
                               const std::byte* b, const Product& do_product) {
  add_step<kBits, 0, kRows, kVecs>(t, a, order, b, do_product);
  add_step<kBits, 1, kRows, kVecs>(t, a, order, b, do_product);
  add_step<kBits, 2, kRows, kVecs>(t, a, order, b, do_product);
  add_step<kBits, 3, kRows, kVecs>(t, a, order, b, do_product);
}

template <bool kBits, int kRows, int kVecs>
CAMSHAFT_INLINE void add_group(const Tile& t, const std::byte* a, const int32_t* order,
                               const std::byte* b, Accumulators<I32, kRows, kVecs>& acc) {
  const VnniProduct product;
#if defined(CAMSHAFT_TARGET_avx512)
  __builtin_prefetch(b + 4096);
#endif
  add_steps<kBits, kRows, kVecs>(
      t, a, order,
      b, [&](Bytes picked, Bytes weights, int r, int v) __attribute__((always_inline)) {
        product.add_product(picked, weights, acc.v[r][v]);
      });
}

#endif

#if defined(CAMSHAFT_TARGET_avx2)

// Keeps the compiler from adding in another order: it would need more registers than there are.
CAMSHAFT_INLINE void keep(Bytes& value) {
  asm("" : "+x"(value));
}

CAMSHAFT_INLINE Bytes broadcast_pair(const std::byte* p) {
  return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

// Steps 2 * kHalf and the next of a group: weights of a vector of columns, and what their rows of
// A are.
template <bool kBits, bool kInPairs, int kHalf>
struct HalfGroup {
  Bytes weights[2], select[2];

  CAMSHAFT_INLINE_MEMBER HalfGroup(const std::byte* column, int64_t row_bytes) {
    const std::byte* positions = column + kSparseGroup * row_bytes;
    weights[0] = load_lanes(column + 2 * kHalf * row_bytes);
    weights[1] = load_lanes(column + (2 * kHalf + 1) * row_bytes);
    select[0] = selection<kBits, 2 * kHalf>(positions, row_bytes);
    select[1] = selection<kBits, 2 * kHalf + 1>(positions, row_bytes);
    if (kBits && kInPairs) select[1] = _mm256_or_si256(select[1], _mm256_set1_epi8(kSparseStep));
  }
  // In registers, for several rows.
  CAMSHAFT_INLINE_MEMBER void hold() {
    keep(weights[0]);
    keep(weights[1]);
    keep(select[0]);
    keep(select[1]);
  }
  CAMSHAFT_INLINE_MEMBER void multiply(const std::byte* first, const std::byte* second,
                                       Bytes (&products)[2]) const {
    const Bytes both = kInPairs ? broadcast_pair(first) : broadcast_step(first);
    const Bytes next = kInPairs ? both : broadcast_step(second);
    products[0] = _mm256_maddubs_epi16(pick(both, select[0]), weights[0]);
    products[1] = _mm256_maddubs_epi16(pick(next, select[1]), weights[1]);
  }
};

// Half a group of one vector of columns. Sums of 16 bits last no longer than that: all rows of
// four steps where chains are of four, else one row's.
template <bool kBits, bool kInPairs, int kDepth, int kHalf, int kRows, int kVecs>
CAMSHAFT_INLINE void add_half(const StepRows<kRows>& first, const StepRows<kRows>& second,
                              const std::byte* column, int64_t row_bytes, int v,
                              Bytes (&sums)[kRows], Accumulators<I32, kRows, kVecs>& acc) {
  const Bytes ones = _mm256_set1_epi16(1);
  HalfGroup<kBits, kInPairs, kHalf> half(column, row_bytes);
  if (kRows > 1) half.hold();
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    Bytes products[2];
    half.multiply(first.at(r), second.at(r), products);
    Bytes& sum = acc.v[r][v].v;
    if constexpr (kDepth == 1) {
      sum = _mm256_add_epi32(sum, _mm256_add_epi32(_mm256_madd_epi16(products[0], ones),
                                                   _mm256_madd_epi16(products[1], ones)));
      keep(sum);
      continue;
    }
    Bytes both = _mm256_add_epi16(products[0], products[1]);
    if constexpr (kDepth == 4 && kHalf == 0) {
      sums[r] = both;
      keep(sums[r]);
      continue;
    }
    if (kDepth == 4) both = _mm256_add_epi16(both, sums[r]);
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(both, ones));
    keep(sum);
  }
}

// The steps of a group in chains of kDepth.
template <bool kBits, bool kInPairs, int kDepth, int kRows, int kVecs>
CAMSHAFT_INLINE void add_chains(const Tile& t, const std::byte* a, const int32_t* order,
                                const std::byte* b, Accumulators<I32, kRows, kVecs>& acc) {
  using Rows = StepRows<kRows>;
  const auto rows = [&t, a, order ](int slot) __attribute__((always_inline)) {
    return Rows(a + t.chain.offsets[order[slot]], t.a.stride);
  };
  const Rows rows0 = rows(0), rows1 = rows(1), rows2 = rows(2), rows3 = rows(3);
#pragma GCC unroll 8
  for (int v = 0; v < kVecs; ++v) {
    Bytes sums[kRows];
    const std::byte* column = b + v * kLanes * kLaneBytes;
    add_half<kBits, kInPairs, kDepth, 0>(rows0, rows1, column, t.b.stride, v, sums, acc);
    add_half<kBits, kInPairs, kDepth, 1>(rows2, rows3, column, t.b.stride, v, sums, acc);
  }
}

// The same of one row, which waits for weights: they are read in the order they lie in.
template <bool kBits, int kDepth, int kVecs>
CAMSHAFT_INLINE void add_row_chains(const Tile& t, const std::byte* a, const int32_t* order,
                                    const std::byte* b, Accumulators<I32, 1, kVecs>& acc) {
  Bytes sums[kVecs];
  const auto first = [&sums](Bytes picked, Bytes weights, int, int v)
      __attribute__((always_inline)) {
    sums[v] = _mm256_maddubs_epi16(picked, weights);
    keep(sums[v]);
  };
  const auto next = [&sums](Bytes picked, Bytes weights, int, int v)
      __attribute__((always_inline)) {
    sums[v] = _mm256_add_epi16(sums[v], _mm256_maddubs_epi16(picked, weights));
    keep(sums[v]);
  };
  const auto widen = [&sums, &acc ]() __attribute__((always_inline)) {
    const Bytes ones = _mm256_set1_epi16(1);
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) {
      acc.v[0][v].v = _mm256_add_epi32(acc.v[0][v].v, _mm256_madd_epi16(sums[v], ones));
      keep(acc.v[0][v].v);
    }
  };
  add_step<kBits, 0, 1, kVecs>(t, a, order, b, first);
  if constexpr (kDepth == 1) widen();
  kDepth == 1 ? add_step<kBits, 1, 1, kVecs>(t, a, order, b, first)
              : add_step<kBits, 1, 1, kVecs>(t, a, order, b, next);
  if constexpr (kDepth <= 2) widen();
  kDepth <= 2 ? add_step<kBits, 2, 1, kVecs>(t, a, order, b, first)
              : add_step<kBits, 2, 1, kVecs>(t, a, order, b, next);
  if constexpr (kDepth == 1) widen();
  kDepth == 1 ? add_step<kBits, 3, 1, kVecs>(t, a, order, b, first)
              : add_step<kBits, 3, 1, kVecs>(t, a, order, b, next);
  widen();
}

template <bool kBits, int kRows, int kVecs>
CAMSHAFT_INLINE void add_words(const Tile& t, const std::byte* a, const int32_t* order,
                               const std::byte* b, Accumulators<I32, kRows, kVecs>& acc) {
  add_steps<kBits, kRows, kVecs>(
      t, a, order,
      b, [&](Bytes picked, Bytes weights, int r, int v) __attribute__((always_inline)) {
        const WordProduct product;
        const WordProduct::Row row = {_mm256_and_si256(picked, _mm256_set1_epi16(255)),
                                      _mm256_srli_epi16(picked, 8)};
        const WordProduct::Column column = {_mm256_srai_epi16(_mm256_slli_epi16(weights, 8), 8),
                                            _mm256_srai_epi16(weights, 8)};
        product.add_product(row, column, acc.v[r][v]);
      });
}

#endif

// Every span's groups, kind after kind: add_kind(kind, a, order, b) adds one group.
template <class AddGroup>
CAMSHAFT_INLINE void for_each_group(const Tile& t, const std::byte* row, const AddGroup& add) {
  const SparseHeader& header = header_of(t);
  const int64_t group_bytes =
      (header.packs_bits ? kSparseGroup + 1 : 2 * kSparseGroup) * t.b.stride;
  for (int64_t segment = 0; segment < t.k.num_segments; ++segment) {
    const int64_t span = t.k.segments[segment].b;
    const std::byte* a = row + t.k.segments[segment].a;
    const int32_t* ends = t.chain.ends + span * kKinds;
    const int32_t* order = t.chain.order + span * header.groups * kSparseGroup;
    const std::byte* b = t.b.first + span * header.groups * group_bytes;
    add(a, ends, order, b, group_bytes);
  }
}

// The groups of a segment, in order: from `order` and `b` on, of kinds that end at `ends`.
struct Groups {
  const int32_t *ends, *order;
  const std::byte* b;
  int64_t bytes;  // of a group

  CAMSHAFT_INLINE void next(Groups& groups) {
    groups.order += kSparseGroup;
    groups.b += groups.bytes;
  }
};

// How groups are added: one like the other,
struct EachAlone {
  template <bool kBits, int kRows, int kVecs>
  CAMSHAFT_INLINE void add(const Tile& t, const std::byte* a, Groups g,
                           Accumulators<I32, kRows, kVecs>& acc) {
    for (int32_t left = g.ends[kKinds - 1]; left > 0; --left, Groups::next(g))
      add_group<kBits, kRows, kVecs>(t, a, g.order, g.b, acc);
  }
};

#if defined(CAMSHAFT_TARGET_avx2)
// or as long chains of 16-bit sums as their kind allows.
struct InChains {
  template <bool kBits, int kRows, int kVecs>
  CAMSHAFT_INLINE void add(const Tile& t, const std::byte* a, Groups g,
                           Accumulators<I32, kRows, kVecs>& acc) {
    if constexpr (kRows == 1)
      add_row<kBits>(t, a, g, acc);
    else
      header_of(t).in_pairs ? add_rows<kBits, true>(t, a, g, acc)
                            : add_rows<kBits, false>(t, a, g, acc);
  }

 private:
  template <bool kBits, bool kInPairs, int kRows, int kVecs>
  CAMSHAFT_INLINE void add_rows(const Tile& t, const std::byte* a, Groups g,
                                Accumulators<I32, kRows, kVecs>& acc) {
    int32_t group = 0;
    for (; group < g.ends[0]; ++group, Groups::next(g))
      add_chains<kBits, kInPairs, 4>(t, a, g.order, g.b, acc);
    for (; group < g.ends[1]; ++group, Groups::next(g))
      add_chains<kBits, kInPairs, 2>(t, a, g.order, g.b, acc);
    for (; group < g.ends[2]; ++group, Groups::next(g))
      add_chains<kBits, kInPairs, 1>(t, a, g.order, g.b, acc);
    for (; group < g.ends[3]; ++group, Groups::next(g))
      add_words<kBits, kRows, kVecs>(t, a, g.order, g.b, acc);
  }
  template <bool kBits, int kVecs>
  CAMSHAFT_INLINE void add_row(const Tile& t, const std::byte* a, Groups g,
                               Accumulators<I32, 1, kVecs>& acc) {
    int32_t group = 0;
    for (; group < g.ends[0]; ++group, Groups::next(g))
      add_row_chains<kBits, 4>(t, a, g.order, g.b, acc);
    for (; group < g.ends[1]; ++group, Groups::next(g))
      add_row_chains<kBits, 2>(t, a, g.order, g.b, acc);
    for (; group < g.ends[2]; ++group, Groups::next(g))
      add_row_chains<kBits, 1>(t, a, g.order, g.b, acc);
    for (; group < g.ends[3]; ++group, Groups::next(g))
      add_words<kBits, 1, kVecs>(t, a, g.order, g.b, acc);
  }
};
#endif

template <int kRows, int kVecs, class How>
struct SparseTileOf {
  static void run(const Tile& t) {
    const bool bits = header_of(t).packs_bits != 0;
    run_byte_tiles<kRows, kVecs>(
        t, [&t, bits ](const TilePart& part, Sums& acc) __attribute__((always_inline)) {
          bits ? add<true>(t, part.a, acc) : add<false>(t, part.a, acc);
        });
  }

 private:
  using Sums = Accumulators<I32, kRows, kVecs>;

  template <bool kBits>
  CAMSHAFT_INLINE void add(const Tile& t, const std::byte* row, Sums& acc) {
    for_each_group(
        t, row,
        [&](const std::byte* a, const int32_t* ends, const int32_t* order, const std::byte* b,
            int64_t group_bytes) __attribute__((always_inline)) {
          How::template add<kBits, kRows, kVecs>(t, a, {ends, order, b, group_bytes}, acc);
        });
  }
};
template <int kRows, int kVecs>
using SparseTile = SparseTileOf<kRows, kVecs, EachAlone>;

#if defined(CAMSHAFT_TARGET_avx2)

template <int kRows, int kVecs>
using SparseChainTile = SparseTileOf<kRows, kVecs, InChains>;

// With AVX-VNNI there are no sums of 16 bits to keep.
constexpr int kMaxSparseVnniRows[kMaxVecs + 1] = {0, 12, 6, 4, 3, 2, 2, 0, 0};
// Sums of 16 bits are of one vector of columns at a time.
constexpr int kMaxSparseChainRows[kMaxVecs + 1] = {0, 6, 4, 3, 1, 1, 1, 0, 0};
constexpr KernelTable<SparseChainTile, kMaxSparseChainRows> kChainTable;
constexpr KernelTable<SparseTile, kMaxSparseVnniRows> kTable;

#else

#if defined(CAMSHAFT_TARGET_avx512)
// Wide tiles as high as dense ones leave the picked bytes no registers.
constexpr int kMaxSparseRows[kMaxVecs + 1] = {0, 14, 12, 8, 6, 4, 4, 3, 2};
#else
constexpr const int (&kMaxSparseRows)[kMaxVecs + 1] = kMaxByteRows;
#endif
constexpr KernelTable<SparseTile, kMaxSparseRows> kTable;

#endif

}  // namespace

int sparse_max_rows(int vecs) {
#if defined(CAMSHAFT_TARGET_avx2)
  return uses(Feature::kVnni) ? kMaxSparseVnniRows[vecs] : kMaxSparseChainRows[vecs];
#else
  return kMaxSparseRows[vecs];
#endif
}

TileKernel sparse_panel_kernel(const std::byte* panel, const Spans& spans, int vecs, int rows,
                               Tile& tile) {
  const SparseLayout layout(spans);
  tile.chain.ends = reinterpret_cast<const int32_t*>(panel + sizeof(SparseHeader));
  tile.chain.order = reinterpret_cast<const int32_t*>(panel + layout.order_at);
  tile.b.first = panel + layout.groups_at;
#if defined(CAMSHAFT_TARGET_avx2)
  if (!uses(Feature::kVnni)) return kChainTable.at(vecs, rows);
#endif
  return kTable.at(vecs, rows);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
