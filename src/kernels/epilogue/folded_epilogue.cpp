// SPDX-License-Identifier: Apache-2.0
#include "kernels/epilogue/folded_epilogue.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/epilogue/epilogue.h"
#include "kernels/epilogue/epilogue_analysis.h"
#include "kernels/packed/packed_records.h"

namespace camshaft::kernels {
namespace {

constexpr size_t kFirstOperand = 3;              // after x, w, bias
constexpr int32_t kLargestBias = (1 << 24) / 2;  // that, with the products, is exact in float

const ir::Program& program_of(const Problem& p) {
  return std::get_if<ir::ConvolutionAttrs>(&p.layer->attrs)->epilogue;
}

// Null: there is none, or a loaded engine keeps it only in its packed form.
const int32_t* bias_of(const Problem& p) {
  const bool known = p.inputs.size() > 2 && p.inputs[2].present && p.inputs[2].constant &&
                     !p.inputs[2].constant->view.empty();
  return known ? reinterpret_cast<const int32_t*>(p.inputs[2].constant->view.data()) : nullptr;
}

// A multiplier and an addend, perhaps a gate, then bounds, perhaps a table: nothing else of what a
// chain can be.
bool is_foldable(const EpilogueAnalysis& analysis, DataType out) {
  const SumForm& chain = analysis.chain();
  const bool rounds_to_codes = out == DataType::kUInt8;
  if (out != DataType::kFloat && !rounds_to_codes) return false;
  return analysis.rest().empty() && chain.residual < 0 && chain.slope == 1 &&
         (!chain.code.present || chain.code.is_gate) && (rounds_to_codes || !chain.rounded);
}

std::vector<float> floats_of(const ChannelValues& values, int64_t channels) {
  std::vector<float> floats(values.begin(), values.end());
  if (values.size() == 1) floats.assign(static_cast<size_t>(channels), floats[0]);
  return floats;
}

// The addends, with the bias where it is not part of the sums.
ChannelValues addends_of(const SumForm& chain, const int32_t* bias, int64_t channels) {
  const auto at = [](const ChannelValues& values, size_t c) {
    return values[values.size() == 1 ? 0 : c];
  };
  ChannelValues addends(static_cast<size_t>(channels));
  for (size_t c = 0; c < addends.size(); ++c)
    addends[c] = at(chain.addend, c) + (bias ? bias[c] * at(chain.multiplier, c) : 0);
  return addends;
}

bool are_finite(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
}

bool try_to_fold(const Problem& p, Bias bias_goes, FoldedEpilogue& folded) {
  const int64_t channels = p.outputs[0].extents[1];
  if (channels == 0) return false;
  const int spatial = static_cast<int>(p.outputs[0].extents.size()) - 2;
  const EpilogueAnalysis analysis(p, program_of(p), kFirstOperand, spatial);
  if (!is_foldable(analysis, p.outputs[0].type)) return false;
  const SumForm& chain = analysis.chain();
  const int32_t* bias = bias_goes == Bias::kInSum ? nullptr : bias_of(p);
  folded.multipliers = floats_of(chain.multiplier, channels);
  folded.addends = floats_of(addends_of(chain, bias, channels), channels);
  if (!are_finite(folded.multipliers) || !are_finite(folded.addends)) return false;
  FoldedHeader& header = folded.header;
  header = {1, static_cast<float>(chain.low), static_cast<float>(chain.high),
            static_cast<int32_t>(chain.offset)};
  if (chain.code.is_gate) {
    header.is_gated = 1;
    header.gate = chain.gate;
    header.scale = static_cast<float>(chain.code.scale);
    header.shift = static_cast<float>(chain.code.shift);
  }
  folded.table = analysis.table();
  header.has_table = folded.table.empty() ? 0 : 1;
  return true;
}

}  // namespace

size_t folded_bytes() {
  return record_bytes<FoldedHeader>() + static_cast<size_t>(kTableBytes);
}

void store_folded(const FoldedEpilogue& folded, std::byte* packed) {
  store_record(folded.header, packed);
  std::byte* table = packed + record_bytes<FoldedHeader>();
  std::memset(table, 0, static_cast<size_t>(kTableBytes));
  if (!folded.table.empty()) std::memcpy(table, folded.table.data(), folded.table.size());
}

void fold_epilogue(const Problem& problem, Bias bias_goes, FoldedEpilogue& folded) {
  if (try_to_fold(problem, bias_goes, folded)) return;
  const auto channels = static_cast<size_t>(problem.outputs[0].extents[1]);
  const int32_t* bias = bias_of(problem);
  folded.header = {0, -Epilogue::kInfinity, Epilogue::kInfinity, 0};
  folded.multipliers.assign(channels, 1.0f);
  folded.addends.assign(channels, 0.0f);
  if (bias_goes == Bias::kInSum) return;
  for (size_t c = 0; bias != nullptr && c < channels; ++c)
    folded.addends[c] = static_cast<float>(bias[c]);
}

bool is_epilogue_folded(const Problem& problem) {
  FoldedEpilogue folded;
  return try_to_fold(problem, Bias::kInSum, folded);
}

std::string refuse_quantized_epilogue(const Problem& problem, Bias bias_goes) {
  if (is_epilogue_folded(problem)) return {};
  if (program_of(problem).empty()) return "sums without an epilogue";
  const int32_t* bias = bias_of(problem);
  const bool must_fit = bias != nullptr && bias_goes == Bias::kInAddend;
  for (int64_t c = 0; must_fit && c < problem.outputs[0].extents[1]; ++c)
    if (bias[c] > kLargestBias || bias[c] < -kLargestBias) return "a bias is too large for a float";
  Problem floats = problem;  // 8-bit operands are as good as float ones
  for (size_t k = kFirstOperand; k < floats.inputs.size(); ++k) {
    ProblemTensor& operand = floats.inputs[k];
    if (operand.type == DataType::kUInt8 || operand.type == DataType::kInt8)
      operand.type = DataType::kFloat;
  }
  return refuse_operands(floats, kFirstOperand);
}

uint32_t quantized_packed_inputs(const Problem& problem) {
  // By what is there, not by values: an engine that is loaded has those of packed inputs no more.
  // The operands stay views, so that whether they fold can be told then, too.
  const bool has_bias = problem.inputs.size() > 2 && problem.inputs[2].present;
  return has_bias ? 6u : 2u;
}

}  // namespace camshaft::kernels
