// SPDX-License-Identifier: Apache-2.0
// ConstantFolding: layers whose inputs are all constants are evaluated now (reference kernels),
// shape arithmetic whose elements are known becomes a constant. ConstShuffleFusion is the case of a
// Shuffle, under the name TensorRT's log gives it. Bit exact.
#include <algorithm>
#include <cstring>

#include "kernels/interpreter.h"
#include "passes/fold.h"
#include "passes/match.h"
#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

// Repetitions (Expand, Tile …) that are this many times bigger than what they come from stay
// layers: a file full of zeros helps nobody. What is computed (masks, tables of positions) is
// stored.
constexpr size_t kSmallBytes = 64 << 10;
constexpr size_t kMostGrowth = 4;
constexpr size_t kMostBytes = 16 << 20;
constexpr int kLongestChain = 12;

bool repeats(const Layer& layer) {
  switch (layer.kind) {
    case LayerKind::kExpand:
    case LayerKind::kTile:
    case LayerKind::kFill:
    case LayerKind::kPad:
    case LayerKind::kResize:
    case LayerKind::kRange:
    case LayerKind::kShuffle:
      return true;
    default:
      return false;
  }
}

// The copy that keeps a network output apart from a constant must stay.
bool is_output_copy(const Graph& graph, const Layer& layer) {
  return is_copy(layer) && graph.is_output(layer.outputs[0]);
}

// Codes stay codes until it is decided which products become quantized ones: see
// quantize_constants.cpp.
bool is_left_to_quantization(const Layer& layer) {
  return layer.kind == LayerKind::kQuantize || layer.kind == LayerKind::kDequantize;
}

// The bytes of all results; beyond any limit where an extent is not known.
size_t bytes_made(const Layer& layer) {
  size_t bytes = 0;
  for (const Tensor* output : layer.outputs) {
    if (!output) continue;
    if (!output->has_rank || !all_known(output->shape)) return kMostBytes + 1;
    bytes = std::max(bytes, bytes_for(output->type, element_count(extents_of(output->shape))));
  }
  return bytes;
}

// A constant, or what layers that stay because they repeat one make of it.
bool is_made_of_constants(const Tensor* tensor, int most_layers) {
  if (!tensor || tensor->is_constant()) return true;
  const Layer* layer = tensor->producer;
  return layer && most_layers > 0 && layer->bodies.empty() && !kernels::is_random(*layer) &&
         !is_left_to_quantization(*layer) && bytes_made(*layer) <= kMostBytes &&
         std::all_of(layer->inputs.begin(), layer->inputs.end(), [&](const Tensor* input) {
           return is_made_of_constants(input, most_layers - 1);
         });
}

bool can_evaluate(const Graph& graph, const Layer& layer) {
  if (!layer.bodies.empty() || kernels::is_random(layer) || layer.outputs.empty() ||
      is_output_copy(graph, layer) || is_left_to_quantization(layer))
    return false;
  size_t bytes = 0;
  for (const Tensor* input : layer.inputs) {
    if (!input) continue;
    if (!input->is_constant() && (repeats(layer) || !is_made_of_constants(input, kLongestChain)))
      return false;
    bytes += input->is_constant() ? input->constant->view.size() : 0;
  }
  const size_t made = bytes_made(layer);
  return made <= kSmallBytes || made <= kMostGrowth * bytes ||
         (!repeats(layer) && made <= kMostBytes);
}

void replace_by_constant(Rewriter& rewriter, Tensor* output, std::span<const int64_t> extents,
                         std::shared_ptr<const ConstantData> data, const std::string& name) {
  Tensor* constant = rewriter.add_constant(name, output->type, extents, std::move(data));
  rewriter.set_facts(constant, output->facts);
  rewriter.replace_uses(output, constant);
  if (name == output->name && !rewriter.graph().is_output(output))
    rewriter.swap_names(constant, output);
}

}  // namespace

bool has_constant_inputs(const Layer& layer) {
  return std::all_of(layer.inputs.begin(), layer.inputs.end(),
                     [](const Tensor* t) { return !t || t->is_constant(); });
}

namespace {

Result<std::vector<kernels::Value>> evaluate_layer(const Layer& layer) {
  std::vector<kernels::Value> values;
  std::vector<const kernels::Value*> inputs;
  values.reserve(layer.inputs.size());
  for (const Tensor* input : layer.inputs) {
    if (input && input->is_constant()) {
      values.push_back(kernels::constant_value(*input));
    } else if (input) {
      CAMSHAFT_ASSIGN(std::vector<kernels::Value> made, evaluate_layer(*input->producer));
      const auto& outputs = input->producer->outputs;
      values.push_back(made[std::find(outputs.begin(), outputs.end(), input) - outputs.begin()]);
    }
    inputs.push_back(input ? &values.back() : nullptr);
  }
  // Exporters share weights by an Identity for each further use: one tensor in memory stays one.
  if (is_copy(layer)) return values;
  return kernels::evaluate_layer(layer, inputs);
}

bool is_chain_of_constants(const Tensor* tensor) {
  if (!tensor || tensor->is_constant()) return true;
  const Layer* layer = tensor->producer;
  return layer && layer->bodies.empty() && !kernels::is_random(*layer) &&
         std::all_of(layer->inputs.begin(), layer->inputs.end(), is_chain_of_constants);
}

}  // namespace

bool evaluate_now(Rewriter& rewriter, Layer* layer, const std::string& name) {
  Result<std::vector<kernels::Value>> results = evaluate_layer(*layer);
  if (!results.ok()) {
    rewriter.declined(*layer, {Reason::kUnsupported, results.status().message()});
    return false;
  }
  for (size_t k = 0; k < layer->outputs.size(); ++k) {
    const kernels::Value& value = results.value()[k];
    if (Tensor* output = layer->outputs[k])
      replace_by_constant(rewriter, output, value.extents, value.data,
                          name.empty() ? output->name : name);
  }
  return true;
}

Tensor* evaluate_chain(Rewriter& rewriter, const Layer& reader, size_t input) {
  const Tensor* tensor = reader.inputs[input];
  if (!is_chain_of_constants(tensor)) return nullptr;
  if (!tensor->is_constant() &&
      !evaluate_now(rewriter, tensor->producer, tensor->name + " (value)"))
    return nullptr;
  return reader.inputs[input];
}

std::optional<kernels::Value> value_of_constants(const Tensor& tensor) {
  if (tensor.is_constant()) return kernels::constant_value(tensor);
  if (!is_chain_of_constants(&tensor)) return std::nullopt;
  Result<std::vector<kernels::Value>> made = evaluate_layer(*tensor.producer);
  if (!made.ok()) return std::nullopt;
  const auto& outputs = tensor.producer->outputs;
  return made.value()[std::find(outputs.begin(), outputs.end(), &tensor) - outputs.begin()];
}

namespace {

// Elements of a known shape_value as a constant; empty where some are symbols or the type is no
// integer.
std::vector<std::byte> known_elements(const Graph& graph, const Tensor& tensor) {
  std::vector<std::byte> bytes;
  if (!tensor.facts.shape_value || !tensor.has_rank || !all_known(tensor.shape)) return bytes;
  if (tensor.type != DataType::kInt64 && tensor.type != DataType::kInt32) return bytes;
  const size_t size = bits_of(tensor.type) / 8;
  for (Dim dim : *tensor.facts.shape_value) {
    if (!graph.symbols().is_number(dim)) return {};
    const int64_t value = graph.symbols().number(dim);
    bytes.resize(bytes.size() + size);
    std::memcpy(bytes.data() + bytes.size() - size, &value, size);  // little endian
  }
  const bool whole =
      bytes.size() == bytes_for(tensor.type, element_count(extents_of(tensor.shape)));
  return whole ? bytes : std::vector<std::byte>();
}

bool fold_shape_value(Rewriter& rewriter, Layer* layer) {
  if (layer->outputs.size() != 1 || !layer->outputs[0] || is_output_copy(rewriter.graph(), *layer))
    return false;
  Tensor* output = layer->outputs[0];
  std::vector<std::byte> bytes = known_elements(rewriter.graph(), *output);
  if (bytes.empty()) return false;
  replace_by_constant(rewriter, output, extents_of(output->shape), make_constant(std::move(bytes)),
                      output->name);
  return true;
}

int fold(Graph& graph, Records* records, const char* pass, bool shuffles) {
  Rewriter rewriter(graph, pass, records);
  for (size_t k = 0; k < graph.layers().size();) {
    Layer* layer = graph.layers()[k].get();
    if ((layer->kind == LayerKind::kShuffle) != shuffles) {
      ++k;
      continue;
    }
    const bool constant = can_evaluate(graph, *layer);
    const std::string source = constant && shuffles ? layer->inputs[0]->name : "";
    if (constant) rewriter.running(*layer);
    const bool folded =
        constant ? evaluate_now(rewriter, layer, shuffles ? source + " + " + layer->name : "")
                 : fold_shape_value(rewriter, layer);
    if (!folded) {
      ++k;
      continue;
    }
    if (shuffles)
      rewriter.applied(Action::kFuse, *layer, "Fusing " + source + " with " + layer->name);
    else
      rewriter.applied(Action::kRemove, *layer, "Folding " + layer->name);
    rewriter.remove(layer);
    // replace_uses may have put a copy for a network output at the end; k is the next layer either
    // way.
  }
  return rewriter.edits();
}

}  // namespace

int constant_folding(Graph& graph, Records* records) {
  return fold(graph, records, "ConstantFolding", false);
}
int const_shuffle_fusion(Graph& graph, Records* records) {
  return fold(graph, records, "ConstShuffleFusion", true);
}

}  // namespace camshaft::passes
