// SPDX-License-Identifier: Apache-2.0
// The ways to run a layer: what tactics take it, in which formats and storage types, which of them
// are timed, and those that are asked for.
#include "tuner/selection.h"

#include <algorithm>

#include "base/log.h"
#include "engine/sparsity_outcome.h"
#include "ir/kind_traits.h"
#include "tuner/format_choice.h"
#include "tuner/tuning_log.h"

namespace camshaft::tuner {
namespace {

using ir::DataType;
using ir::Layer;
using ir::LayerKind;
using ir::Tensor;
using kernels::FormatRule;
using kernels::Tactic;

// The same with every choice of storage types.
std::vector<Formats> stored_formats(FormatRule rule, const std::vector<StorageTypes>& storages) {
  std::vector<Formats> all;
  for (const StorageTypes& types : storages)
    for (Formats formats : formats_of(rule)) {
      formats.input_type = types.input;
      formats.output_type = types.output;
      all.push_back(formats);
    }
  return all;
}

// Layers that only rearrange: any pair of formats makes sense, and may make them free.
bool may_mix_formats(LayerKind kind) {
  return kind == LayerKind::kShuffle;
}

// Reference kernels that make their own outputs make them row major.
bool makes_own_outputs(const Layer& layer) {
  const kernels::ReferenceKernel* kernel = kernels::reference_kernel(layer);
  return kernel != nullptr && kernel->run_dynamic != nullptr;
}

// Predicted time of a reference kernel: plain loops take some nanoseconds per element.
double predicted_reference_us(const Layer& layer, const runtime::Bindings& bindings) {
  double elements = 0;
  const auto add = [&](const Tensor* tensor) {
    if (!tensor || !tensor->has_rank || !bindings.known(tensor->shape)) return;
    double count = 1;
    for (const ir::Dim dim : tensor->shape)
      count *= static_cast<double>(std::max<int64_t>(bindings.value(dim), 0));
    elements += count;
  };
  for (const Tensor* tensor : layer.inputs)
    if (tensor && !tensor->is_constant()) add(tensor);
  for (const Tensor* tensor : layer.outputs) add(tensor);
  return 0.2 + elements * 5e-3;
}

bool holds(const std::vector<DataType>& types, DataType type) {
  return std::find(types.begin(), types.end(), type) != types.end();
}

}  // namespace

Status Selector::list_tactics(const Layer& layer, LayerOptions& list) {
  struct Entry {
    const Tactic* tactic;
    double predicted;
  };
  std::vector<std::pair<Formats, std::vector<Entry>>> by_formats;
  const bool has_data = has_data_tensor(layer), guessed = has_guessed_extents(layer);
  const std::vector<StorageTypes> storages = storages_of(layer);
  for (const Tactic* tactic : kernels::tactics_for(layer.kind)) {
    if (!may_compute(layer, *tactic)) continue;
    std::string reason;
    bool accepted = false;
    for (const Formats& formats : stored_formats(tactic->formats, storages)) {
      // Where every format is the same memory (one pixel, one channel), the tactic's own label will
      // do.
      if (!has_data && accepted && formats.input_type == DataType::kUndefined &&
          formats.output_type == DataType::kUndefined)
        continue;
      const LayerProblem made = make_problem(layer, formats, *context_.opt, context_.threads);
      if (!made.layer) continue;
      std::string refusal = tactic->refusal(made.problem);
      if (refusal.empty()) refusal = refusal_anywhere(layer, *tactic, formats);
      if (refusal.empty() && tactic->isa == active_isa())
        refusal = refusal_of_rounding(made.problem, *tactic);
      if (refusal.empty() && guessed)
        refusal = agrees_with_inference(layer, made, *context_.opt)
                      ? refusal_of_guess(layer, *tactic, formats, made.problem)
                      : "its extents are known only when it runs";
      if (!refusal.empty()) {
        reason = std::move(refusal);
        continue;
      }
      accepted = true;
      auto group = std::find_if(by_formats.begin(), by_formats.end(),
                                [&](const auto& g) { return g.first == formats; });
      if (group == by_formats.end()) group = by_formats.insert(by_formats.end(), {formats, {}});
      group->second.push_back({tactic, tactic->cost_us(made.problem)});
    }
    if (!accepted && !reason.empty() && tactic->isa == active_isa())
      list.candidates.push_back({tactic->name, "", 0, std::move(reason), false});
  }
  // Weaker instruction sets are timed where the strongest has nothing, or when everything is. Only
  // then is it measured how they round, which takes packing all weights.
  const bool forced = context_.options->forced_way >= 0;
  const bool everything =
      context_.options->optimization_level >= 5 || context_.options->random_choices != 0;
  decltype(by_formats) alone;
  for (auto& [formats, entries] : by_formats) {
    std::stable_sort(entries.begin(), entries.end(),
                     [](const Entry& a, const Entry& b) { return a.predicted < b.predicted; });
    const auto is_weaker = [](const Entry& e) { return e.tactic->isa < active_isa(); };
    if ((forced || !everything) && !std::all_of(entries.begin(), entries.end(), is_weaker))
      std::erase_if(entries, is_weaker);
    std::erase_if(entries, [&, &formats = formats](const Entry& e) {
      if (!is_weaker(e)) return false;
      const LayerProblem made = make_problem(layer, formats, *context_.opt, context_.threads);
      return !refusal_of_rounding(made.problem, *e.tactic).empty();
    });
    for (const Entry& entry : entries) alone.push_back({formats, {entry}});
  }
  std::erase_if(by_formats, [](const auto& group) { return group.second.empty(); });
  if (forced) by_formats = std::move(alone);
  for (auto& [formats, entries] : by_formats) {
    // Dense tactics are timed as if there were no sparse ones, which are timed as well: who asks
    // for them wants to see both times, and no layer may become slower.
    std::remove_reference_t<decltype(entries)> timed, untimed;
    size_t dense = 0, sparse = 0;
    for (const Entry& entry : entries) {
      size_t& taken = engine::is_sparse_tactic(entry.tactic->name) ? sparse : dense;
      (taken++ < max_timed() ? timed : untimed).push_back(entry);
    }
    const size_t count = timed.size();
    entries = std::move(timed);
    entries.insert(entries.end(), untimed.begin(), untimed.end());
    const LayerProblem made = make_problem(layer, formats, *context_.opt, context_.threads);
    std::vector<const Tactic*> tactics;
    std::vector<double> us;
    for (size_t k = 0; k < count; ++k) {
      tactics.push_back(entries[k].tactic);
      us.push_back(entries[k].predicted);
    }
    std::vector<double> scales;
    CAMSHAFT_TRY(measure_profiles(layer, formats, context_.threads, tactics, us, scales));
    log_times("Autotuning format combination",
              fmt::format("{} ({})", layer.name, ir::kind_name(layer.kind)), made.problem, tactics,
              us);
    Option option{formats, {}, false};
    CAMSHAFT_TRY(choose_threads(layer, made.problem, &formats, scales, tactics, us, option,
                                &list.candidates));
    list.options.push_back(option);
    for (size_t k = 0; k < count; ++k)
      list.candidates.push_back({tactics[k]->name, to_string(formats),
                                 context_.options->optimization_level == 0 ? 0 : us[k], "", false});
    for (size_t k = count; k < entries.size(); ++k)
      list.candidates.push_back(
          {entries[k].tactic->name, to_string(formats), 0,
           fmt::format("not timed: predicted {:.1f} us", entries[k].predicted), false});
  }
  return ok_status();
}

std::string Selector::refusal_of_rounding(const kernels::Problem& problem, const Tactic& tactic) {
  const auto& rounding = context_.roundings->of(problem, tactic);
  return rounding ? refusal_of(*rounding) : "";
}

std::vector<StorageTypes> Selector::storages_of(const Layer& layer) const {
  std::vector<StorageTypes> storages = {{}};
  const ir::Storage storage = ir::traits_of(layer.kind).storage;
  if (storage == ir::Storage::kFloat || wanted_types(layer).precision == DataType::kFloat)
    return storages;
  bool has_input = false, has_output = false;
  for (size_t k = 0; k < layer.inputs.size(); ++k) has_input |= is_stored_input(layer, k);
  for (size_t k = 0; k < layer.outputs.size(); ++k) has_output |= is_stored_output(layer, k);
  for (const DataType type : reduced_types_) {
    if (has_input && has_output) storages.push_back({type, type});
    if (storage != ir::Storage::kAny16) continue;
    if (has_input) storages.push_back({type, DataType::kUndefined});
    if (has_output) storages.push_back({DataType::kUndefined, type});
  }
  return storages;
}

bool Selector::may_compute(const Layer& layer, const Tactic& tactic) const {
  if (engine::is_sparse_tactic(tactic.name) && context_.options->sparsity == Sparsity::kDisable)
    return false;
  if (tactic.precision == DataType::kUndefined) return true;
  return holds(reduced_types_, tactic.precision) &&
         wanted_types(layer).precision != DataType::kFloat;
}

BuildOptions::LayerTypes Selector::wanted_types(const Layer& layer) const {
  return context_.options->layer_types ? context_.options->layer_types(layer)
                                       : BuildOptions::LayerTypes();
}

// Of a layer with wanted types, only options that have them, where there are any.
void Selector::keep_wanted(const Layer& layer, LayerOptions& list) const {
  const BuildOptions::LayerTypes wanted = wanted_types(layer);
  const auto keep = [&list](const auto& fits) {
    if (std::any_of(list.options.begin(), list.options.end(), fits))
      std::erase_if(list.options, [&](const Option& o) { return !fits(o); });
  };
  if (ir::is_16_bit_float(wanted.precision))
    keep([&](const Option& o) {
      return (o.kernel.tactic && o.kernel.tactic->precision == wanted.precision) ||
             o.formats.input_type == wanted.precision;
    });
  if (wanted.output != DataType::kUndefined) {
    const DataType stored =
        wanted.output == DataType::kFloat ? DataType::kUndefined : wanted.output;
    keep([&](const Option& o) { return o.formats.output_type == stored; });
  }
}

double Selector::reference_us(const Layer& layer, const Formats& formats) {
  const double predicted = predicted_reference_us(layer, *context_.opt);
  const BuildOptions& options = *context_.options;
  if (options.random_choices != 0 || options.optimization_level == 0 || !layer.bodies.empty())
    return predicted;
  const LayerProblem made = make_problem(layer, formats, *context_.opt, context_.threads);
  if (!made.layer) return predicted;
  const std::string key = "reference " + problem_key(made.problem);
  if (const auto time = context_.cache->find(key)) {
    count_found(key);
    return *time;
  }
  if (options.error_on_timing_cache_miss) return predicted;
  const std::optional<double> time = timer_.time_reference(made.problem);
  if (!time) return predicted;
  context_.cache->insert(key, *time);
  return *time;
}

// The one way that is forced, of all there are.
void Selector::keep_forced(LayerOptions& list) {
  const int way = context_.options->forced_way, count = static_cast<int>(list.options.size());
  if (way < 0 || count == 0) return;
  context_.statistics->most_ways = std::max(context_.statistics->most_ways, count);
  list.options = {list.options[way % count]};
}

Status Selector::list_options(const Layer& layer, LayerOptions& list) {
  log(Severity::kVerbose, "=============== Computing costs for {}", layer.name);
  if (layer.bodies.empty()) CAMSHAFT_TRY(list_tactics(layer, list));
  if (const auto noted = notes_.find(&layer); noted != notes_.end())
    list.candidates.insert(list.candidates.end(), noted->second.begin(), noted->second.end());
  const bool has_data = has_data_tensor(layer);
  if (may_mix_formats(layer.kind) || list.options.empty()) {
    std::vector<Formats> all = {{}};
    if (has_data && makes_own_outputs(layer))
      all.push_back({ir::Format::kChannelLast, ir::Format::kLinear});
    else if (has_data && layer.bodies.empty())
      all = formats_of(may_mix_formats(layer.kind) ? FormatRule::kAny : FormatRule::kSame);
    for (const Formats& formats : all) {
      const bool listed = std::any_of(list.options.begin(), list.options.end(),
                                      [&](const Option& o) { return o.formats == formats; });
      if (listed) continue;
      const double us = reference_us(layer, formats);
      list.options.push_back({formats, {nullptr, us < kSharedReferenceUs ? 1 : 0, us}, false});
    }
  }
  if (layer.kind != LayerKind::kShuffle) return ok_status();
  for (Option& option : list.options) {
    if (!moves_no_bytes(layer, option.formats, layer.outputs[0]->graph->symbols())) continue;
    option.kernel = {};
    option.is_view = true;
  }
  return ok_status();
}

}  // namespace camshaft::tuner
