// SPDX-License-Identifier: Apache-2.0
#include "runtime/schedule.h"

#include <algorithm>

#include "ir/extents.h"
#include "runtime/image_passes.h"
#include "runtime/memory_plan.h"
#include "runtime/placing.h"
#include "runtime/step_problem.h"

namespace camshaft::runtime {
namespace {

using engine::kNoTensor;
using engine::Plan;
using engine::PlanStep;
using engine::PlanTensor;
using engine::TensorRole;
using ir::Dim;

constexpr int kArenaBase = 0;
// What views hold whose address is known only when they are linked.
constexpr std::byte kSomewhere[64] = {};

// One schedule being made.
class Maker {
 public:
  Maker(const PlanFacts& facts, ThreadPool* pool, const Schedule* before, Schedule& schedule)
      : facts_(facts), plan_(*facts.plan), pool_(pool), before_(before), s_(schedule) {}

  Status make() {
    s_.tensors.resize(plan_.tensors.size());
    s_.locations.resize(plan_.tensors.size());
    s_.patches.resize(1 + plan_.inputs.size() + plan_.outputs.size());
    s_.linked.resize(s_.patches.size());
    s_.values.resize(plan_.tensors.size());
    s_.layers.resize(plan_.steps.size());
    for (size_t t = 0; t < plan_.tensors.size(); ++t)
      CAMSHAFT_TRY(set_extents(plan_.tensors[t], s_.bindings, s_.tensors[t]));
    for (size_t k = 0; k < plan_.inputs.size(); ++k) place_input(static_cast<int>(k));
    for (size_t k = 0; k < facts_.caches.size(); ++k)
      CAMSHAFT_TRY(leave_room_in(facts_.caches[k], s_.capacities[k]));
    CAMSHAFT_TRY(place_roots());
    for (size_t t = 0; t < plan_.tensors.size(); ++t) CAMSHAFT_TRY(place_view(static_cast<int>(t)));
    cut_batches();
    plan_arena();
    return make_steps();
  }

 private:
  bool known(int t) const { return s_.tensors[t].present(); }

  void place_input(int k) {
    const int t = plan_.inputs[k];
    const PlanTensor& tensor = plan_.tensors[t];
    s_.tensors[t] = kernels::make_view(nullptr, tensor.type, tensor.format, s_.input_extents[k]);
    s_.locations[t] = {Space::kBase, 1 + k, 0, nullptr};
  }

  Status leave_room_in(const CacheFacts& cache, int64_t capacity) {
    if (capacity == 0) return ok_status();
    const int present = plan_.outputs[cache.output];
    if (!known(present))
      return make_error(ErrorCode::kUnsupported, "output {}: its extents are known only in a run",
                        plan_.tensors[present].name);
    for (const int t : {plan_.inputs[cache.input], present})
      CAMSHAFT_TRY(leave_room(plan_.tensors[t], cache.axis, capacity, s_.tensors[t]));
    return ok_status();
  }

  size_t bytes_of(int t) const {
    return ir::bytes_for(s_.tensors[t].type, s_.tensors[t].elements());
  }

  Status place_roots() {
    block_of_.assign(plan_.tensors.size(), -1);
    for (size_t t = 0; t < plan_.tensors.size(); ++t)
      if (const int output = facts_.tensors[t].output; output >= 0) {
        const int root = facts_.tensors[t].root;
        if (plan_.tensors[root].role == TensorRole::kInput ||
            plan_.tensors[root].role == TensorRole::kConstant)
          return make_error(ErrorCode::kCorrupt, "output {} is a view of an input",
                            plan_.tensors[t].name);
        s_.locations[root] = {Space::kBase, 1 + static_cast<int>(plan_.inputs.size()) + output, 0,
                              nullptr};
      }
    for (size_t t = 0; t < plan_.tensors.size(); ++t) place_root(static_cast<int>(t));
    return ok_status();
  }

  void place_root(int t) {
    const TensorFacts& f = facts_.tensors[t];
    const PlanTensor& tensor = plan_.tensors[t];
    Location& location = s_.locations[t];
    if (f.root != t || tensor.role == TensorRole::kInput) return;
    if (tensor.role == TensorRole::kConstant) {
      location.space = Space::kFixed;
      if (tensor.data_bytes > 0 || bytes_of(t) == 0)
        location.fixed = facts_.engine->weights().data() + tensor.data_offset;
      return;
    }
    if (!known(t)) {
      location = {Space::kLate, 0, 0, nullptr};
      return;
    }
    if (f.constant_value && place_value(t)) return;
    if (location.space == Space::kBase) return;  // in an output buffer
    if (f.first_use < 0) return;
    location = {Space::kBase, kArenaBase, 0, nullptr};
    block_of_[t] = static_cast<int>(blocks_.size());
    blocks_.push_back({bytes_of(t), f.first_use, f.last_use, 0});
  }

  bool place_value(int t) {
    const PlanTensor& tensor = plan_.tensors[t];
    for (const Dim dim : *tensor.value)
      if (!s_.bindings.known(dim)) return false;
    if (s_.tensors[t].elements() != static_cast<int64_t>(tensor.value->size())) return false;
    auto bytes = std::make_unique<std::byte[]>(tensor.value->size() * 8 + 8);
    if (!write_value(tensor, s_.bindings, s_.tensors[t], bytes.get())) return false;
    s_.locations[t] = {Space::kFixed, 0, 0, bytes.get()};
    s_.values[t] = std::move(bytes);
    return true;
  }

  // Strides and offset of a view from those of its parent, which may itself be one.
  Status place_view(int t) {
    const PlanTensor& tensor = plan_.tensors[t];
    if (tensor.parent == kNoTensor || s_.locations[t].space != Space::kNone) return ok_status();
    CAMSHAFT_TRY(place_view(tensor.parent));
    const Location& from = s_.locations[tensor.parent];
    if (from.space == Space::kLate || !known(t) || !known(tensor.parent)) {
      s_.locations[t] = {Space::kLate, 0, 0, nullptr};
      s_.tensors[t].rank = -1;
      return ok_status();
    }
    return locate_view(facts_, t, {s_.tensors[tensor.parent], from},
                       s_.tensors[facts_.tensors[t].root], s_.bindings,
                       {s_.tensors[t], s_.locations[t]});
  }

  // Tensors of one pass need the memory of its images; all others of the group are in use from its
  // first step to its last, since the passes take turns.
  void cut_batches() {
    const auto l2_bytes = static_cast<int64_t>(cpu_info().l2_bytes);
    s_.passes = choose_image_passes(facts_, s_, l2_bytes * (pool_ ? pool_->threads() : 1));
    for (size_t t = 0; t < plan_.tensors.size(); ++t) {
      if (block_of_[t] < 0) continue;
      MemoryBlock& block = blocks_[block_of_[t]];
      for (const ImagePasses& passes : s_.passes) {
        if (block.last < passes.first || passes.last < block.first) continue;
        if (is_of_pass(facts_, s_, passes, static_cast<int>(t))) {
          block.bytes = block.bytes / passes.batch * passes.images;
        } else {
          block.first = std::min(block.first, passes.first);
          block.last = std::max(block.last, passes.last);
        }
      }
    }
  }

  const ImagePasses* passes_of(int step) const {
    for (const ImagePasses& passes : s_.passes)
      if (passes.contains(step)) return &passes;
    return nullptr;
  }

  // A pointwise step whose input dies with it writes over that input.
  void share_in_place() {
    for (size_t k = 0; k < plan_.steps.size(); ++k) {
      const PlanStep& step = plan_.steps[k];
      if (!facts_.steps[k].in_place || step.is_view || step.outputs.size() != 1 ||
          step.outputs[0] == kNoTensor)
        continue;
      const int output = step.outputs[0];
      if (block_of_[output] < 0 || facts_.tensors[output].first_use != static_cast<int>(k))
        continue;
      for (const int input : step.inputs)
        if (input != kNoTensor && can_share(step, static_cast<int>(k), input, output)) {
          MemoryBlock& block = blocks_[block_of_[input]];
          block.last = std::max(block.last, facts_.tensors[output].last_use);
          blocks_[block_of_[output]].bytes = 0;
          block_of_[output] = block_of_[input];
          break;
        }
    }
  }

  bool can_share(const PlanStep& step, int index, int input, int output) const {
    if (facts_.tensors[input].root != input || block_of_[input] < 0 ||
        block_of_[input] == block_of_[output])
      return false;
    if (blocks_[block_of_[input]].last != index || !known(input)) return false;
    int uses = 0;
    for (const int other : step.inputs)
      uses += other != kNoTensor && block_of_[facts_.tensors[other].root] == block_of_[input];
    const TensorView &a = s_.tensors[input], &b = s_.tensors[output];
    return uses == 1 && blocks_[block_of_[input]].bytes == blocks_[block_of_[output]].bytes &&
           a.format == b.format && ir::bits_of(a.type) == ir::bits_of(b.type) && a.rank == b.rank &&
           std::equal(a.extents, a.extents + a.rank, b.extents);
  }

  // So that the next sequence, likely one longer, finds its place here (advance), some hundred
  // tokens long.
  void leave_room_to_grow() {
    std::vector<bool> has_grown(blocks_.size());
    for (size_t t = 0; t < plan_.tensors.size(); ++t) {
      if (block_of_[t] < 0 || has_grown[block_of_[t]] || ir::all_known(plan_.tensors[t].shape))
        continue;
      has_grown[block_of_[t]] = true;
      size_t& bytes = blocks_[block_of_[t]].bytes;
      bytes += std::clamp<size_t>(bytes / 8, 1024, 16384);
    }
  }

  void plan_arena() {
    share_in_place();
    if (share_buffers(s_.capacities)) leave_room_to_grow();
    s_.room.resize(plan_.tensors.size());
    for (size_t t = 0; t < plan_.tensors.size(); ++t)
      if (block_of_[t] >= 0) s_.room[t] = blocks_[block_of_[t]].bytes;
    const bool as_before = before_ && take_places(before_->blocks, blocks_);
    s_.arena_bytes = as_before ? before_->arena_bytes : plan_memory(blocks_);
    for (size_t t = 0; t < plan_.tensors.size(); ++t) {
      const int root = facts_.tensors[t].root;
      if (block_of_[root] >= 0 && s_.locations[t].space == Space::kBase)
        s_.locations[t].offset += blocks_[block_of_[root]].offset;
    }
    s_.blocks = std::move(blocks_);
  }

  // --- steps
  enum class Fate { kSkip, kStatic, kLate };

  Fate fate(int k) const {
    const PlanStep& step = plan_.steps[k];
    const StepFacts& facts = facts_.steps[k];
    if (step.is_view) {
      for (const int t : step.outputs)
        if (t != kNoTensor && s_.locations[t].space == Space::kLate) return Fate::kLate;
      return Fate::kSkip;
    }
    bool late = facts.control_flow || step.dynamic_output ||
                (facts.reference && facts.reference->run_dynamic);
    bool any_output = false, any_unset = false;
    for (const int t : step.inputs) late |= t != kNoTensor && !known(t);
    for (const int t : step.outputs) {
      if (t == kNoTensor) continue;
      late |= !known(t);
      any_output |= !known(t) || s_.tensors[t].elements() != 0;
      any_unset |= s_.locations[t].space != Space::kFixed;
    }
    if (!any_unset) return Fate::kSkip;
    if (late) return Fate::kLate;
    return any_output ? Fate::kStatic : Fate::kSkip;
  }

  Status make_steps() {
    size_t num_args = 0, num_steps = 0;
    for (size_t k = 0; k < plan_.steps.size(); ++k) {
      const ImagePasses* passes = passes_of(static_cast<int>(k));
      const size_t times = passes ? static_cast<size_t>(passes->count()) : 1;
      num_args += times * (plan_.steps[k].inputs.size() + plan_.steps[k].outputs.size());
      num_steps += times;
    }
    s_.args.reserve(num_args);
    s_.pointers.reserve(num_args);
    s_.kernels.resize(plan_.steps.size());
    s_.prepared_for.assign(plan_.steps.size(), -1);
    s_.steps.reserve(num_steps);
    for (int k = 0; k < static_cast<int>(plan_.steps.size()); ++k) {
      const ImagePasses* passes = passes_of(k);
      CAMSHAFT_TRY(passes ? make_passes(*passes) : make_step(k, {}));
      if (passes) k = passes->last;
    }
    return ok_status();
  }

  // A part of the batch of a group.
  struct Part {
    const ImagePasses* passes = nullptr;  // null: the whole batch
    int64_t first = 0;                    // image
  };

  Status make_passes(const ImagePasses& passes) {
    for (int64_t first = 0; first < passes.batch; first += passes.images) {
      const Part part{&passes, first};
      for (int k = passes.first; k <= passes.last; ++k) CAMSHAFT_TRY(make_step(k, part));
    }
    return ok_status();
  }

  Status make_step(int k, const Part& part) {
    const Fate f = fate(k);
    if (f == Fate::kSkip) return ok_status();
    bool late = f == Fate::kLate;
    const PlanStep& step = plan_.steps[k];
    const StepFacts& facts = facts_.steps[k];
    ScheduledStep scheduled;
    scheduled.step = k;
    const ir::Layer* layer = &step.layer;
    if (!late && facts.symbolic_attributes) {
      if (!s_.layers[k]) s_.layers[k] = resolve_layer(step.layer, s_.bindings);
      layer = s_.layers[k].get();
      late = !layer;
    }
    if (late) {
      scheduled.is_late = true;
      s_.has_late_steps = true;
      s_.late.resize(plan_.steps.size());
      s_.steps.push_back(scheduled);
      return ok_status();
    }
    scheduled.call.inputs = s_.pointers.data() + s_.pointers.size();
    scheduled.args.layer = layer;
    scheduled.args.inputs = add_args(step, step.inputs, facts.packed_inputs, part);
    scheduled.call.outputs = s_.pointers.data() + s_.pointers.size();
    scheduled.args.outputs = add_args(step, step.outputs, 0, part);
    if (const CacheFacts* cache = appended_cache_of(facts_, s_, k))
      append_in_place(facts_, *cache, scheduled.args, s_);
    scheduled.call.packed = scheduled.args.packed = facts.packed;
    scheduled.call.pool = scheduled.args.pool = pool_of(step, pool_);
    set_kernel(scheduled);
    s_.steps.push_back(scheduled);
    return ok_status();
  }

  // The other schedule's kernel of a step, if it was prepared for the same.
  std::shared_ptr<kernels::PreparedKernel> kernel_before(const ScheduledStep& scheduled) const {
    if (!before_ || before_->prepared_for.empty() ||
        facts_.steps[scheduled.step].symbolic_attributes)
      return nullptr;
    const int other = before_->prepared_for[scheduled.step];
    if (other < 0) return nullptr;
    const KernelArgs& args = before_->steps[other].args;
    return lie_alike(args.inputs, scheduled.args.inputs) &&
                   lie_alike(args.outputs, scheduled.args.outputs)
               ? before_->kernels[scheduled.step]
               : nullptr;
  }

  // The parts of a batch have one size, so that one kernel serves all of them.
  void set_kernel(ScheduledStep& scheduled) {
    const StepFacts& facts = facts_.steps[scheduled.step];
    std::shared_ptr<kernels::PreparedKernel>& kernel = s_.kernels[scheduled.step];
    if (!kernel) {
      s_.prepared_for[scheduled.step] = static_cast<int>(s_.steps.size());
      kernel = kernel_before(scheduled);
    }
    if (!kernel) kernel = prepare_step(facts, scheduled.args);
    use_kernel(*kernel, scheduled, s_);
  }

  std::span<const TensorView> add_args(const PlanStep& step, const std::vector<int>& tensors,
                                       uint32_t packed, const Part& part) {
    const size_t first = s_.args.size();
    for (size_t k = 0; k < tensors.size(); ++k) {
      TensorView view;
      void* pointer = nullptr;
      if (const int t = tensors[k]; t != kNoTensor) {
        view = s_.tensors[t];
        const Location& location = s_.locations[t];
        const size_t skipped = part.passes ? cut(step, k, t, part, view) : 0;
        const bool in_packed = k < 32 && (packed >> k & 1);
        if (location.space == Space::kFixed && !in_packed)
          pointer = const_cast<std::byte*>(location.fixed) + skipped;
        if (location.space == Space::kBase)
          s_.patches[location.base].push_back(
              {static_cast<int>(s_.args.size()), location.offset + skipped});
      }
      if (view.present() && !(k < 32 && (packed >> k & 1)))
        view.data = pointer ? pointer : const_cast<std::byte*>(kSomewhere);
      s_.args.push_back(view);
      s_.pointers.push_back(pointer);
    }
    return {s_.args.data() + first, tensors.size()};
  }

  // Makes `view` of tensor `t` the part's images; gives the bytes before them.
  size_t cut(const PlanStep& step, size_t operand, int t, const Part& part,
             TensorView& view) const {
    if (!is_cut(step.layer, operand, view, s_.tensors[step.outputs[0]], part.passes->batch))
      return 0;
    view.extents[0] = part.passes->images;
    if (is_of_pass(facts_, s_, *part.passes, facts_.tensors[t].root)) return 0;
    return static_cast<size_t>(part.first * view.strides[0]) * (ir::bits_of(view.type) / 8);
  }

  const PlanFacts& facts_;
  const Plan& plan_;
  ThreadPool* pool_;
  const Schedule* before_;
  Schedule& s_;
  std::vector<MemoryBlock> blocks_;
  std::vector<int> block_of_;  // per root tensor, -1: not in the arena
};

}  // namespace

Result<std::unique_ptr<Schedule>> make_schedule(const PlanFacts& facts,
                                                std::span<const ir::Extents> inputs,
                                                const Bindings* outer, ThreadPool* pool,
                                                std::span<const int64_t> capacities,
                                                const Schedule* before) {
  auto schedule = std::make_unique<Schedule>();
  schedule->input_extents.assign(inputs.begin(), inputs.end());
  schedule->capacities.assign(capacities.begin(), capacities.end());
  schedule->capacities.resize(facts.caches.size());
  if (outer) schedule->outer = *outer;
  CAMSHAFT_ASSIGN(schedule->bindings, bind_symbols(*facts.plan, inputs, outer));
  CAMSHAFT_TRY(
      check_extents(facts, schedule->bindings, before ? &before->initial_bindings : nullptr));
  CAMSHAFT_TRY(Maker(facts, pool, before, *schedule).make());
  schedule->initial_bindings = schedule->bindings;
  return schedule;
}

}  // namespace camshaft::runtime
