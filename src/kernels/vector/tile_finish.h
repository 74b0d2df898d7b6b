// SPDX-License-Identifier: Apache-2.0
// Where tiles of a matrix product go and what happens to them there: bias of odd shape before,
// epilogue after.
#pragma once

#include "kernels/epilogue.h"
#include "kernels/vector/gemm_tile.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

inline constexpr int kMaxOperands = 8;  // epilogue operands beside the accumulators

// The output as (image, row, pixel, channel): a matrix product has its rows as pixels and its
// columns as channels. Strides in floats; channels are contiguous in the output, in operands their
// stride is 0 where they are broadcast.
struct TileOutput {
  float* data = nullptr;
  int64_t image = 0, row = 0, pixel = 0;
};

struct TileSource {
  const float* data = nullptr;
  int64_t image = 0, row = 0, pixel = 0, channel = 0;

  const float* at(int64_t n, int64_t h, int64_t w, int64_t c) const {
    return data + n * image + h * row + w * pixel + c * channel;
  }
};

struct TileFinish {
  TileOutput out;
  Epilogue epilogue{EpilogueKind::kClip, -__builtin_inff(), __builtin_inff(), 0};
  const ir::Program* program = nullptr;  // run on stored tiles when epilogue.kind is kProgram
  bool has_initial = false;              // tiles start from `initial` instead of the bias
  TileSource initial;
  int num_operands = 0;
  TileSource operands[kMaxOperands];
};

// `operand` broadcast to `output`. Convolutions (rank 3 or 4): channels are dimension 1; matrix
// products: the last.
TileSource conv_source(const TensorView& operand, const TensorView& output);
TileSource matrix_source(const TensorView& operand, const TensorView& output);
// Sets the epilogue with inputs[first_operand …] as its operands.
void set_epilogue(const ir::Program& program, std::span<const TensorView> inputs,
                  size_t first_operand, const TensorView& output,
                  TileSource (*source)(const TensorView&, const TensorView&), TileFinish& finish);

// The epilogue of a convolution whose operands start at input `first_operand`, without `out`.
TileFinish tile_finish(const KernelArgs& args, const ir::Program& epilogue, size_t first_operand);

// A tile's pixels: `pixels` of them from column `col` of row `row`.
struct TilePlace {
  int64_t image, row, col, pixels;
};

// The parts of `tile` that are the same for all tiles.
void set_finish(const TileFinish& finish, Tile& tile);
// c, cols, residual and the start value for channels [channel, channel + cols).
void place_tile(const TileFinish& finish, const TilePlace& place, int64_t channel, int64_t cols,
                Tile& tile);
// Adds the initial values to stored tiles, for kernels that do not start from them.
void add_initial(const TileFinish& finish, const TilePlace& place, int64_t channel,
                 int64_t channels);
// Runs finish.program on stored pixels: `y` is their first float (channel `channel`), pixels are
// `y_pixel` apart.
void run_tile_program(const TileFinish& finish, const TilePlace& place, float* y, int64_t y_pixel,
                      int64_t channel, int64_t channels);
// The same after all tiles of channels [channel, channel + channels) are stored, if there is a
// program to run.
void finish_tiles(const TileFinish& finish, const TilePlace& place, int64_t channel,
                  int64_t channels);

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
