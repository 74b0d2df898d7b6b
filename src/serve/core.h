// SPDX-License-Identifier: Apache-2.0
// What every protocol asks of the server: state, descriptions, inferences. The protocols only
// translate.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "serve/repository.h"

namespace camshaft::serve {

struct CoreOptions {
  std::vector<std::filesystem::path> folders;
  ModelOptions model;
  bool allows_control = true;  // loading and unloading by clients
};

class Core {
 public:
  explicit Core(CoreOptions options)
      : repository_(std::move(options.folders), std::move(options.model)),
        allows_control_(options.allows_control) {}

  Repository& repository() { return repository_; }
  const Repository& repository() const { return repository_; }

  bool is_ready() const { return !draining_ && !repository_.is_loading(); }
  // From now on not ready; what is asked for is still answered.
  void drain() { draining_ = true; }

  static inference::ServerMetadataResponse metadata();
  std::optional<Error> model_metadata(const std::string& name, const std::string& version,
                                      inference::ModelMetadataResponse& metadata) const;
  std::optional<Error> model_config(const std::string& name, const std::string& version,
                                    ModelConfig& config) const;
  // name "": of all models.
  std::optional<Error> statistics(const std::string& name, const std::string& version,
                                  inference::ModelStatisticsResponse& statistics) const;
  // `config` as for Repository::load. `done` may be called at once.
  void load(const std::string& name, const std::string& config, const Repository::Done& done);
  void unload(const std::string& name, const Repository::Done& done);

  // Sets `model`, checks the request and hands it over: request->done is called if no error comes
  // back.
  std::optional<Error> infer(const std::string& name, const std::string& version,
                             const RequestPtr& request, ModelPtr& model) const;

 private:
  Repository repository_;
  bool allows_control_;
  std::atomic<bool> draining_{false};
};

// Prometheus' text form.
std::string metrics_text(const Core& core);

// The `count` largest of each row as "value:index:label" (of a row: all extents but the batch), row
// by row.
struct Classes {
  Dims dims;  // batch (if there is one) and count
  std::vector<std::string> texts;
};
std::optional<Error> classify(const Model& model, const Tensor& output, int64_t count,
                              Classes& classes);

}  // namespace camshaft::serve
