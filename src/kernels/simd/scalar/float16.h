// SPDX-License-Identifier: Apache-2.0
// Vectors of bfloat16 and IEEE half values to floats and back.
#pragma once

namespace camshaft::kernels::scalar {

// Bits of v as a bfloat16 in the low half of each lane.
CAMSHAFT_INLINE I32 bf16_bits(F32 v) {
  float lanes[kLanes];
  int32_t out[kLanes];
  store(lanes, v);
  for (int k = 0; k < kLanes; ++k) {
    uint32_t bits;
    std::memcpy(&bits, &lanes[k], sizeof bits);
    const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
    out[k] =
        static_cast<int32_t>(nan ? bits >> 16 | 0x40 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
  return iload(out);
}

CAMSHAFT_INLINE F32 load_floats(const Bf16* p) {
  int32_t lanes[kLanes];
  for (int k = 0; k < kLanes; ++k)
    lanes[k] = static_cast<int32_t>(static_cast<uint32_t>(p[k].bits) << 16);
  return bits_as_float(iload(lanes));
}

CAMSHAFT_INLINE void store_floats(Bf16* p, F32 v) {
  int32_t lanes[kLanes];
  istore(lanes, bf16_bits(v));
  for (int k = 0; k < kLanes; ++k) p[k].bits = static_cast<uint16_t>(lanes[k]);
}

CAMSHAFT_INLINE float half_to_float(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16, rest = bits & 0x7fff;
  uint32_t out = sign;
  if (rest >= 0x7c00) {
    out |= 0x7f800000u | (rest & 0x3ff) << 13 | (rest > 0x7c00 ? 0x400000u : 0);
  } else if (rest >= 0x400) {
    out |= (rest + 0x1c000) << 13;
  } else {  // zero and denormals: exact in float
    const float value = static_cast<float>(rest) * 0x1p-24f;
    uint32_t magnitude;
    std::memcpy(&magnitude, &value, sizeof magnitude);
    out |= magnitude;
  }
  float value;
  std::memcpy(&value, &out, sizeof value);
  return value;
}

CAMSHAFT_INLINE uint16_t float_to_half(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  bits &= 0x7fffffffu;
  if (bits > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00 | (bits >> 13 & 0x3ff));
  if (bits >= 0x477ff000u) return sign | 0x7c00;  // rounds to infinity
  if (bits < 0x38800000u) {                       // a denormal half: adding 0.5 rounds at its place
    float magnitude;
    std::memcpy(&magnitude, &bits, sizeof magnitude);
    magnitude += 0.5f;
    std::memcpy(&bits, &magnitude, sizeof bits);
    return static_cast<uint16_t>(sign | (bits - 0x3f000000u));
  }
  bits += 0xfff + (bits >> 13 & 1);
  return static_cast<uint16_t>(sign | (bits - 0x38000000u) >> 13);
}

CAMSHAFT_INLINE F32 load_floats(const Half* p) {
  float lanes[kLanes];
  for (int k = 0; k < kLanes; ++k) lanes[k] = half_to_float(p[k].bits);
  return load(lanes);
}

CAMSHAFT_INLINE void store_floats(Half* p, F32 v) {
  float lanes[kLanes];
  store(lanes, v);
  for (int k = 0; k < kLanes; ++k) p[k].bits = float_to_half(lanes[k]);
}

}  // namespace camshaft::kernels::scalar
