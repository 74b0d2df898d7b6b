// SPDX-License-Identifier: Apache-2.0
// SparsityForce: constant weights of convolutions and matrix products, behind Q/DQ and transposes,
// become 2:4 by zeroing the last two of every four input channels, whatever they hold: for each
// output channel and tap of a filter, for each column of a right factor. That is for timing: the
// network computes something else afterwards. Left alone: weights that something else reads too,
// codes with a zero point, NaN and infinities (a zero in their place would hide them).
#include "passes/sparsity_force.h"

#include <map>

#include "base/log.h"
#include "ir/extents.h"
#include "ir/sparsity.h"

namespace camshaft::passes {

using namespace ir;

namespace {

// In place: the constant keeps its name, so that layers and tactic times are those of the dense
// network. Its bytes may be shared with other graphs.
int64_t prune(Rewriter& rewriter, Tensor* constant, const ChannelAxis& axis) {
  const auto view = constant->constant->view;
  std::vector<std::byte> bytes(view.begin(), view.end());
  const int64_t pruned = prune_2_4(constant->type, bytes, axis, KeepRule::kFirstTwo);
  rewriter.set_constant(constant, std::move(bytes));
  return pruned;
}

void force_in(Graph& graph, std::vector<RewriteRecord>* records, ForcedSparsity& result) {
  Rewriter rewriter(graph, "SparsityForce", records);
  std::map<const Tensor*, int64_t> done;  // weights of several layers are pruned once
  for (size_t k = 0; k < graph.layers().size(); ++k) {
    Layer* layer = graph.layers()[k].get();
    for (const auto& body : layer->bodies) force_in(*body, records, result);
    if (layer->kind != LayerKind::kConvolution && layer->kind != LayerKind::kMatrixMultiply)
      continue;
    const ProductWeights weights = find_product_weights(*layer);
    const bool shared = weights.constant && done.contains(weights.constant);
    if (!shared) {
      if (Refusal refusal = refuse_pruning(weights)) {
        rewriter.declined(*layer, std::move(refusal).behind("not made 2:4: "));
        continue;
      }
    }
    const Extents extents = extents_of(weights.constant->shape);
    const ChannelAxis axis = channel_axis(extents, weights.axis);
    const int64_t count = element_count(extents);
    if (!shared) done[weights.constant] = prune(rewriter, weights.constant, axis);
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
