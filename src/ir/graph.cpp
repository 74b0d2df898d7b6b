// SPDX-License-Identifier: Apache-2.0
// Graph: owns layers and tensors, keeps links, order and unique names.
#include "ir/graph.h"

#include <algorithm>
#include <cassert>
#include <unordered_map>
#include <unordered_set>

namespace camshaft::ir {

std::shared_ptr<const ConstantData> make_constant(std::vector<std::byte> bytes) {
  auto data = std::make_shared<ConstantData>();
  data->bytes = std::move(bytes);
  data->view = data->bytes;
  return data;
}

// Names in use, and where each layer was last seen: edits shift layers only a little, so position()
// searches outwards from there.
struct Graph::Names {
  std::unordered_set<std::string> tensors, layers;
  std::unordered_map<std::string, int> next_suffix;
  std::unordered_map<const Layer*, size_t> seen_at;

  std::string make_unique(std::unordered_set<std::string>& used, std::string name) {
    if (used.insert(name).second) return name;
    int& suffix = next_suffix[name];
    for (;;) {
      std::string candidate = name + "_" + std::to_string(++suffix);
      if (used.insert(candidate).second) return candidate;
    }
  }
};

Graph::Graph(std::string name) : Graph(std::move(name), std::make_shared<SymbolTable>()) {}
Graph::Graph(std::string name, std::shared_ptr<SymbolTable> symbols)
    : name_(std::move(name)), symbols_(std::move(symbols)), names_(std::make_unique<Names>()) {}
Graph::~Graph() = default;

bool Graph::is_output(const Tensor* tensor) const {
  return std::find(outputs_.begin(), outputs_.end(), tensor) != outputs_.end();
}

Tensor* Graph::add_tensor(std::string name, DataType type, const Shape& shape) {
  auto tensor = std::make_unique<Tensor>();
  tensor->name = names_->make_unique(names_->tensors, std::move(name));
  tensor->type = type;
  tensor->shape = shape;
  tensor->graph = this;
  tensors_.push_back(std::move(tensor));
  return tensors_.back().get();
}

Tensor* Graph::add_constant(std::string name, DataType type, std::span<const int64_t> extents,
                            std::shared_ptr<const ConstantData> data) {
  assert(data->view.size() == bytes_for(type, element_count(extents)));
  Tensor* tensor = add_tensor(std::move(name), type, Shape(extents.begin(), extents.end()));
  tensor->constant = std::move(data);
  return tensor;
}

Layer* Graph::add_layer(LayerKind kind, std::string name, Attrs attrs, std::vector<Tensor*> inputs,
                        std::vector<Tensor*> outputs, const Layer* before) {
  auto owned = std::make_unique<Layer>();
  Layer* layer = owned.get();
  layer->kind = kind;
  layer->name = names_->make_unique(names_->layers, std::move(name));
  layer->attrs = std::move(attrs);
  layer->lineage = {symbols_->next_layer_number()};
  layer->inputs = std::move(inputs);
  layer->outputs = std::move(outputs);
  for (Tensor* input : layer->inputs)
    if (input) input->consumers.push_back(layer);
  for (Tensor* output : layer->outputs)
    if (output) output->producer = layer;
  const size_t at = before ? position(before) : layers_.size();
  names_->seen_at[layer] = at;
  layers_.insert(layers_.begin() + at, std::move(owned));
  return layer;
}

static void unlink(Tensor* tensor, Layer* layer) {
  if (!tensor) return;
  auto use = std::find(tensor->consumers.begin(), tensor->consumers.end(), layer);
  assert(use != tensor->consumers.end());
  tensor->consumers.erase(use);
}

void Graph::set_input(Layer* layer, size_t index, Tensor* tensor) {
  unlink(layer->inputs[index], layer);
  layer->inputs[index] = tensor;
  if (tensor) tensor->consumers.push_back(layer);
}

void Graph::append_input(Layer* layer, Tensor* tensor) {
  layer->inputs.push_back(tensor);
  if (tensor) tensor->consumers.push_back(layer);
}

void Graph::remove_layer(Layer* layer) {
  for (Tensor* input : layer->inputs) unlink(input, layer);
  for (Tensor* output : layer->outputs) {
    if (!output) continue;
    assert(output->consumers.empty());
    output->producer = nullptr;
  }
  const size_t at = position(layer);
  names_->layers.erase(layer->name);
  names_->seen_at.erase(layer);
  layers_.erase(layers_.begin() + at);
}

void Graph::move_before(Layer* layer, const Layer* before) {
  if (layer == before) return;
  const size_t from = position(layer);
  const size_t to = position(before);
  if (from < to)
    std::rotate(layers_.begin() + from, layers_.begin() + from + 1, layers_.begin() + to);
  else
    std::rotate(layers_.begin() + to, layers_.begin() + from, layers_.begin() + from + 1);
  names_->seen_at[layer] = from < to ? to - 1 : to;
}

void Graph::rename(Layer* layer, std::string name) {
  if (layer->name == name) return;
  names_->layers.erase(layer->name);
  layer->name = names_->make_unique(names_->layers, std::move(name));
}

void Graph::remove_unused_tensors() {
  std::unordered_set<const Tensor*> kept(inputs_.begin(), inputs_.end());
  kept.insert(outputs_.begin(), outputs_.end());
  std::erase_if(tensors_, [&](const std::unique_ptr<Tensor>& tensor) {
    if (tensor->producer || !tensor->consumers.empty() || kept.count(tensor.get())) return false;
    names_->tensors.erase(tensor->name);
    return true;
  });
}

size_t Graph::position(const Layer* layer) const {
  size_t& seen = names_->seen_at.at(layer);
  const size_t count = layers_.size();
  const size_t start = std::min(seen, count - 1);
  for (size_t distance = 0; distance < count; ++distance) {
    if (start >= distance && layers_[start - distance].get() == layer)
      return seen = start - distance;
    if (start + distance < count && layers_[start + distance].get() == layer)
      return seen = start + distance;
  }
  assert(!"the layer is not in this graph");
  return count;
}

}  // namespace camshaft::ir
