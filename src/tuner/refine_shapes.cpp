// SPDX-License-Identifier: Apache-2.0
#include "tuner/refine_shapes.h"

#include <algorithm>

#include "ir/infer.h"
#include "passes/passes.h"
#include "tuner/problem.h"
#include "tuner/substitution.h"

namespace camshaft::tuner {
namespace {

using ir::Dim;
using ir::Layer;
using ir::LayerKind;
using ir::Tensor;

constexpr int kMostRounds = 32;

bool has_late_shapes(const ir::Graph& graph) {
  return std::any_of(graph.layers().begin(), graph.layers().end(),
                     [](const auto& layer) { return has_guessed_extents(*layer); });
}

// May inference tell more of the layer's outputs than it did?
bool may_refine(const Layer& layer) {
  if (!layer.bodies.empty()) return false;
  if (has_guessed_extents(layer)) return true;
  return std::any_of(layer.outputs.begin(), layer.outputs.end(), [](const Tensor* tensor) {
    return tensor && !ir::is_floating(tensor->type) && !tensor->facts.shape_value &&
           tensor->shape.size() <= 1;
  });
}

// Takes over what the output of a new inference knows beyond `tensor`.
bool refine(Tensor& tensor, ir::InferOutput& output, Substitution& substitution) {
  const ir::SymbolTable& symbols = tensor.graph->symbols();
  bool changed = false;
  if (!tensor.has_rank && output.has_rank) {
    tensor.has_rank = changed = true;
    tensor.shape = output.shape;
  } else if (output.has_rank && output.shape.size() == tensor.shape.size()) {
    for (size_t d = 0; d < tensor.shape.size(); ++d) {
      const Dim before = tensor.shape[d], now = output.shape[d];
      if (before.is_known() || !symbols.depends_on_runtime(before) ||
          (!now.is_known() && symbols.depends_on_runtime(now)))
        continue;
      substitution.fix(before.symbol_id(), now);
      changed = true;
    }
  }
  if (output.value && !tensor.facts.shape_value) {
    tensor.facts.shape_value = std::move(output.value);
    changed = true;
  }
  return changed;
}

bool infer_again(ir::Graph& graph) {
  bool any = false;
  for (const auto& layer : graph.layers()) {
    if (!may_refine(*layer)) continue;
    std::vector<ir::InferInput> inputs;
    for (const Tensor* tensor : layer->inputs)
      inputs.push_back(ir::infer_input(tensor, graph.symbols()));
    auto outputs = ir::infer(*layer, inputs, graph.symbols());
    if (!outputs.ok()) continue;  // the run that comes here will say what is wrong
    Substitution substitution(graph.symbols());
    bool changed = false;
    for (size_t k = 0; k < layer->outputs.size(); ++k)
      if (layer->outputs[k]) changed |= refine(*layer->outputs[k], (*outputs)[k], substitution);
    if (!substitution.empty()) substitution.apply(graph);
    any |= changed;
  }
  return any;
}

// A reshape or expansion whose operand is known now, as the layer without that operand.
void make_static(ir::Graph& graph, std::vector<ir::RewriteRecord>* records) {
  ir::Rewriter rewriter(graph, "ShapeInference", records);
  for (size_t k = 0; k < graph.layers().size(); ++k) {
    Layer* layer = graph.layers()[k].get();
    const bool shuffle = layer->kind == LayerKind::kShuffle,
               expand = layer->kind == LayerKind::kExpand;
    if ((!shuffle && !expand) || layer->inputs.size() != 2 || !layer->inputs[1] ||
        !ir::infer_input(layer->inputs[1], graph.symbols()).value || has_guessed_extents(*layer))
      continue;
    const ir::Shape& shape = layer->outputs[0]->shape;
    ir::Attrs attrs = ir::ShapeAttrs{true, shape};
    if (shuffle) {
      ir::ShuffleAttrs reshape = layer->as<ir::ShuffleAttrs>();
      if (!reshape.second_transpose.empty()) continue;
      reshape.has_reshape = true;
      reshape.reshape = shape;
      attrs = std::move(reshape);
    }
    Layer* group[] = {layer};
    rewriter.replace(group, layer->kind, std::move(attrs), {layer->inputs[0]});
  }
}

}  // namespace

void refine_shapes(ir::Graph& graph, std::vector<ir::RewriteRecord>* records) {
  if (!has_late_shapes(graph)) return;
  passes::widen_floats(graph, records);  // folded tables of halves would be rounded at every layer
  for (int round = 0; round < kMostRounds; ++round) {
    const int folded = passes::constant_folding(graph, records);
    if (!infer_again(graph) && folded == 0) break;
  }
  make_static(graph, records);
}

}  // namespace camshaft::tuner
