// SPDX-License-Identifier: Apache-2.0
// kLanes bytes to a vector of int32 and back.
#pragma once

namespace camshaft::kernels::avx2 {

CAMSHAFT_INLINE I32 load_bytes(const int8_t* p) {
  return {_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)))};
}
CAMSHAFT_INLINE I32 load_bytes(const uint8_t* p) {
  return {_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)))};
}
CAMSHAFT_INLINE __m128i to_words(I32 a) {
  return _mm_packs_epi32(_mm256_castsi256_si128(a.v), _mm256_extracti128_si256(a.v, 1));
}
CAMSHAFT_INLINE void store_bytes(int8_t* p, I32 a) {
  const __m128i words = to_words(a);
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(words, words));
}
CAMSHAFT_INLINE void store_bytes(uint8_t* p, I32 a) {
  const __m128i words = to_words(a);
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packus_epi16(words, words));
}
// The packs interleave 128-bit lanes: dword k of the result belongs to vector k % 4.
template <class T>
CAMSHAFT_INLINE void store_bytes(T* p, I32 a, I32 b, I32 c, I32 d) {
  const __m256i ab = _mm256_packs_epi32(a.v, b.v), cd = _mm256_packs_epi32(c.v, d.v);
  const __m256i mixed = T(-1) < T(0) ? _mm256_packs_epi16(ab, cd) : _mm256_packus_epi16(ab, cd);
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permutevar8x32_epi32(mixed, order));
}
CAMSHAFT_INLINE void store_bytes(uint8_t* p, I32 a, I32 b) {
  const __m256i words = _mm256_packs_epi32(a.v, b.v), mixed = _mm256_packus_epi16(words, words);
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 0, 4, 1, 5);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(mixed, order)));
}
// The first `count` of eight bytes, without a call.
CAMSHAFT_INLINE void store_first(uint8_t* p, __m128i bytes, int count) {
  uint64_t left = static_cast<uint64_t>(_mm_cvtsi128_si64(bytes));
  if (count & 8) {
    __builtin_memcpy(p, &left, 8);
    return;
  }
  if (count & 4) __builtin_memcpy(p, &left, 4), p += 4, left >>= 32;
  if (count & 2) __builtin_memcpy(p, &left, 2), p += 2, left >>= 16;
  if (count & 1) *p = static_cast<uint8_t>(left);
}

CAMSHAFT_INLINE uint64_t load_first(const uint8_t* p, int64_t count) {
  uint64_t bytes = 0, more = 0;
  if (count & 8) {
    __builtin_memcpy(&bytes, p, 8);
    return bytes;
  }
  int shift = 0;
  if (count & 4) __builtin_memcpy(&bytes, p, 4), p += 4, shift = 32;
  if (count & 2) __builtin_memcpy(&more, p, 2), p += 2, bytes |= more << shift, shift += 16;
  if (count & 1) bytes |= uint64_t{*p} << shift;
  return bytes;
}

// Codes of four vectors, in order.
struct PackedCodes {
  __m256i bytes;

  template <int kHalf>
  CAMSHAFT_INLINE_MEMBER __m128i half() const {
    return kHalf == 0 ? _mm256_castsi256_si128(bytes) : _mm256_extracti128_si256(bytes, 1);
  }
  CAMSHAFT_INLINE_MEMBER void store(uint8_t* p) const {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), bytes);
  }
  template <int kHalf>
  CAMSHAFT_INLINE_MEMBER void store_half(uint8_t* p) const {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), half<kHalf>());
  }
  template <int kQuarter>
  CAMSHAFT_INLINE_MEMBER void store_quarter(uint8_t* p) const {
    if constexpr (kQuarter % 2 == 0)
      _mm_storel_epi64(reinterpret_cast<__m128i*>(p), half<kQuarter / 2>());
    else
      _mm_storeh_pi(reinterpret_cast<__m64*>(p), _mm_castsi128_ps(half<kQuarter / 2>()));
  }
  template <int kQuarter>
  CAMSHAFT_INLINE_MEMBER void store_quarter(uint8_t* p, int count) const {
    const __m128i eight = half<kQuarter / 2>();
    store_first(p, kQuarter % 2 == 0 ? eight : _mm_srli_si128(eight, 8), count);
  }
};

// How integers become codes: clamp(v + offset, low, high), saturating in 16 bits on the way, which
// an |offset| ≤ kLargestOffset does not notice.
struct CodePacking {
  __m256i offset, low, high, order;

  CAMSHAFT_INLINE_MEMBER CodePacking(int32_t offset_, uint8_t low_, uint8_t high_)
      : offset(_mm256_set1_epi16(static_cast<int16_t>(offset_))),
        low(_mm256_set1_epi8(static_cast<char>(low_))),
        high(_mm256_set1_epi8(static_cast<char>(high_))),
        order(_mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)) {}
  CAMSHAFT_INLINE_MEMBER PackedCodes pack(I32 a, I32 b, I32 c, I32 d) const {
    const __m256i ab = _mm256_adds_epi16(_mm256_packs_epi32(a.v, b.v), offset);
    const __m256i cd = _mm256_adds_epi16(_mm256_packs_epi32(c.v, d.v), offset);
    const __m256i codes = _mm256_min_epu8(high, _mm256_max_epu8(low, _mm256_packus_epi16(ab, cd)));
    return {_mm256_permutevar8x32_epi32(codes, order)};
  }
};

// The first `count` ≤ kLanes floats. Stores under a mask take many cycles on AVX2.
CAMSHAFT_INLINE void store_first(float* p, F32 v, int count) {
  if (count >= kLanes) return store(p, v);
  __m128 left = _mm256_castps256_ps128(v.v);
  if (count & 4) {
    _mm_storeu_ps(p, left);
    p += 4;
    left = _mm256_extractf128_ps(v.v, 1);
  }
  if (count & 2) {
    _mm_storel_pi(reinterpret_cast<__m64*>(p), left);
    p += 2;
    left = _mm_movehl_ps(left, left);
  }
  if (count & 1) _mm_store_ss(p, left);
}

}  // namespace camshaft::kernels::avx2
