// SPDX-License-Identifier: Apache-2.0
// What a plan is, whatever the shapes: kernels looked up, roots of views, producers.
#include <algorithm>

#include "ir/kind_traits.h"
#include "runtime/open_extents.h"
#include "runtime/schedule.h"

namespace camshaft::runtime {
namespace {

void sort_unique(std::vector<int>& list) {
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

// The symbols that attributes hold.
struct SymbolFinder {
  std::vector<int> found;
  void add(std::span<const ir::Dim> dims) {
    for (const ir::Dim dim : dims)
      if (!dim.is_known()) found.push_back(static_cast<int>(dim.symbol_id()));
  }
  template <class T>
  void operator()(const char*, const T& field) {
    if constexpr (std::is_same_v<T, ir::Shape>) add(field);
  }
};

std::vector<int> symbols_of(const ir::Layer& layer) {
  SymbolFinder finder;
  std::visit([&](const auto& a) { std::decay_t<decltype(a)>::fields(a, finder); }, layer.attrs);
  return std::move(finder.found);
}

std::vector<int> symbols_of(const engine::Plan& plan, const engine::PlanStep& step) {
  SymbolFinder finder{symbols_of(step.layer)};
  for (const auto* side : {&step.inputs, &step.outputs})
    for (const int t : *side) {
      if (t == engine::kNoTensor) continue;
      finder.add(plan.tensors[t].shape);
      if (plan.tensors[t].value) finder.add(*plan.tensors[t].value);
    }
  sort_unique(finder.found);
  return std::move(finder.found);
}

bool raw_constants_stored(const engine::Plan& plan, const engine::PlanStep& step) {
  for (const int input : step.inputs) {
    if (input == engine::kNoTensor) continue;
    const engine::PlanTensor& t = plan.tensors[input];
    if (t.role != engine::TensorRole::kConstant || t.data_bytes > 0 || t.value) continue;
    for (const ir::Dim dim : t.shape)
      if (dim == ir::Dim(0)) return true;
    return false;
  }
  return true;
}

// The tactic the plan names, or, on a machine without it, the reference kernel on the stored
// constants.
Status find_kernel(const engine::Plan& plan, const engine::PlanStep& step,
                   std::span<const std::byte> weights, StepFacts& facts) {
  if (!step.tactic.empty()) {
    const kernels::Tactic* tactic = kernels::find_tactic(step.tactic, step.isa);
    if (tactic && tactic->kind == step.layer.kind && tactic->version == step.tactic_version) {
      facts.tactic = tactic;
      facts.packed = weights.data() + step.packed_offset;
      facts.packed_inputs = step.packed_inputs;
      return ok_status();
    }
    if (!raw_constants_stored(plan, step)) {
      if (step.isa > active_isa())
        return make_error(ErrorCode::kUnsupported,
                          "layer {}: tactic {} needs {}, this machine has {}: build the engine "
                          "here, or as portable",
                          step.layer.name, step.tactic, isa_name(step.isa), isa_name(active_isa()));
      return make_error(
          ErrorCode::kUnsupported,
          "layer {}: this version, or this machine, has no tactic {} version {}: build the engine "
          "here, or as portable",
          step.layer.name, step.tactic, step.tactic_version);
    }
  }
  facts.reference = kernels::reference_kernel(step.layer);
  if (!facts.reference)
    return make_error(ErrorCode::kUnsupported, "layer {}: no kernel for {}", step.layer.name,
                      ir::kind_name(step.layer.kind));
  return ok_status();
}

bool leaves_elements_in_place(const ir::Layer& layer) {
  if (ir::traits_of(layer.kind).elements != ir::Elements::kMixed) return true;
  const auto* generic = std::get_if<ir::GenericAttrs>(&layer.attrs);
  return generic && generic->op_type == "Dropout";
}

Status fill_steps(PlanFacts& facts) {
  for (const engine::PlanStep& step : facts.plan->steps) {
    StepFacts s;
    s.control_flow = !step.bodies.empty();
    s.in_place = leaves_elements_in_place(step.layer);
    s.symbolic_attributes = !symbols_of(step.layer).empty();
    s.is_open = has_open_extents(*facts.plan, step);
    if (s.is_open) s.symbols = symbols_of(*facts.plan, step);
    if (!step.is_view && !s.control_flow)
      CAMSHAFT_TRY(find_kernel(*facts.plan, step, facts.engine->weights(), s));
    facts.steps.push_back(std::move(s));
  }
  return ok_status();
}

void fill_tensors(PlanFacts& facts) {
  const engine::Plan& plan = *facts.plan;
  const int count = static_cast<int>(plan.tensors.size());
  facts.tensors.resize(count);
  for (int t = 0; t < count; ++t) {
    TensorFacts& f = facts.tensors[t];
    f.root = t;
    for (; plan.tensors[f.root].parent != engine::kNoTensor; ++f.depth)
      f.root = plan.tensors[f.root].parent;
  }
  std::vector<bool> in_group(count);  // tensors whose memory others share
  for (int t = 0; t < count; ++t)
    if (facts.tensors[t].root != t) in_group[t] = in_group[facts.tensors[t].root] = true;
  for (int t = 0; t < count; ++t)
    facts.tensors[t].constant_value = plan.tensors[t].value &&
                                      plan.tensors[t].role == engine::TensorRole::kActivation &&
                                      !in_group[t];
  for (size_t o = 0; o < plan.outputs.size(); ++o)
    facts.tensors[plan.outputs[o]].output = static_cast<int>(o);
  for (size_t s = 0; s < plan.steps.size(); ++s)
    for (const int t : plan.steps[s].outputs)
      if (t != engine::kNoTensor) facts.tensors[t].producer = static_cast<int>(s);
  for (int t = 0; t < count; ++t)
    if (const int parent = plan.tensors[t].parent;
        parent != engine::kNoTensor && facts.tensors[t].producer < 0)
      facts.tensors[parent].aliases.push_back(t);
}

// First and last step that touch the memory of each root, over all views of it.
void fill_lifetimes(PlanFacts& facts) {
  const engine::Plan& plan = *facts.plan;
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const auto touch = [&](int t) {
      if (t == engine::kNoTensor) return;
      TensorFacts& root = facts.tensors[facts.tensors[t].root];
      if (root.first_use < 0) root.first_use = static_cast<int>(s);
      root.last_use = static_cast<int>(s);
    };
    for (const int t : plan.steps[s].inputs) touch(t);
    for (const int t : plan.steps[s].outputs) touch(t);
  }
}

// Symbols of a tensor and of all it is a view of.
std::vector<int> symbols_of(const engine::Plan& plan, int t) {
  SymbolFinder finder;
  for (; t != engine::kNoTensor; t = plan.tensors[t].parent) {
    const engine::PlanTensor& tensor = plan.tensors[t];
    finder.add(tensor.shape);
    if (tensor.value) finder.add(*tensor.value);
    if (tensor.parent != engine::kNoTensor) finder.add(std::span(&tensor.parent_offset, 1));
  }
  sort_unique(finder.found);
  return std::move(finder.found);
}

// Inputs and constants stay as they are while the plan runs.
bool slices_input(const PlanFacts& facts, const engine::PlanStep& step) {
  if (step.layer.kind != ir::LayerKind::kSlice || step.inputs.size() < 2 ||
      step.inputs[0] == engine::kNoTensor || step.outputs[0] == engine::kNoTensor)
    return false;
  const engine::TensorRole role = facts.plan->tensors[facts.tensors[step.inputs[0]].root].role;
  return role == engine::TensorRole::kInput || role == engine::TensorRole::kConstant;
}

void fill_uses(PlanFacts& facts) {
  const engine::Plan& plan = *facts.plan;
  facts.uses.resize(plan.symbols.size());
  std::vector<std::vector<int>> symbols(plan.tensors.size());
  for (size_t t = 0; t < plan.tensors.size(); ++t) {
    symbols[t] = symbols_of(plan, static_cast<int>(t));
    for (const int symbol : symbols[t]) facts.uses[symbol].tensors.push_back(static_cast<int>(t));
  }
  for (size_t k = 0; k < plan.steps.size(); ++k) {
    std::vector<int> found = symbols_of(plan.steps[k].layer);
    for (const auto* side : {&plan.steps[k].inputs, &plan.steps[k].outputs})
      for (const int t : *side)
        if (t != engine::kNoTensor) found.insert(found.end(), symbols[t].begin(), symbols[t].end());
    sort_unique(found);
    for (const int symbol : found) facts.uses[symbol].steps.push_back(static_cast<int>(k));
  }
}

}  // namespace

Result<PlanFacts> PlanFacts::make(const engine::Engine& engine, const engine::Plan& plan) {
  PlanFacts facts;
  facts.engine = &engine;
  facts.plan = &plan;
  CAMSHAFT_TRY(fill_steps(facts));
  fill_tensors(facts);
  fill_lifetimes(facts);
  find_continued(facts);
  for (size_t k = 0; k < plan.steps.size(); ++k)
    facts.steps[k].views_input = slices_input(facts, plan.steps[k]);
  fill_uses(facts);
  return facts;
}

}  // namespace camshaft::runtime
