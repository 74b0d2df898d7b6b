// SPDX-License-Identifier: Apache-2.0
// ConvBranchFusion: convolutions of one tensor whose results are added are one convolution, if the
// window of one covers the others': its weights take theirs. So is x * s + b per channel, or x,
// beside it. (RepVGG, MobileOne, FastViT, YOLOv6 and v7 as they are trained.) A few ulp.
//
//   conv3x3(x) + conv1x1(x) + batch_norm(x)  ─▶  conv3x3(x)
#include <algorithm>

#include "passes/affine.h"
#include "passes/match.h"
#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

// A summand as a convolution of x: element [oc][tap] of weights within a group; bias per channel.
struct ConvBranch {
  Layer* layer = nullptr;  // null: x itself
  Tensor* x = nullptr;
  int64_t out_channels = 0, in_channels = 0, groups = 1;
  Ints kernel, first;  // extents of the window; the offset of its first tap from the output's place
  Ints stride;
  std::vector<double> weights, bias;

  int64_t taps() const { return element_count(kernel); }
  int64_t in_per_group() const { return in_channels / groups; }
};

std::optional<ConvBranch> branch_of_convolution(Layer* layer) {
  const auto& a = layer->as<ConvolutionAttrs>();
  const Tensor *weights = layer->inputs[1], *bias = input_at(*layer, 2);
  if (!is_float_constant(weights) || layer->inputs.size() > 3 || !a.epilogue.empty() ||
      a.padding_mode != PaddingMode::kExplicit || (bias && !is_float_constant(bias)))
    return std::nullopt;
  ConvBranch b;
  b.layer = layer;
  b.x = layer->inputs[0];
  b.groups = a.groups;
  b.out_channels = weights->shape[0].extent();
  b.in_channels = weights->shape[1].extent() * a.groups;
  b.kernel = a.kernel;
  b.stride = a.stride.empty() ? Ints(a.kernel.size(), 1) : a.stride;
  for (size_t k = 0; k < a.kernel.size(); ++k) {
    if (a.kernel[k] > 1 && k < a.dilation.size() && a.dilation[k] != 1) return std::nullopt;
    b.first.push_back(-a.pre_padding[k]);
  }
  const auto values = weights->values<float>();
  b.weights.assign(values.begin(), values.end());
  b.bias.assign(b.out_channels, 0.0);
  if (bias) {
    const std::vector<float> each = values_along(bias, bias->shape, 0, b.out_channels);
    if (each.empty()) return std::nullopt;
    b.bias.assign(each.begin(), each.end());
  }
  return b;
}

// x * scale + shift of each channel: a window of one tap, as many groups as channels.
ConvBranch affine_branch(Layer* layer, Tensor* x, const Affine& affine, size_t spatial_rank) {
  ConvBranch b;
  b.layer = layer;
  b.x = x;
  b.groups = b.out_channels = b.in_channels = static_cast<int64_t>(affine.scale.size());
  b.kernel = b.stride = Ints(spatial_rank, 1);
  b.first = Ints(spatial_rank, 0);
  b.weights.assign(affine.scale.begin(), affine.scale.end());
  b.bias.assign(affine.shift.begin(), affine.shift.end());
  return b;
}

std::optional<ConvBranch> convolution_behind(const Tensor* sum, Layer* reader) {
  Layer* layer = sum->producer;
  if (!layer || layer->kind != LayerKind::kConvolution || only_reader(sum) != reader)
    return std::nullopt;
  return branch_of_convolution(layer);
}

// What `tensor`, a summand of `reader`, makes of the x of `host`.
std::optional<ConvBranch> guest_of(Tensor* tensor, Layer* reader, const ConvBranch& host) {
  const std::vector<float> ones(host.in_channels, 1.0f), zeros(host.in_channels, 0.0f);
  if (tensor == host.x) return affine_branch(nullptr, tensor, {ones, zeros}, host.kernel.size());
  Layer* layer = tensor->producer;
  if (!layer || only_reader(tensor) != reader) return std::nullopt;
  if (layer->kind == LayerKind::kConvolution) return branch_of_convolution(layer);
  if (std::find(layer->inputs.begin(), layer->inputs.end(), host.x) == layer->inputs.end())
    return std::nullopt;
  const std::optional<Affine> affine = affine_of(*layer, host.x, 1, host.in_channels);
  if (!affine) return std::nullopt;
  return affine_branch(layer, host.x, *affine, host.kernel.size());
}

// Why the weights of `host` cannot take those of `guest`; empty: they can.
Refusal refuse_branch(const ConvBranch& host, const ConvBranch& guest) {
  if (host.x != guest.x) return {Reason::kReader, "they do not read the same tensor"};
  if (host.out_channels != guest.out_channels || host.in_channels != guest.in_channels ||
      guest.groups % host.groups != 0)
    return {Reason::kAttribute, "their groups of channels differ"};
  if (host.stride != guest.stride) return {Reason::kAttribute, "their strides differ"};
  for (size_t k = 0; k < host.kernel.size(); ++k)
    if (guest.first[k] < host.first[k] ||
        guest.first[k] + guest.kernel[k] > host.first[k] + host.kernel[k])
      return {Reason::kAttribute, "neither window covers the other"};
  return {};
}

// Where tap `tap` of the guest lies among those of the host.
int64_t place_of_tap(const ConvBranch& host, const ConvBranch& guest, int64_t tap) {
  int64_t place = 0, scale = 1;
  for (size_t k = host.kernel.size(); k-- > 0;) {
    place += scale * (tap % guest.kernel[k] + guest.first[k] - host.first[k]);
    tap /= guest.kernel[k];
    scale *= host.kernel[k];
  }
  return place;
}

void add_branch(ConvBranch& host, const ConvBranch& guest) {
  for (int64_t oc = 0; oc < host.out_channels; ++oc) {
    host.bias[oc] += guest.bias[oc];
    const int64_t guest_first = oc / (guest.out_channels / guest.groups) * guest.in_per_group(),
                  host_first = oc / (host.out_channels / host.groups) * host.in_per_group();
    for (int64_t ic = 0; ic < guest.in_per_group(); ++ic) {
      const int64_t host_ic = guest_first + ic - host_first;
      for (int64_t tap = 0; tap < guest.taps(); ++tap)
        host.weights[(oc * host.in_per_group() + host_ic) * host.taps() +
                     place_of_tap(host, guest, tap)] +=
            guest.weights[(oc * guest.in_per_group() + ic) * guest.taps() + tap];
    }
  }
}

// x, weights and bias of the convolution that stands for all.
std::vector<Tensor*> stored_inputs(Rewriter& rewriter, const ConvBranch& host,
                                   const std::string& suffix) {
  const Layer& layer = *host.layer;
  const std::vector<float> weights(host.weights.begin(), host.weights.end()),
      bias(host.bias.begin(), host.bias.end());
  const Tensor *old = layer.inputs[1], *old_bias = input_at(layer, 2);
  std::vector<Tensor*> inputs = {
      host.x,
      rewriter.add_float_constant(old->name + " + " + suffix, extents_of(old->shape), weights)};
  if (old_bias || std::any_of(bias.begin(), bias.end(), [](float b) { return b != 0; })) {
    const int64_t count[] = {host.out_channels};
    const std::string name = (old_bias ? old_bias->name : layer.name + " bias") + " + " + suffix;
    inputs.push_back(rewriter.add_float_constant(name, count, bias));
  }
  return inputs;
}

bool adds_maps(const Layer& layer) {
  return layer.kind == LayerKind::kElementWise && layer.as<PointOpAttrs>().op == PointOp::kAdd &&
         layer.outputs[0] && layer.outputs[0]->type == DataType::kFloat &&
         same_shape(layer.inputs[0], layer.inputs[1]) &&
         same_shape(layer.inputs[0], layer.outputs[0]);
}

// Before weights are looked at: most sums are of a block and what it began with.
bool reads_or_is(const Tensor* tensor, const Tensor* x) {
  const Layer* maker = tensor->producer;
  return tensor == x ||
         (maker && std::find(maker->inputs.begin(), maker->inputs.end(), x) != maker->inputs.end());
}

// The convolution at input `slot` takes what the other input is.
bool fuse_branches(Rewriter& rewriter, Layer* sum, size_t slot) {
  const Layer* maker = producer_of_kind(sum->inputs[slot], LayerKind::kConvolution);
  if (!maker || !reads_or_is(sum->inputs[1 - slot], maker->inputs[0])) return false;
  std::optional<ConvBranch> host = convolution_behind(sum->inputs[slot], sum);
  if (!host) return false;
  const std::optional<ConvBranch> guest = guest_of(sum->inputs[1 - slot], sum, *host);
  if (!guest || guest->x != host->x) return false;
  rewriter.running(*sum);
  if (Refusal refusal = refuse_branch(*host, *guest)) {
    // Two convolutions are told of once.
    const bool may_be_host = guest->layer && guest->layer->kind == LayerKind::kConvolution;
    if (guest->layer && (slot == 0 || !may_be_host))
      rewriter.declined(*sum, std::move(refusal).behind(host->layer->name + " not fused with " +
                                                        guest->layer->name + ": "));
    return false;
  }
  add_branch(*host, *guest);
  rewriter.fused(*host->layer, guest->layer ? *guest->layer : *sum);
  std::vector<Layer*> group = {host->layer};
  if (guest->layer) group.push_back(guest->layer);
  sort_by_position(group);
  group.push_back(sum);
  const std::string suffix = guest->layer ? guest->layer->name : guest->x->name;
  rewriter.replace(group, LayerKind::kConvolution, host->layer->attrs,
                   stored_inputs(rewriter, *host, suffix));
  return true;
}

}  // namespace

int conv_branch_fusion(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "ConvBranchFusion", records);
  for (size_t k = 0; k < graph.layers().size();) {
    Layer* sum = graph.layers()[k].get();
    const Tensor* result = sum->outputs.empty() ? nullptr : sum->outputs[0];
    if (adds_maps(*sum) && (fuse_branches(rewriter, sum, 1) || fuse_branches(rewriter, sum, 0)))
      k = graph.position(result->producer);
    else
      ++k;
  }
  return rewriter.edits();
}

}  // namespace camshaft::passes
