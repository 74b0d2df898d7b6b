// SPDX-License-Identifier: Apache-2.0
#include "passes/written_weights.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "passes/fold.h"
#include "passes/match.h"

namespace camshaft::passes {

using namespace ir;

namespace {

constexpr size_t kLongestArithmetic = 24;

// Elements of these extents, so far apart in `values` along each dimension.
std::vector<float> strided(const std::vector<float>& values, const Extents& extents,
                           const Extents& strides) {
  std::vector<float> result(static_cast<size_t>(element_count(extents)));
  Ints at(extents.size(), 0);
  int64_t from = 0;
  for (float& value : result) {
    value = values[static_cast<size_t>(from)];
    for (size_t d = extents.size(); d-- > 0;) {
      from += strides[d];
      if (++at[d] < extents[d]) break;
      from -= strides[d] * extents[d];
      at[d] = 0;
    }
  }
  return result;
}

Extents in_order(const Extents& values, const Ints& order) {
  Extents result;
  for (const int64_t d : order) result.push_back(values[static_cast<size_t>(d)]);
  return result;
}

std::vector<float> floats_of(const kernels::Value& value) {
  const std::vector<double> numbers = value.to_doubles();
  return {numbers.begin(), numbers.end()};
}

// Of an operand as it broadcasts to `extents`; empty: it does not.
std::optional<Values> broadcast(const kernels::Value& operand, const Extents& extents) {
  const Extents& own = operand.extents;
  std::vector<float> values = floats_of(operand);
  if (values.size() == 1) return Values(values[0]);
  if (own.size() > extents.size()) return std::nullopt;
  const size_t lead = extents.size() - own.size();
  Extents strides(extents.size(), 0);
  int64_t stride = 1;
  for (size_t d = own.size(); d-- > 0; stride *= own[d]) {
    if (own[d] != 1 && own[d] != extents[lead + d]) return std::nullopt;
    strides[lead + d] = own[d] == 1 ? 0 : stride;
  }
  if (own == extents) return Values(std::move(values));
  return Values(strided(values, extents, strides));
}

template <class Function>
Values combined(const Values& a, const Values& b, int64_t count, const Function& function) {
  if (a.is_one() && b.is_one()) return Values(function(a[0], b[0]));
  std::vector<float> result(static_cast<size_t>(count));
  for (int64_t k = 0; k < count; ++k) result[static_cast<size_t>(k)] = function(a[k], b[k]);
  return Values(std::move(result));
}

int64_t known_count(const Tensor& tensor) {
  return tensor.has_rank && all_known(tensor.shape) ? element_count(extents_of(tensor.shape)) : -1;
}

bool is_arithmetic(const Layer& layer) {
  if (layer.kind == LayerKind::kShuffle || layer.kind == LayerKind::kCast || is_copy(layer))
    return true;
  if (layer.kind != LayerKind::kElementWise) return false;
  const PointOp op = layer.as<PointOpAttrs>().op;
  return op == PointOp::kAdd || op == PointOp::kSub || op == PointOp::kMul || op == PointOp::kDiv;
}

// The inputs of an arithmetic layer that may be the weights, whose other one scales or shifts them:
// the larger one, or either.
std::vector<size_t> weights_slots(const Layer& layer) {
  if (layer.kind != LayerKind::kElementWise) return {0};
  const int64_t left = known_count(*layer.inputs[0]), right = known_count(*layer.inputs[1]);
  if (left == right) return {0, 1};
  return {right > left ? size_t{1} : size_t{0}};
}

// Integers, but not those that a zero point has been taken from.
bool starts_codes(const Tensor& tensor) {
  if (!is_integer(tensor.type)) return false;
  const Layer* layer = tensor.producer;
  if (!layer || !is_arithmetic(*layer)) return true;
  if (layer->kind == LayerKind::kCast) return !is_integer(layer->inputs[0]->type);
  return layer->kind == LayerKind::kElementWise && layer->as<PointOpAttrs>().op != PointOp::kSub;
}

class Walk {
 public:
  // False: `weights` are not made of constant codes by such arithmetic.
  bool run(const Tensor* weights) {
    const Tensor* codes = find_codes(weights);
    if (!codes || chain_.empty() || !start(*codes)) return false;
    return std::all_of(chain_.rbegin(), chain_.rend(),
                       [this](const Step& step) { return apply(*step.layer, step.slot); });
  }

  WrittenWeights weights;

 private:
  struct Step {
    const Layer* layer;
    size_t slot;  // of the weights
  };

  // What the chain behind `tensor` begins with; null: no codes.
  const Tensor* find_codes(const Tensor* tensor) {
    if (starts_codes(*tensor)) return tensor;
    const Layer* layer = tensor->producer;
    if (!layer || !is_arithmetic(*layer) || chain_.size() >= kLongestArithmetic ||
        !visited_.insert(tensor).second)
      return nullptr;
    for (const size_t slot : weights_slots(*layer)) {
      chain_.push_back({layer, slot});
      if (const Tensor* codes = find_codes(layer->inputs[slot])) return codes;
      chain_.pop_back();
    }
    return nullptr;
  }

  bool start(const Tensor& codes) {
    const std::optional<kernels::Value> value = value_of_constants(codes);
    if (!value) return false;
    weights.extents = value->extents;
    weights.codes = Values(floats_of(*value));
    weights.has_byte_codes = bits_of(codes.type) <= 8;
    return !weights.codes.is_one();
  }

  bool apply(const Layer& layer, size_t slot) {
    if (layer.kind == LayerKind::kShuffle) return shuffle(layer);
    if (layer.kind == LayerKind::kCast) return cast(layer.as<CastAttrs>().to);
    return is_copy(layer) || arithmetic(layer, slot);
  }

  bool shuffle(const Layer& layer) {
    const auto& a = layer.as<ShuffleAttrs>();
    const Tensor* result = layer.outputs[0];
    if (known_count(*result) != weights.count()) return false;
    transpose(a.first_transpose);
    if (a.has_reshape || layer.inputs.size() > 1) {
      // What the second transpose makes of the reshaped extents is known, not these themselves.
      const Extents after = extents_of(result->shape);
      weights.extents = after;
      for (size_t d = 0; d < a.second_transpose.size(); ++d)
        weights.extents[static_cast<size_t>(a.second_transpose[d])] = after[d];
    }
    transpose(a.second_transpose);
    return true;
  }

  void transpose(const Ints& order) {
    if (is_identity_order(order)) return;
    const Extents& from = weights.extents;
    Extents strides(from.size(), 1);
    for (size_t d = from.size() - 1; d > 0; --d) strides[d - 1] = strides[d] * from[d];
    const Extents to = in_order(from, order);
    for (Values* values : {&weights.codes, &weights.scale, &weights.zero})
      if (!values->is_one()) *values = Values(strided(values->all(), to, in_order(strides, order)));
    weights.extents = to;
  }

  // To floats, or to integers that hold what there is.
  bool cast(DataType to) {
    if (!is_integer(to)) return to == DataType::kFloat;
    return weights.scale.is_one() && weights.scale[0] == 1 && holds_all(to);
  }

  bool holds_all(DataType type) const {
    const double bits = bits_of(type);
    const bool is_signed = type == DataType::kInt4 || type == DataType::kInt8 ||
                           type == DataType::kInt16 || type == DataType::kInt32 ||
                           type == DataType::kInt64;
    const double least = is_signed ? -std::exp2(bits - 1) : 0;
    const double most = std::exp2(is_signed ? bits - 1 : bits) - 1;
    for (int64_t k = 0; k < weights.count(); ++k) {
      const double value = weights.codes[k] - weights.zero[k];
      if (!(value >= least && value <= most)) return false;
    }
    return true;
  }

  bool arithmetic(const Layer& layer, size_t slot) {
    const PointOp op = layer.as<PointOpAttrs>().op;
    const Tensor *operand = layer.inputs[1 - slot], *result = layer.outputs[0];
    if (known_count(*result) != weights.count() || (op == PointOp::kDiv && slot == 1)) return false;
    weights.extents = extents_of(result->shape);
    const std::optional<kernels::Value> value = value_of_constants(*operand);
    const std::optional<Values> c =
        value ? broadcast(*value, weights.extents) : std::optional<Values>();
    if (!c) return false;
    if (op == PointOp::kMul || op == PointOp::kDiv) {
      scale(*c, op == PointOp::kDiv);
    } else if (op == PointOp::kSub && slot == 1) {
      scale(Values(-1.0f), false);
      shift(*c, 1);
    } else {
      shift(*c, op == PointOp::kAdd ? 1 : -1);
    }
    return !is_integer(result->type) || (slot == 0 && holds_all(result->type));
  }

  void scale(const Values& c, bool divides) {
    weights.is_scaled |= !c.is_one();
    weights.scale = combined(weights.scale, c, weights.count(), [divides](float s, float factor) {
      return divides ? s / factor : s * factor;
    });
  }

  // (code - zero) * scale + sign * c
  void shift(const Values& c, float sign) {
    const Values moved = combined(c, weights.scale, weights.count(),
                                  [sign](float shift, float s) { return sign * shift / s; });
    weights.zero = combined(weights.zero, moved, weights.count(),
                            [](float zero, float by) { return zero - by; });
  }

  std::vector<Step> chain_;  // the last one first
  std::set<const Tensor*> visited_;
};

}  // namespace

std::optional<WrittenWeights> written_weights(const Tensor& weights) {
  Walk walk;
  if (!walk.run(&weights) || walk.weights.extents != extents_of(weights.shape)) return std::nullopt;
  return std::move(walk.weights);
}

}  // namespace camshaft::passes
