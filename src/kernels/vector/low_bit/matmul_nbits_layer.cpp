// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/low_bit/matmul_nbits_layer.h"

#include <string>

#include "kernels/vector/convolution/conv_gemm.h"
#include "kernels/vector/program/program_tile.h"
#include "kernels/vector/tactic_util.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

void pack_zeros(const BitGeometry& g, const ir::RecordReader& records, int64_t column, int64_t b,
                std::byte* at) {
  const int64_t lane = column % kPanelColumns;
  const float zero = records.zero(column, b);
  if (g.zero == DataType::kUInt8) at[lane] = static_cast<std::byte>(static_cast<uint8_t>(zero));
  if (g.zero == DataType::kFloat) reinterpret_cast<float*>(at)[lane] = zero;
}

// Eight codes of 4 bits, neighbours in pairs, as a dword of a panel.
uint32_t interleave_4_bits(const std::byte* codes) {
  uint32_t pairs;
  __builtin_memcpy(&pairs, codes, sizeof pairs);
  const uint32_t low = pairs & 0xffff, high = pairs >> 16;
  const auto spread = [](uint32_t half) {  // its four codes in the low halves of four bytes
    return (half & 0xf) | (half & 0xf0) << 4 | (half & 0xf00) << 8 | (half & 0xf000) << 12;
  };
  return spread(low) | spread(high) << 4;
}

void pack_codes(const BitGeometry& g, const ir::RecordReader& records, int64_t column, int64_t b,
                std::byte* at) {
  const int64_t count = smaller(g.block, g.depth - b * g.block);
  int64_t k = 0;
  // Whole dwords at once: a mixture of experts has a billion codes.
  for (; g.bits > 2 && k + g.codes_per_dword() <= count; k += g.codes_per_dword()) {
    const std::byte* codes = records.codes(column, b) + k * g.bits / 8;
    std::byte* dword = at + (k / g.codes_per_dword() * kPanelColumns + column % kPanelColumns) * 4;
    const uint32_t packed = interleave_4_bits(codes);
    __builtin_memcpy(dword, g.bits == 4 ? reinterpret_cast<const std::byte*>(&packed) : codes, 4);
  }
  for (; k < count; ++k) {
    const int64_t dword = k / g.codes_per_dword(), in = k % g.codes_per_dword();
    std::byte& byte = at[(dword * kPanelColumns + column % kPanelColumns) * 4 + in % 4];
    byte |= static_cast<std::byte>(records.code(column, b, k) << (in / 4 * g.bits));
  }
}

// Two of four codes, those that are not zero first, and where they were.
struct KeptCodes {
  int code[2], position[2];

  KeptCodes(const ir::RecordReader& records, int64_t column, int64_t b, int64_t first,
            int64_t count) {
    const int zero = static_cast<int>(records.zero(column, b));
    int kept = 0;
    for (const bool wants_zeros : {false, true})
      for (int k = 0; k < 4 && kept < 2; ++k) {
        const int value = first + k < count ? records.code(column, b, first + k) : zero;
        if ((value == zero) != wants_zeros) continue;
        code[kept] = value;
        position[kept++] = k;
      }
  }
};

void pack_sparse_codes(const BitGeometry& g, const ir::RecordReader& records, int64_t column,
                       int64_t b, std::byte* at) {
  const int64_t count = smaller(g.block, g.depth - b * g.block);
  for (int64_t first = 0; first < g.block; first += kSparseCodes) {
    std::byte* group = at + first / kSparseCodes * kSparseRows * kPanelColumns * 4;
    const auto dword = [&](int64_t row) {
      return group + (row * kPanelColumns + column % kPanelColumns) * 4;
    };
    for (int64_t eight = 0; eight < kSparseCodes / 8; ++eight)
      for (int half = 0; half < 2; ++half) {
        const KeptCodes kept(records, column, b, first + 8 * eight + 4 * half, count);
        for (int k = 0; k < 2; ++k) {
          const int byte = half + 2 * k;
          dword(0)[byte] |= static_cast<std::byte>(kept.position[k] << (2 * eight));
          dword(1 + eight / 2)[byte] |= static_cast<std::byte>(kept.code[k] << (eight % 2 * 4));
        }
      }
  }
}

// Batches whose rows lie evenly are one matrix.
void merge_batches(MatmulRun& run) {
  const auto joins = [&run](const TileSource& t) {
    return t.row == run.m * t.pixel && t.image == run.rows * t.row;
  };
  const TileOutput& out = run.finish.out;
  if (run.images * run.rows == 1) return;
  if (run.a.row != run.m * run.a.m && run.rows > 1) return;
  if (run.a.image != run.rows * run.m * run.a.m && run.images > 1) return;
  if (out.row != run.m * out.pixel && run.rows > 1) return;
  if (out.image != run.rows * run.m * out.pixel && run.images > 1) return;
  for (int k = 0; k < run.finish.num_operands; ++k)
    if (!joins(run.finish.operands[k])) return;
  if (run.finish.has_initial && !joins(run.finish.initial)) return;
  run.m *= run.rows * run.images;
  run.rows = run.images = 1;
}

}  // namespace

int64_t low_bit_rows(const Problem& problem) {
  const int64_t columns = problem.outputs[0].extents.back();
  return columns == 0 ? 0 : count_of(problem.outputs[0]) / columns;
}

std::string refuse_low_bits(const Problem& problem) {
  if (problem.inputs[0].extents.size() > 4) return "more than two batch dimensions";
  if (problem.inputs[0].type != DataType::kFloat || problem.outputs[0].type != DataType::kFloat)
    return "not float";
  if (!problem.inputs[1].constant) return "the weights are not constant";
  if (problem.inputs.size() > 2 && problem.inputs[2].present &&
      problem.inputs[2].type != DataType::kFloat)
    return "the bias is not float";
  if (problem.inputs.size() > kFirstMatmulOperand + kMaxOperands)
    return "too many epilogue operands";
  if (!program_fits(low_bits_of(problem).epilogue)) return "the epilogue is too long";
  return refuse_operands(problem, kFirstMatmulOperand, DataType::kFloat);
}

std::string describe_low_bits(const Problem& problem, const char* rows) {
  const ir::LowBits& weights = low_bits_of(problem);
  return "weights of " + std::to_string(weights.bits) + " bits, blocks of " +
         std::to_string(weights.block) + ", rows as " + rows;
}

uint32_t packed_low_bits(const Problem&) {
  return 2;
}

size_t packed_low_bits_bytes(const Problem& problem) {
  const BitGeometry g(low_bits_of(problem));
  return static_cast<size_t>(g.panels() * g.panel_bytes());
}

void pack_panels(const BitGeometry& g, const ir::LowBits& weights, const std::byte* data,
                 std::byte* packed) {
  const ir::RecordReader records(ir::RecordLayout(weights), data);
  __builtin_memset(packed, 0, static_cast<size_t>(g.panels() * g.panel_bytes()));
  for (int64_t column = 0; column < g.columns; ++column)
    for (int64_t b = 0; b < g.blocks; ++b) {
      std::byte* at = packed + column / kPanelColumns * g.panel_bytes() + b * g.block_bytes();
      reinterpret_cast<float*>(at)[column % kPanelColumns] = records.scale(column, b);
      pack_zeros(g, records, column, b, at + kPanelColumns * sizeof(float));
      (g.sparse ? pack_sparse_codes : pack_codes)(g, records, column, b, at + g.header_bytes());
    }
}

void pack_low_bits(const Problem& problem, std::byte* packed) {
  pack_panels(BitGeometry(low_bits_of(problem)), low_bits_of(problem),
              constant_values<std::byte>(problem.inputs[1]), packed);
}

void set_low_bits(const KernelArgs& args, MatmulRun& run) {
  set_result(args, args.layer->as<ir::LowBits>().epilogue, nullptr, run);
  if (args.outputs[0].rank == 1) run.m = 1;
  run.a = left_factor(args.inputs[0], false);
  if (args.inputs.size() > 2 && args.inputs[2].present()) {
    run.finish.has_initial = true;
    run.finish.initial = matrix_source(args.inputs[2], args.outputs[0]);
  }
  merge_batches(run);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
