// SPDX-License-Identifier: Apache-2.0
// What a GEMM or convolution does with its accumulators: of floats the frequent epilogue programs,
// of bytes the packed form.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>

#include "ir/program.h"
#include "kernels/epilogue/epilogue_form.h"
#include "kernels/kernel.h"

namespace camshaft::kernels {

// Of floats: v = max(v, slope * v), or v * clamp(gate of v); v += operand `residual`; v = clamp(v,
// low, high). Anything else is a program, run on stored tiles.
struct Epilogue {
  static constexpr float kInfinity = std::numeric_limits<float>::infinity();

  bool is_program = false;
  int residual = -1;  // operand (0: the first), -1: none
  float slope = 1, low = -kInfinity, high = kInfinity;
  bool is_gated = false;
  Gate gate = {};

  bool adds() const { return residual >= 0; }
  bool is_clamp() const { return !is_program && !adds() && slope == 1 && !is_gated; }
};
inline constexpr Epilogue kProgramEpilogue = {.is_program = true};

// What of a program has this form, with results of the same bits; gates fold a factor of theirs.
Epilogue classify_epilogue(const ir::Program& program);

// Operands a kernel can take beside its first output: float, or of type `other`, of an extent that
// broadcasts to it. Gives the refusal.
std::string refuse_operands(const Problem& problem, size_t first_operand,
                            DataType other = DataType::kFloat);

// --- epilogues of quantized products. While packing, an epilogue is taken apart:
//   v = acc * multiplier[c] + addend[c]
//   v = round(clamp(v)) * code_scale + code_shift, where codes lie in between
//   v = v * clamp(gate(v)) * code_scale + code_shift, where it is gated
//   v = v + residual_scale * residual
//   v = max(v, slope * v) + post, clamped to [low, high]
//   code = round(v) + offset, for an 8-bit result
// is done where the accumulators are; the instructions after that, whose value 0 is v, are run on
// tiles of floats, and an 8-bit result is round(last_scale * v + last_shift) + last_offset.
// Constants are folded in double precision.

inline constexpr int kMaxEpilogueOperands = 8;
inline constexpr int32_t kTableBytes = 256;  // of a table of codes

// Where a unary program follows a rounding to at most 256 values, it is a table of codes: code
// above is its index.
// `back` below 0: operands are packed only where they are one value.
//
// The channels of an output: `groups` of `channels` each, padded to `padded` in packed vectors.
// `back`: the dimension of channels, counted from the last. Channel c is channel c % period of the
// layer.
struct ChannelLayout {
  int64_t groups, channels, padded;
  int back;
  int64_t period;
};

// Header of the packed form; offsets in bytes from it.
struct PackedEpilogue {
  float low, high, slope, post;
  int32_t offset;
  int32_t residual;  // operand (0: the first), -1: none
  float residual_scale;
  int32_t rounds_first, is_gated;  // code_* are used, at most one of them
  int32_t fits_int;                // v is a 32-bit integer when rounded, also without the clamp
  Gate gate;
  float code_low, code_high, code_scale, code_shift;
  float last_scale, last_shift;
  int32_t last_offset;
  int32_t rest_length;
  int32_t table;                           // of 256 codes, 0: none
  int32_t bytes;                           // of all
  int32_t multiplier, addend;              // [groups][padded] floats
  int32_t rest;                            // ir::Instruction[rest_length]
  int32_t bytes_operands;                  // how many operands of the rest are uint8
  int32_t operands[kMaxEpilogueOperands];  // of constants: [groups][padded] floats; others: 0
};

// Operands (from input first_operand) that are packed: float constants of one value, or one per
// channel. As bits of inputs.
uint32_t packed_operands(const Problem& problem, size_t first_operand, int back);
size_t packed_epilogue_bytes(const Problem& problem, const ir::Program& program,
                             size_t first_operand, const ChannelLayout& layout);
void pack_epilogue(const Problem& problem, const ir::Program& program, size_t first_operand,
                   const ChannelLayout& layout, std::byte* packed);

}  // namespace camshaft::kernels
