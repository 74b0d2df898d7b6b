// SPDX-License-Identifier: Apache-2.0
#include "quantize/simulate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>

#include "ir/infer.h"
#include "ir/rewriter.h"
#include "quantize/tensor_error.h"

namespace camshaft::quantize {
namespace {

using ir::DataType;
using ir::Layer;
using ir::LayerKind;
using ir::PointOp;
using ir::Tensor;

struct CodeRange {
  float low, high;
};

Result<CodeRange> code_range(DataType type) {
  switch (type) {
    case DataType::kInt8:
      return CodeRange{-128, 127};
    case DataType::kUInt8:
      return CodeRange{0, 255};
    case DataType::kInt4:
      return CodeRange{-8, 7};
    case DataType::kUInt4:
      return CodeRange{0, 15};
    case DataType::kInt16:
      return CodeRange{-32768, 32767};
    case DataType::kUInt16:
      return CodeRange{0, 65535};
    default:
      return make_error(ErrorCode::kUnsupported, "quantization to {}", ir::type_name(type));
  }
}

// Inputs x, scale and, if `has_zero_point`, the zero point as floats.
ir::Program rounding_program(CodeRange range, bool has_zero_point) {
  ir::Program program;
  program.num_inputs = has_zero_point ? 3 : 2;
  int value = ir::append(program, PointOp::kDiv, 0, 1);
  value = ir::append(program, PointOp::kRound, value);
  if (has_zero_point) value = ir::append(program, PointOp::kAdd, value, 2);
  value = ir::append(program, PointOp::kClip, value, -1, -1, range.low, range.high);
  if (has_zero_point) value = ir::append(program, PointOp::kSub, value, 2);
  ir::append(program, PointOp::kMul, value, 1);
  return program;
}

Result<Tensor*> add_layer(ir::Graph& graph, LayerKind kind, const std::string& name,
                          ir::Attrs attrs, std::vector<Tensor*> inputs, const Layer* before) {
  Tensor* const y = graph.add_tensor(name, DataType::kUndefined, {});
  Layer* const layer =
      graph.add_layer(kind, name, std::move(attrs), std::move(inputs), {y}, before);
  CAMSHAFT_TRY(ir::infer_layer(graph, *layer));
  return y;
}

// Takes the Q/DQ pairs of a graph away, one Dequantize at a time.
class Simulator {
 public:
  Simulator(ir::Graph& graph, const std::set<std::string>& keep_float)
      : graph_(graph),
        rewriter_(graph, "SimulateQuantization", nullptr),
        keep_float_(keep_float),
        keep_all_(keep_float.count("*") > 0) {}

  // Only the layers that match.
  Status run_for(const std::vector<std::string>& patterns) {
    std::vector<Layer*> layers;
    for (const auto& layer : graph_.layers()) layers.push_back(layer.get());
    for (Layer* layer : layers)
      for (const std::string& pattern : patterns)
        if (matches_layer(pattern, *layer)) {
          CAMSHAFT_TRY(replace_inputs(*layer, true).with_context(layer->name));
        }
    remove_unread(layers);
    return ok_status();
  }

  Result<Simulation> run() {
    simulates_ = true;
    std::vector<Layer*> layers;
    for (const auto& layer : graph_.layers()) layers.push_back(layer.get());
    for (Layer* layer : layers) {
      const bool in_float = keep_all_ || keep_float_.count(layer->name) > 0;
      CAMSHAFT_TRY(replace_inputs(*layer, in_float).with_context(layer->name));
    }
    CAMSHAFT_TRY(replace_outputs(layers));
    remove_unread(layers);
    return std::move(result_);
  }

 private:
  Status replace_inputs(Layer& layer, bool in_float) {
    if (layer.kind == LayerKind::kQuantize || layer.kind == LayerKind::kDequantize)
      return ok_status();
    bool quantized = false;
    for (size_t k = 0; k < layer.inputs.size(); ++k) {
      const Tensor* const input = layer.inputs[k];
      if (input == nullptr || input->producer == nullptr ||
          input->producer->kind != LayerKind::kDequantize)
        continue;
      quantized = true;
      CAMSHAFT_ASSIGN(Tensor* const value, stand_in(*input->producer, in_float, layer));
      rewriter_.set_input(&layer, k, value);
    }
    if (quantized) result_.quantized_layers.push_back(layer.name);
    return ok_status();
  }

  // What a Dequantize gives, in float: rounded, or as it was before its Quantize.
  Result<Tensor*> stand_in(const Layer& dequantize, bool in_float, const Layer& reader) {
    Tensor*& made = made_[{&dequantize, in_float}];
    if (made != nullptr) return made;
    const Layer* const quantize = dequantize.inputs[0]->producer;
    if (quantize == nullptr || quantize->kind != LayerKind::kQuantize) {
      // Codes that nobody quantizes here, an input or a constant that is expanded, stay codes.
      return made = constant(dequantize.outputs[0]);
    }
    CAMSHAFT_ASSIGN(Tensor* const x, source(*quantize, reader));
    if (in_float) return made = x;
    if (is_constant_expression(x)) return made = constant(dequantize.outputs[0]);
    CAMSHAFT_ASSIGN(made, rounded(*quantize, x, reader));
    return made;
  }

  // The input of a Quantize, which may itself be dequantized (and stays so in run_for).
  Result<Tensor*> source(const Layer& quantize, const Layer& reader) {
    Tensor* const x = quantize.inputs[0];
    if (x->producer == nullptr || x->producer->kind != LayerKind::kDequantize || !simulates_)
      return x;
    return stand_in(*x->producer, keep_all_, reader);
  }

  // The tensor's value if it has one now, else the tensor.
  Tensor* constant(Tensor* tensor) {
    Result<kernels::Value> value = evaluate_constant(tensor);
    if (!value.ok()) return tensor;
    return graph_.add_constant(tensor->name + "_float", value->type, value->extents, value->data);
  }

  // Scale or zero point as a float that broadcasts along the axis.
  Result<Tensor*> operand(const Layer& quantize, size_t k, size_t rank) {
    CAMSHAFT_ASSIGN(const kernels::Value value, evaluate_constant(quantize.inputs[k]));
    const std::vector<double> numbers = value.to_doubles();
    const std::vector<float> floats(numbers.begin(), numbers.end());
    std::vector<int64_t> extents;
    if (floats.size() > 1) {
      const auto axis = static_cast<size_t>(quantize.as<ir::QuantizeAttrs>().axis);
      if (value.extents.size() != 1 || axis >= rank)
        return make_error(ErrorCode::kUnsupported, "{}: block-wise scales", quantize.name);
      extents.assign(rank - axis, 1);
      extents[0] = static_cast<int64_t>(floats.size());
    }
    return rewriter_.add_float_constant(quantize.inputs[k]->name + "_float", extents, floats);
  }

  Result<Tensor*> rounded(const Layer& quantize, Tensor* x, const Layer& reader) {
    CAMSHAFT_ASSIGN(const CodeRange range, code_range(quantize.as<ir::QuantizeAttrs>().type));
    const size_t rank = x->shape.size();
    CAMSHAFT_ASSIGN(Tensor* const scale, operand(quantize, 1, rank));
    std::vector<Tensor*> inputs = {x, scale};
    if (quantize.inputs.size() > 2 && quantize.inputs[2] != nullptr) {
      CAMSHAFT_ASSIGN(Tensor* const zero, operand(quantize, 2, rank));
      inputs.push_back(zero);
    }
    ir::PointWiseAttrs attrs;
    attrs.program = rounding_program(range, inputs.size() > 2);
    return add_layer(graph_, LayerKind::kPointWise, x->name + "_rounded", std::move(attrs),
                     std::move(inputs), &reader);
  }

  // Network outputs that a Dequantize makes.
  Status replace_outputs(const std::vector<Layer*>& layers) {
    for (Layer* layer : layers) {
      if (layer->kind != LayerKind::kDequantize || !graph_.is_output(layer->outputs[0])) continue;
      CAMSHAFT_ASSIGN(Tensor* const value, stand_in(*layer, keep_all_, *layer));
      Tensor* const output = layer->outputs[0];
      if (value == output) continue;  // of codes that nobody quantizes here
      CAMSHAFT_ASSIGN(Tensor* const copy,
                      add_layer(graph_, LayerKind::kUnary, output->name + "_float",
                                ir::PointOpAttrs{PointOp::kIdentity}, {value}, layer));
      for (size_t k = 0; k < graph_.outputs().size(); ++k)
        if (graph_.outputs()[k] == output) graph_.set_output(k, copy);
    }
    return ok_status();
  }

  void remove_unread(const std::vector<Layer*>& layers) {
    for (auto at = layers.rbegin(); at != layers.rend(); ++at) {
      Layer* const layer = *at;
      if (layer->kind != LayerKind::kQuantize && layer->kind != LayerKind::kDequantize) continue;
      if (layer->outputs[0]->consumers.empty() && !graph_.is_output(layer->outputs[0]))
        rewriter_.remove(layer);
    }
    graph_.remove_unused_tensors();
  }

  ir::Graph& graph_;
  ir::Rewriter rewriter_;
  std::set<std::string> keep_float_;
  bool keep_all_;
  bool simulates_ = false;
  Simulation result_;
  std::map<std::pair<const Layer*, bool>, Tensor*> made_;
};

}  // namespace

namespace {

// Sums of exact - rounded per channel (axis 1).
class ChannelShift {
 public:
  void add(const ir::Extents& extents, std::span<const float> rounded,
           std::span<const float> exact) {
    if (extents.size() < 3 || rounded.size() != exact.size()) return;
    const auto channels = static_cast<size_t>(extents[1]);
    sums_.resize(channels), squares_.resize(channels);
    const size_t rows = static_cast<size_t>(extents[0]) * channels;
    const size_t length = rows == 0 ? 0 : rounded.size() / rows;
    for (size_t row = 0; row < rows; ++row)
      for (size_t k = row * length; k < (row + 1) * length; ++k) {
        const double error = double{exact[k]} - rounded[k];
        sums_[row % channels] += error, squares_[row % channels] += error * error;
      }
    count_ += static_cast<double>(extents[0]) * static_cast<double>(length);
  }

  // mean * mean² / (mean² + variance of the mean)
  std::vector<float> shift() const {
    std::vector<float> result;
    for (size_t c = 0; c < sums_.size(); ++c) {
      const double mean = sums_[c] / count_, square = mean * mean;
      const double chance = std::max(squares_[c] / count_ - square, 0.0) / count_;
      const double shift = square > 0 ? mean * square / (square + chance) : 0;
      result.push_back(std::isfinite(shift) ? static_cast<float>(shift) : 0);
    }
    return result;
  }

 private:
  std::vector<double> sums_, squares_;
  double count_ = 0;
};

bool has_channel_bias(const Layer& layer) {
  return layer.kind == LayerKind::kConvolution || layer.kind == LayerKind::kDeconvolution;
}

}  // namespace

Result<Tensor*> add_rounding(ir::Graph& graph, Tensor* x, const ActivationGrid& grid,
                             const Layer* before) {
  ir::PointWiseAttrs attrs;
  // Codes less their zero point.
  const float low = grid.is_unsigned ? static_cast<float>(-grid.zero_point) : -128.0F;
  attrs.program = rounding_program({low, low + 255}, false);
  const std::byte* bytes = reinterpret_cast<const std::byte*>(&grid.scale);
  Tensor* const step = graph.add_constant(x->name + "_scale", DataType::kFloat, {},
                                          ir::make_constant({bytes, bytes + sizeof(grid.scale)}));
  return add_layer(graph, LayerKind::kPointWise, x->name + "_rounded", std::move(attrs), {x, step},
                   before);
}

Result<Simulation> simulate_quantization(ir::Graph& graph,
                                         const std::set<std::string>& keep_float) {
  return Simulator(graph, keep_float).run();
}

Status keep_in_float(ir::Graph& graph, const std::vector<std::string>& patterns) {
  return Simulator(graph, {}).run_for(patterns);
}

Result<std::vector<LayerLoss>> measure_layers(std::unique_ptr<ir::Graph> graph,
                                              const Placement& placement,
                                              const std::vector<ActivationGrid>& grids,
                                              std::span<const Sample> samples,
                                              const SamplerOptions& options) {
  std::unordered_map<const Layer*, std::map<size_t, ActivationGrid>> uses;
  for (size_t k = 0; k < grids.size(); ++k)
    if (grids[k].scale > 0)
      uses[placement.activations[k].layer][placement.activations[k].input] = grids[k];
  // Beside every layer stands a copy of it with rounded inputs and, where there are biases to
  // correct, one with rounded weights only.
  enum class Role : uint8_t { kExact, kRounded, kRoundedWeights };
  std::vector<std::string> tensors;
  std::vector<std::pair<Role, size_t>> roles;  // of the tensors, with the layer's position
  const auto watch = [&](const Tensor* tensor, Role role, size_t layer) {
    tensors.push_back(tensor->name);
    roles.emplace_back(role, layer);
  };
  for (size_t k = 0; k < placement.weights.size(); ++k) {
    const WeightUse& use = placement.weights[k];
    watch(use.layer->outputs[0], Role::kExact, k);
    std::vector<Tensor*> inputs = use.layer->inputs;
    CAMSHAFT_ASSIGN(const QuantizedWeights weights, quantize_weights(use));
    const std::vector<float> values = weights.dequantized();
    const auto bytes = std::as_bytes(std::span(values));
    inputs[use.input] =
        graph->add_constant(use.tensor->name + "_rounded", DataType::kFloat, weights.extents,
                            ir::make_constant({bytes.begin(), bytes.end()}));
    if (has_channel_bias(*use.layer)) {
      CAMSHAFT_ASSIGN(const Tensor* const copy,
                      add_layer(*graph, use.layer->kind, use.layer->name + "_rounded_weights",
                                use.layer->attrs, inputs, use.layer));
      watch(copy, Role::kRoundedWeights, k);
    }
    for (const auto& [input, grid] : uses[use.layer]) {
      CAMSHAFT_ASSIGN(inputs[input], add_rounding(*graph, inputs[input], grid, use.layer));
    }
    CAMSHAFT_ASSIGN(const Tensor* const copy,
                    add_layer(*graph, use.layer->kind, use.layer->name + "_rounded",
                              use.layer->attrs, std::move(inputs), use.layer));
    watch(copy, Role::kRounded, k);
  }
  CAMSHAFT_ASSIGN(const auto sampler, Sampler::create(std::move(graph), tensors, samples, options));
  std::vector<TensorError> errors(placement.weights.size());
  std::vector<ChannelShift> shifts(placement.weights.size());
  std::span<const float> exact;
  for (size_t k = 0; k < samples.size(); ++k) {
    if (options.progress && !options.progress("Measuring layers", static_cast<int>(k),
                                              static_cast<int>(samples.size())))
      return make_error(ErrorCode::kCancelled, "the measurement was cancelled");
    CAMSHAFT_TRY(sampler->run(
        samples[k], [&](size_t tensor, const ir::Extents& extents, std::span<const float> values) {
          const auto [role, layer] = roles[tensor];
          if (role == Role::kExact) exact = values;
          if (role == Role::kRounded) errors[layer].add(values, exact);
          if (role == Role::kRoundedWeights) shifts[layer].add(extents, values, exact);
          return ok_status();
        }));
  }
  std::vector<LayerLoss> result;
  for (size_t k = 0; k < errors.size(); ++k)
    result.push_back({errors[k].signal_to_noise(), shifts[k].shift()});
  return result;
}

}  // namespace camshaft::quantize
