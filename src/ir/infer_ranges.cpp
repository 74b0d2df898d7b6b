// SPDX-License-Identifier: Apache-2.0
// Value ranges: the closed interval a tensor's elements are known to lie in.
#include <algorithm>
#include <limits>

#include "ir/infer_internal.h"
#include "ir/kind_traits.h"

namespace camshaft::ir {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Range {
  float low = -kInfinity, high = kInfinity;
};

Range of(const Tensor* tensor) {
  return tensor ? Range{tensor->facts.minimum, tensor->facts.maximum} : Range{};
}

Range of_operator(const PointOpAttrs& a, Range x) {
  switch (a.op) {
    case PointOp::kRelu:
      return {std::max(x.low, 0.0f), std::max(x.high, 0.0f)};
    case PointOp::kClip:
      return {std::clamp(x.low, a.x, std::max(a.x, a.y)),
              std::clamp(x.high, a.x, std::max(a.x, a.y))};
    case PointOp::kSigmoid:
    case PointOp::kHardSigmoid:
      return {0, 1};
    case PointOp::kTanh:
    case PointOp::kErf:
    case PointOp::kSin:
    case PointOp::kCos:
    case PointOp::kSign:
    case PointOp::kSoftsign:
      return {-1, 1};
    case PointOp::kExp:
    case PointOp::kSqrt:
    case PointOp::kSoftplus:
    case PointOp::kAbs:
      return {0, kInfinity};
    case PointOp::kIdentity:
      return x;
    default:
      return {};
  }
}

Range hull(const std::vector<Tensor*>& tensors) {
  Range range{kInfinity, -kInfinity};
  for (const Tensor* tensor : tensors) {
    range.low = std::min(range.low, of(tensor).low);
    range.high = std::max(range.high, of(tensor).high);
  }
  return range;
}

Range of_elementwise(PointOp op, Range a, Range b) {
  switch (op) {
    case PointOp::kMin:
      return {std::min(a.low, b.low), std::min(a.high, b.high)};
    case PointOp::kMax:
      return {std::max(a.low, b.low), std::max(a.high, b.high)};
    case PointOp::kAdd:
      return {a.low + b.low, a.high + b.high};
    case PointOp::kMul:
      return a.low >= 0 && b.low >= 0
                 ? Range{a.low * b.low,
                         a.high < kInfinity && b.high < kInfinity ? a.high * b.high : kInfinity}
                 : Range{};
    default:
      return {};
  }
}

Range of_layer(const Layer& layer) {
  switch (layer.kind) {
    case LayerKind::kActivation:
    case LayerKind::kUnary:
      return of_operator(layer.as<PointOpAttrs>(), of(layer.inputs[0]));
    case LayerKind::kElementWise:
      return of_elementwise(layer.as<PointOpAttrs>().op, of(layer.inputs[0]), of(layer.inputs[1]));
    case LayerKind::kSelect:
      return hull({layer.inputs[1], layer.inputs[2]});
    case LayerKind::kConcatenation:
      return hull(layer.inputs);
    case LayerKind::kSoftMax:
      return layer.as<SoftMaxAttrs>().log ? Range{-kInfinity, 0} : Range{0, 1};
    case LayerKind::kPooling:
      if (!layer.as<PoolingAttrs>().epilogue.empty()) return {};
      // Average pooling may mix in padding zeros; max pooling never gives what is not in the input.
      if (layer.as<PoolingAttrs>().type == PoolingType::kMax || layer.as<PoolingAttrs>().global)
        return of(layer.inputs[0]);
      return {std::min(of(layer.inputs[0]).low, 0.0f), std::max(of(layer.inputs[0]).high, 0.0f)};
    default:
      break;
  }
  return always_moves(layer.kind) ? of(layer.inputs[0]) : Range{};
}

}  // namespace

void infer_ranges(Layer& layer) {
  if (layer.outputs.empty() || layer.outputs[0] == nullptr || !is_floating(layer.outputs[0]->type))
    return;
  const Range range = of_layer(layer);
  layer.outputs[0]->facts.minimum = range.low;
  layer.outputs[0]->facts.maximum = range.high;
}

}  // namespace camshaft::ir
