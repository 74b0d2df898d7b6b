// SPDX-License-Identifier: Apache-2.0
// What lists of bytes do with the rows of X: one output channel of some vectors of pixels at a
// time.
#include <cstring>

#include "kernels/simd/products.h"
#include "kernels/vector/gemm/gemm_byte_kernels.h"
#include "kernels/vector/sparse/byte_lists.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

// Sums of `kSets` entries side by side, so that eight products are under way.
template <class Product, int kVecs>
CAMSHAFT_INLINE void add_plainly(const std::byte* x, const ByteEntry* entry, const ByteEntry* end,
                                 bool start, int32_t* y) {
  constexpr int kSets = kVecs > 2 ? 2 : 4;
  const Product product;
  I32 sums[kSets][kVecs];
#pragma GCC unroll 4
  for (int v = 0; v < kVecs; ++v) sums[0][v] = start ? iset1(0) : iload(y + v * kLanes);
#pragma GCC unroll 4
  for (int s = 1; s < kSets; ++s)
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) sums[s][v] = iset1(0);
  const auto add =
      [ x, &product ](const ByteEntry& entry, I32(&to)[kVecs]) __attribute__((always_inline)) {
    const auto weights = product.column(entry.weights);
    const std::byte* row = x + entry.offset;
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v)
      product.add_product(product.row(row + v * kLanes * kLaneBytes), weights, to[v]);
  };
  for (; end - entry >= kSets; entry += kSets)
#pragma GCC unroll 4
    for (int s = 0; s < kSets; ++s) add(entry[s], sums[s]);
  for (; entry < end; ++entry) add(*entry, sums[0]);
#pragma GCC unroll 4
  for (int v = 0; v < kVecs; ++v) {
    I32 sum = sums[0][v];
#pragma GCC unroll 4
    for (int s = 1; s < kSets; ++s) sum = sum + sums[s][v];
    istore(y + v * kLanes, sum);
  }
}

template <class Product, int kVecs>
void add_all_plainly(const std::byte* x, const ListRange& lists, bool start, int32_t* y,
                     int64_t y_stride) {
  const ByteEntry* entry = lists.entries + lists.begin;
  const int32_t* ends = lists.ends + kByteListKinds - 1;
  for (int64_t list = 0; list < lists.count; ++list, y += y_stride) {
    const ByteEntry* end = lists.entries + ends[list * kByteListKinds];
    add_plainly<Product, kVecs>(x, entry, end, start, y);
    entry = end;
  }
}

CAMSHAFT_INLINE PackedLanes broadcast_weights(const int8_t* weights) {
  return broadcast_lane(reinterpret_cast<const std::byte*>(weights));
}

// X is what dense tiles broadcast, weights what they load.
struct ListLanes {
  const LaneProduct product{};
  CAMSHAFT_INLINE_MEMBER PackedLanes column(const int8_t* weights) const {
    return broadcast_weights(weights);
  }
  CAMSHAFT_INLINE_MEMBER PackedLanes row(const std::byte* x) const { return load_lanes(x); }
  CAMSHAFT_INLINE_MEMBER void add_product(const PackedLanes& row, const PackedLanes& column,
                                          I32& sum) const {
    product.add_product(row, column, sum);
  }
};

template <int kVecs>
constexpr AddByteLists kLanesAlone = add_all_plainly<ListLanes, kVecs>;

#if defined(CAMSHAFT_HAS_VNNI)

// 16-bit products, for machines without.
struct ListWords {
  const WordProduct product{};
  CAMSHAFT_INLINE_MEMBER WordProduct::Column column(const int8_t* weights) const {
    return WordProduct::column_of(broadcast_weights(weights));
  }
  CAMSHAFT_INLINE_MEMBER WordProduct::Row row(const std::byte* x) const {
    return WordProduct::row_of(load_lanes(x));
  }
  CAMSHAFT_INLINE_MEMBER void add_product(WordProduct::Row row, WordProduct::Column column,
                                          I32& sum) const {
    product.add_product(row, column, sum);
  }
};

#endif

#if defined(CAMSHAFT_HAS_BYTE_PAIRS)

// kDepth entries in 16 bits, then widened.
template <int kDepth, int kVecs>
CAMSHAFT_INLINE void add_chain(const std::byte* x, const ByteEntry* entry, I32 (&sums)[kVecs]) {
  PackedLanes chain[kVecs];
#pragma GCC unroll 4
  for (int k = 0; k < kDepth; ++k) {
    const PackedLanes weights = broadcast_weights(entry[k].weights);
    const std::byte* row = x + entry[k].offset;
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) {
      const PackedLanes pairs =
          multiply_byte_pairs(load_lanes(row + v * kLanes * kLaneBytes), weights);
      chain[v] = k == 0 ? pairs : add_pair_sums(chain[v], pairs);
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < kVecs; ++v) widen_pair_sums(chain[v], sums[v]);
}

// One list; gives its end.
template <int kVecs>
CAMSHAFT_INLINE const ByteEntry* add_chains(const std::byte* x, const ByteEntry* entries,
                                            const ByteEntry* entry, const int32_t* ends, bool start,
                                            int32_t* y) {
  I32 sums[kVecs];
#pragma GCC unroll 4
  for (int v = 0; v < kVecs; ++v) sums[v] = start ? iset1(0) : iload(y + v * kLanes);
  for (const ByteEntry* end = entries + ends[0]; entry < end; entry += 2)
    add_chain<2>(x, entry, sums);
  for (const ByteEntry* end = entries + ends[1]; entry < end; ++entry) add_chain<1>(x, entry, sums);
  const ListWords product;
  for (const ByteEntry* end = entries + ends[2]; entry < end; ++entry) {
    const WordProduct::Column weights = product.column(entry->weights);
    const std::byte* row = x + entry->offset;
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v)
      product.add_product(product.row(row + v * kLanes * kLaneBytes), weights, sums[v]);
  }
#pragma GCC unroll 4
  for (int v = 0; v < kVecs; ++v) istore(y + v * kLanes, sums[v]);
  return entry;
}

template <int kVecs>
void add_all_chains(const std::byte* x, const ListRange& lists, bool start, int32_t* y,
                    int64_t y_stride) {
  const ByteEntry* entry = lists.entries + lists.begin;
  const int32_t* ends = lists.ends;
  for (int64_t list = 0; list < lists.count; ++list, y += y_stride, ends += kByteListKinds)
    entry = add_chains<kVecs>(x, lists.entries, entry, ends, start, y);
}

template <int kVecs>
constexpr AddByteLists kPlain = add_all_chains<kVecs>;

#elif defined(CAMSHAFT_HAS_VNNI)

template <int kVecs>
constexpr AddByteLists kPlain = add_all_plainly<ListWords, kVecs>;

#else

template <int kVecs>
constexpr AddByteLists kPlain = kLanesAlone<kVecs>;

#endif

constexpr AddByteLists kTable[kByteListVecs + 1] = {nullptr, kPlain<1>, kPlain<2>, kPlain<3>,
                                                    kPlain<4>};
#if defined(CAMSHAFT_HAS_VNNI)
constexpr AddByteLists kVnniTable[kByteListVecs + 1] = {nullptr, kLanesAlone<1>, kLanesAlone<2>,
                                                        kLanesAlone<3>, kLanesAlone<4>};
#endif

}  // namespace

AddByteLists byte_list_kernel(int64_t vecs) {
#if defined(CAMSHAFT_HAS_VNNI)
  if (uses(Feature::kVnni)) return kVnniTable[vecs];
#endif
  return kTable[vecs];
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
