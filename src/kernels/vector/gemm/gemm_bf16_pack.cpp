// SPDX-License-Identifier: Apache-2.0
#include "kernels/simd/float16.h"
#include "kernels/vector/gemm/gemm_bf16.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

void to_bf16(const float* from, int64_t count, uint16_t* to) {
#if defined(CAMSHAFT_HAS_BF16)
  if (uses(Feature::kBf16)) return narrow_by_instruction(from, count, to);
#endif
  convert_row(from, reinterpret_cast<Bf16*>(to), count);
}

void pack_pair_panel(const float* b, int64_t k_stride, int64_t n_stride, int64_t k, int64_t cols,
                     int64_t width, float scale, uint16_t* out) {
  float row[kMaxVecs * kLanes];
  uint16_t bits[kMaxVecs * kLanes];
  for (int64_t step = 0; step < (k + 1) / 2; ++step, out += 2 * width)
    for (int64_t half = 0; half < 2; ++half) {
      const int64_t r = 2 * step + half;
      for (int64_t c = 0; c < width; ++c)
        row[c] = r < k && c < cols ? scale * b[r * k_stride + c * n_stride] : 0;
      to_bf16(row, width, bits);
      for (int64_t c = 0; c < width; ++c) out[2 * c + half] = bits[c];
    }
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
