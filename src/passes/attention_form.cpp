// SPDX-License-Identifier: Apache-2.0
#include "passes/attention_form.h"

#include <algorithm>
#include <numeric>

#include "passes/match.h"
#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

Ints swap_of_last_two(size_t rank) {
  Ints order(rank);
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[rank - 1], order[rank - 2]);
  return order;
}

bool same_batch(const Shape& a, const Shape& b) {
  return a.size() == b.size() && a.size() >= 2 && std::equal(a.begin(), a.end() - 2, b.begin());
}

// All tensors get the batch dimensions of one of them, best those of rank 4. Rank 3 stays; scores
// of rank 2 are a batch of one. Of rank 5, heads in groups that share keys become one dimension,
// other batch dimensions (windows) as well.
class Shapes {
 public:
  Shapes(Rewriter& rewriter, const AttentionParts& parts)
      : rewriter_(rewriter),
        parts_(parts),
        symbols_(rewriter.symbols()),
        scores_(parts.score()->shape),
        regrouped_(parts.regrouped()->shape),
        weights_(parts.weights()->shape),
        common_(common()),
        rank_(common_.size()) {
    if (const auto k = converted(key_shape(), scores_)) key_ = *k;
    if (const auto v = converted(value_shape(), weights_)) value_ = *v;
    if (const auto q = converted(query_shape(), scores_)) query_ = *q;
    shares_keys_ = rank_ == 5 && key_.size() == 5 && key_[2] == Dim(1) && query_.size() == 5 &&
                   query_[2] != Dim(1);
  }

  Refusal refusal(const Expression& epilogue) const {
    if (rank_ < 2 || rank_ > 5)
      return {Reason::kShape, "the scores have " + std::to_string(rank_) + " dimensions"};
    if (query_shape().size() != scores_.size() || key_shape().size() != scores_.size() ||
        value_shape().size() != weights_.size())
      return {Reason::kShape, "queries, keys and values have unequal ranks"};
    if (scores_[scores_.size() - 2] != weights_[weights_.size() - 2] || query_.size() != rank_ ||
        key_.size() != rank_ || value_.size() != rank_)
      return {Reason::kShape, "the second product has other rows"};
    if (key_[rank_ - 2] != value_[rank_ - 2])
      return {Reason::kShape, "keys and values have unequal numbers"};
    for (size_t d = 0; d + 2 < rank_; ++d) {
      if (query_[d] != common_[d]) return {Reason::kShape, "keys are a larger batch than queries"};
      if (key_[d] != value_[d] || (key_[d] != query_[d] && key_[d] != Dim(1)))
        return {Reason::kShape, "keys and values are different batches"};
      if (rank_ == 5 && !shares_keys_ && key_[d] != query_[d])
        return {Reason::kShape, "keys of five dimensions"};
    }
    if (rank_ == 4 && key_[1] == Dim(1) && query_[1] != Dim(1) && !query_[1].is_known())
      return {Reason::kExtent, "the number of heads is not known"};
    if (shares_keys_ && (key_[1] != query_[1] || !query_[2].is_known()))
      return {Reason::kExtent, "groups of heads are not known"};
    for (size_t n = 1; n < epilogue.inputs.size(); ++n) {
      const Tensor* operand = epilogue.inputs[n];
      if (operand->type != DataType::kFloat && operand->type != DataType::kBool)
        return {Reason::kType, "operand " + operand->name + " is neither float nor bool"};
      if (!fitted(*operand))
        return {Reason::kShape, "operand " + operand->name + " differs within groups of heads"};
    }
    return {};
  }

  Tensor* take_query() {
    return take(turned(parts_.query(), parts_.turns_query()), *joined(query_));
  }
  Tensor* take_key() { return take(turned(parts_.key(), parts_.turns_key()), *joined(key_)); }
  Tensor* take_value() {
    return take(turned(parts_.value(), parts_.turns_value()), *joined(value_));
  }
  Tensor* take_operand(Tensor* x) {
    const Shape shape = *fitted(*x), spread = spread_over_groups(x->shape, system_of(*x));
    if (spread != padded(x->shape, spread.size())) {
      Tensor* y = rewriter_.add_tensor(x->name + " (groups)", x->type, spread);
      rewriter_.insert_before(parts_.values, LayerKind::kExpand, x->name + " (groups)",
                              ShapeAttrs{true, spread}, {x}, {y}, {parts_.values});
      x = y;
    }
    return take(x, shape);
  }
  // Of Attention's result, which is then reshaped to that of the second product.
  Shape result() const { return *joined(*converted(turned_result(), weights_)); }
  // That of the second product, before it is turned.
  Shape turned_result() const {
    const Shape& shape = parts_.values->outputs[0]->shape;
    return parts_.is_turned ? with_last_two_swapped(shape) : shape;
  }

 private:
  // As [steps, depth].
  static Shape steps_first(const Tensor* x, bool turns) {
    return turns ? with_last_two_swapped(x->shape) : x->shape;
  }
  Shape query_shape() const { return steps_first(parts_.query(), parts_.turns_query()); }
  Shape key_shape() const { return steps_first(parts_.key(), parts_.turns_key()); }
  Shape value_shape() const { return steps_first(parts_.value(), parts_.turns_value()); }

  const Shape& common() const {
    const Shape k = key_shape();
    const bool shares_keys = scores_.size() == 5 && k.size() == 5 && k[2] == Dim(1);
    if (same_batch(scores_, weights_) && (regrouped_.size() != 4 || shares_keys)) return scores_;
    for (const Shape* shape : {&regrouped_, &weights_, &scores_})
      if (shape->size() == 4) return *shape;
    return weights_;
  }

  static Shape batch_of(const Shape& shape) {
    Shape batch = shape;
    batch.resize(shape.size() - std::min<size_t>(shape.size(), 2));  // vectors have none
    return batch;
  }

  bool is_of_score(const Tensor& operand) const {
    const auto& inputs = parts_.scores->inputs;
    return std::find(inputs.begin(), inputs.end(), &operand) != inputs.end();
  }
  const Shape& system_of(const Tensor& operand) const {
    return is_of_score(operand) ? scores_ : regrouped_;
  }

  // In every group of batch dimensions that become others: all of them, or none. One that has some
  // is spread over all.
  Shape spread_over_groups(const Shape& shape, const Shape& system) const {
    if (same_batch(system, common_) || shape.size() > system.size()) return shape;
    Shape result = padded(shape, system.size());
    const auto groups = reshape_groups(batch_of(system), batch_of(common_), symbols_);
    if (!groups) return shape;
    for (const ReshapeGroup& group : *groups) {
      bool none = true;
      for (size_t k = group.from; k < group.from_end; ++k) none = none && result[k] == Dim(1);
      for (size_t k = group.from; k < group.from_end && !none; ++k) result[k] = system[k];
    }
    return result;
  }

  // A shape beside `system` with the common batch dimensions; nothing: it has none such.
  std::optional<Shape> converted(const Shape& shape, const Shape& system) const {
    if (shape.size() > system.size() || system.size() < 2) return std::nullopt;
    if (same_batch(system, common_)) return shape;
    const Shape from = padded(shape, system.size());
    const auto groups = reshape_groups(batch_of(system), batch_of(common_), symbols_);
    if (!groups) return std::nullopt;
    Shape result;
    for (const ReshapeGroup& group : *groups) {
      bool whole = true, none = true;
      for (size_t k = group.from; k < group.from_end; ++k) {
        whole = whole && from[k] == system[k];
        none = none && from[k] == Dim(1);
      }
      if (!whole && !none) return std::nullopt;
      for (size_t k = group.to; k < group.to_end; ++k)
        result.push_back(whole ? common_[k] : Dim(1));
    }
    for (size_t k = from.size() - 2; k < from.size(); ++k) result.push_back(from[k]);
    return result;
  }

  std::optional<Shape> fitted(const Tensor& operand) const {
    const auto& more = parts_.pointwise ? parts_.pointwise->inputs : parts_.scores->inputs;
    const bool is_of_both =
        is_of_score(operand) && std::find(more.begin(), more.end(), &operand) != more.end();
    if (is_of_both && !same_batch(scores_, regrouped_)) return std::nullopt;
    const Shape& system = system_of(operand);
    const std::optional<Shape> shape = converted(spread_over_groups(operand.shape, system), system);
    return shape ? joined(*shape) : std::nullopt;
  }

  bool joins() const { return rank_ == 2 || rank_ == 5; }
  // As Attention has it; nothing: an operand has one of the joined dimensions, but not both.
  std::optional<Shape> joined(const Shape& given) const {
    if (!joins()) return given;
    const Shape shape = padded(given, rank_);
    if (rank_ == 2) return Shape{1, shape[0], shape[1]};
    const size_t at = shares_keys_ ? 1 : 0;
    const bool whole = shape[at] == common_[at] && shape[at + 1] == common_[at + 1];
    const bool is_one = shape[at] == Dim(1) && shape[at + 1] == Dim(1);
    if (shape != key_ && shape != value_ && !is_one && !whole) return std::nullopt;
    Shape result;
    for (size_t d = 0; d < shape.size(); ++d)
      if (d != at) result.push_back(d == at + 1 ? symbols_.mul(shape[at], shape[d]) : shape[d]);
    return result;
  }

  Tensor* take(Tensor* x, const Shape& shape) {
    if (x->shape == shape) return x;
    if (Tensor* source = before_shuffle(x, shape)) return source;
    return shuffled(x, reshape_to(shape), shape);
  }

  Tensor* turned(Tensor* x, bool turns) {
    if (!turns) return x;
    ShuffleAttrs attrs;
    attrs.first_transpose = swap_of_last_two(x->shape.size());
    return shuffled(x, attrs, with_last_two_swapped(x->shape));
  }

  Tensor* shuffled(Tensor* x, ShuffleAttrs attrs, const Shape& shape) {
    Tensor* y = rewriter_.add_tensor(x->name + " (heads)", x->type, shape);
    rewriter_.insert_before(parts_.values, LayerKind::kShuffle, x->name + " (heads)",
                            std::move(attrs), {x}, {y}, {parts_.values});
    return y;
  }

  // Where a reshape and transpose made x, one that leaves out the dimension of groups.
  Tensor* before_shuffle(Tensor* x, const Shape& wanted) {
    const Layer* shuffle = producer_of_kind(x, LayerKind::kShuffle);
    if (!shuffle || input_at(*shuffle, 1)) return nullptr;
    const auto& a = shuffle->as<ShuffleAttrs>();
    Tensor* source = shuffle->inputs[0];
    if (!a.has_reshape || !a.first_transpose.empty()) return nullptr;
    if (a.second_transpose.empty()) return same(source, wanted) ? source : nullptr;
    if (!shares_keys_ || x->shape.size() != 5 || x->shape[2] != Dim(1)) return nullptr;
    const int64_t dropped = a.second_transpose[2];
    ShuffleAttrs attrs;
    attrs.has_reshape = true;
    for (size_t d = 0; d < a.reshape.size(); ++d)
      if (static_cast<int64_t>(d) != dropped) attrs.reshape.push_back(a.reshape[d]);
    for (size_t d = 0; d < a.second_transpose.size(); ++d)
      if (d != 2)
        attrs.second_transpose.push_back(a.second_transpose[d] -
                                         (a.second_transpose[d] > dropped ? 1 : 0));
    return shuffled(source, attrs, wanted);
  }

  static bool same(const Tensor* x, const Shape& shape) { return x->has_rank && x->shape == shape; }

  Rewriter& rewriter_;
  const AttentionParts& parts_;
  SymbolTable& symbols_;
  const Shape &scores_, &regrouped_,
      &weights_;  // as first product, mask and second product have it
  const Shape common_;
  size_t rank_;
  Shape query_, key_, value_;  // with the common batch dimensions
  bool shares_keys_ = false;
};

Refusal attention_refusal(const AttentionParts& parts, const Shapes& shapes,
                          const Expression& epilogue) {
  if (parts.codes && parts.turns_key()) return {Reason::kShape, "keys lie transposed"};
  if (parts.pointwise && !same_scores(parts.pointwise->outputs[0], parts.regrouped()))
    return {Reason::kShape, "the scores are broadcast"};
  if (epilogue.inputs.size() > kMaxEpilogueOperands + 1 || !within_limits(epilogue))
    return {Reason::kLimit, "the program on scores is too long"};
  if (Refusal refusal = shapes.refusal(epilogue)) return refusal;
  if (!pays_to_turn(parts))
    return {Reason::kCost, "operands lie transposed, and turning them takes longer"};
  return {};
}

void set_codes(const AttentionParts& parts, AttentionAttrs& attrs) {
  const auto& scores = parts.scores->as<MatrixMultiplyAttrs>();
  const auto& values = parts.values->as<MatrixMultiplyAttrs>();
  attrs.q_zero_point = scores.a_zero_point;
  attrs.k_zero_point = scores.b_zero_point;
  attrs.weights_zero_point = values.a_zero_point;
  attrs.v_zero_point = values.b_zero_point;
  attrs.weights = parts.codes->outputs[0]->type;
  attrs.weight_codes = parts.codes->as<PointWiseAttrs>().program;
  attrs.result = values.epilogue;
  attrs.type = values.type;
}

void fuse(Rewriter& rewriter, AttentionParts& parts) {
  Layer* softmax = parts.softmax;
  rewriter.running(*softmax);
  Shapes shapes(rewriter, parts);
  const Expression epilogue = epilogue_of(parts);
  if (Refusal refusal = attention_refusal(parts, shapes, epilogue))
    return rewriter.declined(
        *softmax, std::move(refusal).behind("not fused with " + parts.scores->name + " and " +
                                            parts.values->name + ": "));
  AttentionAttrs attrs;
  attrs.scale = parts.scores->as<MatrixMultiplyAttrs>().alpha;
  attrs.nan_is_zero = parts.nan_is_zero;
  if (!epilogue.program.empty()) attrs.epilogue = epilogue.program;
  if (parts.codes) set_codes(parts, attrs);
  std::vector<Tensor*> inputs = {shapes.take_query(), shapes.take_key(), shapes.take_value()};
  if (epilogue.inputs.size() > 1) inputs.push_back(nullptr);
  for (size_t k = 1; k < epilogue.inputs.size(); ++k)
    inputs.push_back(shapes.take_operand(epilogue.inputs[k]));
  sort_by_position(parts.group);
  const std::string name = "{Attention[" + parts.scores->name + "..." + parts.values->name + "]}";
  rewriter.applied(Action::kFuse, *softmax,
                   "Fusing " + parts.scores->name + ", " + softmax->name + " and " +
                       parts.values->name + " into attention");
  Tensor* output = parts.values->outputs[0];
  const Shape result = shapes.result();
  if (result == output->shape && !parts.is_turned) {
    rewriter.replace(parts.group, LayerKind::kAttention, attrs, inputs, name);
    return;
  }
  const Shape y = shapes.turned_result();
  Tensor* joined = rewriter.add_tensor(output->name + " (heads)", output->type, result);
  rewriter.insert_before(parts.values, LayerKind::kAttention, name, attrs, inputs, {joined},
                         std::vector<const Layer*>(parts.group.begin(), parts.group.end()));
  ShuffleAttrs ungroup = reshape_to(y);
  if (parts.is_turned) ungroup.second_transpose = swap_of_last_two(y.size());
  rewriter.replace(parts.group, LayerKind::kShuffle, ungroup, {joined}, output->name + " (groups)");
}

}  // namespace

int fuse_attention(Rewriter& rewriter, Factors factors) {
  const Graph& graph = rewriter.graph();
  for (size_t k = 0; k < graph.layers().size(); ++k) {
    Layer* layer = graph.layers()[k].get();
    if (layer->kind != LayerKind::kSoftMax) continue;
    std::optional<AttentionParts> parts = attention_parts(layer, factors);
    if (!parts) continue;
    const int before = rewriter.edits();
    fuse(rewriter, *parts);
    if (rewriter.edits() > before) k = 0;
  }
  return rewriter.edits();
}

}  // namespace camshaft::passes
