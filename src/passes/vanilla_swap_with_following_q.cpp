// SPDX-License-Identifier: Apache-2.0
// VanillaSwapWithFollowingQ: quantize early. X → Q becomes Q → X where X moves elements or chooses
// the largest. Bit exact for one scale per tensor.
#include <algorithm>

#include "ir/kind_traits.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/quantization.h"

namespace camshaft::passes {

using namespace ir;

namespace {

// Why `layer` stays before the Quantize layer that reads it; empty: they swap.
Refusal swap_refusal(const Layer& layer, const Layer& quantizer) {
  const std::optional<Grid> grid = grid_of(quantizer);
  if (!grid || !is_quantized(grid->type))
    return {Reason::kGrid, "its scale is no constant of an 8-bit type"};
  if (!grid->per_tensor()) return {Reason::kGrid, "it has one scale per channel"};
  const Tensor* x = layer.inputs[0];
  if (x->type != DataType::kFloat) return {Reason::kType, layer.name + " does not read floats"};
  if (may_leave_out(layer.kind) && !x->is_constant() && !is_quantized_wholly(x, *grid))
    return {Reason::kCost, x->name + " is also read as float: quantizing all of it gains nothing"};
  return {};
}

bool swap(Rewriter& rewriter, Layer* quantizer) {
  Tensor* value = quantizer->inputs[0];
  Layer* layer = value->producer;
  if (!layer || !moves_elements(*layer)) return false;
  // A slice costs nothing: it may stay for those who read floats.
  const bool stays = only_reader(value) != quantizer;
  if (stays && (layer->kind != LayerKind::kSlice || rewriter.graph().is_output(value)))
    return false;
  rewriter.running(*layer);
  if (Refusal refusal = swap_refusal(*layer, *quantizer)) {
    rewriter.declined(*quantizer, std::move(refusal));
    return false;
  }
  rewriter.swapped(*layer, *quantizer);
  const Grid grid = *grid_of(*quantizer);
  const std::string name = quantizer->name, layer_name = layer->name;
  std::vector<Tensor*> inputs = layer->inputs;
  inputs[0] = insert_quantizer(rewriter, quantizer, inputs[0], name, layer);
  Layer* moved = inputs[0]->producer;
  std::vector<Layer*> group = {quantizer};
  if (!stays) group.insert(group.begin(), layer);
  const LayerKind kind = layer->kind;
  Layer* behind =
      rewriter.replace(group, kind, attributes_on_codes(*layer, grid), inputs, layer_name);
  set_grid_facts(rewriter, behind->outputs[0], grid);
  rewriter.rename(moved, name);
  rewriter.rename(behind, layer_name);
  return true;
}

}  // namespace

int vanilla_swap_with_following_q(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "VanillaSwapWithFollowingQ", records);
  for (size_t k = 0; k < graph.layers().size(); ++k) {
    Layer* layer = graph.layers()[k].get();
    if (layer->kind == LayerKind::kQuantize) swap(rewriter, layer);
  }
  return rewriter.edits();
}

}  // namespace camshaft::passes
