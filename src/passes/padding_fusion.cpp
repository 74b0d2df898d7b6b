// SPDX-License-Identifier: Apache-2.0
// PaddingFusion: a Pad of zeros over spatial dimensions becomes the padding of the convolution or
// pooling behind it. For maximum pooling zeros must not win where -inf would not: all values are
// known to be ≥ 0, or -inf is padded. Bit exact.
#include <algorithm>
#include <cmath>

#include "ir/kind_traits.h"
#include "passes/match.h"
#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

// Why `pad` cannot be taken over at all; empty: it can.
Refusal refuse_pad(const Layer& pad) {
  const auto& a = pad.as<PadAttrs>();
  if (a.pre.size() < 3 || input_at(pad, 1))
    return {Reason::kExtent, "the amounts are known only at run time"};
  if (a.mode != PadMode::kConstant) return {Reason::kAttribute, "it does not pad a constant"};
  if (a.pre[0] || a.post[0] || a.pre[1] || a.post[1])
    return {Reason::kAttribute, "it pads batch or channels"};
  const auto is_negative = [](int64_t amount) { return amount < 0; };
  if (std::any_of(a.pre.begin(), a.pre.end(), is_negative) ||
      std::any_of(a.post.begin(), a.post.end(), is_negative))
    return {Reason::kAttribute, "it crops"};
  return {};
}

bool has_padding(const Ints& pre, const Ints& post) {
  const auto is_set = [](int64_t amount) { return amount != 0; };
  return std::any_of(pre.begin(), pre.end(), is_set) ||
         std::any_of(post.begin(), post.end(), is_set);
}

Refusal refuse_pooling(const PadAttrs& pad, const PoolingAttrs& pooling, const Tensor& x) {
  if (pooling.global) return {Reason::kAttribute, "the pooling is global"};
  if (pooling.padding_mode != PaddingMode::kExplicit)
    return {Reason::kExtent, "the pooling's padding mode depends on its input"};
  for (size_t k = 0; k < pooling.kernel.size(); ++k)
    if (pad.pre[k + 2] + pooling.pre_padding[k] >= pooling.kernel[k] ||
        pad.post[k + 2] + pooling.post_padding[k] >= pooling.kernel[k])
      return {Reason::kValue, "a window would lie in the padding alone"};
  if (pooling.type == PoolingType::kMax) {
    const bool lowest = pad.value <= -std::numeric_limits<float>::max();
    if (!lowest && (pad.value != 0 || x.facts.minimum < 0))
      return {Reason::kValue, "the padded value could be a maximum"};
    return {};
  }
  if (pooling.type != PoolingType::kAverage || pad.value != 0)
    return {Reason::kValue, "it does not pad zeros"};
  if (!pooling.count_includes_padding && has_padding(pooling.pre_padding, pooling.post_padding))
    return {Reason::kValue, "the pooling's own padding is not counted, the Pad's is"};
  return {};
}

template <class A>
void add_padding(A& attrs, const PadAttrs& pad) {
  for (size_t k = 0; k < attrs.kernel.size(); ++k) {
    attrs.pre_padding[k] += pad.pre[k + 2];
    attrs.post_padding[k] += pad.post[k + 2];
  }
}

Refusal fuse(const Layer& pad, const Layer& window, Attrs& attrs) {
  const auto& a = pad.as<PadAttrs>();
  if (Refusal refusal = refuse_pad(pad)) return refusal;
  if (window.kind == LayerKind::kConvolution) {
    auto& conv = std::get<ConvolutionAttrs>(attrs);
    // On codes zero is the zero point (which is 0 for floats).
    if (a.value != static_cast<float>(conv.zero_point))
      return {Reason::kValue, "it does not pad zeros"};
    if (conv.padding_mode != PaddingMode::kExplicit)
      return {Reason::kExtent, "the convolution's padding mode depends on its input"};
    add_padding(conv, a);
    return {};
  }
  auto& pooling = std::get<PoolingAttrs>(attrs);
  if (gives_indices(window)) return {Reason::kAttribute, "the pooling gives indices"};
  if (Refusal refusal = refuse_pooling(a, pooling, *pad.inputs[0])) return refusal;
  add_padding(pooling, a);
  pooling.count_includes_padding = pooling.type == PoolingType::kAverage;
  return {};
}

}  // namespace

int padding_fusion(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "PaddingFusion", records);
  for (size_t k = 0; k < graph.layers().size(); ++k) {
    Layer* window = graph.layers()[k].get();
    if (window->kind != LayerKind::kConvolution && window->kind != LayerKind::kPooling) continue;
    Layer* pad = producer_of_kind(window->inputs[0], LayerKind::kPad);
    if (!pad) continue;
    rewriter.running(*pad);
    Attrs attrs = window->attrs;
    if (Refusal refusal = fuse(*pad, *window, attrs)) {
      rewriter.declined(*pad, std::move(refusal).behind("not fused with " + window->name + ": "));
      continue;
    }
    rewriter.fused(*pad, *window);
    std::vector<Tensor*> inputs = window->inputs;
    inputs[0] = pad->inputs[0];
    Layer* group[] = {pad, window};
    const Tensor* output = window->outputs[0];
    rewriter.replace(group, window->kind, attrs, inputs);
    k = graph.position(output->producer);
  }
  return rewriter.edits();
}

}  // namespace camshaft::passes
