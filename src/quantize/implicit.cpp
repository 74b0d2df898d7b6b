// SPDX-License-Identifier: Apache-2.0
#include "quantize/implicit.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "kernels/kernel.h"
#include "quantize/insert.h"
#include "quantize/simulate.h"

namespace camshaft::quantize {
namespace {

using ir::DataType;

constexpr float kInputRange = 2, kTensorRange = 4;

Scales made_up_scales(const ir::Graph& graph, const Placement& placement) {
  Scales scales;
  for (const ir::Tensor* tensor : tensors_to_calibrate(placement)) {
    const auto& inputs = graph.inputs();
    const bool is_input = std::find(inputs.begin(), inputs.end(), tensor) != inputs.end();
    scales[tensor->name] =
        (is_input ? kInputRange : kTensorRange) / static_cast<float>(kLargestCode);
  }
  return scales;
}

// "a, b, c and 12 more"
std::string some_of(const std::vector<std::string>& names) {
  constexpr size_t kShown = 5;
  const auto end = names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kShown));
  std::string text = fmt::format("{}", fmt::join(names.begin(), end, ", "));
  if (names.size() > kShown) text += fmt::format(" and {} more", names.size() - kShown);
  return text;
}

std::vector<std::string> patterns_of(const std::vector<LayerType>& types, DataType wanted) {
  std::vector<std::string> patterns;
  for (const LayerType& type : types)
    if (type.type == wanted) patterns.push_back(type.layer);
  return patterns;
}

Status check_names(const ir::Graph& graph, const PrecisionOptions& options) {
  for (const auto* types : {&options.precisions, &options.output_types})
    for (const LayerType& type : *types) {
      const std::vector<std::string> pattern = {type.layer};
      if (unmatched_pattern(pattern, graph) != nullptr)
        return make_error(ErrorCode::kInvalidArgument,
                          "precision constraint: the network has no layer \"{}\"", type.layer);
    }
  return ok_status();
}

Status insert(ir::Graph& graph, const PrecisionOptions& options, PrecisionReport& report) {
  PlacementOptions placing;
  if (options.constraints != Constraints::kNone)
    placing.keep_float = patterns_of(options.precisions, DataType::kFloat);
  const Placement placement = find_placement(graph, placing);
  std::vector<std::string> missing;
  const Scales made_up = options.scales == nullptr ? made_up_scales(graph, placement) : Scales();
  const std::vector<float> scales =
      assign_scales(placement, options.scales == nullptr ? made_up : *options.scales, &missing);
  if (!missing.empty() && missing.size() == tensors_to_calibrate(placement).size())
    return make_error(ErrorCode::kInvalidArgument,
                      "the calibration cache has no scale for any tensor of this network that "
                      "could be int8 ({})",
                      some_of(missing));
  if (!missing.empty())
    report.warnings.push_back(fmt::format(
        "{} of {} tensors have no scale in the calibration cache, the layers that read them stay "
        "float: {}",
        missing.size(), tensors_to_calibrate(placement).size(), some_of(missing)));
  CAMSHAFT_ASSIGN(const std::vector<std::string> left,
                  insert_quantization(graph, placement, scales));
  for (const WeightUse& use : placement.weights)
    if (std::find(left.begin(), left.end(), use.layer->name) == left.end())
      ++report.quantized_layers;
  return ok_status();
}

// The step that does the work of an ONNX node: the one whose provenance has it.
bool is_step_of(const engine::PlanStep& step, const std::string& pattern) {
  return !step.is_view && step.layer.kind != ir::LayerKind::kReformat &&
         matches_layer(pattern, step.layer);
}

DataType type_of(const engine::Plan& plan, const std::vector<int>& tensors) {
  if (tensors.empty() || tensors[0] == engine::kNoTensor) return DataType::kUndefined;
  return plan.tensors[static_cast<size_t>(tensors[0])].type;
}

bool has_precision(DataType type) {
  return type == DataType::kFloat || ir::is_16_bit_float(type) || ir::is_quantized(type);
}

// kInt8 for all 8-bit codes.
DataType precision_of(DataType type) {
  return ir::is_quantized(type) ? DataType::kInt8 : type;
}

// What a step computes in: what its tactic says, else what it reads.
DataType computed_type(const engine::Plan& plan, const engine::PlanStep& step) {
  if (const kernels::Tactic* tactic = kernels::find_tactic(step.tactic, step.isa))
    if (tactic->precision != DataType::kUndefined) return tactic->precision;
  return type_of(plan, step.inputs);
}

const char* precision_name(DataType type) {
  if (ir::is_quantized(type)) return "int8";
  return type == DataType::kBFloat16 ? "bf16" : type == DataType::kHalf ? "fp16" : "fp32";
}

}  // namespace

Result<PrecisionReport> apply_precision(ir::Graph& graph, const PrecisionOptions& options) {
  PrecisionReport report;
  CAMSHAFT_TRY(check_names(graph, options));
  const bool has_types = !options.precisions.empty() || !options.output_types.empty();
  if (has_types && options.constraints == Constraints::kNone)
    report.warnings.emplace_back(
        "layer precisions and output types have no effect without precision constraints "
        "(prefer or obey)");
  if (has_quantization(graph)) {
    if (options.scales != nullptr)
      report.warnings.emplace_back(
          "Calibrator won't be used in explicit precision mode: the network has Q/DQ, and its own "
          "scales are used");
    const std::vector<std::string> patterns = patterns_of(options.precisions, DataType::kFloat);
    if (options.constraints != Constraints::kNone && !patterns.empty())
      CAMSHAFT_TRY(keep_in_float(graph, patterns));
    return report;
  }
  if (!options.int8) return report;
  if (options.scales == nullptr)
    report.warnings.emplace_back(
        "int8 without Q/DQ and without a calibration cache: made-up scales, for timing only; the "
        "outputs mean nothing (camshaft quantize calibrates on real data)");
  CAMSHAFT_TRY(insert(graph, options, report));
  return report;
}

Status check_precision(const engine::Plan& plan, const PrecisionOptions& options,
                       PrecisionReport& report) {
  if (options.constraints == Constraints::kNone) return ok_status();
  const auto violated = [&](const LayerType& wanted, const engine::PlanStep& step, DataType actual,
                            const char* what) -> Status {
    const std::string text =
        fmt::format("layer \"{}\" {} {}, not {} as asked for \"{}\"", step.layer.name, what,
                    precision_name(actual), precision_name(wanted.type), wanted.layer);
    if (options.constraints == Constraints::kObey)
      return make_error(ErrorCode::kUnsupported, "precision constraint: {}", text);
    report.warnings.push_back(text);
    return ok_status();
  };
  for (const engine::PlanStep& step : plan.steps) {
    for (const LayerType& wanted : options.precisions) {
      const DataType actual = computed_type(plan, step);
      if (is_step_of(step, wanted.layer) && has_precision(actual) &&
          precision_of(actual) != precision_of(wanted.type))
        CAMSHAFT_TRY(violated(wanted, step, actual, "computes in"));
    }
    for (const LayerType& wanted : options.output_types) {
      const DataType actual = type_of(plan, step.outputs);
      if (is_step_of(step, wanted.layer) && has_precision(actual) &&
          precision_of(actual) != precision_of(wanted.type))
        CAMSHAFT_TRY(violated(wanted, step, actual, "writes"));
    }
  }
  return ok_status();
}

}  // namespace camshaft::quantize
