// SPDX-License-Identifier: Apache-2.0
#include "quantize/placement.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ir/kind_traits.h"

namespace camshaft::quantize {
namespace {

using ir::Graph;
using ir::Layer;
using ir::LayerKind;
using ir::Tensor;

constexpr int kMaxConstantDepth = 16;

bool is_constant_at(const Tensor* tensor, int depth) {
  if (tensor->is_constant()) return true;
  const Layer* layer = tensor->producer;
  if (layer == nullptr || depth == 0 || !layer->bodies.empty()) return false;
  bool any = false;
  for (const Tensor* input : layer->inputs) {
    if (input == nullptr) continue;
    if (!is_constant_at(input, depth - 1)) return false;
    any = true;
  }
  return any;
}

bool is_float_activation(const Tensor* tensor) {
  return tensor != nullptr && tensor->type == ir::DataType::kFloat && tensor->has_rank &&
         !is_constant_expression(tensor);
}

bool matches(const std::string& pattern, const std::string& name) {
  const size_t star = pattern.find('*');
  if (star == std::string::npos) return pattern == name;
  const std::string_view head(pattern.data(), star);
  const std::string_view tail = std::string_view(pattern).substr(star + 1);
  return name.size() + 1 >= pattern.size() && name.starts_with(head) && name.ends_with(tail);
}

bool matches_any(const std::vector<std::string>& patterns, const Layer& layer) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return matches_layer(pattern, layer); });
}

bool is_weighted(const Layer& layer) {
  return layer.kind == LayerKind::kConvolution || layer.kind == LayerKind::kDeconvolution ||
         layer.kind == LayerKind::kMatrixMultiply;
}

bool is_average(const Layer& layer) {
  if (layer.kind == LayerKind::kPooling)
    return layer.as<ir::PoolingAttrs>().type == ir::PoolingType::kAverage;
  return layer.kind == LayerKind::kReduce && layer.as<ir::ReduceAttrs>().op == ir::ReduceOp::kMean;
}

// The axis of the output channels in the weights, -1 where one scale per channel cannot be a
// factor of the accumulator.
int64_t channel_axis(const Layer& layer) {
  if (layer.kind == LayerKind::kConvolution) return 0;
  if (layer.kind == LayerKind::kDeconvolution)
    return layer.as<ir::ConvolutionAttrs>().groups == 1 ? 1 : -1;
  const auto rank = static_cast<int64_t>(layer.inputs[1]->shape.size());
  if (rank < 2) return -1;
  // A batch of matrices would need a scale per matrix and column.
  if (rank > 2) return -1;
  return layer.as<ir::MatrixMultiplyAttrs>().transpose_b ? rank - 2 : rank - 1;
}

// indices == 0 … depth-1 as float: its product with weights is a look-up of their rows, which the
// optimizer makes of it in float only.
bool is_one_hot(const Tensor* tensor) {
  const Layer* cast = tensor->producer;
  if (cast == nullptr || cast->kind != LayerKind::kCast) return false;
  const Layer* compare = cast->inputs[0]->producer;
  return compare != nullptr && compare->kind == LayerKind::kElementWise &&
         compare->as<ir::PointOpAttrs>().op == ir::PointOp::kEqual;
}

class Placer {
 public:
  Placer(const Graph& graph, const PlacementOptions& options) : graph_(graph), options_(options) {
    for (const auto& layer : graph.layers()) position_[layer.get()] = position_.size();
  }

  Placement run() {
    for (const auto& layer : graph_.layers()) place_weighted(*layer);
    for (const auto& layer : graph_.layers()) {
      if (left_in_float(*layer)) continue;
      place_residual(*layer);
      place_average(*layer);
    }
    // Backwards: what a concatenation or movement needs follows from what its consumers got.
    for (auto at = graph_.layers().rbegin(); at != graph_.layers().rend(); ++at)
      if (!left_in_float(**at)) place_movement(**at);
    order();
    return std::move(placement_);
  }

 private:
  bool left_in_float(const Layer& layer) const {
    return matches_any(options_.keep_float, layer) ||
           (!options_.only.empty() && !matches_any(options_.only, layer));
  }

  void use(Layer& layer, size_t input, Tensor* scale_of) {
    placement_.activations.push_back({&layer, input, layer.inputs[input], scale_of});
    quantized_inputs_[layer.inputs[input]].insert(&layer);
  }

  void skip(const Layer& layer, std::string reason) {
    placement_.skipped.push_back({&layer, std::move(reason)});
  }

  void place_weighted(Layer& layer) {
    if (!is_weighted(layer) || layer.inputs.size() < 2 || layer.inputs[1] == nullptr) return;
    Tensor* const weights = layer.inputs[1];
    if (left_in_float(layer)) return skip(layer, "kept in float as asked");
    if (!is_float_activation(layer.inputs[0]) || weights->type != ir::DataType::kFloat)
      return skip(layer, "its inputs are not float activations");
    if (layer.kind == LayerKind::kMatrixMultiply && is_one_hot(layer.inputs[0]))
      return skip(layer, "its input is one-hot: a look-up");
    if (is_constant_expression(weights)) {
      use(layer, 0, layer.inputs[0]);
      placement_.weights.push_back(
          {&layer, 1, weights, options_.per_channel ? channel_axis(layer) : -1});
    } else if (layer.kind == LayerKind::kMatrixMultiply && options_.matmul_of_activations &&
               is_float_activation(weights)) {
      use(layer, 0, layer.inputs[0]);
      use(layer, 1, weights);
    } else {
      return skip(layer, layer.kind == LayerKind::kMatrixMultiply ? "a product of two activations"
                                                                  : "its weights are not constant");
    }
    quantized_layers_.insert(&layer);
  }

  // The one layer other than pointwise ones that `tensor` comes from; null: several, or none.
  const Layer* source_of(const Tensor* tensor, int depth = 12) const {
    const Layer* layer = tensor->producer;
    if (layer == nullptr || depth == 0) return nullptr;
    if (ir::traits_of(layer->kind).elements != ir::Elements::kPointwise) return layer;
    const Layer* source = nullptr;
    for (const Tensor* input : layer->inputs) {
      if (input == nullptr || is_constant_expression(input)) continue;
      const Layer* found = source_of(input, depth - 1);
      if (found == nullptr || (source != nullptr && found != source)) return nullptr;
      source = found;
    }
    return source;
  }

  bool comes_from_convolution(const Tensor* tensor) const {
    const Layer* source = source_of(tensor);
    return source != nullptr && source->kind != LayerKind::kMatrixMultiply &&
           quantized_layers_.count(source) > 0;
  }

  // A branch that nothing else reads can be computed in the epilogue of its convolution.
  bool can_take_the_add(const Tensor* tensor) const {
    return tensor->consumers.size() == 1 && !graph_.is_output(tensor) &&
           comes_from_convolution(tensor);
  }

  void place_residual(Layer& layer) {
    if (layer.kind != LayerKind::kElementWise ||
        layer.as<ir::PointOpAttrs>().op != ir::PointOp::kAdd)
      return;
    Tensor *const a = layer.inputs[0], *const b = layer.inputs[1];
    if (!is_float_activation(a) || !is_float_activation(b) || a == b || a->shape.size() < 3 ||
        a->shape != b->shape)
      return;
    const bool a_takes = can_take_the_add(a), b_takes = can_take_the_add(b);
    if (!a_takes && !b_takes) return;
    // Of two convolutions the later one adds: the other's result is there by then.
    const bool into_a =
        a_takes && (!b_takes || position_.at(source_of(a)) > position_.at(source_of(b)));
    use(layer, into_a ? 1 : 0, into_a ? b : a);
  }

  void place_average(Layer& layer) {
    if (!is_average(layer) || !is_float_activation(layer.inputs[0]) ||
        layer.inputs[0]->shape.size() < 3)
      return;
    if (comes_from_convolution(layer.inputs[0])) use(layer, 0, layer.inputs[0]);
  }

  // Every reader quantizes the tensor, or passes it on to layers that do.
  bool is_wanted_quantized(const Tensor* tensor) const {
    if (tensor->consumers.empty() || graph_.is_output(tensor)) return false;
    const auto found = quantized_inputs_.find(tensor);
    return std::all_of(tensor->consumers.begin(), tensor->consumers.end(), [&](const Layer* layer) {
      return (found != quantized_inputs_.end() && found->second.count(layer) > 0) ||
             passing_.count(layer) > 0;
    });
  }

  void place_movement(Layer& layer) {
    const bool concat = layer.kind == LayerKind::kConcatenation;
    if (!concat && !ir::moves_elements(layer)) return;
    Tensor* const output = layer.outputs[0];
    if (output == nullptr || output->type != ir::DataType::kFloat || !is_wanted_quantized(output))
      return;
    passing_.insert(&layer);
    for (size_t k = 0; k < (concat ? layer.inputs.size() : 1); ++k) {
      Tensor* const input = layer.inputs[k];
      if (!is_float_activation(input)) continue;
      placement_.links.push_back({input, output});
      if (concat || layer.kind == LayerKind::kResize) use(layer, k, output);
    }
  }

  void order() {
    std::stable_sort(placement_.activations.begin(), placement_.activations.end(),
                     [&](const ActivationUse& a, const ActivationUse& b) {
                       return position_.at(a.layer) < position_.at(b.layer);
                     });
    std::reverse(placement_.links.begin(), placement_.links.end());
  }

  const Graph& graph_;
  const PlacementOptions& options_;
  Placement placement_;
  std::unordered_map<const Layer*, size_t> position_;
  std::unordered_map<const Tensor*, std::unordered_set<const Layer*>> quantized_inputs_;
  std::unordered_set<const Layer*> quantized_layers_, passing_;
};

}  // namespace

bool is_constant_expression(const Tensor* tensor) {
  return is_constant_at(tensor, kMaxConstantDepth);
}

bool matches_layer(const std::string& pattern, const Layer& layer) {
  return matches(pattern, layer.name) ||
         std::any_of(layer.onnx_nodes.begin(), layer.onnx_nodes.end(),
                     [&](const std::string& node) { return matches(pattern, node); });
}

const std::string* unmatched_pattern(const std::vector<std::string>& patterns, const Graph& graph) {
  for (const std::string& pattern : patterns) {
    const bool found = std::any_of(
        graph.layers().begin(), graph.layers().end(),
        [&](const std::unique_ptr<Layer>& layer) { return matches_layer(pattern, *layer); });
    if (!found) return &pattern;
  }
  return nullptr;
}

bool has_quantization(const Graph& graph) {
  return std::any_of(
      graph.layers().begin(), graph.layers().end(), [](const std::unique_ptr<Layer>& layer) {
        return layer->kind == LayerKind::kQuantize || layer->kind == LayerKind::kDequantize;
      });
}

Placement find_placement(const Graph& graph, const PlacementOptions& options) {
  return Placer(graph, options).run();
}

}  // namespace camshaft::quantize
