// SPDX-License-Identifier: Apache-2.0
// NoOpRemoval: layers that give their input back (identities, slices of everything, casts to the
// same type, concatenations of one, x + 0, x * 1, resizes by 1 …). Users read the input instead.
// Bit exact.
#include <algorithm>
#include <cmath>

#include "ir/kind_traits.h"
#include "passes/match.h"
#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

bool all_are(const Ints& list, int64_t value) {
  return std::all_of(list.begin(), list.end(), [&](int64_t v) { return v == value; });
}

bool is_no_op_slice(const Layer& layer) {
  const auto& a = layer.as<SliceAttrs>();
  if (layer.inputs.size() > 1 || !all_are(a.step, 1)) return false;
  return std::all_of(a.start.begin(), a.start.end(), [](Dim start) { return start == Dim(0); });
}

bool is_no_op_pad(const Layer& layer) {
  const auto& a = layer.as<PadAttrs>();
  return input_at(layer, 1) == nullptr && !a.pre.empty() && all_are(a.pre, 0) && all_are(a.post, 0);
}

bool is_no_op_pooling(const Layer& layer) {
  const auto& a = layer.as<PoolingAttrs>();
  if (gives_indices(layer) || !a.epilogue.empty()) return false;
  return !a.global && a.type != PoolingType::kLp && all_are(a.kernel, 1) && all_are(a.stride, 1) &&
         all_are(a.pre_padding, 0) && all_are(a.post_padding, 0);
}

bool is_no_op_resize(const Layer& layer) {
  const auto& a = layer.as<ResizeAttrs>();
  if (a.transform == CoordinateTransform::kTfCropAndResize || a.antialias) return false;
  return std::all_of(a.scales.begin(), a.scales.end(), [](float scale) { return scale == 1; });
}

bool is_no_op_reduce(const Layer& layer) {
  const auto& a = layer.as<ReduceAttrs>();
  if (input_at(layer, 1) || a.axes.empty()) return false;
  const bool keeps_value = a.op == ReduceOp::kSum || a.op == ReduceOp::kMean ||
                           a.op == ReduceOp::kMax || a.op == ReduceOp::kMin ||
                           a.op == ReduceOp::kProd;
  const Shape& shape = layer.inputs[0]->shape;
  return keeps_value && a.keep_dims && std::all_of(a.axes.begin(), a.axes.end(), [&](int64_t axis) {
           return shape[axis] == Dim(1);
         });
}

// What leaves the other operand as it is: of the second operand, and of the first if it commutes.
std::optional<double> neutral_value(PointOp op, bool* commutes) {
  *commutes = true;
  switch (op) {
    case PointOp::kAdd:
    case PointOp::kOr:
    case PointOp::kXor:
      return 0;
    case PointOp::kMul:
    case PointOp::kAnd:
      return 1;
    case PointOp::kSub:
      *commutes = false;
      return 0;
    case PointOp::kDiv:
    case PointOp::kPow:
      *commutes = false;
      return 1;
    default:
      return std::nullopt;
  }
}

// x + 0, 0 + x, x - 0, x * 1, 1 * x, x / 1, x ^ 1, x and true … whatever the shape of the constant:
// the output shape says that nothing is broadcast.
bool is_no_op_elementwise(const Layer& layer, size_t* kept) {
  bool commutes = false;
  const std::optional<double> neutral = neutral_value(layer.as<PointOpAttrs>().op, &commutes);
  for (size_t k : {size_t{1}, size_t{0}}) {
    if (!neutral || (k == 0 && !commutes)) continue;
    *kept = 1 - k;
    if (uniform_value(layer.inputs[k]) == neutral) return true;
  }
  return false;
}

bool is_no_op(const Layer& layer, size_t* kept) {
  switch (layer.kind) {
    case LayerKind::kUnary:
      return is_copy(layer);
    case LayerKind::kActivation: {
      const auto& a = layer.as<PointOpAttrs>();
      return a.op == PointOp::kIdentity ||
             (a.op == PointOp::kClip && a.x == -HUGE_VALF && a.y == HUGE_VALF);
    }
    case LayerKind::kElementWise:
      return is_no_op_elementwise(layer, kept);
    case LayerKind::kSlice:
      return is_no_op_slice(layer);
    case LayerKind::kPad:
      return is_no_op_pad(layer);
    case LayerKind::kConcatenation:
      return layer.inputs.size() == 1;
    case LayerKind::kCast:
    case LayerKind::kExpand:
      return true;  // the same type and shape, as checked by the caller
    case LayerKind::kTile:
      return layer.as<ShapeAttrs>().is_static;
    case LayerKind::kPooling:
      return is_no_op_pooling(layer);
    case LayerKind::kResize:
      return is_no_op_resize(layer);
    case LayerKind::kReduce:
      return is_no_op_reduce(layer);
    case LayerKind::kReformat:
      return true;
    default:
      return false;
  }
}

}  // namespace

int no_op_removal(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "NoOpRemoval", records);
  for (size_t k = 0; k < graph.layers().size();) {
    Layer* layer = graph.layers()[k].get();
    size_t kept = 0;
    Tensor* output = layer->outputs.empty() ? nullptr : layer->outputs[0];
    const bool no_op = output && is_no_op(*layer, &kept);
    Tensor* input = no_op ? layer->inputs[kept] : nullptr;
    if (no_op && input->type == output->type && same_shape(input, output) &&
        rewriter.can_replace(output, input)) {
      rewriter.running(*layer);
      rewriter.replace_uses(output, input);
      rewriter.removed(*layer);
      rewriter.remove(layer);
    } else {
      ++k;
    }
  }
  return rewriter.edits();
}

}  // namespace camshaft::passes
