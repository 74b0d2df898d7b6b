// SPDX-License-Identifier: Apache-2.0
// HorizontalMerge: siblings become one product (merged_form.h) where one of them alone leaves the
// vector units idle. Of the others the tuner times both forms (MergeChoice, tuner/merging.cpp):
// what follows them has then become part of each.
#include <algorithm>

#include "passes/match.h"
#include "passes/merged_form.h"
#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

// From this many output channels on a product fills the vector units alone.
constexpr int64_t kEnoughChannels = 128;

Refusal sibling_refusal(const Layer& a, const Layer& b) {
  if (Refusal refusal = merge_refusal(a, b)) return refusal;
  // Weights of few bits are another matter (docs/performance.md): of a token they take so little
  // time that its rows count, which are made integers for every product.
  if (a.kind != LayerKind::kLowBitMultiply && output_channels(a) >= kEnoughChannels &&
      output_channels(b) >= kEnoughChannels)
    return {Reason::kOtherPass,
            "each has enough output channels of its own; MergeChoice times both forms"};
  return {};
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
      Refusal refusal = sibling_refusal(*first, *other);
      if (!refusal)
        siblings.push_back(other);
      else if (first->kind == other->kind)
        rewriter.declined(*other,
                          std::move(refusal).behind("not merged with " + first->name + ": "));
    }
    if (siblings.size() < 2) continue;
    rewriter.running(*first);
    const MergedForm form = add_merged_form(rewriter, std::move(siblings));
    rewriter.applied(Action::kMerge, *first, "Merging layers: " + form.product->name);
    take_merged_form(rewriter, form);
  }
  return rewriter.edits();
}

}  // namespace camshaft::passes
