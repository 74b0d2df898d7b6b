// SPDX-License-Identifier: Apache-2.0
// The order of the passes. A stage repeats its passes until none changes anything, then counts the
// layers.
#include "passes/pipeline.h"

#include <chrono>
#include <cstdlib>
#include <string>

#include "base/log.h"
#include "passes/passes.h"
#include "passes/remove_zero_channels.h"

namespace camshaft::passes {

using namespace ir;

namespace {

struct Pass {
  const char* name;
  PassFunction run;
};
#define PASS(function)  \
  Pass {                \
#function, function \
  }

struct Stage {
  const char* count_label;
  std::vector<Pass> passes;
  const char* heading = "";  // what TensorRT's log says before it
};

const std::vector<Stage>& stages() {
  // clang-format off
  static const std::vector<Stage> kStages = {
      {"After dead-layer removal", {PASS(remove_dead_layers), PASS(widen_floats)}},
      {"After Q/DQ initializers",
       {PASS(fold_constants), PASS(remove_no_ops), PASS(fuse_initializers), PASS(fuse_quantized_constants), PASS(lower_dynamic_quantization),
        PASS(remove_dead_layers)},
       "QDQ graph optimizer - constant folding of Q/DQ initializers"},
      {"After constant and shuffle fusions",
       {PASS(fold_constants), PASS(fuse_quantized_constants), PASS(fuse_low_bit_weights), PASS(fold_dequantized_constants), PASS(fuse_const_shuffles), PASS(remove_no_ops), PASS(fuse_shuffles), PASS(fuse_movements),
        PASS(fuse_pads), PASS(batch_loops), PASS(fuse_look_ups), PASS(fuse_expands), PASS(remove_duplicates), PASS(remove_dead_layers)}},
      {"After transpose motion",
       {PASS(flip_layouts), PASS(fold_constants), PASS(fuse_const_shuffles), PASS(fuse_shuffles), PASS(remove_duplicates),
        PASS(remove_dead_layers)}},
      {"After Q/DQ motion",
       {PASS(merge_quantize_nodes), PASS(split_quantize_across_fan_in), PASS(swap_with_following_quantize),
        PASS(cancel_dequantize_quantize), PASS(move_dequantize), PASS(fuse_quantized_constants), PASS(fuse_const_shuffles),
        PASS(fuse_shuffles), PASS(fold_constants), PASS(remove_dead_layers)},
       "QDQ graph optimizer forward pass - DQ motions and fusions"},
      {"After quantized fusions", {PASS(quantize_products), PASS(fuse_quantized_scales), PASS(remove_dead_layers)}},
      {"After dangling Q/DQ folding", {PASS(fold_dangling_constants), PASS(fold_constants), PASS(fuse_const_shuffles)},
       "QDQ graph optimizer constant fold dangling QDQ pass"},
      {"After scale fusion",
       {PASS(fuse_means), PASS(fuse_padding), PASS(fuse_crops), PASS(fuse_space_to_depth), PASS(fuse_one_hot), PASS(fuse_matmul_operands), PASS(fuse_expands),
        PASS(fuse_scales), PASS(fuse_shuffles), PASS(remove_zero_channels), PASS(remove_dead_layers)}},
      {"After pattern fusions",
       {PASS(sink_squeezes), PASS(fuse_shuffles), PASS(fuse_normalizations), PASS(fuse_group_norms), PASS(fuse_softmax), PASS(reduce_to_pooling),
        PASS(remove_dead_layers)}},
      {"After Q/DQ conversion", {PASS(quantize_pooling), PASS(convert_quantization), PASS(remove_dead_layers)},
       "QDQ optimization pass"},
      {"After vertical fusions",
       {PASS(fuse_scale_activations), PASS(fuse_pointwise), PASS(hoist_pointwise), PASS(fuse_const_shuffles), PASS(fuse_shuffles),
        PASS(fuse_epilogues), PASS(fold_requantization), PASS(remove_dead_layers)}},
      {"After tensor merging",
       {PASS(fuse_attention), PASS(fuse_attention_layouts), PASS(lower_volumes), PASS(split_volumes), PASS(merge_siblings), PASS(join_slices), PASS(fuse_movements), PASS(fuse_pads), PASS(fuse_shuffles), PASS(remove_no_ops),
        PASS(remove_dead_layers)}},
      {"After pointwise conversion", {PASS(convert_to_pointwise)}},
      {"After Q/DQ epilogue",
       {PASS(make_unsigned), PASS(lower_codes), PASS(fuse_pointwise), PASS(fuse_epilogues), PASS(fold_requantization), PASS(remove_dead_layers)},
       "QDQ graph optimizer quantization epilogue pass"},
      {"After dupe layer removal", {PASS(remove_duplicates), PASS(fuse_shuffles)}},
      {"After final dead-layer removal", {PASS(remove_dead_layers), PASS(bound_codes)}},
  };
  // clang-format on
  return kStages;
}

constexpr int kMostRounds = 100;

// For developers: CAMSHAFT_SKIP_PASSES="merge_siblings,fuse_softmax" leaves these out.
bool is_skipped(const Pass& pass) {
  static const char* const kSkipped = std::getenv("CAMSHAFT_SKIP_PASSES");
  return kSkipped && ("," + std::string(kSkipped) + ",").find("," + std::string(pass.name) + ",") !=
                         std::string::npos;
}

Status check(const Graph& graph, const char* stage) {
#ifndef NDEBUG
  return verify(graph).with_context(stage);
#else
  (void)graph, (void)stage;
  return ok_status();
#endif
}

Status run_stages(Graph& graph, PassRecord& record, bool is_main) {
  const Pass before_bodies = PASS(hoist_loop_invariants);
  if (!is_skipped(before_bodies)) before_bodies.run(graph, &record.rewrites);
  CAMSHAFT_TRY(check(graph, before_bodies.name));
  for (const auto& layer : graph.layers())
    for (const auto& body : layer->bodies) CAMSHAFT_TRY(run_stages(*body, record, false));
  for (const Stage& stage : stages()) {
    if (is_main && *stage.heading) log(Severity::kVerbose, "{}", stage.heading);
    for (int round = 0, edits = 1; edits > 0 && round < kMostRounds; ++round) {
      edits = 0;
      for (const Pass& pass : stage.passes)
        if (!is_skipped(pass)) edits += pass.run(graph, &record.rewrites);
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
  log(Severity::kVerbose, "Applying generic optimizations to the graph for inference.");
  log(Severity::kVerbose, "Original: {} layers", graph.layers().size());
  record.layer_counts.emplace_back("Original", static_cast<int>(graph.layers().size()));
  CAMSHAFT_TRY(run_stages(graph, record, true));
  warn_of_float_products(record.rewrites);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  log(Severity::kVerbose, "Graph optimization time: {:.6g} seconds.", seconds.count());
  return ok_status();
}

}  // namespace camshaft::passes
