// SPDX-License-Identifier: Apache-2.0
#include "passes/affine.h"

#include <algorithm>

#include "ir/rewriter.h"
#include "passes/match.h"

namespace camshaft::passes {

using namespace ir;

namespace {

std::optional<Affine> affine_elementwise(const Layer& layer, const Tensor* x, size_t axis,
                                         int64_t channels) {
  const PointOp op = layer.as<PointOpAttrs>().op;
  const size_t slot = layer.inputs[0] == x ? 0 : 1;
  if (layer.inputs[1 - slot] == x) return std::nullopt;
  const std::vector<float> c = values_along(layer.inputs[1 - slot], x->shape, axis, channels);
  if (c.empty()) return std::nullopt;
  Affine affine{std::vector<float>(channels, 1.0f), std::vector<float>(channels, 0.0f)};
  switch (op) {
    case PointOp::kAdd:
      affine.shift = c;
      return affine;
    case PointOp::kMul:
      affine.scale = c;
      return affine;
    case PointOp::kSub:
      for (int64_t k = 0; k < channels; ++k) affine.shift[k] = slot == 0 ? -c[k] : c[k];
      if (slot == 1) std::fill(affine.scale.begin(), affine.scale.end(), -1.0f);
      return affine;
    case PointOp::kDiv:
      if (slot == 1 || std::count(c.begin(), c.end(), 0.0f)) return std::nullopt;
      for (int64_t k = 0; k < channels; ++k) affine.scale[k] = static_cast<float>(1.0 / c[k]);
      return affine;
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<Affine> affine_of(const Layer& layer, const Tensor* x, size_t axis,
                                int64_t channels) {
  if (!layer.outputs[0] || !same_shape(x, layer.outputs[0]) || x->type != DataType::kFloat)
    return std::nullopt;
  if (layer.kind == LayerKind::kElementWise) return affine_elementwise(layer, x, axis, channels);
  if (layer.kind == LayerKind::kUnary && layer.as<PointOpAttrs>().op == PointOp::kNeg)
    return Affine{std::vector<float>(channels, -1.0f), std::vector<float>(channels, 0.0f)};
  if (layer.kind != LayerKind::kScale || layer.inputs[0] != x ||
      layer.as<ScaleAttrs>().axis != static_cast<int64_t>(axis))
    return std::nullopt;
  if (!is_float_constant(layer.inputs[1]) || !is_float_constant(layer.inputs[2]))
    return std::nullopt;
  const auto scale = layer.inputs[1]->values<float>(), shift = layer.inputs[2]->values<float>();
  if (static_cast<int64_t>(scale.size()) != channels ||
      static_cast<int64_t>(shift.size()) != channels)
    return std::nullopt;
  return Affine{{scale.begin(), scale.end()}, {shift.begin(), shift.end()}};
}

}  // namespace camshaft::passes
