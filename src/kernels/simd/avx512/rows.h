// SPDX-License-Identifier: Apache-2.0
// Rows of bytes interleaved, so that a dword holds vertical neighbours of a channel.
#pragma once

#include "kernels/simd/bytes.h"

namespace camshaft::kernels::avx512 {

using Line = __m512i;                     // of one column: kLanes channels, four rows of bytes
using Element = int8_t;                   // of a dword of weights
inline constexpr int64_t kTogether = 64;  // channels interleaved at once

CAMSHAFT_INLINE Line outside_line(uint8_t padding) {
  return _mm512_set1_epi8(static_cast<char>(padding));
}

// Dword 4 i + j of a register becomes dword 4 j + i: unpacking then leaves channels in order.
template <bool kWhole>
CAMSHAFT_INLINE __m512i load_block(const uint8_t* p, __mmask64 channels) {
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i block = kWhole ? _mm512_loadu_si512(p) : _mm512_maskz_loadu_epi8(channels, p);
  return _mm512_permutexvar_epi32(order, block);
}

// Columns [first, last), inside the image, of a group of rows: lines[unit * step + column].
template <bool kWhole>
static inline void interleave_inside(const uint8_t* const* row, const int64_t* pixel, int64_t first,
                                     int64_t last, int64_t count, Line* line, int64_t step) {
  const __mmask64 channels = count >= kTogether ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
  const int64_t pixel_a = pixel[0], pixel_b = pixel[1], pixel_c = pixel[2], pixel_d = pixel[3];
  const uint8_t *at_a = row[0] + first * pixel_a, *at_b = row[1] + first * pixel_b,
                *at_c = row[2] + first * pixel_c, *at_d = row[3] + first * pixel_d;
  for (int64_t col = first; col < last; ++col, ++line) {
    const __m512i a = load_block<kWhole>(at_a, channels), b = load_block<kWhole>(at_b, channels),
                  c = load_block<kWhole>(at_c, channels), d = load_block<kWhole>(at_d, channels);
    at_a += pixel_a, at_b += pixel_b, at_c += pixel_c, at_d += pixel_d;
    const __m512i ab_low = _mm512_unpacklo_epi8(a, b), ab_high = _mm512_unpackhi_epi8(a, b),
                  cd_low = _mm512_unpacklo_epi8(c, d), cd_high = _mm512_unpackhi_epi8(c, d);
    line[0] = _mm512_unpacklo_epi16(ab_low, cd_low);
    line[step] = _mm512_unpackhi_epi16(ab_low, cd_low);
    line[2 * step] = _mm512_unpacklo_epi16(ab_high, cd_high);
    line[3 * step] = _mm512_unpackhi_epi16(ab_high, cd_high);
  }
}

CAMSHAFT_INLINE void add_products(Line& sum, Line x, Line w) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w));
}
CAMSHAFT_INLINE Line load_line(const std::byte* p) {
  return _mm512_loadu_si512(p);
}

}  // namespace camshaft::kernels::avx512
