// SPDX-License-Identifier: Apache-2.0
// PointWise of one 8-bit tensor as a table of its 256 results, made while building: as exact as the
// reference, and as fast for SiLU as for a requantization.
#include <cstring>

#include "kernels/nest.h"
#include "kernels/packed/packed_records.h"
#include "kernels/simd/bytes.h"
#include "kernels/simd/tables.h"
#include "kernels/vector/pointwise/byte_table.h"
#include "kernels/vector/prepare.h"
#include "kernels/vector/program/program_tile.h"
#include "kernels/vector/tactic_util.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::pointwise_table {
namespace {

constexpr int kCodes = 256;

const ir::Program& program_of(const ir::Layer& layer) {
  return std::get_if<ir::PointWiseAttrs>(&layer.attrs)->program;
}

bool is_byte(DataType type) {
  return type == DataType::kUInt8 || type == DataType::kInt8;
}

// The 8-bit input, when all others are scalar float constants; else -1.
int code_input(const Problem& p) {
  int found = -1;
  for (size_t k = 0; k < p.inputs.size(); ++k) {
    const ProblemTensor& t = p.inputs[k];
    if (t.present && t.constant && t.type == DataType::kFloat && count_of(t) == 1) continue;
    if (!t.present || !is_byte(t.type) || t.constant || found >= 0) return -1;
    found = static_cast<int>(k);
  }
  return found;
}

std::string refusal(const Problem& p) {
  const int input = code_input(p);
  if (input < 0) return "not one 8-bit input beside scalar constants";
  const DataType out = p.outputs[0].type;
  if (!is_byte(out) && out != DataType::kFloat) return "the output's type";
  if (count_of(p.inputs[static_cast<size_t>(input)]) != count_of(p.outputs[0]))
    return "the input is broadcast";
  if (!program_fits(program_of(*p.layer))) return "program too long";
  return "";
}

double cost_us(const Problem& p) {
  const double cycles =
      static_cast<double>(count_of(p.outputs[0])) * (p.outputs[0].type == DataType::kFloat ? 0.8
                                                     : kLanes == 16                        ? 0.1
                                                     : kLanes == 8                         ? 0.4
                                                                                           : 1);
  return traffic_us(p) + cycles / 3000 / p.threads;
}

size_t packed_bytes(const Problem& p) {
  return record_bytes<CodeTable>() +
         (p.outputs[0].type == DataType::kFloat ? kCodes * sizeof(float) : kCodes);
}

// Program steps in float, as the reference kernel takes them.
float evaluate(const ir::Program& program, const Problem& p, int input, float code) {
  float values[kMaxProgramValues];
  for (int k = 0; k < program.num_inputs; ++k)
    if (k == input)
      values[k] = code;
    else
      std::memcpy(&values[k], p.inputs[static_cast<size_t>(k)].constant->view.data(),
                  sizeof(float));
  if (program.code.empty()) return values[0];
  int result = program.num_inputs;
  for (size_t k = 0; k < program.code.size(); ++k) {
    const ir::Instruction& op = program.code[k];
    const auto value = [&](int16_t v) { return v < 0 ? 0.0 : static_cast<double>(values[v]); };
    values[result++] = static_cast<float>(
        ir::evaluate_point_op(op.op, value(op.a), value(op.b), value(op.c), op.x, op.y));
  }
  return values[result - 1];
}

uint8_t saturated(float v, DataType type) {
  const float low = type == DataType::kInt8 ? -128 : 0, high = type == DataType::kInt8 ? 127 : 255;
  if (v != v) return 0;
  const float whole = __builtin_rintf(v);
  return static_cast<uint8_t>(static_cast<int>(whole < low ? low : whole > high ? high : whole));
}

void pack(const Problem& p, std::byte* packed) {
  const int input = code_input(p);
  store_record(CodeTable{input}, packed);
  std::byte* table = packed + record_bytes<CodeTable>();
  const bool is_signed = p.inputs[static_cast<size_t>(input)].type == DataType::kInt8;
  const DataType out = p.outputs[0].type;
  for (int k = 0; k < kCodes; ++k) {
    const float result = evaluate(program_of(*p.layer), p, input,
                                  static_cast<float>(is_signed && k > 127 ? k - 256 : k));
    if (out == DataType::kFloat)
      std::memcpy(table + static_cast<size_t>(k) * sizeof(float), &result, sizeof(float));
    else
      table[k] = static_cast<std::byte>(saturated(result, out));
  }
}

// --- look-ups

template <class T>
void look_up_each(const T* table, const uint8_t* from, int64_t step, T* to, int64_t count) {
  for (int64_t k = 0; k < count; ++k) to[k] = table[from[k * step]];
}

#if !defined(CAMSHAFT_HAS_BYTE_ROWS)
void look_up(const uint8_t* table, const uint8_t* from, uint8_t* to, int64_t count) {
  look_up_each(table, from, 1, to, count);
}
#else

// A shuffle picks from 16 entries and gives 0 where the index is negative. Row r of the table takes
// part in the sum where the index is at least 16 r; from row to row only the difference is added,
// so that the sum of rows 0 … r is row r. The lower and the upper half of the table go separately:
// an index of the other half is negative and stays so under saturating subtractions.
void look_up_rows(const uint8_t* table, const uint8_t* from, uint8_t* to, int64_t count) {
  constexpr int kRows = 16, kVectors = 2;
  Bytes rows[kRows];
  for (int r = 0; r < kRows; ++r) {
    rows[r] = repeat(table + 16 * r);
    if (r % 8 != 0) rows[r] = rows[r] ^ repeat(table + 16 * (r - 1));
  }
  constexpr int64_t kStep = kVectors * Bytes::kCount;
  const auto step = [&rows](const uint8_t* codes, uint8_t* results) __attribute__((always_inline)) {
    Bytes low[kVectors], high[kVectors], sum[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      low[v] = load_codes(codes + v * Bytes::kCount), high[v] = half_off(low[v]);
      sum[v] = pick(rows[0], low[v]) ^ pick(rows[8], high[v]);
    }
#pragma GCC unroll 8
    for (int r = 1; r < 8; ++r)
      for (int v = 0; v < kVectors; ++v) {
        low[v] = less_16(low[v]), high[v] = less_16(high[v]);
        sum[v] = sum[v] ^ pick(rows[r], low[v]) ^ pick(rows[8 + r], high[v]);
      }
    for (int v = 0; v < kVectors; ++v) store_codes(results + v * Bytes::kCount, sum[v]);
  };
  int64_t k = 0;
  for (; k + kStep <= count; k += kStep) step(from + k, to + k);
  if (k == count) return;
  uint8_t rest[kStep];
  std::memcpy(rest, from + k, static_cast<size_t>(count - k));
  step(rest, rest);
  std::memcpy(to + k, rest, static_cast<size_t>(count - k));
}

void look_up(const uint8_t* table, const uint8_t* from, uint8_t* to, int64_t count) {
  if (!look_up_at_once(table, from, to, count)) look_up_rows(table, from, to, count);
}
#endif

void look_up(const float* table, const uint8_t* from, float* to, int64_t count) {
  look_up_each(table, from, 1, to, count);
}

struct TableKernel {
  Nest nest;  // the output, then the codes
  size_t input;
  double predicted_us;
};

template <class T>
void run_rows(TableKernel& kernel, const KernelCall& call) {
  const Nest& nest = kernel.nest;
  const T* table = reinterpret_cast<const T*>(call.packed + record_bytes<CodeTable>());
  const uint8_t* x = call.input<const uint8_t>(kernel.input);
  T* y = call.output<T>(0);
  for_tiles(nest, call.pool, kernel.predicted_us,
            [&](const int64_t* offsets, int64_t rows, int64_t cols) {
              const uint8_t* from = x + offsets[1];
              T* to = y + offsets[0];
              const int64_t step = nest.col_stride(1);
              for (int64_t row = 0; row < rows; ++row) {
                if (step == 1)
                  look_up(table, from, to, cols);
                else
                  look_up_each(table, from, step, to, cols);
                from += nest.row_stride(1), to += nest.row_stride(0);
              }
            });
}

void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  CodeTable header;
  read_record(args.packed, header);
  const auto input = static_cast<size_t>(header.input);
  const TensorView& y = args.outputs[0];
  const bool is_float = y.type == DataType::kFloat;
  TableKernel state{make_nest(y), input,
                    static_cast<double>(count_of(y)) * (is_float ? 0.8 : 0.2) / 3000};
  add_tensor(state.nest, args.inputs[input]);
  collapse(state.nest);
  is_float ? keep_state<run_rows<float>>(kernel, state)
           : keep_state<run_rows<uint8_t>>(kernel, state);
}

// Short rows: a call of memcpy takes longer.
CAMSHAFT_INLINE void copy_codes(const uint8_t* from, uint8_t* to, int64_t count) {
  constexpr int64_t kPiece = 16;
  if (count < kPiece) {
    for (int64_t k = 0; k < count; ++k) to[k] = from[k];
    return;
  }
  for (int64_t k = 0; k + kPiece < count; k += kPiece) __builtin_memcpy(to + k, from + k, kPiece);
  __builtin_memcpy(to + count - kPiece, from + count - kPiece, kPiece);
}

constexpr Tactic kTactics[] = {
    {.name = "pointwise_table_i8",
     .kind = ir::LayerKind::kPointWise,
     .isa = kIsa,
     .formats = FormatRule::kSame,
     .version = 1,
     .refusal = refusal,
     .cost_us = cost_us,
     .packed_inputs = no_packed_inputs,
     .packed_bytes = packed_bytes,
     .pack = pack,
     .prepare = prepare},
};

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::pointwise_table

namespace camshaft::kernels::CAMSHAFT_TARGET {

void look_up_codes(const uint8_t* table, uint8_t* codes, int64_t rows, int64_t cols,
                   int64_t stride) {
  using pointwise_table::copy_codes, pointwise_table::look_up;
  if (cols == stride) return look_up(table, codes, codes, rows * cols);
  // Rows of a few codes are looked up together.
  constexpr int64_t kTogether = 512;
  uint8_t together[kTogether];
  const int64_t most = cols > kTogether / 2 ? 1 : kTogether / cols;
  for (int64_t first = 0; first < rows; first += most) {
    const int64_t count = rows - first < most ? rows - first : most;
    uint8_t* from = codes + first * stride;
    if (count == 1) {
      look_up(table, from, from, cols);
      continue;
    }
    for (int64_t r = 0; r < count; ++r) copy_codes(from + r * stride, together + r * cols, cols);
    look_up(table, together, together, count * cols);
    for (int64_t r = 0; r < count; ++r) copy_codes(together + r * cols, from + r * stride, cols);
  }
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
