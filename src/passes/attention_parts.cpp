// SPDX-License-Identifier: Apache-2.0
#include "passes/attention_parts.h"

#include <algorithm>
#include <limits>

#include "passes/formula.h"
#include "passes/match.h"

namespace camshaft::passes {

using namespace ir;

namespace {

// A reshape that leaves the last dimension alone.
bool keeps_rows(const Layer* layer) {
  if (!is_reshape(layer)) return false;
  const Tensor *x = layer->inputs[0], *y = layer->outputs[0];
  return y->has_rank && !x->shape.empty() && !y->shape.empty() &&
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

bool is_product_of_codes(const Layer* layer) {
  if (!layer || layer->kind != LayerKind::kMatrixMultiply || input_at(*layer, 2)) return false;
  for (const Tensor* t : {layer->inputs[0], layer->inputs[1]})
    if (!is_quantized(t->type) || bits_of(t->type) != 8 || !t->has_rank) return false;
  const auto& a = layer->as<MatrixMultiplyAttrs>();
  return layer->outputs[0]->has_rank && !a.transpose_a && a.alpha == 1;
}

bool is_product(const Layer* layer, Factors factors) {
  return factors == Factors::kCodes ? is_product_of_codes(layer)
                                    : layer && is_float_product(*layer);
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
    if (is_float_product(*reader)) break;
    if (zeroes_nan(*reader))
      parts.nan_is_zero = true;
    else if (!keeps_rows(reader))
      return false;
    parts.group.push_back(reader);
    weights = reader->outputs[0];
    reader = only_reader(weights);
  }
  if (!reader || !is_bare_product(*reader)) return false;
  parts.values = reader;
  parts.is_turned = reader->inputs[1] == weights;
  return reader->inputs[0] != reader->inputs[1] && parts.takes_weights() &&
         reader->as<MatrixMultiplyAttrs>().alpha == 1;
}

// Of floats, over the last of at least two dimensions.
bool is_of_rows(const Layer& softmax) {
  const auto& a = softmax.as<SoftMaxAttrs>();
  const Tensor* x = softmax.inputs[0];
  return !a.log && !a.hard && a.axis == a.last_axis && x->has_rank && x->type == DataType::kFloat &&
         x->shape.size() >= 2 && a.axis + 1 == static_cast<int64_t>(x->shape.size());
}

// What makes the weights, perhaps under another shape, for one reader.
Layer* softmax_of(const Tensor* weights) {
  if (keeps_rows(weights->producer)) weights = weights->producer->inputs[0];
  Layer* softmax = producer_of_kind(weights, LayerKind::kSoftMax);
  return only_reader(weights) && softmax && is_of_rows(*softmax) ? softmax : nullptr;
}

// Of open extents. A decoder's step has one row: a whole cache of keys would be turned for it.
constexpr int64_t kFewestKeys = 128, kFewestRows = 1;

}  // namespace

bool same_scores(const Tensor* a, const Tensor* b) {
  return a->has_rank && b->has_rank && a->shape.size() == b->shape.size() && !a->shape.empty() &&
         std::equal(a->shape.begin(), a->shape.end() - 1, b->shape.begin());
}

std::optional<AttentionParts> attention_parts(Layer* softmax, Factors factors) {
  if (!is_of_rows(*softmax)) return std::nullopt;
  AttentionParts parts;
  parts.softmax = softmax;
  parts.group.push_back(softmax);
  if (!find_scores(softmax->inputs[0], factors, parts)) return std::nullopt;
  if (factors == Factors::kCodes ? !find_values_of_codes(parts) : !find_values(parts))
    return std::nullopt;
  parts.group.push_back(parts.values);
  return parts;
}

bool pays_to_turn(const AttentionParts& parts) {
  const Shape& scores = parts.softmax->inputs[0]->shape;
  const Dim rows = scores[scores.size() - 2], keys = scores.back();
  const auto is_too_deep = [](const Tensor* x, bool turns, Dim steps, int64_t fewest) {
    const Dim depth = x->shape[x->shape.size() - (turns ? 2 : 1)];
    return !depth.is_known() || depth.extent() > 2 * (steps.is_known() ? steps.extent() : fewest);
  };
  if (parts.scores &&
      ((parts.turns_query() && is_too_deep(parts.query(), true, keys, kFewestKeys)) ||
       (parts.turns_key() && is_too_deep(parts.key(), true, rows, kFewestRows))))
    return false;
  const bool turns_value = parts.turns_value();
  return !(turns_value && is_too_deep(parts.value(), true, rows, kFewestRows)) &&
         !(parts.is_turned && is_too_deep(parts.value(), turns_value, keys, kFewestKeys));
}

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

bool weighs_values(const Layer& layer) {
  if (!is_float_product(layer)) return false;
  AttentionParts parts;
  parts.values = layer.outputs[0]->producer;
  parts.is_turned = !softmax_of(layer.inputs[0]);
  parts.softmax = softmax_of(parts.weights());
  if (!parts.softmax || !parts.takes_weights()) return false;
  Tensor* scores = parts.softmax->inputs[0];
  if (!scores->producer || !only_reader(scores)) return false;
  if (!find_scores(scores, Factors::kFloats, parts)) parts.scores = nullptr;  // not yet
  return pays_to_turn(parts);
}

}  // namespace camshaft::passes
