// SPDX-License-Identifier: Apache-2.0
// Bytes and pairs picked from a few that all lanes see.
#pragma once

namespace camshaft::kernels::scalar {

CAMSHAFT_INLINE void keep_in_register(PackedLanes&) {}
CAMSHAFT_INLINE PackedLanes broadcast_eight(const std::byte* p) {
  PackedLanes eight;
  __builtin_memcpy(eight.byte, p, 8);
  __builtin_memcpy(eight.byte + 8, p, 8);
  return eight;
}
CAMSHAFT_INLINE PackedLanes pick(const PackedLanes& bytes, const PackedLanes& positions) {
  PackedLanes picked;
  for (int k = 0; k < 16; ++k) picked.byte[k] = bytes.byte[positions.byte[k]];
  return picked;
}
template <int kSlot>
CAMSHAFT_INLINE PackedLanes unpack_positions(const PackedLanes& packed) {
  PackedLanes positions;
  for (int k = 0; k < 16; ++k)
    positions.byte[k] =
        static_cast<uint8_t>((packed.byte[k] >> (2 * kSlot) & 3) + (k % 2 == 0 ? 0 : 4));
  return positions;
}
template <int kBits>
CAMSHAFT_INLINE PackedLanes shift_dwords(const PackedLanes& dwords) {
  return packed_lanes(reinterpret_cast<Ints>(words(int_lanes(dwords)) >> kBits));
}

inline constexpr int kPickWidth = 4, kPickBits = 2;
CAMSHAFT_INLINE F32 pick_row(const float* p) {
  return load(p);
}
CAMSHAFT_INLINE F32 pick_row(const float* p, int) {
  return load(p);
}
CAMSHAFT_INLINE F32 pick_floats(F32 row, const PackedLanes& lanes) {
  const Ints from = int_lanes(lanes).v;
  F32 picked;
  for (int k = 0; k < kLanes; ++k) picked.v[k] = row.v[from[k] & (kPickWidth - 1)];
  return picked;
}

CAMSHAFT_INLINE F32 first_of_pairs(const PackedLanes& pairs) {
  return bits_as_float(shift_left<16>(int_lanes(pairs)));
}
CAMSHAFT_INLINE F32 second_of_pairs(const PackedLanes& pairs) {
  return bits_as_float({int_lanes(pairs).v & -65536});
}

}  // namespace camshaft::kernels::scalar
