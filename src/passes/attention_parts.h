// SPDX-License-Identifier: Apache-2.0
// The layers that make up attention (attention_form.h): two products with a softmax between.
#pragma once

#include <optional>
#include <vector>

#include "passes/expression.h"

namespace camshaft::passes {

enum class Factors { kFloats, kCodes };  // of both products

struct AttentionParts {
  ir::Layer* scores = nullptr;     // the first product
  ir::Layer* regroup = nullptr;    // a reshape of its batch dimensions, or null
  ir::Layer* pointwise = nullptr;  // behind them, or null
  ir::Layer* softmax = nullptr;
  ir::Layer* codes = nullptr;   // what rounds the weights, or null
  ir::Layer* values = nullptr;  // the second product
  bool nan_is_zero = false;
  // Channel-first networks multiply values^T by weights^T, which gives the result transposed.
  bool is_turned = false;
  std::vector<ir::Layer*> group;

  const ir::Tensor* score() const { return scores->outputs[0]; }
  const ir::Tensor* regrouped() const { return regroup ? regroup->outputs[0] : score(); }
  const ir::Tensor* weights() const { return values->inputs[is_turned ? 1 : 0]; }
  ir::Tensor* query() const { return scores->inputs[0]; }
  ir::Tensor* key() const { return scores->inputs[1]; }
  ir::Tensor* value() const { return values->inputs[is_turned ? 0 : 1]; }
  // Whether they lie as [depth, steps].
  bool turns_query() const { return scores->as<ir::MatrixMultiplyAttrs>().transpose_a; }
  bool turns_key() const { return !scores->as<ir::MatrixMultiplyAttrs>().transpose_b; }
  bool turns_value() const {
    const auto& a = values->as<ir::MatrixMultiplyAttrs>();
    return is_turned ? !a.transpose_a : a.transpose_b;
  }
  // Whether the second product sums over the keys.
  bool takes_weights() const {
    const auto& a = values->as<ir::MatrixMultiplyAttrs>();
    return is_turned ? a.transpose_b : !a.transpose_a;
  }
};

// Those around a softmax.
std::optional<AttentionParts> attention_parts(ir::Layer* softmax, Factors factors);

// What becomes of a score, with the score first (null).
Expression epilogue_of(const AttentionParts& parts);

// Turning what lies as [depth, steps] takes a copy, which pays where scores are at least half as
// many as its elements: they would be written once and read and written by SoftMax.
bool pays_to_turn(const AttentionParts& parts);

// Whether it is the second product, of floats, once the layers between are fused: AttentionFusion
// takes it as it is, and what follows stays behind.
bool weighs_values(const ir::Layer& layer);

// But for the number of keys, which may have two names (of the cache and of the mask): the second
// product holds them to the rows of the values.
bool same_scores(const ir::Tensor* a, const ir::Tensor* b);

}  // namespace camshaft::passes
