// SPDX-License-Identifier: Apache-2.0
#include "tuner/late_shapes.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/kind_traits.h"

namespace camshaft::tuner {
namespace {

using ir::Dim;
using ir::Layer;
using ir::LayerKind;
using ir::Tensor;

// The run-time symbols an expression is made of.
void collect(const ir::SymbolTable& symbols, Dim dim, std::set<int>& found) {
  if (dim.is_known() || !symbols.depends_on_runtime(dim)) return;
  const ir::Symbol& symbol = symbols.symbol(dim.symbol_id());
  if (symbol.op == ir::SymbolOp::kRuntime) {
    found.insert(dim.symbol_id());
    return;
  }
  collect(symbols, symbol.a, found);
  collect(symbols, symbol.b, found);
}

// Elements that the layer's extents are read from, but that are computed from data.
std::string source_of(const Layer& layer) {
  if (ir::traits_of(layer.kind).extents == ir::ExtentsAre::kOfNumbers)
    for (size_t k = 0; k < layer.inputs.size(); ++k) {
      const Tensor* input = layer.inputs[k];
      const bool may_decide = input && !input->is_constant() && !input->facts.shape_value &&
                              input->has_rank && input->shape.size() <= 1 &&
                              (k > 0 || layer.kind == LayerKind::kRange ||
                               layer.kind == LayerKind::kFill || layer.inputs.size() == 1);
      if (may_decide && input->producer)
        return fmt::format("its extents are the values of {}, which {} {} makes from data",
                           input->name, ir::kind_name(input->producer->kind),
                           input->producer->name);
      if (may_decide) return fmt::format("its extents are the values of input {}", input->name);
    }
  const auto* generic = std::get_if<ir::GenericAttrs>(&layer.attrs);
  return fmt::format("{} decides it by its data",
                     generic ? generic->op_type : std::string(ir::kind_name(layer.kind)));
}

std::string text_of(const Tensor& tensor) {
  if (!tensor.has_rank) return tensor.name + " has an unknown rank";
  std::string text;
  for (const Dim dim : tensor.shape)
    text += (text.empty() ? "" : ",") + tensor.graph->symbols().to_string(dim);
  return fmt::format("{} [{}]", tensor.name, text);
}

bool is_unranked(const std::vector<Tensor*>& tensors) {
  for (const Tensor* tensor : tensors)
    if (tensor && !tensor->has_rank) return true;
  return false;
}

bool holds_any(const Tensor& tensor, const std::set<int>& symbols) {
  std::set<int> found;
  for (const Dim dim : tensor.shape) collect(tensor.graph->symbols(), dim, found);
  return std::any_of(found.begin(), found.end(),
                     [&](int symbol) { return symbols.count(symbol) > 0; });
}

void list(const ir::Graph& graph, std::set<int>& known, std::vector<ir::RewriteRecord>& records) {
  for (const auto& layer : graph.layers()) {
    std::set<int> made;
    for (const Tensor* output : layer->outputs)
      if (output)
        for (const Dim dim : output->shape) collect(graph.symbols(), dim, made);
    std::erase_if(made, [&](int symbol) { return known.count(symbol) > 0; });
    const bool loses_rank = is_unranked(layer->outputs) && !is_unranked(layer->inputs);
    if (!made.empty() || loses_rank) {
      for (const Tensor* output : layer->outputs)
        if (output && (loses_rank ? !output->has_rank : holds_any(*output, made))) {
          records.push_back({ir::Action::kDecline,
                             "ShapeInference",
                             {layer->name},
                             layer->number(),
                             fmt::format("{} is known only when it runs: {}", text_of(*output),
                                         source_of(*layer)),
                             ir::Reason::kExtent});
          break;
        }
      known.insert(made.begin(), made.end());
    }
    for (const auto& body : layer->bodies) list(*body, known, records);
  }
}

}  // namespace

std::vector<ir::RewriteRecord> late_shapes(const ir::Graph& graph) {
  std::set<int> known;
  std::vector<ir::RewriteRecord> records;
  list(graph, known, records);
  return records;
}

}  // namespace camshaft::tuner
