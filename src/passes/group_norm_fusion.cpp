// SPDX-License-Identifier: Apache-2.0
// GroupNormFusion: a normalization between the reshapes [N, C, …] → [N, G, …] → [N, C, …] is that
// of G groups of channels; what scales and shifts each channel behind a group or instance
// normalization joins its factors. A few ulp.
#include <algorithm>

#include "passes/affine.h"
#include "passes/match.h"
#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

// One value per channel, from one per group; `otherwise` where the normalization has none. Empty:
// it varies within a group.
std::vector<float> per_channel(const Tensor* factors, int64_t groups, int64_t channels,
                               float otherwise) {
  if (!factors) return std::vector<float>(static_cast<size_t>(channels), otherwise);
  if (const std::optional<double> value = uniform_value(factors))
    return std::vector<float>(static_cast<size_t>(channels), static_cast<float>(*value));
  if (!is_float_constant(factors) || factors->shape.size() != 1 || factors->shape[0] != Dim(groups))
    return {};
  std::vector<float> values;
  for (int64_t c = 0; c < channels; ++c)
    values.push_back(factors->values<float>()[c / (channels / groups)]);
  return values;
}

void set_factors(Rewriter& rewriter, Layer* norm, const std::vector<float>& scale,
                 const std::vector<float>& bias, const std::string& name) {
  const int64_t count[] = {static_cast<int64_t>(scale.size())};
  Tensor* factors[] = {rewriter.add_float_constant(name + " scale", count, scale),
                       rewriter.add_float_constant(name + " bias", count, bias)};
  for (size_t k = 0; k < 2; ++k) {
    if (k + 1 < norm->inputs.size())
      rewriter.set_input(norm, k + 1, factors[k]);
    else
      rewriter.append_input(norm, factors[k]);
  }
}

// Whether it normalizes all but the first two dimensions.
bool is_over_groups(const Layer& norm) {
  const auto& a = norm.as<NormalizationAttrs>();
  return a.epilogue.empty() && norm.inputs[0]->has_rank && norm.inputs[0]->shape.size() >= 3 &&
         (norm.outputs.size() < 2 || !norm.outputs[1]) &&
         (a.kind == NormKind::kInstance || (a.kind == NormKind::kLayer && a.axis == 2));
}

bool fuse_groups(Rewriter& rewriter, Layer* norm) {
  Layer *before = norm->inputs[0]->producer, *behind = only_reader(norm->outputs[0]);
  if (!is_over_groups(*norm) || !is_reshape(before) || !is_reshape(behind)) return false;
  Tensor* x = before->inputs[0];
  const Shape &shape = x->shape, &grouped = norm->inputs[0]->shape;
  if (shape.size() < 3 || !same_shape(x, behind->outputs[0]) || shape[0] != grouped[0] ||
      !shape[1].is_known() || !grouped[1].is_known())
    return false;
  const int64_t channels = shape[1].extent(), groups = grouped[1].extent();
  if (groups < 1 || channels % groups != 0) return false;
  const std::vector<float> scale = per_channel(input_at(*norm, 1), groups, channels, 1),
                           bias = per_channel(input_at(*norm, 2), groups, channels, 0);
  rewriter.running(*norm);
  if (scale.empty() || bias.empty()) {
    rewriter.declined(*norm, {Reason::kShape, "its factors vary within a group"});
    return false;
  }
  NormalizationAttrs attrs = norm->as<NormalizationAttrs>();
  attrs.kind = groups == channels ? NormKind::kInstance : NormKind::kGroup;
  attrs.groups = groups;
  attrs.axis = 0;
  rewriter.applied(Action::kFuse, *norm,
                   "Fusing " + before->name + " and " + behind->name + " with " + norm->name);
  const std::string name = norm->name;
  Layer* group[] = {before, norm, behind};
  Layer* made = rewriter.replace(group, LayerKind::kNormalization, attrs, {x}, name);
  set_factors(rewriter, made, scale, bias, name);
  return true;
}

bool fuse_affine(Rewriter& rewriter, Layer* norm) {
  const auto& a = norm->as<NormalizationAttrs>();
  Tensor* y = norm->outputs[0];
  Layer* next = only_reader(y);
  if ((a.kind != NormKind::kInstance && a.kind != NormKind::kGroup) || !a.epilogue.empty() ||
      !next || !y->has_rank || y->shape.size() < 2 || !y->shape[1].is_known())
    return false;
  const int64_t channels = y->shape[1].extent();
  const std::optional<Affine> affine = affine_of(*next, y, 1, channels);
  std::vector<float> scale = per_channel(input_at(*norm, 1), channels, channels, 1),
                     bias = per_channel(input_at(*norm, 2), channels, channels, 0);
  if (!affine || scale.empty() || bias.empty()) return false;
  rewriter.running(*next);
  for (int64_t c = 0; c < channels; ++c) {
    scale[c] *= affine->scale[c];
    bias[c] = bias[c] * affine->scale[c] + affine->shift[c];
  }
  rewriter.fused(*norm, *next);
  const std::string name = norm->name;
  set_factors(rewriter, norm, scale, bias, name + " + " + next->name);
  rewriter.absorb(norm, next);
  return true;
}

}  // namespace

int group_norm_fusion(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "GroupNormFusion", records);
  for (size_t k = 0; k < graph.layers().size();) {
    Layer* layer = graph.layers()[k].get();
    const bool changed = layer->kind == LayerKind::kNormalization &&
                         (fuse_groups(rewriter, layer) || fuse_affine(rewriter, layer));
    k = changed ? 0 : k + 1;  // some layers before it are gone
  }
  return rewriter.edits();
}

}  // namespace camshaft::passes
