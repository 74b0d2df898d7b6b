// SPDX-License-Identifier: Apache-2.0
#include "passes/drop_quantization.h"

#include "passes/fold.h"
#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

// What was quantized to make the codes `dequantize` reads; null: they come from elsewhere.
Tensor* real_values_of(const Layer& dequantize) {
  const Layer* quantize = dequantize.inputs[0]->producer;
  if (!quantize || quantize->kind != LayerKind::kQuantize) return nullptr;
  Tensor* x = quantize->inputs[0];
  return x->type == dequantize.outputs[0]->type ? x : nullptr;
}

bool drop(Rewriter& rewriter, Layer* dequantize) {
  Tensor* y = dequantize->outputs[0];
  if (Tensor* x = real_values_of(*dequantize); x && rewriter.can_replace(y, x)) {
    rewriter.replace_uses(y, x);
    return true;
  }
  return has_constant_inputs(*dequantize) && evaluate_now(rewriter, dequantize, "");
}

}  // namespace

int drop_quantization(Graph& graph) {
  std::vector<RewriteRecord> untold;
  Rewriter rewriter(graph, "DropQuantization", &untold);
  int dropped = 0;
  for (size_t k = 0; k < graph.layers().size();) {
    Layer* layer = graph.layers()[k].get();
    for (const auto& body : layer->bodies) dropped += drop_quantization(*body);
    if (layer->kind != LayerKind::kDequantize || !drop(rewriter, layer)) {
      ++k;
      continue;
    }
    rewriter.remove(layer);
    ++dropped;
  }
  dead_layer_removal(graph, &untold);
  return dropped;
}

}  // namespace camshaft::passes
