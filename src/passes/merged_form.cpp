// SPDX-License-Identifier: Apache-2.0
#include "passes/merged_form.h"

#include <algorithm>

#include "passes/match.h"

namespace camshaft::passes {

using namespace ir;

namespace {

bool is_low_bit(const Layer& layer) {
  return layer.kind == LayerKind::kLowBitMultiply;
}
bool is_matrix_product(const Layer& layer) {
  return layer.kind == LayerKind::kMatrixMultiply || is_low_bit(layer);
}

// The dimension of the weights that counts output channels.
size_t channel_dim(const Layer& layer) {
  const auto* matrix = std::get_if<MatrixMultiplyAttrs>(&layer.attrs);
  return matrix && !matrix->transpose_b ? 1 : 0;
}
int64_t channels_of(const Layer& layer) {
  return layer.inputs[1]->shape[channel_dim(layer)].extent();
}
size_t output_axis(const Layer& layer) {
  return is_matrix_product(layer) ? layer.outputs[0]->shape.size() - 1 : 1;
}

// One number per channel; empty: the bias is something else. Absent: zeros.
std::vector<float> bias_of(const Layer& layer) {
  const Tensor* bias = input_at(layer, 2);
  if (!bias) return std::vector<float>(static_cast<size_t>(channels_of(layer)), 0.0f);
  return is_matrix_product(layer)
             ? values_along(bias, layer.outputs[0]->shape, output_axis(layer), channels_of(layer))
             : values_along(bias, bias->shape, 0, channels_of(layer));
}

// A constant with one element per output channel: the bias of an accumulator, a factor of an
// epilogue.
bool is_per_channel(const Layer& layer, const Tensor* tensor) {
  return tensor->is_constant() && !tensor->shape.empty() && all_known(tensor->shape) &&
         tensor->shape[0] == Dim(channels_of(layer)) &&
         element_count(extents_of(tensor->shape)) == channels_of(layer);
}

bool can_merge_codes(const Layer& layer) {
  if (!makes_codes(layer) || !layer.inputs[1]->is_constant() || !all_known(layer.inputs[1]->shape))
    return false;
  for (size_t k = 2; k < layer.inputs.size(); ++k)
    if (layer.inputs[k] && !is_per_channel(layer, layer.inputs[k])) return false;
  return true;
}

// Of a layer with so many output channels.
Attrs with_channels(const Layer& layer, int64_t channels) {
  Attrs attrs = layer.attrs;
  if (auto* bits = std::get_if<LowBitMultiplyAttrs>(&attrs)) bits->columns = channels;
  return attrs;
}

void append_bytes(std::vector<std::byte>& bytes, const Tensor& tensor, size_t first, size_t count) {
  const auto source = tensor.constant->view.subspan(first, count);
  bytes.insert(bytes.end(), source.begin(), source.end());
}

std::vector<std::byte> stacked_weights(const std::vector<Layer*>& siblings) {
  const Layer& first = *siblings[0];
  std::vector<std::byte> stacked;
  if (channel_dim(first) == 0) {
    for (const Layer* layer : siblings)
      append_bytes(stacked, *layer->inputs[1], 0, layer->inputs[1]->constant->view.size());
    return stacked;
  }
  const size_t element = bits_of(first.inputs[1]->type) / 8;
  const auto row_bytes = [&](const Layer& l) {
    return static_cast<size_t>(channels_of(l)) * element;
  };
  const size_t rows = first.inputs[1]->constant->view.size() / row_bytes(first);
  for (size_t row = 0; row < rows; ++row)
    for (const Layer* layer : siblings)
      append_bytes(stacked, *layer->inputs[1], row * row_bytes(*layer), row_bytes(*layer));
  return stacked;
}

// Input k of quantized siblings; an absent bias counts as zeros.
Tensor* stacked_input(Rewriter& rewriter, const std::vector<Layer*>& siblings, size_t k,
                      int64_t total) {
  const Tensor* model = nullptr;
  std::string name;
  for (const Layer* layer : siblings)
    if (const Tensor* own = input_at(*layer, k)) {
      if (!model) model = own;
      name += (name.empty() ? "" : " || ") + own->name;
    }
  if (!model) return nullptr;
  std::vector<std::byte> stacked;
  for (const Layer* layer : siblings) {
    const Tensor* own = input_at(*layer, k);
    if (own)
      append_bytes(stacked, *own, 0, own->constant->view.size());
    else
      stacked.resize(stacked.size() + bytes_for(model->type, channels_of(*layer)));
  }
  Extents extents = extents_of(model->shape);
  extents[0] = total;
  return rewriter.add_constant(name, model->type, extents, std::move(stacked));
}

// Where `tensor` goes into a concatenation, through shuffles alone; null: somewhere else.
std::pair<const Layer*, size_t> place_in_concat(const Tensor* tensor) {
  for (const Layer* reader = only_reader(tensor); reader; reader = only_reader(tensor)) {
    if (reader->kind == LayerKind::kConcatenation)
      return {reader,
              static_cast<size_t>(std::find(reader->inputs.begin(), reader->inputs.end(), tensor) -
                                  reader->inputs.begin())};
    if (reader->kind != LayerKind::kShuffle) break;
    tensor = reader->outputs[0];
  }
  return {nullptr, 0};
}

// Results that are put together again are stacked in that order, so that the slices and the
// concatenation cancel.
void sort_for_concat(std::vector<Layer*>& siblings) {
  const Layer* concat = place_in_concat(siblings[0]->outputs[0]).first;
  for (const Layer* layer : siblings)
    if (!concat || place_in_concat(layer->outputs[0]).first != concat) return;
  std::sort(siblings.begin(), siblings.end(), [](const Layer* a, const Layer* b) {
    return place_in_concat(a->outputs[0]).second < place_in_concat(b->outputs[0]).second;
  });
}

// Its bias, for all siblings: of floats.
Tensor* stacked_bias(Rewriter& rewriter, const std::vector<Layer*>& siblings,
                     const std::string& name) {
  std::vector<float> bias;
  bool any = false;
  for (const Layer* layer : siblings) {
    const std::vector<float> own = bias_of(*layer);
    bias.insert(bias.end(), own.begin(), own.end());
    any = any || input_at(*layer, 2);
  }
  const int64_t count[] = {static_cast<int64_t>(bias.size())};
  return any ? rewriter.add_float_constant(name, count, bias) : nullptr;
}

std::string names_of(const std::vector<Layer*>& siblings) {
  std::string names;
  for (const Layer* layer : siblings) names += (names.empty() ? "" : " || ") + layer->name;
  return names;
}

}  // namespace

int64_t output_channels(const Layer& layer) {
  return channels_of(layer);
}

bool can_merge(const Layer& layer) {
  if (layer.kind != LayerKind::kConvolution && !is_matrix_product(layer)) return false;
  if (!layer.inputs[0]->has_rank || !layer.outputs[0]->has_rank) return false;
  const Tensor& weights = *layer.inputs[1];
  if (is_low_bit(layer))
    return weights.is_constant() && weights.shape.size() == 3 &&
           weights.shape[0] == Dim(layer.as<LowBitMultiplyAttrs>().columns) &&
           layer.inputs.size() <= 3 && !bias_of(layer).empty();
  const bool floats =
      is_float_constant(&weights) && layer.inputs.size() <= 3 && !bias_of(layer).empty();
  if (!floats && !can_merge_codes(layer)) return false;
  return is_matrix_product(layer) ? weights.shape.size() == 2 && layer.inputs[0]->shape.size() >= 2
                                  : layer.as<ConvolutionAttrs>().groups == 1;
}

Refusal merge_refusal(const Layer& a, const Layer& b) {
  if (a.kind != b.kind) return {Reason::kAttribute, "different kinds"};
  if (!equal(with_channels(a, 1), with_channels(b, 1)))
    return {Reason::kAttribute, "different attributes or epilogues"};
  Shape left = a.inputs[1]->shape, right = b.inputs[1]->shape;
  left[channel_dim(a)] = right[channel_dim(b)] = 1;
  if (left != right) return {Reason::kShape, "weights of different extents"};
  if (a.inputs[1]->type != b.inputs[1]->type) return {Reason::kType, "weights of different types"};
  if (makes_codes(a) && a.inputs.size() != b.inputs.size())
    return {Reason::kAttribute, "one has a bias"};
  return {};
}

MergedForm add_merged_form(Rewriter& rewriter, std::vector<Layer*> siblings) {
  sort_by_position(siblings);
  Layer* first = siblings[0];
  sort_for_concat(siblings);
  const std::string name = names_of(siblings);
  const bool codes = makes_codes(*first);
  int64_t total = 0;
  std::string weights_name;
  for (const Layer* layer : siblings) {
    weights_name += (weights_name.empty() ? "" : " || ") + layer->inputs[1]->name;
    total += channels_of(*layer);
  }
  Extents extents = extents_of(first->inputs[1]->shape);
  extents[channel_dim(*first)] = total;
  std::vector<Tensor*> inputs = {
      first->inputs[0], rewriter.add_constant(weights_name, first->inputs[1]->type, extents,
                                              stacked_weights(siblings))};
  if (codes)
    for (size_t k = 2; k < first->inputs.size(); ++k)
      inputs.push_back(stacked_input(rewriter, siblings, k, total));
  else if (Tensor* bias = stacked_bias(rewriter, siblings, name + " bias"))
    inputs.push_back(bias);
  Shape shape = first->outputs[0]->shape;
  shape[output_axis(*first)] = total;
  Tensor* merged = rewriter.add_tensor(name, first->outputs[0]->type, shape);
  Layer* product = rewriter.insert_before(first, first->kind, name, with_channels(*first, total),
                                          inputs, {merged}, {siblings.begin(), siblings.end()});
  return {std::move(siblings), product};
}

void take_merged_form(Rewriter& rewriter, const MergedForm& form) {
  const std::string name = names_of(form.siblings);
  const size_t axis = output_axis(*form.product);
  int64_t start = 0;
  for (Layer* layer : form.siblings) {
    const SliceAttrs slice = slice_along(layer->outputs[0]->shape, axis, start);
    start += channels_of(*layer);
    Layer* group[] = {layer};
    rewriter.replace(group, LayerKind::kSlice, slice, {form.product->outputs[0]},
                     layer->name + " (slice)");
  }
  rewriter.rename(form.product, name);
}

void drop_merged_form(Rewriter& rewriter, const MergedForm& form) {
  rewriter.remove(form.product);
}

}  // namespace camshaft::passes
