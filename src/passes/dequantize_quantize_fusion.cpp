// SPDX-License-Identifier: Apache-2.0
// DequantizeQuantizeFusion: DQ → Q of the same grid is nothing. Bit exact.
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/quantization.h"

namespace camshaft::passes {

using namespace ir;

int dequantize_quantize_fusion(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "DequantizeQuantizeFusion", records);
  for (size_t k = 0; k < graph.layers().size();) {
    Layer* quantizer = graph.layers()[k].get();
    const Layer* dequantizer =
        quantizer->kind == LayerKind::kQuantize ? dequantizer_of(quantizer->inputs[0]) : nullptr;
    const std::optional<Grid> grid = dequantizer ? grid_of(*quantizer) : std::nullopt;
    if (!grid || grid != grid_of(*dequantizer) || !is_quantized(grid->type) ||
        !rewriter.can_replace(quantizer->outputs[0], dequantizer->inputs[0])) {
      ++k;
      continue;
    }
    rewriter.running(*quantizer);
    rewriter.applied(Action::kRemove, *quantizer,
                     "Removing " + dequantizer->name + " and " + quantizer->name);
    rewriter.replace_uses(quantizer->outputs[0], dequantizer->inputs[0]);
    rewriter.remove(quantizer);
  }
  return rewriter.edits();
}

}  // namespace camshaft::passes
