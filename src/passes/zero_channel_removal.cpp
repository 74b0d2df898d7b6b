// SPDX-License-Identifier: Apache-2.0
// ZeroChannelRemoval: channels between two convolutions (or two matrix products) that carry
// nothing. A channel is dead where the second layer has only zeros for it; it is zero where the
// first layer's filter and bias are zero (a bias a ReLU cuts off, too) and what stands between
// keeps zeros. Both go: the filter, its bias, the channel and the weights that read it.
//
//   y = Convolution(x, w[64, …]); r = Activation(y) {relu}; z = Convolution(r, v[…, 64, …])
//   → the same with 64 - n channels
//
// A channel that is constant but not zero goes too, where the second layer reads no padding: its
// part of every sum becomes bias. Exact but for that bias, whose sum is rounded once more. Between
// the layers may stand activations, max pooling and Q/DQ of one scale, each with one reader.
#include "passes/passes.h"

#include <algorithm>
#include <cmath>

#include "ir/kind_traits.h"
#include "ir/sparsity.h"
#include "passes/match.h"

namespace camshaft::passes {

using namespace ir;

namespace {

// A layer with constant weights as [outer][channels][inner] along its output or input channels.
struct ChannelSide {
  Layer* layer = nullptr;
  size_t axis = 0;  // of the weights
  ChannelAxis view;
};

bool is_plain_product(const Layer& layer) {
  if (layer.kind == LayerKind::kMatrixMultiply)
    return !layer.as<MatrixMultiplyAttrs>().transpose_a &&
           layer.as<MatrixMultiplyAttrs>().epilogue.empty() && layer.inputs[1] &&
           layer.inputs[1]->shape.size() == 2;
  return layer.kind == LayerKind::kConvolution && layer.as<ConvolutionAttrs>().groups == 1 &&
         layer.as<ConvolutionAttrs>().epilogue.empty();
}

bool has_usable_weights(const Layer& layer) {
  const Tensor* weights = input_at(layer, 1);
  return weights && weights->is_constant() && weights->facts.scale.size() <= 1 &&
         (weights->type == DataType::kFloat || weights->type == DataType::kInt8) &&
         weights->facts.quantized_axis < 0;
}

std::optional<ChannelSide> side_of(Layer* layer, bool outputs) {
  if (!is_plain_product(*layer) || !has_usable_weights(*layer)) return std::nullopt;
  const bool outputs_first =
      layer->kind == LayerKind::kConvolution || layer->as<MatrixMultiplyAttrs>().transpose_b;
  ChannelSide side{layer, outputs == outputs_first ? size_t{0} : size_t{1}, {}};
  side.view = channel_axis(extents_of(layer->inputs[1]->shape), side.axis);
  return side;
}

double weight_at(const Tensor& weights, int64_t index) {
  return weights.type == DataType::kFloat ? weights.values<float>()[static_cast<size_t>(index)]
                                          : weights.values<int8_t>()[static_cast<size_t>(index)];
}

// Which channels of a side have only zeros for weights.
std::vector<bool> zero_channels(const ChannelSide& side) {
  const Tensor& weights = *side.layer->inputs[1];
  const auto& [outer, channels, inner] = side.view;
  std::vector<bool> zero(static_cast<size_t>(channels), true);
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t i = 0; i < inner && zero[static_cast<size_t>(c)]; ++i)
        zero[static_cast<size_t>(c)] = weight_at(weights, (o * channels + c) * inner + i) == 0;
  return zero;
}

// The float bias per output channel; empty: it is something else.
std::vector<float> bias_of(const ChannelSide& side) {
  const Tensor* bias = input_at(*side.layer, 2);
  const size_t channels = static_cast<size_t>(side.view.channels);
  if (!bias) return std::vector<float>(channels, 0.0F);
  if (!is_float_constant(bias)) return {};
  const auto values = bias->values<float>();
  if (values.size() != channels || bias->shape.back().extent() != side.view.channels) return {};
  return {values.begin(), values.end()};
}

// What an activation makes of a constant; empty: it is not known here.
std::optional<float> value_behind(const Layer& layer, float value) {
  if (layer.kind == LayerKind::kPooling) return value;
  if (layer.kind != LayerKind::kActivation) return std::nullopt;
  const auto& attrs = layer.as<PointOpAttrs>();
  switch (attrs.op) {
    case PointOp::kRelu:
      return std::max(value, 0.0F);
    case PointOp::kLeakyRelu:
    case PointOp::kTanh:
    case PointOp::kSilu:
    case PointOp::kGelu:
    case PointOp::kGeluTanh:
    case PointOp::kHardSwish:
      return value == 0 ? std::optional<float>(0.0F) : std::nullopt;
    default:
      return std::nullopt;
  }
}

bool is_between(const Layer& layer) {
  switch (layer.kind) {
    case LayerKind::kActivation:
      return layer.inputs.size() == 1;
    case LayerKind::kPooling:
      return moves_elements(layer);
    case LayerKind::kQuantize:
    case LayerKind::kDequantize:
      return std::all_of(layer.inputs.begin() + 1, layer.inputs.end(), [](const Tensor* tensor) {
        return tensor && tensor->is_constant() && tensor->shape.empty();
      });
    default:
      return false;
  }
}

// Two layers and what stands between them.
struct Pair {
  ChannelSide first, second;
  std::vector<Layer*> between;
};

std::optional<Pair> find_pair(Layer* layer) {
  const std::optional<ChannelSide> first = side_of(layer, true);
  if (!first) return std::nullopt;
  Pair pair{*first, {}, {}};
  Tensor* tensor = layer->outputs[0];
  while (tensor->has_rank) {
    Layer* reader = sole_consumer(tensor);
    if (!reader || reader->inputs[0] != tensor || tensor->facts.quantized_axis >= 0) break;
    if (is_between(*reader)) {
      pair.between.push_back(reader);
      tensor = reader->outputs[0];
      continue;
    }
    const std::optional<ChannelSide> second = side_of(reader, false);
    if (!second || reader->kind != layer->kind || second->view.channels != first->view.channels)
      break;
    pair.second = *second;
    return pair;
  }
  return std::nullopt;
}

bool pads_its_input(const Layer& layer) {
  return layer.kind == LayerKind::kConvolution && pads_images(layer.as<ConvolutionAttrs>());
}

// The constant each channel of zero filters has when the second layer reads it; empty: none known.
std::vector<std::optional<float>> constants_of(const Pair& pair) {
  const std::vector<float> bias = bias_of(pair.first);
  const std::vector<bool> zero = zero_channels(pair.first);
  std::vector<std::optional<float>> values(zero.size());
  for (size_t c = 0; c < zero.size() && !bias.empty(); ++c) {
    if (!zero[c] || !std::isfinite(bias[c])) continue;
    values[c] = bias[c];
    for (const Layer* layer : pair.between)
      if (values[c]) values[c] = value_behind(*layer, *values[c]);
  }
  return values;
}

Tensor* keep_channels(Rewriter& rewriter, const Tensor& tensor, size_t axis,
                      const std::vector<bool>& keep) {
  Extents extents = extents_of(tensor.shape);
  const ChannelAxis view = channel_axis(extents, axis);
  const size_t run = static_cast<size_t>(view.inner) * bits_of(tensor.type) / 8;
  std::vector<std::byte> bytes;
  const auto from = tensor.constant->view;
  for (size_t at = 0, row = 0; at < from.size(); at += run, ++row)
    if (keep[row % keep.size()])
      bytes.insert(bytes.end(), from.begin() + static_cast<ptrdiff_t>(at),
                   from.begin() + static_cast<ptrdiff_t>(at + run));
  extents[axis] = std::count(keep.begin(), keep.end(), true);
  Tensor* made = rewriter.add_constant(tensor.name + " (channels kept)", tensor.type, extents,
                                       std::move(bytes));
  rewriter.set_facts(made, tensor.facts);
  return made;
}

// Constants that are not zero, times their weights, per output channel of the second layer.
std::vector<double> shifts_of(const Pair& pair, const std::vector<bool>& keep,
                              const std::vector<std::optional<float>>& constants) {
  const Tensor& weights = *pair.second.layer->inputs[1];
  const Extents extents = extents_of(weights.shape);
  const size_t output_axis = 1 - pair.second.axis;
  const ChannelAxis outputs = channel_axis(extents, output_axis);
  const auto& [outer, channels, inner] = pair.second.view;
  std::vector<double> shifts(static_cast<size_t>(outputs.channels), 0.0);
  for (int64_t index = 0; index < element_count(extents); ++index) {
    const auto c = static_cast<size_t>(index / inner % channels);
    const auto o = static_cast<size_t>(index / outputs.inner % outputs.channels);
    if (!keep[c] && constants[c]) shifts[o] += *constants[c] * weight_at(weights, index);
  }
  return shifts;
}

void add_shifts(Rewriter& rewriter, Layer* layer, const std::vector<float>& bias,
                const std::vector<double>& shifts) {
  if (std::all_of(shifts.begin(), shifts.end(), [](double s) { return s == 0; })) return;
  std::vector<float> values;
  for (size_t k = 0; k < shifts.size(); ++k)
    values.push_back(static_cast<float>(bias[k] + shifts[k]));
  const int64_t count[] = {static_cast<int64_t>(values.size())};
  Tensor* made =
      rewriter.add_float_constant(layer->name + " bias + constant channels", count, values);
  if (layer->inputs.size() < 3)
    rewriter.append_input(layer, made);
  else
    rewriter.set_input(layer, 2, made);
}

void shrink(Rewriter& rewriter, const Pair& pair, const std::vector<bool>& keep) {
  Layer *first = pair.first.layer, *second = pair.second.layer;
  const auto count = static_cast<int64_t>(std::count(keep.begin(), keep.end(), true));
  rewriter.set_input(first, 1, keep_channels(rewriter, *first->inputs[1], pair.first.axis, keep));
  if (const Tensor* bias = input_at(*first, 2))
    rewriter.set_input(first, 2, keep_channels(rewriter, *bias, bias->shape.size() - 1, keep));
  rewriter.set_input(second, 1,
                     keep_channels(rewriter, *second->inputs[1], pair.second.axis, keep));
  const bool is_conv = first->kind == LayerKind::kConvolution;
  const auto set_extent = [&](Tensor* tensor) {
    Shape shape = tensor->shape;
    shape[is_conv ? 1 : shape.size() - 1] = count;
    rewriter.set_shape(tensor, std::move(shape));
  };
  set_extent(first->outputs[0]);
  for (Layer* layer : pair.between) set_extent(layer->outputs[0]);
}

bool remove_from(Rewriter& rewriter, const Pair& pair) {
  const std::vector<bool> dead = zero_channels(pair.second);
  const std::vector<std::optional<float>> constants = constants_of(pair);
  const std::vector<float> second_bias = [&] {
    const std::optional<ChannelSide> outputs = side_of(pair.second.layer, true);
    return bias_of(*outputs);
  }();
  const bool takes_shifts = !pads_its_input(*pair.second.layer) && !second_bias.empty() &&
                            pair.second.layer->inputs[1]->type == DataType::kFloat;
  std::vector<bool> keep(dead.size());
  for (size_t c = 0; c < keep.size(); ++c)
    keep[c] = !dead[c] && !(constants[c] && (*constants[c] == 0 || takes_shifts));
  const auto kept = std::count(keep.begin(), keep.end(), true);
  const Tensor* bias = input_at(*pair.first.layer, 2);
  const bool bias_fits =
      !bias || (bias->is_constant() && !bias->shape.empty() &&
                element_count(extents_of(bias->shape)) == static_cast<int64_t>(keep.size()));
  if (kept == 0 || kept == static_cast<ptrdiff_t>(keep.size()) || !bias_fits) return false;
  rewriter.running(*pair.first.layer);
  const std::vector<double> shifts = shifts_of(pair, keep, constants);
  const auto count = keep.size();
  shrink(rewriter, pair, keep);
  if (!second_bias.empty()) add_shifts(rewriter, pair.second.layer, second_bias, shifts);
  rewriter.applied(Action::kRemove, *pair.first.layer,
                   fmt::format("{} of {} channels before {} carry nothing and are gone",
                               count - static_cast<size_t>(kept), count, pair.second.layer->name));
  return true;
}

}  // namespace

int zero_channel_removal(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "ZeroChannelRemoval", records);
  for (size_t k = 0; k < graph.layers().size(); ++k)
    if (const std::optional<Pair> pair = find_pair(graph.layers()[k].get()))
      remove_from(rewriter, *pair);
  return rewriter.edits();
}

}  // namespace camshaft::passes
