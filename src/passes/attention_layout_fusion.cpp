// SPDX-License-Identifier: Apache-2.0
// AttentionLayoutFusion: transposes between [batch, steps, heads * depth], as products make and
// read it, and the heads of Attention become part of it: it reads and writes rows where they lie.
// Heads of keys and values that are repeated for those of the queries are read once; a pointwise
// layer in front of the transpose goes behind it. Bit exact.
#include "passes/expression.h"
#include "passes/match.h"
#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

bool is_static_shuffle(const Layer* layer) {
  return layer && layer->kind == LayerKind::kShuffle && !input_at(*layer, 1) &&
         layer->inputs[0]->has_rank && layer->outputs[0]->has_rank;
}

Tensor* with_shape(Rewriter& rewriter, Tensor* x, const Shape& shape, const Layer* before,
                   const Layer* origin) {
  return rewriter.reshaped_before(before, x->name + " (steps)", x, shape, *origin);
}

// Input k is [batch, steps, heads, depth] transposed: Attention reads what was transposed.
bool take_input(Rewriter& rewriter, Layer* attention, size_t k) {
  auto& attrs = rewriter.attrs<AttentionAttrs>(attention);
  bool& steps_first = k == 0   ? attrs.q_steps_first
                      : k == 1 ? attrs.k_steps_first
                               : attrs.v_steps_first;
  Tensor* heads = attention->inputs[k];
  Layer* shuffle = producer_of_kind(heads, LayerKind::kShuffle);
  if (steps_first || !is_static_shuffle(shuffle) || heads->shape.size() != 4) return false;
  const auto& a = shuffle->as<ShuffleAttrs>();
  const Tensor* x = shuffle->inputs[0];
  const bool splits = a.has_reshape && a.first_transpose.empty();
  const Ints& order = splits ? a.second_transpose : a.first_transpose;
  const Shape& from = splits ? a.reshape : x->shape;
  if (order.size() != 4 || (!splits && a.has_reshape)) return false;
  // In the order of batch, steps, heads, depth.
  if (!moves_nothing(from, {order[0], order[2], order[1], order[3]}) || moves_nothing(from, order))
    return false;
  const Dim count = heads->shape[1], depth = heads->shape[3];
  if (!count.is_known() || !depth.is_known()) return false;
  int64_t& stated = k == 0 ? attrs.heads : attrs.kv_heads;
  if (stated != 0 && stated != count.extent()) return false;
  rewriter.running(*attention);
  rewriter.fused(*shuffle, *attention);
  stated = count.extent();
  steps_first = true;
  const bool is_there = !splits && order == Ints{0, 2, 1, 3};
  const Shape wanted{heads->shape[0], heads->shape[2], Dim(count.extent() * depth.extent())};
  rewriter.set_input(
      attention, k,
      with_shape(rewriter, shuffle->inputs[0], is_there ? x->shape : wanted, attention, shuffle));
  return true;
}

// What repeats each head some times.
struct Repeated {
  Tensor* heads = nullptr;  // `shape` under perhaps another shape; null: nothing is repeated
  Shape shape;              // [batch, heads, steps, depth]
  const Layer* expand = nullptr;
};

Repeated find_repeated(const Tensor* x) {
  const auto is_reshape = [](const Layer* layer) {
    return is_static_shuffle(layer) && layer->as<ShuffleAttrs>().first_transpose.empty() &&
           layer->as<ShuffleAttrs>().second_transpose.empty();
  };
  const Layer* joins = x->producer;
  const Layer* expand = is_reshape(joins) ? joins->inputs[0]->producer : nullptr;
  if (!expand || expand->kind != LayerKind::kExpand || input_at(*expand, 1) ||
      !expand->inputs[0]->has_rank || x->shape.size() != 4)
    return {};
  Tensor* from = expand->inputs[0];
  const Shape &s = from->shape, &to = expand->outputs[0]->shape;
  if (s.size() != 5 || to.size() != 5 || s[2] != Dim(1) || !s[1].is_known() || !to[2].is_known() ||
      to != Shape{s[0], s[1], to[2], s[3], s[4]} ||
      x->shape != Shape{s[0], Dim(s[1].extent() * to[2].extent()), s[3], s[4]})
    return {};
  const Shape shape{s[0], s[1], s[3], s[4]};
  const Layer* splits = from->producer;
  const bool is_there = is_reshape(splits) && splits->inputs[0]->shape == shape;
  return {is_there ? splits->inputs[0] : from, shape, expand};
}

bool take_repeated_heads(Rewriter& rewriter, Layer* attention) {
  const auto& attrs = attention->as<AttentionAttrs>();
  if (attrs.k_steps_first || attrs.v_steps_first || attrs.kv_heads != 0) return false;
  const Repeated keys = find_repeated(attention->inputs[1]),
                 values = find_repeated(attention->inputs[2]);
  if (!keys.heads || !values.heads || keys.shape[1] != values.shape[1]) return false;
  rewriter.running(*attention);
  rewriter.applied(Action::kFuse, *attention,
                   "Fusing " + keys.expand->name + " and " + values.expand->name + " with " +
                       attention->name + ": heads share keys and values");
  for (const auto& [k, found] : {std::pair(1, &keys), std::pair(2, &values)})
    rewriter.set_input(attention, static_cast<size_t>(k),
                       with_shape(rewriter, found->heads, found->shape, attention, found->expand));
  return true;
}

// What a pointwise layer does to each value alone it does as well behind their transpose, where it
// keeps the heads from nothing: a Q of the next product, which went up to what makes its floats.
bool lower_pointwise(Rewriter& rewriter, Layer* attention) {
  Tensor* y = attention->outputs[0];
  Layer* pointwise = only_reader(y);
  if (attention->as<AttentionAttrs>().y_steps_first || !pointwise || !is_pointwise(*pointwise))
    return false;
  Layer* shuffle = only_reader(pointwise->outputs[0]);
  const Expression expression = expression_of(*pointwise);
  if (!is_static_shuffle(shuffle) || shuffle->as<ShuffleAttrs>().first_transpose.size() != 4 ||
      expression.inputs.size() != 1 || expression.inputs[0] != y)
    return false;
  rewriter.running(*attention);
  rewriter.swapped(*pointwise, *shuffle);
  const std::string name = shuffle->name, pointwise_name = pointwise->name;
  Tensor* moved =
      rewriter.add_tensor(y->name + " (transposed)", y->type, shuffle->outputs[0]->shape);
  Layer* before = rewriter.insert_before(pointwise, LayerKind::kShuffle, name, shuffle->attrs, {y},
                                         {moved}, {shuffle});
  Layer* group[] = {pointwise, shuffle};
  Layer* behind = rewriter.replace(group, LayerKind::kPointWise,
                                   pointwise_attrs(expression.program, shuffle->outputs[0]),
                                   {moved}, pointwise_name);
  rewriter.rename(before, name);
  rewriter.rename(behind, pointwise_name);
  return true;
}

// The heads are transposed to [batch, steps, heads, depth], and perhaps joined.
bool take_output(Rewriter& rewriter, Layer* attention) {
  auto& attrs = rewriter.attrs<AttentionAttrs>(attention);
  Tensor* y = attention->outputs[0];
  Layer* shuffle = only_reader(y);
  if (attrs.y_steps_first || !is_static_shuffle(shuffle) || y->shape.size() != 4) return false;
  const auto& a = shuffle->as<ShuffleAttrs>();
  const Ints& order = a.first_transpose;
  if (order.size() != 4 || !a.second_transpose.empty() || moves_nothing(y->shape, order))
    return false;
  const Shape& s = y->shape;
  const Ints source = inverse(order);
  Shape transposed;
  for (const int64_t axis : order) transposed.push_back(s[axis]);
  if (!moves_nothing(transposed, {source[0], source[2], source[1], source[3]})) return false;
  if (!s[1].is_known() || !s[3].is_known()) return false;
  rewriter.running(*attention);
  rewriter.fused(*attention, *shuffle);
  attrs.y_steps_first = true;
  const Shape joined{s[0], s[2], Dim(s[1].extent() * s[3].extent())};
  if (shuffle->outputs[0]->shape == joined) {
    rewriter.absorb(attention, shuffle);
    return true;
  }
  Tensor* made = rewriter.add_tensor(y->name + " (steps)", y->type, joined);
  const std::string name = attention->name;
  Layer* moved = rewriter.insert_before(shuffle, LayerKind::kAttention, name, attrs,
                                        attention->inputs, {made}, {attention});
  Layer* group[] = {attention, shuffle};
  rewriter.replace(group, LayerKind::kShuffle, reshape_to(shuffle->outputs[0]->shape), {made},
                   shuffle->name);
  rewriter.rename(moved, name);
  return true;
}

}  // namespace

int attention_layout_fusion(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "AttentionLayoutFusion", records);
  for (size_t k = 0; k < graph.layers().size(); ++k) {
    Layer* layer = graph.layers()[k].get();
    if (layer->kind != LayerKind::kAttention ||
        (layer->inputs[0]->type != DataType::kFloat && !layer->as<AttentionAttrs>().of_codes()))
      continue;
    bool changed = take_repeated_heads(rewriter, layer);
    for (size_t input = 0; input < 3; ++input) changed |= take_input(rewriter, layer, input);
    changed |= lower_pointwise(rewriter, layer);
    changed |= take_output(rewriter, layer);
    if (changed) k = 0;
  }
  return rewriter.edits();
}

}  // namespace camshaft::passes
