// SPDX-License-Identifier: Apache-2.0
// DeadLayerRemoval: a layer none of whose outputs reaches a network output goes, unless it is the
// one that tells an extent another layer's attributes name. Bit exact.
#include <algorithm>
#include <set>

#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

bool is_used(const Graph& graph, const Tensor* tensor) {
  return tensor && (!tensor->consumers.empty() || graph.is_output(tensor));
}

// Outputs that ONNX leaves optional and kernels can skip.
bool has_optional_outputs(LayerKind kind) {
  return kind == LayerKind::kPooling || kind == LayerKind::kRecurrence;
}

// Symbols that only running tells, in expressions.
void add_runtime_symbols(const SymbolTable& symbols, Dim dim, std::set<int>& found) {
  if (dim.is_known() || !symbols.depends_on_runtime(dim)) return;
  const Symbol& symbol = symbols.symbol(dim.symbol_id());
  if (symbol.op == SymbolOp::kRuntime) {
    found.insert(dim.symbol_id());
    return;
  }
  add_runtime_symbols(symbols, symbol.a, found);
  add_runtime_symbols(symbols, symbol.b, found);
}

struct AttributeSymbols {
  const SymbolTable& symbols;
  std::set<int>& found;
  template <class T>
  void operator()(const char*, const T& field) {
    if constexpr (std::is_same_v<T, Shape>)
      for (const Dim dim : field) add_runtime_symbols(symbols, dim, found);
  }
};

void add_symbols_of_attributes(const Graph& graph, std::set<int>& found) {
  AttributeSymbols visitor{graph.symbols(), found};
  for (const auto& layer : graph.layers()) {
    std::visit([&](const auto& a) { std::decay_t<decltype(a)>::fields(a, visitor); }, layer->attrs);
    for (const auto& body : layer->bodies) add_symbols_of_attributes(*body, found);
  }
}

std::set<int> symbols_of(const Graph& graph, const std::vector<Tensor*>& tensors) {
  std::set<int> found;
  for (const Tensor* tensor : tensors)
    for (size_t d = 0; tensor && d < tensor->shape.size(); ++d)
      add_runtime_symbols(graph.symbols(), tensor->shape[d], found);
  return found;
}

// Its results have an extent of `needed` that its operands do not have.
bool tells(const Graph& graph, const Layer& layer, const std::set<int>& needed) {
  const std::set<int> known = symbols_of(graph, layer.inputs);
  const std::set<int> told = symbols_of(graph, layer.outputs);
  return std::any_of(told.begin(), told.end(),
                     [&](int id) { return needed.count(id) && !known.count(id); });
}

}  // namespace

int dead_layer_removal(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "DeadLayerRemoval", records);
  std::vector<Layer*> layers;
  for (const auto& layer : graph.layers()) layers.push_back(layer.get());
  std::set<int> needed;
  add_symbols_of_attributes(graph, needed);
  // From the back, so that a chain goes in one sweep.
  for (auto at = layers.rbegin(); at != layers.rend(); ++at) {
    Layer* layer = *at;
    const auto used = [&](const Tensor* tensor) { return is_used(graph, tensor); };
    if (std::none_of(layer->outputs.begin(), layer->outputs.end(), used)) {
      if (!needed.empty() && tells(graph, *layer, needed)) continue;
      rewriter.removed(*layer);
      rewriter.remove(layer);
    } else if (has_optional_outputs(layer->kind)) {
      for (size_t k = 1; k < layer->outputs.size(); ++k)
        if (layer->outputs[k] && !used(layer->outputs[k])) rewriter.drop_output(layer, k);
    }
  }
  graph.remove_unused_tensors();
  return rewriter.edits();
}

}  // namespace camshaft::passes
