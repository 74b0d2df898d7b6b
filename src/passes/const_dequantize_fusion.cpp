// SPDX-License-Identifier: Apache-2.0
// ConstDequantizeFusion: DQ of a constant is a float constant, unless it may be the weights or the
// bias of a quantized product. DanglingConstDequantizeFusion, after the quantized fusions, folds
// what did not become one. Bit exact.
#include <algorithm>

#include "ir/kind_traits.h"
#include "passes/fold.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/quantization.h"

namespace camshaft::passes {

using namespace ir;

namespace {

// Weights or bias of a product that may become quantized, through what Dequantize layers pass.
bool may_be_weights(const Tensor* tensor) {
  return std::any_of(tensor->consumers.begin(), tensor->consumers.end(), [&](const Layer* reader) {
    switch (reader->kind) {
      case LayerKind::kConvolution:
      case LayerKind::kDeconvolution:
        return reader->inputs[0] != tensor && may_be_dequantized(reader->inputs[0]);
      case LayerKind::kMatrixMultiply:
        return may_be_dequantized(reader->inputs[0]) && may_be_dequantized(reader->inputs[1]);
      case LayerKind::kConcatenation:
        return may_be_weights(reader->outputs[0]);
      default:
        return moves_elements(*reader) && reader->inputs[0] == tensor &&
               may_be_weights(reader->outputs[0]);
    }
  });
}

int fold_dequantized(Graph& graph, Records* records, const char* pass, bool keep_weights) {
  Rewriter rewriter(graph, pass, records);
  for (size_t k = 0; k < graph.layers().size();) {
    Layer* layer = graph.layers()[k].get();
    const bool folds = layer->kind == LayerKind::kDequantize && has_constant_inputs(*layer) &&
                       !(keep_weights && may_be_weights(layer->outputs[0]));
    const std::string source = folds ? layer->inputs[0]->name : "";
    if (folds) rewriter.running(*layer);
    if (!folds || !evaluate_now(rewriter, layer, source + " + " + layer->name)) {
      ++k;
      continue;
    }
    rewriter.applied(Action::kFuse, *layer, "Fusing " + source + " with " + layer->name);
    rewriter.remove(layer);
  }
  return rewriter.edits();
}

}  // namespace

int const_dequantize_fusion(Graph& graph, Records* records) {
  return fold_dequantized(graph, records, "ConstDequantizeFusion", true);
}
int dangling_const_dequantize_fusion(Graph& graph, Records* records) {
  return fold_dequantized(graph, records, "DanglingConstDequantizeFusion", false);
}

}  // namespace camshaft::passes
