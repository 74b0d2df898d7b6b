// SPDX-License-Identifier: Apache-2.0
#include "kernels/epilogue/folded_epilogue.h"

#include <cstdlib>
#include <limits>

#include "kernels/epilogue/affine_program.h"
#include "kernels/epilogue/epilogue.h"

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

// A program cut at its gate, if it has one: constants belong to both parts; the second has the
// gate's result as its value 0.
struct GateCut {
  ir::Program before, after;
  bool is_gated = false;
};

bool is_constant(const ir::Instruction& op) {
  return op.op == ir::PointOp::kConst;
}

// False: the second part reads a value of the first.
bool append_rest(const ir::Program& program, size_t gate, ir::Program& rest) {
  const auto inputs = static_cast<size_t>(program.num_inputs);
  std::vector<int> number(inputs + program.code.size(), -1);
  for (size_t v = 1; v < inputs; ++v) number[v] = static_cast<int>(v);
  number[inputs + gate] = 0;
  for (size_t k = 0; k < program.code.size(); ++k) {
    if (k == gate || (k < gate && !is_constant(program.code[k]))) continue;
    ir::Instruction op = program.code[k];
    for (int16_t* v : {&op.a, &op.b, &op.c}) {
      if (*v < 0) continue;
      if (number[static_cast<size_t>(*v)] < 0) return false;
      *v = static_cast<int16_t>(number[static_cast<size_t>(*v)]);
    }
    number[inputs + k] = static_cast<int>(inputs + rest.code.size());
    rest.code.push_back(op);
  }
  return true;
}

// False: gates in a row, or a gate that is no step of a chain.
bool cut_at_gate(const ir::Program& program, GateCut& cut) {
  cut.before = program;
  size_t gate = 0;
  while (gate < program.code.size() && program.code[gate].op != ir::PointOp::kHardSwish) ++gate;
  if (gate == program.code.size()) return true;
  cut.is_gated = true;
  // Its operand is the value before it, constants apart.
  size_t last = gate;
  while (last > 0 && is_constant(program.code[last - 1])) --last;
  if (program.code[gate].a != program.num_inputs + static_cast<int>(last) - 1 && last > 0)
    return false;
  if (last == 0 && program.code[gate].a != 0) return false;
  cut.before.code.resize(last);
  cut.after.num_inputs = program.num_inputs;
  // An empty rest would be the identity; constants at its end would be its result.
  return append_rest(program, gate, cut.after) &&
         (cut.after.code.empty() || !is_constant(cut.after.code.back()));
}

// What the parts do to the sums of channel c.
struct ChannelForm {
  Affine before, after;
};

bool find_part(const ir::Program& part, const std::vector<AffineInput>& inputs, DataType out,
               Affine& affine) {
  return find_affine(part.code.data(), static_cast<int>(part.code.size()),
                     static_cast<int>(inputs.size()), inputs.data(), out, affine);
}

bool is_bounded(const Affine& affine) {
  return affine.low > -kInfinity || affine.high < kInfinity;
}

bool channel_form(const Problem& p, const GateCut& cut, int64_t c, ChannelForm& form) {
  std::vector<AffineInput> inputs(1, AffineInput{AffineInput::kVector, 0});
  for (size_t k = kFirstOperand; k < p.inputs.size(); ++k) {
    inputs.push_back({AffineInput::kConstant, 0});
    if (!channel_value(p, p.inputs[k], c, inputs.back().constant)) return false;
  }
  const DataType type = p.outputs[0].type;
  if (!cut.is_gated) return find_part(cut.before, inputs, type, form.before);
  return find_part(cut.before, inputs, DataType::kFloat, form.before) && !is_bounded(form.before) &&
         find_part(cut.after, inputs, type, form.after) && form.after.divisor == 0;
}

// Bounds must be those of channel 0: they are one for all.
bool is_same(const Affine& a, const Affine& b) {
  return a.low == b.low && a.high == b.high && a.after == b.after;
}

float start_of(const Affine& affine, double sum) {
  return static_cast<float>((sum - affine.offset[0]) * affine.scale[0] + affine.shift);
}

bool try_to_fold(const Problem& p, Bias bias_goes, FoldedEpilogue& folded) {
  const int64_t channels = p.outputs[0].extents[1];
  const int32_t* bias = bias_of(p);
  GateCut cut;
  ChannelForm first, own;
  if (channels == 0 || !cut_at_gate(program_of(p), cut) || !channel_form(p, cut, 0, first))
    return false;
  std::vector<float> multipliers, addends;
  for (int64_t c = 0; c < channels; ++c) {
    if (!channel_form(p, cut, c, own)) return false;
    if (!is_same(own.before, first.before) || !is_same(own.after, first.after)) return false;
    const bool gives_same = own.after.scale[0] == first.after.scale[0] &&
                            start_of(own.after, 0) == start_of(first.after, 0);
    if (!gives_same) return false;
    multipliers.push_back(own.before.scale[0]);
    addends.push_back(
        start_of(own.before, bias == nullptr || bias_goes == Bias::kInSum ? 0 : bias[c]));
  }
  folded.multipliers = std::move(multipliers), folded.addends = std::move(addends);
  const Affine& last = cut.is_gated ? first.after : first.before;
  folded.header = {1, last.low, last.high, last.after};
  if (cut.is_gated) {
    folded.header.is_gated = 1;
    folded.header.gate = kHardSwishGate;
    folded.header.scale = last.scale[0], folded.header.shift = start_of(last, 0);
  }
  return true;
}

}  // namespace

void fold_epilogue(const Problem& problem, Bias bias_goes, FoldedEpilogue& folded) {
  if (try_to_fold(problem, bias_goes, folded)) return;
  const auto channels = static_cast<size_t>(problem.outputs[0].extents[1]);
  const int32_t* bias = bias_of(problem);
  folded.header = {0, -kInfinity, kInfinity, 0};
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
