// SPDX-License-Identifier: Apache-2.0
#include "runtime/caches.h"

#include <algorithm>

#include "ir/append_rows.h"
#include "runtime/schedule.h"

namespace camshaft::runtime {
namespace {

using engine::kNoTensor;
using engine::PlanStep;
using ir::LayerKind;

// Steps that read each tensor, parts and other names of it included: those have other strides.
struct Readers {
  std::vector<std::vector<int>> steps;  // per tensor
  std::vector<int> views;               // of each tensor

  explicit Readers(const engine::Plan& plan)
      : steps(plan.tensors.size()), views(plan.tensors.size()) {
    for (size_t k = 0; k < plan.steps.size(); ++k)
      for (const int t : plan.steps[k].inputs)
        if (t != kNoTensor) steps[t].push_back(static_cast<int>(k));
    for (const engine::PlanTensor& tensor : plan.tensors)
      if (tensor.parent != kNoTensor) ++views[tensor.parent];
  }
};

// The axis along which new rows go behind the first input; 0: they do not.
int64_t appending_axis(const PlanStep& step) {
  if (step.is_view || step.inputs.size() < 2 || step.inputs[0] == kNoTensor ||
      step.inputs[1] == kNoTensor || step.inputs[0] == step.inputs[1])
    return 0;
  if (step.layer.kind == LayerKind::kConcatenation)
    return step.inputs.size() == 2 ? step.layer.as<ir::AxisAttrs>().axis : 0;
  return ir::append_axis(step.layer);
}

std::vector<AppendFacts> find_appends(const engine::Plan& plan, const Readers& readers) {
  std::vector<AppendFacts> appends;
  for (size_t k = 0; k < plan.steps.size(); ++k) {
    const PlanStep& step = plan.steps[k];
    if (step.is_view || step.layer.kind != LayerKind::kConcatenation || step.inputs[0] == kNoTensor)
      continue;
    const int grown = step.inputs[0];
    const auto input = std::find(plan.inputs.begin(), plan.inputs.end(), grown);
    if (input != plan.inputs.end() && readers.steps[grown].size() == 1 &&
        readers.views[grown] == 0 && plan.tensors[grown].parent == kNoTensor &&
        std::count(plan.outputs.begin(), plan.outputs.end(), grown) == 0)
      appends.push_back({static_cast<int>(k), static_cast<int>(input - plan.inputs.begin())});
  }
  return appends;
}

std::vector<CacheFacts> find_caches(const PlanFacts& facts, const Readers& readers) {
  const engine::Plan& plan = *facts.plan;
  const auto lies_alone = [&](int t) {
    return facts.tensors[t].root == t && readers.views[t] == 0 && plan.tensors[t].has_rank &&
           plan.tensors[t].format == ir::Format::kLinear && ir::bits_of(plan.tensors[t].type) >= 8;
  };
  const auto place_in = [](const std::vector<int>& list, int t) {
    return static_cast<int>(std::find(list.begin(), list.end(), t) - list.begin());
  };
  std::vector<CacheFacts> caches;
  for (int k = 0; k < static_cast<int>(plan.steps.size()); ++k) {
    const PlanStep& step = plan.steps[k];
    const int64_t axis = appending_axis(step);
    if (axis == 0 || !facts.steps[k].tactic) continue;
    const int past = step.inputs[0], present = step.outputs[0];
    if (plan.tensors[past].role != engine::TensorRole::kInput || !lies_alone(past) ||
        !lies_alone(present) || std::count(plan.outputs.begin(), plan.outputs.end(), present) != 1)
      continue;
    // Extents may be asked for by anyone.
    const bool read_here_only =
        std::all_of(readers.steps[past].begin(), readers.steps[past].end(), [&](int reader) {
          return reader == k || plan.steps[reader].layer.kind == LayerKind::kShapeOf;
        });
    const bool attended_only =
        std::all_of(readers.steps[present].begin(), readers.steps[present].end(), [&](int reader) {
          const LayerKind kind = plan.steps[reader].layer.kind;
          return kind == LayerKind::kAttention || kind == LayerKind::kShapeOf;
        });
    if (read_here_only && attended_only)
      caches.push_back({place_in(plan.inputs, past), place_in(plan.outputs, present), k,
                        static_cast<int>(axis)});
  }
  return caches;
}

}  // namespace

void find_continued(PlanFacts& facts) {
  const Readers readers(*facts.plan);
  facts.caches = find_caches(facts, readers);
  facts.appends = find_appends(*facts.plan, readers);
  for (const AppendFacts& append : facts.appends)
    facts.steps[append.step].appends_to = append.input;
}

}  // namespace camshaft::runtime
