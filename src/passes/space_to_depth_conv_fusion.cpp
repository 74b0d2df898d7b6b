// SPDX-License-Identifier: Apache-2.0
// SpaceToDepthConvFusion: slices x[:, :, i::s, j::s] for every i and j, concatenated and convolved
// with stride 1 ("focus"), are a convolution of x itself with stride s and a window s times as
// wide. The same products in another order.
#include <algorithm>

#include "passes/match.h"
#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

struct Focus {
  Tensor* x = nullptr;
  int64_t step = 1, channels = 0;
  std::vector<std::pair<int64_t, int64_t>> offsets;  // (i, j) of each part
  std::vector<Layer*> layers;
};

std::optional<Focus> focus_of(Layer* concat) {
  Focus focus;
  if (concat->as<AxisAttrs>().axis != 1) return std::nullopt;
  for (const Tensor* input : concat->inputs) {
    Layer* slice = producer_of_kind(input, LayerKind::kSlice);
    if (!slice || slice->inputs.size() > 1 || slice->inputs[0]->shape.size() != 4)
      return std::nullopt;
    const auto& a = slice->as<SliceAttrs>();
    if (focus.x && slice->inputs[0] != focus.x) return std::nullopt;
    focus.x = slice->inputs[0];
    focus.step = a.step[2];
    const Shape& x = focus.x->shape;
    const bool whole = a.size[0] == x[0] && a.size[1] == x[1] && a.step[0] == 1 && a.step[1] == 1 &&
                       x[1].is_known();
    if (!whole || a.step[2] < 2 || a.step[3] != a.step[2] || !a.start[2].is_known() ||
        !a.start[3].is_known())
      return std::nullopt;
    // Every part has the whole number of steps: x is divided evenly.
    for (size_t axis : {size_t{2}, size_t{3}})
      if (!x[axis].is_known() || x[axis].extent() != a.size[axis].extent() * focus.step)
        return std::nullopt;
    focus.channels = x[1].extent();
    focus.offsets.emplace_back(a.start[2].extent(), a.start[3].extent());
    focus.layers.push_back(slice);
  }
  auto sorted = focus.offsets;
  std::sort(sorted.begin(), sorted.end());
  const bool distinct = std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
  if (!distinct || static_cast<int64_t>(sorted.size()) != focus.step * focus.step)
    return std::nullopt;
  return focus;
}

bool can_widen(const Layer& conv) {
  const auto& a = conv.as<ConvolutionAttrs>();
  const auto is_one = [](int64_t v) { return v == 1; };
  return a.groups == 1 && a.kernel.size() == 2 && a.padding_mode == PaddingMode::kExplicit &&
         is_float_constant(conv.inputs[1]) &&
         std::all_of(a.dilation.begin(), a.dilation.end(), is_one);
}

// w[oc][part * C + c][kh][kw] at window position (kh * s + i, kw * s + j) of channel c.
std::vector<float> widened_weights(const Layer& conv, const Focus& focus) {
  const auto& a = conv.as<ConvolutionAttrs>();
  const int64_t s = focus.step, kh = a.kernel[0], kw = a.kernel[1], channels = focus.channels;
  const int64_t out = conv.inputs[1]->shape[0].extent(), parts = s * s;
  const auto w = conv.inputs[1]->values<float>();
  std::vector<float> wide(w.size());
  for (int64_t oc = 0; oc < out; ++oc)
    for (int64_t part = 0; part < parts; ++part)
      for (int64_t c = 0; c < channels; ++c)
        for (int64_t y = 0; y < kh; ++y)
          for (int64_t x = 0; x < kw; ++x) {
            const auto [i, j] = focus.offsets[part];
            wide[((oc * channels + c) * kh * s + y * s + i) * kw * s + x * s + j] =
                w[((oc * parts * channels + part * channels + c) * kh + y) * kw + x];
          }
  return wide;
}

}  // namespace

int space_to_depth_conv_fusion(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "SpaceToDepthConvFusion", records);
  for (size_t k = 0; k < graph.layers().size(); ++k) {
    Layer* conv = graph.layers()[k].get();
    if (conv->kind != LayerKind::kConvolution) continue;
    Layer* concat = producer_of_kind(conv->inputs[0], LayerKind::kConcatenation);
    if (!concat || only_reader(concat->outputs[0]) != conv) continue;
    const std::optional<Focus> focus = focus_of(concat);
    if (!focus) continue;
    rewriter.running(*conv);
    if (!can_widen(*conv)) {
      rewriter.declined(
          *conv, {Reason::kAttribute,
                  "the convolution behind the slices is grouped or dilated, or pads by mode"});
      continue;
    }
    ConvolutionAttrs attrs = conv->as<ConvolutionAttrs>();
    const int64_t s = focus->step;
    const std::vector<float> weights = widened_weights(*conv, *focus);
    for (Ints* list : {&attrs.kernel, &attrs.stride, &attrs.pre_padding, &attrs.post_padding})
      for (int64_t& value : *list) value *= s;
    const int64_t extents[] = {conv->inputs[1]->shape[0].extent(), focus->channels, attrs.kernel[0],
                               attrs.kernel[1]};
    std::vector<Tensor*> inputs = conv->inputs;
    inputs[0] = focus->x;
    inputs[1] = rewriter.add_float_constant(conv->inputs[1]->name + " (widened)", extents, weights);
    rewriter.applied(Action::kFuse, *conv,
                     "Fusing " + concat->name + " and its slices with " + conv->name);
    std::vector<Layer*> group = focus->layers;
    group.push_back(concat);
    group.push_back(conv);
    rewriter.replace(group, LayerKind::kConvolution, attrs, inputs);
  }
  return rewriter.edits();
}

}  // namespace camshaft::passes
