// SPDX-License-Identifier: Apache-2.0
// The order of the passes. A stage repeats its passes until none changes anything, then counts the
// layers.
#include "passes/pipeline.h"

#include <chrono>

#include "base/log.h"
#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

struct Stage {
  const char* count_label;
  std::vector<PassFunction> passes;
};

const std::vector<Stage>& stages() {
  static const std::vector<Stage> kStages = {
      {"After dead-layer removal", {remove_dead_layers}},
      {"After constant and shuffle fusions",
       {fold_constants, fuse_const_shuffles, remove_no_ops, fuse_shuffles, fuse_movements,
        remove_duplicates, remove_dead_layers}},
      {"After transpose motion",
       {flip_layouts, fold_constants, fuse_const_shuffles, fuse_shuffles, remove_duplicates,
        remove_dead_layers}},
      {"After scale fusion", {fuse_padding, fuse_matmul_operands, fuse_scales, remove_dead_layers}},
      {"After pattern fusions",
       {sink_squeezes, fuse_shuffles, fuse_normalizations, fuse_softmax, reduce_to_pooling,
        remove_dead_layers}},
      {"After vertical fusions",
       {fuse_scale_activations, fuse_pointwise, fuse_epilogues, remove_dead_layers}},
      {"After pointwise conversion", {convert_to_pointwise}},
      {"After dupe layer removal", {remove_duplicates, fuse_shuffles}},
      {"After final dead-layer removal", {remove_dead_layers}},
  };
  return kStages;
}

constexpr int kMostRounds = 100;

Status check(const Graph& graph, const char* stage) {
#ifndef NDEBUG
  return verify(graph).with_context(stage);
#else
  (void)graph, (void)stage;
  return ok_status();
#endif
}

Status run_stages(Graph& graph, PassRecord& record, bool is_main) {
  for (const auto& layer : graph.layers())
    for (const auto& body : layer->bodies) CAMSHAFT_TRY(run_stages(*body, record, false));
  for (const Stage& stage : stages()) {
    for (int round = 0, edits = 1; edits > 0 && round < kMostRounds; ++round) {
      edits = 0;
      for (PassFunction pass : stage.passes) edits += pass(graph, &record.rewrites);
    }
    CAMSHAFT_TRY(check(graph, stage.count_label));
    if (!is_main) continue;
    const int count = static_cast<int>(graph.layers().size());
    record.layer_counts.emplace_back(stage.count_label, count);
    log(Severity::kVerbose, "{}: {} layers", stage.count_label, count);
  }
  return ok_status();
}

}  // namespace

Status optimize(Graph& graph, PassRecord& record) {
  const auto start = std::chrono::steady_clock::now();
  log(Severity::kVerbose, "Original: {} layers", graph.layers().size());
  record.layer_counts.emplace_back("Original", static_cast<int>(graph.layers().size()));
  CAMSHAFT_TRY(run_stages(graph, record, true));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  log(Severity::kVerbose, "Graph optimization time: {:.6g} seconds.", seconds.count());
  return ok_status();
}

}  // namespace camshaft::passes
