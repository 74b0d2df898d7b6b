// SPDX-License-Identifier: Apache-2.0
// WidenFloats: layers whose tensors are bfloat16 or half in the network compute in float, for which
// there are kernels; casts stand where 16 bits remain (inputs, outputs, layers of other kinds).
// What a network's types round is not rounded between two such layers: more exact than the network
// says, never less. The strict form rounds behind every layer, as the types say; both compute each
// layer in float.
#include <algorithm>
#include <unordered_map>

#include "ir/kind_traits.h"
#include "kernels/interpreter.h"
#include "passes/match.h"
#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

bool is_16_bit(const Tensor* tensor) {
  return tensor && is_16_bit_float(tensor->type);
}

bool has_16_bit(const std::vector<Tensor*>& tensors) {
  return std::any_of(tensors.begin(), tensors.end(), is_16_bit);
}

// Operators whose results have the type of their first input, and no bits that mean more than a
// number.
constexpr std::string_view kWidened[] = {"AffineGrid",
                                         "Attention",
                                         "CausalConvWithState",
                                         "Col2Im",
                                         "CumProd",
                                         "DFT",
                                         "DeformConv",
                                         "Det",
                                         "Einsum",
                                         "GridSample",
                                         "LRN",
                                         "LinearAttention",
                                         "MaxRoiPool",
                                         "MaxUnpool",
                                         "NonMaxSuppression",
                                         "RoiAlign",
                                         "RotaryEmbedding",
                                         "STFT"};

// What only puts elements elsewhere does so with 16 bits as well: a cache of keys stays where it
// is.
bool only_moves(const Layer& layer) {
  const auto* scatter = std::get_if<ScatterAttrs>(&layer.attrs);
  return scatter != nullptr && scatter->reduction == ScatterReduction::kNone;
}

bool may_widen(const Layer& layer) {
  if (only_moves(layer)) return false;
  switch (traits_of(layer.kind).widening) {
    case Widening::kWhole:
      return layer.bodies.empty();
    case Widening::kInputs:
      return !has_16_bit(layer.outputs);
    case Widening::kNamed:
      return std::find(std::begin(kWidened), std::end(kWidened),
                       layer.as<GenericAttrs>().op_type) != std::end(kWidened);
    case Widening::kNever:
      break;
  }
  return false;
}

class Widener {
 public:
  Widener(Graph& graph, Records* records, bool strict)
      : rewriter_(graph, "WidenFloats", records), strict_(strict) {}

  int run() {
    const Graph& graph = rewriter_.graph();
    for (size_t k = 0; k < graph.layers().size(); ++k) {
      Layer* layer = graph.layers()[k].get();
      if (layer->kind == LayerKind::kCast)
        bypass(layer);
      else if (may_widen(*layer) && (has_16_bit(layer->inputs) || has_16_bit(layer->outputs)))
        k += static_cast<size_t>(widen(layer));
    }
    return rewriter_.edits();
  }

 private:
  // A cast back to float of what was float.
  void bypass(Layer* cast) {
    if (strict_) return;
    if (const auto made = floats_.find(cast->inputs[0]); made != floats_.end())
      rewriter_.set_input(cast, 0, made->second);
  }

  // `tensor` as floats; counts the casts it takes before `reader`.
  Tensor* floats_of(Tensor* tensor, Layer* reader, int& casts) {
    const Layer* producer = tensor->producer;
    if (!strict_ && producer && producer->kind == LayerKind::kCast &&
        producer->inputs[0]->type == DataType::kFloat)
      return producer->inputs[0];
    Tensor*& made = floats_[tensor];
    if (made) return made;
    const std::string name = tensor->name + " as float";
    if (tensor->is_constant()) {
      const std::vector<double> values = kernels::constant_value(*tensor).to_doubles();
      return made = rewriter_.add_float_constant(name, extents_of(tensor->shape),
                                                 std::vector<float>(values.begin(), values.end()));
    }
    made = like(*tensor, name);
    rewriter_.insert_before(reader, LayerKind::kCast, name, CastAttrs{DataType::kFloat}, {tensor},
                            {made}, {reader});
    ++casts;
    return made;
  }

  Tensor* like(const Tensor& tensor, const std::string& name) {
    return rewriter_.add_tensor_like(tensor, name, DataType::kFloat);
  }

  // Gives how many layers were inserted.
  int widen(Layer* layer) {
    int inserted = 0;
    std::vector<Tensor*> inputs = layer->inputs;
    for (Tensor*& input : inputs)
      if (is_16_bit(input)) input = floats_of(input, layer, inserted);
    rewriter_.applied(Action::kConvert, *layer, "Computing " + layer->name + " in float");
    if (!has_16_bit(layer->outputs)) {
      for (size_t k = 0; k < inputs.size(); ++k) rewriter_.set_input(layer, k, inputs[k]);
      return inserted;
    }
    const bool is_single = layer->outputs.size() == 1;
    return inserted + (is_single ? widen_output(layer, inputs) : widen_outputs(layer, inputs));
  }

  int widen_output(Layer* layer, const std::vector<Tensor*>& inputs) {
    Tensor* output = layer->outputs[0];
    Tensor* made = like(*output, output->name + " as float");
    const std::string name = layer->name;
    Layer* wide =
        rewriter_.insert_before(layer, layer->kind, name, layer->attrs, inputs, {made}, {layer});
    Layer* group[] = {layer};
    Layer* cast = rewriter_.replace(group, LayerKind::kCast, CastAttrs{output->type}, {made},
                                    name + " (cast)");
    rewriter_.rename(wide, name);
    if (!strict_) floats_[cast->outputs[0]] = made;
    return 1;
  }

  // Of several outputs, a cast behind each that is of 16 bits.
  int widen_outputs(Layer* layer, const std::vector<Tensor*>& inputs) {
    const std::vector<Tensor*> outputs = layer->outputs;
    std::vector<Tensor*> made = outputs;
    for (Tensor*& tensor : made)
      if (tensor)
        tensor = rewriter_.add_tensor_like(*tensor, tensor->name + " as float",
                                           is_16_bit(tensor) ? DataType::kFloat : tensor->type);
    const std::string name = layer->name;
    Layer* wide =
        rewriter_.insert_before(layer, layer->kind, name, layer->attrs, inputs, made, {layer});
    int inserted = 0;  // and the layer goes
    for (size_t k = 0; k < outputs.size(); ++k) {
      if (!outputs[k]) continue;
      Tensor* now = made[k];
      if (is_16_bit(outputs[k])) {
        now =
            rewriter_.add_tensor_like(*outputs[k], outputs[k]->name + " (cast)", outputs[k]->type);
        rewriter_.insert_before(layer, LayerKind::kCast, name + " (cast)",
                                CastAttrs{outputs[k]->type}, {made[k]}, {now}, {layer});
        if (!strict_) floats_[now] = made[k];
        ++inserted;
      }
      rewriter_.replace_uses(outputs[k], now);
    }
    rewriter_.remove(layer);
    rewriter_.rename(wide, name);
    return inserted;
  }

  Rewriter rewriter_;
  bool strict_;
  std::unordered_map<const Tensor*, Tensor*> floats_;
};

}  // namespace

int widen_floats(Graph& graph, Records* records) {
  return Widener(graph, records, false).run();
}

int widen_floats_strictly(Graph& graph, Records* records) {
  return Widener(graph, records, true).run();
}

}  // namespace camshaft::passes
