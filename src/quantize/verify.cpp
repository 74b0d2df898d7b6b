// SPDX-License-Identifier: Apache-2.0
#include "quantize/verify.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_set>

#include "passes/pipeline.h"
#include "quantize/placement.h"
#include "quantize/simulate.h"
#include "tuner/builder.h"
#include "tuner/refine_shapes.h"
#include "tuner/specialize.h"

namespace camshaft::quantize {
namespace {

using ir::DataType;
using ir::Tensor;

Status progress(const SamplerOptions& options, const char* phase, size_t done, size_t total) {
  if (options.progress && !options.progress(phase, static_cast<int>(done), static_cast<int>(total)))
    return make_error(ErrorCode::kCancelled, "the comparison was cancelled");
  return ok_status();
}

Result<std::unique_ptr<ir::Graph>> simulated(const GraphSource& source,
                                             const std::set<std::string>& keep_float) {
  CAMSHAFT_ASSIGN(std::unique_ptr<ir::Graph> graph, source());
  CAMSHAFT_TRY(simulate_quantization(*graph, keep_float).status());
  return graph;
}

// The float network to compare with.
Result<std::unique_ptr<ir::Graph>> float_network(const GraphSource& network,
                                                 const GraphSource& reference) {
  return reference ? reference() : simulated(network, {"*"});
}

TensorReport report_of(const ir::Graph& graph, const Tensor& tensor) {
  TensorReport report;
  report.tensor = tensor.name;
  report.layer = tensor.producer != nullptr ? tensor.producer->name : "";
  report.is_output = graph.is_output(&tensor);
  return report;
}

// Float tensors that layers of both graphs make, in the order of `graph`.
std::vector<TensorReport> common_tensors(const ir::Graph& graph, const ir::Graph& reference) {
  std::unordered_set<std::string_view> names;
  for (const auto& tensor : reference.tensors())
    if (tensor->producer != nullptr && tensor->type == DataType::kFloat &&
        !is_constant_expression(tensor.get()))
      names.insert(tensor->name);
  std::vector<TensorReport> reports;
  for (const auto& layer : graph.layers())
    for (const Tensor* tensor : layer->outputs)
      if (tensor != nullptr && tensor->type == DataType::kFloat && names.count(tensor->name) > 0)
        reports.push_back(report_of(graph, *tensor));
  return reports;
}

std::vector<std::string> names_of(const std::vector<TensorReport>& reports) {
  std::vector<std::string> names;
  names.reserve(reports.size());
  for (const TensorReport& report : reports) names.push_back(report.tensor);
  return names;
}

// Runs both on every sample; the reference's values stay valid until its next run.
Status run_pair(Sampler& sampler, Sampler& reference, std::span<const Sample> samples,
                const SamplerOptions& options, const char* phase,
                std::vector<TensorReport>& reports, const OutputsVisit& visit) {
  std::vector<std::span<const float>> expected(reports.size());
  std::vector<OutputPair> outputs;
  for (size_t k = 0; k < samples.size(); ++k) {
    if (phase != nullptr) CAMSHAFT_TRY(progress(options, phase, k, samples.size()));
    CAMSHAFT_TRY(reference.run(
        samples[k], [&](size_t tensor, const ir::Extents&, std::span<const float> values) {
          expected[tensor] = values;
          return ok_status();
        }));
    outputs.clear();
    CAMSHAFT_TRY(sampler.run(
        samples[k], [&](size_t tensor, const ir::Extents& extents, std::span<const float> values) {
          if (values.size() != expected[tensor].size())
            return make_error(ErrorCode::kInvalidArgument,
                              "tensor {} has {} elements, in the reference {}",
                              reports[tensor].tensor, values.size(), expected[tensor].size());
          reports[tensor].error.add(values, expected[tensor]);
          if (reports[tensor].is_output)
            outputs.push_back({reports[tensor].tensor, extents, values, expected[tensor]});
          return ok_status();
        }));
    if (visit) visit(outputs);
  }
  return ok_status();
}

std::vector<TensorReport> float_outputs(const ir::Graph& graph) {
  std::vector<TensorReport> reports;
  for (const Tensor* output : graph.outputs())
    if (output->type == DataType::kFloat && output->producer != nullptr)
      reports.push_back(report_of(graph, *output));
  return reports;
}

// Element k (row major) of a view of any strides.
float element(const kernels::TensorView& view, int64_t k) {
  int64_t offset = 0;
  for (int d = view.rank - 1; d >= 0; --d) {
    offset += k % view.extents[d] * view.strides[d];
    k /= view.extents[d];
  }
  return view.as<float>()[offset];
}

std::vector<float> row_major(const kernels::TensorView& view) {
  std::vector<float> values(static_cast<size_t>(view.elements()));
  for (size_t k = 0; k < values.size(); ++k) values[k] = element(view, static_cast<int64_t>(k));
  return values;
}

bool same_extents(const kernels::TensorView& view, const ir::Extents& extents) {
  return static_cast<size_t>(view.rank) == extents.size() &&
         std::equal(extents.begin(), extents.end(), view.extents);
}

// One engine beside the interpreter.
class EngineComparison {
 public:
  EngineComparison(const ir::Graph& graph, runtime::Context& context, bool all_tensors,
                   const OutputsVisit& visit)
      : graph_(graph), context_(context), all_tensors_(all_tensors), visit_(visit) {}

  // `optimized`: as the engine's builder left the graph.
  Status run(const Sample& sample, const ir::Graph& optimized, ThreadPool* pool) {
    CAMSHAFT_TRY(interpret(sample, pool));
    const engine::Plan& plan = context_.engine().plan();
    for (size_t k = 0; k < plan.inputs.size(); ++k) {
      const kernels::Value& value =
          sample.find(plan.tensors[static_cast<size_t>(plan.inputs[k])].name)->second;
      CAMSHAFT_TRY(context_.set_input_extents(static_cast<int>(k), value.extents));
      CAMSHAFT_TRY(
          context_.set_input(static_cast<int>(k), value.bytes().data(), value.bytes().size()));
    }
    if (all_tensors_) {
      context_.set_profiler([&](const runtime::LayerTime& time) { compare_step(time.step); });
      const Status status = context_.execute();
      context_.set_profiler(nullptr);
      CAMSHAFT_TRY(status);
    }
    CAMSHAFT_ASSIGN(const std::vector<tuner::LayerCheck> checks,
                    tuner::check_layers(optimized, inputs_of(sample), context_, pool));
    for (const tuner::LayerCheck& check : checks) add(check);
    return compare_outputs();
  }

  EngineReport take() {
    EngineReport report;
    for (const std::string& name : order_) report.tensors.push_back(std::move(reports_.at(name)));
    report.layers = std::move(layers_);
    return report;
  }

 private:
  std::vector<kernels::Value> inputs_of(const Sample& sample) const {
    std::vector<kernels::Value> inputs;
    for (const Tensor* input : graph_.inputs()) inputs.push_back(sample.at(input->name));
    return inputs;
  }

  void add(const tuner::LayerCheck& check) {
    const auto at =
        std::find_if(layers_.begin(), layers_.end(),
                     [&](const tuner::LayerCheck& known) { return known.tensor == check.tensor; });
    if (at == layers_.end()) {
      layers_.push_back(check);
      return;
    }
    at->error = std::max(at->error, check.error);
    at->largest = std::max(at->largest, check.largest);
    at->differing += check.differing;
    at->elements += check.elements;
  }

  Status interpret(const Sample& sample, ThreadPool* pool) {
    kernels::EvaluateOptions options;
    options.pool = pool;
    expected_.clear();
    if (all_tensors_)
      options.observer = [&](const ir::Layer& layer,
                             std::span<const kernels::Value* const> outputs) {
        for (size_t k = 0; k < outputs.size(); ++k)
          if (outputs[k] != nullptr && layer.outputs[k] != nullptr)
            expected_[layer.outputs[k]->name] = {*outputs[k], layer.name};
      };
    CAMSHAFT_ASSIGN(outputs_, kernels::evaluate(graph_, inputs_of(sample), options));
    return ok_status();
  }

  TensorReport& report(const std::string& name, const std::string& layer) {
    const auto [at, is_new] = reports_.try_emplace(name, TensorReport{name, layer, false, {}});
    if (is_new) order_.push_back(name);
    return at->second;
  }

  void compare_step(int index) {
    const engine::Plan& plan = context_.engine().plan();
    const engine::PlanStep& step = plan.steps[static_cast<size_t>(index)];
    if (step.is_view) return;
    for (const int output : step.outputs) {
      if (output == engine::kNoTensor) continue;
      const engine::PlanTensor& tensor = plan.tensors[static_cast<size_t>(output)];
      const auto found = expected_.find(tensor.name);
      const auto view = context_.tensor_view(output);
      if (found == expected_.end() || !view.ok() || tensor.role == engine::TensorRole::kOutput ||
          view.value().type != DataType::kFloat ||
          !same_extents(view.value(), found->second.value.extents))
        continue;
      report(tensor.name, step.layer.name)
          .error.add(row_major(view.value()), found->second.value.as<float>());
    }
  }

  Status compare_outputs() {
    std::vector<OutputPair> pairs;
    for (size_t k = 0; k < outputs_.size(); ++k) {
      if (outputs_[k].type != DataType::kFloat) continue;
      const auto* values = static_cast<const float*>(context_.output_data(static_cast<int>(k)));
      const Tensor* const tensor = graph_.outputs()[k];
      TensorReport& made =
          report(tensor->name, tensor->producer != nullptr ? tensor->producer->name : "");
      made.is_output = true;
      const std::span<const float> expected = outputs_[k].as<float>();
      made.error.add({values, expected.size()}, expected);
      pairs.push_back({tensor->name, outputs_[k].extents, {values, expected.size()}, expected});
    }
    if (visit_) visit_(pairs);
    return ok_status();
  }

  struct Expected {
    kernels::Value value;
    std::string layer;
  };
  const ir::Graph& graph_;
  runtime::Context& context_;
  bool all_tensors_;
  const OutputsVisit& visit_;
  std::map<std::string, Expected> expected_;
  std::vector<kernels::Value> outputs_;
  std::map<std::string, TensorReport> reports_;
  std::vector<std::string> order_;
  std::vector<tuner::LayerCheck> layers_;
};

// Outputs with these layers in float against values computed once.
class Evaluator {
 public:
  Evaluator(const GraphSource& network, std::span<const Sample> samples,
            const SamplerOptions& options)
      : network_(network), samples_(samples) {
    options_.threads = options.threads;  // progress is told by evaluation
  }

  Status prepare(const GraphSource& reference) {
    CAMSHAFT_ASSIGN(auto graph, float_network(network_, reference));
    for (const TensorReport& output : float_outputs(*graph)) outputs_.push_back(output.tensor);
    CAMSHAFT_ASSIGN(const auto sampler,
                    Sampler::create(std::move(graph), outputs_, samples_, options_));
    for (const Sample& sample : samples_)
      CAMSHAFT_TRY(
          sampler->run(sample, [&](size_t, const ir::Extents&, std::span<const float> values) {
            expected_.emplace_back(values.begin(), values.end());
            return ok_status();
          }));
    return ok_status();
  }

  Result<std::vector<TensorReport>> evaluate(const std::set<std::string>& keep_float) {
    ++evaluations_;
    CAMSHAFT_ASSIGN(auto graph, simulated(network_, keep_float));
    std::vector<TensorReport> reports = float_outputs(*graph);
    if (names_of(reports) != outputs_)
      return make_error(ErrorCode::kInvalidArgument,
                        "the reference has other outputs than the network");
    CAMSHAFT_ASSIGN(const auto sampler,
                    Sampler::create(std::move(graph), outputs_, samples_, options_));
    size_t next = 0;
    for (const Sample& sample : samples_)
      CAMSHAFT_TRY(sampler->run(
          sample, [&](size_t tensor, const ir::Extents&, std::span<const float> values) {
            reports[tensor].error.add(values, expected_[next++]);
            return ok_status();
          }));
    return reports;
  }

  int evaluations() const { return evaluations_; }

 private:
  const GraphSource& network_;
  std::span<const Sample> samples_;
  SamplerOptions options_;
  std::vector<std::string> outputs_;
  std::vector<std::vector<float>> expected_;  // by sample, then output
  int evaluations_ = 0;
};

double noise_of(const std::vector<TensorReport>& outputs) {
  double noise = 0;
  for (const TensorReport& output : outputs)
    noise += std::pow(10.0, -output.error.signal_to_noise() / 10);
  return noise;
}

std::set<std::string> first_of(const std::vector<BisectResult::Layer>& layers, size_t count) {
  std::set<std::string> names;
  for (size_t k = 0; k < count; ++k) names.insert(layers[k].name);
  return names;
}

}  // namespace

Result<std::vector<TensorReport>> compare_quantized(const GraphSource& network,
                                                    const GraphSource& reference,
                                                    std::span<const Sample> samples,
                                                    const SamplerOptions& options,
                                                    const OutputsVisit& visit) {
  CAMSHAFT_ASSIGN(auto graph, simulated(network, {}));
  CAMSHAFT_ASSIGN(auto exact, float_network(network, reference));
  std::vector<TensorReport> reports = common_tensors(*graph, *exact);
  const std::vector<std::string> names = names_of(reports);
  CAMSHAFT_ASSIGN(const auto expected, Sampler::create(std::move(exact), names, samples, options));
  CAMSHAFT_ASSIGN(const auto sampler, Sampler::create(std::move(graph), names, samples, options));
  CAMSHAFT_TRY(run_pair(*sampler, *expected, samples, options, "Comparing", reports, visit));
  return reports;
}

Result<EngineReport> compare_engine(const GraphSource& network, std::span<const Sample> samples,
                                    const EngineOptions& options, const OutputsVisit& visit) {
  CAMSHAFT_ASSIGN(auto graph, network());
  const bool quantized = has_quantization(*graph);
  if (quantized) CAMSHAFT_TRY(simulate_quantization(*graph, {}).status());
  for (const Sample& sample : samples) CAMSHAFT_TRY(check_sample(*graph, sample));
  tuner::BuildOptions build;
  build.threads = options.threads;
  build.optimization_level = options.optimization_level;
  build.timing_cache_file = options.timing_cache_file;
  build.progress = options.progress;
  if (engine::Profile profile = profile_of(*graph, samples); !profile.empty())
    build.profiles.push_back(std::move(profile));
  CAMSHAFT_ASSIGN(auto to_build, network());
  CAMSHAFT_ASSIGN(GrowingBytes bytes, tuner::build(std::move(to_build), build));
  CAMSHAFT_ASSIGN(auto engine, engine::Engine::load(std::move(bytes)));
  runtime::ContextOptions context_options;
  context_options.threads = options.threads;
  context_options.cut_batches_beyond = runtime::kWholeBatches;
  CAMSHAFT_ASSIGN(const auto context, runtime::Context::create(engine, context_options));
  ThreadPool pool(options.threads > 0 ? options.threads : default_num_threads());
  CAMSHAFT_ASSIGN(const auto optimized, network());
  tuner::resolve_extents(*optimized);
  tuner::specialize(*optimized, build.profiles);
  tuner::refine_shapes(*optimized, nullptr);
  passes::PassRecord record;
  CAMSHAFT_TRY(passes::optimize(*optimized, record));
  EngineComparison comparison(*graph, *context, !quantized, visit);
  for (size_t k = 0; k < samples.size(); ++k) {
    CAMSHAFT_TRY(progress(options, "Comparing", k, samples.size()));
    CAMSHAFT_TRY(comparison.run(samples[k], *optimized, &pool));
  }
  return comparison.take();
}

bool Bound::holds(const std::vector<TensorReport>& outputs) const {
  return std::all_of(outputs.begin(), outputs.end(), [&](const TensorReport& output) {
    return (min_cosine < 0 || output.error.cosine() >= min_cosine) &&
           (max_error < 0 || output.error.max_absolute() <= max_error);
  });
}

Result<BisectResult> bisect_precision(const GraphSource& network, const GraphSource& reference,
                                      std::span<const Sample> samples, const Bound& bound,
                                      const SamplerOptions& options) {
  BisectResult result;
  CAMSHAFT_ASSIGN(auto graph, network());
  CAMSHAFT_ASSIGN(const Simulation simulation, simulate_quantization(*graph, {}));
  const std::vector<std::string>& names = simulation.quantized_layers;
  if (names.empty())
    return make_error(ErrorCode::kInvalidArgument, "the network has no quantized layer");
  Evaluator evaluator(network, samples, options);
  CAMSHAFT_TRY(evaluator.prepare(reference));
  CAMSHAFT_ASSIGN(result.before, evaluator.evaluate({}));
  result.after = result.before;
  result.holds = bound.holds(result.before);
  result.evaluations = evaluator.evaluations();
  if (result.holds) return result;
  const std::set<std::string> all(names.begin(), names.end());
  for (size_t k = 0; k < names.size(); ++k) {
    CAMSHAFT_TRY(progress(options, "Measuring layers", k, names.size()));
    std::set<std::string> others = all;
    others.erase(names[k]);
    CAMSHAFT_ASSIGN(const auto outputs, evaluator.evaluate(others));
    result.layers.push_back({names[k], noise_of(outputs)});
  }
  std::stable_sort(result.layers.begin(), result.layers.end(),
                   [](const auto& a, const auto& b) { return a.noise > b.noise; });

  // The shortest prefix of the worst layers.
  size_t too_few = 0, enough = names.size();
  CAMSHAFT_ASSIGN(result.after, evaluator.evaluate(all));
  if (!bound.holds(result.after)) {
    result.keep_float = names;
    result.evaluations = evaluator.evaluations();
    return result;
  }
  while (enough - too_few > 1) {
    CAMSHAFT_TRY(progress(options, "Searching", names.size() - (enough - too_few), names.size()));
    const size_t middle = (too_few + enough) / 2;
    CAMSHAFT_ASSIGN(auto outputs, evaluator.evaluate(first_of(result.layers, middle)));
    if (bound.holds(outputs)) {
      enough = middle;
      result.after = std::move(outputs);
    } else {
      too_few = middle;
    }
  }
  std::set<std::string> kept = first_of(result.layers, enough);
  for (size_t k = enough; k-- > 0;) {  // the least of them first
    CAMSHAFT_TRY(progress(options, "Pruning", enough - 1 - k, enough));
    std::set<std::string> fewer = kept;
    fewer.erase(result.layers[k].name);
    CAMSHAFT_ASSIGN(auto outputs, evaluator.evaluate(fewer));
    if (!bound.holds(outputs)) continue;
    kept = std::move(fewer);
    result.after = std::move(outputs);
  }
  result.holds = true;
  for (const std::string& name : names)
    if (kept.count(name) > 0) result.keep_float.push_back(name);
  result.evaluations = evaluator.evaluations();
  return result;
}

}  // namespace camshaft::quantize
