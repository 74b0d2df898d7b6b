// SPDX-License-Identifier: Apache-2.0
#include "passes/match.h"

#include <algorithm>
#include <cstring>

#include "ir/kind_traits.h"
#include "passes/attention_parts.h"

namespace camshaft::passes {

using namespace ir;

Tensor* input_at(const Layer& layer, size_t k) {
  return k < layer.inputs.size() ? layer.inputs[k] : nullptr;
}

Layer* only_reader(const Tensor* tensor) {
  if (!tensor || tensor->consumers.empty() || tensor->graph->is_output(tensor)) return nullptr;
  Layer* first = tensor->consumers[0];
  const bool alone = std::all_of(tensor->consumers.begin(), tensor->consumers.end(),
                                 [&](const Layer* l) { return l == first; });
  return alone ? first : nullptr;
}

Layer* producer_of_kind(const Tensor* tensor, LayerKind kind) {
  return tensor && tensor->producer && tensor->producer->kind == kind ? tensor->producer : nullptr;
}

bool is_copy(const Layer& layer) {
  return layer.kind == LayerKind::kUnary && layer.as<PointOpAttrs>().op == PointOp::kIdentity;
}

const Tensor* without_copies(const Tensor* tensor) {
  while (tensor && tensor->producer && is_copy(*tensor->producer))
    tensor = tensor->producer->inputs[0];
  return tensor;
}

bool is_product(const Layer& layer) {
  return layer.kind == LayerKind::kConvolution || layer.kind == LayerKind::kDeconvolution ||
         layer.kind == LayerKind::kMatrixMultiply;
}

bool is_float_product(const Layer& layer) {
  if (layer.kind != LayerKind::kMatrixMultiply) return false;
  for (const Tensor* t : {layer.inputs[0], layer.inputs[1], layer.outputs[0]})
    if (t->type != DataType::kFloat || !t->has_rank || t->shape.size() < 2) return false;
  return true;
}

bool is_bare_product(const Layer& layer) {
  return is_float_product(layer) && !input_at(layer, 2) &&
         layer.as<MatrixMultiplyAttrs>().epilogue.empty();
}

bool makes_codes(const Layer& layer) {
  return is_product(layer) && is_quantized(layer.inputs[0]->type);
}

namespace {

// Where a kernel takes no epilogue, one would leave the layer to the reference kernel.
Refusal pooling_epilogue_refusal(const Layer& layer) {
  const auto& a = layer.as<PoolingAttrs>();
  const Tensor& x = *layer.inputs[0];
  if (gives_indices(layer)) return {Reason::kAttribute, "its indices are wanted"};
  if (a.type == PoolingType::kLp) return {Reason::kUnsupported, "Lp pooling"};
  if (is_quantized(x.type)) return {Reason::kType, "it pools codes"};
  if (!a.global && x.has_rank && x.shape.size() >= kVolumeRank)
    return {Reason::kUnsupported, "it pools volumes"};
  return {};
}

}  // namespace

Refusal epilogue_refusal(const Layer& layer) {
  if (weighs_values(layer)) return {Reason::kOtherPass, "AttentionFusion takes it as it is"};
  return layer.kind == LayerKind::kPooling ? pooling_epilogue_refusal(layer) : Refusal();
}

bool takes_epilogue(const Layer& layer) {
  return epilogue_of(layer) && !epilogue_refusal(layer);
}

bool is_added(const Layer& layer, const Layer& beside) {
  return layer.onnx_nodes.empty() && !beside.onnx_nodes.empty();
}

bool is_float_constant(const Tensor* tensor) {
  return tensor && tensor->is_constant() && tensor->type == DataType::kFloat;
}

std::optional<float> scalar_value(const Tensor* tensor) {
  if (!is_float_constant(tensor) || tensor->values<float>().size() != 1) return std::nullopt;
  return tensor->values<float>()[0];
}

SliceAttrs slice_along(const Shape& shape, size_t axis, int64_t first) {
  SliceAttrs attrs;
  attrs.size = shape;
  attrs.start = Shape(shape.size(), Dim(0));
  attrs.start[axis] = first;
  attrs.step = Ints(shape.size(), 1);
  return attrs;
}

Ints inverse(const Ints& order) {
  Ints result(order.size());
  for (size_t k = 0; k < order.size(); ++k) result[order[k]] = static_cast<int64_t>(k);
  return result;
}

Ints pure_order(const Layer* layer) {
  if (!layer || layer->kind != LayerKind::kShuffle || input_at(*layer, 1)) return {};
  const auto& a = layer->as<ShuffleAttrs>();
  return a.has_reshape || !a.second_transpose.empty() ? Ints() : a.first_transpose;
}

bool is_reshape(const Layer* layer) {
  if (!layer || layer->kind != LayerKind::kShuffle || input_at(*layer, 1)) return false;
  const auto& a = layer->as<ShuffleAttrs>();
  return a.has_reshape && is_identity_order(a.first_transpose) &&
         is_identity_order(a.second_transpose) && layer->inputs[0]->has_rank;
}

ShuffleAttrs reshape_to(const Shape& shape) {
  ShuffleAttrs attrs;
  attrs.has_reshape = true;
  attrs.reshape = shape;
  return attrs;
}

Shape with_last_two_swapped(Shape shape) {
  if (shape.size() >= 2) std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
  return shape;
}

Shape padded(const Shape& shape, size_t rank) {
  Shape result(rank > shape.size() ? rank - shape.size() : 0, Dim(1));
  for (const Dim dim : shape) result.push_back(dim);
  return result;
}

bool is_identity_order(const Ints& order) {
  for (size_t k = 0; k < order.size(); ++k)
    if (order[k] != static_cast<int64_t>(k)) return false;
  return true;
}

std::optional<Ints> unit_reshape(const Shape& from, const Shape& to) {
  Ints source;
  size_t at = 0;
  for (Dim extent : to) {
    while (at < from.size() && from[at] == Dim(1) && extent != Dim(1)) ++at;
    const bool match = at < from.size() && from[at] == extent;
    if (!match && extent != Dim(1)) return std::nullopt;
    source.push_back(match ? static_cast<int64_t>(at++) : -1);
  }
  for (; at < from.size(); ++at)
    if (from[at] != Dim(1)) return std::nullopt;
  return source;
}

std::optional<std::vector<ReshapeGroup>> reshape_groups(const Shape& from, const Shape& to,
                                                        SymbolTable& symbols) {
  std::vector<ReshapeGroup> groups;
  size_t a = 0, b = 0;
  while (a < from.size() || b < to.size()) {
    ReshapeGroup group{a, a, b, b};
    Dim left = 1, right = 1;
    const auto take = [&](size_t& at, const Shape& shape, Dim& count) {
      if (at == shape.size()) return false;
      count = symbols.mul(count, shape[at++]);
      return true;
    };
    // An extent of 1 that the other side does not have at this place is a group of its own.
    const bool lone_left =
        a < from.size() && from[a] == Dim(1) && (b == to.size() || to[b] != Dim(1));
    const bool lone_right =
        b < to.size() && to[b] == Dim(1) && (a == from.size() || from[a] != Dim(1));
    if (!lone_right && !take(a, from, left)) return std::nullopt;
    if (!lone_left && !take(b, to, right)) return std::nullopt;
    while (!lone_left && !lone_right && left != right) {
      const bool known = left.is_known() && right.is_known();
      const bool grow_left = known ? left.extent() < right.extent()
                                   : right != Dim(1) && symbols.mod(right, left) == Dim(0);
      if (!(grow_left ? take(a, from, left) : take(b, to, right))) return std::nullopt;
    }
    group.from_end = a;
    group.to_end = b;
    groups.push_back(group);
  }
  return groups;
}

void sort_by_position(std::vector<Layer*>& layers) {
  if (layers.empty()) return;
  const Graph& graph = *layers[0]->outputs[0]->graph;
  std::sort(layers.begin(), layers.end(),
            [&](const Layer* a, const Layer* b) { return graph.position(a) < graph.position(b); });
}

std::vector<float> values_along(const Tensor* tensor, const Shape& shape, size_t axis,
                                int64_t extent) {
  if (!is_float_constant(tensor) || tensor->shape.size() > shape.size()) return {};
  const std::span<const float> values = tensor->values<float>();
  if (values.size() == 1) return std::vector<float>(static_cast<size_t>(extent), values[0]);
  const size_t missing = shape.size() - tensor->shape.size();
  for (size_t k = 0; k < tensor->shape.size(); ++k)
    if (tensor->shape[k] != Dim(k + missing == axis ? extent : 1)) return {};
  return {values.begin(), values.end()};
}

Ints integers_of(const Tensor* constant) {
  Ints values;
  if (!constant || !constant->is_constant()) return values;
  if (constant->type == DataType::kInt64)
    for (int64_t v : constant->values<int64_t>()) values.push_back(v);
  if (constant->type == DataType::kInt32)
    for (int32_t v : constant->values<int32_t>()) values.push_back(v);
  return values;
}

std::vector<double> numbers_of(const Tensor* constant) {
  std::vector<double> values;
  for (int64_t v : integers_of(constant)) values.push_back(static_cast<double>(v));
  if (is_float_constant(constant))
    for (float v : constant->values<float>()) values.push_back(v);
  if (constant && constant->is_constant() && constant->type == DataType::kBool)
    for (uint8_t v : constant->values<uint8_t>()) values.push_back(v != 0);
  return values;
}

std::optional<double> uniform_value(const Tensor* tensor) {
  if (!tensor) return std::nullopt;
  if (const Layer* fill = producer_of_kind(tensor, LayerKind::kFill))
    return fill->as<FillAttrs>().value;
  if (const Layer* layer = tensor->producer) {
    return always_moves(layer->kind) ? uniform_value(layer->inputs[0]) : std::nullopt;
  }
  if (!tensor->is_constant()) return std::nullopt;
  const std::span<const std::byte> bytes = tensor->constant->view;
  const size_t size = bits_of(tensor->type) / 8;
  // Every element is the one before it.
  if (size == 0 || bytes.size() < size ||
      std::memcmp(bytes.data(), bytes.data() + size, bytes.size() - size) != 0)
    return std::nullopt;
  const auto first = [&]<class T>(T value) {
    std::memcpy(&value, bytes.data(), sizeof(T));
    return static_cast<double>(value);
  };
  switch (tensor->type) {
    case DataType::kFloat:
      return first(0.0f);
    case DataType::kInt64:
      return first(int64_t{0});
    case DataType::kInt32:
      return first(int32_t{0});
    case DataType::kBool:
      return first(uint8_t{0}) != 0;
    default:
      return std::nullopt;
  }
}

bool looks_up_rows(const Layer& layer) {
  if (layer.kind != LayerKind::kGather) return false;
  const auto& a = layer.as<GatherAttrs>();
  const Tensor* table = layer.inputs[0];
  return a.mode == GatherMode::kDefault && a.axis == 0 && is_float_constant(table) &&
         table->shape.size() == 2;
}

bool pads_images(const ConvolutionAttrs& attrs) {
  const auto is_some = [](int64_t pad) { return pad != 0; };
  return attrs.padding_mode != PaddingMode::kExplicit ||
         std::any_of(attrs.pre_padding.begin(), attrs.pre_padding.end(), is_some) ||
         std::any_of(attrs.post_padding.begin(), attrs.post_padding.end(), is_some);
}

bool moves_nothing(const Shape& shape, const Ints& order) {
  int64_t last = -1;
  for (int64_t axis : order) {
    if (shape[axis] == Dim(1)) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

}  // namespace camshaft::passes
