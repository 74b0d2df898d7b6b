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

#if defined(CAMSHAFT_TARGET_scalar)

struct LaneProduct {
  struct Column {
    int8_t weights[kQuad];
  };
  Column column(const int8_t* weights) const {
    Column column;
    std::memcpy(column.weights, weights, sizeof column.weights);
    return column;
  }
  const std::byte* row(const std::byte* x) const { return x; }
  void add_product(const std::byte* row, const Column& column, I32& sum) const {
    int32_t lanes[kLanes];
    istore(lanes, sum);
    for (int k = 0; k < kLanes * kLaneBytes; ++k)
      lanes[k / kLaneBytes] += std::to_integer<int32_t>(row[k]) * column.weights[k % kLaneBytes];
    sum = iload(lanes);
  }
};
template <int kVecs>
constexpr AddByteLists kPlain = add_all_plainly<LaneProduct, kVecs>;

#else

CAMSHAFT_INLINE auto broadcast_weights(const int8_t* weights) {
  return broadcast_lane(reinterpret_cast<const std::byte*>(weights));
}

// X is what dense tiles broadcast, weights what they load.
struct ListVnni {
  const VnniProduct product{};
  CAMSHAFT_INLINE_MEMBER auto column(const int8_t* weights) const {
    return broadcast_weights(weights);
  }
  CAMSHAFT_INLINE_MEMBER auto row(const std::byte* x) const { return load_lanes(x); }
  template <class Bytes>
  CAMSHAFT_INLINE_MEMBER void add_product(Bytes row, Bytes column, I32& sum) const {
    product.add_product(row, column, sum);
  }
};

// 16-bit products, for machines with neither.
struct ListWords {
  const WordProduct product{};
#if defined(CAMSHAFT_TARGET_avx512)
  CAMSHAFT_INLINE_MEMBER WordProduct::Column column(const int8_t* weights) const {
    const __m512i bytes = broadcast_weights(weights);
    return {_mm512_srai_epi16(_mm512_slli_epi16(bytes, 8), 8), _mm512_srai_epi16(bytes, 8)};
  }
  CAMSHAFT_INLINE_MEMBER WordProduct::Row row(const std::byte* x) const {
    const __m512i bytes = load_lanes(x);
    return {_mm512_and_si512(bytes, _mm512_set1_epi16(255)), _mm512_srli_epi16(bytes, 8)};
  }
#else
  CAMSHAFT_INLINE_MEMBER WordProduct::Column column(const int8_t* weights) const {
    const __m256i bytes = broadcast_weights(weights);
    return {_mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 8), _mm256_srai_epi16(bytes, 8)};
  }
  CAMSHAFT_INLINE_MEMBER WordProduct::Row row(const std::byte* x) const {
    const __m256i bytes = load_lanes(x);
    return {_mm256_and_si256(bytes, _mm256_set1_epi16(255)), _mm256_srli_epi16(bytes, 8)};
  }
#endif
  CAMSHAFT_INLINE_MEMBER void add_product(WordProduct::Row row, WordProduct::Column column,
                                          I32& sum) const {
    product.add_product(row, column, sum);
  }
};

template <int kVecs>
constexpr AddByteLists kVnni = add_all_plainly<ListVnni, kVecs>;

#if defined(CAMSHAFT_TARGET_avx512)

template <int kVecs>
constexpr AddByteLists kPlain = add_all_plainly<ListWords, kVecs>;

#else

// kDepth entries in 16 bits, then widened.
template <int kDepth, int kVecs>
CAMSHAFT_INLINE void add_chain(const std::byte* x, const ByteEntry* entry, I32 (&sums)[kVecs]) {
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i chain[kVecs];
#pragma GCC unroll 4
  for (int k = 0; k < kDepth; ++k) {
    const __m256i weights = broadcast_weights(entry[k].weights);
    const std::byte* row = x + entry[k].offset;
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) {
      const __m256i pairs =
          _mm256_maddubs_epi16(load_lanes(row + v * kLanes * kLaneBytes), weights);
      chain[v] = k == 0 ? pairs : _mm256_add_epi16(chain[v], pairs);
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < kVecs; ++v)
    sums[v].v = _mm256_add_epi32(sums[v].v, _mm256_madd_epi16(chain[v], ones));
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

#endif

constexpr AddByteLists kVnniTable[kByteListVecs + 1] = {nullptr, kVnni<1>, kVnni<2>, kVnni<3>,
                                                        kVnni<4>};
#endif

constexpr AddByteLists kTable[kByteListVecs + 1] = {nullptr, kPlain<1>, kPlain<2>, kPlain<3>,
                                                    kPlain<4>};

}  // namespace

AddByteLists byte_list_kernel(int64_t vecs) {
#if !defined(CAMSHAFT_TARGET_scalar)
  if (uses(Feature::kVnni)) return kVnniTable[vecs];
#endif
  return kTable[vecs];
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
