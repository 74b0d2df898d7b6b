// SPDX-License-Identifier: Apache-2.0
// How a tile of an output ends: its epilogue, and where that one's operands lie. Shared by all
// kernels that store tiles of a channel-last output.
#pragma once

#include "kernels/epilogue.h"
#include "kernels/simd/simd.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

inline constexpr int kMaxOperands = 8;  // epilogue operands beside the accumulators

// How a tile ends; shared by all kernels that store tiles of an output.
struct TileFinish {
  Epilogue epilogue;
  const ir::Program* program = nullptr;  // run on stored tiles when epilogue.kind is kProgram
  int num_operands = 0;
  struct Operand {
    const float* data;
    int64_t image, row, pixel, channel;  // strides
    const float* at(int64_t n, int64_t h, int64_t w, int64_t c) const {
      return data + n * image + h * row + w * pixel + c * channel;
    }
  } operands[kMaxOperands];
};

// The epilogue of a convolution-like layer whose extra inputs start at `first_operand`; outputs[0]
// is the rank 3 or 4 output.
TileFinish tile_finish(const KernelArgs& args, const ir::Program& epilogue, size_t first_operand);

// Neighbouring pixels of one output row.
struct TilePlace {
  int64_t image, row, col, pixels;
};

// Runs finish.program on stored pixels: `y` is their first float (channel `channel`), pixels are
// `y_pixel` apart.
void run_tile_program(const TileFinish& finish, const TilePlace& place, float* y, int64_t y_pixel,
                      int64_t channel, int64_t channels);

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
