// SPDX-License-Identifier: Apache-2.0
#include "fuzz/graphs/differential.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include <fmt/ranges.h>

#include "fuzz/graphs/tolerance.h"
#include "ir/text.h"
#include "kernels/kernel.h"
#include "runtime/context.h"
#include "tuner/builder.h"

namespace camshaft::fuzz {
namespace {

using kernels::Value;

constexpr std::byte kCanary{0xA5}, kPoison{0xFF};  // poison: NaN as a float, -1 as an integer
constexpr size_t kGuard = 64;
constexpr size_t kStrays = 1;  // runs of inputs that may contradict each other, per engine

// Memory with a place for a tensor that begins at any multiple of its element, guarded behind.
class Place {
 public:
  Place(size_t bytes, size_t element, uint64_t& state) : bytes_(bytes) {
    const size_t shift = (ir::next_random(state) >> 20) % 16 * element;
    memory_.reset(new std::byte[bytes + shift + kGuard]);
    data_ = memory_.get() + shift;
    std::fill_n(data_, bytes, kPoison);
    std::fill_n(data_ + bytes, kGuard, kCanary);
  }
  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  bool intact() const {
    return std::all_of(data_ + bytes_, data_ + bytes_ + kGuard,
                       [](std::byte b) { return b == kCanary; });
  }

 private:
  size_t bytes_;
  std::unique_ptr<std::byte[]> memory_;
  std::byte* data_;
};

// An input in memory of exactly its size, so that a sanitizer sees what is read behind it.
class Input {
 public:
  Input(const Value& value, uint64_t& state) : bytes_(value.bytes().size()) {
    const size_t element = std::max<size_t>(ir::bits_of(value.type) / 8, 1);
    const size_t shift = (ir::next_random(state) >> 20) % 16 * element;
    memory_.reset(new std::byte[bytes_ + shift]);
    data_ = memory_.get() + shift;
    std::copy_n(value.bytes().data(), bytes_, data_);
  }
  Status bind(runtime::Context& context, int k) const {
    return context.set_input(k, data_, bytes_);
  }

 private:
  size_t bytes_;
  std::unique_ptr<std::byte[]> memory_;
  std::byte* data_;
};

std::string text_of(const Status& status) {
  return status.message();
}

tuner::BuildOptions options_for(const Case& test, const Variant& variant) {
  tuner::BuildOptions options;
  options.profiles = profiles_of(test);
  options.threads = variant.threads;
  options.optimization_level = 0;
  options.random_choices = variant.choices;
  options.use_timing_cache = false;
  options.sparsity = tuner::Sparsity::kEnable;
  if (variant.bfloat16) options.reduced_types = {ir::DataType::kBFloat16};
  options.forced_way = variant.way;
  return options;
}

class Comparison {
 public:
  Comparison(const Case& test, const Variant& variant, std::vector<std::vector<Value>>& inputs,
             std::vector<std::vector<Value>>& expected, std::vector<Tolerance>& tolerances)
      : test_(test),
        variant_(variant),
        inputs_(inputs),
        expected_(expected),
        tolerances_(tolerances),
        state_(variant.choices * 31 + static_cast<uint64_t>(variant.isa)) {}

  std::optional<Failure> run() {
    if (variant_.way != kAllWays) return run_engine(nullptr);
    int ways = 1;
    for (variant_.way = 0; variant_.way < ways; ++variant_.way)
      if (auto failed = run_engine(&ways)) return failed;
    return std::nullopt;
  }

 private:
  std::optional<Failure> run_engine(int* ways) {
    tuner::BuildStatistics statistics;
    auto bytes = tuner::build(clone(*test_.graph), options_for(test_, variant_), &statistics);
    if (ways) *ways = std::max(*ways, statistics.most_ways);
    if (!bytes.ok()) return failure("build", text_of(bytes.status()));
    auto engine = engine::Engine::load(std::move(bytes).value());
    if (!engine.ok()) return failure("load", text_of(engine.status()));
    note(**engine);
    runtime::ContextOptions context_options;
    context_options.threads = variant_.threads;
    context_options.spin_us = 0;
    context_options.kept_shapes = 1;  // plans become those of other shapes where they lie
    auto context = runtime::Context::create(*engine, context_options);
    if (!context.ok()) return failure("context", text_of(context.status()));
    for (size_t number = 0; number < kStrays && !test_.symbols.empty(); ++number)
      stray(**context, number);
    for (size_t run = 0; run < test_.runs.size(); ++run) {
      if (expected_[run].empty() && !test_.graph->outputs().empty()) continue;
      if (auto failed = execute(**context, run)) return failed;
    }
    return std::nullopt;
  }

  Failure failure(std::string what, std::string text) const {
    return {std::move(what), std::move(text), variant_};
  }

  void note(const engine::Engine& engine) {
    ++coverage().engines;
    for (const engine::PlanStep& step : engine.plan().steps)
      if (!step.tactic.empty())
        ++coverage().tactics[fmt::format("{} {}", step.tactic, isa_name(step.isa))];
    for (const ir::RewriteRecord& record : engine.record().rewrites)
      if (record.action != ir::Action::kDecline) ++coverage().passes[record.pass];
  }

  // Inputs that may not go together: an error or not, nothing may be read or written beyond them,
  // and what runs next is right.
  void stray(runtime::Context& context, size_t number) {
    const std::vector<Value> values = stray_inputs_of(test_, number);
    std::vector<Input> inputs;
    Status status;
    for (size_t k = 0; k < values.size(); ++k) inputs.emplace_back(values[k], state_);
    for (size_t k = 0; k < values.size() && status.ok(); ++k) {
      const int input = static_cast<int>(k);
      status = context.set_input_extents(input, values[k].extents);
      if (status.ok()) status = inputs[k].bind(context, input);
    }
    for (size_t k = 0; k < test_.graph->outputs().size(); ++k)
      context.set_output(static_cast<int>(k), nullptr, 0).ok();
    if (status.ok()) status = context.execute();
    ++(status.ok() ? coverage().strays_run : coverage().strays_refused);
  }

  std::optional<Failure> execute(runtime::Context& context, size_t run) {
    const auto at = [&](const std::string& what) { return fmt::format("run {}: {}", run, what); };
    std::vector<Input> inputs;
    for (size_t k = 0; k < inputs_[run].size(); ++k) {
      inputs.emplace_back(inputs_[run][k], state_);
      const int number = static_cast<int>(k);
      Status status = context.set_input_extents(number, inputs_[run][k].extents);
      if (status.ok()) status = inputs.back().bind(context, number);
      if (!status.ok()) return failure("run", at(text_of(status)));
    }
    // Outputs in the caller's memory and in the context's, in turn.
    std::vector<Place> places;
    for (size_t k = 0; k < expected_[run].size(); ++k) {
      const Value& want = expected_[run][k];
      places.emplace_back(want.bytes().size(), std::max<size_t>(ir::bits_of(want.type) / 8, 1),
                          state_);
      const bool given = (ir::next_random(state_) >> 30) % 2 == 0;
      context
          .set_output(static_cast<int>(k), given ? places.back().data() : nullptr,
                      places.back().bytes())
          .ok();
    }
    if (const Status status = context.execute(); !status.ok())
      return failure("run", at(text_of(status)));
    ++coverage().executions;
    for (size_t k = 0; k < expected_[run].size(); ++k)
      if (auto failed = compare(context, run, k, places[k])) return failed;
    return std::nullopt;
  }

  std::optional<Failure> compare(runtime::Context& context, size_t run, size_t k,
                                 const Place& place) {
    const Value& want = expected_[run][k];
    const std::string name = fmt::format("run {}: output {}", run, test_.graph->outputs()[k]->name);
    if (!place.intact()) return failure("overrun", name + ": written behind its end");
    const auto extents = context.output_extents(static_cast<int>(k));
    if (!extents.ok()) return failure("extents", name + ": " + text_of(extents.status()));
    ++coverage().outputs;
    if (!(extents.value() == want.extents)) {
      if (tolerances_[run].is_unsettled(k)) return std::nullopt;
      return failure("extents",
                     fmt::format("{} is [{}], not [{}]", name, fmt::join(extents.value(), ","),
                                 fmt::join(want.extents, ",")));
    }
    const auto* data = static_cast<const std::byte*>(context.output_data(static_cast<int>(k)));
    if (place.bytes() > 0 && !data) return failure("extents", name + " has no data");
    std::vector<std::byte> bytes(want.bytes().size());
    if (!bytes.empty()) std::copy_n(data, bytes.size(), bytes.data());
    const auto j = tolerances_[run].judge(
        k, kernels::make_value(want.type, want.extents, std::move(bytes)).value());
    coverage().loose += j.verdict == Tolerance::Verdict::kWithin;
    coverage().unsettled += j.verdict == Tolerance::Verdict::kUnsettled;
    if (j.verdict != Tolerance::Verdict::kDiffers) return std::nullopt;
    return failure(ir::is_floating(want.type) ? "values" : "integers",
                   fmt::format("{} is off by {:.3g} at {}, largest value {:.3g}, allowed {:.3g}",
                               name, j.error, j.at, j.largest, j.allowed));
  }

  const Case& test_;
  Variant variant_;
  std::vector<std::vector<Value>>& inputs_;
  std::vector<std::vector<Value>>& expected_;
  std::vector<Tolerance>& tolerances_;
  uint64_t state_;
};

}  // namespace

std::string to_string(const Variant& variant) {
  return fmt::format("{}, {} thread{}, choices {}{}{}", isa_name(variant.isa), variant.threads,
                     variant.threads > 1 ? "s" : "", variant.choices,
                     variant.bfloat16 ? ", bfloat16" : "",
                     variant.way >= 0 ? fmt::format(", way {}", variant.way) : "");
}

std::string plan_of(const Case& test, const Variant& variant) {
  force_isa(variant.isa);
  auto bytes = tuner::build(clone(*test.graph), options_for(test, variant));
  auto engine = bytes.ok() ? engine::Engine::load(std::move(bytes).value()) : bytes.status();
  force_isa(cpu_info().best_isa);
  if (!engine.ok()) return "# " + engine.status().message() + "\n";
  std::string text;
  for (const engine::PlanStep& step : (*engine)->plan().steps)
    text += fmt::format("# {}: {}\n", step.layer.name,
                        step.is_view          ? "view"
                        : step.tactic.empty() ? "reference"
                                              : step.tactic);
  return text;
}

std::vector<Variant> variants_for(uint64_t seed, int rounds) {
  std::vector<Variant> variants;
  const Isa best = cpu_info().best_isa;
  variants.push_back({best, 1, 0, false});
  for (int round = 0; round < rounds; ++round)
    for (int isa = static_cast<int>(best); isa >= 0; --isa) {
      const auto choices = seed * 64 + static_cast<uint64_t>(round * kIsaCount + isa) + 1;
      variants.push_back({static_cast<Isa>(isa), (seed + round + isa) % 4 == 0 ? 2 : 1, choices,
                          (seed + isa) % 16 == 1});
    }
  return variants;
}

std::vector<Variant> all_ways_for(uint64_t seed) {
  std::vector<Variant> variants;
  for (int isa = static_cast<int>(cpu_info().best_isa); isa >= 0; --isa)
    for (const int threads : {1, 2}) {
      const auto choices = seed * 64 + static_cast<uint64_t>(isa * 2 + threads);
      variants.push_back({static_cast<Isa>(isa), threads, choices, false, kAllWays});
    }
  return variants;
}

std::optional<Failure> find_failure(const Case& test, const std::vector<Variant>& variants) {
  std::vector<std::vector<Value>> inputs, expected;
  std::vector<Tolerance> tolerances, loose;
  bool any = false;
  for (size_t run = 0; run < test.runs.size(); ++run) {
    inputs.push_back(inputs_of(test, run));
    kernels::EvaluateOptions options;
    options.max_iterations = 1000;
    auto values = kernels::evaluate(*test.graph, inputs.back(), options);
    if (!values.ok() && values.status().code() == ErrorCode::kInternal)
      return Failure{"oracle", values.status().message(), {}};
    if (!values.ok() && values.status().code() == ErrorCode::kUnsupported) {  // nor can an engine
      ++coverage().refused;
      return std::nullopt;
    }
    expected.push_back(values.ok() ? std::move(values).value() : std::vector<Value>());
    any |= !expected.back().empty();
    tolerances.emplace_back(test, inputs.back(), expected.back(), false);
    loose.emplace_back(test, inputs.back(), expected.back(), true);
  }
  if (!any) {
    ++coverage().refused;
    return std::nullopt;
  }
  for (const auto& layer : test.graph->layers())
    ++coverage().kinds[std::string(layer->kind == ir::LayerKind::kGeneric
                                       ? layer->as<ir::GenericAttrs>().op_type
                                       : ir::kind_name(layer->kind))];
  std::optional<Failure> failed;
  for (const Variant& variant : variants) {
    force_isa(variant.isa);
    failed =
        Comparison(test, variant, inputs, expected, variant.bfloat16 ? loose : tolerances).run();
    if (failed) break;
  }
  force_isa(cpu_info().best_isa);
  return failed;
}

Coverage& coverage() {
  static Coverage covered;
  return covered;
}

}  // namespace camshaft::fuzz
