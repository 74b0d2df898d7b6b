// SPDX-License-Identifier: Apache-2.0
// DuplicateLayerRemoval: of layers with equal kind, attributes and inputs one is kept; of constants
// with equal bytes too; of tensors that compute the same shape, the first. Bit exact.
#include <algorithm>
#include <cstring>
#include <map>
#include <string_view>

#include "passes/match.h"
#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

bool is_random(const Layer& layer) {
  const auto* generic = std::get_if<GenericAttrs>(&layer.attrs);
  return generic && (generic->op_type.starts_with("Random") || generic->op_type == "Multinomial" ||
                     generic->op_type == "Bernoulli");
}

int merge_constants(Rewriter& rewriter) {
  struct Key {
    DataType type;
    std::vector<int64_t> extents;
    std::string_view bytes;
    auto operator<=>(const Key&) const = default;
  };
  std::map<Key, Tensor*> seen;
  int merged = 0;
  for (const auto& owned : rewriter.graph().tensors()) {
    Tensor* tensor = owned.get();
    if (!tensor->is_constant() || tensor->consumers.empty() || rewriter.graph().is_output(tensor))
      continue;
    const auto bytes = tensor->constant->view;
    const Extents extents = extents_of(tensor->shape);
    const Key key{tensor->type,
                  {extents.begin(), extents.end()},
                  {reinterpret_cast<const char*>(bytes.data()), bytes.size()}};
    auto [at, is_new] = seen.try_emplace(key, tensor);
    if (is_new) continue;
    rewriter.replace_uses(tensor, at->second);
    ++merged;
  }
  return merged;
}

// Integers with equal symbolic elements are equal whatever computes them.
void merge_shape_values(Rewriter& rewriter) {
  struct Key {
    DataType type;
    std::vector<Dim> extents, elements;
  };
  std::vector<std::pair<Key, Tensor*>> seen;
  for (const auto& layer : rewriter.graph().layers()) {
    Tensor* tensor = layer->outputs.size() == 1 ? layer->outputs[0] : nullptr;
    if (!tensor || !tensor->has_rank || !tensor->facts.shape_value || tensor->consumers.empty())
      continue;
    Key key{tensor->type, {tensor->shape.begin(), tensor->shape.end()}, *tensor->facts.shape_value};
    const auto at = std::find_if(seen.begin(), seen.end(), [&](const auto& other) {
      return other.first.type == key.type && other.first.extents == key.extents &&
             other.first.elements == key.elements;
    });
    if (at == seen.end()) {
      seen.emplace_back(std::move(key), tensor);
      continue;
    }
    if (rewriter.graph().is_output(tensor) || !rewriter.can_replace(tensor, at->second)) continue;
    rewriter.running(*layer);
    rewriter.applied(
        Action::kRemove, *layer,
        "Eliminating " + layer->name + ": " + at->second->name + " has the same elements");
    rewriter.replace_uses(tensor, at->second);
  }
}

bool can_merge(const Rewriter& rewriter, const Layer& kept, const Layer& other) {
  if (kept.outputs.size() != other.outputs.size() || !equal(kept.attrs, other.attrs)) return false;
  for (size_t k = 0; k < kept.outputs.size(); ++k) {
    if (!other.outputs[k]) continue;
    if (!kept.outputs[k] || kept.outputs[k]->type != other.outputs[k]->type ||
        !same_shape(kept.outputs[k], other.outputs[k]))
      return false;
    if (!rewriter.can_replace(other.outputs[k], kept.outputs[k])) return false;
  }
  return true;
}

}  // namespace

int duplicate_layer_removal(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "DuplicateLayerRemoval", records);
  merge_constants(rewriter);
  merge_shape_values(rewriter);
  std::map<std::pair<LayerKind, std::vector<Tensor*>>, std::vector<Layer*>> seen;
  for (size_t k = 0; k < graph.layers().size();) {
    Layer* layer = graph.layers()[k++].get();
    if (!layer->bodies.empty() || is_random(*layer)) continue;
    std::vector<Layer*>& alike = seen[{layer->kind, layer->inputs}];
    auto kept = std::find_if(alike.begin(), alike.end(),
                             [&](Layer* other) { return can_merge(rewriter, *other, *layer); });
    if (kept == alike.end()) {
      alike.push_back(layer);
      continue;
    }
    rewriter.running(*layer);
    for (size_t n = 0; n < layer->outputs.size(); ++n)
      if (layer->outputs[n]) rewriter.replace_uses(layer->outputs[n], (*kept)->outputs[n]);
    rewriter.applied(Action::kRemove, *layer,
                     "Removing " + layer->name + ", a duplicate of " + (*kept)->name);
    rewriter.remove(layer);
    --k;
  }
  return rewriter.edits();
}

}  // namespace camshaft::passes
