// SPDX-License-Identifier: Apache-2.0
// One version of a model that is served: an engine, its instances, and the queue they take batches
// from.
#pragma once

#include <condition_variable>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "serve/model_config.h"
#include "serve/request_queue.h"
#include "serve/runner.h"
#include "serve/statistics.h"
#include "serve/wakes.h"

namespace camshaft::serve {

struct ModelOptions {
  int threads = 0;                 // of all instances together; 0: as many as this process may use
  double latency_goal_ms = 0;      // 0: none
  size_t queue_size = 4096;        // requests that may wait for a model
  int64_t default_max_batch = 16;  // of networks with an open batch and no configuration
  int64_t measure_ms = 1500;       // what measuring batch sizes may take, beyond one run of each
  std::filesystem::path cache_folder;
  uint64_t cache_limit = 0;
  std::function<void(const std::string&)> say = [](const std::string&) {};  // the server's log
  std::function<bool()> is_ending = [] { return false; };                   // gives up building
};

class Model : public Sleeper, public std::enable_shared_from_this<Model> {
 public:
  // Builds or loads FOLDER/VERSION/model.*, measures it and starts its instances. `config` as given
  // for the model.
  static Result<std::shared_ptr<Model>> load(const std::string& name, int64_t version,
                                             const std::filesystem::path& folder,
                                             GivenConfig config, const ModelOptions& options);
  ~Model() override;

  const std::string& name() const { return config_.name(); }
  int64_t version() const { return version_; }
  const ModelConfig& config() const { return config_; }
  const Engine& engine() const { return *engine_; }
  const Statistics& statistics() const { return statistics_; }
  bool is_batched() const { return config_.max_batch_size() > 0; }
  // Of an output's classes, one per line of its label file; empty: it has none.
  const std::vector<std::string>& labels(const std::string& output) const;

  // Brings the inputs into the engine's order and holds them to it. An error names the input.
  std::optional<Error> check(Request& request) const;
  // Calls request->done sooner or later, at once where the queue is full. To be checked before.
  void submit(const RequestPtr& request);
  // Its instances look for requests.
  void wake() override;
  // No more requests; what waits is served, or refused. Returns when the instances have ended.
  void stop(bool refuses_waiting = false);

  size_t waiting() const;
  double load_seconds() const { return load_seconds_; }
  inference::ModelMetadataResponse metadata() const;  // less the list of versions
  inference::ModelStatistics statistics_message() const;
  // Why the last batches are as they are, and what that was decided from.
  nlohmann::ordered_json batches(size_t count) const;

 private:
  Model() = default;
  Status open_engine(const std::filesystem::path& folder, GivenConfig& given,
                     const ModelOptions& options);
  Status build_engine(const std::filesystem::path& file, GivenConfig& given,
                      const ModelOptions& options);
  Status read_policies(const ModelOptions& options);
  Status read_labels(const std::filesystem::path& folder);
  Status make_runners();
  Status measure(const ModelOptions& options);
  Status warm_up(const std::filesystem::path& folder);
  Result<RequestPtr> sample_request(int64_t rows) const;

  void work(int instance);
  struct Batch {
    std::vector<RequestPtr> requests;
    BatchRecord record;
  };
  bool next_batch(Batch& batch);  // waits for one; false: the model ends
  void run_batch(Runner& runner, Batch& batch);
  void run_alone(Runner& runner, std::span<const RequestPtr> requests);
  void finish(const RequestPtr& request, Answer&& answer);
  void fail(const RequestPtr& request, Failure failure, const std::string& message);

  ModelConfig config_;
  int64_t version_ = 1;
  std::optional<Engine> engine_;
  int threads_per_instance_ = 1;
  double load_seconds_ = 0;
  std::map<std::string, std::vector<std::string>> labels_;
  bool is_dynamic_ = false;  // batches are formed of several requests
  batching::LatencyBounds bounds_;
  size_t queue_size_ = 0;

  std::vector<std::unique_ptr<Runner>> runners_;
  std::vector<std::thread> threads_;
  Statistics statistics_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  RequestQueue queue_;
  batching::BatchTimes times_;
  bool stopping_ = false;
};

}  // namespace camshaft::serve
