// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/sparse/pair_quads.h"

#include <cstring>

#include "kernels/vector/gemm/gemm_bf16.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
int pair_of_quad(const float* quad, int64_t stride) {
  for (int pair = 0; pair < kQuadPairs; ++pair) {
    bool holds = true;
    for (int row = 0; row < kQuadRows; ++row)
      holds = holds &&
              (row == kFirstOfPair[pair] || row == kSecondOfPair[pair] || quad[row * stride] == 0);
    if (holds) return pair;
  }
  return kQuadPairs;
}

void pack_quad_panel(const float* b, int64_t k_stride, int64_t n_stride, int64_t k, int64_t cols,
                     int64_t width, float scale, std::byte* out) {
  float first[kMaxVecs * kLanes] = {}, second[kMaxVecs * kLanes] = {};
  uint16_t first_bits[kMaxVecs * kLanes], second_bits[kMaxVecs * kLanes];
  const int64_t row_bytes = width * kLaneBytes, quads = k / kQuadRows;
  std::memset(out, 0, static_cast<size_t>(ceil_div(quads, kBlockQuads) * kBlockRows * row_bytes));
  for (int64_t quad = 0; quad < quads; ++quad) {
    const int64_t slot = quad % kBlockQuads;
    auto* codes = reinterpret_cast<uint32_t*>(out + quad / kBlockQuads * kBlockRows * row_bytes);
    for (int64_t c = 0; c < cols; ++c) {
      const float* from = b + quad * kQuadRows * k_stride + c * n_stride;
      const int pair = pair_of_quad(from, k_stride);
      if (pair == kQuadPairs) continue;  // refused before
      codes[c] |= static_cast<uint32_t>(pair) << (kCodeBits * slot);
      first[c] = scale * from[kFirstOfPair[pair] * k_stride];
      second[c] = scale * from[kSecondOfPair[pair] * k_stride];
    }
    to_bf16(first, width, first_bits);
    to_bf16(second, width, second_bits);
    auto* pairs = reinterpret_cast<uint16_t*>(codes + (1 + slot) * width);
    for (int64_t c = 0; c < width; ++c) {
      pairs[2 * c] = first_bits[c];
      pairs[2 * c + 1] = second_bits[c];
    }
  }
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
