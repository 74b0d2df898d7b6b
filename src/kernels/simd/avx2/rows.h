// SPDX-License-Identifier: Apache-2.0
// Rows of bytes interleaved, so that a dword holds vertical neighbours of a channel.
#pragma once

#include "kernels/simd/bytes.h"

namespace camshaft::kernels::avx2 {

using Line = __m256i;                     // of one column: kLanes channels, two rows of words
using Element = int16_t;                  // of a dword of weights
inline constexpr int64_t kTogether = 16;  // channels interleaved at once

CAMSHAFT_INLINE Line outside_line(uint8_t padding) {
  return _mm256_set1_epi16(padding);
}

template <bool kWhole>
CAMSHAFT_INLINE __m128i load_block(const uint8_t* p, int64_t channels) {
  if constexpr (kWhole) return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  const int64_t low = channels < 8 ? channels : 8;
  const uint64_t first = load_first(p, low), second = load_first(p + low, channels - low);
  return _mm_set_epi64x(static_cast<int64_t>(second), static_cast<int64_t>(first));
}

// Columns [first, last), inside the image, of a group of rows: lines[unit * step + column].
template <bool kWhole>
static inline void interleave_inside(const uint8_t* const* row, const int64_t* pixel, int64_t first,
                                     int64_t last, int64_t channels, Line* line, int64_t step) {
  const int64_t pixel_a = pixel[0], pixel_b = pixel[1];
  const uint8_t *at_a = row[0] + first * pixel_a, *at_b = row[1] + first * pixel_b;
  for (int64_t col = first; col < last; ++col, ++line, at_a += pixel_a, at_b += pixel_b) {
    const __m128i a = load_block<kWhole>(at_a, channels), b = load_block<kWhole>(at_b, channels);
    line[0] = _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(a, b));
    line[step] = _mm256_cvtepu8_epi16(_mm_unpackhi_epi8(a, b));
  }
}

CAMSHAFT_INLINE void add_products(Line& sum, Line x, Line w) {
  sum = _mm256_add_epi32(sum, _mm256_madd_epi16(x, w));
}
CAMSHAFT_INLINE Line load_line(const std::byte* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}

}  // namespace camshaft::kernels::avx2
