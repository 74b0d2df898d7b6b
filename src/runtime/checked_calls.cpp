// SPDX-License-Identifier: Apache-2.0
// The step loop's calls with every view checked first (view_check.h).
#include <algorithm>

#include "base/log.h"
#include "runtime/executor.h"
#include "runtime/fence.h"
#include "runtime/step_problem.h"
#include "runtime/view_check.h"

namespace camshaft::runtime {

using engine::kNoTensor;
using engine::PlanStep;

namespace {

// From the first to the last element: rows of a cache in one buffer have gaps.
size_t spanned_bytes(const TensorView& view) {
  if (!view.present() || view.elements() == 0) return 0;
  int64_t last = 0;
  for (int d = 0; d < view.rank; ++d) last += (view.extents[d] - 1) * view.strides[d];
  return ir::bytes_for(view.type, last + 1);
}

}  // namespace

// The memory of the tensor `t` is a part of, or all of.
MemoryRange Executor::memory_of(int t) const {
  int root = facts_.tensors[t].root;
  // In one buffer, the past lies in what the present is.
  for (size_t k = 0; k < facts_.caches.size(); ++k)
    if (current_->capacities[k] > 0 && plan().inputs[facts_.caches[k].input] == root)
      root = plan().outputs[facts_.caches[k].output];
  const engine::PlanTensor& tensor = plan().tensors[root];
  const Location& location = current_->locations[root];
  const TensorView& view = current_->tensors[root];
  const size_t bytes = spanned_bytes(view);
  switch (location.space) {
    case Space::kNone:
      return {};
    case Space::kFixed:
      return {location.fixed,
              tensor.role == engine::TensorRole::kConstant ? tensor.data_bytes : bytes};
    case Space::kBase:
      return {static_cast<const std::byte*>(address(root)),
              current_->room[root] > 0 ? current_->room[root] : bytes};
    case Space::kLate:
      return {static_cast<const std::byte*>(view.data), bytes};
  }
  return {};
}

namespace {

// The tactic expects no more packed weights than the plan has for it.
Status check_packed(const PlanFacts& facts, const PlanStep& step, const kernels::Tactic& tactic,
                    const Bindings& bindings, int threads) {
  if (!tactic.packed_bytes) return ok_status();
  const LayerProblem made = make_step_problem(facts, step, bindings, threads);
  if (!made.layer) return ok_status();
  const size_t wanted = tactic.packed_bytes(made.problem);
  if (wanted <= step.packed_bytes) return ok_status();
  return make_error(ErrorCode::kInternal, "{} expects {} bytes of packed weights, there are {}",
                    tactic.name, wanted, step.packed_bytes);
}

}  // namespace

Status Executor::check_call(const StepCall& call, Poison& poison) const {
  const PlanStep& step = plan().steps[call.index];
  const StepFacts& facts = facts_.steps[call.index];
  const kernels::Tactic* tactic = call.tactic;
  const KernelArgs& args = call.args;
  poison.cover({arena_.data(), current_->arena_bytes});
  poison.cover({workspace_.data(), workspace_.bytes()});
  const auto check = [&](std::span<const TensorView> views, const std::vector<int>& tensors,
                         const char* side, uint32_t packed) -> Status {
    for (size_t k = 0; k < views.size(); ++k) {
      if (tensors[k] == kNoTensor || (k < 32 && (packed >> k & 1) && !views[k].data)) continue;
      const MemoryRange memory = memory_of(tensors[k]);
      CAMSHAFT_TRY(
          check_view(views[k], memory)
              .with_context(fmt::format("{} {} ({})", side, k, plan().tensors[tensors[k]].name)));
      poison.uncover(memory);
    }
    return ok_status();
  };
  if (tactic) {
    const size_t wanted = call.kernel.workspace_bytes;
    if (wanted > workspace_.bytes())
      return make_error(ErrorCode::kInternal, "{} wants {} bytes of workspace, there are {}",
                        tactic->name, wanted, workspace_.bytes());
    poison.uncover({workspace_.data(), wanted});
  }
  if (tactic && tactic == facts.tactic && args.packed == facts.packed && step.packed_bytes > 0) {
    CAMSHAFT_TRY(check_packed(facts_, step, *tactic, current_->bindings, pool_.threads()));
    const auto weights = facts_.engine->weights();
    const std::byte* packed = facts.packed;
    if (packed >= weights.data() && packed < weights.data() + weights.size())
      poison.fence({packed, step.packed_bytes}, {weights.data(), weights.size()});
  }
  CAMSHAFT_TRY(check(args.inputs, step.inputs, "input", tactic ? ~0U : 0U));
  return check(args.outputs, step.outputs, "output", 0);
}

Status Executor::call_checked(const StepCall& step) {
  Poison poison;
  CAMSHAFT_TRY(check_call(step, poison));
  return fences_views() ? call_fenced(step) : call(step);
}

Status Executor::call_checked(const ScheduledStep& step) {
  const auto placed = [](std::span<const TensorView> views, void* const* pointers) {
    std::vector<TensorView> copies(views.begin(), views.end());
    for (size_t k = 0; k < copies.size(); ++k)
      if (copies[k].present()) copies[k].data = pointers[k];
    return copies;
  };
  const std::vector<TensorView> inputs = placed(step.args.inputs, step.call.inputs);
  const std::vector<TensorView> outputs = placed(step.args.outputs, step.call.outputs);
  StepCall call{step.step, facts_.steps[step.step].tactic, *step.kernel, step.args};
  call.args.inputs = inputs;
  call.args.outputs = outputs;
  call.args.workspace = step.call.workspace;
  return call_checked(call);
}

// Twice: with the page that must not be touched behind the operands, then before them.
Status Executor::call_fenced(const StepCall& call) {
  const PlanStep& step = plan().steps[call.index];
  const KernelArgs& args = call.args;
  log(Severity::kVerbose, "Fenced: step {} {} {}", call.index, step.layer.name,
      call.tactic ? call.tactic->name : "reference");
  const bool planned = call.tactic && args.packed == facts_.steps[call.index].packed;
  for (const bool at_start : {false, true}) {
    std::vector<std::unique_ptr<Fence>> fences;
    const auto fence = [&](const MemoryRange& range, size_t alignment) {
      fences.push_back(std::make_unique<Fence>(range, alignment, at_start));
      return fences.back()->data();
    };
    const auto fenced = [&](std::span<const TensorView> views, const std::vector<int>& tensors) {
      std::vector<TensorView> moved(views.begin(), views.end());
      for (size_t k = 0; k < moved.size(); ++k) {
        if (tensors[k] == kNoTensor || !moved[k].data || moved[k].elements() == 0) continue;
        const MemoryRange range = memory_of(tensors[k]);
        const auto known = std::find_if(fences.begin(), fences.end(), [&](const auto& f) {
          return f->original().data == range.data;
        });
        const size_t element = std::max<size_t>(ir::bits_of(moved[k].type) / 8, 1);
        std::byte* copy = known != fences.end() ? (*known)->data() : fence(range, element);
        moved[k].data = copy + (static_cast<std::byte*>(moved[k].data) - range.data);
      }
      return moved;
    };
    const std::vector<TensorView> inputs = fenced(args.inputs, step.inputs);
    const std::vector<TensorView> outputs = fenced(args.outputs, step.outputs);
    StepCall moved = call;
    moved.args.inputs = inputs;
    moved.args.outputs = outputs;
    if (planned && step.packed_bytes > 0)
      moved.args.packed = fence({args.packed, step.packed_bytes}, 64);
    if (call.tactic) moved.args.workspace = fence({nullptr, call.kernel.workspace_bytes}, 64);
    CAMSHAFT_TRY(this->call(moved));
    if (!at_start) continue;  // what is written over its input must be read again
    for (const int t : step.outputs)
      if (t != kNoTensor)
        for (const auto& f : fences)
          if (f->original().bytes > 0 && f->original().data == memory_of(t).data) f->copy_back();
  }
  return ok_status();
}

}  // namespace camshaft::runtime
