// SPDX-License-Identifier: Apache-2.0
#include "tuner/builder.h"

#include <chrono>

#include "base/log.h"
#include "camshaft/version.h"
#include "kernels/probe.h"
#include "passes/drop_quantization.h"
#include "passes/dump.h"
#include "passes/passes.h"
#include "passes/pipeline.h"
#include "passes/sparsity_force.h"
#include "tuner/late_shapes.h"
#include "tuner/merging.h"
#include "tuner/plan_maker.h"
#include "tuner/precision.h"
#include "tuner/profiles.h"
#include "tuner/refine_shapes.h"
#include "tuner/regions.h"
#include "tuner/selection.h"
#include "tuner/sparsity_report.h"
#include "tuner/specialize.h"

namespace camshaft::tuner {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Measured once per process.
double machine_fma_peak() {
  static const double peak = kernels::measure_fma_peak(active_isa());
  return peak;
}
double machine_byte_peak() {
  static const double peak = kernels::measure_byte_peak(active_isa());
  return peak;
}
double machine_bf16_peak() {
  static const double peak = kernels::measure_bf16_peak(active_isa());
  return peak;
}
double machine_read_bandwidth() {
  static const double rate = kernels::measure_read_bandwidth();
  return rate;
}

// Of a graph and the bodies inside it.
size_t constant_bytes(const ir::Graph& graph) {
  size_t bytes = 0;
  for (const auto& tensor : graph.tensors())
    if (tensor->is_constant() && !tensor->consumers.empty()) bytes += tensor->constant->view.size();
  for (const auto& layer : graph.layers())
    for (const auto& body : layer->bodies) bytes += constant_bytes(*body);
  return bytes;
}

// One build, step by step.
class Build {
 public:
  Build(std::unique_ptr<ir::Graph> graph, const BuildOptions& options, BuildStatistics& statistics)
      : graph_(std::move(graph)),
        options_(options),
        statistics_(statistics),
        cache_(cpu_fingerprint()) {}

  Result<GrowingBytes> run() {
    const Clock::time_point start = Clock::now();
    describe();
    CAMSHAFT_TRY(optimize());
    statistics_.graph_seconds = seconds_since(start);
    log(Severity::kVerbose, "Graph construction and optimization completed in {:.6g} seconds.",
        statistics_.graph_seconds);
    load_cache();
    const Clock::time_point timing_start = Clock::now();
    CAMSHAFT_TRY(choose_and_write());
    measure_machine();
    statistics_.timing_seconds = seconds_since(timing_start);
    log(Severity::kInfo, "Formats and tactics selection completed in {:.6g} seconds.",
        statistics_.timing_seconds);
    log(Severity::kVerbose, "After reformat layers: {} layers", parts_.plan.steps.size());
    save_cache();
    const size_t inputs = parts_.plan.inputs.size(), outputs = parts_.plan.outputs.size();
    const size_t weights = parts_.weights.bytes();
    GrowingBytes file = engine::serialize(std::move(parts_));
    statistics_.total_seconds = seconds_since(start);
    log(Severity::kInfo, "Detected {} inputs and {} output network tensors.", inputs, outputs);
    log(Severity::kVerbose, "Timing cache: {} hits, {} tactics timed, {} times of alike layers",
        statistics_.cache_hits, statistics_.timed_tactics, statistics_.reused_times);
    log(Severity::kVerbose, "Weights: {} bytes, engine: {} bytes", weights, file.size());
    log(Severity::kInfo, "Engine generation completed in {:.6g} seconds.",
        statistics_.total_seconds);
    return file;
  }

 private:
  void describe() {
    parts_.verbosity = options_.verbosity;
    parts_.record.model_name = graph_->name();
    parts_.record.builder_version = CAMSHAFT_VERSION;
    parts_.record.cpu_model = cpu_info().model;
    parts_.record.cpu_fingerprint = cpu_fingerprint();
    parts_.record.threads = options_.threads > 0 ? options_.threads : default_num_threads();
  }

  Status report(const char* phase, int done, int total) const {
    if (options_.progress && !options_.progress(phase, done, total))
      return make_error(ErrorCode::kCancelled, "the build was cancelled");
    return ok_status();
  }

  Status run_passes(passes::PassRecord& record) {
    if (options_.dump_after.empty()) return passes::optimize(*graph_, record);
    CAMSHAFT_ASSIGN(passes::GraphDump dump,
                    passes::GraphDump::create(options_.dump_after, options_.dump_to));
    CAMSHAFT_TRY(dump.original(*graph_));
    return passes::optimize(*graph_, record,
                            [&](const passes::Pass& pass, int edits, const ir::Graph& graph) {
                              return dump.after(pass, edits, graph);
                            });
  }

  Status optimize() {
    CAMSHAFT_TRY(report("Optimizing the graph", 0, 1));
    if (const int resolved = resolve_extents(*graph_))
      log(Severity::kVerbose, "{} extents follow from the weights they meet", resolved);
    CAMSHAFT_ASSIGN(parts_.profiles, complete_profiles(*graph_, options_.profiles));
    if (const int fixed = specialize(*graph_, parts_.profiles))
      log(Severity::kVerbose,
          "{} dynamic dimensions have one value in all profiles and become static", fixed);
    passes::PassRecord record;
    if (options_.without_quantization) passes::drop_quantization(*graph_);
    if (options_.sparsity == Sparsity::kForce) passes::sparsity_force(*graph_, &record.rewrites);
    if (options_.strongly_typed) passes::widen_floats_strictly(*graph_, &record.rewrites);
    refine_shapes(*graph_, &record.rewrites);
    CAMSHAFT_TRY(run_passes(record));
    parts_.record.rewrites = std::move(record.rewrites);
    parts_.record.layer_counts = std::move(record.layer_counts);
    for (ir::RewriteRecord& late : late_shapes(*graph_)) {
      log(Severity::kVerbose, "{}: {}", late.layers[0], late.text);
      parts_.record.rewrites.push_back(std::move(late));
    }
    return report("Optimizing the graph", 1, 1);
  }

  // Symbol values at the opt shapes, and at every other point of the profiles if anything is
  // dynamic.
  Status bind_points() {
    CAMSHAFT_ASSIGN(opt_, bindings_at(*graph_, parts_.profiles[0], ProfilePoint::kOpt));
    CAMSHAFT_ASSIGN(other_guess_, bindings_at(*graph_, parts_.profiles[0], ProfilePoint::kOpt,
                                              kOtherExtentEstimate));
    if (graph_->symbols().size() == 0) return ok_status();
    for (size_t p = 0; p < parts_.profiles.size(); ++p)
      for (const ProfilePoint point :
           {ProfilePoint::kMin, ProfilePoint::kOpt, ProfilePoint::kMax}) {
        CAMSHAFT_ASSIGN(runtime::Bindings bindings,
                        bindings_at(*graph_, parts_.profiles[p], point));
        CAMSHAFT_TRY(check_layers(*graph_, bindings, p, point));
        if (bindings.values == opt_.values) continue;
        if (point == ProfilePoint::kOpt) opt_points_.push_back(points_.size());
        points_.push_back(std::move(bindings));
      }
    return ok_status();
  }

  Status choose_and_write() {
    CAMSHAFT_TRY(bind_points());
    SelectionContext selection;
    selection.options = &options_;
    selection.threads = parts_.record.threads;
    selection.weights = weights_from(constant_bytes(*graph_));
    selection.opt = &opt_;
    selection.other_guess = &other_guess_;
    selection.cache = &cache_;
    selection.roundings = &roundings_;
    selection.statistics = &statistics_;
    selection.progress = [this](int done, int total) {
      return report("Timing tactics", done, total).ok();
    };
    for (const runtime::Bindings& point : points_) selection.others.push_back(&point);
    for (const size_t point : opt_points_) selection.more_opts.push_back(&points_[point]);
    Selector selector(selection);
    if (options_.optimization_level > 0 && options_.quantized_in_float)
      CAMSHAFT_TRY(choose_precision(*graph_, selector, options_, &parts_.record.rewrites));
    if (options_.optimization_level > 0)
      CAMSHAFT_TRY(choose_merging(*graph_, selector, options_, &parts_.record.rewrites));
    Choices choices;
    CAMSHAFT_TRY(selector.select(*graph_, choices));

    PlanContext context;
    context.choices = &choices;
    context.bindings = &opt_;
    context.weights = &parts_.weights;
    context.roundings = &roundings_;
    context.record = &parts_.record.rewrites;
    context.portable = options_.portable;
    context.threads = parts_.record.threads;
    context.reformat_kernel = [&](const kernels::Problem& problem) {
      return selector.reformat_kernel(problem);
    };
    CAMSHAFT_ASSIGN(parts_.plan, make_plan(*graph_, context));
    parts_.plan.regions = find_regions(parts_.plan);
    parts_.record.rewrites = ir::told_once(std::move(parts_.record.rewrites));
    if (options_.sparsity != Sparsity::kDisable) log_sparsity(parts_.plan);
    return report("Timing tactics", 1, 1);
  }

  // The machine's own limits, for "percent of peak"; from the cache where it has them, so that a
  // build can be repeated.
  void measure_machine() {
    if (options_.optimization_level == 0 || options_.random_choices != 0) return;
    const auto limit = [this](const char* key, auto measure) {
      if (!cache_.find(key)) {
        cache_.insert(key, measure());
        measured_machine_ = true;
      }
      return *cache_.find(key);
    };
    parts_.record.peak_gmacs = limit("fma peak\tGMAC/s", machine_fma_peak);
    parts_.record.byte_peak_gmacs = limit("byte peak\tGMAC/s", machine_byte_peak);
    if (!options_.reduced_types.empty())
      parts_.record.bf16_peak_gmacs = limit("bf16 peak\tGMAC/s", machine_bf16_peak);
    parts_.record.read_gbytes = limit("read bandwidth\tGB/s", machine_read_bandwidth);
  }

  bool uses_cache_file() const {
    return options_.use_timing_cache && !options_.timing_cache_file.empty();
  }

  // Trouble with the cache costs time, never the build.
  void load_cache() {
    if (!uses_cache_file()) return;
    if (const Status status = cache_.load(options_.timing_cache_file); !status.ok())
      log(Severity::kWarning, "{}", status.message());
  }
  void save_cache() {
    if (!uses_cache_file() || (statistics_.timed_tactics == 0 && !measured_machine_)) return;
    if (const Status status = cache_.save(options_.timing_cache_file); !status.ok())
      log(Severity::kWarning, "{}", status.message());
  }

  std::unique_ptr<ir::Graph> graph_;
  const BuildOptions& options_;
  BuildStatistics& statistics_;
  engine::EngineParts parts_;
  TimingCache cache_;
  Roundings roundings_;
  runtime::Bindings opt_, other_guess_;
  std::vector<runtime::Bindings> points_;
  std::vector<size_t> opt_points_;  // those that are the opt shapes of further profiles
  bool measured_machine_ = false;
};

}  // namespace

Result<GrowingBytes> build(std::unique_ptr<ir::Graph> graph, const BuildOptions& options,
                           BuildStatistics* statistics) {
  BuildStatistics unused;
  BuildStatistics& kept = statistics ? *statistics : unused;
  kept = {};
  return Build(std::move(graph), options, kept).run();
}

}  // namespace camshaft::tuner
