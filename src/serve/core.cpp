// SPDX-License-Identifier: Apache-2.0
#include "serve/core.h"

#include "camshaft/version.h"

namespace camshaft::serve {
namespace {

constexpr const char* kExtensions[] = {"classification",      "model_repository",
                                       "model_configuration", "statistics",
                                       "binary_tensor_data",  "schedule_policy"};

Error control_refused() {
  return {Failure::kUnavailable,
          "explicit model load / unload is not allowed: the server was started with "
          "--model-control-mode none"};
}

}  // namespace

inference::ServerMetadataResponse Core::metadata() {
  inference::ServerMetadataResponse metadata;
  metadata.set_name("camshaft");
  metadata.set_version(CAMSHAFT_VERSION);
  for (const char* extension : kExtensions) metadata.add_extensions(extension);
  return metadata;
}

std::optional<Error> Core::model_metadata(const std::string& name, const std::string& version,
                                          inference::ModelMetadataResponse& metadata) const {
  ModelPtr model;
  if (auto error = repository_.find(name, version, model)) return error;
  metadata = model->metadata();
  if (version.empty())
    for (const std::string& one : repository_.versions(name)) metadata.add_versions(one);
  else
    metadata.add_versions(version);
  return std::nullopt;
}

std::optional<Error> Core::model_config(const std::string& name, const std::string& version,
                                        ModelConfig& config) const {
  ModelPtr model;
  if (auto error = repository_.find(name, version, model)) return error;
  config = model->config();
  return std::nullopt;
}

std::optional<Error> Core::statistics(const std::string& name, const std::string& version,
                                      inference::ModelStatisticsResponse& statistics) const {
  if (name.empty()) {
    for (const ModelPtr& model : repository_.loaded())
      *statistics.add_model_stats() = model->statistics_message();
    return std::nullopt;
  }
  std::vector<std::string> versions = {version};
  if (version.empty()) versions = repository_.versions(name);
  if (versions.empty()) versions = {""};  // says why there is none
  for (const std::string& one : versions) {
    ModelPtr model;
    if (auto error = repository_.find(name, one, model)) return error;
    *statistics.add_model_stats() = model->statistics_message();
  }
  return std::nullopt;
}

void Core::load(const std::string& name, const std::string& config, const Repository::Done& done) {
  if (!allows_control_) return done(control_refused());
  repository_.load(name, config, done);
}

void Core::unload(const std::string& name, const Repository::Done& done) {
  if (!allows_control_) return done(control_refused());
  repository_.unload(name, done);
}

std::optional<Error> Core::infer(const std::string& name, const std::string& version,
                                 const RequestPtr& request, ModelPtr& model) const {
  if (!model)
    if (auto error = repository_.find(name, version, model)) return error;
  if (auto error = model->check(*request)) return error;
  model->submit(request);
  return std::nullopt;
}

}  // namespace camshaft::serve
