// SPDX-License-Identifier: Apache-2.0
// Runs one plan: the engine's main plan for a Context, or the body of an If, Loop or Scan for the
// executor around it.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/thread_pool.h"
#include "runtime/buffer.h"
#include "runtime/context.h"
#include "runtime/schedule.h"
#include "runtime/view_check.h"

namespace camshaft::kernels::reference {
struct SliceRange;
}  // namespace camshaft::kernels::reference

namespace camshaft::runtime {

inline size_t bytes_of(const TensorView& view) {
  return ir::bytes_for(view.type, view.elements());
}

struct Profiler {
  std::function<void(const LayerTime&)> report;
  bool opens_bodies = false;
  int64_t clock_reads = 0;  // so far: what they cost is no layer's time
};

// Any view into dense row-major memory.
void copy_dense(const TensorView& from, std::byte* to);

class Executor {
 public:
  // Of the engine's main plan: checked against the kernels at the points of this profile.
  static Result<std::unique_ptr<Executor>> create_checked(const engine::Engine& engine,
                                                          const engine::Profile* profile,
                                                          ThreadPool& pool,
                                                          int64_t cut_batches_beyond);
  static Result<std::unique_ptr<Executor>> create(const engine::Engine& engine,
                                                  const engine::Plan& plan, ThreadPool& pool);

  const engine::Plan& plan() const { return *facts_.plan; }

  // Makes or finds the schedule of these input extents. `outer`: symbols bound by the plan around
  // this one; `capacities`: of the plan's caches (Schedule), none: two buffers each.
  Status prepare(std::span<const ir::Extents> inputs, const Bindings* outer = nullptr,
                 std::span<const int64_t> capacities = {});
  // As many schedules at most (ContextOptions), of bodies too.
  void keep_shapes(size_t count);
  std::span<const CacheFacts> caches() const { return facts_.caches; }
  bool prepared() const { return current_ != nullptr; }

  // Memory for the next run: inputs must be set; an output left null is kept by the executor.
  // `owner`: that memory, where the run may keep it, grown, as its own; it must stay until the next
  // run.
  void set_input(int k, const void* data, Buffer* owner = nullptr) {
    inputs_[k] = data;
    owners_[k] = owner;
  }
  void set_output(int k, void* data) { outputs_[k] = data; }

  Status run(Profiler* profiler = nullptr);

  // After prepare(), and with data after run(); rank -1: not known yet.
  TensorView tensor(int plan_tensor) const;
  TensorView output(int k) const { return tensor(plan().outputs[k]); }

  std::span<const ImagePasses> image_passes() const {
    return current_ ? std::span<const ImagePasses>(current_->passes)
                    : std::span<const ImagePasses>();
  }
  size_t arena_bytes() const { return arena_.bytes(); }
  size_t workspace_bytes() const { return workspace_.bytes(); }

 private:
  Executor(PlanFacts facts, ThreadPool& pool);

  // By what it was made for, at a glance: a body may have a hundred.
  struct KeptSchedule {
    uint64_t key = 0;
    std::unique_ptr<Schedule> schedule;
  };
  using Schedules = std::vector<KeptSchedule>;

  // Numbers the steps of the bodies, which are `outer`'s of the main plan.
  void number_inner_steps(int index, int outer, int& next);
  void report(int step, double microseconds, int64_t start_ns);

  Schedules::iterator find_spare(std::span<const int64_t> capacities);
  Schedule* find_schedule(uint64_t key, std::span<const ir::Extents> inputs, const Bindings* outer,
                          std::span<const int64_t> capacities);
  void link();
  void link_base(int base, void* pointer);
  void* base_pointer(int base);
  std::byte* workspace(size_t bytes);

  // A step's kernel and the views it is to run on. `tactic` null: the layer's reference kernel.
  struct StepCall {
    int index;
    const kernels::Tactic* tactic;
    const kernels::PreparedKernel& kernel;
    KernelArgs args;
  };
  Status call(const StepCall& step);
  Status call_step(const StepCall& step) { return checking_ ? call_checked(step) : call(step); }
  Status call_checked(const ScheduledStep& step);
  // checked_calls.cpp
  MemoryRange memory_of(int t) const;
  Status check_call(const StepCall& call, Poison& poison) const;
  Status call_fenced(const StepCall& call);
  Status call_checked(const StepCall& call);

  // late_replay.cpp: late steps do again what they did in the run before, as long as they can.
  Status run_late_step(const ScheduledStep& scheduled);
  Status replay_late(const ScheduledStep& scheduled, bool& done);
  Status replay_kernel(int index);
  // The records of a schedule whose late memory was another's meanwhile.
  Status revive_late();
  void record_late(int index);
  void find_late_tactic(const engine::PlanStep& step, LateRecord& record);
  std::shared_ptr<std::byte[]> shared_packing(int index, const kernels::Tactic& tactic,
                                              const kernels::Problem& problem);
  bool matches(const engine::PlanStep& step, LateRecord& record, bool& same_values);
  bool outputs_match(const engine::PlanStep& step, const LateRecord& record) const;

  // late_steps.cpp: steps whose shapes are known only now.
  Status run_late(const ScheduledStep& scheduled);
  Status run_late_kernel(int step_index);
  // Memory for outputs whose extents were not known. True: the result lies there already.
  Result<bool> define_outputs(int index, const KernelArgs& args);
  // late_views.cpp
  Status place_late_view(int t);
  Status place_aliases(int t);
  Result<bool> view_slice(const engine::PlanStep& step, const KernelArgs& args,
                          const kernels::reference::SliceRange& range);
  // appending.cpp
  bool appends(const StepFacts& facts) const {
    return facts.appends_to >= 0 && owners_[facts.appends_to];
  }
  Buffer* movable_memory(int t);
  // Where the step's result may lie behind its first input; null: it must be copied there.
  Buffer* memory_to_append(const AppendFacts& append, const TensorView& first,
                           std::span<const int64_t> extents);
  std::byte* grow_input(const AppendFacts& append, const TensorView& first,
                        std::span<const int64_t> extents, Buffer& memory);
  void place_appends();
  Result<bool> append_late(int index, const KernelArgs& args, const ir::Extents& extents);

  // Looks for a tactic of settled_layer(); false: there is none.
  bool settle(int index, KernelArgs& args);
  // The record's kernel on these views, made ready if it is not.
  Status call_late(int index, const kernels::Tactic* tactic, KernelArgs args);
  bool takes_late(const engine::PlanStep& step, const StepFacts& facts,
                  const KernelArgs& args) const;
  Status infer_outputs(const engine::PlanStep& step, const ir::Layer& layer,
                       std::vector<ir::Extents>& extents);
  Status run_dynamic(const engine::PlanStep& step, const StepFacts& facts, const KernelArgs& args);
  // Memory for tensor `t` with these extents; binds the runtime symbols of its shape.
  // In the type the plan stores it in, whatever that of the layer's inputs.
  // `at` not null: where it lies already.
  Status define_late(int t, std::span<const int64_t> extents, void* at = nullptr);
  void* address(int t) const;

  // control_flow.cpp
  struct Carried;
  Status run_control_flow(int step_index);
  Status run_if(const engine::PlanStep& step, std::vector<std::unique_ptr<Executor>>& bodies);
  Status run_loop(const engine::PlanStep& step, Executor& body);
  Status run_scan(const engine::PlanStep& step, Executor& body);
  // Prepares and runs a body on these input views (dense, in the body's order); results go to the
  // targets that are not null.
  // Memory of inputs [first_owned, first_owned + states) is the body's to keep.
  Status run_body(Executor& body, std::span<const TensorView> inputs,
                  std::span<void* const> targets, std::span<Carried> states = {},
                  size_t first_owned = 0);
  Status store_result(int t, const TensorView& value);
  // Exchanges the memory of an output, which the body keeps, for `buffer`; false: it lies
  // elsewhere, or others lie there too.
  Result<bool> take_output(int k, Buffer& buffer);
  struct Stacked;
  Status store_stacked(int t, const Stacked& stacked, int64_t axis, bool reversed);

  PlanFacts facts_;
  ThreadPool& pool_;
  Schedules schedules_;  // most recently used first
  size_t kept_shapes_ = ContextOptions().kept_shapes;
  Schedule* current_ = nullptr;
  bool replaying_ = false;
  Profiler* profiler_ = nullptr;  // of this run
  // Of a body: the main plan's step it belongs to, and its steps' numbers there.
  int outer_step_ = -1;
  std::vector<int> inner_numbers_;
  const bool checking_ = checks_views();
  std::vector<void*> addresses_;           // call()'s, kept for its memory
  std::vector<ir::Extents> body_extents_;  // run_body()'s, kept for its memory
  std::vector<const void*> inputs_;
  std::vector<Buffer*> owners_;  // of inputs, mostly null
  std::vector<void*> outputs_;
  Buffer arena_, workspace_;
  std::vector<Buffer> kept_outputs_;
  std::vector<Buffer> late_;  // per tensor
  struct LatePacking {
    size_t bytes = 0;
    std::shared_ptr<std::byte[]> memory;
  };
  std::vector<std::vector<LatePacking>> late_packed_;           // per step
  std::vector<std::vector<std::unique_ptr<Executor>>> bodies_;  // per step
};

}  // namespace camshaft::runtime
