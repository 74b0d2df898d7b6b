// SPDX-License-Identifier: Apache-2.0
// HorizontalMerge: convolutions (or products) that read the same tensor with equal attributes
// become one with the weights stacked, `a || b`; the old results are slices of its own along the
// channels. Quantized ones too: factors and biases of their epilogues are stacked like the weights.
// Products with weights of few bits: queries, keys and values whose rows are made integers once.
// Bit exact per output channel.
#include <algorithm>
#include <cstring>

#include "passes/match.h"
#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

// Above this many output channels each alone fills the vector units: merging gains little and
// slices may cost a copy. Weights of few bits are another matter (docs/performance.md): of a token
// they take so little time that its rows count, which are made integers for every product.
constexpr int64_t kEnoughChannels = 128;

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

// Of a layer with so many output channels.
Attrs with_channels(const Layer& layer, int64_t channels) {
  Attrs attrs = layer.attrs;
  if (auto* bits = std::get_if<LowBitMultiplyAttrs>(&attrs)) bits->columns = channels;
  return attrs;
}

// Why two mergeable readers of one tensor stay two; empty: they merge.
std::string refusal(const Layer& a, const Layer& b) {
  if (a.kind != b.kind) return "different kinds";
  if (!equal(with_channels(a, 1), with_channels(b, 1))) return "different attributes or epilogues";
  Shape left = a.inputs[1]->shape, right = b.inputs[1]->shape;
  left[channel_dim(a)] = right[channel_dim(b)] = 1;
  if (left != right) return "weights of different extents";
  if (a.inputs[1]->type != b.inputs[1]->type) return "weights of different types";
  if (makes_codes(a) && a.inputs.size() != b.inputs.size()) return "one has a bias";
  if (!is_low_bit(a) && channels_of(a) >= kEnoughChannels && channels_of(b) >= kEnoughChannels)
    return "each has enough output channels of its own";
  return "";
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

void merge(Rewriter& rewriter, std::vector<Layer*> siblings) {
  sort_by_position(siblings);
  Layer* first = siblings[0];
  sort_for_concat(siblings);
  const size_t axis = output_axis(*first);
  const bool codes = makes_codes(*first);
  std::string name, weights_name;
  std::vector<float> bias;
  std::vector<const Layer*> provenance(siblings.begin(), siblings.end());
  int64_t total = 0;
  bool has_bias = false;
  for (const Layer* layer : siblings) {
    name += (name.empty() ? "" : " || ") + layer->name;
    weights_name += (weights_name.empty() ? "" : " || ") + layer->inputs[1]->name;
    if (!codes) {
      const std::vector<float> own = bias_of(*layer);
      bias.insert(bias.end(), own.begin(), own.end());
    }
    has_bias = has_bias || input_at(*layer, 2);
    total += channels_of(*layer);
  }
  rewriter.applied(Action::kMerge, *first, "Merging layers: " + name);
  Extents extents = extents_of(first->inputs[1]->shape);
  extents[channel_dim(*first)] = total;
  std::vector<Tensor*> inputs = {
      first->inputs[0], rewriter.add_constant(weights_name, first->inputs[1]->type, extents,
                                              stacked_weights(siblings))};
  const int64_t count[] = {total};
  if (codes)
    for (size_t k = 2; k < first->inputs.size(); ++k)
      inputs.push_back(stacked_input(rewriter, siblings, k, total));
  if (has_bias && !codes)
    inputs.push_back(rewriter.add_float_constant(name + " bias", count, bias));
  Shape shape = first->outputs[0]->shape;
  shape[axis] = total;
  Tensor* merged = rewriter.add_tensor(name, first->outputs[0]->type, shape);
  Layer* made = rewriter.insert_before(first, first->kind, name, with_channels(*first, total),
                                       inputs, {merged}, provenance);
  int64_t start = 0;
  for (Layer* layer : siblings) {
    const SliceAttrs slice = slice_along(layer->outputs[0]->shape, axis, start);
    start += channels_of(*layer);
    Layer* group[] = {layer};
    rewriter.replace(group, LayerKind::kSlice, slice, {merged}, layer->name + " (slice)");
  }
  rewriter.rename(made, name);
}

}  // namespace

int horizontal_merge(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "HorizontalMerge", records);
  for (size_t k = 0; k < graph.layers().size(); ++k) {
    Layer* first = graph.layers()[k].get();
    if (!can_merge(*first)) continue;
    std::vector<Layer*> siblings = {first};
    for (Layer* other : first->inputs[0]->consumers) {
      if (other == first || other->inputs[0] != first->inputs[0] || !can_merge(*other)) continue;
      if (std::find(siblings.begin(), siblings.end(), other) != siblings.end()) continue;
      if (graph.position(other) < k) continue;  // has declined already
      const std::string reason = refusal(*first, *other);
      if (reason.empty())
        siblings.push_back(other);
      else if (first->kind == other->kind)
        rewriter.declined(*other, "not merged with " + first->name + ": " + reason);
    }
    if (siblings.size() < 2) continue;
    rewriter.running(*first);
    merge(rewriter, std::move(siblings));
  }
  return rewriter.edits();
}

}  // namespace camshaft::passes
