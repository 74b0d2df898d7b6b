// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/attention/attention_problem.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

void AttentionCall::set_epilogue_of(const KernelArgs& args) {
  const auto& attrs = args.layer->as<ir::AttentionAttrs>();
  set_epilogue(attrs.epilogue, args.inputs, kFirstAttentionOperand, scores_view(shape),
               matrix_source, nullptr, finish);
  // Tiles add floats only.
  if (finish.epilogue.adds() && finish.residual().type != DataType::kFloat) set_program(finish);
}

void AttentionCall::take_heads_as_queries() {
  const int64_t group = shape.group();
  if (shape.queries != 1 || group == 1) return;
  shape.heads = shape.kv_heads;
  shape.queries = group;
  for (HeadStrides* strides : {&shape.q, &shape.y}) {
    strides->step = strides->head;
    strides->head *= group;
  }
  for (int k = 0; k < finish.num_operands; ++k) {
    finish.operands[k].pixel = finish.operands[k].row;
    finish.operands[k].row *= group;
  }
  windows.step = 0;
}

bool make_attention_call(const KernelArgs& args, AttentionCall& call) {
  const auto& attrs = args.layer->as<ir::AttentionAttrs>();
  if (!attention_shape(attrs, args.inputs, args.outputs[0], call.shape)) return false;
  const bool has_lengths =
      args.inputs.size() > kAttentionLengths && args.inputs[kAttentionLengths].present();
  call.windows = key_windows(attrs, call.shape, has_lengths);
  call.scale = attrs.scale;
  call.nan_is_zero = attrs.nan_is_zero;
  if (has_lengths) {
    call.lengths_type = args.inputs[kAttentionLengths].type;
    call.lengths_stride = args.inputs[kAttentionLengths].strides[0];
  }
  return true;
}

std::string refuse_attention(const Problem& p) {
  for (const ProblemTensor* t : {&p.inputs[0], &p.inputs[1], &p.inputs[2], &p.outputs[0]})
    if (t->type != DataType::kFloat) return "not float";
  AttentionShape shape;
  if (!attention_shape(p, shape)) return "tensors that do not fit each other";
  if (p.inputs.size() > kAttentionLengths && p.inputs[kAttentionLengths].present &&
      p.inputs[kAttentionLengths].type != DataType::kInt64 &&
      p.inputs[kAttentionLengths].type != DataType::kInt32)
    return "lengths are neither int32 nor int64";
  if (p.inputs.size() > kFirstAttentionOperand + kMaxOperands) return "too many epilogue operands";
  if (!program_fits(p.layer->as<ir::AttentionAttrs>().epilogue)) return "the epilogue is too long";
  for (size_t k = kFirstAttentionOperand; k < p.inputs.size(); ++k)
    if (p.inputs[k].type != DataType::kFloat && p.inputs[k].type != DataType::kBool)
      return "an epilogue operand is neither float nor bool";
  return {};
}

double macs_of(const AttentionShape& shape) {
  return static_cast<double>(shape.batch * shape.heads * shape.queries) *
         static_cast<double>(shape.keys * (shape.depth + shape.value_depth));
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
