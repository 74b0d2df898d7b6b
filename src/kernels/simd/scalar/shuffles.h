// SPDX-License-Identifier: Apache-2.0
// Lanes in other places: transposes, repeats, sums of neighbours, pixels packed.
#pragma once

namespace camshaft::kernels::scalar {

CAMSHAFT_INLINE void transpose_full(const float* from, int64_t from_stride, float* to,
                                    int64_t to_stride) {
  for (int c = 0; c < kLanes; ++c)
    for (int r = 0; r < kLanes; ++r) to[c * to_stride + r] = from[r * from_stride + c];
}

// kFold floats, repeated over the vector.
template <int kFold>
CAMSHAFT_INLINE F32 load_repeated(const float* p) {
  if constexpr (kFold == kLanes) return load(p);
  const float repeated[kLanes] = {p[0], p[1], p[0], p[1]};
  return load(repeated);
}

// a0+a1, a2+a3, …, then those of b.
CAMSHAFT_INLINE F32 pair_sums(F32 a, F32 b) {
  float in[2 * kLanes], sums[kLanes];
  store(in, a);
  store(in + kLanes, b);
  for (int k = 0; k < kLanes; ++k) sums[k] = in[2 * k] + in[2 * k + 1];
  return load(sums);
}

// to[k] = scale * reduce_add(a[k]).
CAMSHAFT_INLINE void store_sums(const F32 (&a)[4], float scale, float* to) {
  for (int k = 0; k < 4; ++k) to[k] = scale * reduce_add(a[k]);
}

CAMSHAFT_INLINE I32 positive(I32 a) {
  int32_t lanes[kLanes];
  istore(lanes, a);
  for (int k = 0; k < kLanes; ++k) lanes[k] = lanes[k] < 0 ? 0 : lanes[k];
  return iload(lanes);
}
template <int kChannels>
CAMSHAFT_INLINE void store_pixels(uint8_t* to, I32 pixels) {
  int32_t lanes[kLanes];
  istore(lanes, pixels);
  for (int k = 0; k < kLanes; ++k)
    for (int c = 0; c < kChannels; ++c)
      to[k * kChannels + c] = static_cast<uint8_t>(static_cast<uint32_t>(lanes[k]) >> 8 * c);
}

}  // namespace camshaft::kernels::scalar
