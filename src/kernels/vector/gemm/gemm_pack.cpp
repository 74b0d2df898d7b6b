// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/gemm/gemm_pack.h"

#include "kernels/simd/blocks.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

constexpr int64_t kBlock = 4;  // transposed at a time

// to[c][r] = scale * from[r][c] for rows x cols.
void transpose(const float* from, int64_t from_stride, int64_t rows, int64_t cols, float scale,
               float* to, int64_t to_stride) {
  const int64_t whole_rows = rows / kBlock * kBlock, whole_cols = cols / kBlock * kBlock;
  for (int64_t c = 0; c < whole_cols; c += kBlock)
    for (int64_t r = 0; r < whole_rows; r += kBlock)
      transpose_4x4(from + r * from_stride + c, from_stride, scale, to + c * to_stride + r,
                    to_stride);
  for (int64_t r = whole_rows; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) to[c * to_stride + r] = scale * from[r * from_stride + c];
  for (int64_t r = 0; r < whole_rows; ++r)
    for (int64_t c = whole_cols; c < cols; ++c)
      to[c * to_stride + r] = scale * from[r * from_stride + c];
}

void copy_row(const float* from, int64_t count, float scale, float* to) {
  const F32 factor = set1(scale);
  int64_t c = 0;
  for (; c + kLanes <= count; c += kLanes) store(to + c, load(from + c) * factor);
  for (; c < count; ++c) to[c] = scale * from[c];
}

}  // namespace

void pack_panel(const float* b, int64_t k_stride, int64_t n_stride, int64_t k, int64_t cols,
                int64_t width, float scale, float* out) {
  if (cols < width)
    for (int64_t row = 0; row < k; ++row)
      for (int64_t c = cols; c < width; ++c) out[row * width + c] = 0;
  if (n_stride == 1) {
    for (int64_t row = 0; row < k; ++row)
      copy_row(b + row * k_stride, cols, scale, out + row * width);
  } else if (k_stride == 1) {
    transpose(b, n_stride, cols, k, scale, out, width);
  } else {
    for (int64_t row = 0; row < k; ++row)
      for (int64_t c = 0; c < cols; ++c)
        out[row * width + c] = scale * b[row * k_stride + c * n_stride];
  }
}

namespace {

// Columns whose steps of k are neighbours: their dwords are moved.
void pack_byte_columns(const std::byte* b, int64_t n_stride, int64_t steps, int64_t cols,
                       int64_t width, uint32_t flips, uint32_t* out) {
  for (int64_t col = 0; col < cols; col += kBlock)
    for (int64_t step = 0; step < steps; ++step)
      for (int64_t c = col; c < cols && c < col + kBlock; ++c) {
        uint32_t lane;
        __builtin_memcpy(&lane, b + c * n_stride + step * kLaneBytes, sizeof lane);
        out[step * width + c] = lane ^ flips;
      }
}

// Columns that are neighbours: four rows are interleaved.
void pack_byte_rows(const std::byte* b, int64_t k_stride, int64_t steps, int64_t cols,
                    int64_t width, uint8_t flip, std::byte* out) {
  for (int64_t step = 0; step < steps; ++step, out += width * kLaneBytes) {
    const std::byte* row = b + step * kLaneBytes * k_stride;
    int64_t col = 0;
    const std::byte* rows[kLaneBytes] = {row, row + k_stride, row + 2 * k_stride,
                                         row + 3 * k_stride};
    for (; col + 16 <= cols; col += 16) interleave_16(rows, col, flip, out + col * kLaneBytes);
    for (; col < cols; ++col)
      for (int64_t e = 0; e < kLaneBytes; ++e)
        out[col * kLaneBytes + e] = row[e * k_stride + col] ^ static_cast<std::byte>(flip);
  }
}

}  // namespace

void pack_byte_panel(const std::byte* b, int64_t k_stride, int64_t n_stride, int64_t k,
                     int64_t cols, int64_t width, uint8_t flip, std::byte* out) {
  const int64_t whole = k / kLaneBytes, steps = (k + kLaneBytes - 1) / kLaneBytes;
  if (k_stride == 1)
    pack_byte_columns(b, n_stride, whole, cols, width, flip * 0x01010101u,
                      reinterpret_cast<uint32_t*>(out));
  else if (n_stride == 1)
    pack_byte_rows(b, k_stride, whole, cols, width, flip, out);
  const int64_t first = k_stride == 1 || n_stride == 1 ? whole : 0;
  for (int64_t step = 0; step < steps; ++step)
    for (int64_t col = step < first ? cols : 0; col < width; ++col)
      for (int64_t e = 0; e < kLaneBytes; ++e) {
        const int64_t row = step * kLaneBytes + e;
        out[(step * width + col) * kLaneBytes + e] =
            col < cols && row < k
                ? b[row * k_stride + col * n_stride] ^ static_cast<std::byte>(flip)
                : std::byte{0};
      }
}

void pack_word_panel(const std::byte* b, bool is_unsigned, int64_t zero_point, int64_t k_stride,
                     int64_t n_stride, int64_t k, int64_t cols, int64_t width, int16_t* out) {
  const auto value = [is_unsigned, zero_point](std::byte code) {
    const int64_t wide = is_unsigned ? std::to_integer<int64_t>(code) : static_cast<int8_t>(code);
    return static_cast<int16_t>(wide - zero_point);
  };
  for (int64_t step = 0; 2 * step < k; ++step, out += 2 * width) {
    const std::byte* row = b + 2 * step * k_stride;
    const bool has_second = 2 * step + 1 < k;
    for (int64_t col = 0; col < width; ++col) {
      const std::byte* at = row + col * n_stride;
      out[2 * col] = col < cols ? value(*at) : int16_t{0};
      out[2 * col + 1] = col < cols && has_second ? value(at[k_stride]) : int16_t{0};
    }
  }
}

void copy_matrix(const float* a, int64_t row_stride, int64_t k_stride, int64_t rows, int64_t k,
                 float* out, int64_t out_stride) {
  if (k_stride == 1) {
    for (int64_t row = 0; row < rows; ++row)
      copy_row(a + row * row_stride, k, 1, out + row * out_stride);
  } else if (row_stride == 1) {
    transpose(a, k_stride, k, rows, 1, out, out_stride);
  } else {
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t p = 0; p < k; ++p)
        out[row * out_stride + p] = a[row * row_stride + p * k_stride];
  }
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
