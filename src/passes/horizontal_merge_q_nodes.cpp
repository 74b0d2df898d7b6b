// SPDX-License-Identifier: Apache-2.0
// HorizontalMergeQNodes: equal Q of one tensor become one. Bit exact.
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/quantization.h"

namespace camshaft::passes {

using namespace ir;

namespace {

bool merge(Rewriter& rewriter, Layer* first) {
  const std::optional<Grid> grid = grid_of(*first);
  if (!grid) return false;
  for (Layer* other : first->inputs[0]->consumers) {
    if (other == first || other->kind != LayerKind::kQuantize || grid_of(*other) != grid ||
        !rewriter.can_replace(other->outputs[0], first->outputs[0]) ||
        rewriter.graph().position(other) < rewriter.graph().position(first))
      continue;
    rewriter.running(*first);
    rewriter.applied(Action::kRemove, *first,
                     "Eliminating " + other->name + " which duplicates (Q) " + first->name);
    rewriter.replace_uses(other->outputs[0], first->outputs[0]);
    rewriter.remove(other);
    return true;
  }
  return false;
}

}  // namespace

int horizontal_merge_q_nodes(Graph& graph, Records* records) {
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
