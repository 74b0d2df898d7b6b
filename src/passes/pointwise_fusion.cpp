// SPDX-License-Identifier: Apache-2.0
// PointWiseFusion: elementwise float layers over one iteration space become one PointWise layer
// `PWN(a, b)` with a program. A producer joins its only reader when both have the same shape, so no
// work is done twice and no cycle can arise. Exact up to contraction to fma and the identities of
// ir::simplify. A Dequantize on codes is repeated in each of its readers, so that a chain between
// codes is one layer of 8-bit inputs: of one input, a table of 256 entries. ScaleActivationFusion
// is the case of Scale and what follows it; EltwiseToPwn makes PointWise of what stayed alone.
#include <algorithm>

#include "passes/expression.h"
#include "passes/match.h"
#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

Layer* replace_by_program(Rewriter& rewriter, std::vector<Layer*> group, Expression expression) {
  std::sort(group.begin(), group.end() - 1, [&](const Layer* a, const Layer* b) {
    return rewriter.graph().position(a) < rewriter.graph().position(b);
  });
  const PointWiseAttrs attrs =
      pointwise_attrs(std::move(expression.program), group.back()->outputs[0]);
  const std::string name = pointwise_name({group.begin(), group.end()});
  return rewriter.replace(group, LayerKind::kPointWise, attrs, expression.inputs, name);
}

// A dropped operand must not have been the one that broadcast the others.
bool keeps_shape(const Expression& expression, const Tensor* output) {
  const size_t rank = output->shape.size();
  std::vector<bool> spans(rank, false);
  size_t most = 0;
  for (const Tensor* input : expression.inputs) {
    const size_t own = std::min(rank, input->shape.size());
    most = std::max(most, input->shape.size());
    for (size_t d = 0; d < own; ++d)
      if (input->shape[input->shape.size() - 1 - d] != Dim(1)) spans[rank - 1 - d] = true;
  }
  for (size_t d = 0; d < rank; ++d)
    if (!spans[d] && output->shape[d] != Dim(1)) return false;
  return most == rank;
}

// A few instructions on codes: cheaper to repeat than to store their floats.
bool is_dequantizer(const Layer& layer) {
  constexpr size_t kFewInstructions = 4;
  if (layer.kind != LayerKind::kPointWise || layer.outputs[0]->type != DataType::kFloat ||
      layer.as<PointWiseAttrs>().program.code.size() > kFewInstructions)
    return false;
  size_t codes = 0;
  for (const Tensor* input : layer.inputs) {
    codes += is_quantized(input->type) ? 1 : 0;
    if (!is_quantized(input->type) && !input->is_constant()) return false;
  }
  return codes == 1;
}

// A Q that a quantized kernel stores itself: then 8-bit codes are what others read.
bool joins_kernel(const Layer& layer) {
  if (!is_quantized(layer.outputs[0]->type)) return false;
  return std::any_of(layer.inputs.begin(), layer.inputs.end(), [&](const Tensor* input) {
    const Layer* producer = input->producer;
    return producer && input->type == DataType::kFloat && makes_codes(*producer) &&
           only_reader(input) == &layer;
  });
}

// Why `inner` may not be computed inside `outer`; empty: it may.
Refusal chain_refusal(const Layer& inner, const Layer& outer) {
  const Tensor* value = inner.outputs[0];
  if (joins_kernel(inner)) return {Reason::kOtherPass, "it becomes the epilogue of what it reads"};
  if (is_dequantizer(inner)) return {};
  if (only_reader(value) != &outer) return {Reason::kReader, "its result has other readers"};
  if (!same_shape(value, outer.outputs[0]))
    return {Reason::kCost,
            "its result is broadcast: fused, it would be computed more than once per element"};
  return {};
}

bool fuse_one(Rewriter& rewriter, Layer* outer) {
  for (Tensor* input : std::vector<Tensor*>(outer->inputs)) {
    Layer* inner = input->producer;
    if (!inner || !is_pointwise(*inner)) continue;
    if (chain_refusal(*inner, *outer)) continue;
    rewriter.running(*outer);
    Expression fused = tidy(substitute(expression_of(*outer), input, expression_of(*inner)));
    const bool keeps = keeps_shape(fused, outer->outputs[0]);
    if (!within_limits(fused) || !keeps) {
      rewriter.declined(
          *outer, keeps ? Refusal{Reason::kLimit,
                                  "with " + inner->name + " the program would have too many values"}
                        : Refusal{Reason::kShape, "without " + inner->name +
                                                      " nothing would give its result this shape"});
      continue;
    }
    rewriter.fused(*inner, *outer);
    replace_by_program(rewriter, {inner, outer}, std::move(fused));
    return true;
  }
  return false;
}

// For the record, once all is fused: what a user would ask about.
void explain(Rewriter& rewriter, const Graph& graph) {
  for (const auto& layer : graph.layers()) {
    if (!is_pointwise(*layer)) continue;
    for (const Tensor* input : layer->inputs) {
      const Layer* inner = input->producer;
      if (!inner || !is_pointwise(*inner)) continue;
      if (Refusal refusal = chain_refusal(*inner, *layer))
        rewriter.declined(*inner,
                          std::move(refusal).behind("not fused into " + layer->name + ": "));
    }
  }
}

// A Scale not along the last axis, with its vectors as [C, 1, 1 …] constants.
bool convert_scale(Rewriter& rewriter, Layer* scale) {
  Tensor* x = scale->inputs[0];
  const auto axis = static_cast<size_t>(scale->as<ScaleAttrs>().axis);
  if (x->type != DataType::kFloat || !x->has_rank || axis >= x->shape.size()) return false;
  std::vector<Tensor*> inputs = {x};
  for (size_t k = 1; k < 3; ++k) {
    const Tensor* vector = scale->inputs[k];
    if (!is_float_constant(vector)) return false;
    Extents extents = extents_of(vector->shape);
    while (extents.size() < x->shape.size() - axis) extents.push_back(1);
    inputs.push_back(rewriter.add_constant(vector->name + " (broadcast)", DataType::kFloat, extents,
                                           vector->constant));
  }
  PointWiseAttrs attrs;
  attrs.program.num_inputs = 3;
  append(attrs.program, PointOp::kFma, 0, 1, 2);
  Layer* group[] = {scale};
  rewriter.replace(group, LayerKind::kPointWise, attrs, inputs, scale->name);
  return true;
}

}  // namespace

int scale_activation_fusion(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "ScaleActivationFusion", records);
  for (size_t k = 0; k < graph.layers().size(); ++k) {
    Layer* scale = graph.layers()[k].get();
    if (scale->kind != LayerKind::kScale) continue;
    Tensor* output = scale->outputs[0];
    rewriter.running(*scale);
    if (!convert_scale(rewriter, scale)) {
      rewriter.declined(*scale, {Reason::kConstant, "not float, or the factors are no constants"});
      continue;
    }
    Layer* activation = only_reader(output);
    if (!activation || activation->kind != LayerKind::kActivation) continue;
    Layer* made = output->producer;
    rewriter.fused(*made, *activation);
    const Expression fused =
        tidy(substitute(expression_of(*activation), output, expression_of(*made)));
    const PointWiseAttrs attrs = pointwise_attrs(fused.program, activation->outputs[0]);
    Layer* group[] = {made, activation};
    rewriter.replace(group, LayerKind::kPointWise, attrs, fused.inputs);
  }
  return rewriter.edits();
}

int pointwise_fusion(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "PointWiseFusion", records);
  for (size_t k = 0; k < graph.layers().size();) {
    Layer* layer = graph.layers()[k].get();
    const Tensor* output = layer->outputs.empty() ? nullptr : layer->outputs[0];
    if (is_pointwise(*layer) && fuse_one(rewriter, layer))
      k = graph.position(output->producer);
    else
      ++k;
  }
  if (records) explain(rewriter, graph);
  return rewriter.edits();
}

namespace {

std::string capitals(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return result;
}

}  // namespace

int eltwise_to_pwn(Graph& graph, Records* records) {
  Rewriter others(graph, "EltwiseToPwn", records), additions(graph, "EltwiseAddToPwn", records);
  for (size_t k = 0; k < graph.layers().size(); ++k) {
    Layer* layer = graph.layers()[k].get();
    if (!is_pointwise(*layer) || layer->kind == LayerKind::kPointWise) continue;
    if (is_copy(*layer)) continue;
    Expression expression = tidy(expression_of(*layer));
    if (!keeps_shape(expression, layer->outputs[0])) continue;
    const bool adds =
        layer->kind == LayerKind::kElementWise && layer->as<PointOpAttrs>().op == PointOp::kAdd;
    Rewriter& rewriter = adds ? additions : others;
    rewriter.running(*layer);
    rewriter.applied(Action::kConvert, *layer,
                     "Swap the layer type of " + layer->name + " from " +
                         capitals(kind_name(layer->kind)) + " to POINTWISE");
    replace_by_program(rewriter, {layer}, std::move(expression));
  }
  return others.edits() + additions.edits();
}

}  // namespace camshaft::passes
