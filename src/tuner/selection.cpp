// SPDX-License-Identifier: Apache-2.0
// What is timed, and the choice of the fastest: of the ways selection_options.cpp lists.
#include "tuner/selection.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/log.h"
#include "engine/sparsity_outcome.h"
#include "ir/kind_traits.h"
#include "runtime/image_passes.h"
#include "tuner/format_choice.h"
#include "tuner/tuning_log.h"

namespace camshaft::tuner {
namespace {

using ir::Format;
using ir::Layer;
using ir::LayerKind;
using ir::Tensor;
using kernels::Tactic;

double random_us(uint64_t seed, const std::string& text) {
  uint64_t h = seed * 0x9E3779B97F4A7C15ull;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001B3ull;
  return 1 + static_cast<double>((h ^ (h >> 29)) % 1000) * 0.1;
}

// Longer steps gain from every thread there is; shorter ones are tried on the calling thread alone,
// the fastest few tactics at least. Sharing has costs the clock does not see here (data that moves
// between the caches of two processors, workers that have to wake up): it must win by a tenth.
constexpr double kMaxAloneUs = 400, kAloneGain = 1.1, kAloneCandidates = 1.25;
// Half of the threads must not be slower than all to be taken, within what timing tells apart.
constexpr double kTeamGain = 1.02;
// What was timed before takes no longer than this beside new ones, or they are timed again: other
// programs had a part of the machine (BERT's products of two threads beside a cache of dense times:
// sparse ones came out slower while they are 1.3 times as fast).
constexpr double kAsKnown = 1.1;
// Where the cost model expects this of the threads, and the layer is longer than waking them takes,
// their being slower is measured more than once.
constexpr double kExpectedGain = 0.7, kSuspiciousUs = 15;

// Index of the fastest; a sparse tactic has to win by more than what timing tells apart.
size_t fastest_of(const std::vector<const Tactic*>& tactics, const std::vector<double>& us) {
  const auto weighed = [&](size_t k) {
    return us[k] * (engine::is_sparse_tactic(tactics[k]->name) ? engine::kSparseGain : 1);
  };
  size_t best = 0;
  for (size_t k = 1; k < us.size(); ++k)
    if (weighed(k) < weighed(best)) best = k;
  return best;
}

// "channel_last", "channel_last, 1 thread", "channel_last, 8 threads"
std::string label(const Formats& formats, int threads) {
  if (threads == 0) return to_string(formats);
  return fmt::format("{}, {} thread{}", to_string(formats), threads, threads == 1 ? "" : "s");
}

int largest_power_of_two_below(int count) {
  int power = 1;
  while (2 * power < count) power *= 2;
  return power;
}

bool has_bodies(const ir::Graph& graph) {
  return std::any_of(graph.layers().begin(), graph.layers().end(),
                     [](const auto& layer) { return !layer->bodies.empty(); });
}

}  // namespace

Selector::Selector(const SelectionContext& context)
    : context_(context), timer_(context.threads, context.options->avg_timing) {}
Selector::~Selector() = default;

size_t Selector::max_timed() const {
  if (context_.options->max_tactics >= 0) return std::max(context_.options->max_tactics, 1);
  if (context_.options->random_choices != 0) return 1000;
  static constexpr size_t kByLevel[] = {1, 2, 4, 8, 16, 1000};
  return kByLevel[std::clamp(context_.options->optimization_level, 0, 5)];
}

std::string Selector::refusal_anywhere(const Layer& layer, const Tactic& tactic,
                                       const Formats& formats) const {
  for (const runtime::Bindings* bindings : context_.others) {
    const LayerProblem made = make_problem(layer, formats, *bindings, context_.threads);
    if (!made.layer) continue;
    if (std::string refusal = tactic.refusal(made.problem); !refusal.empty())
      return refusal + " (elsewhere in the profile)";
  }
  return {};
}

std::string Selector::refusal_of_guess(const Layer& layer, const Tactic& tactic,
                                       const Formats& formats,
                                       const kernels::Problem& problem) const {
  const auto pack = [&](const kernels::Problem& p) {
    std::vector<std::byte> packed(tactic.packed_bytes ? tactic.packed_bytes(p) : 0);
    if (!packed.empty()) tactic.pack(p, packed.data());
    return packed;
  };
  const std::vector<std::byte> packed = pack(problem);
  if (packed.empty()) return {};
  const LayerProblem other = make_problem(layer, formats, *context_.other_guess, context_.threads);
  const bool same = other.layer && agrees_with_inference(layer, other, *context_.other_guess) &&
                    tactic.refusal(other.problem).empty() && pack(other.problem) == packed;
  return same ? "" : "weights would be packed for extents only running can tell";
}

std::string Selector::cache_key(const kernels::Problem& problem, const Tactic& tactic) const {
  std::string key = problem_key(problem);
  if (const WeightsFrom from = weights_from(context_.weights, problem); from != WeightsFrom::kL2)
    key += fmt::format(" weights={}", weights_from_name(from));
  return timing_key(tactic, key);
}

Status Selector::measure(const Layer& layer, const kernels::Problem& problem,
                         const std::vector<const Tactic*>& tactics, std::vector<double>& us) {
  if (const uint64_t seed = context_.options->random_choices; seed != 0) {
    for (size_t k = 0; k < tactics.size(); ++k)
      us[k] = random_us(seed, layer.name + tactics[k]->name);
    return ok_status();
  }
  if (context_.options->optimization_level == 0) return ok_status();
  const CpuInfo& cpu = cpu_info();
  kernels::Problem part = problem;
  const int64_t passes =
      runtime::cut_problem(part, {static_cast<int64_t>(cpu.l2_bytes) * problem.threads,
                                  static_cast<int64_t>(cpu.l3_bytes / 2)});
  CAMSHAFT_TRY(measure_part(layer, part, tactics, us));
  if (passes > 1)
    for (double& time : us) time *= static_cast<double>(passes);
  return ok_status();
}

void Selector::count_found(const std::string& key) {
  BuildStatistics& statistics = *context_.statistics;
  ++(context_.cache->is_new(key) ? statistics.reused_times : statistics.cache_hits);
}

Status Selector::measure_part(const Layer& layer, const kernels::Problem& problem,
                              const std::vector<const Tactic*>& tactics, std::vector<double>& us) {
  std::vector<const Tactic*> missing;
  std::optional<size_t> fastest_known;
  for (size_t k = 0; k < tactics.size(); ++k) {
    const std::string key = cache_key(problem, *tactics[k]);
    if (const auto time = context_.cache->find(key)) {
      us[k] = *time;
      if (!fastest_known || us[k] < us[*fastest_known]) fastest_known = k;
      count_found(key);
    } else {
      missing.push_back(tactics[k]);
    }
  }
  if (missing.empty()) return ok_status();
  if (context_.options->error_on_timing_cache_miss)
    return make_error(ErrorCode::kInvalidArgument, "layer {}: tactic {} is not in the timing cache",
                      layer.name, missing[0]->name);
  context_.statistics->timed_tactics += static_cast<int>(missing.size());
  if (fastest_known) missing.push_back(tactics[*fastest_known]);
  // Interleaving compares only what is timed together.
  std::vector<double> times =
      timer_.time(problem, missing, weights_from(context_.weights, problem));
  if (fastest_known) {
    time_again(problem, missing, kAsKnown * us[*fastest_known], times);
    times.back() = std::min(times.back(), us[*fastest_known]);
  }
  confirm_sparse(problem, missing, times);
  if (fastest_known && times.back() >= us[*fastest_known]) missing.pop_back();
  for (size_t k = 0; k < missing.size(); ++k)
    context_.cache->insert(cache_key(problem, *missing[k]), times[k]);
  for (size_t k = 0; k < tactics.size(); ++k)
    us[k] = *context_.cache->find(cache_key(problem, *tactics[k]));
  return ok_status();
}

void Selector::confirm_sparse(const kernels::Problem& problem,
                              const std::vector<const Tactic*>& tactics, std::vector<double>& us) {
  const size_t none = tactics.size();
  size_t dense = none, sparse = none;
  for (size_t k = 0; k < tactics.size(); ++k) {
    size_t& best = engine::is_sparse_tactic(tactics[k]->name) ? sparse : dense;
    if (best == none || us[k] < us[best]) best = k;
  }
  if (dense == none || sparse == none || us[sparse] * engine::kSparseGain >= us[dense]) return;
  const Tactic* const two[] = {tactics[dense], tactics[sparse]};
  const std::vector<double> again =
      timer_.time(problem, two, weights_from(context_.weights, problem));
  us[dense] = std::min(us[dense], again[0]);
  us[sparse] = std::min(us[sparse], again[1]);
}

void Selector::time_again(const kernels::Problem& problem,
                          const std::vector<const Tactic*>& tactics, double enough_us,
                          std::vector<double>& us) {
  const WeightsFrom weights = weights_from(context_.weights, problem);
  for (int pause_ms = 4; us.back() > enough_us && pause_ms <= 64 && again_ms_ > 0; pause_ms *= 4) {
    std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));
    again_ms_ -= pause_ms;
    const std::vector<double> again = timer_.time(problem, tactics, weights);
    for (size_t k = 0; k < us.size(); ++k) us[k] = std::min(us[k], again[k]);
  }
}

double Selector::remember(const kernels::Problem& problem, const Tactic& tactic, double us) {
  const std::string key = cache_key(problem, tactic);
  context_.cache->insert(key, us);
  return *context_.cache->find(key);  // as a file would have it
}

Status Selector::measure_profiles(const Layer& layer, const Formats& formats, int threads,
                                  const std::vector<const Tactic*>& tactics,
                                  std::vector<double>& us, std::vector<double>& scales) {
  const LayerProblem first = make_problem(layer, formats, *context_.opt, threads);
  CAMSHAFT_TRY(measure(layer, first.problem, tactics, us));
  if (context_.more_opts.empty() || tactics.empty()) return ok_status();
  const bool has_scales = !scales.empty();
  const double best_us = *std::min_element(us.begin(), us.end());
  for (size_t p = 0; p < context_.more_opts.size(); ++p) {
    const LayerProblem other = make_problem(layer, formats, *context_.more_opts[p], threads);
    if (!has_scales) scales.push_back(0);
    if (!other.layer) continue;
    std::vector<double> other_us;
    other_us.reserve(tactics.size());
    for (const Tactic* tactic : tactics) other_us.push_back(tactic->cost_us(other.problem));
    CAMSHAFT_TRY(measure(layer, other.problem, tactics, other_us));
    if (!has_scales) {
      const double best_other = *std::min_element(other_us.begin(), other_us.end());
      scales[p] = best_other > 0 ? best_us / best_other : 0;
    }
    for (size_t k = 0; k < us.size(); ++k) us[k] += other_us[k] * scales[p];
  }
  double sum = 1;
  for (const double scale : scales) sum += scale > 0;
  for (double& time : us) time /= sum;
  return ok_status();
}

Status Selector::choose_threads(const Layer& layer, const kernels::Problem& problem,
                                const Formats* formats, std::vector<double>& scales,
                                const std::vector<const Tactic*>& tactics, std::vector<double>& us,
                                Option& option, std::vector<engine::Candidate>* candidates) {
  const size_t best = fastest_of(tactics, us);
  option.kernel = {tactics[best], 0, us[best]};
  const bool random = context_.options->random_choices != 0;
  if (context_.threads == 1 || (context_.options->optimization_level == 0 && !random) ||
      (us[best] > kMaxAloneUs && !random))
    return ok_status();
  std::vector<const Tactic*> few;
  for (size_t k = 0; k < tactics.size(); ++k)
    if (us[k] <= us[best] * kAloneCandidates) few.push_back(tactics[k]);
  kernels::Problem alone = problem;
  alone.threads = 1;
  std::vector<double> alone_us(few.size());
  const int timed_before = context_.statistics->timed_tactics;
  CAMSHAFT_TRY(formats ? measure_profiles(layer, *formats, 1, few, alone_us, scales)
                       : measure(layer, alone, few, alone_us));
  const size_t fastest = fastest_of(few, alone_us);
  const bool measured = context_.statistics->timed_tactics > timed_before;
  const bool should_gain =
      tactics[best]->cost_us(problem) < kExpectedGain * tactics[best]->cost_us(alone);
  if (measured && should_gain && context_.more_opts.empty() && alone_us[fastest] > kSuspiciousUs) {
    std::vector<double> least{us[best]};
    time_again(problem, {tactics[best]}, alone_us[fastest] / kAloneGain, least);
    option.kernel.us = us[best] = remember(problem, *tactics[best], least[0]);
  }
  if (random ? alone_us[fastest] < 50 : alone_us[fastest] <= us[best] * kAloneGain) {
    option.kernel = {few[fastest], 1, alone_us[fastest]};
  }
  for (size_t k = 0; k < few.size() && candidates; ++k)
    candidates->push_back({few[k]->name, label(option.formats, 1), alone_us[k], "", false});
  return option.kernel.threads == 1
             ? ok_status()
             : choose_team(layer, problem, formats, scales, option, candidates);
}

// Half of the threads, a quarter … as long as fewer are no slower: what is waited for grows with
// every thread, what each has to do shrinks less and less.
Status Selector::choose_team(const Layer& layer, const kernels::Problem& problem,
                             const Formats* formats, std::vector<double>& scales, Option& option,
                             std::vector<engine::Candidate>* candidates) {
  const std::vector<const Tactic*> chosen{option.kernel.tactic};
  for (int threads = largest_power_of_two_below(context_.threads); threads > 1; threads /= 2) {
    kernels::Problem team = problem;
    team.threads = threads;
    std::vector<double> us{chosen[0]->cost_us(team)};
    CAMSHAFT_TRY(formats ? measure_profiles(layer, *formats, threads, chosen, us, scales)
                         : measure(layer, team, chosen, us));
    if (candidates)
      candidates->push_back({chosen[0]->name, label(option.formats, threads), us[0], "", false});
    const uint64_t seed = context_.options->random_choices;
    const bool slower = seed != 0 ? random_us(seed, layer.name + std::to_string(threads)) > 50
                                  : us[0] > option.kernel.us * kTeamGain;
    if (slower) break;
    option.kernel.threads = threads, option.kernel.us = us[0];
  }
  return ok_status();
}

namespace {

constexpr Formats kUniform[] = {{Format::kLinear, Format::kLinear},
                                {Format::kChannelLast, Format::kChannelLast}};

}  // namespace

Selector::FormatTimes Selector::predicted_us(const Layer& layer) const {
  FormatTimes us{kNoKernel, kNoKernel};
  for (size_t k = 0; k < us.size(); ++k) {
    const LayerProblem made = make_problem(layer, kUniform[k], *context_.opt, context_.threads);
    if (!made.layer) continue;
    for (const Tactic* tactic : kernels::tactics_for(layer.kind)) {
      if (engine::is_sparse_tactic(tactic->name) &&
          context_.options->sparsity == Sparsity::kDisable)
        continue;
      const std::vector<Formats> taken = formats_of(tactic->formats);
      const bool fits = !has_data_tensor(layer) ||
                        std::find(taken.begin(), taken.end(), kUniform[k]) != taken.end();
      if (fits && tactic->refusal(made.problem).empty() &&
          refusal_anywhere(layer, *tactic, kUniform[k]).empty())
        us[k] = std::min(us[k], tactic->cost_us(made.problem));
    }
  }
  return us;
}

Result<Selector::FormatTimes> Selector::fastest_us(const Layer& layer) {
  LayerOptions list;
  CAMSHAFT_TRY(list_options(layer, list));
  FormatTimes us{kNoKernel, kNoKernel};
  for (const Option& option : list.options)
    for (size_t k = 0; k < us.size(); ++k)
      if (option.kernel.tactic && (!has_data_tensor(layer) || option.formats == kUniform[k]))
        us[k] = std::min(us[k], option.kernel.us);
  return us;
}

void Selector::note(const Layer& layer, engine::Candidate candidate) {
  notes_[&layer].push_back(std::move(candidate));
}

Kernel Selector::reformat_kernel(const kernels::Problem& problem, std::string_view tensor) {
  const auto [entry, is_new] = reformats_.try_emplace(problem_key(problem));
  Option& option = entry->second;
  if (!is_new) return option.kernel;
  std::vector<const Tactic*> tactics;
  std::vector<double> us;
  for (const Tactic* tactic : kernels::tactics_for(LayerKind::kReformat)) {
    if (tactics.size() >= max_timed() || !tactic->refusal(problem).empty()) continue;
    tactics.push_back(tactic);
    us.push_back(tactic->cost_us(problem));
  }
  double bytes = 0;
  for (const kernels::ProblemTensor& t : problem.outputs)
    bytes += static_cast<double>(ir::element_count(t.extents));
  option.kernel.us = 0.2 + bytes * 2e-3;
  option.kernel.threads = option.kernel.us < kSharedReferenceUs ? 1 : 0;
  if (tactics.empty()) return option.kernel;
  std::vector<double> scales;
  if (!measure(*problem.layer, problem, tactics, us).ok() ||
      !choose_threads(*problem.layer, problem, nullptr, scales, tactics, us, option, nullptr).ok())
    option.kernel = {tactics[0], 0, us[0]};
  log_times("Autotuning Reformat", fmt::format("Optimizer Reformat(<in> -> {}) (Reformat)", tensor),
            problem, tactics, us);
  return option.kernel;
}

double Selector::reformat_us(const Tensor& tensor, const Formats& formats) {
  Layer layer;
  layer.kind = LayerKind::kReformat;
  layer.attrs = ir::NoAttrs();
  layer.inputs = layer.outputs = {const_cast<Tensor*>(&tensor)};
  const LayerProblem made = make_problem(layer, formats, *context_.opt, context_.threads);
  if (!made.layer) return 1;
  return reformat_kernel(made.problem, tensor.name).us;
}

void Selector::choose(const ir::Graph& graph, std::vector<LayerOptions>& options,
                      Choices& choices) {
  const ReformatTime reformat = [this](const Tensor& tensor, const Formats& formats) {
    return reformat_us(tensor, formats);
  };
  log(Severity::kVerbose, "=============== Computing reformatting costs");
  const std::vector<int> chosen =
      choose_options(graph, options, reformat, reduced_types_, *context_.opt, context_.threads);
  for (size_t k = 0; k < options.size(); ++k) {
    const Option& option = options[k].options[chosen[k]];
    Choice choice = choice_of(option);
    if (choice.kernel.tactic)
      log(Severity::kVerbose, ">>>>>>>>>>>>>>> Chose Runner Type: {} Tactic: 0x{:016x} for {}",
          ir::kind_name(graph.layers()[k]->kind), tactic_value(*choice.kernel.tactic),
          graph.layers()[k]->name);
    choice.candidates = std::move(options[k].candidates);
    for (engine::Candidate& c : choice.candidates)
      c.chosen = option.kernel.tactic && c.refusal.empty() &&
                 c.tactic == option.kernel.tactic->name &&
                 c.formats == label(option.formats, option.kernel.threads);
    choices[graph.layers()[k].get()] = std::move(choice);
  }
}

Status Selector::select(ir::Graph& graph, Choices& choices) {
  // Loops and branches hand tensors from one graph to another: there floats stay floats.
  if (depth_ == 0 && !has_bodies(graph)) reduced_types_ = context_.options->reduced_types;
  const int total = static_cast<int>(graph.layers().size());
  std::vector<LayerOptions> options(total);
  for (int k = 0; k < total; ++k) {
    if (context_.progress && !context_.progress(k, total))
      return make_error(ErrorCode::kCancelled, "the build was cancelled");
    const Layer& layer = *graph.layers()[k];
    CAMSHAFT_TRY(list_options(layer, options[k]));
    keep_wanted(layer, options[k]);
    keep_forced(options[k]);
    ++depth_;
    for (const auto& body : layer.bodies) CAMSHAFT_TRY(select(*body, choices));
    --depth_;
  }
  choose(graph, options, choices);
  return ok_status();
}

}  // namespace camshaft::tuner
