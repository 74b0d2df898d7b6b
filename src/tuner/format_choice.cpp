// SPDX-License-Identifier: Apache-2.0
#include "tuner/format_choice.h"

#include <algorithm>

#include "base/log.h"
#include "tuner/pbqp.h"
#include "tuner/views.h"

namespace camshaft::tuner {
namespace {

using ir::Format;
using ir::Layer;
using ir::LayerKind;
using ir::Tensor;

// The states of a tensor: in which format it is made, and whether a reformat makes the other one as
// well.
enum TensorState {
  kMadeLinear,
  kMadeChannelLast,
  kLinearThenBoth,
  kChannelLastThenBoth,
  kNumStates
};
Format made_format(int state) {
  return state == kMadeLinear || state == kLinearThenBoth ? Format::kLinear : Format::kChannelLast;
}
bool is_available(int state, Format format) {
  return state >= kLinearThenBoth || made_format(state) == format;
}

// One problem: nodes are layers (their options) and tensors that have a format (their states).
// Edges only forbid.
class Formulation {
 public:
  Formulation(const ir::Graph& graph, const ReformatTime& reformat)
      : graph_(graph), reformat_(reformat) {}

  void add_layer(const Layer& layer, const LayerOptions& options, double copied) {
    std::vector<double> costs;
    costs.reserve(options.options.size());
    for (const Option& option : options.options)
      costs.push_back(option.kernel.us *
                      (option.formats.input == option.formats.output ? copied : 1));
    const int node = pbqp_.add_node(std::move(costs));
    layer_nodes_.push_back(node);
    for (size_t k = 0; k < layer.inputs.size(); ++k)
      connect(node, options, layer.inputs[k], false, is_data_input(layer, k));
    for (size_t k = 0; k < layer.outputs.size(); ++k)
      connect(node, options, layer.outputs[k], true, is_data_output(layer, k));
  }

  std::vector<int> solve() const {
    const Pbqp::Solution solution = pbqp_.solve();
    log(Severity::kVerbose, "Formats chosen over {} layers and {} tensors: {:.1f} us predicted{}",
        layer_nodes_.size(), tensor_nodes_.size(), solution.cost,
        solution.optimal ? "" : " (heuristic in part)");
    std::vector<int> chosen;
    chosen.reserve(layer_nodes_.size());
    for (const int node : layer_nodes_) chosen.push_back(solution.choices[node]);
    return chosen;
  }

 private:
  // -1: the tensor is in every format at once.
  int tensor_node(const Tensor* tensor) {
    if (!tensor || tensor->is_constant() || !tensor->has_rank || formats_coincide(*tensor))
      return -1;
    const auto [entry, is_new] = tensor_nodes_.try_emplace(tensor, -1);
    if (!is_new) return entry->second;
    std::vector<double> costs(kNumStates, 0);
    costs[kLinearThenBoth] = reformat_(*tensor, Format::kLinear, Format::kChannelLast);
    costs[kChannelLastThenBoth] = reformat_(*tensor, Format::kChannelLast, Format::kLinear);
    if (!tensor->producer) costs[kMadeChannelLast] = costs[kChannelLastThenBoth] = kInfinity;
    if (graph_.is_output(tensor)) costs[kMadeChannelLast] = kInfinity;
    return entry->second = pbqp_.add_node(std::move(costs));
  }

  void connect(int layer_node, const LayerOptions& options, const Tensor* tensor, bool is_output,
               bool is_data) {
    const int node = tensor_node(tensor);
    if (node < 0) return;
    std::vector<double> matrix;
    matrix.reserve(options.options.size() * kNumStates);
    for (const Option& option : options.options) {
      const Format format = !is_data    ? Format::kLinear
                            : is_output ? option.formats.output
                                        : option.formats.input;
      for (int state = 0; state < kNumStates; ++state) {
        const bool fits = is_output ? made_format(state) == format : is_available(state, format);
        matrix.push_back(fits ? 0 : kInfinity);
      }
    }
    pbqp_.add_edge(layer_node, node, matrix);
  }

  const ir::Graph& graph_;
  const ReformatTime& reformat_;
  Pbqp pbqp_;
  std::vector<int> layer_nodes_;
  std::unordered_map<const Tensor*, int> tensor_nodes_;
};

bool may_be_free(const Layer& layer) {
  return layer.kind == LayerKind::kSlice || layer.kind == LayerKind::kConcatenation;
}

// How much of what the layer moves is left to move, 0 to 1.
double copied_share(const Layer& layer, const Choice& choice, const Views& views) {
  if (!choice.is_view) return 1;
  if (layer.kind != LayerKind::kConcatenation) return 0;
  const auto is_in_place = [&](const Tensor* tensor) {
    const auto view = views.find(tensor);
    return view != views.end() && view->second.parent == layer.outputs[0];
  };
  const auto in_place = std::count_if(layer.inputs.begin(), layer.inputs.end(), is_in_place);
  return 1 - static_cast<double>(in_place) / static_cast<double>(layer.inputs.size());
}

}  // namespace

// Whether a slice or a concatenation is free depends on the formats and tactics around it: take it
// to be free, choose, look, correct what was wrong, choose again. A share only ever grows.
std::vector<int> choose_options(const ir::Graph& graph, const std::vector<LayerOptions>& options,
                                const ReformatTime& reformat, const runtime::Bindings& bindings,
                                int threads) {
  constexpr int kRounds = 6;
  const auto& layers = graph.layers();
  std::vector<double> copied(layers.size(), 1);
  for (size_t k = 0; k < layers.size(); ++k)
    if (may_be_free(*layers[k])) copied[k] = 0;
  for (int round = 1;; ++round) {
    Formulation formulation(graph, reformat);
    for (size_t k = 0; k < layers.size(); ++k)
      formulation.add_layer(*layers[k], options[k], copied[k]);
    std::vector<int> chosen = formulation.solve();
    if (round == kRounds) return chosen;
    Choices choices;
    for (size_t k = 0; k < layers.size(); ++k)
      choices[layers[k].get()] = choice_of(options[k].options[chosen[k]]);
    const Views views = find_views(graph, choices, bindings, threads, nullptr);
    bool was_right = true;
    for (size_t k = 0; k < layers.size(); ++k) {
      const Formats& formats = options[k].options[chosen[k]].formats;
      if (!may_be_free(*layers[k]) || formats.input != formats.output) continue;
      const double share = copied_share(*layers[k], choices.at(layers[k].get()), views);
      if (share <= copied[k]) continue;
      // The last correction is the most careful one.
      copied[k] = round + 1 == kRounds ? 1 : share;
      was_right = false;
    }
    if (was_right) return chosen;
  }
}

Choice choice_of(const Option& option) {
  Choice choice;
  choice.kernel = option.kernel;
  choice.formats = option.formats;
  choice.is_view = option.is_view;
  return choice;
}

}  // namespace camshaft::tuner
