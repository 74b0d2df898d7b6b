// SPDX-License-Identifier: Apache-2.0
#include "inspect/layers.h"

#include <algorithm>

#include "base/cpu.h"
#include "engine/sparsity_outcome.h"
#include "inspect/parameters.h"
#include "inspect/region_layers.h"
#include "ir/chosen_product.h"
#include "ir/expert_weights.h"
#include "ir/weight_records.h"
#include "kernels/probe.h"

namespace camshaft::inspect {
namespace {

using engine::kNoTensor;
using engine::Plan;
using engine::PlanStep;
using engine::PlanTensor;
using engine::TensorRole;
using ir::LayerKind;

// A product that stays -1 once any factor is unknown.
double product(const Dims& dims, size_t first = 0) {
  double result = 1;
  for (size_t k = first; k < dims.size(); ++k) {
    if (dims[k] < 0) return -1;
    result *= static_cast<double>(dims[k]);
  }
  return result;
}

double times(double a, double b) {
  return a < 0 || b < 0 ? -1 : a * b;
}

struct Extents {
  const Plan& plan;
  const PlanStep& step;
  const runtime::Context* context;
  Dims of(const std::vector<int>& tensors, size_t k) const {
    return k < tensors.size() && tensors[k] != kNoTensor ? tensor_dims(plan, tensors[k], context)
                                                         : Dims{};
  }
  Dims input(size_t k) const { return of(step.inputs, k); }
  Dims output(size_t k) const { return of(step.outputs, k); }
};

double low_bit_macs(const Extents& extents) {
  const auto& weights = extents.step.layer.as<ir::LowBitMultiplyAttrs>();
  return times(product(extents.output(0)), static_cast<double>(weights.depth));
}

// Of the experts that are chosen.
double experts_macs(const Extents& extents) {
  const auto& a = extents.step.layer.as<ir::ExpertsAttrs>();
  const double weights = static_cast<double>(ir::up_product(a).columns * a.width +
                                             ir::down_product(a).columns * a.hidden);
  return times(product(extents.input(ir::kExpertsChosen)), weights);
}

double chosen_product_macs(const Extents& extents) {
  return times(product(extents.output(0)),
               static_cast<double>(extents.input(ir::kChosenWeights).back()));
}

double convolution_macs(const Extents& extents) {
  // Convolution: every output element sums over a filter; Deconvolution: every input element is
  // spread by one.
  const bool forward = extents.step.layer.kind == LayerKind::kConvolution;
  const Dims moved = forward ? extents.output(0) : extents.input(0);
  return times(product(moved), product(extents.input(1), 1));
}

double matmul_macs(const Extents& extents) {
  const Dims a = extents.input(0);
  if (a.empty()) return 0;
  const bool transpose = extents.step.layer.as<ir::MatrixMultiplyAttrs>().transpose_a;
  const int64_t k = transpose && a.size() > 1 ? a[a.size() - 2] : a.back();
  return times(product(extents.output(0)), static_cast<double>(k));
}

double recurrence_macs(const Extents& extents) {
  // Per step of the sequence and batch item: W x and R h of every gate and direction.
  const Dims x = extents.input(0);
  const Dims w = extents.input(1);
  const Dims r = extents.input(2);
  if (x.size() != 3) return 0;
  const double weights = product(w) < 0 || product(r) < 0 ? -1 : product(w) + product(r);
  return times(times(static_cast<double>(x[0]), static_cast<double>(x[1])), weights);
}

double tensor_bytes(const PlanTensor& tensor, const Dims& dims) {
  const double elements = product(dims);
  return elements < 0
             ? -1
             : static_cast<double>(ir::bytes_for(tensor.type, static_cast<int64_t>(elements)));
}

// Records of weights keep half of their header when they are packed, unless zero points differ.
double dropped_bytes(const ir::LowBits& weights) {
  const ir::RecordLayout layout(weights);
  const double of_record = weights.zero == ir::DataType::kFloat   ? 0
                           : weights.zero == ir::DataType::kUInt8 ? 3
                                                                  : sizeof(float);
  return of_record * static_cast<double>(layout.columns * layout.blocks());
}

double packed_bytes_of(const PlanStep& step, int tensor, double bytes) {
  if (const auto* weights = std::get_if<ir::LowBitMultiplyAttrs>(&step.layer.attrs))
    return tensor == step.inputs[1] ? bytes - dropped_bytes(*weights) : bytes;
  const auto* experts = std::get_if<ir::ExpertsAttrs>(&step.layer.attrs);
  if (!experts) return bytes;
  for (const auto& [input, product] : {std::pair(ir::kUpWeights, ir::up_product(*experts)),
                                       std::pair(ir::kDownWeights, ir::down_product(*experts))})
    if (tensor == step.inputs[input] && !product.is_float())
      bytes -= static_cast<double>(experts->experts) * dropped_bytes(product.low_bits());
  return bytes;
}

// The share of a tensor's bytes that the layer reads: weights of experts nobody can have chosen
// stay unread.
double share_read(const Extents& extents, int tensor) {
  const auto* experts = std::get_if<ir::ExpertsAttrs>(&extents.step.layer.attrs);
  const std::vector<int>& inputs = extents.step.inputs;
  if (!experts || (tensor != inputs[ir::kUpWeights] && tensor != inputs[ir::kDownWeights]))
    return 1;
  const double choices = product(extents.input(ir::kExpertsChosen));
  return choices < 0 ? 1 : std::min(1.0, choices / static_cast<double>(experts->experts));
}

void add_traffic(LayerInfo& info, const Plan& plan, const PlanStep& step,
                 const runtime::Context* context) {
  if (step.is_view) return;
  auto add = [&](double bytes) {
    info.io_bytes = bytes < 0 || info.io_bytes < 0 ? -1 : info.io_bytes + bytes;
  };
  for (const std::vector<int>* side : {&step.inputs, &step.outputs}) {
    for (int index : *side) {
      if (index == kNoTensor) continue;
      const PlanTensor& tensor = plan.tensors[static_cast<size_t>(index)];
      double bytes = tensor_bytes(tensor, tensor_dims(plan, index, context));
      bytes = packed_bytes_of(step, index, bytes);
      const bool is_weights = step.inputs.size() > 1 && index == step.inputs[1];
      if (is_weights && (step.packed_inputs & 2) != 0 && step.packed_bytes > 0)
        bytes = std::min(bytes, static_cast<double>(step.packed_bytes));  // of 16 bits, sparse
      if (tensor.role == TensorRole::kConstant) info.weight_bytes += std::max(bytes, 0.0);
      add(bytes * share_read({plan, step, context}, index));
    }
  }
}

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
  info.macs = step.is_view ? 0 : multiply_adds(plan, step, context);
  add_traffic(info, plan, step, context);
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

double multiply_adds(const Plan& plan, const PlanStep& step, const runtime::Context* context) {
  const Extents extents{plan, step, context};
  switch (step.layer.kind) {
    case LayerKind::kConvolution:
    case LayerKind::kDeconvolution:
      return convolution_macs(extents);
    case LayerKind::kMatrixMultiply:
      return matmul_macs(extents);
    case LayerKind::kLowBitMultiply:
      return low_bit_macs(extents);
    case LayerKind::kExperts:
      return experts_macs(extents);
    case LayerKind::kRecurrence:
      return recurrence_macs(extents);
    case LayerKind::kGeneric:
      return ir::is_chosen_product(step.layer) ? chosen_product_macs(extents) : 0;
    default:
      return 0;
  }
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

namespace {

const char* counted_arithmetic(std::string_view tactic) {
  if (tactic.find("winograd") != std::string_view::npos) return "direct arithmetic";
  return engine::is_sparse_tactic(tactic) ? "dense arithmetic" : "";
}

}  // namespace

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
    layers.back().counted_arithmetic = counted_arithmetic(layers.back().tactic);
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
