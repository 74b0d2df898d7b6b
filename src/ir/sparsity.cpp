// SPDX-License-Identifier: Apache-2.0
#include "ir/sparsity.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>

#include "ir/extents.h"

namespace camshaft::ir {
namespace {

constexpr int64_t kFour = 4, kEight = 8;

// Values as floats that are zero where the stored ones are; 16-bit floats keep sign and order.
float value_at(DataType type, const std::byte* values, int64_t index) {
  switch (type) {
    case DataType::kFloat: {
      float value;
      std::memcpy(&value, values + index * 4, sizeof value);
      return value;
    }
    case DataType::kBFloat16: {
      uint16_t bits;
      std::memcpy(&bits, values + index * 2, sizeof bits);
      const uint32_t wide = static_cast<uint32_t>(bits) << 16;
      float value;
      std::memcpy(&value, &wide, sizeof value);
      return value;
    }
    case DataType::kHalf: {
      uint16_t bits;
      std::memcpy(&bits, values + index * 2, sizeof bits);
      const int exponent = bits >> 10 & 31;
      const float fraction = static_cast<float>(bits & 1023);
      const float sign = bits >> 15 != 0 ? -1.0F : 1.0F;
      if (exponent == 31)
        return fraction == 0 ? sign * std::numeric_limits<float>::infinity()
                             : std::numeric_limits<float>::quiet_NaN();
      return sign * (exponent == 0 ? std::ldexp(fraction, -24)
                                   : std::ldexp(fraction + 1024, exponent - 25));
    }
    default:
      return static_cast<float>(static_cast<int8_t>(values[index]));
  }
}

bool has_pattern(DataType type) {
  return type == DataType::kFloat || type == DataType::kHalf || type == DataType::kBFloat16 ||
         type == DataType::kInt8;
}

// Calls visit(first, outer, channel, count) for every group of `size` neighbouring channels: the
// index of its first weight, where that is, and how many there are, `axis.inner` apart.
template <class Visit>
void for_each_group(const ChannelAxis& axis, int64_t size, const Visit& visit) {
  for (int64_t outer = 0; outer < axis.outer; ++outer)
    for (int64_t channel = 0; channel < axis.channels; channel += size) {
      const int64_t count = std::min(size, axis.channels - channel);
      const int64_t first = (outer * axis.channels + channel) * axis.inner;
      for (int64_t inner = 0; inner < axis.inner; ++inner)
        visit(first + inner, outer, channel, count);
    }
}

// Positions of the two to keep, of `count` scores. The first two where there are no scores.
void choose_two(const float* scores, int64_t count, bool* keep) {
  int64_t best = -1, second = -1;
  for (int64_t k = 0; k < count; ++k) {
    if (best < 0 || scores[k] >= scores[best]) {
      second = best;
      best = k;
    } else if (second < 0 || scores[k] >= scores[second]) {
      second = k;
    }
  }
  for (int64_t k = 0; k < count; ++k) keep[k] = k == best || k == second;
}

size_t width_of(DataType type) {
  return bits_of(type) / 8;
}

}  // namespace

ChannelAxis channel_axis(std::span<const int64_t> extents, size_t axis) {
  ChannelAxis result;
  for (size_t d = 0; d < extents.size(); ++d)
    (d < axis ? result.outer : d == axis ? result.channels : result.inner) *= extents[d];
  return result;
}

namespace {

// Of values of one type: `is_zero(index)`.
template <class IsZero>
void count_zeros(const ChannelAxis& axis, const IsZero& is_zero, SparsityCount& count) {
  const auto nonzeros = [&](int64_t first, int64_t many) {
    int64_t found = 0;
    for (int64_t k = 0; k < many; ++k) found += is_zero(first + k * axis.inner) ? 0 : 1;
    return found;
  };
  for_each_group(axis, kEight, [&](int64_t first, int64_t, int64_t, int64_t many) {
    const int64_t low = nonzeros(first, std::min(many, kFour));
    const int64_t high = many > kFour ? nonzeros(first + kFour * axis.inner, many - kFour) : 0;
    count.nonzeros += low + high;
    count.groups += many > kFour ? 2 : 1;
    count.full_groups += (low > 2) + (high > 2);
    count.empty_groups += (low == 0) + (many > kFour && high == 0);
    count.excess += std::max<int64_t>(low - 2, 0) + std::max<int64_t>(high - 2, 0);
    ++count.eights;
    count.full_eights += low + high > kFour;
  });
}

}  // namespace

std::optional<SparsityCount> count_sparsity(DataType type, std::span<const std::byte> values,
                                            const ChannelAxis& axis) {
  SparsityCount count;
  count.weights = axis.outer * axis.channels * axis.inner;
  if (!has_pattern(type) || static_cast<size_t>(count.weights) * width_of(type) != values.size())
    return std::nullopt;
  const std::byte* data = values.data();
  if (type == DataType::kInt8)
    count_zeros(
        axis, [data](int64_t k) { return data[k] == std::byte{0}; }, count);
  else
    count_zeros(
        axis, [=](int64_t k) { return value_at(type, data, k) == 0; }, count);
  return count;
}

struct SparsityMemo {
  DataType type;
  ChannelAxis axis;
  SparsityCount count;
};

namespace {

std::mutex memo_mutex;  // contexts may build from one constant at the same time

// What the constant's memo holds, or what `count` finds.
template <class Count>
std::optional<SparsityCount> remembered(const ConstantData& constant, DataType type,
                                        const ChannelAxis& axis, const Count& count) {
  {
    const std::lock_guard lock(memo_mutex);
    const SparsityMemo* memo = constant.sparsity.get();
    if (memo && memo->type == type && memo->axis == axis) return memo->count;
  }
  const std::optional<SparsityCount> found = count();
  if (!found) return std::nullopt;
  const std::lock_guard lock(memo_mutex);
  constant.sparsity = std::make_shared<const SparsityMemo>(SparsityMemo{type, axis, *found});
  return found;
}

}  // namespace

std::optional<SparsityCount> sparsity_of(const ConstantData& constant, DataType type,
                                         const ChannelAxis& axis) {
  return remembered(constant, type, axis,
                    [&] { return count_sparsity(type, constant.view, axis); });
}

std::optional<SparsityCount> sparsity_of(const ConstantData& constant, const LowBits& weights) {
  const ChannelAxis axis{weights.columns, weights.depth, 1};
  return remembered(constant, DataType::kUInt8, axis, [&]() -> std::optional<SparsityCount> {
    const RecordLayout layout(weights);
    if (constant.view.size() != static_cast<size_t>(layout.bytes())) return std::nullopt;
    const RecordReader records(layout, constant.view.data());
    SparsityCount count;
    count.weights = layout.columns * layout.depth;
    const auto is_zero = [&](int64_t index) {
      const int64_t column = index / layout.depth, k = index % layout.depth, b = k / layout.block;
      return static_cast<float>(records.code(column, b, k % layout.block)) ==
             records.zero(column, b);
    };
    count_zeros(axis, is_zero, count);
    return count;
  });
}

std::optional<int64_t> first_not_finite(DataType type, std::span<const std::byte> values) {
  if (!is_floating(type) || !has_pattern(type)) return std::nullopt;
  const auto count = static_cast<int64_t>(values.size() / width_of(type));
  for (int64_t k = 0; k < count; ++k)
    if (!std::isfinite(value_at(type, values.data(), k))) return k;
  return std::nullopt;
}

int64_t prune_2_4(DataType type, std::span<std::byte> values, const ChannelAxis& axis,
                  KeepRule rule, std::span<const float> norms) {
  int64_t pruned = 0;
  const size_t width = width_of(type);
  const int64_t groups = static_cast<int64_t>(norms.size()) / std::max<int64_t>(axis.channels, 1);
  for_each_group(axis, kFour, [&](int64_t first, int64_t outer, int64_t channel, int64_t many) {
    bool keep[kFour] = {true, true, false, false};
    float scores[kFour];
    for (int64_t k = 0; k < many; ++k) {
      scores[k] = std::fabs(value_at(type, values.data(), first + k * axis.inner));
      if (rule == KeepRule::kActivation)
        scores[k] *=
            norms[static_cast<size_t>(outer * groups / axis.outer * axis.channels + channel + k)];
    }
    if (rule != KeepRule::kFirstTwo) choose_two(scores, many, keep);
    for (int64_t k = 0; k < many; ++k) {
      if (keep[k]) continue;
      const int64_t index = first + k * axis.inner;
      pruned += value_at(type, values.data(), index) != 0;
      std::memset(values.data() + static_cast<size_t>(index) * width, 0, width);
    }
  });
  return pruned;
}

int64_t prune_2_4(const LowBits& weights, std::span<std::byte> bytes) {
  const RecordLayout layout(weights);
  const RecordReader records(layout, bytes.data());
  int64_t pruned = 0;
  for (int64_t column = 0; column < layout.columns; ++column)
    for (int64_t k = 0; k < layout.depth; ++k) {
      const int64_t b = k / layout.block, in = k % layout.block;
      const float zero = records.zero(column, b);
      const int code = records.code(column, b, in), wanted = static_cast<int>(zero);
      const bool is_code =
          static_cast<float>(wanted) == zero && wanted >= 0 && wanted < 1 << layout.bits;
      if (k % kFour < 2 || !is_code || code == wanted) continue;
      const int64_t bit = in * layout.bits;
      std::byte& byte =
          bytes[static_cast<size_t>(layout.at(column, b) + RecordLayout::kHeader + bit / 8)];
      byte ^= static_cast<std::byte>((code ^ wanted) << (bit % 8));
      ++pruned;
    }
  return pruned;
}

namespace {

bool is_code_layer(const Layer& layer) {
  return layer.kind == LayerKind::kQuantize || layer.kind == LayerKind::kDequantize;
}

// Of a Shuffle without a reshape: the axis of its input that becomes `axis` of its output.
std::optional<size_t> axis_before(const Layer& layer, size_t axis) {
  if (layer.kind != LayerKind::kShuffle) return std::nullopt;
  const auto& attrs = layer.as<ShuffleAttrs>();
  if (attrs.has_reshape) return std::nullopt;
  for (const Ints* order : {&attrs.second_transpose, &attrs.first_transpose}) {
    if (order->empty()) continue;
    if (axis >= order->size()) return std::nullopt;
    axis = static_cast<size_t>((*order)[axis]);
  }
  return axis;
}

bool passes_weights_on(const Layer& layer) {
  return is_code_layer(layer) || layer.kind == LayerKind::kShuffle;
}

// What reads `tensor`, perhaps behind Q/DQ and transposes, otherwise than as the same weights.
Refusal other_use(const Tensor& tensor, const ProductWeights& weights) {
  if (tensor.graph->is_output(&tensor))
    return {Reason::kReader, "the network gives its weights out"};
  for (const Layer* reader : tensor.consumers) {
    if (passes_weights_on(*reader) && reader->inputs[0] == &tensor) {
      if (Refusal use = other_use(*reader->outputs[0], weights)) return use;
      continue;
    }
    const ProductWeights read = find_product_weights(*reader);
    const bool only_weights =
        std::count(reader->inputs.begin(), reader->inputs.end(), &tensor) == 1 &&
        reader->inputs.size() > 1 && reader->inputs[1] == &tensor;
    if (read.constant != weights.constant || read.axis != weights.axis || !only_weights)
      return {Reason::kReader, "its weights are shared with " + reader->name};
  }
  return {};
}

// Of codes that stand for 0 otherwise than by 0.
bool has_zero_point(const Tensor& constant) {
  if (!is_quantized(constant.type)) return false;
  return std::any_of(constant.consumers.begin(), constant.consumers.end(), [](const Layer* reader) {
    const bool dequantizes = reader->kind == LayerKind::kDequantize && reader->inputs.size() > 2;
    const Tensor* zero_point = dequantizes ? reader->inputs[2] : nullptr;
    if (!zero_point) return false;
    if (!zero_point->is_constant()) return true;
    const auto bytes = zero_point->constant->view;
    return std::any_of(bytes.begin(), bytes.end(), [](std::byte b) { return b != std::byte{0}; });
  });
}

}  // namespace

namespace {

ChannelAxis axis_of(const ProductWeights& weights) {
  return channel_axis(extents_of(weights.constant->shape), weights.axis);
}

Refusal refuse_pruning_codes(const ProductWeights& weights) {
  const Tensor& records = *weights.constant;
  if (weights.codes->zero == DataType::kFloat)
    return {Reason::kGrid, "its zero points are no codes"};
  if (records.consumers.size() > 1 || records.graph->is_output(&records))
    return {Reason::kReader, "something else reads its weights"};
  return {};
}

}  // namespace

std::optional<SparsityCount> sparsity_of(const ProductWeights& weights) {
  if (!weights.constant) return std::nullopt;
  const ConstantData& constant = *weights.constant->constant;
  return weights.codes ? sparsity_of(constant, *weights.codes)
                       : sparsity_of(constant, weights.constant->type, axis_of(weights));
}

PrunedWeights pruned_2_4(const ProductWeights& weights, KeepRule rule) {
  const auto view = weights.constant->constant->view;
  PrunedWeights result{{view.begin(), view.end()}};
  result.pruned = weights.codes
                      ? prune_2_4(*weights.codes, result.bytes)
                      : prune_2_4(weights.constant->type, result.bytes, axis_of(weights), rule);
  return result;
}

Refusal refuse_pruning(const ProductWeights& weights) {
  if (!weights.constant) return weights.refusal;
  if (weights.codes) return refuse_pruning_codes(weights);
  const Tensor& constant = *weights.constant;
  const int64_t channels = axis_of(weights).channels;
  const auto count = sparsity_of(weights);
  if (!count) return {Reason::kType, fmt::format("weights of type {}", type_name(constant.type))};
  if (!count->has_groups())
    return {Reason::kShape,
            fmt::format("{} input channel{} per filter", channels, channels == 1 ? "" : "s")};
  if (has_zero_point(constant)) return {Reason::kGrid, "its weights are codes with a zero point"};
  if (const auto at = first_not_finite(constant.type, constant.constant->view))
    return {Reason::kValue, fmt::format("weight {} is NaN or infinite: a zero would hide it", *at)};
  return other_use(constant, weights);
}

ProductWeights find_product_weights(const Layer& layer) {
  ProductWeights found;
  if (layer.kind == LayerKind::kLowBitMultiply) {
    found.codes = &layer.as<LowBits>();
    if (layer.inputs[1]->is_constant())
      found.constant = layer.inputs[1];
    else
      found.refusal = {Reason::kConstant, "its weights are not constant"};
    return found;
  }
  const bool is_conv = layer.kind == LayerKind::kConvolution;
  if ((!is_conv && layer.kind != LayerKind::kMatrixMultiply) || layer.inputs.size() < 2 ||
      !layer.inputs[1]) {
    found.refusal = {Reason::kUnsupported, "not a convolution or matrix product"};
    return found;
  }
  Tensor* tensor = layer.inputs[1];
  const size_t rank = tensor->shape.size();
  if (!is_conv && (!tensor->has_rank || rank != 2)) {
    found.refusal = {Reason::kShape, "its right factor is not a matrix"};
    return found;
  }
  found.axis = is_conv || layer.as<MatrixMultiplyAttrs>().transpose_b ? 1 : 0;
  while (!tensor->is_constant()) {
    const Layer* maker = tensor->producer;
    const std::optional<size_t> axis = !maker                  ? std::nullopt
                                       : is_code_layer(*maker) ? std::optional<size_t>(found.axis)
                                                               : axis_before(*maker, found.axis);
    if (!axis) {
      found.refusal = {Reason::kConstant, "its weights are not constant"};
      return found;
    }
    found.axis = *axis;
    tensor = maker->inputs[0];
  }
  found.constant = tensor;
  return found;
}

}  // namespace camshaft::ir
