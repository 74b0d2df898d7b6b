// SPDX-License-Identifier: Apache-2.0
// For tests and debugging: compares every tensor a context's steps make with what the interpreter
// makes of the same optimized graph, and names the steps that differ.
#pragma once

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "kernels/interpreter.h"
#include "passes/pipeline.h"
#include "runtime/context.h"

namespace camshaft::tuner {

// Element k (row major) of a view of any strides, as double.
inline double element(const kernels::TensorView& view, int64_t k) {
  int64_t offset = 0;
  for (int d = view.rank - 1; d >= 0; --d) {
    offset += k % view.extents[d] * view.strides[d];
    k /= view.extents[d];
  }
  switch (view.type) {
    case ir::DataType::kFloat:
      return view.as<float>()[offset];
    case ir::DataType::kInt64:
      return static_cast<double>(view.as<int64_t>()[offset]);
    case ir::DataType::kInt32:
      return view.as<int32_t>()[offset];
    case ir::DataType::kInt8:
      return view.as<int8_t>()[offset];
    case ir::DataType::kUInt8:
    case ir::DataType::kBool:
      return view.as<uint8_t>()[offset];
    default:
      return 0;
  }
}

// Largest difference, and the largest value it is to be seen against.
inline double difference(const kernels::TensorView& view, const kernels::Value& expected,
                         double& largest) {
  const std::vector<double> want = expected.to_doubles();
  largest = 0;
  if (static_cast<int64_t>(want.size()) != view.elements()) return INFINITY;
  double error = 0;
  for (size_t k = 0; k < want.size(); ++k) {
    const double d = std::fabs(element(view, static_cast<int64_t>(k)) - want[k]);
    largest = std::max(largest, std::fabs(want[k]));
    error = std::max(error, std::isnan(d) && !std::isnan(want[k]) ? INFINITY
                            : std::isnan(d)                       ? 0
                                                                  : d);
  }
  return error;
}

// `graph`: a fresh copy of what the context's engine was built from; `inputs` are what the context
// is bound to. Executes it.
inline Result<std::vector<std::string>> check_layers(ir::Graph& graph,
                                                     std::span<const kernels::Value> inputs,
                                                     runtime::Context& context,
                                                     double tolerance = 1e-4) {
  passes::PassRecord record;
  CAMSHAFT_TRY(passes::optimize(graph, record));
  std::map<std::string, kernels::Value> expected;
  kernels::EvaluateOptions evaluate;
  evaluate.observer = [&](const ir::Layer& layer, std::span<const kernels::Value* const> outputs) {
    for (size_t k = 0; k < outputs.size(); ++k)
      if (outputs[k] && layer.outputs[k]) expected[layer.outputs[k]->name] = *outputs[k];
  };
  CAMSHAFT_ASSIGN(const std::vector<kernels::Value> outputs,
                  kernels::evaluate(graph, inputs, evaluate));
  std::vector<std::string> differing;
  const auto& plan = context.engine().plan();
  context.set_profiler([&](const runtime::LayerTime& time) {
    const engine::PlanStep& step = plan.steps[time.step];
    for (const int t : step.outputs) {
      const auto found = t < 0 ? expected.end() : expected.find(plan.tensors[t].name);
      const auto view = context.tensor_view(t);
      if (found == expected.end() || !view.ok()) continue;
      double largest = 0;
      const double error = difference(view.value(), found->second, largest);
      if (error > tolerance * largest + 1e-9)
        differing.push_back(fmt::format("step {} {} {} [{}]: error {:.2e} of {:.2e}", time.step,
                                        ir::kind_name(step.layer.kind), step.layer.name,
                                        step.tactic, error, largest));
    }
  });
  const Status status = context.execute();
  context.set_profiler(nullptr);
  CAMSHAFT_TRY(status);
  return differing;
}

}  // namespace camshaft::tuner
