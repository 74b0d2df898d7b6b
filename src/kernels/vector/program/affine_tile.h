// SPDX-License-Identifier: Apache-2.0
// Affine programs on 8-bit operands or with 8-bit results: one loop instead of one per instruction.
#pragma once

#include "kernels/epilogue/affine_program.h"
#include "kernels/vector/program/program_tile.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

// False: another program, other operands or types than float and uint8, or floats only.
bool find_affine(const ir::Instruction* code, int length, int num_inputs,
                 const TileOperand* operands, DataType out, Affine& affine);
void run_affine(const Affine& affine, const TileOperand* operands, const TileResult& out,
                int64_t rows, int64_t cols);

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
