// SPDX-License-Identifier: Apache-2.0
// CropFusion: what is cut off a convolution's result at the borders of space (causal convolutions
// pad both sides and drop the end) is padded less; what is cut off a deconvolution's is padding,
// which means just that. Bit exact.
#include <algorithm>

#include "passes/match.h"
#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

struct Crop {
  Ints pre, post;  // of every dimension
};

std::optional<Crop> crop_of(const Layer& layer) {
  const Tensor* x = layer.inputs.empty() ? nullptr : layer.inputs[0];
  Crop crop;
  if (layer.kind == LayerKind::kPad) {
    const auto& a = layer.as<PadAttrs>();
    if (a.pre.empty() || input_at(layer, 1)) return std::nullopt;
    for (size_t k = 0; k < a.pre.size(); ++k) {
      if (a.pre[k] > 0 || a.post[k] > 0) return std::nullopt;
      crop.pre.push_back(-a.pre[k]);
      crop.post.push_back(-a.post[k]);
    }
    return crop;
  }
  if (layer.kind != LayerKind::kSlice || layer.inputs.size() > 1 || !x->has_rank)
    return std::nullopt;
  const auto& a = layer.as<SliceAttrs>();
  SymbolTable& symbols = x->graph->symbols();
  for (size_t k = 0; k < x->shape.size(); ++k) {
    const Dim rest = symbols.sub(symbols.sub(x->shape[k], a.start[k]), a.size[k]);
    if (a.step[k] != 1 || !a.start[k].is_known() || !rest.is_known()) return std::nullopt;
    crop.pre.push_back(a.start[k].extent());
    crop.post.push_back(rest.extent());
  }
  return crop;
}

// A window that does not fit is an error, a slice of nothing is none.
bool leaves_nothing(const Layer& cut) {
  const Shape& shape = cut.outputs[0]->shape;
  return std::find(shape.begin(), shape.end(), Dim(0)) != shape.end();
}

// Why the padding cannot change that way; empty: `a` has changed.
Refusal take(const Layer& window, const Crop& crop, ConvolutionAttrs& a) {
  if (crop.pre.size() != a.kernel.size() + 2 || crop.pre[0] || crop.post[0] || crop.pre[1] ||
      crop.post[1])
    return {Reason::kAttribute, "it cuts the batch or channels"};
  if (a.padding_mode != PaddingMode::kExplicit || !a.output_shape.empty())
    return {Reason::kExtent, "the padding depends on the input's extents"};
  const bool forward = window.kind == LayerKind::kConvolution;
  for (size_t k = 0; k < a.kernel.size(); ++k) {
    const int64_t stride = k < a.stride.size() ? a.stride[k] : 1,
                  dilation = k < a.dilation.size() ? a.dilation[k] : 1;
    int64_t &pre = a.pre_padding[k], &post = a.post_padding[k];
    pre += forward ? -stride * crop.pre[k + 2] : crop.pre[k + 2];
    post += forward ? -stride * crop.post[k + 2] : crop.post[k + 2];
    if (pre < 0 || post < 0) return {Reason::kAttribute, "more than the padding's part is cut off"};
    if (!forward && std::max(pre, post) > (a.kernel[k] - 1) * dilation)
      return {Reason::kAttribute, "whole windows are cut off"};
  }
  return {};
}

}  // namespace

int crop_fusion(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "CropFusion", records);
  for (size_t k = 0; k < graph.layers().size(); ++k) {
    Layer* window = graph.layers()[k].get();
    if (window->kind != LayerKind::kConvolution && window->kind != LayerKind::kDeconvolution)
      continue;
    Layer* cut = only_reader(window->outputs[0]);
    const std::optional<Crop> crop = cut ? crop_of(*cut) : std::nullopt;
    if (!crop || leaves_nothing(*cut) || !window->as<ConvolutionAttrs>().epilogue.empty()) continue;
    rewriter.running(*cut);
    ConvolutionAttrs attrs = window->as<ConvolutionAttrs>();
    if (Refusal refusal = take(*window, *crop, attrs)) {
      rewriter.declined(*cut, std::move(refusal).behind("not fused with " + window->name + ": "));
      continue;
    }
    rewriter.fused(*window, *cut);
    rewriter.set_attrs(window, attrs);
    rewriter.absorb(window, cut);
  }
  return rewriter.edits();
}

}  // namespace camshaft::passes
