// SPDX-License-Identifier: Apache-2.0
// Chooses a tactic and formats for every layer: candidates from the tables, times from the clock or
// the cache, and the minimum over the whole graph, reformats included.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <unordered_map>

#include "tuner/builder.h"
#include "tuner/format_choice.h"
#include "tuner/plan_maker.h"
#include "tuner/rounding.h"
#include "tuner/timing.h"
#include "tuner/timing_cache.h"

namespace camshaft::tuner {

struct SelectionContext {
  const BuildOptions* options = nullptr;
  int threads = 1;
  WeightsFrom weights = WeightsFrom::kL2;
  const runtime::Bindings* opt = nullptr;                // of the first profile
  const runtime::Bindings* other_guess = nullptr;        // `opt` with kOtherExtentEstimate
  std::vector<const runtime::Bindings*> more_opts = {};  // of the other profiles, where they differ
  std::vector<const runtime::Bindings*>
      others;  // other points of the profiles: a tactic must accept them all
  TimingCache* cache = nullptr;
  Roundings* roundings = nullptr;
  BuildStatistics* statistics = nullptr;
  std::function<bool(int done, int total)> progress;  // false: cancel
};

// A reference kernel this short is not worth waking anybody for.
inline constexpr double kSharedReferenceUs = 100;

// What a layer's float activations are stored as; kUndefined: floats.
struct StorageTypes {
  ir::DataType input = ir::DataType::kUndefined, output = ir::DataType::kUndefined;
};

class Selector {
 public:
  explicit Selector(const SelectionContext& context);
  ~Selector();

  // Adds the choices of a graph and of the bodies inside it.
  Status select(ir::Graph& graph, Choices& choices);

  // The fastest way to run a Reformat layer; the log says of which tensor.
  Kernel reformat_kernel(const kernels::Problem& problem, std::string_view tensor = "<out>");

  // Microseconds with all data tensors linear, and all channel last; kNoKernel: only the reference
  // kernel can.
  using FormatTimes = std::array<double, 2>;
  static constexpr double kNoKernel = 1e12;
  static double least(const FormatTimes& us) { return std::min(us[0], us[1]); }
  FormatTimes predicted_us(const ir::Layer& layer) const;
  Result<FormatTimes> fastest_us(const ir::Layer& layer);  // timed, as select() will
  // A line in the layer's list of candidates.
  void note(const ir::Layer& layer, engine::Candidate candidate);

 private:
  Status list_options(const ir::Layer& layer, LayerOptions& list);
  Status list_tactics(const ir::Layer& layer, LayerOptions& list);
  // Measured once per weights and tactic.
  std::string refusal_of_rounding(const kernels::Problem& problem, const kernels::Tactic& tactic);
  std::string refusal_anywhere(const ir::Layer& layer, const kernels::Tactic& tactic,
                               const Formats& formats) const;
  // Of a problem with guessed extents: why the tactic must not be chosen for them.
  std::string refusal_of_guess(const ir::Layer& layer, const kernels::Tactic& tactic,
                               const Formats& formats, const kernels::Problem& problem) const;
  std::string cache_key(const kernels::Problem& problem, const kernels::Tactic& tactic) const;
  // Times from the cache, else measured; `us` holds the predictions on entry. Where the runtime
  // will cut a large batch, times of a part (measure_part) times the number of parts.
  Status measure(const ir::Layer& layer, const kernels::Problem& problem,
                 const std::vector<const kernels::Tactic*>& tactics, std::vector<double>& us);
  void count_found(const std::string& key);  // whose time was known already
  Status measure_part(const ir::Layer& layer, const kernels::Problem& problem,
                      const std::vector<const kernels::Tactic*>& tactics, std::vector<double>& us);
  // Times tactics again, after pauses, as long as the last takes longer than `enough_us`: another
  // program may have had the processors. `us` keeps the least of each.
  void time_again(const kernels::Problem& problem,
                  const std::vector<const kernels::Tactic*>& tactics, double enough_us,
                  std::vector<double>& us);
  // Writes a time into the cache; gives what it holds now.
  double remember(const kernels::Problem& problem, const kernels::Tactic& tactic, double us);
  // Where a sparse tactic seems to win, it and the best dense one are timed once more, beside each
  // other: another program may have disturbed only one of them.
  void confirm_sparse(const kernels::Problem& problem,
                      const std::vector<const kernels::Tactic*>& tactics, std::vector<double>& us);
  // Times at the opt shapes of all profiles: as slow, on the average, as a tactic is beside the
  // best one of each profile, in microseconds of the first. `scales` keeps what that takes.
  Status measure_profiles(const ir::Layer& layer, const Formats& formats, int threads,
                          const std::vector<const kernels::Tactic*>& tactics,
                          std::vector<double>& us, std::vector<double>& scales);
  // The fastest of tactics already timed on all threads, on fewer where that is as fast; adds
  // what it times to `candidates`. `formats` null: timed at `problem` only.
  Status choose_threads(const ir::Layer& layer, const kernels::Problem& problem,
                        const Formats* formats, std::vector<double>& scales,
                        const std::vector<const kernels::Tactic*>& tactics, std::vector<double>& us,
                        Option& option, std::vector<engine::Candidate>* candidates);
  // Fewer threads for that tactic than all, where they are as fast.
  Status choose_team(const ir::Layer& layer, const kernels::Problem& problem,
                     const Formats* formats, std::vector<double>& scales, Option& option,
                     std::vector<engine::Candidate>* candidates);
  // Storage types to try a layer with, the graph's own first; arithmetic it may use.
  std::vector<StorageTypes> storages_of(const ir::Layer& layer) const;
  bool may_compute(const ir::Layer& layer, const kernels::Tactic& tactic) const;
  BuildOptions::LayerTypes wanted_types(const ir::Layer& layer) const;
  void keep_wanted(const ir::Layer& layer, LayerOptions& list) const;
  void keep_forced(LayerOptions& list);
  double reformat_us(const ir::Tensor& tensor, const Formats& formats);
  // Of the reference kernel: timed where the shapes are known, else predicted.
  double reference_us(const ir::Layer& layer, const Formats& formats);
  void choose(const ir::Graph& graph, std::vector<LayerOptions>& options, Choices& choices);
  size_t max_timed() const;

  SelectionContext context_;
  Timer timer_;
  std::vector<ir::DataType> reduced_types_;  // of the graph in work
  int depth_ = 0;                            // of the body in work
  int again_ms_ = 1500;                      // what time_again() may still spend
  std::unordered_map<std::string, Option> reformats_;
  std::unordered_map<const ir::Layer*, std::vector<engine::Candidate>> notes_;
};

// A Shuffle whose output in `formats.output` is the same bytes in the same order as its input in
// `formats.input`.
bool moves_no_bytes(const ir::Layer& shuffle, const Formats& formats,
                    const ir::SymbolTable& symbols);

}  // namespace camshaft::tuner
