// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/program/tile_finish.h"

#include "kernels/packed/packed_records.h"
#include "kernels/simd/bytes.h"
#include "kernels/vector/pointwise/byte_rows.h"
#include "kernels/vector/pointwise/byte_table.h"
#include "kernels/vector/program/program_tile.h"
#include "kernels/vector/tactic_util.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

const std::byte* at(const TileSource& source, const TilePlace& place, int64_t channel) {
  return source.at(place.image, place.row, place.col, channel);
}

std::byte* at(const TileOutput& out, const TilePlace& place, int64_t channel) {
  return out.data + place.image * out.image + place.row * out.row + place.col * out.pixel +
         channel * out.channel();
}

const float* floats(const std::byte* p) {
  return reinterpret_cast<const float*>(p);
}

int64_t in_floats(int64_t bytes) {
  return bytes / static_cast<int64_t>(sizeof(float));
}

void fill_tile(const TileSource& source, const TilePlace& place, int64_t channel,
               const Tile& tile) {
  const std::byte* from = at(source, place, channel);
  for (int64_t r = 0; r < place.pixels; ++r)
    for (int64_t c = 0; c < tile.c.cols; ++c)
      reinterpret_cast<float*>(tile.c.first + r * tile.c.stride)[c] =
          *floats(from + r * source.pixel + c * source.channel);
}

// The strides of an operand along the dimensions of the output, in bytes, counted from the last; 0
// where it is broadcast.
struct OperandStrides {
  int64_t back[ir::kMaxRank] = {};

  OperandStrides(const TensorView& operand, const TensorView& output) {
    for (int k = 0; k < operand.rank && k < output.rank; ++k) {
      const int dim = operand.rank - 1 - k;
      if (operand.extents[dim] != 1) back[k] = operand.strides[dim] * bytes_of(operand.type);
    }
  }
};

StepSource step_source(const TileFinish& finish, int operand) {
  if (finish.packed && finish.codes.operands[operand] > 0) return StepSource::kFloats;
  const TileSource& source = finish.operands[operand];
  return step_source_of(source.type, source.channel / source.element());
}

// Tiles wait in the scratch unless the output is float.
bool waits(const TileFinish& finish) {
  return finish.has_rest() && finish.out.type == TileOut::kByte;
}

// What is run on stored tiles.
struct RestCode {
  const ir::Instruction* data;
  int length;
  ir::Instruction read[kMaxProgramValues];

  explicit RestCode(const TileFinish& finish) {
    if (finish.packed) {
      length = finish.codes.rest_length;
      read_code(finish.packed + finish.codes.rest, length, read);
      data = read;
    } else {
      length = static_cast<int>(finish.program->code.size());
      data = finish.program->code.data();
    }
  }
};

void set_registers(TileFinish& finish) {
  if (!finish.has_rest()) return;
  const PackedEpilogue& codes = finish.codes;
  const RestCode rest(finish);
  // One operation on floats is a loop of its own.
  if (rest.length < 2 && !waits(finish) && !finish.out.is_16_bit()) return;
  StepSource sources[kMaxOperands + 1] = {StepSource::kFloats};
  for (int k = 0; k < finish.num_operands; ++k) sources[k + 1] = step_source(finish, k);
  if (make_register_program(rest.data, rest.length, finish.num_operands + 1, sources,
                            finish.registers) &&
      waits(finish))
    append_codes(finish.registers, codes.last_scale, codes.last_shift,
                 static_cast<float>(codes.last_offset));
}

}  // namespace

TileSource conv_source(const TensorView& operand, const TensorView& output) {
  const OperandStrides strides(operand, output);
  const int64_t* back = strides.back;
  const std::byte* data = operand.as<const std::byte>();
  if (output.rank == 3)
    return {data, back[2], output.extents[2] * back[0], back[0], back[1], operand.type};
  return {data, back[3], back[1], back[0], back[2], operand.type};
}

TileSource matrix_source(const TensorView& operand, const TensorView& output) {
  const OperandStrides strides(operand, output);
  const int64_t* back = strides.back;
  return {operand.as<const std::byte>(), back[3], back[2], back[1], back[0], operand.type};
}

void set_packed(const std::byte* packed, TileFinish& finish) {
  finish.packed = packed;
  if (packed) read_record(packed, finish.codes);
}

void set_program(TileFinish& finish) {
  if (finish.program->empty() || finish.epilogue.is_program) return;
  finish.epilogue = kProgramEpilogue;
  set_registers(finish);
}

void set_epilogue(const ir::Program& program, std::span<const TensorView> inputs,
                  size_t first_operand, const TensorView& output,
                  TileSource (*source)(const TensorView&, const TensorView&),
                  const std::byte* packed, TileFinish& finish) {
  finish.out.type = output.type == DataType::kUInt8      ? TileOut::kByte
                    : output.type == DataType::kInt32    ? TileOut::kInt
                    : output.type == DataType::kBFloat16 ? TileOut::kBf16
                    : output.type == DataType::kHalf     ? TileOut::kHalf
                                                         : TileOut::kFloat;
  set_packed(packed, finish);
  finish.program = &program;
  for (size_t k = first_operand; k < inputs.size(); ++k)
    finish.operands[finish.num_operands++] = source(inputs[k], output);
  if (packed) return set_registers(finish);
  finish.epilogue = classify_epilogue(program);
  // The kernel adds contiguous residuals only.
  if (finish.epilogue.adds() && !finish.residual().is_contiguous())
    finish.epilogue = kProgramEpilogue;
  set_registers(finish);
}

void set_addresses(const KernelCall& call, size_t first_operand, TileFinish& finish) {
  finish.out.data = call.output<std::byte>(0);
  if (finish.has_initial) finish.initial.data = call.input<const std::byte>(2);
  for (int k = 0; k < finish.num_operands; ++k)
    finish.operands[k].data = call.input<const std::byte>(first_operand + static_cast<size_t>(k));
}

int64_t rest_scratch_bytes(const TileFinish& finish, int64_t pixels) {
  if (!finish.packed && !finish.out.is_16_bit()) return 0;
  const int64_t tiles =
      !finish.packed ? 1 : (finish.codes.rest_length > 0 ? 1 : 0) + finish.codes.bytes_operands;
  return tiles * pixels * (kMaxRestChannels + kLanes) * static_cast<int64_t>(sizeof(float));
}

namespace {

// In place: tiles are set up often, and a copy would wait for its narrow stores.
void set_bytes(const PackedEpilogue& codes, ByteFinish& bytes) {
  bytes.middle = codes.rounds_first != 0 ? ByteMiddle::kRounds
                 : codes.is_gated != 0   ? ByteMiddle::kGates
                                         : ByteMiddle::kNothing;
  bytes.fits_int = codes.fits_int != 0;
  bytes.code_min = code_of(codes.low, codes.offset);
  bytes.code_max = code_of(codes.high, codes.offset);
  bytes.code_low = codes.code_low, bytes.code_high = codes.code_high;
  bytes.code_scale = codes.code_scale, bytes.code_shift = codes.code_shift;
  bytes.gate = &codes.gate;
  bytes.residual_scale = codes.residual_scale;
  bytes.slope = codes.slope, bytes.post = codes.post;
  bytes.low = codes.low, bytes.high = codes.high;
  bytes.offset = codes.offset;
}

}  // namespace

void set_floats(const Epilogue& epilogue, FloatFinish& floats) {
  floats.low = epilogue.low, floats.high = epilogue.high;
  floats.slope = epilogue.slope;
  floats.gate = epilogue.is_gated ? &epilogue.gate : nullptr;
}

void set_finish(const TileFinish& finish, Tile& tile) {
  tile.residual.first = nullptr;
  tile.start.from_c = finish.has_initial;
  tile.c.stride = finish.out.pixel;
  if (finish.packed) {
    set_bytes(finish.codes, tile.bytes);
    tile.c.type = finish.codes.rest_length > 0 ? TileOut::kFloat : finish.out.type;
    return;
  }
  set_floats(finish.epilogue, tile.floats);
  tile.c.type = finish.waits_as_floats() ? TileOut::kFloat : finish.out.type;
}

void place_tile(const TileFinish& finish, const TilePlace& place, int64_t channel, int64_t cols,
                Tile& tile) {
  tile.c.first = at(finish.out, place, channel);
  tile.c.cols = cols;
  if (finish.has_initial && !finish.waits_as_floats())
    fill_tile(finish.initial, place, channel, tile);
  if (finish.epilogue.adds()) {
    tile.residual.first = at(finish.residual(), place, channel);
    tile.residual.stride = finish.residual().pixel;
  }
}

namespace {

constexpr int64_t kRestStride = kMaxRestChannels + kLanes;  // floats between pixels

}  // namespace

void place_byte_tile(const TileFinish& finish, const TilePlace& place, int64_t channel,
                     int64_t cols, int64_t column, int64_t first_channel, std::byte* scratch,
                     Tile& tile) {
  const PackedEpilogue& codes = finish.codes;
  tile.c.cols = cols;
  tile.bytes.multiplier = finish.packed_floats(codes.multiplier) + column;
  tile.bytes.addend = finish.packed_floats(codes.addend) + column;
  if (waits(finish)) {
    tile.c.first = scratch + (channel - first_channel) * static_cast<int64_t>(sizeof(float));
    tile.c.stride = kRestStride * static_cast<int64_t>(sizeof(float));
  } else {
    tile.c.first = at(finish.out, place, channel);
  }
  if (codes.residual >= 0) {
    const TileSource& residual = finish.operands[codes.residual];
    tile.residual.first = at(residual, place, channel);
    tile.residual.stride = residual.pixel;
    tile.residual.type =
        residual.type == DataType::kUInt8 ? ResidualType::kByte : ResidualType::kFloat;
  }
}

void add_initial(const TileFinish& finish, const TilePlace& place, int64_t channel,
                 int64_t channels) {
  if (!finish.has_initial) return;
  const std::byte* from = at(finish.initial, place, channel);
  std::byte* y = at(finish.out, place, channel);
  for (int64_t r = 0; r < place.pixels; ++r)
    for (int64_t c = 0; c < channels; ++c)
      reinterpret_cast<float*>(y + r * finish.out.pixel)[c] +=
          *floats(from + r * finish.initial.pixel + c * finish.initial.channel);
}

TileOperand operand_at(const TileSource& source, const TilePlace& place, int64_t channel) {
  return {at(source, place, channel), source.pixel / source.element(),
          source.channel / source.element(), source.type};
}

void run_tile_program(const TileFinish& finish, const TilePlace& place, float* y, int64_t y_pixel,
                      int64_t channel, int64_t channels) {
  TileOperand operands[kMaxOperands + 1];
  operands[0] = {y, y_pixel, 1};
  for (int k = 0; k < finish.num_operands; ++k)
    operands[k + 1] = operand_at(finish.operands[k], place, channel);
  if (finish.registers.present())
    return run_registers(finish.registers, operands, {y, y_pixel}, place.pixels, channels);
  run_program(*finish.program, operands, y, y_pixel, place.pixels, channels);
}

void finish_tiles(const TileFinish& finish, const TilePlace& place, int64_t channel,
                  int64_t channels) {
  if (!finish.epilogue.is_program) return;
  run_tile_program(finish, place, reinterpret_cast<float*>(at(finish.out, place, channel)),
                   in_floats(finish.out.pixel), channel, channels);
}

namespace {

// uint8 to float, [pixels][kRestStride].
void widen(const TileSource& source, const TilePlace& place, int64_t channel, int64_t channels,
           float* to) {
  const std::byte* first = at(source, place, channel);
  for (int64_t r = 0; r < place.pixels; ++r, first += source.pixel, to += kRestStride) {
    const uint8_t* from = reinterpret_cast<const uint8_t*>(first);
    if (source.channel == 1)
      widen_row(from, to, channels);
    else
      for (int64_t c = 0; c < channels; ++c) to[c] = static_cast<float>(from[c * source.channel]);
  }
}

// Codes of stored pixels, saturated.
void narrow(const PackedEpilogue& packed, const float* from, int64_t rows, int64_t cols,
            std::byte* to, int64_t to_row) {
  const F32 scale = set1(packed.last_scale), shift = set1(packed.last_shift);
  const float offset = static_cast<float>(packed.last_offset);
  const F32 low = set1(-offset), high = set1(255 - offset);
  const I32 after = iset1(packed.last_offset);
  const auto codes = [scale, shift, low, high, after](F32 v) {
    return to_int(min(high, max(low, fma(v, scale, shift)))) + after;
  };
  for (int64_t r = 0; r < rows; ++r, from += kRestStride, to += to_row) {
    uint8_t* bytes = reinterpret_cast<uint8_t*>(to);
    int64_t c = 0;
    for (; c + kLanes <= cols; c += kLanes) store_codes(bytes + c, codes(load(from + c)));
    if (c < cols) store_codes(bytes + c, codes(load(from + c)), static_cast<int>(cols - c));
  }
}

}  // namespace

namespace {

// The chain on pixels of floats at `y`: 8-bit operands are read and results written in place.
void run_rest_in_registers(const TileFinish& finish, const TilePlace& place, int64_t channel,
                           int64_t channels, int64_t column, float* y, int64_t y_pixel) {
  TileOperand operands[kMaxOperands + 1];
  operands[0] = {y, y_pixel, 1};
  for (int k = 0; k < finish.num_operands; ++k) {
    const TileSource& source = finish.operands[k];
    if (finish.codes.operands[k] > 0)
      operands[k + 1] = {finish.packed_floats(finish.codes.operands[k]) + column, 0, 1};
    else
      operands[k + 1] = operand_at(source, place, channel);
  }
  const TileResult out =
      waits(finish) ? TileResult{at(finish.out, place, channel), finish.out.pixel, DataType::kUInt8}
                    : TileResult{y, y_pixel};
  run_registers(finish.registers, operands, out, place.pixels, channels);
}

}  // namespace

void finish_byte_tiles(const TileFinish& finish, const TilePlace& place, int64_t channel,
                       int64_t channels, int64_t column, std::byte* scratch) {
  const PackedEpilogue& codes = finish.codes;
  if (!finish.has_rest()) return;
  const int64_t tile_floats = place.pixels * kRestStride;
  float* next = reinterpret_cast<float*>(scratch);
  TileOperand operands[kMaxOperands + 1];
  float* y = reinterpret_cast<float*>(at(finish.out, place, channel));
  int64_t y_pixel = in_floats(finish.out.pixel);
  if (waits(finish)) y = next, y_pixel = kRestStride;
  if (finish.registers.present())
    return run_rest_in_registers(finish, place, channel, channels, column, y, y_pixel);
  next += tile_floats;
  operands[0] = {y, y_pixel, 1};
  for (int k = 0; k < finish.num_operands; ++k) {
    const TileSource& source = finish.operands[k];
    if (codes.operands[k] > 0) {
      operands[k + 1] = {finish.packed_floats(codes.operands[k]) + column, 0, 1};
    } else if (source.type == DataType::kUInt8) {
      widen(source, place, channel, channels, next);
      operands[k + 1] = {next, kRestStride, 1};
      next += tile_floats;
    } else {
      operands[k + 1] = {floats(at(source, place, channel)), in_floats(source.pixel),
                         in_floats(source.channel)};
    }
  }
  const RestCode rest(finish);
  run_code(rest.data, rest.length, finish.num_operands + 1, operands, y, y_pixel, place.pixels,
           channels);
  if (waits(finish))
    narrow(codes, y, place.pixels, channels, at(finish.out, place, channel), finish.out.pixel);
}

void look_up_tiles(const TileFinish& finish, const TilePlace& place, int64_t channel,
                   int64_t channels) {
  if (!finish.packed || finish.codes.table == 0) return;
  const uint8_t* table = reinterpret_cast<const uint8_t*>(finish.packed + finish.codes.table);
  look_up_codes(table, reinterpret_cast<uint8_t*>(at(finish.out, place, channel)), place.pixels,
                channels, finish.out.pixel);
}

void place_pair_tile(const TileFinish& finish, const TilePlace& place, int64_t channel,
                     int64_t cols, int64_t first_channel, std::byte* scratch, Tile& tile) {
  constexpr int64_t kFloat = static_cast<int64_t>(sizeof(float));
  place_tile(finish, place, channel, cols, tile);
  if (finish.waits_as_floats()) {
    tile.c.first = scratch + (channel - first_channel) * kFloat;
    tile.c.stride = kRestStride * kFloat;
  }
  if (finish.has_initial && finish.waits_as_floats())
    fill_tile(finish.initial, place, channel, tile);
  if (tile.residual.first)
    tile.residual.type =
        finish.residual().type == DataType::kBFloat16 ? ResidualType::kBf16 : ResidualType::kFloat;
}

void finish_pair_tiles(const TileFinish& finish, const TilePlace& place, int64_t channel,
                       int64_t channels, std::byte* scratch) {
  if (!finish.waits_as_floats()) return finish_tiles(finish, place, channel, channels);
  TileOperand operands[kMaxOperands + 1];
  operands[0] = {scratch, kRestStride, 1};
  for (int k = 0; k < finish.num_operands; ++k)
    operands[k + 1] = operand_at(finish.operands[k], place, channel);
  const TileResult out{at(finish.out, place, channel), finish.out.pixel / finish.out.channel(),
                       finish.out.type == TileOut::kBf16 ? DataType::kBFloat16 : DataType::kHalf};
  if (finish.registers.present())
    return run_registers(finish.registers, operands, out, place.pixels, channels);
  if (finish.has_rest()) return run_program(*finish.program, operands, out, place.pixels, channels);
  run_code(nullptr, 0, 1, operands, out, place.pixels, channels);  // all but the conversion is done
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
