// SPDX-License-Identifier: Apache-2.0
#include "tuner/merging.h"

#include <algorithm>

#include "passes/merged_form.h"

namespace camshaft::tuner {
namespace {

using ir::Layer;

// One product must win by this much: two runs of one engine differ by 1 to 2 %.
constexpr double kMergeGain = 1.03;
// Predictions of products are off by less than this: beyond it the clock is not asked.
constexpr double kHopelessMerge = 1.3;

class Merging {
 public:
  Merging(ir::Graph& graph, Selector& selector, const BuildOptions& options,
          std::vector<ir::RewriteRecord>* record)
      : selector_(selector), options_(options), rewriter_(graph, "MergeChoice", record) {}

  Status choose(std::vector<Layer*> siblings) {
    const passes::MergedForm form = passes::add_merged_form(rewriter_, std::move(siblings));
    if (options_.random_choices != 0) {
      if ((options_.random_choices + seen_++) % 2 == 0)
        take(form, "random");
      else
        passes::drop_merged_form(rewriter_, form);
      return ok_status();
    }
    double apart = 0;
    for (const Layer* layer : form.siblings)
      apart += Selector::least(selector_.predicted_us(*layer));
    const double merged = Selector::least(selector_.predicted_us(*form.product));
    if (apart < Selector::kNoKernel && merged < apart * kHopelessMerge) return compare(form);
    passes::drop_merged_form(rewriter_, form);
    return ok_status();
  }

 private:
  Status compare(const passes::MergedForm& form) {
    Selector::FormatTimes apart{};
    for (const Layer* layer : form.siblings) {
      CAMSHAFT_ASSIGN(const Selector::FormatTimes us, selector_.fastest_us(*layer));
      for (size_t k = 0; k < apart.size(); ++k) apart[k] += us[k];
    }
    CAMSHAFT_ASSIGN(const Selector::FormatTimes merged, selector_.fastest_us(*form.product));
    const std::string times = fmt::format("merged {:.1f} us, apart {:.1f} us",
                                          Selector::least(merged), Selector::least(apart));
    if (Selector::least(merged) * kMergeGain < Selector::least(apart)) {
      selector_.note(*form.product, {"apart", "", Selector::least(apart), times, false});
      take(form, times);
      return ok_status();
    }
    for (const Layer* layer : form.siblings)
      selector_.note(*layer,
                     {"merged with its siblings", "", Selector::least(merged), times, false});
    passes::drop_merged_form(rewriter_, form);
    return ok_status();
  }

  void take(const passes::MergedForm& form, const std::string& why) {
    rewriter_.applied(ir::Action::kMerge, *form.siblings[0],
                      fmt::format("Merging layers: {} ({})", form.product->name, why));
    passes::take_merged_form(rewriter_, form);
  }

  Selector& selector_;
  const BuildOptions& options_;
  uint64_t seen_ = 0;
  ir::Rewriter rewriter_;
};

// `first` and what it can merge with, of those that come later.
std::vector<Layer*> siblings_of(const ir::Graph& graph, Layer* first) {
  std::vector<Layer*> siblings;
  if (!passes::can_merge(*first)) return siblings;
  for (Layer* other : first->inputs[0]->consumers) {
    const bool later = other == first || graph.position(first) < graph.position(other);
    const bool seen = std::find(siblings.begin(), siblings.end(), other) != siblings.end();
    if (later && !seen && other->inputs[0] == first->inputs[0] && passes::can_merge(*other) &&
        !passes::merge_refusal(*first, *other))
      siblings.push_back(other);
  }
  return siblings;
}

}  // namespace

Status choose_merging(ir::Graph& graph, Selector& selector, const BuildOptions& options,
                      std::vector<ir::RewriteRecord>* record) {
  Merging merging(graph, selector, options, record);
  std::vector<Layer*> left;
  for (const auto& layer : graph.layers()) {
    for (const auto& body : layer->bodies)
      CAMSHAFT_TRY(choose_merging(*body, selector, options, record));
    left.push_back(layer.get());
  }
  while (!left.empty()) {
    const std::vector<Layer*> siblings = siblings_of(graph, left.front());
    left.erase(left.begin());
    if (siblings.size() < 2) continue;
    for (Layer* layer : siblings) std::erase(left, layer);
    CAMSHAFT_TRY(merging.choose(siblings));
  }
  graph.remove_unused_tensors();
  return ok_status();
}

}  // namespace camshaft::tuner
