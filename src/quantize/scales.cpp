// SPDX-License-Identifier: Apache-2.0
#include "quantize/scales.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

namespace camshaft::quantize {
namespace {

using ir::Tensor;

// Tensors that share one scale.
class Groups {
 public:
  void add(const Tensor* tensor, float scale, float low = 0) {
    members_.try_emplace(tensor, Node{tensor, scale, scale, low, low + 255 * scale});
  }
  bool has(const Tensor* tensor) const { return members_.count(tensor) > 0; }
  float scale(const Tensor* tensor) { return members_.at(root(tensor)).largest; }
  ActivationGrid grid(const Tensor* tensor) {
    const Node& node = members_.at(root(tensor));
    return unsigned_grid(node.low, (node.high - node.low) / 255);
  }

  void join(const Tensor* a, const Tensor* b) {
    a = root(a);
    b = root(b);
    if (a == b) return;
    Node &left = members_.at(a), &right = members_.at(b);
    const float largest = std::max(left.largest, right.largest);
    const float smallest = std::min(left.smallest, right.smallest);
    if (largest > kLargestScaleRatio * smallest) return;
    right.parent = a;
    left.largest = largest;
    left.smallest = smallest;
    left.low = std::min(left.low, right.low);
    left.high = std::max(left.high, right.high);
  }

 private:
  struct Node {
    const Tensor* parent;
    float largest, smallest;  // scale
    float low, high;          // value
  };
  const Tensor* root(const Tensor* tensor) {
    while (members_.at(tensor).parent != tensor) tensor = members_.at(tensor).parent;
    return tensor;
  }
  std::unordered_map<const Tensor*, Node> members_;
};

}  // namespace

Result<kernels::Value> evaluate_constant(const Tensor* tensor) {
  if (tensor->is_constant()) return kernels::constant_value(*tensor);
  if (tensor->producer == nullptr)
    return make_error(ErrorCode::kUnsupported, "{} is an input, not a constant", tensor->name);
  std::vector<kernels::Value> values(tensor->producer->inputs.size());
  std::vector<const kernels::Value*> inputs;
  for (size_t k = 0; k < values.size(); ++k) {
    inputs.push_back(nullptr);
    if (tensor->producer->inputs[k] == nullptr) continue;
    CAMSHAFT_ASSIGN(values[k], evaluate_constant(tensor->producer->inputs[k]));
    inputs.back() = &values[k];
  }
  CAMSHAFT_ASSIGN(auto outputs, kernels::evaluate_layer(*tensor->producer, inputs));
  const auto& made = tensor->producer->outputs;
  return outputs[static_cast<size_t>(std::find(made.begin(), made.end(), tensor) - made.begin())];
}

std::vector<const Tensor*> tensors_to_calibrate(const Placement& placement) {
  std::vector<const Tensor*> tensors;
  std::unordered_set<const Tensor*> seen;
  for (const ActivationUse& use : placement.activations)
    if (seen.insert(use.scale_of).second) tensors.push_back(use.scale_of);
  return tensors;
}

namespace {

Groups group_linked(const Placement& placement, const Scales& calibrated, const Scales& lows,
                    std::vector<std::string>* missing) {
  Groups groups;
  for (const Tensor* tensor : tensors_to_calibrate(placement)) {
    const auto found = calibrated.find(tensor->name);
    if (found != calibrated.end() && found->second > 0) {
      const auto low = lows.find(tensor->name);
      groups.add(tensor, found->second, low == lows.end() ? 0 : low->second);
    } else if (missing != nullptr) {
      missing->push_back(tensor->name);
    }
  }
  for (const Placement::Link& link : placement.links)
    if (groups.has(link.from) && groups.has(link.to)) groups.join(link.to, link.from);
  return groups;
}

}  // namespace

ActivationGrid unsigned_grid(float low, float scale) {
  const float zero = std::nearbyint(-low / scale);
  return {scale, static_cast<int32_t>(std::clamp(zero, 0.0F, 255.0F)), true};
}

std::vector<ActivationGrid> assign_grids(const Placement& placement, const Scales& calibrated,
                                         const Scales& lows) {
  std::vector<ActivationGrid> grids;
  if (lows.empty()) {
    for (const float scale : assign_scales(placement, calibrated))
      grids.push_back({scale, 0, false});
    return grids;
  }
  Groups groups = group_linked(placement, calibrated, lows, nullptr);
  for (const ActivationUse& use : placement.activations)
    grids.push_back(groups.has(use.scale_of) ? groups.grid(use.scale_of) : ActivationGrid());
  return grids;
}

std::vector<float> assign_scales(const Placement& placement, const Scales& calibrated,
                                 std::vector<std::string>* missing) {
  Groups groups = group_linked(placement, calibrated, {}, missing);
  std::vector<float> scales;
  for (const ActivationUse& use : placement.activations)
    scales.push_back(groups.has(use.scale_of) ? groups.scale(use.scale_of) : 0);
  return scales;
}

namespace {

// Along the quantized axis: elements of one channel lie `inner` apart.
struct Channels {
  size_t count = 1, inner = 1;
  Channels(const ir::Extents& extents, int64_t axis) {
    for (size_t d = 0; d < extents.size(); ++d) {
      const auto extent = static_cast<size_t>(extents[d]);
      if (static_cast<int64_t>(d) == axis) count = extent;
      if (static_cast<int64_t>(d) > axis) inner *= extent;
    }
  }
  size_t of(size_t element) const { return element / inner % count; }
};

}  // namespace

std::vector<float> QuantizedWeights::dequantized() const {
  const Channels channels(extents, axis);
  std::vector<float> values(codes.size());
  for (size_t k = 0; k < codes.size(); ++k)
    values[k] = static_cast<float>(codes[k]) * scales[channels.of(k)];
  return values;
}

Result<QuantizedWeights> quantize_weights(const WeightUse& use) {
  CAMSHAFT_ASSIGN(const kernels::Value value, evaluate_constant(use.tensor));
  const std::span<const float> weights = value.as<float>();
  QuantizedWeights result{value.extents, use.axis, {}, std::vector<int8_t>(weights.size())};
  const Channels channels(value.extents, use.axis);
  std::vector<float> largest(channels.count, 0);
  for (size_t k = 0; k < weights.size(); ++k) {
    if (!std::isfinite(weights[k]))
      return make_error(ErrorCode::kInvalidModel, "layer {}: its weights hold {}", use.layer->name,
                        weights[k]);
    largest[channels.of(k)] = std::max(largest[channels.of(k)], std::abs(weights[k]));
  }
  for (const float magnitude : largest) {
    // A channel of zeros may have any scale; a denormal one would have an infinite inverse.
    const float scale = magnitude / static_cast<float>(kLargestCode);
    result.scales.push_back(scale > 1e-30F ? scale : 1.0F);
  }
  for (size_t k = 0; k < weights.size(); ++k) {
    const float code = std::nearbyint(weights[k] / result.scales[channels.of(k)]);
    result.codes[k] = static_cast<int8_t>(std::clamp(code, -127.0F, 127.0F));
  }
  return result;
}

}  // namespace camshaft::quantize
