// SPDX-License-Identifier: Apache-2.0
// From an imported graph to an engine: passes, tactics and formats by time, weights packed, plan
// written.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "ir/graph.h"

namespace camshaft::tuner {

// What to do about zeros in weights: nothing, time sparse tactics where the weights have a pattern,
// or first give them one.
enum class Sparsity : uint8_t { kDisable, kEnable, kForce };

struct BuildOptions {
  std::vector<engine::Profile>
      profiles;     // empty: one from the model's static shapes (dynamic extents 1, with a warning)
  int threads = 0;  // 0: default_num_threads()
  int optimization_level = 3;     // 0: first legal tactic, untimed … 5: time everything
  int avg_timing = 8;             // runs averaged per tactic
  int max_tactics = -1;           // timed candidates per layer, -1: by level
  std::string timing_cache_file;  // "" : in-process only
  bool use_timing_cache = true;
  bool error_on_timing_cache_miss = false;
  // 16-bit types that float layers may compute in and float activations may be stored as, where
  // that is faster; empty: floats stay floats.
  std::vector<ir::DataType> reduced_types;
  Sparsity sparsity = Sparsity::kDisable;
  bool without_quantization = false;  // Q/DQ of the model are left out: passes/drop_quantization.h
  bool strongly_typed = false;  // layers of 16-bit floats round what they make as their types say
  // What a layer has to compute in and to write: kFloat, kBFloat16, kHalf; kUndefined: no matter.
  struct LayerTypes {
    ir::DataType precision = ir::DataType::kUndefined, output = ir::DataType::kUndefined;
  };
  std::function<LayerTypes(const ir::Layer&)> layer_types;
  bool portable =
      false;  // keep all constants as the model has them, so that lesser machines can run it, too
  // A product of 8-bit codes may compute in float, its result rounded as the Q/DQ say, where that
  // is faster or there is no 8-bit kernel.
  bool quantized_in_float = true;
  // For tests: nonzero replaces all times by random numbers of this seed, so that odd tactics,
  // formats and views get their turn.
  uint64_t random_choices = 0;
  // For tests, beside random_choices: every layer's ways to run it (tactics, each with its formats)
  // are counted, and it has to take the one of this number, modulo how many there are; -1: free.
  int forced_way = -1;
  // Passes behind which the graph's text form is written, and the folder: passes/dump.h.
  std::vector<std::string> dump_after;
  std::string dump_to;
  engine::Verbosity verbosity = engine::Verbosity::kDetailed;
  // Phase, done, total, for a progress line; called from the building thread. Returning false
  // cancels the build.
  std::function<bool(const char* phase, int done, int total)> progress;
};

struct BuildStatistics {
  double total_seconds = 0, graph_seconds = 0, timing_seconds = 0;
  // Times measured, found in the timing cache's file, taken over from alike layers of this build.
  int timed_tactics = 0, cache_hits = 0, reused_times = 0;
  int most_ways = 0;  // to run a layer: how many values of forced_way differ
};

// Consumes the graph.
Result<GrowingBytes> build(std::unique_ptr<ir::Graph> graph, const BuildOptions& options,
                           BuildStatistics* statistics = nullptr);

}  // namespace camshaft::tuner
