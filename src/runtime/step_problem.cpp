// SPDX-License-Identifier: Apache-2.0
#include "runtime/step_problem.h"

#include <algorithm>

#include "ir/infer.h"

namespace camshaft::runtime {
namespace {

using engine::kNoTensor;
using engine::Plan;
using engine::PlanStep;
using engine::PlanTensor;
using engine::TensorRole;
using ir::Dim;

// Whether a tensor is a part of a larger one with gaps between its elements. A part along the
// outermost dimension that is not 1 has none.
bool has_gaps(const Plan& plan, int t) {
  for (; t != kNoTensor; t = plan.tensors[t].parent) {
    const int axis = plan.tensors[t].parent_axis;
    if (axis < 0) continue;
    const PlanTensor& whole = plan.tensors[plan.tensors[t].parent];
    const bool channel_last = whole.format == ir::Format::kChannelLast && whole.shape.size() >= 3;
    for (int d = 0; d < static_cast<int>(whole.shape.size()); ++d) {
      const bool is_outside =
          channel_last && (d == 1 || axis == 1) ? axis == 1 && d != 1 : d < axis;
      if (is_outside && whole.shape[d] != Dim(1)) return true;
    }
  }
  return false;
}

bool set_extents(const PlanTensor& tensor, const Bindings& bindings, ir::Extents& extents) {
  const std::optional<ir::Extents> known =
      tensor.has_rank ? extents_of(tensor.shape, bindings) : std::nullopt;
  if (known) extents = *known;
  return known.has_value();
}

std::span<const std::byte> stored_bytes(const PlanFacts& facts, const PlanTensor& tensor) {
  return facts.engine->weights().subspan(tensor.data_offset, tensor.data_bytes);
}

template <class T>
std::vector<Dim> read_values(std::span<const std::byte> bytes, ir::SymbolTable& symbols) {
  std::vector<Dim> values;
  const T* data = reinterpret_cast<const T*>(bytes.data());
  for (size_t k = 0; k < bytes.size() / sizeof(T); ++k) values.push_back(symbols.constant(data[k]));
  return values;
}

// What inference may know of a tensor: its numbers, and the elements of small constants.
bool infer_input(const PlanFacts& facts, int t, const Bindings& bindings, ir::SymbolTable& symbols,
                 ir::InferInput& input) {
  if (t == kNoTensor) return true;
  const PlanTensor& tensor = facts.plan->tensors[t];
  ir::Extents extents;
  if (!set_extents(tensor, bindings, extents)) return false;
  input.present = true;
  input.type = family_of(tensor.type);
  for (const int64_t extent : extents) input.shape.push_back(Dim(extent));
  if (tensor.value && bindings.known_all(*tensor.value)) {
    input.value.emplace();
    for (const Dim dim : *tensor.value)
      input.value->push_back(symbols.constant(bindings.value(dim)));
  }
  if (tensor.role != TensorRole::kConstant || extents.size() > 1 ||
      ir::element_count(extents) > kMaxValueElements)
    return true;
  const auto bytes = stored_bytes(facts, tensor);
  if (bytes.empty()) return true;
  switch (tensor.type) {
    case ir::DataType::kInt64:
      input.value = read_values<int64_t>(bytes, symbols);
      break;
    case ir::DataType::kInt32:
      input.value = read_values<int32_t>(bytes, symbols);
      break;
    case ir::DataType::kInt16:
      input.value = read_values<int16_t>(bytes, symbols);
      break;
    case ir::DataType::kBool:
      input.value = read_values<uint8_t>(bytes, symbols);
      break;
    case ir::DataType::kFloat:
      input.float_value = reinterpret_cast<const float*>(bytes.data());
      break;
    case ir::DataType::kDouble:
      input.double_value = reinterpret_cast<const double*>(bytes.data());
      break;
    default:
      break;
  }
  return true;
}

Status verify_shapes(const PlanFacts& facts, const PlanStep& step, const ir::Layer& layer,
                     const Bindings& bindings) {
  ir::SymbolTable symbols;
  std::vector<ir::InferInput> inputs(step.inputs.size());
  for (size_t k = 0; k < step.inputs.size(); ++k)
    if (!infer_input(facts, step.inputs[k], bindings, symbols, inputs[k])) return ok_status();
  CAMSHAFT_ASSIGN(const std::vector<ir::InferOutput> outputs, ir::infer(layer, inputs, symbols));
  for (size_t k = 0; k < step.outputs.size(); ++k) {
    if (step.outputs[k] == kNoTensor) continue;
    const PlanTensor& tensor = facts.plan->tensors[step.outputs[k]];
    if (k >= outputs.size()) return make_error(ErrorCode::kCorrupt, "it has no output {}", k);
    ir::Extents extents;
    // Whether an optional output is there is told by the layer's links, which a step does not have.
    if (outputs[k].type == ir::DataType::kUndefined) continue;
    if (family_of(outputs[k].type) != family_of(tensor.type))
      return make_error(ErrorCode::kCorrupt, "output {} has another type", tensor.name);
    if (!outputs[k].has_rank || !set_extents(tensor, bindings, extents)) continue;
    bool same = outputs[k].shape.size() == extents.size();
    for (size_t d = 0; same && d < extents.size(); ++d)
      same = !outputs[k].shape[d].is_known() || outputs[k].shape[d].extent() == extents[d];
    if (!same)
      return make_error(ErrorCode::kCorrupt, "output {} has another shape than its inputs give",
                        tensor.name);
  }
  return ok_status();
}

Status verify_tactic(const PlanStep& step, const kernels::Tactic& tactic,
                     const kernels::Problem& problem) {
  if (const std::string refusal = tactic.refusal(problem); !refusal.empty())
    return make_error(ErrorCode::kCorrupt, "tactic {} cannot run it: {}", tactic.name, refusal);
  const uint32_t packed_inputs = tactic.packed_inputs ? tactic.packed_inputs(problem) : 0;
  const size_t packed_bytes = tactic.packed_bytes ? tactic.packed_bytes(problem) : 0;
  if (packed_inputs != step.packed_inputs || packed_bytes != step.packed_bytes)
    return make_error(ErrorCode::kCorrupt, "tactic {} expects other packed weights", tactic.name);
  return ok_status();
}

}  // namespace

ir::DataType family_of(ir::DataType type) {
  return ir::is_16_bit_float(type) ? ir::DataType::kFloat : type;
}

LayerProblem make_step_problem(const PlanFacts& facts, const PlanStep& step,
                               const Bindings& bindings, int threads, const StepViews* views) {
  const Plan& plan = *facts.plan;
  const auto describe = [&](Side side, size_t k) -> std::optional<TensorSource> {
    const int t = side == Side::kInputs ? step.inputs[k] : step.outputs[k];
    TensorSource source;
    if (t == kNoTensor) return source;
    const PlanTensor& tensor = plan.tensors[t];
    const bool is_constant = side == Side::kInputs && tensor.role == TensorRole::kConstant;
    source.tensor.present = true;
    if (views) {
      const TensorView& view = side == Side::kInputs ? views->inputs[k] : views->outputs[k];
      source.tensor = problem_tensor(view);
      if (is_constant && tensor.data_bytes > 0) source.stored = stored_bytes(facts, tensor);
      return source;
    }
    const std::optional<ir::Extents> extents =
        tensor.has_rank ? extents_of(tensor.shape, bindings) : std::nullopt;
    if (!extents) return std::nullopt;
    source.tensor.type = tensor.type;
    source.tensor.format = tensor.format;
    source.tensor.dense = !has_gaps(plan, t);
    source.tensor.extents = *extents;
    if (is_constant) source.stored = stored_bytes(facts, tensor);
    return source;
  };
  return build_problem(step.layer, step.inputs.size(), step.outputs.size(), bindings, threads,
                       describe);
}

void replace_missing_tactics(PlanFacts& facts, const Bindings& bindings, int threads) {
  for (size_t k = 0; k < facts.plan->steps.size(); ++k) {
    const PlanStep& step = facts.plan->steps[k];
    if (step.tactic.empty() || facts.steps[k].tactic || facts.steps[k].control_flow || step.is_view)
      continue;
    const LayerProblem made = make_step_problem(facts, step, bindings, threads);
    if (!made.layer) continue;
    const kernels::Tactic* tactic = best_tactic(made.problem);
    if (!tactic) continue;
    facts.steps[k].tactic = tactic;
    facts.steps[k].reference = nullptr;
    facts.steps[k].packed_inputs = tactic->packed_inputs ? tactic->packed_inputs(made.problem) : 0;
    if (std::shared_ptr<std::byte[]> memory = pack_for(*tactic, made.problem)) {
      facts.steps[k].packed = memory.get();
      facts.repacked.push_back(std::move(memory));
    }
  }
}

Status verify_steps(const PlanFacts& facts, const Bindings& bindings) {
  for (size_t k = 0; k < facts.plan->steps.size(); ++k) {
    const PlanStep& step = facts.plan->steps[k];
    if (facts.steps[k].control_flow || step.dynamic_output) continue;
    const LayerProblem made =
        make_step_problem(facts, step, bindings, facts.engine->record().threads);
    if (!made.layer) continue;
    Status status = verify_shapes(facts, step, *made.layer, bindings);
    const kernels::Tactic* tactic = facts.steps[k].tactic;
    const bool as_planned = tactic && step.tactic == tactic->name && step.isa == tactic->isa;
    if (status.ok() && as_planned) status = verify_tactic(step, *tactic, made.problem);
    if (!status.ok())
      return Status(ErrorCode::kCorrupt, "layer " + step.layer.name + ": " + status.message());
  }
  return ok_status();
}

Status check_extents(const PlanFacts& facts, int k, const Bindings& bindings) {
  const PlanStep& step = facts.plan->steps[k];
  const StepFacts& step_facts = facts.steps[k];
  if (!step_facts.is_open || step_facts.control_flow || step.dynamic_output) return ok_status();
  std::unique_ptr<ir::Layer> resolved;
  if (step_facts.symbolic_attributes && !(resolved = resolve_layer(step.layer, bindings)))
    return ok_status();
  const ir::Layer& layer = resolved ? *resolved : step.layer;
  if (const Status status = verify_shapes(facts, step, layer, bindings); !status.ok())
    return Status(ErrorCode::kInvalidArgument,
                  "layer " + step.layer.name + ": " + status.message());
  return ok_status();
}

Status check_extents(const PlanFacts& facts, const Bindings& bindings, const Bindings* checked) {
  const auto is_checked = [&](int symbol) {
    return checked->bound[symbol] == bindings.bound[symbol] &&
           checked->values[symbol] == bindings.values[symbol];
  };
  for (size_t k = 0; k < facts.plan->steps.size(); ++k) {
    const std::vector<int>& symbols = facts.steps[k].symbols;
    if (checked && std::all_of(symbols.begin(), symbols.end(), is_checked)) continue;
    CAMSHAFT_TRY(check_extents(facts, static_cast<int>(k), bindings));
  }
  return ok_status();
}

}  // namespace camshaft::runtime
