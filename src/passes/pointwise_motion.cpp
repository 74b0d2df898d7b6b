// SPDX-License-Identifier: Apache-2.0
// PointWiseMotion: a pointwise layer behind a shuffle, or behind a concatenation, of what kernels
// made moves before it, where it becomes their epilogue. Its other operands are shuffled back,
// which costs nothing where they are constants or nothing moves. Bit exact.
#include <algorithm>

#include "passes/expression.h"
#include "passes/match.h"
#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

bool takes_pointwise(const Layer* layer) {
  return layer && (takes_epilogue(*layer) || is_pointwise(*layer));
}

// Codes are moved rather than their floats.
bool widens(const Tensor& value, const Layer& pointwise) {
  return is_quantized(value.type) && !is_quantized(pointwise.outputs[0]->type);
}

// The shuffle that turns its result back into its input, for operands that broadcast to the result:
// of pure transposes and of reshapes.
class Undo {
 public:
  static std::optional<Undo> of(const Layer& shuffle) {
    const auto& a = shuffle.as<ShuffleAttrs>();
    const Tensor *x = shuffle.inputs[0], *y = shuffle.outputs[0];
    if (input_at(shuffle, 1) || !x->has_rank || !y->has_rank || !a.second_transpose.empty())
      return std::nullopt;
    Undo undo;
    if (!a.has_reshape) {
      undo.order_ = inverse(a.first_transpose);
      return undo;
    }
    if (!a.first_transpose.empty()) return std::nullopt;
    const auto groups = reshape_groups(y->shape, x->shape, x->graph->symbols());
    if (!groups) return std::nullopt;
    undo.groups_ = *groups;
    undo.from_ = y->shape;
    undo.to_ = x->shape;
    return undo;
  }

  bool can_apply(const Tensor& operand) const {
    return !order_.empty() || reshaped(padded(operand.shape, from_.size())).has_value();
  }

  bool is_free_for(const Tensor& operand, size_t rank) const {
    if (operand.is_constant() || order_.empty()) return can_apply(operand);
    const Shape shape = padded(operand.shape, rank);
    int64_t last = -1;
    for (int64_t axis : order_) {
      if (shape[axis] == Dim(1)) continue;
      if (axis < last) return false;
      last = axis;
    }
    return true;
  }

  // The operand as it broadcasts to the shuffle's input.
  Tensor* apply(Rewriter& rewriter, Tensor* operand, size_t rank, const Layer* before) const {
    const Shape from = padded(operand->shape, rank);
    ShuffleAttrs attrs;
    Shape result;
    if (!order_.empty()) {
      for (int64_t axis : order_) result.push_back(from[axis]);
      attrs.has_reshape = from != operand->shape;
      if (attrs.has_reshape) attrs.reshape = from;
      (attrs.has_reshape ? attrs.second_transpose : attrs.first_transpose) = order_;
    } else {
      result = *reshaped(from);
      if (result == operand->shape) return operand;
      attrs.has_reshape = true;
      attrs.reshape = result;
    }
    Tensor* made = rewriter.add_tensor(operand->name + " (shuffled back)", operand->type, result);
    rewriter.insert_before(before, LayerKind::kShuffle, made->name, attrs, {operand}, {made}, {});
    return made;
  }

 private:
  // An operand has, of every group of dimensions, all or none.
  std::optional<Shape> reshaped(const Shape& operand) const {
    Shape result;
    for (const ReshapeGroup& group : groups_) {
      bool whole = true, none = true;
      for (size_t k = group.from; k < group.from_end; ++k) {
        whole = whole && operand[k] == from_[k];
        none = none && operand[k] == Dim(1);
      }
      if (!whole && !none) return std::nullopt;
      for (size_t k = group.to; k < group.to_end; ++k) result.push_back(whole ? to_[k] : Dim(1));
    }
    return result;
  }

  Ints order_;  // of the inverse transpose
  std::vector<ReshapeGroup> groups_;
  Shape from_, to_;  // of the inverse reshape
};

// One of its operands comes from a kernel it can be the epilogue of already. To leave that for
// another kernel would put a shuffle in its way, and the layer could come back above that one.
bool has_a_place(const Layer* pointwise) {
  return std::any_of(
      pointwise->inputs.begin(), pointwise->inputs.end(), [pointwise](const Tensor* value) {
        return takes_pointwise(value->producer) && only_reader(value) == pointwise &&
               same_shape(value, pointwise->outputs[0]) && !widens(*value, *pointwise);
      });
}

bool hoist_above_shuffle(Rewriter& rewriter, Layer* pointwise) {
  if (has_a_place(pointwise)) return false;
  for (Tensor* value : pointwise->inputs) {
    if (widens(*value, *pointwise)) continue;
    Layer* shuffle = producer_of_kind(value, LayerKind::kShuffle);
    if (!shuffle || only_reader(value) != pointwise || !same_shape(value, pointwise->outputs[0]))
      continue;
    Tensor* x = shuffle->inputs[0];
    if (!takes_pointwise(x->producer) || only_reader(x) != shuffle) continue;
    Expression expression = expression_of(*pointwise);
    const size_t rank = value->shape.size();
    const std::optional<Undo> undo = Undo::of(*shuffle);
    const bool alone = expression.inputs.size() == 1;  // passes any shuffle
    const auto is_free = [&](const Tensor* operand) {
      return operand == value || (undo && undo->is_free_for(*operand, rank));
    };
    if (!alone && !std::all_of(expression.inputs.begin(), expression.inputs.end(), is_free))
      continue;
    if (input_at(*shuffle, 1)) continue;
    rewriter.running(*pointwise);
    rewriter.swapped(*shuffle, *pointwise);
    for (Tensor*& operand : expression.inputs)
      operand = operand == value ? x : undo->apply(rewriter, operand, rank, pointwise);
    const PointWiseAttrs attrs = pointwise_attrs(expression.program, pointwise->outputs[0]);
    Tensor* made = rewriter.add_tensor(pointwise->outputs[0]->name + " (before the shuffle)",
                                       pointwise->outputs[0]->type, x->shape);
    const std::string name = pointwise->name;
    Layer* moved = rewriter.insert_before(pointwise, LayerKind::kPointWise, name, attrs,
                                          expression.inputs, {made}, {pointwise});
    const std::string shuffle_name = shuffle->name;
    const Attrs shuffle_attrs = shuffle->attrs;
    Layer* group[] = {shuffle, pointwise};
    Layer* behind =
        rewriter.replace(group, LayerKind::kShuffle, shuffle_attrs, {made}, shuffle_name);
    rewriter.rename(moved, name);
    rewriter.rename(behind, shuffle_name);
    return true;
  }
  return false;
}

// What a concatenation puts together, through a shuffle if there is one, was made by a kernel for
// it alone.
bool is_made_for(const Layer* concat, const Tensor* part) {
  if (only_reader(part) != concat) return false;
  const Layer* producer = part->producer;
  if (producer && producer->kind == LayerKind::kShuffle && !input_at(*producer, 1))
    return takes_pointwise(producer->inputs[0]->producer) &&
           only_reader(producer->inputs[0]) == producer;
  return takes_pointwise(producer);
}

bool hoist_above_concat(Rewriter& rewriter, Layer* pointwise) {
  const Expression expression = expression_of(*pointwise);
  Tensor* value = expression.inputs[0];
  Layer* concat = producer_of_kind(value, LayerKind::kConcatenation);
  if (!concat || widens(*value, *pointwise) || expression.inputs.size() != 1 ||
      only_reader(value) != pointwise || !same_shape(value, pointwise->outputs[0]))
    return false;
  for (const Tensor* part : concat->inputs)
    if (!is_made_for(concat, part)) return false;
  rewriter.running(*pointwise);
  rewriter.swapped(*concat, *pointwise);
  const PointWiseAttrs attrs = pointwise_attrs(expression.program, pointwise->outputs[0]);
  std::vector<Tensor*> parts;
  for (size_t k = 0; k < concat->inputs.size(); ++k) {
    Tensor* part = concat->inputs[k];
    Tensor* made = rewriter.add_tensor(part->name + " (before the concatenation)",
                                       pointwise->outputs[0]->type, part->shape);
    rewriter.insert_before(concat, LayerKind::kPointWise,
                           fmt::format("{}_clone_{}", pointwise->name, k), attrs, {part}, {made},
                           {pointwise});
    parts.push_back(made);
  }
  const std::string name = concat->name;
  const Attrs concat_attrs = concat->attrs;
  Layer* group[] = {concat, pointwise};
  Layer* behind = rewriter.replace(group, LayerKind::kConcatenation, concat_attrs, parts, name);
  rewriter.rename(behind, name);
  return true;
}

}  // namespace

int pointwise_motion(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "PointWiseMotion", records);
  for (size_t k = 0; k < graph.layers().size(); ++k) {
    Layer* layer = graph.layers()[k].get();
    if (!is_pointwise(*layer) || layer->outputs[0]->type == DataType::kBool) continue;
    if (!hoist_above_shuffle(rewriter, layer)) hoist_above_concat(rewriter, layer);
  }
  return rewriter.edits();
}

}  // namespace camshaft::passes
