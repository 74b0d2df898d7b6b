// SPDX-License-Identifier: Apache-2.0
// SparsityForce: constant weights of convolutions and matrix products, behind Q/DQ and transposes,
// become 2:4 by zeroing the last two of every four input channels, whatever they hold: for each
// output channel and tap of a filter, for each column of a right factor; codes of few bits become
// their block's zero point. That is for timing: the network computes something else afterwards.
// Left alone: weights that something else reads too, int8 codes with a zero point, NaN and
// infinities (a zero in their place would hide them).
#include "passes/sparsity_force.h"

#include <map>

#include "base/log.h"
#include "ir/sparsity.h"

namespace camshaft::passes {

using namespace ir;

namespace {

bool has_weights(const Layer& layer) {
  return layer.kind == LayerKind::kConvolution || layer.kind == LayerKind::kMatrixMultiply ||
         layer.kind == LayerKind::kLowBitMultiply;
}

void force_in(Graph& graph, std::vector<RewriteRecord>* records, ForcedSparsity& result) {
  Rewriter rewriter(graph, "SparsityForce", records);
  std::map<const Tensor*, int64_t> done;  // weights of several layers are pruned once
  for (size_t k = 0; k < graph.layers().size(); ++k) {
    Layer* layer = graph.layers()[k].get();
    for (const auto& body : layer->bodies) force_in(*body, records, result);
    if (!has_weights(*layer)) continue;
    const ProductWeights weights = find_product_weights(*layer);
    const bool shared = weights.constant && done.contains(weights.constant);
    if (!shared) {
      if (Refusal refusal = refuse_pruning(weights)) {
        rewriter.declined(*layer, std::move(refusal).behind("not made 2:4: "));
        continue;
      }
    }
    const int64_t count = sparsity_of(weights)->weights;
    if (!shared) {
      // In place: the constant keeps its name, so that layers and tactic times are those of the
      // dense network. Its bytes may be shared with other graphs.
      PrunedWeights first_two = pruned_2_4(weights, KeepRule::kFirstTwo);
      rewriter.set_constant(weights.constant, std::move(first_two.bytes));
      done[weights.constant] = first_two.pruned;
    }
    const int64_t pruned = done[weights.constant];
    rewriter.applied(Action::kEdit, *layer,
                     fmt::format("zeroed {} of {} weights: the first two of every four "
                                 "input channels are kept",
                                 pruned, count));
    log(Severity::kInfo, "(Sparsity) {}: {} of {} weights zeroed", layer->name, pruned, count);
    result.layers.push_back({layer->name, count, pruned});
    if (shared) continue;
    result.weights += count;
    result.pruned += pruned;
  }
}

}  // namespace

ForcedSparsity sparsity_force(Graph& graph, std::vector<RewriteRecord>* records) {
  ForcedSparsity result;
  force_in(graph, records, result);
  log(Severity::kWarning,
      "(Sparsity) forced: {} of {} weights of {} layers were overwritten with zeros, whatever they "
      "held. The network no longer computes what it was trained for: for timing only "
      "(camshaft sparsify chooses by magnitude or data)",
      result.pruned, result.weights, result.layers.size());
  return result;
}

}  // namespace camshaft::passes
