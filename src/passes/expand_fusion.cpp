// SPDX-License-Identifier: Apache-2.0
// ExpandFusion: repetition moves behind what it repeats, or goes where broadcasting does the same:
// Expand before a pointwise layer, before a matrix product's batch dimensions (grouped-query
// attention), between a constant and reshapes or concatenations. Bit exact.
#include <algorithm>

#include "passes/expression.h"
#include "passes/match.h"
#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

bool is_expand(const Layer* layer) {
  return layer && layer->kind == LayerKind::kExpand && layer->as<ShapeAttrs>().is_static &&
         !input_at(*layer, 1) && layer->inputs[0]->has_rank && layer->outputs[0]->has_rank;
}

// A Tile that repeats extents of 1 only is an Expand.
bool tile_to_expand(Rewriter& rewriter, Layer* tile) {
  const Shape& x = tile->inputs[0]->shape;
  if (!tile->as<ShapeAttrs>().is_static || input_at(*tile, 1) || !tile->inputs[0]->has_rank)
    return false;
  const Shape& repeats = tile->as<ShapeAttrs>().shape;
  for (size_t k = 0; k < repeats.size(); ++k)
    if (repeats[k] != Dim(1) && x[k] != Dim(1)) return false;
  ShapeAttrs attrs;
  attrs.shape = tile->outputs[0]->shape;
  rewriter.running(*tile);
  rewriter.applied(Action::kConvert, *tile, "Converting " + tile->name + " to an expansion");
  Layer* group[] = {tile};
  rewriter.replace(group, LayerKind::kExpand, attrs, {tile->inputs[0]});
  return true;
}

// Every extent of the result comes from another operand too.
bool others_broadcast(const Layer& layer, size_t skipped) {
  const Shape& wanted = layer.outputs[0]->shape;
  const Tensor* unexpanded = layer.inputs[skipped]->producer->inputs[0];
  for (size_t back = 1; back <= wanted.size(); ++back) {
    bool covered = wanted[wanted.size() - back] == Dim(1);
    for (size_t k = 0; k < layer.inputs.size(); ++k) {
      const Tensor* input = k == skipped ? unexpanded : layer.inputs[k];
      covered =
          covered || (input->shape.size() >= back &&
                      input->shape[input->shape.size() - back] == wanted[wanted.size() - back]);
    }
    if (!covered) return false;
  }
  size_t rank = unexpanded->shape.size();
  for (size_t k = 0; k < layer.inputs.size(); ++k)
    if (k != skipped) rank = std::max(rank, layer.inputs[k]->shape.size());
  return rank == wanted.size();
}

bool drop_before_pointwise(Rewriter& rewriter, Layer* layer) {
  const bool elementwise = layer->kind == LayerKind::kElementWise ||
                           layer->kind == LayerKind::kSelect ||
                           layer->kind == LayerKind::kPointWise;
  if (!elementwise || !layer->outputs[0]->has_rank) return false;
  for (const Tensor* input : layer->inputs)
    if (!input->has_rank) return false;
  for (size_t k = 0; k < layer->inputs.size(); ++k) {
    Layer* expand = layer->inputs[k]->producer;
    if (!is_expand(expand) || !others_broadcast(*layer, k)) continue;
    rewriter.running(*expand);
    rewriter.applied(Action::kRemove, *expand,
                     "Eliminating " + expand->name + ": " + layer->name + " broadcasts");
    rewriter.set_input(layer, k, expand->inputs[0]);
    return true;
  }
  return false;
}

// Only the first dimension grows.
bool expands_first_only(const Layer* expand) {
  if (!is_expand(expand)) return false;
  const Shape &from = expand->inputs[0]->shape, &to = expand->outputs[0]->shape;
  return from.size() == to.size() && !from.empty() && from[0] == Dim(1) &&
         std::equal(from.begin() + 1, from.end(), to.begin() + 1);
}

Layer* expand_behind(Rewriter& rewriter, std::span<Layer* const> group, Tensor* unexpanded,
                     const std::string& name) {
  ShapeAttrs attrs;
  attrs.shape = group.back()->outputs[0]->shape;
  return rewriter.replace(group, LayerKind::kExpand, attrs, {unexpanded}, name);
}

// Reshape of an expansion of the first dimension that leaves that dimension alone.
bool sink_below_reshape(Rewriter& rewriter, Layer* shuffle) {
  Layer* expand = shuffle->inputs[0]->producer;
  if (!expands_first_only(expand) || input_at(*shuffle, 1)) return false;
  ShuffleAttrs attrs = shuffle->as<ShuffleAttrs>();
  if (!attrs.has_reshape || !attrs.first_transpose.empty() || !attrs.second_transpose.empty())
    return false;
  if (attrs.reshape.empty() || attrs.reshape[0] != expand->outputs[0]->shape[0]) return false;
  attrs.reshape[0] = 1;
  rewriter.running(*shuffle);
  rewriter.swapped(*expand, *shuffle);
  Tensor* small = rewriter.add_tensor(shuffle->outputs[0]->name + " (once)",
                                      shuffle->outputs[0]->type, attrs.reshape);
  rewriter.insert_before(shuffle, LayerKind::kShuffle, shuffle->name + " (once)", attrs,
                         {expand->inputs[0]}, {small}, {shuffle});
  Layer* group[] = {expand, shuffle};
  expand_behind(rewriter, group, small, shuffle->name);
  return true;
}

bool sink_below_concat(Rewriter& rewriter, Layer* concat) {
  if (concat->as<AxisAttrs>().axis == 0) return false;
  std::vector<Tensor*> inputs;
  std::vector<Layer*> group;
  for (const Tensor* input : concat->inputs) {
    if (!expands_first_only(input->producer)) return false;
    inputs.push_back(input->producer->inputs[0]);
    group.push_back(input->producer);
  }
  group.push_back(concat);
  Shape shape = concat->outputs[0]->shape;
  shape[0] = 1;
  rewriter.running(*concat);
  rewriter.applied(Action::kSwap, *concat,
                   "Swapping the expansions before " + concat->name + " with it");
  Tensor* small =
      rewriter.add_tensor(concat->outputs[0]->name + " (once)", concat->outputs[0]->type, shape);
  rewriter.insert_before(concat, LayerKind::kConcatenation, concat->name + " (once)", concat->attrs,
                         inputs, {small}, {concat});
  expand_behind(rewriter, group, small, concat->name);
  return true;
}

// b = reshape(expand(x [B, G, 1, K, N] → [B, G, R, K, N]) → [B, GR, K, N]): with a as [B, G, R, M,
// K] the product broadcasts.
bool batch_product(Rewriter& rewriter, Layer* product) {
  Tensor *a = product->inputs[0], *b = product->inputs[1], *y = product->outputs[0];
  Layer* reshape = producer_of_kind(b, LayerKind::kShuffle);
  Layer* expand = reshape ? reshape->inputs[0]->producer : nullptr;
  if (!is_expand(expand) || !a->has_rank || a->shape.size() != 4 || b->shape.size() != 4 ||
      input_at(*product, 2) || product->inputs.size() > 3)
    return false;
  const auto& s = reshape->as<ShuffleAttrs>();
  if (!s.has_reshape || !s.first_transpose.empty() || !s.second_transpose.empty() ||
      input_at(*reshape, 1))
    return false;
  const Shape &wide = expand->outputs[0]->shape, &narrow = expand->inputs[0]->shape;
  if (wide.size() != 5 || narrow.size() != 5 || narrow[2] != Dim(1) || wide[0] != narrow[0] ||
      wide[1] != narrow[1])
    return false;
  if (wide[3] != narrow[3] || wide[4] != narrow[4] || b->shape[0] != wide[0] ||
      b->shape[2] != wide[3] || b->shape[3] != wide[4])
    return false;
  if (a->shape[0] != wide[0] || a->shape[1] != b->shape[1]) return false;
  const auto split = [&](const Shape& shape) {
    return Shape{shape[0], wide[1], wide[2], shape[2], shape[3]};
  };
  rewriter.running(*product);
  rewriter.applied(Action::kRemove, *product,
                   "Eliminating " + expand->name + ": " + product->name + " broadcasts its batch");
  ShuffleAttrs to_five, to_four;
  to_five.has_reshape = to_four.has_reshape = true;
  to_five.reshape = split(a->shape);
  to_four.reshape = y->shape;
  Tensor* left = rewriter.add_tensor(a->name + " (grouped)", a->type, to_five.reshape);
  Tensor* result = rewriter.add_tensor(y->name + " (grouped)", y->type, split(y->shape));
  const std::string name = product->name;
  rewriter.insert_before(product, LayerKind::kShuffle, name + " (group)", to_five, {a}, {left},
                         {product});
  Layer* made = rewriter.insert_before(product, LayerKind::kMatrixMultiply, name, product->attrs,
                                       {left, expand->inputs[0]}, {result}, {product});
  Layer* group[] = {expand, reshape, product};
  rewriter.replace(group, LayerKind::kShuffle, to_four, {result}, name + " (ungroup)");
  rewriter.rename(made, name);
  return true;
}

bool rewrite(Rewriter& rewriter, Layer* layer) {
  switch (layer->kind) {
    case LayerKind::kTile:
      return tile_to_expand(rewriter, layer);
    case LayerKind::kShuffle:
      return layer->inputs[0]->producer && sink_below_reshape(rewriter, layer);
    case LayerKind::kConcatenation:
      return sink_below_concat(rewriter, layer);
    case LayerKind::kMatrixMultiply:
      return batch_product(rewriter, layer);
    default:
      return drop_before_pointwise(rewriter, layer);
  }
}

}  // namespace

int expand_fusion(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "ExpandFusion", records);
  for (size_t k = 0; k < graph.layers().size();) {
    const size_t count = graph.layers().size();
    if (!rewrite(rewriter, graph.layers()[k].get()))
      ++k;
    else
      k -= std::min(k, count > graph.layers().size() ? count - graph.layers().size() : 1);
  }
  return rewriter.edits();
}

}  // namespace camshaft::passes
