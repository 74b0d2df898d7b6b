// SPDX-License-Identifier: Apache-2.0
#include "inspect/layers.h"

#include <algorithm>

#include "base/cpu.h"
#include "engine/sparsity_outcome.h"
#include "inspect/parameters.h"
#include "inspect/region_layers.h"
#include "inspect/work.h"
#include "kernels/probe.h"

namespace camshaft::inspect {
namespace {

using engine::kNoTensor;
using engine::Plan;
using engine::PlanStep;
using engine::PlanTensor;
using engine::TensorRole;

std::string pattern_of(const ir::WeightSparsity& zeros) {
  if (zeros.is_2_4()) return "2:4";
  return zeros.weights > 0 && 2 * zeros.nonzeros <= zeros.weights ? "unstructured" : "";
}

LayerSparsity describe_sparsity(const PlanStep& step) {
  const ir::WeightSparsity& zeros = step.sparsity;
  const engine::SparsityOutcome outcome = engine::sparsity_outcome(step);
  return {.weights = zeros.weights,
          .nonzeros = zeros.nonzeros,
          .groups = zeros.groups,
          .full_groups = zeros.full_groups,
          .pattern = pattern_of(zeros),
          .eligible = outcome.eligible,
          .picked = outcome.picked,
          .dense_time_us = outcome.dense_us,
          .sparse_time_us = outcome.sparse_us,
          .reason = outcome.reason};
}

std::string why_not(const engine::Candidate& candidate, double chosen_us) {
  if (candidate.chosen) return "";
  if (!candidate.refusal.empty()) return candidate.refusal;
  if (candidate.time_us <= 0) return "not timed: predicted slower";
  if (chosen_us > 0 && candidate.time_us >= chosen_us)
    return fmt::format("{:.2f} x the chosen one's time", candidate.time_us / chosen_us);
  if (engine::is_sparse_tactic(candidate.tactic) &&
      candidate.time_us * engine::kSparseGain >= chosen_us)
    return fmt::format("within the margin: sparse tactics have to be {:.0f} % faster",
                       (engine::kSparseGain - 1) * 100);
  return "its formats cost more in the layers around it";
}

std::vector<LayerCandidate> candidates_of(const engine::PlanStep& step) {
  const auto chosen = std::find_if(step.candidates.begin(), step.candidates.end(),
                                   [](const engine::Candidate& c) { return c.chosen; });
  const double chosen_us = chosen != step.candidates.end() ? chosen->time_us : step.build_time_us;
  std::vector<LayerCandidate> candidates;
  for (const engine::Candidate& c : step.candidates)
    candidates.push_back(
        {c.tactic, c.formats, c.time_us, c.refusal, c.chosen, why_not(c, chosen_us)});
  const auto key = [](const LayerCandidate& c) {
    const bool timed = c.time_us > 0;  // those that were refused as well: another form of the layer
    return std::make_tuple(!c.chosen, !timed && !c.refusal.empty(), !timed, c.time_us);
  };
  std::stable_sort(candidates.begin(), candidates.end(),
                   [&](const auto& a, const auto& b) { return key(a) < key(b); });
  return candidates;
}

void summarize(const Plan& plan, const PlanStep& step, const runtime::Context* context,
               LayerSummary& layer) {
  layer.name = step.layer.name;
  layer.type = layer_type(plan, step);
  layer.tactic = step.tactic;
  layer.isa = step.is_view ? "" : std::string(isa_name(step.isa));
  layer.is_no_op = step.is_view;
  layer.is_late = is_late(plan, step);
  for (const int input : step.inputs)
    if (input != kNoTensor &&
        plan.tensors[static_cast<size_t>(input)].role != TensorRole::kConstant)
      layer.inputs.push_back(describe_tensor(plan, input, context));
  for (const int output : step.outputs)
    if (output != kNoTensor) layer.outputs.push_back(describe_tensor(plan, output, context));
  layer.source_nodes = step.layer.onnx_nodes;
}

LayerInfo describe_step(const Plan& plan, size_t index, const runtime::Context* context) {
  const PlanStep& step = plan.steps[index];
  LayerInfo info;
  info.index = static_cast<int>(index);
  summarize(plan, step, context, info);
  info.arithmetic = step.arithmetic;
  info.tactic_value = step.tactic_value;
  const ir::DataType precision = tactic_precision(step);
  if (precision != ir::DataType::kUndefined)
    info.precision = static_cast<DataType>(precision);
  else if (!info.outputs.empty())
    info.precision = info.outputs[0].type;
  info.macs = multiply_adds(plan, step, context);
  info.counted_arithmetic = counted_arithmetic(step);
  const Traffic moved = traffic(plan, step, context);
  info.io_bytes = moved.io_bytes;
  info.weight_bytes = moved.weight_bytes;
  info.build_time_us = step.build_time_us;
  info.candidates = candidates_of(step);
  runtime::for_each_inner_step(step, [&info](const Plan& body, const PlanStep& inner, int depth) {
    InnerLayer& layer = info.inner.emplace_back();
    summarize(body, inner, nullptr, layer);
    layer.body = body.name;
    layer.depth = depth;
  });
  if (step.sparsity.weights > 0) info.sparsity = describe_sparsity(step);
  return info;
}

// Tactics are timed at the opt shapes of the first profile.
bool is_at_timed_shapes(const engine::Engine& engine, const runtime::Context& context) {
  if (engine.profiles().empty()) return true;
  const Plan& plan = engine.plan();
  for (const engine::ShapeRange& range : engine.profiles()[0])
    for (const int input : plan.inputs)
      if (plan.tensors[static_cast<size_t>(input)].name == range.input &&
          tensor_dims(plan, input, &context) != Dims(range.opt.begin(), range.opt.end()))
        return false;
  return true;
}

// Whether a tensor of the step has an extent of which `is_foreign(as planned, as it is now)`.
template <class IsForeign>
bool any_extent(const Plan& plan, const PlanStep& step, const runtime::Context& context,
                const IsForeign& is_foreign) {
  for (const std::vector<int>* side : {&step.inputs, &step.outputs})
    for (const int index : *side) {
      if (index == kNoTensor) continue;
      const ir::Shape& planned = plan.tensors[static_cast<size_t>(index)].shape;
      const Dims now = tensor_dims(plan, index, &context);
      for (size_t d = 0; d < std::min(planned.size(), now.size()); ++d)
        if (is_foreign(planned[d], now[d])) return true;
    }
  return false;
}

// A time belongs to the shapes it was taken at: a layer with others, or with extents that building
// could only guess, has none.
void drop_foreign_times(const engine::Engine& engine, const runtime::Context& context,
                        std::vector<LayerInfo>& layers) {
  const Plan& plan = engine.plan();
  const bool at_timed_shapes = is_at_timed_shapes(engine, context);
  const auto is_foreign = [&](ir::Dim planned, int64_t now) {
    return at_timed_shapes ? now >= 0 && plan.symbols.depends_on_runtime(planned)
                           : !planned.is_known();
  };
  for (size_t k = 0; k < layers.size(); ++k)
    if (any_extent(plan, plan.steps[k], context, is_foreign)) layers[k].build_time_us = 0;
}

bool multiplies_bfloat16(const LayerInfo& layer) {
  return layer.macs != 0 && layer.precision == DataType::kBFloat16 && layer.isa == "avx512";
}

bool multiplies_bytes(const LayerInfo& layer) {
  return layer.macs != 0 && !layer.inputs.empty() &&
         (layer.inputs[0].type == DataType::kUInt8 || layer.inputs[0].type == DataType::kInt8);
}

}  // namespace

ir::DataType tactic_precision(const PlanStep& step) {
  const kernels::Tactic* tactic = kernels::find_tactic(step.tactic, step.isa);
  return tactic != nullptr ? tactic->precision : ir::DataType::kUndefined;
}

std::string layer_type(const Plan& plan, const PlanStep& step) {
  if (step.is_view) return "NoOp";
  return is_quantization_copy(plan, step) ? "Reformat"
                                          : std::string(ir::kind_name(step.layer.kind));
}

Dims tensor_dims(const Plan& plan, int index, const runtime::Context* context) {
  if (context != nullptr) {
    if (auto view = context->tensor_view(index); view.ok() && view->present()) {
      return Dims(view->extents, view->extents + view->rank);
    }
  }
  Dims dims;
  for (ir::Dim dim : plan.tensors[static_cast<size_t>(index)].shape) {
    dims.push_back(dim.is_known() ? dim.extent() : -1);
  }
  return dims;
}

LayerTensor describe_tensor(const Plan& plan, int index, const runtime::Context* context) {
  const PlanTensor& tensor = plan.tensors[static_cast<size_t>(index)];
  LayerTensor result;
  result.name = tensor.name;
  result.type = static_cast<DataType>(tensor.type);
  result.dims = tensor_dims(plan, index, context);
  result.format = ir::format_description(tensor.format, tensor.type);
  result.scale = tensor.scale;
  result.zero_point = tensor.zero_point;
  return result;
}

double thread_peak_gmacs(const engine::Engine& engine) {
  if (engine.record().peak_gmacs > 0) return engine.record().peak_gmacs;
  if (engine.record().cpu_fingerprint != cpu_fingerprint()) return 0;
  static const double measured = kernels::measure_fma_peak(active_isa());
  return measured;
}

double peak_factor(const engine::Engine& engine, const LayerInfo& layer) {
  const bool bytes = multiplies_bytes(layer);
  if (!bytes && !multiplies_bfloat16(layer)) return 1;
  const engine::BuildRecord& record = engine.record();
  const double recorded = bytes ? record.byte_peak_gmacs : record.bf16_peak_gmacs;
  if (record.peak_gmacs > 0 && recorded > 0) return recorded / record.peak_gmacs;
  if (record.cpu_fingerprint != cpu_fingerprint()) return 1;
  const auto measured = [](auto measure) {
    return measure(active_isa(), 0.005) / kernels::measure_fma_peak(active_isa());
  };
  static const double byte_factor = measured(kernels::measure_byte_peak);
  static const double bf16_factor = measured(kernels::measure_bf16_peak);
  return bytes ? byte_factor : bf16_factor;
}

bool is_late(const Plan& plan, const PlanStep& step) {
  if (step.is_view || kernels::tactics_for(step.layer.kind).empty()) return false;
  for (const std::vector<int>* side : {&step.inputs, &step.outputs})
    for (const int index : *side) {
      if (index == kNoTensor) continue;
      const PlanTensor& tensor = plan.tensors[static_cast<size_t>(index)];
      if (!tensor.has_rank || std::any_of(tensor.shape.begin(), tensor.shape.end(), [&](ir::Dim d) {
            return plan.symbols.depends_on_runtime(d);
          }))
        return true;
    }
  return false;
}

std::vector<LayerInfo> collect_layers(const engine::Engine& engine,
                                      const runtime::Context* context) {
  std::vector<LayerInfo> layers;
  const Plan& plan = engine.plan();
  layers.reserve(plan.steps.size());
  for (size_t k = 0; k < plan.steps.size(); ++k) {
    layers.push_back(describe_step(plan, k, context));
    layers.back().peak_factor = peak_factor(engine, layers.back());
  }
  name_region_layers(plan, layers);
  if (context == nullptr) return layers;
  drop_foreign_times(engine, *context, layers);
  for (const runtime::ImagePasses& passes : context->image_passes())
    for (int k = passes.first; k <= passes.last; ++k)
      layers[static_cast<size_t>(k)].images_per_pass = passes.images;
  return layers;
}

}  // namespace camshaft::inspect
