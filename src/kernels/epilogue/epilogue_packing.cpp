// SPDX-License-Identifier: Apache-2.0
// The packed form of what EpilogueAnalysis finds: header, vectors of channels, instructions left.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/epilogue/epilogue.h"
#include "kernels/epilogue/epilogue_analysis.h"
#include "kernels/packed/packed_records.h"

namespace camshaft::kernels {
namespace {

int32_t aligned_bytes(size_t bytes) {
  return static_cast<int32_t>((bytes + 63) / 64 * 64);
}

// Where everything lies: from shapes alone, because an engine is checked without its constants.
PackedEpilogue place_parts(const Problem& problem, const ir::Program& program, size_t first_operand,
                           const ChannelLayout& layout) {
  PackedEpilogue header{};
  const int32_t vector_bytes =
      aligned_bytes(static_cast<size_t>(layout.groups * layout.padded) * sizeof(float));
  header.multiplier = static_cast<int32_t>(record_bytes<PackedEpilogue>());
  header.addend = header.multiplier + vector_bytes;
  header.rest = header.addend + vector_bytes;
  header.table = header.rest + aligned_bytes(code_bytes(program.code.size()));
  header.bytes = header.table + (program.empty() ? 0 : kTableBytes);
  const uint32_t packed = packed_operands(problem, first_operand, layout.back);
  for (size_t k = first_operand; k < problem.inputs.size(); ++k) {
    if ((packed >> k & 1u) == 0) continue;
    header.operands[k - first_operand] = header.bytes;
    header.bytes += vector_bytes;
  }
  return header;
}

double largest_of(const ChannelValues& values) {
  double largest = 0;
  for (double v : values)
    largest = std::isnan(v) ? SumForm::kInfinity : std::max(largest, std::abs(v));
  return largest;
}

// Whether v, not yet clamped, is a 32-bit integer when rounded, whatever the accumulators are.
bool fits_int(const SumForm& chain, bool residual_is_byte) {
  constexpr double kIntegers = 2147483648.0;
  double bound = kIntegers * largest_of(chain.multiplier) + largest_of(chain.addend);
  const SumForm::Code& code = chain.code;
  if (code.present && !code.is_gate) bound = std::max(std::abs(code.low), std::abs(code.high));
  if (code.present) bound = bound * std::abs(code.scale) + std::abs(code.shift);
  if (chain.residual >= 0)
    bound += residual_is_byte ? 255 * std::abs(chain.residual_scale) : SumForm::kInfinity;
  return bound + std::abs(chain.post) < 0.99 * kIntegers;
}

void set_values(const Problem& problem, const EpilogueAnalysis& analysis, size_t first_operand,
                PackedEpilogue& header) {
  const SumForm& chain = analysis.chain();
  const int residual = chain.residual < 0 ? -1 : chain.residual - 1;
  header.low = static_cast<float>(chain.low), header.high = static_cast<float>(chain.high);
  header.slope = static_cast<float>(chain.slope), header.post = static_cast<float>(chain.post);
  if (analysis.table().empty()) header.table = 0;
  header.offset = static_cast<int32_t>(chain.offset);
  header.residual = residual;
  header.rounds_first = chain.code.present && !chain.code.is_gate;
  header.fits_int = fits_int(
      chain, residual < 0 || problem.inputs[first_operand + static_cast<size_t>(residual)].type ==
                                 DataType::kUInt8);
  header.is_gated = chain.code.present && chain.code.is_gate;
  header.gate = chain.gate;
  header.code_low = static_cast<float>(chain.code.low);
  header.code_high = static_cast<float>(chain.code.high);
  header.code_scale = static_cast<float>(chain.code.scale);
  header.code_shift = static_cast<float>(chain.code.shift);
  header.residual_scale = static_cast<float>(chain.residual_scale);
  header.last_scale = static_cast<float>(analysis.last().scale);
  header.last_shift = static_cast<float>(analysis.last().shift);
  header.last_offset = static_cast<int32_t>(analysis.last().offset);
  header.rest_length = static_cast<int32_t>(analysis.rest().size());
  for (size_t k = first_operand; k < problem.inputs.size() && header.rest_length > 0; ++k)
    if (problem.inputs[k].type == DataType::kUInt8) ++header.bytes_operands;
}

void pack_vector(const ChannelValues& values, const ChannelLayout& layout, std::byte* to) {
  float* floats = reinterpret_cast<float*>(to);
  for (int64_t group = 0; group < layout.groups; ++group)
    for (int64_t c = 0; c < layout.padded; ++c) {
      const int64_t channel = (group * layout.channels + c) % layout.period;
      const double value = values[values.size() == 1 ? 0 : static_cast<size_t>(channel)];
      *floats++ = c < layout.channels ? static_cast<float>(value) : 0;
    }
}

}  // namespace

uint32_t packed_operands(const Problem& problem, size_t first_operand, int back) {
  uint32_t bits = 0;
  for (size_t k = first_operand; k < problem.inputs.size(); ++k)
    if (is_channel_constant(problem.inputs[k], problem.outputs[0], back)) bits |= 1u << k;
  return bits;
}

size_t packed_epilogue_bytes(const Problem& problem, const ir::Program& program,
                             size_t first_operand, const ChannelLayout& layout) {
  return static_cast<size_t>(place_parts(problem, program, first_operand, layout).bytes);
}

size_t packed_epilogue_bytes(const std::byte* packed) {
  PackedEpilogue header;
  read_record(packed, header);
  return static_cast<size_t>(header.bytes);
}

void pack_epilogue(const Problem& problem, const ir::Program& program, size_t first_operand,
                   const ChannelLayout& layout, std::byte* packed) {
  const EpilogueAnalysis analysis(problem, program, first_operand, layout.back);
  PackedEpilogue header = place_parts(problem, program, first_operand, layout);
  set_values(problem, analysis, first_operand, header);
  std::memset(packed, 0, static_cast<size_t>(header.bytes));
  store_record(header, packed);
  pack_vector(analysis.chain().multiplier, layout, packed + header.multiplier);
  pack_vector(analysis.chain().addend, layout, packed + header.addend);
  if (header.table > 0) std::memcpy(packed + header.table, analysis.table().data(), kTableBytes);
  store_code(analysis.rest(), packed + header.rest);
  for (size_t k = first_operand; k < problem.inputs.size() && header.rest_length > 0; ++k)
    if (const int32_t at = header.operands[k - first_operand]; at > 0)
      pack_vector(channel_values(problem.inputs[k]), layout, packed + at);
}

}  // namespace camshaft::kernels
