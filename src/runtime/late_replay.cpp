// SPDX-License-Identifier: Apache-2.0
// Late steps that do again what they did in the run before: where the extents and the values that
// decide shapes are the same, nothing is inferred, allocated or bound anew.
#include <algorithm>
#include <cstring>

#include "ir/kind_traits.h"
#include "runtime/executor.h"
#include "runtime/placing.h"
#include "runtime/step_problem.h"

namespace camshaft::runtime {
namespace {

using engine::kNoTensor;
using engine::PlanStep;

constexpr int kMaxSearches = 4;  // of one step: its extents may change with every run

// Elements that can decide extents (late_steps.cpp shows inference just these), or that a result
// computed before follows from.
bool is_recorded(ir::LayerKind kind, const TensorView& view) {
  if (!view.present() || view.rank > 1 || !view.data || view.elements() > kMaxValueElements ||
      !kernels::is_dense(view))
    return false;
  switch (view.type) {
    case ir::DataType::kInt64:
    case ir::DataType::kInt32:
    case ir::DataType::kInt16:
    case ir::DataType::kBool:
      return true;
    case ir::DataType::kFloat:
      return kind == ir::LayerKind::kResize || kind == ir::LayerKind::kRange;
    case ir::DataType::kDouble:
      return kind == ir::LayerKind::kRange;
    default:
      return false;
  }
}

// The same values give the same outputs, and these stay where they are.
bool is_function_of_values(const PlanStep& step, const Schedule& schedule, bool all_values) {
  if (step.layer.kind == ir::LayerKind::kGeneric || !step.bodies.empty() || step.is_view)
    return false;
  // ShapeOf looks at extents only.
  if (!all_values && step.layer.kind != ir::LayerKind::kShapeOf) return false;
  return std::all_of(step.outputs.begin(), step.outputs.end(), [&](int t) {
    return t == kNoTensor || schedule.locations[t].space == Space::kLate;
  });
}

}  // namespace

void Executor::record_late(int index) {
  const PlanStep& step = plan().steps[index];
  LateRecord& record = current_->late[index];
  record.inputs.clear();
  record.outputs.clear();
  record.values.clear();
  bool all_values = true;
  for (const int t : step.inputs) {
    record.inputs.push_back(t == kNoTensor ? TensorView() : tensor(t));
    const TensorView& view = record.inputs.back();
    if (!is_recorded(step.layer.kind, view)) {
      all_values &= t == kNoTensor;
      continue;
    }
    const size_t old = record.values.size();
    record.values.resize(old + bytes_of(view));
    if (bytes_of(view) > 0) std::memcpy(record.values.data() + old, view.data, bytes_of(view));
  }
  for (const int t : step.outputs)
    record.outputs.push_back(t == kNoTensor ? TensorView() : tensor(t));
  // A view must follow its input, wherever that lies then.
  record.repeats =
      is_function_of_values(step, *current_, all_values) && !facts_.steps[index].views_input;
  record.valid = true;
}

Status Executor::revive_late() {
  for (size_t k = 0; k < plan().steps.size(); ++k) {
    LateRecord& record = current_->late[k];
    if (!record.valid) continue;
    record.repeats = false;
    if (facts_.steps[k].views_input || plan().steps[k].is_view) continue;
    for (const int t : plan().steps[k].outputs) {
      if (t == kNoTensor || current_->locations[t].space != Space::kLate) continue;
      TensorView& view = current_->tensors[t];
      if (!view.present()) continue;
      view.data = late_[t].reserve(bytes_of(view));
      CAMSHAFT_TRY(place_aliases(t));
    }
  }
  return ok_status();
}

// Are the inputs' extents, and the values that decide shapes, those of the record? Takes over their
// addresses, and values that only the result depends on: `same_values` tells.
bool Executor::matches(const PlanStep& step, LateRecord& record, bool& same_values) {
  const bool numbers_decide = ir::traits_of(step.layer.kind).extents != ir::ExtentsAre::kInferred;
  size_t offset = 0;
  same_values = true;
  for (size_t k = 0; k < step.inputs.size(); ++k) {
    if (step.inputs[k] == kNoTensor) continue;
    const TensorView& now = current_->tensors[step.inputs[k]];
    TensorView& then = record.inputs[k];
    if (!same_layout(now, then)) return false;
    then.data = address(step.inputs[k]);
    if (!is_recorded(step.layer.kind, then)) continue;
    const size_t bytes = bytes_of(then);
    std::byte* values = record.values.data() + offset;
    offset += bytes;
    if (bytes == 0 || std::memcmp(values, then.data, bytes) == 0) continue;
    if (numbers_decide) return false;
    std::memcpy(values, then.data, bytes);
    same_values = false;
  }
  return true;
}

// The outputs have the extents they had before.
bool Executor::outputs_match(const PlanStep& step, const LateRecord& record) const {
  for (size_t k = 0; k < step.outputs.size(); ++k)
    if (step.outputs[k] != kNoTensor &&
        !same_layout(current_->tensors[step.outputs[k]], record.outputs[k]))
      return false;
  return true;
}

// The tuner could not know the shapes; now they are known, and have come twice.
void Executor::find_late_tactic(const PlanStep& step, LateRecord& record) {
  const auto same = [](const TensorView& view, const ir::Extents& extents) {
    return std::equal(extents.begin(), extents.end(), view.extents,
                      view.extents + std::max(view.rank, 0));
  };
  if (std::equal(record.inputs.begin(), record.inputs.end(), record.tactic_extents.begin(),
                 record.tactic_extents.end(), same) ||
      record.searches == kMaxSearches)
    return;
  ++record.searches;
  record.tactic = nullptr;
  record.packed = nullptr;
  record.kernel = {};
  record.tactic_extents.clear();
  const StepViews views{record.inputs, record.outputs};
  const LayerProblem made =
      make_step_problem(facts_, step, current_->bindings, pool_.threads(), &views);
  const kernels::Problem& problem = made.problem;
  for (const kernels::ProblemTensor& input : problem.inputs)
    record.tactic_extents.push_back(input.extents);
  record.tactic = made.layer ? best_tactic(problem) : nullptr;
  if (!record.tactic) return;
  record.packed_inputs = record.tactic->packed_inputs ? record.tactic->packed_inputs(problem) : 0;
  record.packed =
      shared_packing(static_cast<int>(&step - plan().steps.data()), *record.tactic, problem);
}

// A body's schedules differ in extents, its weights mostly do not.
std::shared_ptr<std::byte[]> Executor::shared_packing(int index, const kernels::Tactic& tactic,
                                                      const kernels::Problem& problem) {
  std::shared_ptr<std::byte[]> packed = pack_for(tactic, problem);
  if (!packed) return packed;
  const size_t bytes = tactic.packed_bytes(problem);
  for (const LatePacking& known : late_packed_[index])
    if (known.bytes == bytes && std::memcmp(known.memory.get(), packed.get(), bytes) == 0)
      return known.memory;
  late_packed_[index].push_back({bytes, packed});
  return packed;
}

Status Executor::replay_kernel(int index) {
  const PlanStep& step = plan().steps[index];
  const StepFacts& facts = facts_.steps[index];
  LateRecord& record = current_->late[index];
  const bool planned = facts.tactic && !record.refused;
  if (!planned && !record.settled) find_late_tactic(step, record);
  const kernels::Tactic* tactic = planned ? facts.tactic : record.tactic;
  const uint32_t packed_inputs = planned ? facts.packed_inputs : record.packed_inputs;
  for (size_t k = 0; k < record.inputs.size() && k < 32 && tactic; ++k)
    if (packed_inputs >> k & 1) record.inputs[k].data = nullptr;
  bool any_elements = false;
  for (size_t k = 0; k < step.outputs.size(); ++k) {
    if (step.outputs[k] == kNoTensor) continue;
    record.outputs[k].data = address(step.outputs[k]);
    any_elements |= record.outputs[k].elements() > 0;
  }
  if (!any_elements) return ok_status();
  KernelArgs args;
  args.layer = record.layer ? record.layer.get() : &step.layer;
  args.inputs = record.inputs;
  args.outputs = record.outputs;
  args.packed = planned ? facts.packed : record.packed.get();
  args.pool = pool_of(step, &pool_);
  if (record.settled) {
    args.layer = record.settled.get();
    args.inputs = args.inputs.first(1);
  }
  return call_late(index, tactic, args);
}

// Runs a late step from its record. Where that does not fit any more, `replaying_` ends and the
// symbols are those known before the step.
Status Executor::replay_late(const ScheduledStep& scheduled, bool& done) {
  const PlanStep& step = plan().steps[scheduled.step];
  const StepFacts& facts = facts_.steps[scheduled.step];
  LateRecord& record = current_->late[scheduled.step];
  bool same_values = false;
  done = record.valid && matches(step, record, same_values);
  if (!done) {
    replaying_ = false;
    current_->bindings = record.before;
    return ok_status();
  }
  if (record.repeats && same_values) return ok_status();
  const bool is_dynamic = facts.reference && facts.reference->run_dynamic;
  if (!step.is_view && !facts.control_flow && !is_dynamic && !appends(facts) && !facts.views_input)
    return replay_kernel(scheduled.step);
  // What these make may have other extents than before.
  current_->bindings = record.before;
  CAMSHAFT_TRY(run_late(scheduled));
  if (!outputs_match(step, record)) {
    replaying_ = false;
    record_late(scheduled.step);
  }
  return ok_status();
}

Status Executor::run_late_step(const ScheduledStep& scheduled) {
  if (replaying_) {
    bool done = false;
    CAMSHAFT_TRY(replay_late(scheduled, done));
    if (done) return ok_status();
  }
  LateRecord& record = current_->late[scheduled.step];
  record.valid = false;
  record.before = current_->bindings;
  CAMSHAFT_TRY(run_late(scheduled));
  record_late(scheduled.step);
  return ok_status();
}

}  // namespace camshaft::runtime
