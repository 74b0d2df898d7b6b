// SPDX-License-Identifier: Apache-2.0
#include "tuner/sparsity_report.h"

#include <vector>

#include <fmt/ranges.h>

#include "base/log.h"
#include "engine/sparsity_outcome.h"

namespace camshaft::tuner {
namespace {

struct Names {
  std::vector<std::string> eligible, picked;
};

void log_step(const engine::PlanStep& step, Names& names) {
  const engine::SparsityOutcome outcome = engine::sparsity_outcome(step);
  if (outcome.eligible) names.eligible.push_back(step.layer.name);
  if (outcome.picked) names.picked.push_back(step.layer.name);
  // Dense networks need no line for every layer.
  const bool is_near = step.sparsity.is_2_4() || outcome.eligible;
  const Severity severity = is_near ? Severity::kInfo : Severity::kVerbose;
  const std::string times =
      outcome.sparse_us > 0 ? fmt::format("dense {} {:.1f} us, sparse {} {:.1f} us", outcome.dense,
                                          outcome.dense_us, outcome.sparse, outcome.sparse_us)
                            : "";
  if (outcome.picked)
    log(severity, "(Sparsity) {}: picked: {}", step.layer.name, times);
  else
    log(severity, "(Sparsity) {}: {}{}{}", step.layer.name,
        outcome.eligible ? "not picked: " : "not eligible: ", outcome.reason,
        times.empty() ? "" : ": " + times);
}

void log_steps(const engine::Plan& plan, Names& names) {
  for (const engine::PlanStep& step : plan.steps) {
    for (const auto& body : step.bodies) log_steps(*body, names);
    if (step.sparsity.weights > 0) log_step(step, names);
  }
}

}  // namespace

void log_sparsity(const engine::Plan& plan) {
  Names names;
  log_steps(plan, names);
  log(Severity::kInfo, "(Sparsity) Layers eligible for sparse math: {}",
      fmt::join(names.eligible, ", "));
  log(Severity::kInfo, "(Sparsity) Inference plan picked sparse implementation for layers: {}",
      fmt::join(names.picked, ", "));
}

}  // namespace camshaft::tuner
