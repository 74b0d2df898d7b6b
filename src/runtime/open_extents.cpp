// SPDX-License-Identifier: Apache-2.0
#include "runtime/open_extents.h"

#include <algorithm>

#include "ir/extents.h"
namespace camshaft::runtime {
namespace {

using engine::kNoTensor;
using engine::Plan;
using engine::PlanStep;
using engine::PlanTensor;
using ir::Dim;
using ir::LayerKind;
using ir::Shape;

// Every extent of the operand, but the last `ignored`, is 1 or that of the result.
bool agrees(const Shape& operand, const Shape& result, size_t ignored = 0) {
  if (operand.size() > result.size()) return false;
  const size_t missing = result.size() - operand.size();
  for (size_t d = 0; d + ignored < operand.size(); ++d)
    if (operand[d] != Dim(1) && operand[d] != result[d + missing]) return false;
  return true;
}

using Shapes = std::vector<const Shape*>;  // of the inputs that are there

bool all_agree(const Shapes& inputs, const Shape& result) {
  return std::all_of(inputs.begin(), inputs.end(),
                     [&](const Shape* input) { return agrees(*input, result); });
}

bool factors_agree(const Shapes& inputs, const Shape& result,
                   const ir::MatrixMultiplyAttrs& attrs) {
  if (inputs.size() < 2) return false;
  const Shape &a = *inputs[0], &b = *inputs[1];
  if (a.size() < 2 || b.size() < 2) return false;
  const Dim of_a = a[a.size() - (attrs.transpose_a ? 2 : 1)],
            of_b = b[b.size() - (attrs.transpose_b ? 1 : 2)];
  if (of_a != of_b) return false;
  for (size_t k = 0; k < inputs.size(); ++k)
    if (!agrees(*inputs[k], result, k < 2 ? 2 : 0)) return false;
  return true;
}

bool parts_agree(const Shapes& inputs, const Shape& result, int64_t axis) {
  for (const Shape* input : inputs) {
    if (input->size() != result.size()) return false;
    for (size_t d = 0; d < result.size(); ++d)
      if (static_cast<int64_t>(d) != axis && (*input)[d] != result[d]) return false;
  }
  return true;
}

// The same extents in any order; those that are numbers in any groups.
bool same_elements(const Shape& a, const Shape& b) {
  const auto split = [](const Shape& shape, std::vector<int>& symbols) {
    int64_t product = 1;
    for (const Dim dim : shape) {
      if (dim.is_known())
        product *= dim.extent();
      else
        symbols.push_back(dim.symbol_id());
    }
    std::sort(symbols.begin(), symbols.end());
    return product;
  };
  std::vector<int> of_a, of_b;
  return split(a, of_a) == split(b, of_b) && of_a == of_b;
}

// Whole along every axis that is open.
bool is_whole(const ir::SliceAttrs& slice, const Shape& input) {
  if (slice.size.size() != input.size()) return false;
  for (size_t d = 0; d < input.size(); ++d) {
    const bool known = input[d].is_known() && slice.start[d].is_known() && slice.size[d].is_known();
    const bool whole = slice.start[d] == Dim(0) && slice.step[d] == 1 && slice.size[d] == input[d];
    if (!known && !whole) return false;
  }
  return true;
}

bool is_settled(const ir::Layer& layer, const Shapes& inputs, const Shape& result) {
  switch (layer.kind) {
    case LayerKind::kActivation:
    case LayerKind::kUnary:
    case LayerKind::kElementWise:
    case LayerKind::kSelect:
    case LayerKind::kScale:
    case LayerKind::kPointWise:
    case LayerKind::kCast:
    case LayerKind::kSoftMax:
    case LayerKind::kNormalization:
    case LayerKind::kQuantize:
    case LayerKind::kDequantize:
    case LayerKind::kReformat:
      return all_agree(inputs, result);
    case LayerKind::kMatrixMultiply:
      return factors_agree(inputs, result, layer.as<ir::MatrixMultiplyAttrs>());
    case LayerKind::kConcatenation:
      return parts_agree(inputs, result, layer.as<ir::AxisAttrs>().axis);
    case LayerKind::kShuffle:
      return inputs.size() == 1 && same_elements(*inputs[0], result);
    case LayerKind::kSlice:
      return inputs.size() == 1 && is_whole(layer.as<ir::SliceAttrs>(), *inputs[0]);
    case LayerKind::kConvolution:
    case LayerKind::kDeconvolution:
    case LayerKind::kPooling:  // a batch of any size; residuals have the result's extents
      return !inputs.empty() && ir::all_known(std::span(*inputs[0]).subspan(1)) &&
             std::all_of(inputs.begin() + 1, inputs.end(), [&](const Shape* input) {
               return ir::all_known(*input) || agrees(*input, result);
             });
    case LayerKind::kGather:
      return inputs.size() == 2 && layer.as<ir::GatherAttrs>().mode == ir::GatherMode::kDefault &&
             (*inputs[0])[layer.as<ir::GatherAttrs>().axis].is_known();
    case LayerKind::kReduce:
      return inputs.size() == 1;
    default:
      return false;
  }
}

}  // namespace

bool has_open_extents(const Plan& plan, const PlanStep& step) {
  Shapes inputs;
  bool is_open = false, has_ranks = true;
  for (const auto* side : {&step.inputs, &step.outputs})
    for (const int t : *side) {
      if (t == kNoTensor) continue;
      const PlanTensor& tensor = plan.tensors[t];
      is_open |= !ir::all_known(tensor.shape);
      has_ranks &= tensor.has_rank;
      if (side == &step.inputs) inputs.push_back(&tensor.shape);
    }
  if (!is_open) return false;
  if (!has_ranks || step.outputs.empty() || step.outputs[0] == kNoTensor) return true;
  return !is_settled(step.layer, inputs, plan.tensors[step.outputs[0]].shape);
}

}  // namespace camshaft::runtime
