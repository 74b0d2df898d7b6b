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
#include "ir/extents.h"
#include "ir/sparsity.h"

namespace camshaft::passes {

using namespace ir;

namespace {

// What is overwritten of a layer, or why nothing is.
struct Target {
  Tensor* constant = nullptr;
  int64_t count = 0;  // of weights
  Refusal refusal;
};

Target codes_of(const Layer& layer) {
  Tensor* records = layer.inputs[1];
  const LowBits& weights = layer.as<LowBits>();
  Target target{records, weights.columns * weights.depth, {}};
  if (!records->is_constant())
    target.refusal = {Reason::kConstant, "its weights are not constant"};
  else if (weights.zero == DataType::kFloat)
    target.refusal = {Reason::kGrid, "its zero points are no codes"};
  else if (records->consumers.size() > 1 || records->graph->is_output(records))
    target.refusal = {Reason::kReader, "something else reads its weights"};
  return target;
}

Target target_of(const Layer& layer, const ProductWeights& weights) {
  if (layer.kind == LayerKind::kLowBitMultiply) return codes_of(layer);
  const int64_t count =
      weights.constant ? element_count(extents_of(weights.constant->shape)) : int64_t{0};
  return {weights.constant, count, refuse_pruning(weights)};
}

// In place: the constant keeps its name, so that layers and tactic times are those of the dense
// network. Its bytes may be shared with other graphs.
int64_t prune(Rewriter& rewriter, const Layer& layer, const ProductWeights& weights,
              Tensor* constant) {
  const auto view = constant->constant->view;
  std::vector<std::byte> bytes(view.begin(), view.end());
  const int64_t pruned =
      layer.kind == LayerKind::kLowBitMultiply
          ? prune_2_4(layer.as<LowBits>(), bytes)
          : prune_2_4(constant->type, bytes,
                      channel_axis(extents_of(constant->shape), weights.axis), KeepRule::kFirstTwo);
  rewriter.set_constant(constant, std::move(bytes));
  return pruned;
}

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
    const Target target = target_of(*layer, weights);
    if (target.refusal && !shared) {
      rewriter.declined(*layer, Refusal(target.refusal).behind("not made 2:4: "));
      continue;
    }
    if (!shared) done[target.constant] = prune(rewriter, *layer, weights, target.constant);
    const int64_t pruned = done[target.constant], count = target.count;
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
