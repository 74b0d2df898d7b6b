// SPDX-License-Identifier: Apache-2.0
#include "passes/rotation_forms.h"

#include "passes/match.h"

namespace camshaft::passes {

using namespace ir;

namespace {

bool is_binary(const Layer* layer, PointOp op) {
  return layer && layer->kind == LayerKind::kElementWise && layer->inputs.size() == 2 &&
         layer->as<PointOpAttrs>().op == op;
}

bool is_float(const Tensor* tensor) {
  return tensor->has_rank && tensor->type == DataType::kFloat && !tensor->shape.empty();
}

// Elements first, first + step … of the last dimension of `of`, `count` of them.
struct Part {
  Tensor* of = nullptr;
  int64_t first = 0, count = 0, step = 1;
};

std::optional<Part> any_part_of(const Tensor* tensor) {
  const Layer* slice = producer_of_kind(tensor, LayerKind::kSlice);
  if (!slice || slice->inputs.size() != 1 || !is_float(slice->inputs[0])) return std::nullopt;
  const auto& a = slice->as<SliceAttrs>();
  Tensor* x = slice->inputs[0];
  const size_t last = x->shape.size() - 1;
  if (a.start.size() != x->shape.size() || a.size.size() != x->shape.size()) return std::nullopt;
  for (size_t d = 0; d < last; ++d)
    if (a.start[d] != Dim(0) || a.step[d] != 1 || a.size[d] != x->shape[d]) return std::nullopt;
  if (!a.start[last].is_known() || !a.size[last].is_known()) return std::nullopt;
  return Part{x, a.start[last].extent(), a.size[last].extent(), a.step[last]};
}

std::optional<Part> part_of(const Tensor* tensor) {
  const std::optional<Part> part = any_part_of(tensor);
  return part && part->step == 1 ? part : std::nullopt;
}

// -x
Tensor* negated(const Tensor* tensor) {
  Layer* layer = tensor->producer;
  if (layer && layer->kind == LayerKind::kUnary && layer->as<PointOpAttrs>().op == PointOp::kNeg)
    return layer->inputs[0];
  if (!is_binary(layer, PointOp::kMul)) return nullptr;
  for (const size_t side : {0, 1})
    if (scalar_value(layer->inputs[side]) == -1.0f &&
        layer->inputs[1 - side]->shape == tensor->shape)
      return layer->inputs[1 - side];
  return nullptr;
}

// The concatenation of the last dimension.
const Layer* joins_last(const Tensor* tensor) {
  const Layer* concat = producer_of_kind(tensor, LayerKind::kConcatenation);
  if (!concat || !is_float(tensor) ||
      concat->as<AxisAttrs>().axis + 1 != static_cast<int64_t>(tensor->shape.size()))
    return nullptr;
  return concat;
}

// Of Concat(-x₂, x₁): x, with half its depth.
std::optional<RotationForm> turned_by_quarter(const Tensor* tensor) {
  const Layer* concat = joins_last(tensor);
  if (!concat || concat->inputs.size() != 2) return std::nullopt;
  const Tensor* second = negated(concat->inputs[0]);
  const std::optional<Part> low = part_of(concat->inputs[1]);
  if (!second || !low || low->first != 0 || low->of->shape != tensor->shape) return std::nullopt;
  const std::optional<Part> high = part_of(second);
  if (!high || high->of != low->of || high->first != low->count || high->count != low->count)
    return std::nullopt;
  return RotationForm{low->of, nullptr, nullptr, low->count, low->of->shape};
}

// --- neighbours

// In front of reshapes, which leave elements in their order.
Tensor* behind_reshapes(Tensor* tensor) {
  while (is_reshape(tensor->producer)) tensor = tensor->producer->inputs[0];
  return tensor;
}

// Every second element of `of`, from number `first` on.
struct EverySecond {
  Tensor* of = nullptr;
  int64_t first = 0;

  bool is_from(Tensor* x, int64_t number) const {
    return first == number && behind_reshapes(of) == behind_reshapes(x);
  }
};

// A slice of the last dimension: by steps of two, or one element of two.
std::optional<EverySecond> every_second(Tensor* tensor) {
  const std::optional<Part> part = any_part_of(behind_reshapes(tensor));
  if (!part || !part->of->shape.back().is_known()) return std::nullopt;
  const int64_t extent = part->of->shape.back().extent();
  if (extent % 2 != 0 || part->count != extent / 2 || part->first < 0 || part->first > 1 ||
      (part->step != 2 && extent != 2))
    return std::nullopt;
  return EverySecond{part->of, part->first};
}

// What joins two columns [..., 1] to pairs, perhaps in front of a reshape.
const Layer* joins_columns(Tensor* tensor) {
  const Layer* concat = joins_last(behind_reshapes(tensor));
  if (!concat || concat->inputs.size() != 2) return nullptr;
  const bool is_column =
      concat->inputs[0]->shape.back() == Dim(1) && concat->inputs[1]->shape.back() == Dim(1);
  return is_column ? concat : nullptr;
}

// Of Reshape(Concat(-x₂, x₁)).
std::optional<RotationForm> turned_neighbours(Tensor* tensor, Tensor* x) {
  const Layer* concat = joins_columns(tensor);
  if (!concat || !is_float(x) || x->shape != tensor->shape || !x->shape.back().is_known() ||
      x->shape.back().extent() % 2 != 0)
    return std::nullopt;
  Tensor* second = negated(behind_reshapes(concat->inputs[0]));
  if (!second) return std::nullopt;
  const auto high = every_second(second), low = every_second(concat->inputs[1]);
  if (!high || !low || !high->is_from(x, 1) || !low->is_from(x, 0)) return std::nullopt;
  RotationForm found{x, nullptr, nullptr, x->shape.back().extent() / 2, x->shape};
  found.has_neighbours = true;
  found.sliced = {low->of, high->of};
  return found;
}

// The factor of a product with every second element of x, from `number` on.
Tensor* factor_of_second(const Tensor* product, Tensor* x, int64_t number,
                         std::vector<const Tensor*>& sliced) {
  const Layer* layer = product->producer;
  if (!is_binary(layer, PointOp::kMul)) return nullptr;
  for (const size_t side : {0, 1}) {
    const auto found = every_second(layer->inputs[side]);
    if (!found || !found->is_from(x, number) || layer->inputs[side]->shape != product->shape)
      continue;
    sliced.push_back(found->of);
    return layer->inputs[1 - side];
  }
  return nullptr;
}

// Reshape(Concat(x₁ · c - x₂ · s, x₁ · s + x₂ · c))
std::optional<RotationForm> joined_neighbours(Tensor* tensor) {
  const Layer* concat = joins_columns(tensor);
  if (!concat) return std::nullopt;
  const Tensor *real = behind_reshapes(concat->inputs[0]),
               *imaginary = behind_reshapes(concat->inputs[1]);
  if (!is_binary(real->producer, PointOp::kSub) || !is_binary(imaginary->producer, PointOp::kAdd) ||
      real->shape != imaginary->shape)
    return std::nullopt;
  const Layer* left = real->producer->inputs[0]->producer;
  if (!is_binary(left, PointOp::kMul)) return std::nullopt;
  for (const size_t side : {0, 1}) {
    const auto low = every_second(left->inputs[side]);
    if (!low || low->first != 0 || left->inputs[side]->shape != real->shape) continue;
    RotationForm found;
    found.x = low->of;
    found.cosine = left->inputs[1 - side];
    found.sliced = {low->of};
    found.has_neighbours = true;
    found.sine = factor_of_second(real->producer->inputs[1], low->of, 1, found.sliced);
    found.shape = real->shape;
    found.has_columns = found.shape.back() == Dim(1) && found.shape.size() > 1;
    if (found.has_columns) found.shape.pop_back();
    if (!found.sine || !found.shape.back().is_known()) continue;
    found.half = found.shape.back().extent();
    found.shape.back() = 2 * found.half;
    for (const size_t order : {0, 1})
      if (factor_of_second(imaginary->producer->inputs[order], low->of, 0, found.sliced) ==
              found.sine &&
          factor_of_second(imaginary->producer->inputs[1 - order], low->of, 1, found.sliced) ==
              found.cosine)
        return found;
  }
  return std::nullopt;
}

// x · c + turned · s
std::optional<RotationForm> sum_of_products(const Layer& sum) {
  for (const size_t side : {0, 1}) {
    const Layer *straight = sum.inputs[side]->producer, *turned = sum.inputs[1 - side]->producer;
    if (!is_binary(straight, PointOp::kMul) || !is_binary(turned, PointOp::kMul)) continue;
    for (const size_t factor : {0, 1})
      for (const size_t other : {0, 1}) {
        Tensor* x = straight->inputs[1 - other];
        std::optional<RotationForm> found = turned_by_quarter(turned->inputs[1 - factor]);
        if (!found) found = turned_neighbours(turned->inputs[1 - factor], x);
        if (!found || found->x != x || x->shape != sum.outputs[0]->shape) continue;
        found->sine = turned->inputs[factor];
        found->cosine = straight->inputs[other];
        return found;
      }
  }
  return std::nullopt;
}

// The factor of a product with part `part` of x.
Tensor* factor_of(const Tensor* product, const Part& part) {
  const Layer* layer = product->producer;
  if (!is_binary(layer, PointOp::kMul)) return nullptr;
  for (const size_t side : {0, 1}) {
    const auto found = part_of(layer->inputs[side]);
    if (found && found->of == part.of && found->first == part.first && found->count == part.count)
      return layer->inputs[1 - side];
  }
  return nullptr;
}

// Concat(x₁ · c - x₂ · s, x₁ · s + x₂ · c[, the rest])
std::optional<RotationForm> joined_halves(const Layer& concat) {
  if (!joins_last(concat.outputs[0]) || concat.inputs.size() < 2 || concat.inputs.size() > 3)
    return std::nullopt;
  const Layer *real = concat.inputs[0]->producer, *imaginary = concat.inputs[1]->producer;
  if (!is_binary(real, PointOp::kSub) || !is_binary(imaginary, PointOp::kAdd)) return std::nullopt;
  const Layer* left = real->inputs[0]->producer;
  if (!is_binary(left, PointOp::kMul)) return std::nullopt;
  for (const size_t side : {0, 1}) {
    const auto low = part_of(left->inputs[side]);
    if (!low || low->first != 0 || low->count < 2) continue;  // 1: pairs
    const Part high{low->of, low->count, low->count};
    RotationForm found{low->of, left->inputs[1 - side], factor_of(real->inputs[1], high),
                       low->count, low->of->shape};
    if (!found.sine) continue;
    for (const size_t order : {0, 1})
      if (factor_of(imaginary->inputs[order], *low) == found.sine &&
          factor_of(imaginary->inputs[1 - order], high) == found.cosine) {
        const int64_t rotated = 2 * found.half;
        const Dim depth = found.x->shape.back();
        if (concat.inputs.size() == 2) {
          if (depth == Dim(rotated)) return found;
        } else if (const auto rest = part_of(concat.inputs[2]);
                   rest && rest->of == found.x && rest->first == rotated && depth.is_known() &&
                   rest->count == depth.extent() - rotated) {
          return found;
        }
      }
  }
  return std::nullopt;
}

}  // namespace

std::optional<RotationForm> find_rotation(const Layer& layer) {
  if (layer.outputs.size() != 1 || !is_float(layer.outputs[0])) return std::nullopt;
  if (layer.kind == LayerKind::kConcatenation) return joined_halves(layer);
  if (layer.kind == LayerKind::kShuffle) return joined_neighbours(layer.outputs[0]);
  return is_binary(&layer, PointOp::kAdd) ? sum_of_products(layer) : std::nullopt;
}

std::optional<RotationForm> find_rotated_pairs(const Layer& layer) {
  if (layer.kind != LayerKind::kConcatenation) return std::nullopt;
  return joined_neighbours(layer.outputs[0]);
}

}  // namespace camshaft::passes
