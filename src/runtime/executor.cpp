// SPDX-License-Identifier: Apache-2.0
#include "runtime/executor.h"

#include <algorithm>
#include <chrono>

#include "runtime/step_problem.h"

namespace camshaft::runtime {
namespace {

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// What reading the clock adds to a step's time: the least of some tries.
int64_t clock_cost_ns() {
  static const int64_t cost = [] {
    int64_t least = 1000;
    for (int k = 0; k < 100; ++k) {
      const int64_t start = now_ns();
      least = std::min(least, now_ns() - start);
    }
    return std::max<int64_t>(least, 0);
  }();
  return cost;
}

}  // namespace

Executor::Executor(PlanFacts facts, ThreadPool& pool) : facts_(std::move(facts)), pool_(pool) {
  inputs_.resize(plan().inputs.size());
  owners_.resize(plan().inputs.size());
  outputs_.resize(plan().outputs.size());
  kept_outputs_.resize(plan().outputs.size());
  late_.resize(plan().tensors.size());
  late_packed_.resize(plan().steps.size());
  bodies_.resize(plan().steps.size());
}

Result<std::unique_ptr<Executor>> Executor::create(const engine::Engine& engine,
                                                   const engine::Plan& plan, ThreadPool& pool) {
  CAMSHAFT_ASSIGN(PlanFacts facts, PlanFacts::make(engine, plan));
  std::unique_ptr<Executor> executor(new Executor(std::move(facts), pool));
  for (size_t k = 0; k < plan.steps.size(); ++k) {
    for (const auto& body : plan.steps[k].bodies) {
      CAMSHAFT_ASSIGN(std::unique_ptr<Executor> inner, create(engine, *body, pool));
      executor->bodies_[k].push_back(std::move(inner));
    }
  }
  return executor;
}

namespace {

// Extents of every input at a point of the profile; empty where the profile does not say and the
// model does not fix them.
std::vector<ir::Extents> extents_at(const engine::Plan& plan, const engine::Profile* profile,
                                    ir::Extents engine::ShapeRange::*point) {
  std::vector<ir::Extents> inputs;
  for (const int t : plan.inputs) {
    const engine::PlanTensor& tensor = plan.tensors[t];
    ir::Extents extents;
    bool known = tensor.has_rank;
    for (const ir::Dim dim : tensor.shape) {
      known &= dim.is_known();
      extents.push_back(dim.is_known() ? dim.extent() : 0);
    }
    if (profile)
      for (const engine::ShapeRange& range : *profile)
        if (range.input == tensor.name) {
          extents = range.*point;
          known = true;
        }
    if (!known) return {};
    inputs.push_back(extents);
  }
  return inputs;
}

}  // namespace

Result<std::unique_ptr<Executor>> Executor::create_checked(const engine::Engine& engine,
                                                           const engine::Profile* profile,
                                                           ThreadPool& pool,
                                                           int64_t cut_batches_beyond) {
  CAMSHAFT_ASSIGN(std::unique_ptr<Executor> executor, create(engine, engine.plan(), pool));
  for (size_t k = 0; k < engine.plan().steps.size(); ++k) {
    int next = 0;
    executor->number_inner_steps(static_cast<int>(k), static_cast<int>(k), next);
  }
  // The network's results outlive its run, and with it the caller's inputs.
  for (const int output : engine.plan().outputs)
    if (const int producer =
            executor->facts_.tensors[executor->facts_.tensors[output].root].producer;
        producer >= 0)
      executor->facts_.steps[producer].views_input = false;
  executor->facts_.cut_batches_beyond =
      cut_batches_beyond >= 0 ? cut_batches_beyond : static_cast<int64_t>(cpu_info().l3_bytes / 2);
  bool first = true;
  for (const auto point :
       {&engine::ShapeRange::opt, &engine::ShapeRange::min, &engine::ShapeRange::max}) {
    const std::vector<ir::Extents> inputs = extents_at(engine.plan(), profile, point);
    if (inputs.size() != engine.plan().inputs.size()) continue;
    CAMSHAFT_ASSIGN(const Bindings bindings, bind_symbols(engine.plan(), inputs, nullptr));
    if (first) replace_missing_tactics(executor->facts_, bindings, pool.threads());
    CAMSHAFT_TRY(verify_steps(executor->facts_, bindings));
    first = false;
  }
  return executor;
}

namespace {

uint64_t key_of(std::span<const ir::Extents> inputs) {
  uint64_t key = 0;
  for (const ir::Extents& extents : inputs)
    for (const int64_t extent : extents)
      key = (key ^ static_cast<uint64_t>(extent)) * 0x9e3779b97f4a7c15;
  return key;
}

bool has_capacities(const Schedule& schedule, std::span<const int64_t> capacities) {
  if (capacities.empty()) return !share_buffers(schedule.capacities);
  return std::equal(capacities.begin(), capacities.end(), schedule.capacities.begin(),
                    schedule.capacities.end());
}

}  // namespace

Schedule* Executor::find_schedule(uint64_t key, std::span<const ir::Extents> inputs,
                                  const Bindings* outer, std::span<const int64_t> capacities) {
  const auto fits = [&](const KeptSchedule& kept) {
    if (kept.key != key) return false;
    const Schedule& s = *kept.schedule;
    return has_capacities(s, capacities) &&
           std::equal(inputs.begin(), inputs.end(), s.input_extents.begin(),
                      s.input_extents.end()) &&
           (!outer || (outer->bound == s.outer.bound && outer->values == s.outer.values));
  };
  const auto found = std::find_if(schedules_.begin(), schedules_.end(), fits);
  if (found == schedules_.end()) return nullptr;
  std::rotate(schedules_.begin(), found, found + 1);
  return schedules_.front().schedule.get();
}

// Of those kept, the one that may become another; the end: none. A sequence in one buffer does not
// come back to a length: the last one goes on. Other shapes may come back: as many are kept as
// there is room for.
Executor::Schedules::iterator Executor::find_spare(std::span<const int64_t> capacities) {
  const bool in_one_buffer = share_buffers(capacities);
  if (schedules_.empty() || (!in_one_buffer && schedules_.size() < kept_shapes_))
    return schedules_.end();
  const auto spare = in_one_buffer ? schedules_.begin() : schedules_.end() - 1;
  return has_capacities(*spare->schedule, capacities) ? spare : schedules_.end();
}

Status Executor::prepare(std::span<const ir::Extents> inputs, const Bindings* outer,
                         std::span<const int64_t> capacities) {
  const Schedule* before = current_;
  const uint64_t key = key_of(inputs);
  current_ = find_schedule(key, inputs, outer, capacities);
  if (current_) {
    return current_ != before && current_->recorded ? revive_late() : ok_status();
  }
  if (const auto spare = find_spare(capacities); spare != schedules_.end()) {
    CAMSHAFT_ASSIGN(const bool advanced, advance(facts_, inputs, outer, *spare->schedule));
    if (advanced) {
      spare->key = key;
      std::rotate(schedules_.begin(), spare, spare + 1);
      current_ = schedules_.front().schedule.get();
      return ok_status();
    }
  }
  CAMSHAFT_ASSIGN(std::unique_ptr<Schedule> made,
                  make_schedule(facts_, inputs, outer, &pool_, capacities,
                                schedules_.empty() ? nullptr : schedules_.front().schedule.get()));
  if (schedules_.size() == kept_shapes_) schedules_.pop_back();
  schedules_.insert(schedules_.begin(), {key, std::move(made)});
  current_ = schedules_.front().schedule.get();
  return ok_status();
}

void Executor::keep_shapes(size_t count) {
  // A loop over lists that grow or shrink has one per iteration, in every run the same: planning 60
  // counts of boxes anew takes three times as long as running them.
  constexpr size_t kOfBody = 8;
  kept_shapes_ = std::max<size_t>(count, 1);
  for (auto& bodies : bodies_)
    for (auto& body : bodies) body->keep_shapes(outer_step_ < 0 ? kOfBody * count : count);
}

void* Executor::base_pointer(int base) {
  const int num_inputs = static_cast<int>(inputs_.size());
  if (base == 0) return arena_.reserve(current_->arena_bytes);
  if (base <= num_inputs) return const_cast<void*>(inputs_[base - 1]);
  const int k = base - 1 - num_inputs;
  if (outputs_[k]) return outputs_[k];
  const TensorView& view = current_->tensors[plan().outputs[k]];
  return view.present() ? kept_outputs_[k].reserve(ir::bytes_for(view.type, view.elements()))
                        : nullptr;
}

void Executor::link_base(int base, void* pointer) {
  for (const Schedule::Patch& patch : current_->patches[base])
    current_->pointers[patch.arg] = static_cast<std::byte*>(pointer) + patch.offset;
  current_->linked[base] = pointer;
}

void Executor::link() {
  for (int base = 0; base < current_->num_bases(); ++base)
    if (void* pointer = base_pointer(base); pointer != current_->linked[base])
      link_base(base, pointer);
  std::byte* scratch = workspace(current_->workspace_bytes);
  if (current_->linked_workspace == scratch) return;
  current_->linked_workspace = scratch;
  for (ScheduledStep& step : current_->steps) step.call.workspace = scratch;
}

std::byte* Executor::workspace(size_t bytes) {
  return workspace_.reserve(bytes);
}

void Executor::number_inner_steps(int index, int outer, int& next) {
  for (auto& body : bodies_[index]) {
    body->outer_step_ = outer;
    for (size_t k = 0; k < body->plan().steps.size(); ++k) {
      body->inner_numbers_.push_back(next++);
      body->number_inner_steps(static_cast<int>(k), outer, next);
    }
  }
}

void Executor::report(int step, double microseconds, int64_t start_ns) {
  const bool inner = outer_step_ >= 0;
  profiler_->report(
      {inner ? outer_step_ : step, microseconds, start_ns, inner ? inner_numbers_[step] : -1});
}

Status Executor::run(Profiler* profiler) {
  const ThreadPool::InRun in_run(pool_);
  profiler_ = profiler;
  place_appends();
  link();
  if (current_->has_late_steps) {
    replaying_ = current_->recorded;
    current_->recorded = false;
    if (!replaying_) current_->bindings = current_->initial_bindings;
  }
  const int64_t clock_ns = profiler ? clock_cost_ns() : 0;
  int64_t start = profiler ? now_ns() : 0;
  int64_t reads = profiler ? profiler->clock_reads : 0;
  // A late step may make this executor's workspace grow: `steps` is linked again then, its address
  // stays.
  for (const ScheduledStep& step : current_->steps) {
    if (step.run && !step.run_checked && !checking_) {
      step.run(step.state, step.call);
    } else {
      Status status = step.is_late ? run_late_step(step)
                      : checking_  ? call_checked(step)
                                   : step.run_checked(step.state, step.call);
      if (!status.ok()) return status.with_context("layer " + plan().steps[step.step].layer.name);
      if (step.is_late && workspace_.data() != current_->linked_workspace) link();
    }
    if (profiler) {
      const int64_t end = now_ns();
      // A step of a body reads the clock twice within the time of the step around it.
      const int64_t clocks = (1 + profiler->clock_reads - reads) * clock_ns;
      report(step.step, static_cast<double>(std::max<int64_t>(end - start - clocks, 0)) * 1e-3,
             start);
      reads = profiler->clock_reads += 2;
      start = now_ns();
    }
  }
  current_->recorded = current_->has_late_steps;
  return ok_status();
}

Status Executor::call(const StepCall& step) {
  const KernelArgs& args = step.args;
  addresses_.clear();
  for (const auto& views : {args.inputs, args.outputs})
    for (const TensorView& view : views) addresses_.push_back(view.data);
  return step.kernel({addresses_.data(), addresses_.data() + args.inputs.size(), args.packed,
                      args.workspace, args.pool});
}

void* Executor::address(int t) const {
  const Location& location = current_->locations[t];
  switch (location.space) {
    case Space::kNone:
      return nullptr;
    case Space::kFixed:
      return const_cast<std::byte*>(location.fixed);
    case Space::kBase:
      return static_cast<std::byte*>(current_->linked[location.base]) + location.offset;
    case Space::kLate:
      return current_->tensors[t].data;
  }
  return nullptr;
}

TensorView Executor::tensor(int plan_tensor) const {
  TensorView view = current_->tensors[plan_tensor];
  if (view.present()) view.data = address(plan_tensor);
  return view;
}

}  // namespace camshaft::runtime
