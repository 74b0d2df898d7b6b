// SPDX-License-Identifier: Apache-2.0
// If, Loop and Scan: bodies are plans of their own, run by executors of their own.
#include <cstring>

#include "runtime/executor.h"

namespace camshaft::runtime {
namespace {

using engine::kNoTensor;
using engine::PlanStep;

}  // namespace

Status Executor::run_body(Executor& body, std::span<const TensorView> inputs,
                          std::span<void* const> targets) {
  std::vector<ir::Extents> extents;
  for (const TensorView& view : inputs)
    extents.emplace_back(view.extents, view.extents + view.rank);
  CAMSHAFT_TRY(body.prepare(extents, &current_->bindings));
  for (size_t k = 0; k < inputs.size(); ++k) body.set_input(static_cast<int>(k), inputs[k].data);
  for (size_t k = 0; k < targets.size(); ++k) body.set_output(static_cast<int>(k), targets[k]);
  return body.run();
}

Status Executor::run_if(const PlanStep& step, std::vector<std::unique_ptr<Executor>>& bodies) {
  const TensorView condition = tensor(step.inputs[0]);
  if (condition.type != ir::DataType::kBool || condition.elements() != 1)
    return make_error(ErrorCode::kInvalidModel, "the condition is not one bool");
  Executor& body = *bodies[*condition.as<const uint8_t>() ? 0 : 1];
  std::vector<TensorView> inputs;
  for (size_t k = 1; k < step.inputs.size(); ++k) inputs.push_back(tensor(step.inputs[k]));
  if (inputs.size() != body.plan().inputs.size() ||
      step.outputs.size() != body.plan().outputs.size())
    return make_error(ErrorCode::kInternal, "a branch has other inputs or outputs");
  // A result whose place is known is written there by the branch itself.
  std::vector<void*> targets(step.outputs.size());
  for (size_t k = 0; k < step.outputs.size(); ++k) {
    const int t = step.outputs[k];
    if (t != kNoTensor && current_->locations[t].space == Space::kBase) targets[k] = address(t);
  }
  CAMSHAFT_TRY(run_body(body, inputs, targets));
  for (size_t k = 0; k < step.outputs.size(); ++k)
    if (step.outputs[k] != kNoTensor)
      CAMSHAFT_TRY(store_result(step.outputs[k], body.output(static_cast<int>(k))));
  return ok_status();
}

Status Executor::run_loop(const PlanStep&, Executor&) {
  return make_error(ErrorCode::kUnsupported, "Loop");
}
Status Executor::run_scan(const PlanStep&, Executor&) {
  return make_error(ErrorCode::kUnsupported, "Scan");
}

Status Executor::run_control_flow(int step_index) {
  const PlanStep& step = plan().steps[step_index];
  auto& bodies = bodies_[step_index];
  switch (step.layer.kind) {
    case ir::LayerKind::kIf:
      return run_if(step, bodies);
    case ir::LayerKind::kLoop:
      return run_loop(step, *bodies[0]);
    default:
      return run_scan(step, *bodies[0]);
  }
}

}  // namespace camshaft::runtime
