// SPDX-License-Identifier: Apache-2.0
// The register tile over sparse panels. Per step of eight bytes of A, row and vector of output
// channels: a shuffle and what a dense step of four bytes takes. 6x1 on AVX2 in chains of four: 13
// operations for 32 bytes of K, dense tiles take 18.
//
// Where registers hold a step's weights and positions beside the sums, each row of A is broadcast
// once for all vectors; else, and in chains, again for each.
#include "kernels/vector/sparse/gemm_sparse.h"

#include "kernels/simd/picks.h"
#include "kernels/vector/gemm/gemm_byte_kernels.h"
#include "kernels/vector/gemm/gemm_byte_tile.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

constexpr int kKinds = 4;

const SparseHeader& header_of(const Tile& t) {
  return *(reinterpret_cast<const SparseHeader*>(t.chain.ends) - 1);
}

// `positions`: the first row behind the weights.
template <bool kBits, int kSlot>
CAMSHAFT_INLINE PackedLanes selection(const std::byte* positions, int64_t row_bytes) {
  if constexpr (kBits)
    return unpack_positions<kSlot>(load_lanes(positions));
  else
    return load_lanes(positions + kSlot * row_bytes);
}

// Whether registers hold a step's weights and positions of all vectors beside the sums. A load per
// pair of operations is too many: Zen 5 takes 1.18 pairs a cycle so (12x32, AVX-512), 1.41 with one
// for two; AVX-VNNI there 1.12 → 1.25 of the dense speed.
consteval bool holds_columns(int rows, int vecs) {
  return vecs > 1 && rows * vecs + 2 * vecs + 2 <= kRegisters;
}

// One step of a group: do_product(picked bytes, weights, r, v).
template <bool kBits, int kSlot, int kRows, int kVecs, bool kHeld = false, class Product>
CAMSHAFT_INLINE void add_step(const Tile& t, const std::byte* a, const int32_t* order,
                              const std::byte* b, const Product& do_product) {
  const StepRows<kRows> rows(a + t.chain.offsets[order[kSlot]], t.a.stride);
  if constexpr (kHeld) {
    PackedLanes weights[kVecs], select[kVecs];
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) {
      const std::byte* column = b + v * kLanes * kLaneBytes;
      weights[v] = load_lanes(column + kSlot * t.b.stride);
      select[v] = selection<kBits, kSlot>(column + kSparseGroup * t.b.stride, t.b.stride);
      keep_in_register(weights[v]);
      keep_in_register(select[v]);
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      PackedLanes eight = broadcast_eight(rows.at(r));
      keep_in_register(eight);  // or it is broadcast again for each vector
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) do_product(pick(eight, select[v]), weights[v], r, v);
    }
    return;
  }
#pragma GCC unroll 8
  for (int v = 0; v < kVecs; ++v) {
    const std::byte* column = b + v * kLanes * kLaneBytes;
    const PackedLanes weights = load_lanes(column + kSlot * t.b.stride);
    const PackedLanes select =
        selection<kBits, kSlot>(column + kSparseGroup * t.b.stride, t.b.stride);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r)
      do_product(pick(broadcast_eight(rows.at(r)), select), weights, r, v);
  }
}

template <bool kBits, int kRows, int kVecs, bool kHeld = false, class Product>
CAMSHAFT_INLINE void add_steps(const Tile& t, const std::byte* a, const int32_t* order,
                               const std::byte* b, const Product& do_product) {
  add_step<kBits, 0, kRows, kVecs, kHeld>(t, a, order, b, do_product);
  add_step<kBits, 1, kRows, kVecs, kHeld>(t, a, order, b, do_product);
  add_step<kBits, 2, kRows, kVecs, kHeld>(t, a, order, b, do_product);
  add_step<kBits, 3, kRows, kVecs, kHeld>(t, a, order, b, do_product);
}

// The lines of the group so far ahead, all of them: of weights from memory the processor's own
// prefetcher sees no stream beside positions (ResNet-50's 1x1 of 2048 to 512, Zen 5: 136 us with a
// line per group, 115 with all, 104 so far ahead; dense 105).
template <class Product, bool kBits, int kVecs>
CAMSHAFT_INLINE void fetch_ahead(const std::byte* b) {
  if constexpr (!requires { Product::kFetchesAhead; }) return;
  constexpr int64_t kAhead = 8192;
  constexpr int64_t kBytes = sparse_group_rows(kBits ? SparseIndex::kBits : SparseIndex::kBytes) *
                             kVecs * kLanes * kLaneBytes;
#pragma GCC unroll 64
  for (int64_t at = 0; at < kBytes; at += kCacheLine) __builtin_prefetch(b + kAhead + at);
}

template <bool kBits, int kRows, int kVecs>
CAMSHAFT_INLINE void add_group(const Tile& t, const std::byte* a, const int32_t* order,
                               const std::byte* b, Accumulators<I32, kRows, kVecs>& acc) {
  const LaneProduct product;
  fetch_ahead<LaneProduct, kBits, kVecs>(b);
  add_steps<kBits, kRows, kVecs, holds_columns(kRows, kVecs)>(
      t, a, order,
      b, [&](PackedLanes picked, PackedLanes weights, int r, int v) __attribute__((always_inline)) {
        product.add_product(picked, weights, acc.v[r][v]);
      });
}

#if defined(CAMSHAFT_HAS_BYTE_PAIRS)

// Steps 2 * kHalf and the next of a group: weights of a vector of columns, and what their rows of
// A are.
template <bool kBits, bool kInPairs, int kHalf>
struct HalfGroup {
  PackedLanes weights[2], select[2];

  CAMSHAFT_INLINE_MEMBER HalfGroup(const std::byte* column, int64_t row_bytes) {
    const std::byte* positions = column + kSparseGroup * row_bytes;
    weights[0] = load_lanes(column + 2 * kHalf * row_bytes);
    weights[1] = load_lanes(column + (2 * kHalf + 1) * row_bytes);
    select[0] = selection<kBits, 2 * kHalf>(positions, row_bytes);
    select[1] = selection<kBits, 2 * kHalf + 1>(positions, row_bytes);
    if (kBits && kInPairs) select[1] = eight_further(select[1]);
  }
  // In registers, for several rows.
  CAMSHAFT_INLINE_MEMBER void hold() {
    keep_order(weights[0]);
    keep_order(weights[1]);
    keep_order(select[0]);
    keep_order(select[1]);
  }
  CAMSHAFT_INLINE_MEMBER void multiply(const std::byte* first, const std::byte* second,
                                       PackedLanes (&products)[2]) const {
    const PackedLanes both = kInPairs ? broadcast_sixteen(first) : broadcast_eight(first);
    const PackedLanes next = kInPairs ? both : broadcast_eight(second);
    products[0] = multiply_byte_pairs(pick(both, select[0]), weights[0]);
    products[1] = multiply_byte_pairs(pick(next, select[1]), weights[1]);
  }
};

// Half a group of one vector of columns. Sums of 16 bits last no longer than that: all rows of
// four steps where chains are of four, else one row's.
template <bool kBits, bool kInPairs, int kDepth, int kHalf, int kRows, int kVecs>
CAMSHAFT_INLINE void add_half(const StepRows<kRows>& first, const StepRows<kRows>& second,
                              const std::byte* column, int64_t row_bytes, int v,
                              PackedLanes (&sums)[kRows], Accumulators<I32, kRows, kVecs>& acc) {
  HalfGroup<kBits, kInPairs, kHalf> half(column, row_bytes);
  if (kRows > 1) half.hold();
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    PackedLanes products[2];
    half.multiply(first.at(r), second.at(r), products);
    I32& sum = acc.v[r][v];
    if constexpr (kDepth == 1) {
      sum = sum + (widened_pair_sums(products[0]) + widened_pair_sums(products[1]));
      keep_order(sum);
      continue;
    }
    PackedLanes both = add_pair_sums(products[0], products[1]);
    if constexpr (kDepth == 4 && kHalf == 0) {
      sums[r] = both;
      keep_order(sums[r]);
      continue;
    }
    if (kDepth == 4) both = add_pair_sums(both, sums[r]);
    widen_pair_sums(both, sum);
    keep_order(sum);
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
    PackedLanes sums[kRows];
    const std::byte* column = b + v * kLanes * kLaneBytes;
    add_half<kBits, kInPairs, kDepth, 0>(rows0, rows1, column, t.b.stride, v, sums, acc);
    add_half<kBits, kInPairs, kDepth, 1>(rows2, rows3, column, t.b.stride, v, sums, acc);
  }
}

// The same of one row, which waits for weights: they are read in the order they lie in.
template <bool kBits, int kDepth, int kVecs>
CAMSHAFT_INLINE void add_row_chains(const Tile& t, const std::byte* a, const int32_t* order,
                                    const std::byte* b, Accumulators<I32, 1, kVecs>& acc) {
  PackedLanes sums[kVecs];
  const auto first = [&sums](PackedLanes picked, PackedLanes weights, int, int v)
      __attribute__((always_inline)) {
    sums[v] = multiply_byte_pairs(picked, weights);
    keep_order(sums[v]);
  };
  const auto next = [&sums](PackedLanes picked, PackedLanes weights, int, int v)
      __attribute__((always_inline)) {
    sums[v] = add_pair_sums(sums[v], multiply_byte_pairs(picked, weights));
    keep_order(sums[v]);
  };
  const auto widen = [&sums, &acc ]() __attribute__((always_inline)) {
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) {
      widen_pair_sums(sums[v], acc.v[0][v]);
      keep_order(acc.v[0][v]);
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
      b, [&](PackedLanes picked, PackedLanes weights, int r, int v) __attribute__((always_inline)) {
        const WordProduct product;
        product.add_product(WordProduct::row_of(picked), WordProduct::column_of(weights),
                            acc.v[r][v]);
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

#if defined(CAMSHAFT_HAS_BYTE_PAIRS)
// or as long chains of 16-bit sums as their kind allows.
struct InChains {
  template <bool kBits, int kRows, int kVecs>
  CAMSHAFT_INLINE void add(const Tile& t, const std::byte* a, Groups g,
                           Accumulators<I32, kRows, kVecs>& acc) {
    int32_t group = 0;
    if constexpr (kRows == 1)
      add_row<kBits>(t, a, g, group, acc);
    else
      add_rows<kBits>(t, a, g, group, acc);
    for (; group < g.ends[3]; ++group, Groups::next(g))
      add_words<kBits, kRows, kVecs>(t, a, g.order, g.b, acc);
  }

 private:
  template <bool kBits, int kRows, int kVecs>
  CAMSHAFT_INLINE void add_rows(const Tile& t, const std::byte* a, Groups& g, int32_t& group,
                                Accumulators<I32, kRows, kVecs>& acc) {
    header_of(t).in_pairs ? add_long<kBits, true>(t, a, g, group, acc)
                          : add_long<kBits, false>(t, a, g, group, acc);
    // Two units of a pair may be read apart as well: their positions count modulo eight.
    for (; group < g.ends[2]; ++group, Groups::next(g))
      add_chains<kBits, false, 1>(t, a, g.order, g.b, acc);
  }
  template <bool kBits, bool kInPairs, int kRows, int kVecs>
  CAMSHAFT_INLINE void add_long(const Tile& t, const std::byte* a, Groups& g, int32_t& group,
                                Accumulators<I32, kRows, kVecs>& acc) {
    for (; group < g.ends[0]; ++group, Groups::next(g))
      add_chains<kBits, kInPairs, 4>(t, a, g.order, g.b, acc);
    for (; group < g.ends[1]; ++group, Groups::next(g))
      add_chains<kBits, kInPairs, 2>(t, a, g.order, g.b, acc);
  }
  template <bool kBits, int kVecs>
  CAMSHAFT_INLINE void add_row(const Tile& t, const std::byte* a, Groups& g, int32_t& group,
                               Accumulators<I32, 1, kVecs>& acc) {
    for (; group < g.ends[0]; ++group, Groups::next(g))
      add_row_chains<kBits, 4>(t, a, g.order, g.b, acc);
    for (; group < g.ends[1]; ++group, Groups::next(g))
      add_row_chains<kBits, 2>(t, a, g.order, g.b, acc);
    for (; group < g.ends[2]; ++group, Groups::next(g))
      add_row_chains<kBits, 1>(t, a, g.order, g.b, acc);
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

#if defined(CAMSHAFT_HAS_BYTE_PAIRS)

template <int kRows, int kVecs>
using SparseChainTile = SparseTileOf<kRows, kVecs, InChains>;

constexpr KernelTable<SparseChainTile, kMaxSparseChainRows> kChainTable;
#endif

constexpr KernelTable<SparseTile, kMaxSparseRows> kTable;

}  // namespace

int sparse_max_rows(int vecs) {
#if defined(CAMSHAFT_HAS_BYTE_PAIRS)
  if (!uses(Feature::kVnni)) return kMaxSparseChainRows[vecs];
#endif
  return kMaxSparseRows[vecs];
}

TileKernel sparse_panel_kernel(const std::byte* panel, const Spans& spans, int vecs, int rows,
                               Tile& tile) {
  const SparseLayout layout(spans);
  tile.chain.ends = reinterpret_cast<const int32_t*>(panel + sizeof(SparseHeader));
  tile.chain.order = reinterpret_cast<const int32_t*>(panel + layout.order_at);
  tile.b.first = panel + layout.groups_at;
#if defined(CAMSHAFT_HAS_BYTE_PAIRS)
  if (!uses(Feature::kVnni)) return kChainTable.at(vecs, rows);
#endif
  return kTable.at(vecs, rows);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
