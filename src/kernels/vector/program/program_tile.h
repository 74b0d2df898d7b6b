// SPDX-License-Identifier: Apache-2.0
// Runs a tile program on a tile of floats or bytes: the epilogue of convolutions, matrix products
// and others, the body of PointWise.
#pragma once

#include <cstdint>

#include "ir/program.h"
#include "ir/types.h"
#include "kernels/simd/simd.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

using ir::DataType;

// Element (r, c) is data[r * row_stride + c * col_stride], strides in elements. col_stride 1:
// contiguous rows, 0: one scalar per row; others are gathered element by element. Types: float,
// bfloat16, half, int8, uint8 (their codes as floats), bool (0 or 1).
struct TileOperand {
  const void* data;
  int64_t row_stride;
  int64_t col_stride;
  DataType type = DataType::kFloat;
};
struct TileResult {
  void* data;
  int64_t row_stride;
  DataType type = DataType::kFloat;
};

// out[r * out.row_stride + c] = program(operands…); 8-bit results are rounded half to even and
// saturated (NaN: any code), bool ones are "≠ 0". An operand may alias out with the same strides
// and type: its elements are read before they are overwritten. An empty program copies operand 0.
void run_code(const ir::Instruction* code, int length, int num_inputs, const TileOperand* operands,
              const TileResult& out, int64_t rows, int64_t cols);
inline void run_code(const ir::Instruction* code, int length, int num_inputs,
                     const TileOperand* operands, float* out, int64_t out_row_stride, int64_t rows,
                     int64_t cols) {
  run_code(code, length, num_inputs, operands, TileResult{out, out_row_stride}, rows, cols);
}
inline void run_program(const ir::Program& program, const TileOperand* operands,
                        const TileResult& out, int64_t rows, int64_t cols) {
  run_code(program.code.data(), static_cast<int>(program.code.size()), program.num_inputs, operands,
           out, rows, cols);
}
inline void run_program(const ir::Program& program, const TileOperand* operands, float* out,
                        int64_t out_row_stride, int64_t rows, int64_t cols) {
  run_program(program, operands, TileResult{out, out_row_stride}, rows, cols);
}

// Predicted nanoseconds for 16 elements in cache: for cost models and the choice to use threads.
double code_ns_per_16(const ir::Instruction* code, int length);

// Programs longer than this (or with more inputs) are not run: kernels refuse them.
inline constexpr int kMaxProgramValues = 96;
inline bool program_fits(const ir::Program& program) {
  return program.num_inputs + static_cast<int>(program.code.size()) <= kMaxProgramValues;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
