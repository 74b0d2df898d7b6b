// SPDX-License-Identifier: Apache-2.0
#include "runtime/open_extents.h"

#include <algorithm>
#include <optional>

#include "ir/append_rows.h"
#include "ir/extents.h"
#include "ir/rotation.h"
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

struct Heads {
  Dim batch, heads, steps, depth;
};

std::optional<Heads> heads_of(const Shape& x, bool steps_first, int64_t heads) {
  if (x.size() == 4)
    return steps_first ? Heads{x[0], x[2], x[1], x[3]} : Heads{x[0], x[1], x[2], x[3]};
  if (x.size() != 3) return std::nullopt;
  if (!steps_first) return Heads{1, x[0], x[1], x[2]};
  if (heads < 1 || !x[2].is_known()) return std::nullopt;
  return Heads{x[0], heads, x[1], x[2].extent() / heads};
}

// Keys for every query, values for every key, heads and depths that are numbers.
bool heads_agree(const Plan& plan, const PlanStep& step) {
  const auto& attrs = step.layer.as<ir::AttentionAttrs>();
  const auto shape = [&](size_t k) -> const Shape& { return plan.tensors[step.inputs[k]].shape; };
  const auto q = heads_of(shape(0), attrs.q_steps_first, attrs.heads),
             k = heads_of(shape(1), attrs.k_steps_first, attrs.kv_heads),
             v = heads_of(shape(2), attrs.v_steps_first, attrs.kv_heads);
  if (!q || !k || !v) return false;
  const auto fits = [&](Dim batch) { return batch == Dim(1) || batch == q->batch; };
  if (q->depth != k->depth || k->steps != v->steps || k->heads != v->heads || !fits(k->batch) ||
      !fits(v->batch))
    return false;
  if (!q->heads.is_known() || !k->heads.is_known() || !q->depth.is_known() || !v->depth.is_known())
    return false;
  const Shape scores = {q->batch, q->heads, q->steps, k->steps};
  for (size_t operand = 4; operand < step.inputs.size(); ++operand)
    if (step.inputs[operand] != kNoTensor && !agrees(shape(operand), scores)) return false;
  return true;
}

// What is not a row is as before, and there are as many as in the past, or as a total says.
bool rows_agree(const Plan& plan, const Shape& past, const Shape& result, int64_t axis) {
  if (past.size() != result.size()) return false;
  for (size_t d = 0; d < result.size(); ++d) {
    if (past[d] == result[d]) continue;
    if (static_cast<int64_t>(d) != axis || result[d].is_known()) return false;
    const ir::Symbol& rows = plan.symbols.symbol(result[d].symbol_id());
    if (rows.op != ir::SymbolOp::kMax || (rows.a != past[d] && rows.b != past[d])) return false;
  }
  return true;
}

bool is_settled(const Plan& plan, const PlanStep& step, const Shapes& inputs, const Shape& result) {
  const ir::Layer& layer = step.layer;
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
    case LayerKind::kAttention:
      return heads_agree(plan, step);
    case LayerKind::kGeneric:
      if (ir::rotated_half(layer) > 0)
        return agrees(*inputs[1], result, 1) && agrees(*inputs[2], result, 1);
      return ir::append_axis(layer) > 0 &&
             rows_agree(plan, *inputs[0], result, ir::append_axis(layer));
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
  return !is_settled(plan, step, inputs, plan.tensors[step.outputs[0]].shape);
}

}  // namespace camshaft::runtime
