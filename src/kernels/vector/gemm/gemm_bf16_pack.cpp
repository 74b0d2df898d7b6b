// SPDX-License-Identifier: Apache-2.0
#include "kernels/simd/float16.h"
#include "kernels/vector/counts.h"
#include "kernels/vector/gemm/gemm_bf16.h"
#include "kernels/vector/movement/transpose_tile.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

void to_bf16(const float* from, int64_t count, uint16_t* to) {
#if defined(CAMSHAFT_HAS_BF16)
  if (uses(Feature::kBf16)) return narrow_by_instruction(from, count, to);
#endif
  convert_row(from, reinterpret_cast<Bf16*>(to), count);
}

namespace {

constexpr int64_t kMostColumns = kMaxVecs * kLanes;
constexpr int64_t kPairsTogether = 32;  // of a column, turned together

// A row of a panel: scale * b, zeros from `cols` on.
void read_row(const float* b, int64_t n_stride, int64_t cols, int64_t width, float scale,
              float* row) {
  if (n_stride == 1)
    for (int64_t c = 0; c < cols; ++c) row[c] = scale * b[c];
  else
    for (int64_t c = 0; c < cols; ++c) row[c] = scale * b[c * n_stride];
  for (int64_t c = cols; c < width; ++c) row[c] = 0;
}

// Two rows at a time.
void pack_rows(const float* b, int64_t k_stride, int64_t n_stride, int64_t k, int64_t cols,
               int64_t width, float scale, uint16_t* out) {
  float row[kMostColumns];
  uint16_t even[kMostColumns], odd[kMostColumns];
  for (int64_t r = 0; r < k; r += 2, out += 2 * width) {
    read_row(b + r * k_stride, n_stride, cols, width, scale, row);
    to_bf16(row, width, even);
    read_row(b + (r + 1) * k_stride, n_stride, r + 1 < k ? cols : 0, width, scale, row);
    to_bf16(row, width, odd);
    for (int64_t c = 0; c < width; ++c) {
      const uint32_t pair = even[c] | static_cast<uint32_t>(odd[c]) << 16;
      __builtin_memcpy(out + 2 * c, &pair, sizeof pair);
    }
  }
}

// Where columns lie together a pair is a lane already: columns are narrowed and turned.
void pack_columns(const float* b, int64_t n_stride, int64_t k, int64_t cols, int64_t width,
                  float scale, uint16_t* out) {
  float column[2 * kPairsTogether], lanes[kMostColumns * kPairsTogether];
  for (int64_t first = 0; first < k; first += 2 * kPairsTogether) {
    const int64_t count = smaller(2 * kPairsTogether, k - first), pairs = ceil_div(count, 2);
    for (int64_t c = 0; c < cols; ++c) {
      read_row(b + c * n_stride + first, 1, count, 2 * pairs, scale, column);
      to_bf16(column, 2 * pairs, reinterpret_cast<uint16_t*>(lanes + c * kPairsTogether));
    }
    float* to = reinterpret_cast<float*>(out) + first / 2 * width;
    for (int64_t pair = 0; pair < pairs; ++pair)
      for (int64_t c = cols; c < width; ++c) to[pair * width + c] = 0;
    transpose_block(lanes, kPairsTogether, to, width, cols, pairs);
  }
}

}  // namespace

void pack_pair_panel(const float* b, int64_t k_stride, int64_t n_stride, int64_t k, int64_t cols,
                     int64_t width, float scale, uint16_t* out) {
  if (k_stride == 1 && n_stride != 1)
    pack_columns(b, n_stride, k, cols, width, scale, out);
  else
    pack_rows(b, k_stride, n_stride, k, cols, width, scale, out);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
