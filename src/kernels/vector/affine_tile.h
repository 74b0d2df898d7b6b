// SPDX-License-Identifier: Apache-2.0
// Tile programs that are affine in one or two 8-bit or float operands, perhaps clamped and rounded:
// dequantize, quantize, requantize, residual additions. One loop instead of one per instruction.
#pragma once

#include "kernels/vector/program_tile.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

// round(clamp(Σ scale[k] * (x_k - offset[k]) + shift, low, high)) + after.
struct Affine {
  int inputs[2] = {-1, -1};  // of the program
  float scale[2] = {0, 0}, offset[2] = {0, 0};
  float shift = 0, low = 0, high = 0;
  int32_t after = 0;
  float divisor = 0;  // ≠ 0: x_0 / divisor, correctly rounded, instead of the sum
};

// False: another program, other operands or types than float and uint8.
bool find_affine(const ir::Instruction* code, int length, int num_inputs,
                 const TileOperand* operands, DataType out, Affine& affine);
void run_affine(const Affine& affine, const TileOperand* operands, const TileResult& out,
                int64_t rows, int64_t cols);

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
