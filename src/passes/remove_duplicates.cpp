// SPDX-License-Identifier: Apache-2.0
// Duplicate removal: of layers with equal kind, attributes and inputs one is kept; of constants
// with equal bytes too. Bit exact.
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

int remove_duplicates(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "DuplicateLayerRemoval", records);
  merge_constants(rewriter);
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
    rewriter.applied(*layer, "Removing " + layer->name + ", a duplicate of " + (*kept)->name);
    rewriter.remove(layer);
    --k;
  }
  return rewriter.edits();
}

}  // namespace camshaft::passes
