// SPDX-License-Identifier: Apache-2.0
// EpilogueFusion: a pointwise layer that alone reads the result of a convolution, deconvolution,
// matrix product, normalization or pooling becomes its epilogue; what else it reads (a residual, a
// gate) becomes an extra input, and the kernel moves to where that is available. In TensorRT's log:
// ConvReluFusion, ConvEltwiseSumFusion … Exact up to fma contraction.
#include <algorithm>

#include "ir/kind_traits.h"
#include "passes/attention_parts.h"
#include "passes/expression.h"
#include "passes/match.h"
#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

size_t first_extra(const Layer& layer) {
  return traits_of(layer.kind).epilogue.first_operand;
}

// The epilogue over {accumulator (null), extra inputs …}.
Expression current_epilogue(const Layer& layer) {
  Expression expression{*epilogue_of(layer), {nullptr}};
  for (size_t k = first_extra(layer); k < layer.inputs.size(); ++k)
    expression.inputs.push_back(layer.inputs[k]);
  expression.program.num_inputs = static_cast<int>(expression.inputs.size());
  if (is_quantized(layer.outputs[0]->type))
    expression.program = with_saturation(std::move(expression.program), layer.outputs[0]->type);
  return expression;
}

// `kernel`'s result consumed by `pointwise`, as one epilogue with the accumulator first.
Expression fused_epilogue(const Layer& kernel, const Layer& pointwise) {
  Expression fused =
      substitute(expression_of(pointwise), kernel.outputs[0], current_epilogue(kernel));
  return tidy(std::move(fused), 1);
}

// Whose epilogue the layer becomes rather than a pooling's: a product has it in its registers, and
// one of codes has to scale its sums.
const Layer* preferred_kernel(const Layer& pooling, const Layer& pointwise) {
  if (pooling.kind != LayerKind::kPooling) return nullptr;
  for (const Tensor* input : pointwise.inputs)
    if (input->producer && is_product(*input->producer) && takes_epilogue(*input->producer) &&
        only_reader(input) == &pointwise && same_shape(input, pointwise.outputs[0]))
      return input->producer;
  return nullptr;
}

Refusal fusion_refusal(const Layer& kernel, const Layer& pointwise, const Expression& fused) {
  if (Refusal refusal = epilogue_refusal(kernel)) return refusal;
  if (const Layer* other = preferred_kernel(kernel, pointwise))
    return {Reason::kReader, other->name + " takes it"};
  const Tensor *value = kernel.outputs[0], *result = pointwise.outputs[0];
  if (!same_shape(value, result))
    return {Reason::kShape, "the result is broadcast to a larger shape"};
  const bool codes = makes_codes(kernel);
  if (result->type != DataType::kFloat && !(codes && is_quantized(result->type)))
    return {Reason::kType, "its result is not float"};
  for (const Tensor* input : fused.inputs)
    if (input && input->type != DataType::kFloat && !(codes && is_quantized(input->type)))
      return {Reason::kType, "operand " + input->name + " is not float"};
  if (!within_limits(fused)) return {Reason::kLimit, "the program would have too many values"};
  if (fused.inputs.size() > kMaxEpilogueOperands + 1)
    return {Reason::kLimit, "the epilogue would have too many operands"};
  return {};
}

const char* pass_name(const Layer& kernel, const Layer& pointwise) {
  const bool conv =
      kernel.kind == LayerKind::kConvolution || kernel.kind == LayerKind::kDeconvolution;
  if (makes_codes(kernel) && is_quantized(pointwise.outputs[0]->type) &&
      pointwise.inputs.size() == 1)
    return "QuantizeDoubleInputNodes";
  const Expression expression = expression_of(pointwise);
  if (expression.inputs.size() > 1) return conv ? "ConvEltwiseSumFusion" : "EltwiseEpilogueFusion";
  const bool relu =
      expression.program.code.size() == 1 && expression.program.code[0].op == PointOp::kRelu;
  return conv ? (relu ? "ConvReluFusion" : "ConvActFusion") : "ActEpilogueFusion";
}

// "conv1 + relu1", "conv1 + PWN(a, b)"
bool fuse(Graph& graph, Records* records, Layer* kernel, int* edits) {
  Tensor* value = kernel->outputs[0];
  Layer* pointwise = only_reader(value);
  if (!pointwise || !is_pointwise(*pointwise) ||
      (value->type != DataType::kFloat && !makes_codes(*kernel)))
    return false;
  Rewriter rewriter(graph, pass_name(*kernel, *pointwise), records);
  rewriter.running(*kernel);
  Expression fused = fused_epilogue(*kernel, *pointwise);
  if (Refusal refusal = fusion_refusal(*kernel, *pointwise, fused)) {
    rewriter.declined(*kernel,
                      std::move(refusal).behind("not fused with " + pointwise->name + ": "));
    return false;
  }
  const bool quantizes = is_quantized(pointwise->outputs[0]->type);
  rewriter.applied(Action::kFuse, *kernel,
                   quantizes ? "fusing " + pointwise->name + " into " + kernel->name
                             : "Fusing " + kernel->name + " with " + pointwise->name);
  rewriter.program(kernel) =
      without_saturation(std::move(fused.program), pointwise->outputs[0]->type);
  rewriter.set_stored_type(kernel, quantizes ? pointwise->outputs[0]->type : DataType::kUndefined);
  std::vector<Tensor*> inputs(
      kernel->inputs.begin(),
      kernel->inputs.begin() + std::min(kernel->inputs.size(), first_extra(*kernel)));
  if (fused.inputs.size() > 1) inputs.resize(first_extra(*kernel), nullptr);
  inputs.insert(inputs.end(), fused.inputs.begin() + 1, fused.inputs.end());
  Layer* group[] = {kernel, pointwise};
  const std::string rest = is_added(*pointwise, *kernel) ? "" : " + " + pointwise->name;
  rewriter.replace(group, kernel->kind, kernel->attrs, inputs, kernel->name + rest);
  *edits += rewriter.edits();
  return true;
}

}  // namespace

int epilogue_fusion(Graph& graph, Records* records) {
  int edits = 0;
  // From the back: of two kernels whose results meet in one pointwise layer the later one takes it;
  // its other operand is made by then, and its own result is still in the cache.
  for (size_t k = graph.layers().size(); k-- > 0;) {
    Layer* layer = graph.layers()[k].get();
    if (epilogue_of(*layer) && !weighs_values(*layer)) fuse(graph, records, layer, &edits);
  }
  return edits;
}

}  // namespace camshaft::passes
