// SPDX-License-Identifier: Apache-2.0
// Constants around Q/DQ. ConstQDQInitializersFusion: constant scales and zero points become facts
// of the codes. ConstWeightsQuantizeFusion: Constant → Q is a constant of codes, `w + Q`.
// ConstDequantizeFusion: DQ of a constant is a float constant, unless it may be the weights or the
// bias of a quantized product; what did not become one is folded at the end. Bit exact.
#include <algorithm>

#include "base/log.h"
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

int fold_dequantized(Graph& graph, Records* records, bool keep_weights) {
  Rewriter rewriter(graph, "ConstDequantizeFusion", records);
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
    rewriter.applied(*layer, "Fusing " + source + " with " + layer->name);
    rewriter.remove(layer);
  }
  return rewriter.edits();
}

}  // namespace

int fuse_initializers(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "ConstQDQInitializersFusion", records);
  for (const auto& layer : graph.layers()) {
    const std::optional<Grid> grid = grid_of(*layer);
    if (!grid || !is_quantized(grid->type)) continue;
    Tensor* codes = layer->kind == LayerKind::kQuantize ? layer->outputs[0] : layer->inputs[0];
    if (!codes->facts.scale.empty()) continue;
    rewriter.running(*layer);
    set_grid_facts(codes, *grid);
  }
  return rewriter.edits();
}

int fuse_quantized_constants(Graph& graph, Records* records) {
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
    rewriter.applied(*layer, "Fusing " + source + " with " + layer->name);
    rewriter.remove(layer);
  }
  return rewriter.edits();
}

int fold_dequantized_constants(Graph& graph, Records* records) {
  return fold_dequantized(graph, records, true);
}
int fold_dangling_constants(Graph& graph, Records* records) {
  return fold_dequantized(graph, records, false);
}

}  // namespace camshaft::passes
