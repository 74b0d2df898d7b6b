// SPDX-License-Identifier: Apache-2.0
// Steps whose shapes are known only when they run: shapes are inferred from real values, memory is
// taken, then the kernel called.
#include <algorithm>
#include <cstring>

#include "ir/infer.h"
#include "ir/kind_traits.h"
#include "kernels/reference/slice_range.h"
#include "runtime/executor.h"
#include "runtime/placing.h"
#include "runtime/settled_layer.h"
#include "runtime/step_problem.h"

namespace camshaft::runtime {
namespace {

using engine::kNoTensor;
using engine::PlanStep;
using engine::PlanTensor;
using ir::Dim;

template <class T>
std::vector<int64_t> read_as(const TensorView& view) {
  const T* data = view.as<const T>();
  return {data, data + view.elements()};
}

// Elements of a small integer tensor that lies dense.
std::optional<std::vector<int64_t>> small_values(const TensorView& view) {
  if (view.rank > 1 || view.elements() > kMaxValueElements || !view.data ||
      !kernels::is_dense(view))
    return {};
  switch (view.type) {
    case ir::DataType::kInt64:
      return read_as<int64_t>(view);
    case ir::DataType::kInt32:
      return read_as<int32_t>(view);
    case ir::DataType::kInt16:
      return read_as<int16_t>(view);
    case ir::DataType::kBool:
      return read_as<uint8_t>(view);
    default:
      return {};
  }
}

ir::InferInput infer_input(const TensorView& view, bool with_numbers, ir::SymbolTable& symbols) {
  ir::InferInput input;
  input.present = true;
  input.type = family_of(view.type);
  for (int d = 0; d < view.rank; ++d) input.shape.push_back(Dim(view.extents[d]));
  if (!with_numbers) return input;
  if (const auto values = small_values(view)) {
    input.value.emplace();
    for (const int64_t value : *values) input.value->push_back(symbols.constant(value));
  }
  if (view.type == ir::DataType::kFloat && view.rank <= 1 && kernels::is_dense(view))
    input.float_value = view.as<const float>();
  if (view.type == ir::DataType::kDouble && view.rank <= 1 && kernels::is_dense(view))
    input.double_value = view.as<const double>();
  return input;
}

// Both dense, element for element at the same place.
bool is_same_order(const TensorView& a, const TensorView& b) {
  if (!kernels::is_dense(a) || !kernels::is_dense(b)) return false;
  for (int d = 0; d < a.rank; ++d)
    if (a.extents[d] > 1 && a.strides[d] != b.strides[d]) return false;
  return true;
}

ir::Layer reformat_layer() {
  ir::Layer layer;
  layer.kind = ir::LayerKind::kReformat;
  layer.name = "copy of a result";
  layer.attrs = ir::NoAttrs();
  return layer;
}

}  // namespace

Status Executor::define_late(int t, std::span<const int64_t> extents, void* at) {
  const PlanTensor& tensor = plan().tensors[t];
  Bindings& bindings = current_->bindings;
  if (tensor.has_rank && tensor.shape.size() != extents.size())
    return make_error(ErrorCode::kInvalidModel, "tensor {}: rank {} where the model says {}",
                      tensor.name, extents.size(), tensor.shape.size());
  for (size_t d = 0; d < tensor.shape.size(); ++d) {
    const Dim dim = tensor.shape[d];
    if (bindings.known(dim)) {
      if (bindings.value(dim) != extents[d])
        return make_error(ErrorCode::kInvalidModel,
                          "tensor {}: extent {} in dimension {} where the model says {}",
                          tensor.name, extents[d], d, bindings.value(dim));
    } else if (plan().symbols.symbol(dim.symbol_id()).op == ir::SymbolOp::kRuntime) {
      bindings.values[dim.symbol_id()] = extents[d];
      bindings.bound[dim.symbol_id()] = true;
    }
  }
  plan().symbols.evaluate_all(bindings.values, bindings.bound);
  const int64_t elements = ir::element_count(extents);
  if (elements < 0 || elements > (int64_t{1} << 40))
    return make_error(ErrorCode::kInvalidArgument, "tensor {} would have {} elements", tensor.name,
                      elements);
  TensorView view = kernels::make_view(nullptr, tensor.type, tensor.format, extents);
  view.data = at ? at : late_[t].reserve(ir::bytes_for(tensor.type, elements));
  current_->tensors[t] = view;
  return place_aliases(t);
}

Status Executor::infer_outputs(const PlanStep& step, const ir::Layer& layer,
                               std::vector<ir::Extents>& extents) {
  ir::SymbolTable symbols;  // every extent is a number: symbols stand for negative values only
  const bool with_numbers = ir::traits_of(layer.kind).extents != ir::ExtentsAre::kInferred;
  std::vector<ir::InferInput> inputs;
  inputs.reserve(step.inputs.size());
  extents.reserve(step.outputs.size());
  for (const int t : step.inputs)
    inputs.push_back(t == kNoTensor ? ir::InferInput()
                                    : infer_input(tensor(t), with_numbers, symbols));
  CAMSHAFT_ASSIGN(const std::vector<ir::InferOutput> outputs, ir::infer(layer, inputs, symbols));
  for (size_t k = 0; k < step.outputs.size(); ++k) {
    ir::Extents list;
    if (k < outputs.size() && outputs[k].has_rank) {
      for (const Dim dim : outputs[k].shape) {
        if (!dim.is_known())
          return make_error(ErrorCode::kInvalidModel, "an output has the extent {}",
                            symbols.to_string(dim));
        list.push_back(dim.extent());
      }
    } else if (step.outputs[k] != kNoTensor) {
      return make_error(ErrorCode::kInternal, "output {} has no rank", k);
    }
    extents.push_back(list);
  }
  return ok_status();
}

Status Executor::run_dynamic(const PlanStep& step, const StepFacts& facts, const KernelArgs& args) {
  std::vector<kernels::DynamicOutput> outputs(step.outputs.size());
  CAMSHAFT_TRY(facts.reference->run_dynamic(args, outputs));
  for (size_t k = 0; k < step.outputs.size(); ++k) {
    const int t = step.outputs[k];
    if (t == kNoTensor) continue;
    if (k >= outputs.size() || outputs[k].type != plan().tensors[t].type)
      return make_error(ErrorCode::kInternal, "output {} has another type than the plan says", k);
    const TensorView made = kernels::make_view(outputs[k].bytes.data(), outputs[k].type,
                                               ir::Format::kLinear, outputs[k].extents);
    CAMSHAFT_TRY(store_result(t, made));
  }
  return ok_status();
}

Status Executor::store_result(int t, const TensorView& value) {
  if (!current_->tensors[t].present() || current_->locations[t].space == Space::kLate)
    CAMSHAFT_TRY(define_late(t, {value.extents, static_cast<size_t>(value.rank)}));
  const TensorView target = tensor(t);
  const bool same = target.rank == value.rank &&
                    std::equal(value.extents, value.extents + value.rank, target.extents);
  if (!same || target.type != value.type)
    return make_error(ErrorCode::kInvalidModel, "tensor {} got another shape than the model says",
                      plan().tensors[t].name);
  if (value.elements() == 0 || target.data == value.data) return ok_status();
  if (is_same_order(value, target)) {
    std::memcpy(target.data, value.data, ir::bytes_for(value.type, value.elements()));
    return ok_status();
  }
  // A part of a larger tensor, or in another format.
  static const ir::Layer copy = reformat_layer();
  KernelArgs args;
  args.layer = &copy;
  args.inputs = {&value, 1};
  args.outputs = {&target, 1};
  args.pool = &pool_;
  return kernels::reference_kernel(copy)->run(args);
}

Result<bool> Executor::define_outputs(int index, const KernelArgs& args) {
  const PlanStep& step = plan().steps[index];
  const StepFacts& facts = facts_.steps[index];
  const auto is_late = [&](int t) {
    return t != kNoTensor && current_->locations[t].space == Space::kLate;
  };
  if (std::none_of(step.outputs.begin(), step.outputs.end(), is_late) && !appends(facts))
    return false;
  std::vector<ir::Extents> extents;
  if (step.layer.kind == ir::LayerKind::kSlice && args.inputs.size() > 1) {
    CAMSHAFT_ASSIGN(const auto range, kernels::reference::slice_range(args));
    if (facts.views_input && !checking_) {
      CAMSHAFT_ASSIGN(const bool is_view, view_slice(step, args, range));
      if (is_view) return true;
    }
    extents.emplace_back(range.size.begin(), range.size.end());
  } else {
    CAMSHAFT_TRY(infer_outputs(step, *args.layer, extents));
  }
  if (appends(facts)) {
    CAMSHAFT_ASSIGN(const bool is_appended, append_late(index, args, extents[0]));
    if (is_appended) return true;
  }
  for (size_t k = 0; k < step.outputs.size(); ++k)
    if (is_late(step.outputs[k])) CAMSHAFT_TRY(define_late(step.outputs[k], extents[k]));
  return false;
}

Status Executor::run_late_kernel(int step_index) {
  const PlanStep& step = plan().steps[step_index];
  const StepFacts& facts = facts_.steps[step_index];
  LateRecord& record = current_->late[step_index];
  const ir::Layer* layer = &step.layer;
  if (facts.symbolic_attributes) {
    record.layer = resolve_layer(step.layer, current_->bindings);
    if (!record.layer)
      return make_error(ErrorCode::kInternal, "an attribute depends on a value that is not known");
    layer = record.layer.get();
  }
  KernelArgs args;
  args.layer = layer;
  args.packed = facts.packed;
  args.pool = pool_of(step, &pool_);
  std::vector<TensorView> inputs, outputs;
  inputs.reserve(step.inputs.size());
  outputs.reserve(step.outputs.size());
  for (size_t k = 0; k < step.inputs.size(); ++k) {
    inputs.push_back(step.inputs[k] == kNoTensor ? TensorView() : tensor(step.inputs[k]));
    if (k < 32 && (facts.packed_inputs >> k & 1)) inputs.back().data = nullptr;
  }
  args.inputs = inputs;
  if (facts.reference && facts.reference->run_dynamic) return run_dynamic(step, facts, args);

  CAMSHAFT_ASSIGN(const bool is_done, define_outputs(step_index, args));
  if (is_done) return ok_status();
  bool any_elements = false;
  for (const int t : step.outputs) {
    outputs.push_back(t == kNoTensor ? TensorView() : tensor(t));
    any_elements |= t != kNoTensor && outputs.back().elements() > 0;
  }
  if (!any_elements) return ok_status();
  args.outputs = outputs;
  record.kernel = {};
  if (!facts.tactic) {
    const bool is_settled = settle(step_index, args);
    return call_late(step_index, is_settled ? record.tactic : nullptr, args);
  }
  record.refused = !takes_late(step, facts, args);
  if (record.refused) {
    for (size_t k = 0; k < inputs.size(); ++k)
      if (step.inputs[k] != kNoTensor) inputs[k] = tensor(step.inputs[k]);
    return call_late(step_index, nullptr, args);
  }
  return call_late(step_index, facts.tactic, args);
}

bool Executor::settle(int index, KernelArgs& args) {
  LateRecord& record = current_->late[index];
  record.settled = settled_layer(*args.layer, args.inputs, args.outputs[0]);
  if (!record.settled) return false;
  kernels::Problem problem;
  problem.layer = record.settled.get();
  problem.inputs = {problem_tensor(args.inputs[0])};
  problem.outputs = {problem_tensor(args.outputs[0])};
  problem.threads = pool_.threads();
  record.tactic = best_tactic(problem);
  if (!record.tactic) {
    record.settled = nullptr;
    return false;
  }
  args.layer = record.settled.get();
  args.inputs = args.inputs.first(1);
  args.packed = nullptr;
  return true;
}

Status Executor::call_late(int index, const kernels::Tactic* tactic, KernelArgs args) {
  LateRecord& record = current_->late[index];
  if (!record.kernel.state || record.kernel_tactic != tactic) {
    record.kernel = tactic ? kernels::prepare_kernel(*tactic, args)
                           : kernels::prepare_kernel(*kernels::reference_kernel(*args.layer), args);
    record.kernel_tactic = tactic;
  }
  if (tactic) args.workspace = workspace(record.kernel.workspace_bytes);
  return call_step({index, tactic, record.kernel, args});
}

// The tactic was chosen, and its weights packed, for a guess of what only running can tell.
bool Executor::takes_late(const PlanStep& step, const StepFacts& facts,
                          const KernelArgs& args) const {
  for (size_t k = 0; k < step.inputs.size() && k < 32; ++k)
    if ((facts.packed_inputs >> k & 1) && !current_->locations[step.inputs[k]].fixed)
      return true;  // nothing was guessed: the constants are there for this tactic alone
  const StepViews views{args.inputs, args.outputs};
  const LayerProblem made =
      make_step_problem(facts_, step, current_->bindings, pool_.threads(), &views);
  if (!made.layer) return false;
  const kernels::Problem& problem = made.problem;
  const kernels::Tactic& tactic = *facts.tactic;
  const size_t packed_bytes = tactic.packed_bytes ? tactic.packed_bytes(problem) : 0;
  return tactic.refusal(problem).empty() && packed_bytes == step.packed_bytes;
}

Status Executor::run_late(const ScheduledStep& scheduled) {
  const PlanStep& step = plan().steps[scheduled.step];
  if (step.is_view) {
    for (const int t : step.outputs)
      if (t != kNoTensor) CAMSHAFT_TRY(place_late_view(t));
    return ok_status();
  }
  if (facts_.steps[scheduled.step].control_flow) return run_control_flow(scheduled.step);
  return run_late_kernel(scheduled.step);
}

}  // namespace camshaft::runtime
