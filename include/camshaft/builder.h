// SPDX-License-Identifier: Apache-2.0
// From an ONNX model to an engine. In libcamshaft only: libcamshaft-rt loads and runs engines.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "camshaft/engine.h"
#include "camshaft/types.h"

namespace camshaft {

struct ModelInfo {
  std::string graph_name;
  int64_t ir_version = 0, opset = 0, model_version = 0;
  std::string producer_name, producer_version, domain, doc_string;
  int node_count = 0;
};

// An imported network, before optimization. Movable; build() consumes it.
class CAMSHAFT_API Model {
 public:
  // kInvalidModel: malformed; kUnsupported: every node that cannot be imported, each with its
  // reason; kIo.
  static Result<Model> from_file(const std::filesystem::path& onnx_file);
  // `external_data` is the folder of weight files stored beside the model; empty: such models are
  // refused.
  static Result<Model> from_memory(std::span<const std::byte> onnx_bytes,
                                   const std::filesystem::path& external_data = {});
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;
  ~Model();

  const std::vector<TensorInfo>& inputs() const;
  const std::vector<TensorInfo>& outputs() const;
  const ModelInfo& info() const;

  // For the library itself.
  struct Impl;
  explicit Model(std::unique_ptr<Impl> impl);
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

// How layer precisions and output types bind: not at all, with a warning, or by failing.
enum class PrecisionConstraints : uint8_t { kNone, kPrefer, kObey };

// The type asked of a layer: kFloat, kBFloat16, kHalf or kInt8. `layer` is the name of a layer or
// ONNX node and may hold one '*'.
struct LayerTypeRequest {
  std::string layer;
  DataType type = DataType::kFloat;
};

// Zeros in constant weights, 2:4: of every four neighbouring input channels at most two weights of
// a filter are not zero. kEnable: sparse tactics are timed beside dense ones where the weights have
// the pattern. kForce: first zeroes the last two of every four, whatever they hold, as trtexec
// does: for timing only, the network computes something else then (a warning).
enum class Sparsity : uint8_t { kDisable, kEnable, kForce };

struct BuildOptions {
  // One entry per optimization profile. Empty: the model's own shapes, with every dynamic extent
  // taken as 1 (and a warning).
  std::vector<OptimizationProfile> profiles;
  int threads = 0;  // tactics are timed with this many; 0: CAMSHAFT_NUM_THREADS, else all this
                    // process may use
  int optimization_level = 3;  // 0: first legal tactic, untimed … 5: every tactic is timed
  int avg_timing = 8;          // runs averaged per tactic
  int max_tactics = -1;        // timed candidates per layer; -1: as the level says
  std::filesystem::path
      timing_cache;  // read before, merged and written after; empty: in this process only
  bool use_timing_cache = true;
  bool error_on_timing_cache_miss = false;
  // Networks with Q/DQ compute in int8 as they say. With `int8`, others get Q/DQ with the scales of
  // TensorRT's calibration cache; without one made-up scales, good for timing only (a warning).
  bool int8 = false;
  std::filesystem::path calibration_cache;
  // Networks with Q/DQ compute as if they had none: for a look at what 8 bits cost and gain.
  bool without_quantization = false;
  // Float layers may compute in 16-bit types and float activations be stored as them, where that is
  // faster here. bfloat16 keeps 8 significant bits, half 11 (and only values up to 65504).
  bool bf16 = false, fp16 = false;
  Sparsity sparsity = Sparsity::kDisable;
  // Networks of 16-bit floats compute in float and round only where a tensor leaves the network or
  // reaches a layer that computes in 16 bits. With this every layer rounds as the types say.
  bool strongly_typed = false;
  std::vector<LayerTypeRequest> layer_precisions, layer_output_types;
  PrecisionConstraints precision_constraints = PrecisionConstraints::kNone;
  // Keep every constant as the model has it beside what is packed from it: the engine is larger,
  // and runs where only weaker instruction sets are, too.
  bool portable = false;
  // For a look at the optimizer: the text form of the graph behind each of these passes (by name,
  // or "all" of those that change something) goes to files in this folder, or, "-", to standard
  // output.
  std::vector<std::string> dump_after;
  std::filesystem::path dump_to = "passes";
  Verbosity verbosity = Verbosity::kDetailed;
  // Phase, steps done, steps in all; called from the building thread. Returning false cancels the
  // build (kCancelled).
  std::function<bool(const char* phase, int done, int total)> progress;
};

struct BuildStatistics {
  double total_seconds = 0;
  double graph_seconds = 0;   // optimizing the graph
  double timing_seconds = 0;  // timing tactics and reformats
  int timed_tactics = 0;
  int cache_hits = 0;    // times from the timing cache's file
  int reused_times = 0;  // times taken over from alike layers of the same build
};

// Optimizes, tunes on this machine and packs. Deterministic given a complete timing cache.
CAMSHAFT_API Result<Engine> build(Model model, const BuildOptions& options = {},
                                  BuildStatistics* statistics = nullptr);

}  // namespace camshaft
