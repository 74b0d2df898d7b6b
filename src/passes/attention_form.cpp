// SPDX-License-Identifier: Apache-2.0
#include "passes/attention_form.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "passes/expression.h"
#include "passes/formula.h"
#include "passes/match.h"
#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

// A reshape that leaves the last dimension alone.
bool keeps_rows(const Layer* layer) {
  if (!layer || layer->kind != LayerKind::kShuffle || input_at(*layer, 1)) return false;
  const auto& a = layer->as<ShuffleAttrs>();
  const Tensor *x = layer->inputs[0], *y = layer->outputs[0];
  return a.has_reshape && a.first_transpose.empty() && a.second_transpose.empty() && x->has_rank &&
         y->has_rank && !x->shape.empty() && !y->shape.empty() &&
         x->shape.back() == y->shape.back();
}

// w where it is a number, else 0.
bool zeroes_nan(const Layer& layer) {
  if (!is_pointwise(layer)) return false;
  const Expression e = expression_of(layer);
  if (e.inputs.size() != 1 || e.program.num_inputs != 1) return false;
  for (const double w : {0.0, 0.25, 1.0})
    if (evaluate(e.program, {w}) != w) return false;
  return evaluate(e.program, {std::numeric_limits<double>::quiet_NaN()}) == 0;
}

// But for the number of keys, which may have two names (of the cache and of the mask): the second
// product holds them to the rows of the values.
bool same_scores(const Tensor* a, const Tensor* b) {
  return a->has_rank && b->has_rank && a->shape.size() == b->shape.size() && !a->shape.empty() &&
         std::equal(a->shape.begin(), a->shape.end() - 1, b->shape.begin());
}

bool same_batch(const Shape& a, const Shape& b) {
  return a.size() == b.size() && a.size() >= 2 && std::equal(a.begin(), a.end() - 2, b.begin());
}

struct AttentionParts {
  Layer* scores = nullptr;     // the first product
  Layer* regroup = nullptr;    // a reshape of its batch dimensions, or null
  Layer* pointwise = nullptr;  // behind them, or null
  Layer* softmax = nullptr;
  Layer* codes = nullptr;   // what rounds the weights, or null
  Layer* values = nullptr;  // the second product
  bool nan_is_zero = false;
  // Channel-first networks multiply values^T by weights^T, which gives the result transposed.
  bool is_turned = false;
  std::vector<Layer*> group;

  const Tensor* score() const { return scores->outputs[0]; }
  const Tensor* regrouped() const { return regroup ? regroup->outputs[0] : score(); }
  const Tensor* weights() const { return values->inputs[is_turned ? 1 : 0]; }
  Tensor* query() const { return scores->inputs[0]; }
  Tensor* key() const { return scores->inputs[1]; }
  Tensor* value() const { return values->inputs[is_turned ? 0 : 1]; }
  // Whether they lie as [depth, steps].
  bool turns_query() const { return scores->as<MatrixMultiplyAttrs>().transpose_a; }
  bool turns_key() const { return !scores->as<MatrixMultiplyAttrs>().transpose_b; }
  bool turns_value() const {
    const auto& a = values->as<MatrixMultiplyAttrs>();
    return is_turned ? !a.transpose_a : a.transpose_b;
  }
};

bool is_plain_product(const Layer* layer) {
  if (!layer || layer->kind != LayerKind::kMatrixMultiply) return false;
  for (const Tensor* t : {layer->inputs[0], layer->inputs[1], layer->outputs[0]})
    if (t->type != DataType::kFloat || !t->has_rank) return false;
  return true;
}

bool is_product_of_codes(const Layer* layer) {
  if (!layer || layer->kind != LayerKind::kMatrixMultiply || input_at(*layer, 2)) return false;
  for (const Tensor* t : {layer->inputs[0], layer->inputs[1]})
    if (!is_quantized(t->type) || bits_of(t->type) != 8 || !t->has_rank) return false;
  const auto& a = layer->as<MatrixMultiplyAttrs>();
  return layer->outputs[0]->has_rank && !a.transpose_a && a.alpha == 1;
}

bool is_product(const Layer* layer, Factors factors) {
  return factors == Factors::kCodes ? is_product_of_codes(layer) : is_plain_product(layer);
}

// The first product above `x`, with what lies between.
bool find_scores(Tensor* x, Factors factors, AttentionParts& parts) {
  const auto enter = [&](Layer* layer) {
    parts.group.push_back(layer);
    return layer->inputs[0];
  };
  if (Layer* layer = x->producer; keeps_rows(layer) && only_reader(x)) x = enter(layer);
  Layer* layer = x->producer;
  if (layer && only_reader(x) && is_pointwise(*layer) &&
      layer->kind != LayerKind::kMatrixMultiply) {
    parts.pointwise = layer;
    parts.group.push_back(layer);
    for (Tensor* input : layer->inputs) {
      if (!same_scores(input, layer->outputs[0])) continue;
      Layer* above = input->producer;
      if (keeps_rows(above) && only_reader(input) &&
          is_product(above->inputs[0]->producer, factors)) {
        parts.regroup = above;
        x = enter(above);
        break;
      }
      if (is_product(above, factors)) {
        x = input;
        break;
      }
    }
  }
  parts.scores = x->producer;
  parts.group.push_back(parts.scores);
  return is_product(parts.scores, factors) && x->type == DataType::kFloat && only_reader(x);
}

// Rounds weights to codes.
bool rounds_weights(const Layer* layer) {
  return layer && layer->kind == LayerKind::kPointWise && layer->inputs.size() == 1 &&
         is_quantized(layer->outputs[0]->type) && bits_of(layer->outputs[0]->type) == 8;
}

// The second product below codes of the weights.
bool find_values_of_codes(AttentionParts& parts) {
  parts.codes = only_reader(parts.softmax->outputs[0]);
  if (!rounds_weights(parts.codes)) return false;
  parts.group.push_back(parts.codes);
  const Tensor* codes = parts.codes->outputs[0];
  Layer* reader = only_reader(codes);
  if (!is_product_of_codes(reader)) return false;
  parts.values = reader;
  return reader->inputs[0] == codes && reader->inputs[1] != codes && reader->inputs.size() <= 3 &&
         !reader->as<MatrixMultiplyAttrs>().transpose_b;
}

// The second product below the weights.
bool find_values(AttentionParts& parts) {
  Tensor* weights = parts.softmax->outputs[0];
  Layer* reader = only_reader(weights);
  for (int step = 0; reader && step < 3; ++step) {
    if (is_plain_product(reader)) break;
    if (zeroes_nan(*reader))
      parts.nan_is_zero = true;
    else if (!keeps_rows(reader))
      return false;
    parts.group.push_back(reader);
    weights = reader->outputs[0];
    reader = only_reader(weights);
  }
  if (!is_plain_product(reader)) return false;
  const auto& a = reader->as<MatrixMultiplyAttrs>();
  parts.values = reader;
  parts.is_turned = reader->inputs[1] == weights;
  return reader->inputs[0] != reader->inputs[1] &&
         (parts.is_turned ? a.transpose_b : !a.transpose_a) && a.alpha == 1 && a.epilogue.empty() &&
         !input_at(*reader, 2);
}

std::optional<AttentionParts> attention_parts(Layer* softmax, Factors factors) {
  const auto& a = softmax->as<SoftMaxAttrs>();
  const Tensor* x = softmax->inputs[0];
  if (a.log || a.hard || a.axis != a.last_axis || !x->has_rank || x->type != DataType::kFloat ||
      a.axis + 1 != static_cast<int64_t>(x->shape.size()))
    return std::nullopt;
  AttentionParts parts;
  parts.softmax = softmax;
  parts.group.push_back(softmax);
  if (!find_scores(softmax->inputs[0], factors, parts)) return std::nullopt;
  if (factors == Factors::kCodes ? !find_values_of_codes(parts) : !find_values(parts))
    return std::nullopt;
  parts.group.push_back(parts.values);
  return parts;
}

// What becomes of a score, with the score first (null).
Expression epilogue_of(const AttentionParts& parts) {
  const Layer& product = *parts.scores;
  Tensor* score = product.outputs[0];
  Expression e{product.as<MatrixMultiplyAttrs>().epilogue, {nullptr}};
  for (size_t k = 3; k < product.inputs.size(); ++k) e.inputs.push_back(product.inputs[k]);
  e.program.num_inputs = static_cast<int>(e.inputs.size());
  if (Tensor* bias = input_at(product, 2)) {
    Expression sum{Program(), {nullptr, bias}};
    sum.program.num_inputs = 2;
    append(sum.program, PointOp::kAdd, 0, 1);
    if (e.program.empty()) append(e.program, PointOp::kIdentity, 0);
    e.inputs[0] = score;
    e = substitute(e, score, sum);
  }
  if (parts.pointwise) e = substitute(expression_of(*parts.pointwise), parts.regrouped(), e);
  return e.program.empty() ? e : tidy(std::move(e), 1);
}

// --- shapes: all tensors get the batch dimensions of one of them, best those of rank 4. Rank 3
// stays; scores of rank 2 are a batch of one. Of rank 5, heads in groups that share keys become one
// dimension, other batch dimensions (windows) as well.

Ints swap_of_last_two(size_t rank) {
  Ints order(rank);
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[rank - 1], order[rank - 2]);
  return order;
}

Shape with_last_two_swapped(Shape shape) {
  if (shape.size() >= 2) std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
  return shape;
}

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

  // Turning what lies as [depth, steps] takes a copy, which pays where scores are at least half as
  // many as its elements: they would be written once and read and written by SoftMax.
  Refusal refusal_to_turn() const {
    const auto is_too_deep = [](Dim depth, Dim steps, int64_t fewest) {
      return !depth.is_known() || depth.extent() > 2 * (steps.is_known() ? steps.extent() : fewest);
    };
    const Dim rows = query_[rank_ - 2], keys = key_[rank_ - 2], depth = key_[rank_ - 1],
              value_depth = value_[rank_ - 1];
    if ((parts_.turns_query() && is_too_deep(depth, keys, kFewestKeys)) ||
        (parts_.turns_key() && is_too_deep(depth, rows, kFewestRows)) ||
        (parts_.turns_value() && is_too_deep(value_depth, rows, kFewestRows)) ||
        (parts_.is_turned && is_too_deep(value_depth, keys, kFewestKeys)))
      return {Reason::kCost, "operands lie transposed, and turning them takes longer"};
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
  // Of open extents. A decoder's step has one row: a whole cache of keys would be turned for it.
  static constexpr int64_t kFewestKeys = 128, kFewestRows = 1;

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

  static Shape padded(const Shape& shape, size_t rank) {
    Shape result(rank > shape.size() ? rank - shape.size() : 0, Dim(1));
    for (const Dim dim : shape) result.push_back(dim);
    return result;
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
    ShuffleAttrs attrs;
    attrs.has_reshape = true;
    attrs.reshape = shape;
    return shuffled(x, attrs, shape);
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
  return shapes.refusal_to_turn();
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
  ShuffleAttrs ungroup;
  ungroup.has_reshape = true;
  ungroup.reshape = y;
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
