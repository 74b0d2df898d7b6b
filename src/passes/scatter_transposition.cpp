// SPDX-License-Identifier: Apache-2.0
// ScatterTransposition: ScatterND indexes leading dimensions, so exporters transpose the data to
// write rows along another one (PyTorch's x.index_copy(2, positions, rows): the static caches of
// decoders) and transpose the result back. The scatter goes along that dimension itself, and the
// data stay where they lie; where input and output of a network share memory, new rows alone are
// written. Bit exact.
#include "passes/match.h"
#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

// One index for each row.
bool scatters_rows(const Layer& layer) {
  if (layer.kind != LayerKind::kScatter) return false;
  const auto& a = layer.as<ScatterAttrs>();
  const Tensor* indices = layer.inputs[1];
  return a.mode == ScatterMode::kNd && a.axis == 0 && indices->has_rank &&
         indices->shape.size() == 2 && indices->shape[1] == Dim(1);
}

void scatter_along(Rewriter& rewriter, Layer* scatter, Layer* back, const Ints& order) {
  const std::string name = scatter->name;
  rewriter.running(*scatter);
  rewriter.applied(Action::kConvert, *scatter,
                   "Converting " + name + " to rows along dimension " + std::to_string(order[0]));
  ShuffleAttrs turn;
  turn.first_transpose = inverse(order);
  Shape shape = back->outputs[0]->shape;
  shape[order[0]] = scatter->inputs[1]->shape[0];
  Tensor* data = scatter->inputs[0]->producer->inputs[0];
  Tensor* rows = rewriter.add_tensor(name + " (rows)", data->type, shape);
  rewriter.insert_before(scatter, LayerKind::kShuffle, name + " (rows)", turn, {scatter->inputs[2]},
                         {rows}, {scatter});
  auto attrs = scatter->as<ScatterAttrs>();
  attrs.axis = order[0];
  Layer* group[] = {scatter, back};
  rewriter.replace(group, LayerKind::kScatter, attrs, {data, scatter->inputs[1], rows}, name);
}

}  // namespace

int scatter_transposition(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "ScatterTransposition", records);
  for (size_t k = 0; k < graph.layers().size(); ++k) {
    Layer* scatter = graph.layers()[k].get();
    if (!scatters_rows(*scatter) || !scatter->inputs[2]->has_rank) continue;
    const Ints order = pure_order(scatter->inputs[0]->producer);
    Layer* back = sole_consumer(scatter->outputs[0]);
    // Where the first dimension stays first, ScatterND does as well.
    if (order.empty() || order[0] == 0 || pure_order(back) != inverse(order)) continue;
    scatter_along(rewriter, scatter, back, order);
  }
  return rewriter.edits();
}

}  // namespace camshaft::passes
