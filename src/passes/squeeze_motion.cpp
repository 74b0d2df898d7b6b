// SPDX-License-Identifier: Apache-2.0
// SqueezeMotion: a reduction that drops its dimensions keeps them and a reshape drops them behind
// it; such reshapes (which move nothing) pass down through pointwise layers all of whose operands
// come out of one, so that they meet the reshape that puts the dimensions back. What remains are
// the patterns of normalizations and softmax as other exporters write them. Bit exact.
#include <algorithm>

#include "passes/expression.h"
#include "passes/match.h"
#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

bool keep_dims(Rewriter& rewriter, Layer* reduce) {
  auto attrs = reduce->as<ReduceAttrs>();
  if (attrs.keep_dims || attrs.axes.empty() || input_at(*reduce, 1) || !reduce->inputs[0]->has_rank)
    return false;
  // To a scalar there is nothing to put back.
  if (attrs.axes.size() == reduce->inputs[0]->shape.size()) return false;
  attrs.keep_dims = true;
  Shape shape = reduce->inputs[0]->shape;
  for (int64_t axis : attrs.axes) shape[axis] = 1;
  Tensor* output = reduce->outputs[0];
  Tensor* kept = rewriter.add_tensor(output->name + " (kept)", output->type, shape);
  const std::string name = reduce->name;
  Layer* made = rewriter.insert_before(reduce, LayerKind::kReduce, name, attrs, reduce->inputs,
                                       {kept}, {reduce});
  ShuffleAttrs squeeze;
  squeeze.has_reshape = true;
  squeeze.reshape = output->shape;
  Layer* group[] = {reduce};
  rewriter.replace(group, LayerKind::kShuffle, squeeze, {kept}, name + " (squeeze)");
  rewriter.rename(made, name);
  rewriter.applied(Action::kEdit, *made, "Keeping the dimensions of " + name);
  return true;
}

// A reshape that only drops extents of 1 (at these dimensions of its input), else empty.
std::optional<Ints> dropped_dims(const Layer* layer) {
  if (!layer || layer->kind != LayerKind::kShuffle || input_at(*layer, 1)) return std::nullopt;
  const auto& a = layer->as<ShuffleAttrs>();
  if (!a.has_reshape || !a.first_transpose.empty() || !a.second_transpose.empty() ||
      !layer->inputs[0]->has_rank)
    return std::nullopt;
  const Shape &from = layer->inputs[0]->shape, &to = a.reshape;
  Ints dropped;
  size_t at = 0;
  for (size_t k = 0; k < from.size(); ++k) {
    if (at < to.size() && from[k] == to[at])
      ++at;
    else if (from[k] == Dim(1))
      dropped.push_back(static_cast<int64_t>(k));
    else
      return std::nullopt;
  }
  return at == to.size() && !dropped.empty() ? std::optional(dropped) : std::nullopt;
}

// The layer's attributes where these dimensions stand in its operands again.
Attrs with_dims(const Layer& layer, const Ints& dropped) {
  if (layer.kind != LayerKind::kScale) return layer.attrs;
  ScaleAttrs attrs = layer.as<ScaleAttrs>();
  for (int64_t axis : dropped) attrs.axis += axis <= attrs.axis;
  return attrs;
}

bool sink_below(Rewriter& rewriter, Layer* layer) {
  Tensor* output = layer->outputs[0];
  const Layer* squeeze = nullptr;
  std::vector<Tensor*> inputs;
  for (Tensor* input : layer->inputs) {
    const std::optional<Ints> dropped = dropped_dims(input->producer);
    if (scalar_value(input)) {
      inputs.push_back(input);
    } else if (dropped && input->shape.size() == output->shape.size() &&
               (!squeeze || *dropped == *dropped_dims(squeeze))) {
      squeeze = input->producer;
      inputs.push_back(squeeze->inputs[0]);
    } else {
      return false;
    }
  }
  if (!squeeze) return false;
  Shape shape = output->shape;
  const Ints dropped = *dropped_dims(squeeze);
  for (int64_t axis : dropped) shape.insert(static_cast<size_t>(axis), Dim(1));
  rewriter.running(*layer);
  rewriter.swapped(*squeeze, *layer);
  Tensor* made = rewriter.add_tensor(output->name + " (kept)", output->type, shape);
  const std::string name = layer->name;
  Layer* remade = rewriter.insert_before(layer, layer->kind, name, with_dims(*layer, dropped),
                                         inputs, {made}, {layer});
  ShuffleAttrs attrs;
  attrs.has_reshape = true;
  attrs.reshape = output->shape;
  Layer* group[] = {layer};
  rewriter.replace(group, LayerKind::kShuffle, attrs, {made}, name + " (squeeze)");
  rewriter.rename(remade, name);
  return true;
}

}  // namespace

int squeeze_motion(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "SqueezeMotion", records);
  for (size_t k = 0; k < graph.layers().size(); ++k) {
    Layer* layer = graph.layers()[k].get();
    if (layer->kind == LayerKind::kReduce)
      keep_dims(rewriter, layer);
    else if (is_pointwise(*layer))
      sink_below(rewriter, layer);
  }
  return rewriter.edits();
}

}  // namespace camshaft::passes
