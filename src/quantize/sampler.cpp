// SPDX-License-Identifier: Apache-2.0
#include "quantize/sampler.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include <fmt/ranges.h>

#include "tuner/builder.h"

namespace camshaft::quantize {
namespace {

using ir::Tensor;

std::string to_string(const ir::Extents& extents) {
  return fmt::format("{}", fmt::join(extents.begin(), extents.end(), "x"));
}

// Where each tensor will be found: passes may rename tensors, but inputs and outputs keep their
// order.
Status mark_outputs(ir::Graph& graph, const std::vector<std::string>& names,
                    std::vector<Sampler::Source>& sources) {
  std::unordered_map<std::string_view, Tensor*> by_name;
  for (const auto& tensor : graph.tensors()) by_name[tensor->name] = tensor.get();
  for (const std::string& name : names) {
    const auto found = by_name.find(name);
    if (found == by_name.end() || found->second->type != ir::DataType::kFloat)
      return make_error(ErrorCode::kInvalidArgument, "the network has no float tensor \"{}\"",
                        name);
    Tensor* const tensor = found->second;
    const bool is_input = tensor->producer == nullptr;
    if (!is_input && !graph.is_output(tensor)) graph.add_output(tensor);
    const std::vector<Tensor*>& list = graph.outputs();
    const auto at = std::find(list.begin(), list.end(), tensor) - list.begin();
    sources.push_back({is_input, is_input ? -1 : static_cast<int>(at)});
  }
  return ok_status();
}

// Nothing can be learnt from a sample with NaN or infinity in it.
Status check_finite(const Tensor& input, const kernels::Value& value) {
  if (value.type != ir::DataType::kFloat) return ok_status();
  const std::span<const float> values = value.as<float>();
  const auto found = std::find_if_not(values.begin(), values.end(),
                                      [](float element) { return std::isfinite(element); });
  if (found == values.end()) return ok_status();
  return make_error(ErrorCode::kInvalidArgument, "input \"{}\": element {} is {}", input.name,
                    found - values.begin(), std::isnan(*found) ? "NaN (not a number)" : "infinite");
}

}  // namespace

engine::Profile profile_of(const ir::Graph& graph, std::span<const Sample> samples) {
  engine::Profile profile;
  for (const Tensor* input : graph.inputs()) {
    const bool dynamic =
        !input->has_rank || std::any_of(input->shape.begin(), input->shape.end(),
                                        [](ir::Dim dim) { return !dim.is_known(); });
    if (!dynamic || samples.empty()) continue;
    const ir::Extents& first = samples[0].at(input->name).extents;
    engine::ShapeRange range{input->name, first, first, first};
    for (const Sample& sample : samples) {
      const ir::Extents& extents = sample.at(input->name).extents;
      for (size_t d = 0; d < std::min(extents.size(), first.size()); ++d) {
        range.min[d] = std::min(range.min[d], extents[d]);
        range.max[d] = std::max(range.max[d], extents[d]);
      }
    }
    profile.push_back(std::move(range));
  }
  return profile;
}

Status check_sample(const ir::Graph& graph, const Sample& sample) {
  for (const Tensor* input : graph.inputs()) {
    const auto found = sample.find(input->name);
    if (found == sample.end())
      return make_error(ErrorCode::kInvalidArgument, "there are no values for input \"{}\"",
                        input->name);
    const kernels::Value& value = found->second;
    bool fits = !input->has_rank || value.extents.size() == input->shape.size();
    for (size_t d = 0; fits && input->has_rank && d < value.extents.size(); ++d)
      fits = !input->shape[d].is_known() || input->shape[d].extent() == value.extents[d];
    if (!fits)
      return make_error(ErrorCode::kInvalidArgument,
                        "input \"{}\": values of shape {} do not fit the network", input->name,
                        to_string(value.extents));
    if (value.type != input->type)
      return make_error(ErrorCode::kInvalidArgument, "input \"{}\" is {}, the values are {}",
                        input->name, ir::type_name(input->type), ir::type_name(value.type));
    CAMSHAFT_TRY(check_finite(*input, value));
  }
  return ok_status();
}

Sampler::~Sampler() = default;

Result<std::unique_ptr<Sampler>> Sampler::create(std::unique_ptr<ir::Graph> graph,
                                                 const std::vector<std::string>& tensors,
                                                 std::span<const Sample> samples,
                                                 const SamplerOptions& options) {
  for (const Sample& sample : samples) CAMSHAFT_TRY(check_sample(*graph, sample));
  auto sampler = std::unique_ptr<Sampler>(new Sampler);
  sampler->tensors_ = tensors;
  CAMSHAFT_TRY(mark_outputs(*graph, tensors, sampler->sources_));
  tuner::BuildOptions build;
  build.optimization_level = 0;
  build.use_timing_cache = false;
  build.threads = options.threads;
  build.verbosity = engine::Verbosity::kNone;
  build.progress = options.progress;
  if (engine::Profile profile = profile_of(*graph, samples); !profile.empty())
    build.profiles.push_back(std::move(profile));
  CAMSHAFT_ASSIGN(GrowingBytes bytes, tuner::build(std::move(graph), build));
  CAMSHAFT_ASSIGN(auto engine, engine::Engine::load(std::move(bytes)));
  runtime::ContextOptions context_options;
  context_options.threads = options.threads;
  context_options.cut_batches_beyond = runtime::kWholeBatches;
  CAMSHAFT_ASSIGN(sampler->context_, runtime::Context::create(engine, context_options));
  return sampler;
}

Status Sampler::run(const Sample& sample, const Visit& visit) {
  const engine::Plan& plan = context_->engine().plan();
  for (size_t k = 0; k < plan.inputs.size(); ++k) {
    const std::string& name = plan.tensors[static_cast<size_t>(plan.inputs[k])].name;
    const auto found = sample.find(name);
    if (found == sample.end())
      return make_error(ErrorCode::kInvalidArgument, "there are no values for input \"{}\"", name);
    const int input = static_cast<int>(k);
    CAMSHAFT_TRY(context_->set_input_extents(input, found->second.extents));
    CAMSHAFT_TRY(
        context_->set_input(input, found->second.bytes().data(), found->second.bytes().size()));
  }
  CAMSHAFT_TRY(context_->execute());
  for (size_t k = 0; k < tensors_.size(); ++k) {
    if (sources_[k].is_input) {
      const kernels::Value& value = sample.find(tensors_[k])->second;
      CAMSHAFT_TRY(visit(k, value.extents, value.as<float>()));
      continue;
    }
    CAMSHAFT_ASSIGN(const ir::Extents extents, context_->output_extents(sources_[k].output));
    const auto* values = static_cast<const float*>(context_->output_data(sources_[k].output));
    CAMSHAFT_TRY(visit(k, extents, {values, static_cast<size_t>(ir::element_count(extents))}));
  }
  return ok_status();
}

}  // namespace camshaft::quantize
