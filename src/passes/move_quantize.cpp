// SPDX-License-Identifier: Apache-2.0
// Quantize early: Q moves toward the producers. VanillaSwapWithFollowingQ: X → Q becomes Q → X
// where X moves elements or chooses the largest. SplitQAcrossPrecedingFanIn: Concatenation → Q
// becomes one clone of Q per part. HorizontalMergeQNodes: equal Q of one tensor become one. All bit
// exact for one scale per tensor.
#include <algorithm>

#include "ir/kind_traits.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/quantization.h"

namespace camshaft::passes {

using namespace ir;

namespace {

// A Quantize layer like `model`, of `value`.
Tensor* insert_quantizer(Rewriter& rewriter, const Layer* model, Tensor* value,
                         const std::string& name, const Layer* before) {
  Tensor* codes =
      rewriter.graph().add_tensor(name + "_output", model->outputs[0]->type, value->shape);
  codes->has_rank = value->has_rank;
  set_grid_facts(codes, *grid_of(*model));
  std::vector<Tensor*> inputs = model->inputs;
  inputs[0] = value;
  rewriter.insert_before(before, LayerKind::kQuantize, name, model->attrs, inputs, {codes},
                         {model});
  return codes;
}

// Why `layer` stays before the Quantize layer that reads it; empty: they swap.
std::string swap_refusal(const Layer& layer, const Layer& quantizer) {
  const std::optional<Grid> grid = grid_of(quantizer);
  if (!grid || !is_quantized(grid->type)) return "its scale is no constant of an 8-bit type";
  if (!grid->per_tensor()) return "it has one scale per channel";
  const Tensor* x = layer.inputs[0];
  if (x->type != DataType::kFloat) return layer.name + " does not read floats";
  if (may_leave_out(layer.kind) && !x->is_constant() && !is_quantized_wholly(x, *grid))
    return x->name + " is also read as float: quantizing all of it gains nothing";
  return "";
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
  const std::string reason = swap_refusal(*layer, *quantizer);
  if (!reason.empty()) {
    rewriter.declined(*quantizer, reason);
    return false;
  }
  rewriter.applied(*layer, "Swapping " + layer->name + " with " + quantizer->name);
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
  set_grid_facts(behind->outputs[0], grid);
  rewriter.graph().rename(moved, name);
  rewriter.graph().rename(behind, layer_name);
  return true;
}

bool split(Rewriter& rewriter, Layer* concat) {
  Layer* quantizer = only_reader(concat->outputs[0]);
  rewriter.running(*concat);
  if (!quantizer || quantizer->kind != LayerKind::kQuantize) return false;
  const std::optional<Grid> grid = grid_of(*quantizer);
  if (!grid || !grid->per_tensor() || !is_quantized(grid->type)) return false;
  rewriter.applied(*concat, "Splitting " + quantizer->name + " across " + concat->name);
  std::vector<Tensor*> parts;
  for (size_t k = 0; k < concat->inputs.size(); ++k)
    parts.push_back(insert_quantizer(rewriter, quantizer, concat->inputs[k],
                                     fmt::format("{}_clone_{}", quantizer->name, k), concat));
  const std::string name = concat->name;
  const Attrs attrs = concat->attrs;
  Layer* group[] = {concat, quantizer};
  Layer* behind = rewriter.replace(group, LayerKind::kConcatenation, attrs, parts, name);
  set_grid_facts(behind->outputs[0], *grid);
  rewriter.graph().rename(behind, name);
  return true;
}

bool merge(Rewriter& rewriter, Layer* first) {
  const std::optional<Grid> grid = grid_of(*first);
  if (!grid) return false;
  for (Layer* other : first->inputs[0]->consumers) {
    if (other == first || other->kind != LayerKind::kQuantize || grid_of(*other) != grid ||
        !rewriter.can_replace(other->outputs[0], first->outputs[0]) ||
        rewriter.graph().position(other) < rewriter.graph().position(first))
      continue;
    rewriter.running(*first);
    rewriter.applied(*first, "Eliminating " + other->name + " which duplicates (Q) " + first->name);
    rewriter.replace_uses(other->outputs[0], first->outputs[0]);
    rewriter.remove(other);
    return true;
  }
  return false;
}

}  // namespace

int swap_with_following_quantize(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "VanillaSwapWithFollowingQ", records);
  for (size_t k = 0; k < graph.layers().size(); ++k) {
    Layer* layer = graph.layers()[k].get();
    if (layer->kind == LayerKind::kQuantize) swap(rewriter, layer);
  }
  return rewriter.edits();
}

int split_quantize_across_fan_in(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "SplitQAcrossPrecedingFanIn", records);
  for (size_t k = 0; k < graph.layers().size(); ++k) {
    Layer* layer = graph.layers()[k].get();
    if (layer->kind != LayerKind::kConcatenation || layer->outputs[0]->type != DataType::kFloat)
      continue;
    const Layer* reader = only_reader(layer->outputs[0]);
    if (reader && reader->kind == LayerKind::kQuantize) split(rewriter, layer);
  }
  return rewriter.edits();
}

int merge_quantize_nodes(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "HorizontalMergeQNodes", records);
  for (size_t k = 0; k < graph.layers().size(); ++k) {
    Layer* layer = graph.layers()[k].get();
    if (layer->kind != LayerKind::kQuantize) continue;
    while (merge(rewriter, layer)) {
    }
  }
  return rewriter.edits();
}

}  // namespace camshaft::passes
