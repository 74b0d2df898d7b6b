// SPDX-License-Identifier: Apache-2.0
#include "tuner/format_choice.h"

#include <algorithm>

#include "base/log.h"
#include "tuner/pbqp.h"
#include "tuner/views.h"

namespace camshaft::tuner {
namespace {

using ir::DataType;
using ir::Format;
using ir::Layer;
using ir::LayerKind;
using ir::Tensor;

// A change of storage type must be worth more than what timing at different moments makes of it,
// and a conversion also costs what it pushes out of the caches: neither is seen where layers are
// timed.
constexpr double kMixedStorage = 1.08, kConversion = 2;

double storage_factor(const Formats& formats) {
  return formats.input_type == formats.output_type ? 1 : kMixedStorage;
}

constexpr Place kPlain = {};

std::vector<Place> all_places(const std::vector<DataType>& types) {
  std::vector<Place> places = {{Format::kLinear, DataType::kUndefined},
                               {Format::kChannelLast, DataType::kUndefined}};
  for (const DataType type : types)
    for (const Format format : {Format::kLinear, Format::kChannelLast})
      places.push_back({format, type});
  return places;
}

// The states of a tensor: where it is made, and to which other place, of another format or type, a
// reformat brings it as well.
struct TensorState {
  Place made, also;

  bool is_available(Place place) const { return made == place || also == place; }
};
std::vector<TensorState> all_states(const std::vector<Place>& places) {
  std::vector<TensorState> states;
  states.reserve(places.size());
  for (const Place place : places) states.push_back({place, place});
  for (const Place from : places)
    for (const Place to : places)
      if ((from.format == to.format) != (from.type == to.type)) states.push_back({from, to});
  return states;
}

// One problem: nodes are layers (their options) and tensors that have a format (their states).
// Edges only forbid.
class Formulation {
 public:
  Formulation(const ir::Graph& graph, const ReformatTime& reformat,
              const std::vector<DataType>& reduced_types)
      : graph_(graph),
        reformat_(reformat),
        reduces_(!reduced_types.empty()),
        states_(all_states(all_places(reduced_types))) {}

  void add_layer(const Layer& layer, const LayerOptions& options, double copied) {
    std::vector<double> costs;
    costs.reserve(options.options.size());
    for (const Option& option : options.options)
      costs.push_back(option.kernel.us * storage_factor(option.formats) *
                      (option.formats.input == option.formats.output ? copied : 1));
    const int node = pbqp_.add_node(std::move(costs));
    layer_nodes_.push_back(node);
    for (size_t k = 0; k < layer.inputs.size(); ++k)
      connect(node, options, layer.inputs[k], false, is_data_input(layer, k),
              is_stored_input(layer, k));
    for (size_t k = 0; k < layer.outputs.size(); ++k)
      connect(node, options, layer.outputs[k], true, is_data_output(layer, k),
              is_stored_output(layer, k));
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
  double cost_of(const Tensor& tensor, const TensorState& state) const {
    const bool is_reduced = state.made.type != kPlain.type || state.also.type != kPlain.type;
    if (is_reduced && tensor.type != DataType::kFloat) return kInfinity;
    if (formats_coincide(tensor) &&
        (state.made.format != kPlain.format || state.also.format != kPlain.format))
      return kInfinity;
    if (!tensor.producer && state.made != kPlain) return kInfinity;
    if (graph_.is_output(&tensor) && !state.is_available(kPlain)) return kInfinity;
    if (state.made == state.also) return 0;
    const double factor = state.made.type == state.also.type ? 1 : kConversion;
    return factor * reformat_(tensor, {state.made.format, state.also.format, state.made.type,
                                       state.also.type});
  }

  // -1: the tensor is in every place at once.
  int tensor_node(const Tensor* tensor) {
    if (!tensor || tensor->is_constant() || !tensor->has_rank) return -1;
    const bool has_type = reduces_ && tensor->type == DataType::kFloat;
    if (formats_coincide(*tensor) && !has_type) return -1;
    const auto [entry, is_new] = tensor_nodes_.try_emplace(tensor, -1);
    if (!is_new) return entry->second;
    std::vector<double> costs;
    costs.reserve(states_.size());
    for (const TensorState& state : states_) costs.push_back(cost_of(*tensor, state));
    return entry->second = pbqp_.add_node(std::move(costs));
  }

  void connect(int layer_node, const LayerOptions& options, const Tensor* tensor, bool is_output,
               bool is_data, bool is_stored) {
    const int node = tensor_node(tensor);
    if (node < 0) return;
    const bool has_format = is_data && !formats_coincide(*tensor);
    std::vector<double> matrix;
    matrix.reserve(options.options.size() * states_.size());
    for (const Option& option : options.options) {
      const Formats& f = option.formats;
      Place place = is_output ? Place{f.output, f.output_type} : Place{f.input, f.input_type};
      if (!has_format) place.format = kPlain.format;
      if (!is_stored) place.type = kPlain.type;
      for (const TensorState& state : states_)
        matrix.push_back((is_output ? state.made == place : state.is_available(place)) ? 0
                                                                                       : kInfinity);
    }
    pbqp_.add_edge(layer_node, node, matrix);
  }

  const ir::Graph& graph_;
  const ReformatTime& reformat_;
  const bool reduces_;
  const std::vector<TensorState> states_;
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
                                const ReformatTime& reformat,
                                const std::vector<DataType>& reduced_types,
                                const runtime::Bindings& bindings, int threads) {
  constexpr int kRounds = 6;
  const auto& layers = graph.layers();
  std::vector<double> copied(layers.size(), 1);
  for (size_t k = 0; k < layers.size(); ++k)
    if (may_be_free(*layers[k])) copied[k] = 0;
  for (int round = 1;; ++round) {
    Formulation formulation(graph, reformat, reduced_types);
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
