// SPDX-License-Identifier: Apache-2.0
// Tile programs whose form is found once (program_tile.cpp): for operands of these types and column
// strides, of which only addresses and row strides change.
#pragma once

#include "kernels/vector/program/program_registers.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

struct CompiledCode {
  const ir::Instruction* code = nullptr;
  int length = 0, num_inputs = 0;
  RegisterProgram registers;  // where the program is such a chain
};

// Addresses and row strides of `operands` are not looked at; `code` stays where it is.
void compile_code(const ir::Instruction* code, int length, int num_inputs,
                  const TileOperand* operands, DataType out, CompiledCode& compiled);
// As run_code of the program.
void run_code(const CompiledCode& compiled, const TileOperand* operands, const TileResult& out,
              int64_t rows, int64_t cols);

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
