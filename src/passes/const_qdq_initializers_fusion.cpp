// SPDX-License-Identifier: Apache-2.0
// ConstQDQInitializersFusion: constant scales and zero points become facts of the codes. Bit exact.
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/quantization.h"

namespace camshaft::passes {

using namespace ir;

int const_qdq_initializers_fusion(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "ConstQDQInitializersFusion", records);
  for (const auto& layer : graph.layers()) {
    const std::optional<Grid> grid = grid_of(*layer);
    if (!grid || !is_quantized(grid->type)) continue;
    Tensor* codes = layer->kind == LayerKind::kQuantize ? layer->outputs[0] : layer->inputs[0];
    if (!codes->facts.scale.empty()) continue;
    rewriter.running(*layer);
    set_grid_facts(rewriter, codes, *grid);
  }
  return rewriter.edits();
}

}  // namespace camshaft::passes
