// SPDX-License-Identifier: Apache-2.0
// Tile programs that are one chain of operations (each value used once, at most one of them waiting
// beside the chain) run with their values in registers: every operand is read once, every result
// written once, whatever the length of the program. Plain C++ has none.
#pragma once

#include "kernels/vector/program/program_tile.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

// What an operation reads beside the chain's value: z.
enum class StepSource : uint8_t {
  kNone,
  kLiteral,
  kWaiting,
  kFloats,
  kBytes,
  kSignedBytes,
  kBf16,
  kHalf,
  kSplat
};

struct StepContext;
struct Step;
#if !defined(CAMSHAFT_HAS_VECTOR_ARGUMENTS)
using StepFunction = void (*)(const Step*, StepContext*);
#else
inline constexpr int kStepVectors = 8;  // as many as calls pass in registers
using StepFunction = void (*)(const Step*, StepContext*, F32, F32, F32, F32, F32, F32, F32, F32);
#endif

// One operation on the chain's value v; it goes on with the next.
struct Step {
  StepFunction run = nullptr;
  int8_t operand = -1, second = -1;  // of the program
  ir::PointOp unary = ir::PointOp::kIdentity;
  float x = 0, y = 0;
  float by = 1, shift = 0;  // z is operand * by + shift where the operation says so
};

struct RegisterProgram {
  static constexpr int kMaxSteps = 40;
  int num_steps = 0;  // 0: none
  int num_inputs = 0;
  Step steps[kMaxSteps + 1];  // and one that stores

  bool present() const { return num_steps > 0; }
};

// What of operands the form of a chain depends on.
StepSource step_source_of(DataType type, int64_t col_stride);
// False (and not present): no chain, or operands of other types or strides.
bool make_register_program(const ir::Instruction* code, int length, int num_inputs,
                           const StepSource* sources, RegisterProgram& program);
// round(v * scale + shift) + offset behind it; false: too long.
bool append_codes(RegisterProgram& program, float scale, float shift, float offset);

// As run_code, for results of all types but bool.
void run_registers(const RegisterProgram& program, const TileOperand* operands,
                   const TileResult& out, int64_t rows, int64_t cols);

// values[k] = op(values[k]), for operators of one operand (program_tile.cpp).
void apply_unary(const ir::Instruction& op, float* values, int64_t count);

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
