// SPDX-License-Identifier: Apache-2.0
// Lays a matrix out for the register tile.
#pragma once

#include "kernels/vector/gemm/gemm_tile.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

// One panel: out[k][0 … width) = scale * b[k * k_stride + col * n_stride], zeros from `cols` on.
// width is a multiple of kLanes.
void pack_panel(const float* b, int64_t k_stride, int64_t n_stride, int64_t k, int64_t cols,
                int64_t width, float scale, float* out);

// The same of bytes, four steps of k in a lane: out is [(k + 3) / 4][width] lanes. uint8 becomes
// int8 with flip 0x80, which subtracts 128.
void pack_byte_panel(const std::byte* b, int64_t k_stride, int64_t n_stride, int64_t k,
                     int64_t cols, int64_t width, uint8_t flip, std::byte* out);

// 8-bit weights as int16, two steps of k in a lane: out[(k / 2)][col][k % 2] = b[k * k_stride + col
// * n_stride] - zero_point, [(k + 1) / 2][width] lanes, zeros from `cols` on.
void pack_word_panel(const std::byte* b, bool is_unsigned, int64_t zero_point, int64_t k_stride,
                     int64_t n_stride, int64_t k, int64_t cols, int64_t width, int16_t* out);

// out[row * out_stride + k] = a[row * row_stride + k * k_stride].
void copy_matrix(const float* a, int64_t row_stride, int64_t k_stride, int64_t rows, int64_t k,
                 float* out, int64_t out_stride);

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
