// SPDX-License-Identifier: Apache-2.0
// RotationFusion: rotary positions written out become one layer that turns pairs in registers:
//   x · c + Concat(-x₂, x₁) · s      (transformers' rotate_half)
//   Concat(x₁ · c - x₂ · s, x₁ · s + x₂ · c[, the rest of x])
// where x₁ and x₂ are the halves of x, or of its first part. A transpose in front that leaves the
// last dimension alone goes behind it, toward Attention, which reads rows where they lie. A product
// and a sum are rounded once: half a unit of the last place.
#include <algorithm>
#include <optional>

#include "ir/rotation.h"
#include "passes/match.h"
#include "passes/passes.h"

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

// Elements [first, first + count) of the last dimension of `of`.
struct Part {
  Tensor* of = nullptr;
  int64_t first = 0, count = 0;
};

std::optional<Part> part_of(const Tensor* tensor) {
  const Layer* slice = producer_of_kind(tensor, LayerKind::kSlice);
  if (!slice || slice->inputs.size() != 1 || !is_float(slice->inputs[0])) return std::nullopt;
  const auto& a = slice->as<SliceAttrs>();
  Tensor* x = slice->inputs[0];
  const size_t last = x->shape.size() - 1;
  if (a.start.size() != x->shape.size() || a.size.size() != x->shape.size()) return std::nullopt;
  for (size_t d = 0; d < last; ++d)
    if (a.start[d] != Dim(0) || a.step[d] != 1 || a.size[d] != x->shape[d]) return std::nullopt;
  if (a.step[last] != 1 || !a.start[last].is_known() || !a.size[last].is_known())
    return std::nullopt;
  return Part{x, a.start[last].extent(), a.size[last].extent()};
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

struct Found {
  Tensor *x = nullptr, *cosine = nullptr, *sine = nullptr;
  int64_t half = 0;
};

// The concatenation of the last dimension.
const Layer* joins_last(const Tensor* tensor) {
  const Layer* concat = producer_of_kind(tensor, LayerKind::kConcatenation);
  if (!concat || !is_float(tensor) ||
      concat->as<AxisAttrs>().axis + 1 != static_cast<int64_t>(tensor->shape.size()))
    return nullptr;
  return concat;
}

// Of Concat(-x₂, x₁): x, with half its depth.
std::optional<Found> turned_by_quarter(const Tensor* tensor) {
  const Layer* concat = joins_last(tensor);
  if (!concat || concat->inputs.size() != 2) return std::nullopt;
  const Tensor* second = negated(concat->inputs[0]);
  const std::optional<Part> low = part_of(concat->inputs[1]);
  if (!second || !low || low->first != 0 || low->of->shape != tensor->shape) return std::nullopt;
  const std::optional<Part> high = part_of(second);
  if (!high || high->of != low->of || high->first != low->count || high->count != low->count)
    return std::nullopt;
  return Found{low->of, nullptr, nullptr, low->count};
}

// x · c + turned · s
std::optional<Found> sum_of_products(const Layer& sum) {
  for (const size_t side : {0, 1}) {
    const Layer *straight = sum.inputs[side]->producer, *turned = sum.inputs[1 - side]->producer;
    if (!is_binary(straight, PointOp::kMul) || !is_binary(turned, PointOp::kMul)) continue;
    for (const size_t factor : {0, 1}) {
      std::optional<Found> found = turned_by_quarter(turned->inputs[1 - factor]);
      if (!found) continue;
      found->sine = turned->inputs[factor];
      for (const size_t other : {0, 1})
        if (straight->inputs[1 - other] == found->x) {
          found->cosine = straight->inputs[other];
          return found;
        }
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
std::optional<Found> joined_halves(const Layer& concat) {
  if (!joins_last(concat.outputs[0]) || concat.inputs.size() < 2 || concat.inputs.size() > 3)
    return std::nullopt;
  const Layer *real = concat.inputs[0]->producer, *imaginary = concat.inputs[1]->producer;
  if (!is_binary(real, PointOp::kSub) || !is_binary(imaginary, PointOp::kAdd)) return std::nullopt;
  const Layer* left = real->inputs[0]->producer;
  if (!is_binary(left, PointOp::kMul)) return std::nullopt;
  for (const size_t side : {0, 1}) {
    const auto low = part_of(left->inputs[side]);
    if (!low || low->first != 0 || low->count < 1) continue;
    const Part high{low->of, low->count, low->count};
    Found found{low->of, left->inputs[1 - side], factor_of(real->inputs[1], high), low->count};
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

// Repeated over x, with as many values as pairs, or twice as many.
bool is_factor(const Tensor* factor, const Found& found) {
  if (!is_float(factor) || factor->shape.size() > found.x->shape.size()) return false;
  const Dim width = factor->shape.back();
  if (width != Dim(found.half) && width != Dim(2 * found.half)) return false;
  const size_t missing = found.x->shape.size() - factor->shape.size();
  for (size_t d = 0; d + 1 < factor->shape.size(); ++d)
    if (factor->shape[d] != Dim(1) && factor->shape[d] != found.x->shape[d + missing]) return false;
  return true;
}

class Fusion {
 public:
  Fusion(Graph& graph, Records* records) : rewriter_(graph, "RotationFusion", records) {}

  int run() {
    for (size_t k = 0; k < rewriter_.graph().layers().size(); ++k) {
      Layer* layer = rewriter_.graph().layers()[k].get();
      if (layer->outputs.size() != 1 || !is_float(layer->outputs[0])) continue;
      const std::optional<Found> found = layer->kind == LayerKind::kConcatenation
                                             ? joined_halves(*layer)
                                         : is_binary(layer, PointOp::kAdd) ? sum_of_products(*layer)
                                                                           : std::nullopt;
      if (found && fuse(layer, *found)) k = 0;
    }
    return rewriter_.edits();
  }

 private:
  bool fuse(Layer* layer, const Found& found) {
    const Tensor* y = layer->outputs[0];
    if (y->shape != found.x->shape || !is_factor(found.cosine, found) ||
        !is_factor(found.sine, found) || found.cosine->shape.size() != found.sine->shape.size() ||
        found.cosine->shape.back() != found.sine->shape.back())
      return false;
    rewriter_.running(*layer);
    rewriter_.applied(Action::kFuse, *layer,
                      "Fusing " + layer->name + " into the rotation of " + found.x->name);
    std::vector<Layer*> group;
    collect(layer, found, group);
    sort_by_position(group);
    if (!go_before_transpose(layer, found, group))
      rewriter_.replace(group, LayerKind::kGeneric, rotation_attributes(found.half),
                        {found.x, found.cosine, found.sine}, layer->name);
    return true;
  }

  // What lies between x, the factors and the result.
  static void collect(Layer* layer, const Found& found, std::vector<Layer*>& group) {
    if (std::find(group.begin(), group.end(), layer) != group.end()) return;
    group.push_back(layer);
    for (const Tensor* input : layer->inputs)
      if (input != found.x && input != found.cosine && input != found.sine && input->producer)
        collect(input->producer, found, group);
  }

  // x is heads [batch, heads, steps, depth] of what a product made as [batch, steps, heads, depth];
  // factors have no heads.
  bool go_before_transpose(Layer* layer, const Found& found, std::vector<Layer*> group) {
    Layer* shuffle = producer_of_kind(found.x, LayerKind::kShuffle);
    if (!shuffle || input_at(*shuffle, 1) || found.x->shape.size() != 4) return false;
    const auto& a = shuffle->as<ShuffleAttrs>();
    const Ints swap = {0, 2, 1, 3};
    const bool splits = a.has_reshape && is_identity_order(a.first_transpose);
    if (a.has_reshape ? !splits || a.second_transpose != swap : a.first_transpose != swap)
      return false;
    for (const Tensor* factor : {found.cosine, found.sine})
      if (factor->shape.size() == 3 || (factor->shape.size() == 4 && factor->shape[1] != Dim(1)))
        return false;
    Shape steps_first = found.x->shape;
    std::swap(steps_first[1], steps_first[2]);
    const std::string name = layer->name;
    rewriter_.rename(layer, name + " (heads)");
    Tensor* x = shuffle->inputs[0];
    x = rewriter_.reshaped_before(layer, x->name + " (steps)", x, steps_first, *shuffle);
    Tensor* turned = rewriter_.add_tensor(found.x->name + " (turned)", x->type, steps_first);
    rewriter_.insert_before(layer, LayerKind::kGeneric, name, rotation_attributes(found.half),
                            {x, beside_steps(layer, found.cosine), beside_steps(layer, found.sine)},
                            {turned}, std::vector<const Layer*>(group.begin(), group.end()));
    ShuffleAttrs back;
    back.first_transpose = swap;
    group.insert(group.begin(), shuffle);
    rewriter_.replace(group, LayerKind::kShuffle, back, {turned}, shuffle->name);
    return true;
  }

  // [batch, 1, steps, width] as [batch, steps, 1, width]; [steps, width] as [1, steps, 1, width].
  Tensor* beside_steps(const Layer* before, Tensor* factor) {
    const Shape& s = factor->shape;
    if (s.size() == 1) return factor;
    const Shape wanted = s.size() == 2 ? Shape{1, s[0], 1, s[1]} : Shape{s[0], s[2], 1, s[3]};
    return rewriter_.reshaped_before(before, factor->name + " (steps)", factor, wanted, *before);
  }

  Rewriter rewriter_;
};

}  // namespace

int rotation_fusion(Graph& graph, Records* records) {
  return Fusion(graph, records).run();
}

}  // namespace camshaft::passes
