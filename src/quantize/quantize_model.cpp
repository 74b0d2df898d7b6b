// SPDX-License-Identifier: Apache-2.0
#include "quantize/quantize_model.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "onnx/importer.h"

namespace camshaft::quantize {
namespace {

using ir::Layer;
using ir::LayerKind;

Status check_patterns(const ir::Graph& graph, const PlacementOptions& options) {
  for (const auto* patterns : {&options.keep_float, &options.only})
    if (const std::string* pattern = unmatched_pattern(*patterns, graph))
      return make_error(ErrorCode::kInvalidArgument, "no layer of the network is called \"{}\"",
                        *pattern);
  return ok_status();
}

// Flattening over trailing extents of 1 is the same as normalizing over the one axis.
SoftmaxAxis softmax_axis_of(const ir::Graph& graph) {
  return [&graph](const std::string& output) -> int64_t {
    for (const auto& layer : graph.layers()) {
      if (layer->kind != LayerKind::kSoftMax || layer->outputs[0]->name != output) continue;
      const auto& attrs = layer->as<ir::SoftMaxAttrs>();
      int64_t last = attrs.last_axis;
      const ir::Shape& shape = layer->inputs[0]->shape;
      while (last > attrs.axis && shape[static_cast<size_t>(last)] == ir::Dim(1)) --last;
      return last == attrs.axis ? attrs.axis : -1;
    }
    return -1;
  };
}

// Layers whose data inputs all have scales; the others keep their weights, too.
std::unordered_set<const Layer*> layers_without_scales(const Placement& placement,
                                                       const std::vector<ActivationGrid>& grids) {
  std::unordered_set<const Layer*> layers;
  for (size_t k = 0; k < grids.size(); ++k)
    if (grids[k].scale == 0) layers.insert(placement.activations[k].layer);
  return layers;
}

// The layer's bias, if it has a constant one or none, with `shift` added.
Status shift_bias(OnnxFile& file, const Layer& layer, const std::vector<float>& shift,
                  QuantizeReport& report) {
  constexpr size_t kBias = 2;
  std::vector<float> values = shift;
  const ir::Tensor* const bias = layer.inputs.size() > kBias ? layer.inputs[kBias] : nullptr;
  if (bias != nullptr) {
    if (!is_constant_expression(bias) || bias->type != ir::DataType::kFloat) return ok_status();
    CAMSHAFT_ASSIGN(const kernels::Value value, evaluate_constant(bias));
    if (value.as<float>().size() != values.size()) return ok_status();
    for (size_t k = 0; k < values.size(); ++k) values[k] += value.as<float>()[k];
  }
  ++report.biases;
  return file.set_vector(layer.outputs[0]->name, kBias, "bias_shifted", values);
}

Status edit(OnnxFile& file, const Placement& placement, const std::vector<ActivationGrid>& grids,
            const Shifts& shifts, QuantizeReport& report) {
  const std::unordered_set<const Layer*> left = layers_without_scales(placement, grids);
  for (size_t k = 0; k < grids.size(); ++k) {
    const ActivationUse& use = placement.activations[k];
    if (left.count(use.layer) > 0) continue;
    CAMSHAFT_TRY(file.quantize_activation(use.layer->outputs[0]->name, use.input, grids[k]));
  }
  std::unordered_map<const ir::Tensor*, QuantizedWeights> done;
  for (const WeightUse& use : placement.weights) {
    if (left.count(use.layer) > 0) {
      report.in_float.emplace_back(use.layer->name, "its input has no scale");
      continue;
    }
    auto found = done.find(use.tensor);
    if (found == done.end() || found->second.axis != use.axis) {
      CAMSHAFT_ASSIGN(QuantizedWeights weights, quantize_weights(use));
      report.int8_bytes += weights.codes.size() + 4 * weights.scales.size();
      report.float_bytes += 4 * weights.codes.size();
      found = done.insert_or_assign(use.tensor, std::move(weights)).first;
      ++report.weights;
    }
    CAMSHAFT_TRY(file.quantize_weights(use.layer->outputs[0]->name, use.input, use.tensor->name,
                                       found->second));
    const auto shift = shifts.find(use.layer->name);
    if (shift != shifts.end()) CAMSHAFT_TRY(shift_bias(file, *use.layer, shift->second, report));
    ++report.layers;
  }
  return ok_status();
}

}  // namespace

Result<std::vector<std::string>> tensors_to_calibrate(const ir::Graph& graph,
                                                      const PlacementOptions& options) {
  CAMSHAFT_TRY(check_patterns(graph, options));
  std::vector<std::string> names;
  for (const ir::Tensor* tensor : tensors_to_calibrate(find_placement(graph, options)))
    names.push_back(tensor->name);
  return names;
}

Result<std::vector<NamedLoss>> measure_file(const std::filesystem::path& file, const Scales& scales,
                                            const Scales& lows, const PlacementOptions& options,
                                            std::span<const Sample> samples,
                                            const SamplerOptions& sampler) {
  CAMSHAFT_ASSIGN(auto imported, onnx_import::import_file(file));
  const Placement placement = find_placement(*imported.graph, options);
  std::vector<NamedLoss> result;
  for (const WeightUse& use : placement.weights) result.push_back({{}, use.layer->name});
  CAMSHAFT_ASSIGN(std::vector<LayerLoss> losses,
                  measure_layers(std::move(imported.graph), placement,
                                 assign_grids(placement, scales, lows), samples, sampler));
  for (size_t k = 0; k < result.size(); ++k)
    static_cast<LayerLoss&>(result[k]) = std::move(losses[k]);
  return result;
}

Result<QuantizeResult> quantize_file(const std::filesystem::path& file, const Scales& scales,
                                     const Scales& lows, const Shifts& shifts,
                                     const PlacementOptions& options) {
  CAMSHAFT_ASSIGN(const auto imported, onnx_import::import_file(file));
  const ir::Graph& graph = *imported.graph;
  if (has_quantization(graph))
    return make_error(ErrorCode::kInvalidArgument, "{}: the network is quantized already",
                      file.string());
  CAMSHAFT_TRY(check_patterns(graph, options));
  const Placement placement = find_placement(graph, options);
  CAMSHAFT_ASSIGN(OnnxFile onnx, OnnxFile::read(file));
  const bool per_axis = std::any_of(placement.weights.begin(), placement.weights.end(),
                                    [](const WeightUse& use) { return use.axis >= 0; });
  if (onnx.opset() < (per_axis ? 13 : 10)) {
    CAMSHAFT_TRY(onnx.raise_to_opset_13(softmax_axis_of(graph)));
  }
  QuantizeResult result;
  const std::vector<ActivationGrid> assigned = assign_grids(placement, scales, lows);
  CAMSHAFT_TRY(edit(onnx, placement, assigned, shifts, result.report));
  std::unordered_set<std::string> pairs;
  for (size_t k = 0; k < assigned.size(); ++k)
    if (assigned[k].scale > 0)
      pairs.insert(fmt::format("{} {} {}", placement.activations[k].tensor->name, assigned[k].scale,
                               assigned[k].zero_point));
  result.report.activations = static_cast<int>(pairs.size());
  for (const Placement::Skipped& skipped : placement.skipped)
    result.report.in_float.emplace_back(skipped.layer->name, skipped.reason);
  result.report.weighted_layers =
      static_cast<int>(placement.weights.size() + placement.skipped.size());
  CAMSHAFT_ASSIGN(result.onnx, onnx.finish());
  return result;
}

Result<std::string> keep_layers_float(const std::filesystem::path& file,
                                      const std::vector<std::string>& layers) {
  CAMSHAFT_ASSIGN(const auto imported, onnx_import::import_file(file));
  CAMSHAFT_ASSIGN(OnnxFile onnx, OnnxFile::read(file));
  for (const auto& layer : imported.graph->layers()) {
    if (std::find(layers.begin(), layers.end(), layer->name) == layers.end()) continue;
    for (size_t k = 0; k < layer->inputs.size(); ++k) {
      const ir::Tensor* const input = layer->inputs[k];
      if (input == nullptr || input->producer == nullptr ||
          input->producer->kind != LayerKind::kDequantize)
        continue;
      std::vector<float> values;  // of a dequantized constant
      if (is_constant_expression(input)) {
        CAMSHAFT_ASSIGN(const kernels::Value value, evaluate_constant(input));
        values.assign(value.as<float>().begin(), value.as<float>().end());
      }
      CAMSHAFT_TRY(onnx.remove_quantization(layer->outputs[0]->name, k, values));
    }
  }
  return onnx.finish();
}

}  // namespace camshaft::quantize
