// SPDX-License-Identifier: Apache-2.0
// A schedule for a sequence that is longer by a token, made of the last one where it lies. Most of
// a decoder's steps see one token of any length: what does not hang on the length is not even
// looked at, for after a token's weights went through the caches every line of it comes from
// memory.
#include <algorithm>

#include "runtime/placing.h"
#include "runtime/schedule.h"
#include "runtime/step_problem.h"

namespace camshaft::runtime {
namespace {

using engine::kNoTensor;
using engine::Plan;
using engine::PlanStep;
using engine::PlanTensor;

class Advance {
 public:
  Advance(const PlanFacts& facts, Schedule& schedule)
      : facts_(facts), plan_(*facts.plan), s_(schedule) {}

  Result<bool> make(std::span<const ir::Extents> inputs, const Bindings* outer) {
    if (s_.has_late_steps || !s_.passes.empty() || !has_ranks(inputs)) return false;
    CAMSHAFT_ASSIGN(bindings_, bind_symbols(plan_, inputs, outer));
    if (bindings_.bound != s_.bindings.bound) return false;
    find_what_differs();
    for (const int k : steps_) CAMSHAFT_TRY(check_extents(facts_, k, bindings_));
    for (size_t k = 0; k < tensors_.size(); ++k) {
      CAMSHAFT_ASSIGN(const bool has_place, place(k));
      if (!has_place) return false;
    }
    for (const int k : steps_)
      if (!takes(k)) return false;
    s_.input_extents.assign(inputs.begin(), inputs.end());
    if (outer) s_.outer = *outer;
    commit();
    return true;
  }

 private:
  struct Placed {
    int tensor;
    TensorView view;
    Location location;
  };

  // The extents of inputs without a rank are no symbols.
  bool has_ranks(std::span<const ir::Extents> inputs) const {
    for (size_t k = 0; k < inputs.size(); ++k)
      if (!plan_.tensors[plan_.inputs[k]].has_rank && inputs[k] != s_.input_extents[k])
        return false;
    return true;
  }

  void find_what_differs() {
    std::vector<int> tensors;
    for (size_t symbol = 0; symbol < facts_.uses.size(); ++symbol) {
      if (bindings_.values[symbol] == s_.bindings.values[symbol]) continue;
      const SymbolUses& uses = facts_.uses[symbol];
      tensors.insert(tensors.end(), uses.tensors.begin(), uses.tensors.end());
      steps_.insert(steps_.end(), uses.steps.begin(), uses.steps.end());
    }
    // Views behind what they are views of.
    const auto in_order = [&](int a, int b) {
      const int of_a = facts_.tensors[a].depth, of_b = facts_.tensors[b].depth;
      return of_a != of_b ? of_a < of_b : a < b;
    };
    std::sort(tensors.begin(), tensors.end(), in_order);
    tensors.erase(std::unique(tensors.begin(), tensors.end()), tensors.end());
    std::sort(steps_.begin(), steps_.end());
    steps_.erase(std::unique(steps_.begin(), steps_.end()), steps_.end());
    place_of_.assign(plan_.tensors.size(), -1);
    for (const int t : tensors) {
      place_of_[t] = static_cast<int>(tensors_.size());
      tensors_.push_back({t, s_.tensors[t], s_.locations[t]});
    }
  }

  const TensorView& view_of(int t) const {
    return place_of_[t] >= 0 ? tensors_[place_of_[t]].view : s_.tensors[t];
  }
  const Location& location_of(int t) const {
    return place_of_[t] >= 0 ? tensors_[place_of_[t]].location : s_.locations[t];
  }

  // Where the tensor lies now; false: it has no room, or is there in another way.
  Result<bool> place(size_t k) {
    Placed& p = tensors_[k];
    const PlanTensor& tensor = plan_.tensors[p.tensor];
    if (!p.view.present()) return false;
    const bool was_empty = p.view.elements() == 0;
    CAMSHAFT_TRY(set_extents(tensor, bindings_, p.view));
    CAMSHAFT_TRY(leave_room_in_cache(p));
    if ((p.view.elements() == 0) != was_empty) return false;
    if (tensor.parent != kNoTensor) return place_view(p);
    const size_t bytes = ir::bytes_for(p.view.type, p.view.elements());
    if (s_.room[p.tensor] > 0) return bytes <= s_.room[p.tensor];
    if (facts_.tensors[p.tensor].constant_value)
      return s_.values[p.tensor] && p.view.elements() == static_cast<int64_t>(tensor.value->size());
    return true;  // an input, an output, or used by nothing
  }

  Status leave_room_in_cache(Placed& p) const {
    for (size_t k = 0; k < facts_.caches.size(); ++k) {
      const CacheFacts& cache = facts_.caches[k];
      if (s_.capacities[k] == 0 ||
          (p.tensor != plan_.inputs[cache.input] && p.tensor != plan_.outputs[cache.output]))
        continue;
      CAMSHAFT_TRY(leave_room(plan_.tensors[p.tensor], cache.axis, s_.capacities[k], p.view));
    }
    return ok_status();
  }

  Result<bool> place_view(Placed& p) const {
    const PlanTensor& tensor = plan_.tensors[p.tensor];
    const Location& from = location_of(tensor.parent);
    if (p.location.space != from.space || from.space == Space::kNone) return false;
    CAMSHAFT_TRY(locate_view(facts_, p.tensor, {view_of(tensor.parent), from},
                             view_of(facts_.tensors[p.tensor].root), bindings_,
                             {p.view, p.location}));
    return true;
  }

  // Whether a step can run as it did: what writes over its input still has that input's extents.
  bool takes(int k) {
    const PlanStep& step = plan_.steps[k];
    if (s_.prepared_for[k] < 0) return true;
    if (facts_.steps[k].symbolic_attributes) {
      layers_.emplace_back(k, resolve_layer(step.layer, bindings_));
      if (!layers_.back().second) return false;
    }
    if (!facts_.steps[k].in_place || step.outputs.size() != 1) return true;
    const Location& to = location_of(step.outputs[0]);
    const TensorView& output = view_of(step.outputs[0]);
    return std::all_of(step.inputs.begin(), step.inputs.end(), [&](int t) {
      if (t == kNoTensor) return true;
      const Location& from = location_of(t);
      const TensorView& input = view_of(t);
      const bool shared = from.space == Space::kBase && to.space == Space::kBase &&
                          from.base == to.base && from.offset == to.offset;
      return !shared || (input.rank == output.rank &&
                         std::equal(input.extents, input.extents + input.rank, output.extents));
    });
  }

  void commit() {
    for (const Placed& p : tensors_) {
      s_.tensors[p.tensor] = p.view;
      s_.locations[p.tensor] = p.location;
      if (std::byte* elements = s_.values[p.tensor].get())
        write_value(plan_.tensors[p.tensor], bindings_, p.view, elements);
    }
    std::vector<std::unique_ptr<ir::Layer>>
        before;  // their kernels may look at them until replaced
    for (auto& [k, layer] : layers_) {
      before.push_back(std::move(s_.layers[k]));
      s_.layers[k] = std::move(layer);
    }
    for (const int k : steps_)
      if (s_.prepared_for[k] >= 0) prepare(k);
    s_.bindings = bindings_;
    s_.initial_bindings = std::move(bindings_);
  }

  void prepare(int k) {
    const PlanStep& step = plan_.steps[k];
    ScheduledStep& scheduled = s_.steps[s_.prepared_for[k]];
    if (s_.layers[k]) scheduled.args.layer = s_.layers[k].get();
    set_args(step.inputs, scheduled.args.inputs);
    set_args(step.outputs, scheduled.args.outputs);
    if (const CacheFacts* cache = appended_cache_of(facts_, s_, k)) {
      append_in_place(facts_, *cache, scheduled.args, s_);
      link(s_.locations[step.outputs[0]].base, scheduled.args.outputs.data() - s_.args.data());
    }
    s_.kernels[k] = prepare_step(facts_.steps[k], scheduled.args);
    use_kernel(*s_.kernels[k], scheduled, s_);
  }

  void set_args(const std::vector<int>& tensors, std::span<const TensorView> args) {
    const size_t first = args.data() - s_.args.data();
    for (size_t k = 0; k < tensors.size(); ++k) {
      const int t = tensors[k];
      if (t == kNoTensor || place_of_[t] < 0) continue;
      TensorView& view = s_.args[first + k];
      void* const data = view.data;  // as long as it is there, its address says nothing
      view = s_.tensors[t];
      view.data = data;
      const Location& location = s_.locations[t];
      if (location.space == Space::kFixed && s_.pointers[first + k])
        view.data = s_.pointers[first + k] = const_cast<std::byte*>(location.fixed);
      if (location.space != Space::kBase) continue;
      find_patch(s_, location.base, first + k)->offset = location.offset;
      link(location.base, first + k);
    }
  }

  void link(int base, size_t arg) {
    if (void* pointer = s_.linked[base])
      s_.pointers[arg] = static_cast<std::byte*>(pointer) + find_patch(s_, base, arg)->offset;
  }

  const PlanFacts& facts_;
  const Plan& plan_;
  Schedule& s_;
  Bindings bindings_;
  std::vector<Placed> tensors_;
  std::vector<int> steps_;
  std::vector<int> place_of_;  // per tensor: in tensors_, or -1
  std::vector<std::pair<int, std::unique_ptr<ir::Layer>>> layers_;
};

}  // namespace

Result<bool> advance(const PlanFacts& facts, std::span<const ir::Extents> inputs,
                     const Bindings* outer, Schedule& schedule) {
  return Advance(facts, schedule).make(inputs, outer);
}

}  // namespace camshaft::runtime
