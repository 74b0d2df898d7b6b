// SPDX-License-Identifier: Apache-2.0
#include "engine/sparsity_outcome.h"

#include <fmt/format.h>

namespace camshaft::engine {
namespace {

// Why the weights themselves do not qualify; "" where they do.
std::string refuse_weights(const ir::WeightSparsity& weights) {
  if (weights.weights == 0) return "no constant weights";
  if (!weights.has_groups())
    return fmt::format("{} input channels per filter are no group of four",
                       weights.groups == 0 ? 0 : weights.weights / weights.groups);
  if (weights.full_groups > 0)
    return fmt::format("{} of {} groups of four input channels hold more than two weights",
                       weights.full_groups, weights.groups);
  return {};
}

// What a tactic's name says it multiplies.
std::string_view numbers_of(std::string_view tactic) {
  for (const std::string_view numbers : {"u8i8", "bf16", "f32"})
    if (tactic.find(numbers) != std::string_view::npos) return numbers;
  return {};
}

void take_faster(const Candidate& candidate, std::string& name, double& us) {
  if (us != 0 && us <= candidate.time_us) return;
  name = candidate.tactic;
  us = candidate.time_us;
}

// Both were timed.
std::string not_picked(const SparsityOutcome& outcome) {
  if (outcome.sparse_us >= outcome.dense_us) return "the dense tactic is faster";
  if (outcome.sparse_us * kSparseGain >= outcome.dense_us)
    return fmt::format("within the margin: {:.1f} % faster, taken from {:.0f} % on",
                       (outcome.dense_us / outcome.sparse_us - 1) * 100, (kSparseGain - 1) * 100);
  return "faster alone, but not with the reformats around it";
}

}  // namespace

bool is_sparse_tactic(std::string_view name) {
  return name.find("_sparse") != std::string_view::npos;
}

SparsityOutcome sparsity_outcome(const PlanStep& step) {
  SparsityOutcome outcome;
  outcome.picked = is_sparse_tactic(step.tactic);
  // Best that of a tactic for the numbers the dense one multiplies; the last asks for the least.
  std::string refusal;
  bool has_same = false;
  for (const Candidate& candidate : step.candidates) {
    const bool sparse = is_sparse_tactic(candidate.tactic);
    if (candidate.time_us > 0) {
      take_faster(candidate, sparse ? outcome.sparse : outcome.dense,
                  sparse ? outcome.sparse_us : outcome.dense_us);
    } else if (sparse) {
      const bool is_same = numbers_of(candidate.tactic) == numbers_of(step.tactic);
      if (is_same || (!has_same && refusal.empty())) refusal = candidate.refusal;
      has_same |= is_same;
    }
  }
  outcome.eligible = outcome.picked || outcome.sparse_us > 0;
  if (outcome.picked) return outcome;
  if (outcome.sparse_us > 0 && outcome.dense_us > 0)
    outcome.reason = not_picked(outcome);
  else if (outcome.reason = refuse_weights(step.sparsity); outcome.reason.empty())
    outcome.reason =
        refusal.empty() ? "no sparse tactic was asked for or takes its types" : refusal;
  return outcome;
}

}  // namespace camshaft::engine
