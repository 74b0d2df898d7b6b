// SPDX-License-Identifier: Apache-2.0
#include "ir/verify_shapes.h"

#include <algorithm>

#include <fmt/format.h>

#include "ir/infer.h"

namespace camshaft::ir {
namespace {

// What contradicts: two types, two ranks, two numbers for an extent. Two expressions may be equal
// and not look so.
std::string contradiction(const Tensor& tensor, const InferOutput& made) {
  if (made.type != DataType::kUndefined && made.type != tensor.type)
    return fmt::format("is {} and should be {}", type_name(tensor.type), type_name(made.type));
  if (!made.has_rank || !tensor.has_rank) return "";
  if (made.shape.size() != tensor.shape.size())
    return fmt::format("has rank {} and should have {}", tensor.shape.size(), made.shape.size());
  for (size_t d = 0; d < made.shape.size(); ++d)
    if (made.shape[d].is_known() && tensor.shape[d].is_known() &&
        made.shape[d].extent() != tensor.shape[d].extent())
      return fmt::format("has extent {} in dimension {} and should have {}",
                         tensor.shape[d].extent(), d, made.shape[d].extent());
  return "";
}

// `may_be_dead`: part of a branch that these extents may never take (a decoder of another sample
// rate), whose layers may contradict each other. Running it would say so.
Status verify_layer(const Layer& layer, SymbolTable& symbols, bool may_be_dead) {
  std::vector<InferInput> inputs;
  for (const Tensor* input : layer.inputs)
    inputs.push_back(input ? infer_input(input, symbols) : InferInput());
  const auto made = infer(layer, inputs, symbols);
  if (!made.ok()) return may_be_dead ? ok_status() : made.status();
  for (size_t k = 0; k < std::min(layer.outputs.size(), made->size()); ++k) {
    const Tensor* output = layer.outputs[k];
    if (!output) continue;
    const std::string what = contradiction(*output, (*made)[k]);
    if (!what.empty())
      return make_error(ErrorCode::kInternal, "output '{}' {}", output->name, what);
  }
  return ok_status();
}

Status verify_graph(const Graph& graph, bool may_be_dead) {
  SymbolTable symbols = graph.symbols();  // inference makes new ones
  for (const auto& layer : graph.layers()) {
    CAMSHAFT_TRY(
        verify_layer(*layer, symbols, may_be_dead).with_context("layer '" + layer->name + "'"));
    for (const auto& body : layer->bodies)
      CAMSHAFT_TRY(verify_graph(*body, may_be_dead || layer->kind == LayerKind::kIf)
                       .with_context("body '" + body->name() + "'"));
  }
  return ok_status();
}

}  // namespace

Status verify_shapes(const Graph& graph, bool is_body) {
  return verify_graph(graph, is_body);
}

}  // namespace camshaft::ir
