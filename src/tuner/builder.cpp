// SPDX-License-Identifier: Apache-2.0
#include "tuner/builder.h"

#include <chrono>

#include "base/log.h"
#include "passes/pipeline.h"
#include "tuner/plan_maker.h"
#include "tuner/profiles.h"

namespace camshaft::tuner {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

bool report(const BuildOptions& options, const char* phase, int done, int total) {
  return !options.progress || options.progress(phase, done, total);
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
  parts.record.cpu_model = cpu_info().model;
  parts.record.cpu_fingerprint = cpu_fingerprint();
  parts.record.threads = options.threads > 0 ? options.threads : default_num_threads();

  if (!report(options, "Optimizing the graph", 0, 1)) return cancelled();
  stats.graph_seconds = seconds_since(start);

  CAMSHAFT_ASSIGN(parts.profiles, complete_profiles(*graph, options.profiles));
  CAMSHAFT_ASSIGN(const runtime::Bindings opt,
                  bindings_at(*graph, parts.profiles[0], ProfilePoint::kOpt));

  Weights weights;
  Choices choices;
  PlanContext context;
  context.choices = &choices;
  context.bindings = &opt;
  context.weights = &weights;
  context.threads = parts.record.threads;
  context.reformat_tactic = [](const kernels::Problem&) { return nullptr; };
  CAMSHAFT_ASSIGN(parts.plan, make_plan(*graph, context));
  parts.weights = weights.take();
  stats.total_seconds = seconds_since(start);
  log(Severity::kInfo, "Engine generation completed in {:.3f} seconds.", stats.total_seconds);
  return engine::serialize(parts);
}

}  // namespace camshaft::tuner
