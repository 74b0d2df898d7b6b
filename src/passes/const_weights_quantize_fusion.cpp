// SPDX-License-Identifier: Apache-2.0
// ConstWeightsQuantizeFusion: Constant → Q is a constant of codes, `w + Q`. Bit exact.
#include "base/log.h"
#include "passes/fold.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/quantization.h"

namespace camshaft::passes {

using namespace ir;

int const_weights_quantize_fusion(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "ConstWeightsQuantizeFusion", records);
  for (size_t k = 0; k < graph.layers().size();) {
    Layer* layer = graph.layers()[k].get();
    const bool folds = layer->kind == LayerKind::kQuantize && has_constant_inputs(*layer);
    const std::string source = folds ? layer->inputs[0]->name : "";
    if (folds) log(Severity::kVerbose, "Running: ConstWeightsQuantizeFusion on {}", source);
    if (!folds || !evaluate_now(rewriter, layer, source + " + " + layer->name)) {
      ++k;
      continue;
    }
    rewriter.applied(Action::kFuse, *layer, "Fusing " + source + " with " + layer->name);
    rewriter.remove(layer);
  }
  return rewriter.edits();
}

}  // namespace camshaft::passes
