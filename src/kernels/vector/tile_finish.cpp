// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/tile_finish.h"

#include "kernels/vector/program_tile.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

const float* at(const TileSource& source, const TilePlace& place, int64_t channel) {
  return source.data + place.image * source.image + place.row * source.row +
         place.col * source.pixel + channel * source.channel;
}

float* at(const TileOutput& out, const TilePlace& place, int64_t channel) {
  return out.data + place.image * out.image + place.row * out.row + place.col * out.pixel + channel;
}

void fill_tile(const TileSource& source, const TilePlace& place, int64_t channel,
               const Tile& tile) {
  const float* from = at(source, place, channel);
  for (int64_t r = 0; r < place.pixels; ++r)
    for (int64_t c = 0; c < tile.cols; ++c)
      tile.c[r * tile.c_stride + c] = from[r * source.pixel + c * source.channel];
}

}  // namespace

TileSource conv_source(const TensorView& operand, const TensorView& output) {
  const BroadcastOperand b = broadcast_operand(operand, output);
  if (output.rank == 3)
    return {b.data, b.strides[2], output.extents[2] * b.strides[0], b.strides[0], b.strides[1]};
  return {b.data, b.strides[3], b.strides[1], b.strides[0], b.strides[2]};
}

TileSource matrix_source(const TensorView& operand, const TensorView& output) {
  const BroadcastOperand b = broadcast_operand(operand, output);
  return {b.data, b.strides[3], b.strides[2], b.strides[1], b.strides[0]};
}

void set_epilogue(const ir::Program& program, std::span<const TensorView> inputs,
                  size_t first_operand, const TensorView& output,
                  TileSource (*source)(const TensorView&, const TensorView&), TileFinish& finish) {
  finish.epilogue = classify_epilogue(program);
  finish.program = &program;
  for (size_t k = first_operand; k < inputs.size(); ++k)
    finish.operands[finish.num_operands++] = source(inputs[k], output);
  // The kernel adds contiguous residuals only.
  if (finish.epilogue.kind == EpilogueKind::kResidualClip && finish.operands[0].channel != 1)
    finish.epilogue = {EpilogueKind::kProgram, -__builtin_inff(), __builtin_inff(), 0};
}

void set_finish(const TileFinish& finish, Tile& tile) {
  tile.c_stride = finish.out.pixel;
  tile.low = finish.epilogue.low;
  tile.high = finish.epilogue.high;
  tile.slope = finish.epilogue.kind == EpilogueKind::kLeaky ? finish.epilogue.slope : 1;
  tile.accumulate = finish.has_initial;
  tile.residual = nullptr;
}

void place_tile(const TileFinish& finish, const TilePlace& place, int64_t channel, int64_t cols,
                Tile& tile) {
  tile.c = at(finish.out, place, channel);
  tile.cols = cols;
  if (finish.has_initial) fill_tile(finish.initial, place, channel, tile);
  if (finish.epilogue.kind == EpilogueKind::kResidualClip) {
    tile.residual = at(finish.operands[0], place, channel);
    tile.residual_stride = finish.operands[0].pixel;
  }
}

void add_initial(const TileFinish& finish, const TilePlace& place, int64_t channel,
                 int64_t channels) {
  if (!finish.has_initial) return;
  const float* from = at(finish.initial, place, channel);
  float* y = at(finish.out, place, channel);
  for (int64_t r = 0; r < place.pixels; ++r)
    for (int64_t c = 0; c < channels; ++c)
      y[r * finish.out.pixel + c] += from[r * finish.initial.pixel + c * finish.initial.channel];
}

void run_tile_program(const TileFinish& finish, const TilePlace& place, float* y, int64_t y_pixel,
                      int64_t channel, int64_t channels) {
  TileOperand operands[kMaxOperands + 1];
  operands[0] = {y, y_pixel, 1};
  for (int k = 0; k < finish.num_operands; ++k)
    operands[k + 1] = {at(finish.operands[k], place, channel), finish.operands[k].pixel,
                       finish.operands[k].channel};
  run_program(*finish.program, operands, y, y_pixel, place.pixels, channels);
}

void finish_tiles(const TileFinish& finish, const TilePlace& place, int64_t channel,
                  int64_t channels) {
  if (finish.epilogue.kind != EpilogueKind::kProgram) return;
  run_tile_program(finish, place, at(finish.out, place, channel), finish.out.pixel, channel,
                   channels);
}

TileFinish tile_finish(const KernelArgs& args, const ir::Program& epilogue, size_t first_operand) {
  TileFinish finish;
  set_epilogue(epilogue, args.inputs, first_operand, args.outputs[0], conv_source, finish);
  return finish;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
