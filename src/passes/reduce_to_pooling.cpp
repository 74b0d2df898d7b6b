// SPDX-License-Identifier: Apache-2.0
// ReduceToPooling: the mean or maximum over all spatial axes is a global pooling (which reads any
// format). Summation order aside, exact.
#include "passes/match.h"
#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

bool is_over_all_spatial_axes(const Layer& layer) {
  const auto& a = layer.as<ReduceAttrs>();
  const Tensor* x = layer.inputs[0];
  if (input_at(layer, 1) || !x->has_rank || x->shape.size() < 3 || x->type != DataType::kFloat)
    return false;
  if (a.op != ReduceOp::kMean && a.op != ReduceOp::kMax) return false;
  if (a.axes.size() != x->shape.size() - 2) return false;
  return a.axes.front() == 2;  // sorted, so these are 2 … rank-1
}

}  // namespace

int reduce_to_pooling(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "ReduceToPooling", records);
  for (size_t k = 0; k < graph.layers().size(); ++k) {
    Layer* layer = graph.layers()[k].get();
    if (layer->kind != LayerKind::kReduce || !is_over_all_spatial_axes(*layer)) continue;
    rewriter.running(*layer);
    const ReduceAttrs reduce = layer->as<ReduceAttrs>();
    PoolingAttrs pooling;
    pooling.type = reduce.op == ReduceOp::kMax ? PoolingType::kMax : PoolingType::kAverage;
    pooling.global = true;
    rewriter.applied(Action::kConvert, *layer, "Converting " + layer->name);
    Tensor* x = layer->inputs[0];
    Layer* group[] = {layer};
    if (reduce.keep_dims) {
      rewriter.replace(group, LayerKind::kPooling, pooling, {x});
      continue;
    }
    Shape shape = x->shape;
    for (size_t axis = 2; axis < shape.size(); ++axis) shape[axis] = 1;
    Tensor* pooled =
        rewriter.add_tensor(layer->outputs[0]->name + " (pooled)", DataType::kFloat, shape);
    const std::string name = layer->name;
    Layer* made =
        rewriter.insert_before(layer, LayerKind::kPooling, name, pooling, {x}, {pooled}, {layer});
    ShuffleAttrs squeeze;
    squeeze.has_reshape = true;
    squeeze.reshape = layer->outputs[0]->shape;
    rewriter.replace(group, LayerKind::kShuffle, squeeze, {pooled}, name + " (squeeze)");
    rewriter.rename(made, name);
  }
  return rewriter.edits();
}

}  // namespace camshaft::passes
