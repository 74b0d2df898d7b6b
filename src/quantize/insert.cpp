// SPDX-License-Identifier: Apache-2.0
#include "quantize/insert.h"

#include <cstring>
#include <map>
#include <unordered_set>

#include "ir/infer.h"
#include "ir/rewriter.h"

namespace camshaft::quantize {
namespace {

using ir::DataType;
using ir::Layer;
using ir::LayerKind;
using ir::Tensor;

class Inserter {
 public:
  explicit Inserter(ir::Graph& graph)
      : graph_(graph), rewriter_(graph, "ImplicitQuantize", nullptr) {}

  Status activation(const ActivationUse& use, float scale) {
    Tensor*& made = dequantized_[{use.tensor, scale}];
    if (made == nullptr) {
      CAMSHAFT_ASSIGN(made, quantize_dequantize(use, scale));
    }
    rewriter_.set_input(use.layer, use.input, made);
    return ok_status();
  }

  Status weights(const WeightUse& use) {
    Tensor*& made = dequantized_weights_[{use.tensor, use.axis}];
    if (made == nullptr) {
      CAMSHAFT_ASSIGN(const QuantizedWeights quantized, quantize_weights(use));
      std::vector<std::byte> bytes(quantized.codes.size());
      std::memcpy(bytes.data(), quantized.codes.data(), bytes.size());
      Tensor* const codes = rewriter_.add_constant(use.tensor->name + "_quantized", DataType::kInt8,
                                                   quantized.extents, std::move(bytes));
      const auto count = static_cast<int64_t>(quantized.scales.size());
      const std::span<const int64_t> extents(&count, use.axis >= 0 ? 1 : 0);
      Tensor* const scale =
          rewriter_.add_float_constant(use.tensor->name + "_scale", extents, quantized.scales);
      CAMSHAFT_ASSIGN(made, add(use.layer, LayerKind::kDequantize, use.tensor->name, codes, scale,
                                std::max<int64_t>(use.axis, 0)));
    }
    rewriter_.set_input(use.layer, use.input, made);
    return ok_status();
  }

 private:
  // Scales of one element carry axis 1, as the importer gives it.
  Result<Tensor*> add(Layer* before, LayerKind kind, const std::string& tensor, Tensor* x,
                      Tensor* scale, int64_t axis) {
    const bool quantize = kind == LayerKind::kQuantize;
    ir::QuantizeAttrs attrs;
    attrs.type = DataType::kInt8;
    attrs.axis = axis;
    Tensor* const y = graph_.add_tensor(
        tensor + (quantize ? "_QuantizeLinear_Output" : "_DequantizeLinear_Output"),
        DataType::kUndefined, {});
    Layer* const layer = rewriter_.insert_before(
        before, kind, tensor + (quantize ? "_QuantizeLinear" : "_DequantizeLinear"), attrs,
        {x, scale}, {y}, {});
    CAMSHAFT_TRY(ir::infer_layer(graph_, *layer));
    return y;
  }

  Result<Tensor*> quantize_dequantize(const ActivationUse& use, float scale) {
    // In front of the first layer that may use it: uses come in the order of the layers.
    Tensor* const step =
        rewriter_.add_float_constant(use.tensor->name + "_scale", {}, std::span(&scale, 1));
    CAMSHAFT_ASSIGN(Tensor* const codes,
                    add(use.layer, LayerKind::kQuantize, use.tensor->name, use.tensor, step, 1));
    return add(use.layer, LayerKind::kDequantize, use.tensor->name, codes, step, 1);
  }

  ir::Graph& graph_;
  ir::Rewriter rewriter_;
  std::map<std::pair<const Tensor*, float>, Tensor*> dequantized_;
  std::map<std::pair<const Tensor*, int64_t>, Tensor*> dequantized_weights_;
};

}  // namespace

Result<std::vector<std::string>> insert_quantization(ir::Graph& graph, const Placement& placement,
                                                     const std::vector<float>& scales) {
  std::unordered_set<const Layer*> incomplete;
  std::vector<std::string> names;
  for (size_t k = 0; k < scales.size(); ++k) {
    const Layer* const layer = placement.activations[k].layer;
    if (scales[k] == 0 && incomplete.insert(layer).second) names.push_back(layer->name);
  }
  Inserter inserter(graph);
  for (size_t k = 0; k < scales.size(); ++k)
    if (incomplete.count(placement.activations[k].layer) == 0)
      CAMSHAFT_TRY(inserter.activation(placement.activations[k], scales[k]));
  for (const WeightUse& use : placement.weights)
    if (incomplete.count(use.layer) == 0) CAMSHAFT_TRY(inserter.weights(use));
  return names;
}

}  // namespace camshaft::quantize
