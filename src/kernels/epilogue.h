// SPDX-License-Identifier: Apache-2.0
// What a GEMM or convolution does with its accumulators: the frequent epilogue programs recognised,
// the operands of all of them as strided views of the output.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "ir/program.h"
#include "kernels/kernel.h"

namespace camshaft::kernels {

enum class EpilogueKind : uint8_t {
  kClip,          // clamp to [low, high]; no epilogue is [-inf, inf]
  kResidualClip,  // add operand 1, then clamp
  kLeaky,         // v < 0 ? slope * v : v with slope in [0, 1]
  kProgram,       // anything else: the tile program
};

struct Epilogue {
  EpilogueKind kind = EpilogueKind::kClip;
  float low = 0, high = 0, slope = 0;
};

Epilogue classify_epilogue(const ir::Program& program);

// An operand seen along the dimensions of the output: element strides, 0 where it is broadcast.
// Dimensions are counted from the last: strides[0] is the output's last dimension.
struct BroadcastOperand {
  const float* data = nullptr;
  int64_t strides[ir::kMaxRank] = {};
};
BroadcastOperand broadcast_operand(const TensorView& operand, const TensorView& output);

// Operands a kernel can take beside its first output: float, of an extent that broadcasts to it.
// Gives the refusal.
std::string refuse_operands(const Problem& problem, size_t first_operand);

}  // namespace camshaft::kernels
