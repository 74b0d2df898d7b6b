// SPDX-License-Identifier: Apache-2.0
#include "tuner/layer_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

namespace camshaft::tuner {
namespace {

using kernels::TensorView;
using kernels::Value;

// The elements of a view of any strides, row major.
Result<Value> copied(const TensorView& view) {
  const ir::Extents extents(view.extents, view.extents + view.rank);
  const auto size = static_cast<size_t>(ir::bytes_for(view.type, 1));
  std::vector<std::byte> bytes(size * static_cast<size_t>(view.elements()));
  std::vector<int64_t> index(extents.size());
  const auto* source = static_cast<const std::byte*>(view.data);
  for (size_t at = 0; at < bytes.size(); at += size) {
    int64_t offset = 0;
    for (size_t d = 0; d < index.size(); ++d) offset += index[d] * view.strides[d];
    std::memcpy(&bytes[at], source + offset * static_cast<int64_t>(size), size);
    for (size_t d = index.size(); d-- > 0;) {
      if (++index[d] < extents[d]) break;
      index[d] = 0;
    }
  }
  return kernels::make_value(view.type, extents, std::move(bytes));
}

// What the engine stores in 16 bits where the network says float.
Result<Value> as_type(const Value& value, ir::DataType type) {
  if (value.type == type || type != ir::DataType::kFloat) return value;
  const std::vector<double> numbers = value.to_doubles();
  std::vector<std::byte> bytes(numbers.size() * sizeof(float));
  for (size_t k = 0; k < numbers.size(); ++k) {
    const auto number = static_cast<float>(numbers[k]);
    std::memcpy(&bytes[k * sizeof number], &number, sizeof number);
  }
  return kernels::make_value(type, value.extents, std::move(bytes));
}

void compare(const Value& found, const Value& expected, LayerCheck& check) {
  const std::vector<double> a = found.to_doubles(), b = expected.to_doubles();
  check.elements = static_cast<int64_t>(b.size());
  if (a.size() != b.size()) {
    check.error = INFINITY;
    return;
  }
  for (size_t k = 0; k < a.size(); ++k) {
    if (a[k] == b[k] || (std::isnan(a[k]) && std::isnan(b[k]))) {
      if (std::isfinite(b[k])) check.largest = std::max(check.largest, std::fabs(b[k]));
      continue;
    }
    ++check.differing;
    const double error = std::fabs(a[k] - b[k]);
    check.error = std::isnan(error) ? INFINITY : std::max(check.error, error);
    if (std::isfinite(b[k])) check.largest = std::max(check.largest, std::fabs(b[k]));
  }
}

struct Made {
  int step;
  Value value;
  double rounding;  // of the largest value, by 16-bit types
};

// Of sums over many products whose factors have 8 or 11 significant bits, or of their storage.
double rounding_of(ir::DataType type) {
  return type == ir::DataType::kBFloat16 ? 0.02 : type == ir::DataType::kHalf ? 0.002 : 0;
}

// What the step reads, multiplies in and writes: the coarsest counts.
double rounding_of(const engine::Plan& plan, const engine::PlanStep& step) {
  const kernels::Tactic* tactic = kernels::find_tactic(step.tactic, step.isa);
  double rounding = tactic != nullptr ? rounding_of(tactic->precision) : 0;
  for (const auto* side : {&step.inputs, &step.outputs})
    for (const int t : *side)
      if (t != engine::kNoTensor)
        rounding = std::max(rounding, rounding_of(plan.tensors[static_cast<size_t>(t)].type));
  return rounding;
}

// By name: every tensor of numbers that a step of the engine makes.
Result<std::map<std::string, Made>> made_by(runtime::Context& context) {
  std::map<std::string, Made> made;
  const auto& plan = context.engine().plan();
  Status failed = ok_status();
  context.set_profiler([&](const runtime::LayerTime& time) {
    const engine::PlanStep& step = plan.steps[static_cast<size_t>(time.step)];
    for (const int output : step.outputs) {
      if (output == engine::kNoTensor || step.is_view) continue;
      const auto view = context.tensor_view(output);
      if (!view.ok() || ir::bits_of(view.value().type) < 8 || view.value().data == nullptr)
        continue;
      Result<Value> value = copied(view.value());
      if (!value.ok()) failed = value.status();
      if (value.ok())
        made[plan.tensors[static_cast<size_t>(output)].name] = {time.step, std::move(value.value()),
                                                                rounding_of(plan, step)};
    }
  });
  const Status status = context.execute();
  context.set_profiler(nullptr);
  CAMSHAFT_TRY(status);
  CAMSHAFT_TRY(failed);
  return made;
}

}  // namespace

Result<std::vector<LayerCheck>> check_layers(const ir::Graph& optimized,
                                             std::span<const Value> inputs,
                                             runtime::Context& context, ThreadPool* pool) {
  CAMSHAFT_ASSIGN(auto made, made_by(context));
  const auto& plan = context.engine().plan();
  std::map<const ir::Tensor*, const Made*> known;  // not those of bodies, whatever their names
  for (const auto& layer : optimized.layers())
    for (const ir::Tensor* output : layer->outputs)
      if (const auto at = output ? made.find(output->name) : made.end(); at != made.end()) {
        CAMSHAFT_ASSIGN(at->second.value, as_type(at->second.value, output->type));
        known[output] = &at->second;
      }
  std::vector<LayerCheck> checks;
  kernels::EvaluateOptions options;
  options.pool = pool;
  options.observer = [&](const ir::Layer& layer, std::span<const Value* const> outputs) {
    for (size_t k = 0; k < outputs.size(); ++k) {
      const auto at = known.find(layer.outputs[k]);
      if (at == known.end() || outputs[k] == nullptr || kernels::is_random(layer)) continue;
      const engine::PlanStep& step = plan.steps[static_cast<size_t>(at->second->step)];
      LayerCheck check;
      check.step = at->second->step;
      check.layer = layer.name;
      check.tactic = step.tactic.empty() ? "reference" : step.tactic;
      check.tensor = layer.outputs[k]->name;
      check.type = outputs[k]->type;
      check.rounding = at->second->rounding;
      compare(at->second->value, *outputs[k], check);
      checks.push_back(std::move(check));
    }
  };
  options.substitute = [&](const ir::Tensor& tensor) -> std::optional<Value> {
    const auto at = known.find(&tensor);
    return at == known.end() ? std::nullopt : std::optional<Value>(at->second->value);
  };
  CAMSHAFT_TRY(kernels::evaluate(optimized, inputs, options).status());
  return checks;
}

std::string text_of(const LayerCheck& check) {
  if (ir::is_quantized(check.type))
    return fmt::format("step {} {} [{}]: {} of {} codes differ, by {} at most", check.step,
                       check.layer, check.tactic, check.differing, check.elements, check.error);
  return fmt::format("step {} {} [{}]: error {:.2e} of {:.2e}", check.step, check.layer,
                     check.tactic, check.error, check.largest);
}

}  // namespace camshaft::tuner
