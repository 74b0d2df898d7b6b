// SPDX-License-Identifier: Apache-2.0
#include "tuner/builder.h"

#include <chrono>

#include "base/log.h"
#include "camshaft/version.h"
#include "passes/pipeline.h"
#include "tuner/plan_maker.h"
#include "tuner/profiles.h"
#include "tuner/selection.h"

namespace camshaft::tuner {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

bool report(const BuildOptions& options, const char* phase, int done, int total) {
  return !options.progress || options.progress(phase, done, total);
}

// Symbol values at every other point of the profiles, if anything is dynamic.
Status add_points(const ir::Graph& graph, const std::vector<engine::Profile>& profiles,
                  std::vector<runtime::Bindings>& points) {
  if (graph.symbols().size() == 0) return ok_status();
  for (size_t p = 0; p < profiles.size(); ++p) {
    for (const ProfilePoint point : {ProfilePoint::kMin, ProfilePoint::kOpt, ProfilePoint::kMax}) {
      if (p == 0 && point == ProfilePoint::kOpt) continue;
      CAMSHAFT_ASSIGN(runtime::Bindings bindings, bindings_at(graph, profiles[p], point));
      points.push_back(std::move(bindings));
    }
  }
  return ok_status();
}

Status cancelled() {
  return make_error(ErrorCode::kCancelled, "the build was cancelled");
}

}  // namespace

Result<std::vector<std::byte>> build(std::unique_ptr<ir::Graph> graph, const BuildOptions& options,
                                     BuildStatistics* statistics) {
  const Clock::time_point start = Clock::now();
  BuildStatistics unused;
  BuildStatistics& stats = statistics ? *statistics : unused;
  stats = {};
  engine::EngineParts parts;
  parts.verbosity = options.verbosity;
  parts.record.model_name = graph->name();
  parts.record.builder_version = CAMSHAFT_VERSION;
  parts.record.cpu_model = cpu_info().model;
  parts.record.cpu_fingerprint = cpu_fingerprint();
  parts.record.threads = options.threads > 0 ? options.threads : default_num_threads();

  if (!report(options, "Optimizing the graph", 0, 1)) return cancelled();
  passes::PassRecord passes;
  CAMSHAFT_TRY(passes::optimize(*graph, passes));
  parts.record.rewrites = std::move(passes.rewrites);
  parts.record.layer_counts = std::move(passes.layer_counts);
  stats.graph_seconds = seconds_since(start);

  CAMSHAFT_ASSIGN(parts.profiles, complete_profiles(*graph, options.profiles));
  CAMSHAFT_ASSIGN(const runtime::Bindings opt,
                  bindings_at(*graph, parts.profiles[0], ProfilePoint::kOpt));

  TimingCache cache(parts.record.cpu_fingerprint);
  if (options.use_timing_cache && !options.timing_cache_file.empty())
    if (const Status status = cache.load(options.timing_cache_file); !status.ok())
      log(Severity::kWarning, "{}", status.message());
  SelectionContext selection;
  selection.options = &options;
  selection.threads = parts.record.threads;
  selection.opt = &opt;
  selection.cache = &cache;
  selection.statistics = &stats;
  selection.progress = [&](int done, int total) {
    return report(options, "Timing tactics", done, total);
  };
  std::vector<runtime::Bindings> points;
  CAMSHAFT_TRY(add_points(*graph, parts.profiles, points));
  for (const runtime::Bindings& point : points) selection.others.push_back(&point);
  Selector selector(selection);
  Choices choices;
  const Clock::time_point timing_start = Clock::now();
  CAMSHAFT_TRY(selector.select(*graph, choices));

  Weights weights;
  PlanContext context;
  context.choices = &choices;
  context.bindings = &opt;
  context.weights = &weights;
  context.record = &parts.record.rewrites;
  context.portable = options.portable;
  context.threads = parts.record.threads;
  context.reformat_tactic = [&](const kernels::Problem& problem) {
    return selector.reformat_tactic(problem);
  };
  CAMSHAFT_ASSIGN(parts.plan, make_plan(*graph, context));
  stats.timing_seconds = seconds_since(timing_start);
  log(Severity::kInfo, "Formats and tactics selection completed in {:.3f} seconds.",
      stats.timing_seconds);
  log(Severity::kVerbose, "After reformat layers: {} layers", parts.plan.steps.size());
  if (options.use_timing_cache && !options.timing_cache_file.empty() && stats.timed_tactics > 0)
    if (const Status status = cache.save(options.timing_cache_file); !status.ok())
      log(Severity::kWarning, "{}", status.message());
  parts.weights = weights.take();
  stats.total_seconds = seconds_since(start);
  log(Severity::kInfo, "Engine generation completed in {:.3f} seconds.", stats.total_seconds);
  return engine::serialize(parts);
}

}  // namespace camshaft::tuner
