// SPDX-License-Identifier: Apache-2.0
// ShuffleShuffleFusion: transpose∘reshape∘transpose twice in a row becomes one, or nothing. A
// transpose that moves extents of 1 only is a reshape; between two reshapes the transposes must
// cancel. Bit exact.
#include <algorithm>

#include "passes/match.h"
#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

// `second` after `first`; empty is the identity.
Ints combine(const Ints& first, const Ints& second) {
  if (first.empty()) return second;
  if (second.empty()) return first;
  Ints order;
  for (int64_t axis : second) order.push_back(first[axis]);
  return order;
}

bool has_run_time_shape(const Layer& layer) {
  return input_at(layer, 1) != nullptr;
}

Shape permuted(const Shape& shape, const Ints& order) {
  if (order.empty()) return shape;
  Shape result;
  for (int64_t axis : order) result.push_back(shape[axis]);
  return result;
}

// The simplest attributes with the same effect from `input` to `output`; the identity has none set.
ShuffleAttrs canonical(ShuffleAttrs a, const Shape& input, const Shape& output) {
  const auto as_reshape = [&] { return moves_nothing(input, a.first_transpose); };
  if (!a.has_reshape) {
    a.first_transpose = combine(a.first_transpose, a.second_transpose);
    a.second_transpose.clear();
  }
  // A transpose at either end that moves nothing becomes part of a reshape.
  if (!a.first_transpose.empty() && as_reshape()) {
    if (!a.has_reshape) a.reshape = permuted(input, a.first_transpose);
    a.has_reshape = true;
    a.first_transpose.clear();
  }
  if (a.has_reshape && !a.second_transpose.empty() &&
      moves_nothing(a.reshape, a.second_transpose)) {
    a.reshape = output;
    a.second_transpose.clear();
  }
  if (a.has_reshape &&
      a.reshape == permuted(input, a.first_transpose)) {  // the reshape does nothing
    a.first_transpose = combine(a.first_transpose, a.second_transpose);
    a.second_transpose.clear();
    a.has_reshape = false;
    a.reshape.clear();
  }
  if (is_identity_order(a.first_transpose)) a.first_transpose.clear();
  if (!a.has_reshape) a.allow_zero = false;
  return a;
}

bool is_identity(const ShuffleAttrs& a) {
  return a.first_transpose.empty() && !a.has_reshape && a.second_transpose.empty();
}

// first, then second, as one. Shapes: of first's input, of the tensor between, of second's output.
std::optional<ShuffleAttrs> fuse(const ShuffleAttrs& first, const ShuffleAttrs& second,
                                 const Shape& middle) {
  const Ints between = combine(first.second_transpose, second.first_transpose);
  ShuffleAttrs fused;
  if (!first.has_reshape) {
    fused = second;
    fused.first_transpose =
        combine(combine(first.first_transpose, first.second_transpose), second.first_transpose);
    return fused;
  }
  if (!second.has_reshape) {
    fused = first;
    fused.second_transpose = combine(between, second.second_transpose);
    return fused;
  }
  const Shape reshaped = first.second_transpose.empty() ? middle : first.reshape;
  if (!moves_nothing(reshaped, between)) return std::nullopt;
  fused.first_transpose = first.first_transpose;
  fused.has_reshape = true;
  fused.reshape = second.reshape;
  fused.second_transpose = second.second_transpose;
  return fused;
}

bool simplify_alone(Rewriter& rewriter, Layer* layer) {
  Tensor *input = layer->inputs[0], *output = layer->outputs[0];
  if (has_run_time_shape(*layer) || !input->has_rank || !output->has_rank) return false;
  const ShuffleAttrs simple = canonical(layer->as<ShuffleAttrs>(), input->shape, output->shape);
  if (is_identity(simple) && rewriter.can_replace(output, input)) {
    rewriter.running(*layer);
    rewriter.replace_uses(output, input);
    rewriter.removed(*layer);
    rewriter.remove(layer);
    return true;
  }
  if (!equal(Attrs(simple), layer->attrs)) rewriter.set_attrs(layer, simple);
  return false;
}

bool fuse_with_producer(Rewriter& rewriter, Layer* second) {
  Layer* first = producer_of_kind(second->inputs[0], LayerKind::kShuffle);
  if (!first) return false;
  const Tensor* middle = second->inputs[0];
  rewriter.running(*second);
  if (has_run_time_shape(*first) || has_run_time_shape(*second) || !middle->has_rank ||
      !first->inputs[0]->has_rank) {
    rewriter.declined(*second, {Reason::kExtent, "a shape known only at run time"});
    return false;
  }
  const std::optional<ShuffleAttrs> fused =
      fuse(first->as<ShuffleAttrs>(), second->as<ShuffleAttrs>(), middle->shape);
  if (!fused) {
    rewriter.declined(*second,
                      {Reason::kShape, "the transposes between the reshapes of " + first->name +
                                           " and " + second->name + " do not cancel"});
    return false;
  }
  rewriter.fused(*first, *second);
  Layer* group[] = {first, second};
  rewriter.replace(group, LayerKind::kShuffle, *fused, {first->inputs[0]});
  return true;
}

}  // namespace

int shuffle_shuffle_fusion(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "ShuffleShuffleFusion", records);
  for (size_t k = 0; k < graph.layers().size();) {
    Layer* layer = graph.layers()[k].get();
    if (layer->kind != LayerKind::kShuffle) {
      ++k;
      continue;
    }
    const Tensor* output = layer->outputs[0];
    if (simplify_alone(rewriter, layer)) continue;
    if (fuse_with_producer(rewriter, layer)) {
      k = graph.position(output->producer);  // look at what was made again
      continue;
    }
    ++k;
  }
  return rewriter.edits();
}

}  // namespace camshaft::passes
