// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/tile_finish.h"

#include "kernels/vector/program_tile.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

// Strides of a rank 3 or 4 operand of the output.
TileFinish::Operand operand_of(const TensorView& view, const TensorView& y) {
  const BroadcastOperand broadcast = broadcast_operand(view, y);
  if (y.rank == 3)
    return {broadcast.data, broadcast.strides[2], y.extents[2] * broadcast.strides[0],
            broadcast.strides[0], broadcast.strides[1]};
  return {broadcast.data, broadcast.strides[3], broadcast.strides[1], broadcast.strides[0],
          broadcast.strides[2]};
}

}  // namespace

TileFinish tile_finish(const KernelArgs& args, const ir::Program& epilogue, size_t first_operand) {
  TileFinish finish;
  finish.epilogue = classify_epilogue(epilogue);
  finish.program = &epilogue;
  for (size_t k = first_operand; k < args.inputs.size(); ++k)
    finish.operands[finish.num_operands++] = operand_of(args.inputs[k], args.outputs[0]);
  // The kernels add residuals a vector of channels at a time.
  if (finish.epilogue.kind == EpilogueKind::kResidualClip && finish.operands[0].channel != 1)
    finish.epilogue = {EpilogueKind::kProgram, -__builtin_inff(), __builtin_inff(), 0};
  return finish;
}

void run_tile_program(const TileFinish& finish, const TilePlace& place, float* y, int64_t y_pixel,
                      int64_t channel, int64_t channels) {
  TileOperand operands[kMaxOperands + 1];
  operands[0] = {y, y_pixel, 1};
  for (int k = 0; k < finish.num_operands; ++k) {
    const TileFinish::Operand& operand = finish.operands[k];
    operands[k + 1] = {operand.at(place.image, place.row, place.col, channel), operand.pixel,
                       operand.channel};
  }
  run_program(*finish.program, operands, y, y_pixel, place.pixels, channels);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
