// SPDX-License-Identifier: Apache-2.0
// Bytes and pairs picked from a few that all lanes see.
#pragma once

namespace camshaft::kernels::avx2 {

// Stops the compiler from loading the value again instead of keeping it.
CAMSHAFT_INLINE void keep_in_register(PackedLanes& value) {
  keep_order(value);
}
CAMSHAFT_INLINE PackedLanes broadcast_eight(const std::byte* p) {
  int64_t eight;
  __builtin_memcpy(&eight, p, sizeof eight);
  return _mm256_set1_epi64x(eight);
}
CAMSHAFT_INLINE PackedLanes broadcast_sixteen(const std::byte* p) {
  return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
CAMSHAFT_INLINE PackedLanes pick(PackedLanes bytes, PackedLanes positions) {
  return _mm256_shuffle_epi8(bytes, positions);
}
template <int kSlot>
CAMSHAFT_INLINE PackedLanes unpack_positions(PackedLanes packed) {
  const PackedLanes mask = _mm256_set1_epi32(0x03030303), high = _mm256_set1_epi32(0x04000400);
  return _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(packed, 2 * kSlot), mask), high);
}
// Of positions below eight.
CAMSHAFT_INLINE PackedLanes eight_further(PackedLanes positions) {
  return _mm256_or_si256(positions, _mm256_set1_epi8(8));
}
CAMSHAFT_INLINE I32 int_lanes(PackedLanes lanes) {
  return {lanes};
}
template <int kBits>
CAMSHAFT_INLINE PackedLanes shift_dwords(PackedLanes dwords) {
  return _mm256_srli_epi32(dwords, kBits);
}

// Four, in both halves: a permutation of eight is two operations before Zen 4.
inline constexpr int kPickWidth = 4, kPickBits = 2;
CAMSHAFT_INLINE F32 pick_row(const float* p) {
  return {_mm256_broadcast_ps(reinterpret_cast<const __m128*>(p))};
}
CAMSHAFT_INLINE F32 pick_row(const float* p, int) {
  return pick_row(p);
}
CAMSHAFT_INLINE F32 pick_floats(F32 row, PackedLanes lanes) {
  return {_mm256_permutevar_ps(row.v, lanes)};
}

CAMSHAFT_INLINE F32 first_of_pairs(PackedLanes pairs) {
  return {_mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16))};
}
CAMSHAFT_INLINE F32 second_of_pairs(PackedLanes pairs) {
  return {_mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32(-65536)))};
}

}  // namespace camshaft::kernels::avx2
