// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ir/expert_weights.h"
#include "ir/kind_traits.h"
#include "ir/verify_internal.h"

namespace camshaft::ir {
namespace {

bool has_rank(const Tensor* tensor, size_t rank) {
  return !tensor->has_rank || tensor->shape.size() == rank;
}

bool has_at_most_rank(const Tensor* a, const Tensor* b) {
  return !a->has_rank || !b || !b->has_rank || a->shape.size() <= b->shape.size();
}

Status check_axis(const Layer& layer, int64_t axis) {
  const Tensor* x = layer.inputs[0];
  if (axis < 0 || (x->has_rank && axis >= static_cast<int64_t>(x->shape.size())))
    return broken("axis {} is out of range", axis);
  return ok_status();
}

Status check_program(const Program& program) {
  if (program.num_inputs < 0) return broken("program with {} inputs", program.num_inputs);
  for (size_t k = 0; k < program.code.size(); ++k) {
    const Instruction& code = program.code[k];
    const int operands[] = {code.a, code.b, code.c};
    for (int n = 0; n < arity(code.op); ++n)
      if (operands[n] < 0 || operands[n] >= program.num_inputs + static_cast<int>(k))
        return broken("instruction {} of the program reads value {}", k, operands[n]);
  }
  return ok_status();
}

// The layer's own inputs come first, those of the epilogue follow.
Status check_epilogue_inputs(const Layer& layer, const Program& epilogue) {
  const size_t first = traits_of(layer.kind).epilogue.first_operand;
  CAMSHAFT_TRY(check_program(epilogue));
  const int extra = static_cast<int>(std::max(layer.inputs.size(), first) - first);
  if (epilogue.empty() ? extra != 0 : extra != epilogue.num_inputs - 1)
    return broken("{} epilogue inputs for a program of {}", extra, epilogue.num_inputs);
  for (size_t k = first; k < layer.inputs.size(); ++k)
    if (!layer.inputs[k]) return broken("epilogue input {} is missing", k);
  return ok_status();
}

Status check_window(const Layer& layer, const Ints& kernel,
                    std::initializer_list<const Ints*> others) {
  for (const Ints* other : others)
    if (other->size() != kernel.size()) return broken("window attributes of unequal length");
  if (!has_rank(layer.inputs[0], kernel.size() + 2))
    return broken("the window does not have the rank of the input");
  return ok_status();
}

// Factors of one type, or both 8-bit; then a bias counts accumulator units.
Status check_product(const Layer& layer, int64_t zero_point, int64_t second_zero_point = 0) {
  const DataType a = layer.inputs[0]->type, b = layer.inputs[1]->type;
  const bool quantized = is_quantized(a) && is_quantized(b);
  if (a != b && !quantized)
    return broken("factors of unequal type: {} and {}", type_name(a), type_name(b));
  if (!quantized && (zero_point != 0 || second_zero_point != 0))
    return broken("a zero point for factors of type {}", type_name(a));
  if (quantized && layer.inputs.size() > 2 && layer.inputs[2] &&
      layer.inputs[2]->type != DataType::kInt32)
    return broken("the bias of a quantized product must be int32");
  return ok_status();
}

bool is_permutation(const Ints& order) {
  Ints sorted = order;
  std::sort(sorted.begin(), sorted.end());
  for (size_t k = 0; k < sorted.size(); ++k)
    if (sorted[k] != static_cast<int64_t>(k)) return false;
  return true;
}

}  // namespace

Status check_nothing(const Layer&) {
  return ok_status();
}

Status check_epilogue(const Layer& layer) {
  CAMSHAFT_TRY(check_epilogue_inputs(layer, *epilogue_of(layer)));
  for (size_t k = traits_of(layer.kind).epilogue.first_operand; k < layer.inputs.size(); ++k)
    if (!has_at_most_rank(layer.inputs[k], layer.outputs[0]))
      return broken("epilogue input {} has a higher rank than the output", k);
  return ok_status();
}

Status check_convolution(const Layer& layer) {
  const auto& a = layer.as<ConvolutionAttrs>();
  CAMSHAFT_TRY(
      check_window(layer, a.kernel, {&a.stride, &a.dilation, &a.pre_padding, &a.post_padding}));
  if (a.groups < 1) return broken("{} groups", a.groups);
  if (!has_rank(layer.inputs[1], a.kernel.size() + 2)) return broken("weights of wrong rank");
  for (size_t k = 0; layer.inputs[1]->has_rank && k < a.kernel.size(); ++k)
    if (layer.inputs[1]->shape[k + 2] != Dim(a.kernel[k]))
      return broken("weights and kernel attribute differ");
  CAMSHAFT_TRY(check_product(layer, a.zero_point, a.w_zero_point));
  if (layer.inputs.size() > 2 && layer.inputs[2] && !has_rank(layer.inputs[2], 1))
    return broken("bias of wrong rank");
  return check_epilogue(layer);
}

Status check_matrix_multiply(const Layer& layer) {
  const auto& a = layer.as<MatrixMultiplyAttrs>();
  CAMSHAFT_TRY(check_product(layer, a.a_zero_point, a.b_zero_point));
  return check_epilogue(layer);
}

Status check_low_bits(const Layer& layer) {
  const auto& a = layer.as<LowBitMultiplyAttrs>();
  if (!RecordLayout::is_valid(a))
    return broken("{} x {} weights of {} bits in blocks of {}", a.columns, a.depth, a.bits,
                  a.block);
  const Tensor& records = *layer.inputs[1];
  if (records.type != DataType::kUInt8)
    return broken("records of type {}", type_name(records.type));
  if (records.constant &&
      static_cast<int64_t>(records.constant->view.size()) != RecordLayout(a).bytes())
    return broken("records of other extents than the weights");
  return check_epilogue(layer);
}

Status check_experts(const Layer& layer) {
  const auto& a = layer.as<ExpertsAttrs>();
  if (!is_valid(a))
    return broken("{} experts of {} and {} columns, {} and {} bits", a.experts, a.width, a.hidden,
                  a.up_bits, a.down_bits);
  if (layer.inputs[kExpertsChosen]->type != DataType::kInt64)
    return broken("the chosen experts are no int64");
  for (const size_t k : {size_t{kUpWeights}, size_t{kDownWeights}}) {
    const ExpertProduct product = k == kUpWeights ? up_product(a) : down_product(a);
    const Tensor& weights = *layer.inputs[k];
    if (weights.type != product.type())
      return broken("experts of type {}", type_name(weights.type));
    if (weights.constant &&
        static_cast<int64_t>(weights.constant->view.size()) != a.experts * product.bytes())
      return broken("weights of other extents than the experts");
  }
  return ok_status();
}

Status check_attention_of_codes(const Layer& layer) {
  const auto& a = layer.as<AttentionAttrs>();
  if (bits_of(a.weights) != 8 || !is_quantized(a.weights))
    return broken("weights are codes of type {}", type_name(a.weights));
  if (a.scale != 1 || a.nan_is_zero || a.left_window >= 0 || a.right_window >= 0 ||
      !a.first_query.empty() || (layer.inputs.size() > 3 && layer.inputs[3]))
    return broken("attention of codes with a scale, windows or lengths");
  for (const Program* program : {&a.weight_codes, &a.result}) {
    CAMSHAFT_TRY(check_program(*program));
    if (program->empty() ? program == &a.weight_codes : program->num_inputs != 1)
      return broken("weights or the result have a program of other values");
  }
  return ok_status();
}

Status check_attention(const Layer& layer) {
  const auto& a = layer.as<AttentionAttrs>();
  for (size_t k = 0; k < 3; ++k) {
    const Tensor* x = layer.inputs[k];
    if (a.of_codes() ? bits_of(x->type) != 8 || !is_quantized(x->type)
                     : x->type != layer.inputs[0]->type)
      return broken("heads of unequal type");
    if (x->has_rank && x->shape.size() != 3 && x->shape.size() != 4)
      return broken("heads of rank {}", x->shape.size());
  }
  if (layer.inputs.size() > 3 && layer.inputs[3] && !is_integer(layer.inputs[3]->type))
    return broken("lengths are not integers");
  if (a.first_query.size() > 1) return broken("{} first queries", a.first_query.size());
  for (size_t k = 4; k < layer.inputs.size(); ++k)
    if (layer.inputs[k] && layer.inputs[k]->has_rank && layer.inputs[k]->shape.size() > 4)
      return broken("epilogue input {} has a higher rank than the scores", k);
  if (a.of_codes()) CAMSHAFT_TRY(check_attention_of_codes(layer));
  return check_epilogue_inputs(layer, a.epilogue);
}

Status check_pooling(const Layer& layer) {
  const auto& a = layer.as<PoolingAttrs>();
  if (!a.global)
    CAMSHAFT_TRY(
        check_window(layer, a.kernel, {&a.stride, &a.dilation, &a.pre_padding, &a.post_padding}));
  if (!a.epilogue.empty() && layer.outputs[0] && is_quantized(layer.outputs[0]->type))
    return broken("an epilogue of codes");
  return check_epilogue(layer);
}

Status check_point_op(const Layer& layer) {
  const PointOp op = layer.as<PointOpAttrs>().op;
  if (arity(op) != static_cast<int>(layer.inputs.size()))
    return broken("{} has {} operands", point_op_name(op), arity(op));
  if (layer.kind == LayerKind::kSelect) {
    if (op != PointOp::kSelect) return broken("a Select layer with {}", point_op_name(op));
    if (layer.inputs[0]->type != DataType::kBool) return broken("the condition is not bool");
    if (layer.inputs[1]->type != layer.inputs[2]->type) return broken("operands of unequal type");
  }
  if (layer.kind == LayerKind::kElementWise && op != PointOp::kPow &&
      layer.inputs[0]->type != layer.inputs[1]->type)
    return broken("operands of unequal type");
  if (layer.outputs[0] && (layer.outputs[0]->type == DataType::kBool) !=
                              (gives_bool(op) || layer.inputs.back()->type == DataType::kBool))
    return broken("{} with a result of type {}", point_op_name(op),
                  type_name(layer.outputs[0]->type));
  return ok_status();
}

Status check_pointwise(const Layer& layer) {
  const Program& program = layer.as<PointWiseAttrs>().program;
  CAMSHAFT_TRY(check_program(program));
  if (program.num_inputs != static_cast<int>(layer.inputs.size()))
    return broken("{} inputs for a program of {}", layer.inputs.size(), program.num_inputs);
  for (const Tensor* input : layer.inputs) {
    if (!input) return broken("an input is missing");
    if (input->type != DataType::kFloat && input->type != DataType::kBool &&
        !is_quantized(input->type))
      return broken("input '{}' is neither float nor bool nor 8-bit", input->name);
    if (!has_at_most_rank(input, layer.outputs[0]))
      return broken("input '{}' has a higher rank than the output", input->name);
  }
  return ok_status();
}

Status check_scale(const Layer& layer) {
  return check_axis(layer, layer.as<ScaleAttrs>().axis);
}

Status check_shuffle(const Layer& layer) {
  const auto& a = layer.as<ShuffleAttrs>();
  for (const Ints* order : {&a.first_transpose, &a.second_transpose})
    if (!is_permutation(*order)) return broken("a transpose is not a permutation");
  if (!a.first_transpose.empty() && !has_rank(layer.inputs[0], a.first_transpose.size()))
    return broken("the first transpose does not have the rank of the input");
  if (!a.second_transpose.empty() && layer.outputs[0] &&
      !has_rank(layer.outputs[0], a.second_transpose.size()))
    return broken("the second transpose does not have the rank of the output");
  if (a.has_reshape && !a.second_transpose.empty() && a.reshape.size() != a.second_transpose.size())
    return broken("reshape and second transpose of unequal rank");
  const bool at_run_time = layer.inputs.size() > 1 && layer.inputs[1];
  if (at_run_time && a.has_reshape) return broken("a reshape both stated and read at run time");
  return ok_status();
}

Status check_slice(const Layer& layer) {
  const auto& a = layer.as<SliceAttrs>();
  if (layer.inputs.size() > 1)
    return a.start.empty() && a.size.empty() ? ok_status()
                                             : broken("a slice both stated and read at run time");
  if (a.start.size() != a.size.size() || a.step.size() != a.size.size())
    return broken("slice attributes of unequal length");
  if (!has_rank(layer.inputs[0], a.size.size()))
    return broken("the slice does not have the rank of the input");
  return std::count(a.step.begin(), a.step.end(), 0) ? broken("a step of 0") : ok_status();
}

Status check_pad(const Layer& layer) {
  const auto& a = layer.as<PadAttrs>();
  if (a.pre.size() != a.post.size()) return broken("paddings of unequal length");
  return a.pre.empty() || has_rank(layer.inputs[0], a.pre.size())
             ? ok_status()
             : broken("the padding does not have the rank of the input");
}

Status check_concatenation(const Layer& layer) {
  for (const Tensor* input : layer.inputs) {
    if (!input) return broken("an input is missing");
    if (input->type != layer.inputs[0]->type) return broken("inputs of unequal type");
    if (input->has_rank && !has_rank(layer.inputs[0], input->shape.size()))
      return broken("inputs of unequal rank");
  }
  return check_axis(layer, layer.as<AxisAttrs>().axis);
}

Status check_reduce(const Layer& layer) {
  const Ints& axes = layer.as<ReduceAttrs>().axes;
  if (std::adjacent_find(axes.begin(), axes.end(), std::greater_equal<>()) != axes.end())
    return broken("axes are not sorted");
  for (int64_t axis : axes) CAMSHAFT_TRY(check_axis(layer, axis));
  return ok_status();
}

Status check_softmax(const Layer& layer) {
  const auto& a = layer.as<SoftMaxAttrs>();
  CAMSHAFT_TRY(check_axis(layer, a.axis));
  CAMSHAFT_TRY(check_axis(layer, a.last_axis));
  return a.last_axis < a.axis ? broken("last axis {} before axis {}", a.last_axis, a.axis)
                              : ok_status();
}

Status check_gather(const Layer& layer) {
  return is_integer(layer.inputs[1]->type) ? ok_status() : broken("indices are not integers");
}

}  // namespace camshaft::ir
