// SPDX-License-Identifier: Apache-2.0
// Tile programs that are affine in one or two operands, perhaps clamped and rounded: dequantize,
// quantize, requantize, residual additions, the epilogues of quantized layers.
#pragma once

#include <cstdint>

#include "ir/program.h"
#include "kernels/kernel.h"

namespace camshaft::kernels {

// round(clamp(Σ scale[k] * (x_k - offset[k]) + shift, low, high)) + after; float results are not
// rounded. uint8 results have offset 0 and bounds within the type. Packed by pointwise_planes_u8:
// a change here raises its version.
struct Affine {
  int inputs[2] = {-1, -1};  // of the program
  float scale[2] = {0, 0}, offset[2] = {0, 0};
  float shift = 0, low = 0, high = 0;
  int32_t after = 0;
  float divisor = 0;  // ≠ 0: x_0 / divisor, to be rounded as a quotient, instead of the sum
};

struct AffineInput {
  enum Kind : uint8_t { kVector, kConstant, kOther } kind = kOther;
  float constant = 0;
};

// False: not affine, more than two vectors, or a result neither float nor uint8.
bool find_affine(const ir::Instruction* code, int length, int num_inputs, const AffineInput* inputs,
                 DataType out, Affine& affine);

}  // namespace camshaft::kernels
