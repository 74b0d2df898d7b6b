// SPDX-License-Identifier: Apache-2.0
#include "tuner/precision.h"

#include <algorithm>

#include "passes/float_form.h"
#include "passes/match.h"
#include "passes/passes.h"

namespace camshaft::tuner {
namespace {

using ir::Layer;

// Float must win by this much: its activations take four times the memory.
constexpr double kFloatGain = 1.1;
// Predictions are off by this much at most: beyond it the clock is not asked.
constexpr double kHopelessPrecision = 1.5;

class Precision {
 public:
  Precision(ir::Graph& graph, Selector& selector, const BuildOptions& options,
            std::vector<ir::RewriteRecord>* record)
      : selector_(selector), options_(options), rewriter_(graph, "PrecisionChoice", record) {}

  Status choose(Layer& product) {
    passes::FloatForm form = passes::add_float_form(rewriter_, product);
    if (form.refusal) return ok_status();
    if (options_.random_choices != 0) return choose_any(product, form);
    const double own = Selector::least(selector_.predicted_us(product));
    const double other = Selector::least(
        sum(form, [&](const Layer& layer) { return selector_.predicted_us(layer); }));
    const bool has_kernel = own < Selector::kNoKernel, has_float = other < Selector::kNoKernel;
    if (!has_float ||
        (has_kernel && other > own * kHopelessPrecision && options_.optimization_level < 5)) {
      passes::drop_float_form(rewriter_, form);
      if (has_float) note(product, other, fmt::format("not timed: predicted {:.1f} us", other));
      return ok_status();
    }
    if (!has_kernel) return take(product, form, "8 bits: no kernel");
    return compare(product, form);
  }

  bool has_edits() const { return rewriter_.edits() > 0; }

 private:
  template <class Times>
  static Selector::FormatTimes sum(const passes::FloatForm& form, const Times& times) {
    Selector::FormatTimes total{};
    for (const Layer* layer : form.layers) {
      const Selector::FormatTimes us = times(*layer);
      for (size_t k = 0; k < total.size(); ++k) total[k] += us[k];
    }
    return total;
  }

  Status choose_any(Layer& product, const passes::FloatForm& form) {
    if ((options_.random_choices + seen_++) % 2 == 0) return take(product, form, "8 bits: random");
    passes::drop_float_form(rewriter_, form);
    return ok_status();
  }

  Status compare(Layer& product, const passes::FloatForm& form) {
    CAMSHAFT_ASSIGN(const Selector::FormatTimes own, selector_.fastest_us(product));
    Selector::FormatTimes other{};
    for (const Layer* layer : form.layers) {
      CAMSHAFT_ASSIGN(const Selector::FormatTimes us, selector_.fastest_us(*layer));
      for (size_t k = 0; k < other.size(); ++k) other[k] += us[k];
    }
    if (Selector::least(other) * kFloatGain < Selector::least(own))
      return take(product, form,
                  fmt::format("8 bits: {:.1f} us, in float with the conversions {:.1f} us",
                              Selector::least(own), Selector::least(other)));
    passes::drop_float_form(rewriter_, form);
    note(product, Selector::least(other), "");
    return ok_status();
  }

  void note(const Layer& layer, double us, std::string refusal) {
    const bool timed = refusal.empty();
    selector_.note(layer, {"in float, with the conversions", "", timed ? us : 0,
                           timed ? "8 bits are faster" : std::move(refusal), false});
  }

  Status take(Layer& product, const passes::FloatForm& form, const std::string& why) {
    rewriter_.applied(ir::Action::kConvert, product, product.name + " computes in float: " + why);
    passes::take_float_form(rewriter_, product, form);
    return ok_status();
  }

  Selector& selector_;
  const BuildOptions& options_;
  uint64_t seen_ = 0;
  ir::Rewriter rewriter_;
};

}  // namespace

Status choose_precision(ir::Graph& graph, Selector& selector, const BuildOptions& options,
                        std::vector<ir::RewriteRecord>* record) {
  std::vector<Layer*> products;
  for (const auto& layer : graph.layers()) {
    for (const auto& body : layer->bodies)
      CAMSHAFT_TRY(choose_precision(*body, selector, options, record));
    if (passes::makes_codes(*layer)) products.push_back(layer.get());
  }
  if (products.empty()) return ok_status();
  Precision precision(graph, selector, options, record);
  for (Layer* product : products) CAMSHAFT_TRY(precision.choose(*product));
  // Conversions of neighbours that both went to float, or that a kernel can do on the way.
  for (int edits = precision.has_edits() ? 1 : 0; edits > 0;) {
    edits = passes::pointwise_fusion(graph, record);
    edits += passes::epilogue_fusion(graph, record);
    edits += passes::dead_layer_removal(graph, record);
  }
  graph.remove_unused_tensors();
  return ok_status();
}

}  // namespace camshaft::tuner
