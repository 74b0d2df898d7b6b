// SPDX-License-Identifier: Apache-2.0
// The order of the passes. A stage repeats its passes until none changes anything, then counts the
// layers.
#include "passes/pipeline.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <sstream>
#include <string>

#include "base/log.h"
#include "ir/verify_shapes.h"
#include "passes/pass_table.h"

namespace camshaft::passes {

using namespace ir;

namespace {

struct Stage {
  const char* count_label;
  std::vector<PassFunction> passes;
  const char* heading = "";  // what TensorRT's log says before it
};

// The order. Where a pass makes what another one looks for, the other stands behind it; passes that
// clean up (constants, shuffles, dead layers) stand at the end of a stage.
const std::vector<Stage>& stages() {
  // clang-format off
  static const std::vector<Stage> kStages = {
      {"After dead-layer removal",
       {dead_layer_removal,
        widen_floats,  // the patterns below are those of float
        arithmetic_weights_fusion}},  // codes must not become float first

      // Q/DQ are facts of tensors before anything is folded: a weight must not become float first.
      {"After Q/DQ initializers",
       {constant_folding, no_op_removal, const_qdq_initializers_fusion, const_weights_quantize_fusion,
        wide_quantize_fusion, dynamic_quantization_fusion, dead_layer_removal},
       "QDQ graph optimizer - constant folding of Q/DQ initializers"},

      {"After constant and shuffle fusions",
       {constant_folding, const_weights_quantize_fusion,
        low_bit_weights_fusion,   // before the weights' DQ is folded to floats
        const_dequantize_fusion, const_shuffle_fusion, constant_attributes, no_op_removal,
        scatter_transposition,  // before the transposes meet others
        shuffle_shuffle_fusion, movement_fusion, slice_pad_fusion, scatter_elimination, repeated_indices, loop_batching, look_up_fusion, expand_fusion, duplicate_layer_removal,
        dead_layer_removal}},

      // Before Q/DQ move: a transpose between Q/DQ and its product would stop them.
      {"After transpose motion",
       {scalar_product_to_eltwise, vector_product_turn, transpose_motion, constant_folding, const_shuffle_fusion, shuffle_shuffle_fusion, duplicate_layer_removal,
        dead_layer_removal}},

      // Q toward what makes its floats, DQ toward what reads them, until they meet products.
      {"After Q/DQ motion",
       {horizontal_merge_q_nodes,  // one Q moves where two readers would hold it
        split_q_across_preceding_fan_in, vanilla_swap_with_following_q, dequantize_quantize_fusion, dequantize_motion,
        const_weights_quantize_fusion, const_shuffle_fusion, shuffle_shuffle_fusion, constant_folding, dead_layer_removal},
       "QDQ graph optimizer forward pass - DQ motions and fusions"},

      {"After quantized fusions", {quantize_double_input_nodes, q_conv_scale_fusion, dead_layer_removal}},

      // Only now it is known which dequantized constants no product took.
      {"After dangling Q/DQ folding", {dangling_const_dequantize_fusion, constant_folding, const_shuffle_fusion},
       "QDQ graph optimizer constant fold dangling QDQ pass"},

      // What goes into weights, while layers around them are still those of the model.
      {"After scale fusion",
       {deform_conv_split, local_response_split, lp_pool_split, short_time_spectra_fusion, mean_fusion, padding_fusion, crop_fusion, space_to_depth_conv_fusion, one_hot_fusion, weighted_sum_fusion, matmul_operand_fusion,
        chosen_product_fusion,  // transposes of gathered matrices are flags by now
        expand_fusion, conv_scale_fusion,
        conv_branch_fusion,  // branches have their normalizations in their weights
        shuffle_shuffle_fusion,
        zero_channel_removal,  // with the weights that will be multiplied
        dead_layer_removal}},

      // Before pointwise layers are fused: normalizations and softmax are found in single ones.
      {"After pattern fusions",
       {squeeze_motion,  // brings spellings that drop dimensions to one form
        shuffle_shuffle_fusion, rotation_fusion, normalization_fusion, group_norm_fusion, softmax_fusion,
        reduce_to_pooling,
        dead_layer_removal}},

      // What is left of Q/DQ becomes pointwise, so that the next stage fuses it like the rest.
      {"After Q/DQ conversion",
       {quantize_pooling,  // needs the DQ as a layer
        qdq_to_copy, dead_layer_removal},
       "QDQ optimization pass"},

      {"After vertical fusions",
       {scale_activation_fusion, pointwise_fusion, pointwise_motion, const_shuffle_fusion, shuffle_shuffle_fusion,
        epilogue_fusion,     // takes whole chains: behind pointwise_fusion
        requantize_fusion, dead_layer_removal}},

      // Behind epilogues: scores have theirs (masks, scales), and siblings are equal with theirs.
      {"After tensor merging",
       {attention_fusion, attention_layout_fusion, attention_window_fusion, volume_lowering, volume_split, horizontal_merge, slice_join,
        movement_fusion, slice_pad_fusion, shuffle_shuffle_fusion, no_op_removal, dead_layer_removal}},

      {"After pointwise conversion", {eltwise_to_pwn}},

      // All programs stand, so it can be told which codes they make.
      {"After Q/DQ epilogue",
       {signed_to_unsigned, codes_from_zero, pointwise_fusion, epilogue_fusion, requantize_fusion, dead_layer_removal},
       "QDQ graph optimizer quantization epilogue pass"},

      // Its products take queries and weights as unsigned codes: behind what shifts them.
      {"After quantized attention",
       {quantized_attention_fusion, attention_layout_fusion, shuffle_shuffle_fusion, no_op_removal, dead_layer_removal}},

      {"After dupe layer removal", {duplicate_layer_removal, shuffle_shuffle_fusion}},

      {"After final dead-layer removal", {dead_layer_removal, code_bounds}},
  };
  // clang-format on
  return kStages;
}

constexpr size_t kMostRounds = 100;  // of a stage, and one for each layer

// For developers: CAMSHAFT_SKIP_PASSES="HorizontalMerge,SoftMaxFusion" leaves these out.
std::vector<const Pass*> read_skipped() {
  std::vector<const Pass*> skipped;
  const char* names = std::getenv("CAMSHAFT_SKIP_PASSES");
  std::istringstream list(names ? names : "");
  for (std::string name; std::getline(list, name, ',');) {
    const Result<const Pass*> pass = find_pass(name);
    if (pass.ok())
      skipped.push_back(*pass);
    else
      log(Severity::kWarning, "CAMSHAFT_SKIP_PASSES: {}", pass.status().message());
  }
  return skipped;
}

bool is_skipped(const Pass& pass) {
  static const std::vector<const Pass*> kSkipped = read_skipped();
  return std::find(kSkipped.begin(), kSkipped.end(), &pass) != kSkipped.end();
}

// Whether the graph is verified after every pass that changed it and at the end of every stage: in
// debug builds, and where CAMSHAFT_CHECK_GRAPHS says so, as tests do; without it (0) a sanitized
// fuzz_graphs takes three quarters of the time.
bool is_checked() {
#ifdef NDEBUG
  constexpr bool kDefault = false;
#else
  constexpr bool kDefault = true;
#endif
  static const char* const wanted = std::getenv("CAMSHAFT_CHECK_GRAPHS");
  return wanted ? std::string_view(wanted) != "0" : kDefault;
}

Status check(const Graph& graph, bool is_main, std::string_view after) {
  if (!is_checked()) return ok_status();
  Status status = verify(graph);
  if (status.ok()) status = verify_shapes(graph, !is_main);
  return std::move(status).with_context("after " + std::string(after));
}

class Pipeline {
 public:
  Pipeline(PassRecord& record, const PassObserver& observer)
      : record_(record), observer_(observer) {}

  Status run(Graph& graph, bool is_main) {
    // Before the passes of the bodies: what is captured instead of carried can be folded in them.
    CAMSHAFT_TRY(run_pass(graph, pass_of(loop_invariants), is_main).status());
    CAMSHAFT_TRY(run_pass(graph, pass_of(loop_hoisting), is_main).status());
    for (const auto& layer : graph.layers())
      for (const auto& body : layer->bodies) CAMSHAFT_TRY(run(*body, false));
    for (const Stage& stage : stages()) CAMSHAFT_TRY(run_stage(graph, stage, is_main));
    return ok_status();
  }

 private:
  Result<int> run_pass(Graph& graph, const Pass& pass, bool is_main) {
    if (is_skipped(pass)) return 0;
    const int edits = pass.run(graph, &record_.rewrites);
    if (edits > 0) CAMSHAFT_TRY(check(graph, is_main, pass.name));
    if (observer_) CAMSHAFT_TRY(observer_(pass, edits, graph));
    return edits;
  }

  Status run_stage(Graph& graph, const Stage& stage, bool is_main) {
    if (is_main && *stage.heading) log(Severity::kVerbose, "{}", stage.heading);
    // A round turns one region between transposes over: a deep network has hundreds.
    const size_t most_rounds = kMostRounds + graph.layers().size();
    int edits = 1;
    for (size_t round = 0; edits > 0 && round < most_rounds; ++round) {
      edits = 0;
      for (const PassFunction function : stage.passes) {
        CAMSHAFT_ASSIGN(const int made, run_pass(graph, pass_of(function), is_main));
        edits += made;
      }
    }
    if (edits > 0 && is_checked())
      return make_error(ErrorCode::kInternal, "{}: passes still undo each other after {} rounds",
                        stage.count_label, most_rounds);
    CAMSHAFT_TRY(check(graph, is_main, stage.count_label));  // passes that keep quiet about an edit
    if (!is_main) return ok_status();
    const int count = static_cast<int>(graph.layers().size());
    record_.layer_counts.emplace_back(stage.count_label, count);
    log(Severity::kVerbose, "{}: {} layers", stage.count_label, count);
    return ok_status();
  }

  PassRecord& record_;
  const PassObserver& observer_;
};

}  // namespace

Status optimize(Graph& graph, PassRecord& record, const PassObserver& observer) {
  const auto start = std::chrono::steady_clock::now();
  log(Severity::kVerbose, "Applying generic optimizations to the graph for inference.");
  log(Severity::kVerbose, "Original: {} layers", graph.layers().size());
  record.layer_counts.emplace_back("Original", static_cast<int>(graph.layers().size()));
  CAMSHAFT_TRY(Pipeline(record, observer).run(graph, true));
  warn_of_float_products(record.rewrites);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  log(Severity::kVerbose, "Graph optimization time: {:.6g} seconds.", seconds.count());
  return ok_status();
}

}  // namespace camshaft::passes
