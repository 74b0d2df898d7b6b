// SPDX-License-Identifier: Apache-2.0
// Bytes and pairs picked from a few that all lanes see.
#pragma once

namespace camshaft::kernels::avx512 {

// Stops the compiler from loading the value again instead of keeping it.
CAMSHAFT_INLINE void keep_in_register(PackedLanes& value) {
  asm("" : "+v"(value));
}
CAMSHAFT_INLINE PackedLanes broadcast_eight(const std::byte* p) {
  int64_t eight;
  __builtin_memcpy(&eight, p, sizeof eight);
  return _mm512_set1_epi64(eight);
}
CAMSHAFT_INLINE PackedLanes pick(PackedLanes bytes, PackedLanes positions) {
  return _mm512_shuffle_epi8(bytes, positions);
}
template <int kSlot>
CAMSHAFT_INLINE PackedLanes unpack_positions(PackedLanes packed) {
  const PackedLanes mask = _mm512_set1_epi32(0x03030303), high = _mm512_set1_epi32(0x04000400);
  return _mm512_ternarylogic_epi32(_mm512_srli_epi16(packed, 2 * kSlot), mask, high, 0xEA);
}
CAMSHAFT_INLINE I32 int_lanes(PackedLanes lanes) {
  return {lanes};
}
template <int kBits>
CAMSHAFT_INLINE PackedLanes shift_dwords(PackedLanes dwords) {
  return _mm512_srli_epi32(dwords, kBits);
}
// Dwords `lanes` of `from`; higher bits of `lanes` are not looked at.
CAMSHAFT_INLINE PackedLanes pick_dwords(PackedLanes from, PackedLanes lanes) {
  return _mm512_permutexvar_epi32(lanes, from);
}

// Sixteen, which a permutation picks from: four of them broadcast and a shuffle take a third longer
// (Zen 5: broadcasts of 16 bytes share a pipe with products).
inline constexpr int kPickWidth = 16, kPickBits = 4;
CAMSHAFT_INLINE F32 pick_row(const float* p) {
  return load(p);
}
CAMSHAFT_INLINE F32 pick_row(const float* p, int count) {
  return load(p, first_n(count));
}
CAMSHAFT_INLINE F32 pick_floats(F32 row, PackedLanes lanes) {
  return {_mm512_permutexvar_ps(lanes, row.v)};
}

CAMSHAFT_INLINE F32 first_of_pairs(PackedLanes pairs) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16))};
}
CAMSHAFT_INLINE F32 second_of_pairs(PackedLanes pairs) {
  return {_mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(-65536)))};
}

}  // namespace camshaft::kernels::avx512
