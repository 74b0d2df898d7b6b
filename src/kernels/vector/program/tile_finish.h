// SPDX-License-Identifier: Apache-2.0
// Where tiles of a matrix product go and what happens to them there: bias of odd shape before,
// epilogue after.
#pragma once

#include "kernels/epilogue/epilogue.h"
#include "kernels/prepared.h"
#include "kernels/vector/gemm/gemm_tile.h"
#include "kernels/vector/program/program_registers.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

inline constexpr int kMaxOperands =
    kMaxEpilogueOperands;  // epilogue operands beside the accumulators

// The output as (image, row, pixel, channel): a matrix product has its rows as pixels and its
// columns as channels. Strides in bytes; channels are contiguous in the output, in operands their
// stride is 0 where they are broadcast.
struct TileOutput {
  std::byte* data = nullptr;
  int64_t image = 0, row = 0, pixel = 0;
  TileOut type = TileOut::kFloat;

  int64_t channel() const { return type == TileOut::kByte ? 1 : is_16_bit() ? 2 : 4; }
  bool is_16_bit() const { return type == TileOut::kBf16 || type == TileOut::kHalf; }
};

// An operand, seen along the same dimensions.
struct TileSource {
  const std::byte* data = nullptr;
  int64_t image = 0, row = 0, pixel = 0, channel = 0;
  DataType type = DataType::kFloat;  // or 8 bits, bool, bfloat16, half

  const std::byte* at(int64_t n, int64_t h, int64_t w, int64_t c) const {
    return data + n * image + h * row + w * pixel + c * channel;
  }
  int64_t element() const {
    return type == DataType::kFloat                                 ? 4
           : type == DataType::kBFloat16 || type == DataType::kHalf ? 2
                                                                    : 1;
  }
  bool is_contiguous() const { return channel == element(); }
};

struct TileFinish {
  TileOutput out;
  Epilogue epilogue;
  const ir::Program* program = nullptr;  // run on stored tiles where the epilogue is_program
  bool has_initial = false;              // tiles start from `initial` instead of the bias
  TileSource initial;
  int num_operands = 0;
  TileSource operands[kMaxOperands];
  const std::byte* packed = nullptr;  // of bytes: what replaces `epilogue` and `program`,
  PackedEpilogue codes;               // and its header
  RegisterProgram registers;  // what is run on stored tiles, up to 8-bit results, if it is a chain

  // What a float epilogue adds.
  const TileSource& residual() const { return operands[epilogue.residual]; }
  // What follows the tile kernel: nothing, the program, or the rest of it.
  bool has_rest() const { return packed ? codes.rest_length > 0 : epilogue.is_program; }
  // What follows the kernel needs memory for every pixel besides the output.
  bool uses_scratch() const {
    const bool widens = packed && codes.bytes_operands > 0 && !registers.present();
    return has_rest() && (out.type == TileOut::kByte || widens);
  }
  // 16-bit results are stored by what runs after the kernel, from floats.
  bool waits_as_floats() const { return out.is_16_bit() && (has_rest() || has_initial); }
  const float* packed_floats(int64_t offset) const {
    return reinterpret_cast<const float*>(packed + offset);
  }
  int64_t packed_bytes() const { return packed ? codes.bytes : 0; }
};

// `operand` broadcast to `output`. Convolutions (rank 3 or 4): channels are dimension 1; matrix
// products: the last.
TileSource conv_source(const TensorView& operand, const TensorView& output);
TileSource matrix_source(const TensorView& operand, const TensorView& output);
void set_packed(const std::byte* packed, TileFinish& finish);
// The addresses of a call, in place of those set_epilogue() saw, but for `packed`; initial values
// are input 2.
void set_addresses(const KernelCall& call, size_t first_operand, TileFinish& finish);
// Sets the epilogue with inputs[first_operand …] as its operands; `packed`: of bytes.
void set_epilogue(const ir::Program& program, std::span<const TensorView> inputs,
                  size_t first_operand, const TensorView& output,
                  TileSource (*source)(const TensorView&, const TensorView&),
                  const std::byte* packed, TileFinish& finish);
// Takes the whole epilogue for a program to run on stored tiles: for kernels that do none of it.
void set_program(TileFinish& finish);

// A tile's pixels: `pixels` of them from column `col` of row `row`.
struct TilePlace {
  int64_t image, row, col, pixels;
};

// An operand from a place on, as programs read it.
TileOperand operand_at(const TileSource& source, const TilePlace& place, int64_t channel);

// Where the tiles of one worker wait for what follows the kernel, when that is not the output:
// pixels of floats, then as many for every operand that is uint8.
inline constexpr int64_t kMaxRestChannels = 256;  // finished together
int64_t rest_scratch_bytes(const TileFinish& finish, int64_t pixels);

// What a tile does itself; nothing where that is a program.
void set_floats(const Epilogue& epilogue, FloatFinish& floats);
// The parts of `tile` that are the same for all tiles.
void set_finish(const TileFinish& finish, Tile& tile);
// c, cols, residual and the start value for channels [channel, channel + cols). `scratch`: of the
// tiles whose first channel is `first_channel`. `column`: of `channel` in the packed vectors.
void place_tile(const TileFinish& finish, const TilePlace& place, int64_t channel, int64_t cols,
                Tile& tile);
void place_byte_tile(const TileFinish& finish, const TilePlace& place, int64_t channel,
                     int64_t cols, int64_t column, int64_t first_channel, std::byte* scratch,
                     Tile& tile);
void place_pair_tile(const TileFinish& finish, const TilePlace& place, int64_t channel,
                     int64_t cols, int64_t first_channel, std::byte* scratch, Tile& tile);
// Adds the initial values to stored tiles, for kernels that do not start from them.
void add_initial(const TileFinish& finish, const TilePlace& place, int64_t channel,
                 int64_t channels);
// Runs finish.program on stored pixels: `y` is their first float (channel `channel`), pixels are
// `y_pixel` floats apart.
void run_tile_program(const TileFinish& finish, const TilePlace& place, float* y, int64_t y_pixel,
                      int64_t channel, int64_t channels);
// The same after all tiles of channels [channel, channel + channels) are stored, if there is a
// program to run.
void finish_tiles(const TileFinish& finish, const TilePlace& place, int64_t channel,
                  int64_t channels);
void finish_byte_tiles(const TileFinish& finish, const TilePlace& place, int64_t channel,
                       int64_t channels, int64_t column, std::byte* scratch);
// The table of codes on finished pixels, in place, if there is one: long rows are looked up faster.
void look_up_tiles(const TileFinish& finish, const TilePlace& place, int64_t channel,
                   int64_t channels);
void finish_pair_tiles(const TileFinish& finish, const TilePlace& place, int64_t channel,
                       int64_t channels, std::byte* scratch);

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
