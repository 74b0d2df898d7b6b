// SPDX-License-Identifier: Apache-2.0
#include "kernels/folded_epilogue.h"

#include <cstdlib>
#include <limits>

#include "kernels/affine_program.h"
#include "kernels/epilogue.h"

namespace camshaft::kernels {
namespace {

constexpr size_t kFirstOperand = 3;              // after x, w, bias
constexpr int32_t kLargestBias = (1 << 24) / 2;  // that, with the products, is exact in float
constexpr float kInfinity = std::numeric_limits<float>::infinity();

const ir::Program& program_of(const Problem& p) {
  return std::get_if<ir::ConvolutionAttrs>(&p.layer->attrs)->epilogue;
}

// Null: there is none, or a loaded engine keeps it only in its packed form.
const int32_t* bias_of(const Problem& p) {
  const bool known = p.inputs.size() > 2 && p.inputs[2].present && p.inputs[2].constant &&
                     !p.inputs[2].constant->view.empty();
  return known ? reinterpret_cast<const int32_t*>(p.inputs[2].constant->view.data()) : nullptr;
}

// Element of a constant operand that belongs to channel c; false: it varies along other dimensions.
bool channel_value(const Problem& p, const ProblemTensor& operand, int64_t c, float& value) {
  if (!operand.constant || operand.constant->view.empty() || operand.type != DataType::kFloat)
    return false;
  const float* data = reinterpret_cast<const float*>(operand.constant->view.data());
  const int64_t count = ir::element_count(operand.extents);
  if (count == 1) return value = data[0], true;
  const ir::Extents& y = p.outputs[0].extents;
  const size_t spatial = y.size() - 2;
  if (count != y[1] || operand.extents.size() <= spatial ||
      operand.extents[operand.extents.size() - spatial - 1] != count)
    return false;
  return value = data[c], true;
}

// What the program does to the sums of channel c.
bool channel_affine(const Problem& p, int64_t c, Affine& affine) {
  const ir::Program& program = program_of(p);
  std::vector<AffineInput> inputs(1, AffineInput{AffineInput::kVector, 0});
  for (size_t k = kFirstOperand; k < p.inputs.size(); ++k) {
    inputs.push_back({AffineInput::kConstant, 0});
    if (!channel_value(p, p.inputs[k], c, inputs.back().constant)) return false;
  }
  return find_affine(program.code.data(), static_cast<int>(program.code.size()),
                     static_cast<int>(inputs.size()), inputs.data(), p.outputs[0].type, affine);
}

// Bounds must be those of channel 0: they are one for all.
bool try_to_fold(const Problem& p, Bias bias_goes, FoldedEpilogue& folded) {
  const int64_t channels = p.outputs[0].extents[1];
  const int32_t* bias = bias_of(p);
  Affine first, own;
  if (channels == 0 || !channel_affine(p, 0, first)) return false;
  std::vector<float> multipliers, addends;
  for (int64_t c = 0; c < channels; ++c) {
    if (!channel_affine(p, c, own)) return false;
    if (own.low != first.low || own.high != first.high || own.after != first.after) return false;
    const double scale = own.scale[0];
    const double start = bias == nullptr || bias_goes == Bias::kInSum ? 0 : bias[c];
    multipliers.push_back(own.scale[0]);
    addends.push_back(static_cast<float>((start - own.offset[0]) * scale + own.shift));
  }
  folded.multipliers = std::move(multipliers), folded.addends = std::move(addends);
  folded.header = {1, first.low, first.high, first.after, {}};
  return true;
}

}  // namespace

void fold_epilogue(const Problem& problem, Bias bias_goes, FoldedEpilogue& folded) {
  if (try_to_fold(problem, bias_goes, folded)) return;
  const auto channels = static_cast<size_t>(problem.outputs[0].extents[1]);
  const int32_t* bias = bias_of(problem);
  folded.header = {0, -kInfinity, kInfinity, 0, {}};
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
