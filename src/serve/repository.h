// SPDX-License-Identifier: Apache-2.0
// The folder of models: MODEL/config.pbtxt and MODEL/VERSION/model.onnx or model.engine. What is
// loaded of it, and loading and unloading, which one thread does.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "serve/model.h"

namespace camshaft::serve {

using ModelPtr = std::shared_ptr<Model>;

class Repository {
 public:
  // Logs to options.say; ends what is being built when it stops.
  Repository(std::vector<std::filesystem::path> folders, ModelOptions options);
  ~Repository();

  using Done = std::function<void(std::optional<Error>)>;
  // In the background, one after the other; `done` is called by the loading thread. Every model of
  // the folders.
  void load_all(Done done);
  void load_these(std::vector<std::string> names, Done done);
  // With `config` (JSON or text of a ModelConfig; empty: the file's). A loaded model is replaced
  // when the new one is ready.
  void load(const std::string& name, const std::string& config, Done done);
  void unload(const std::string& name, Done done);
  // Loads what is new or changed, unloads what is gone.
  void rescan();

  // version "": the highest that is loaded. An error says that the model is not there or not ready.
  std::optional<Error> find(const std::string& name, const std::string& version,
                            ModelPtr& model) const;
  std::vector<ModelPtr> loaded() const;
  std::vector<std::string> versions(const std::string& name) const;
  inference::RepositoryIndexResponse index(bool only_ready) const;
  bool is_loading() const;  // of load_all()

  // Refuses what comes, serves what waits (or refuses it, too), ends the models.
  void stop(bool refuses_waiting = false);

 private:
  struct Version {
    ModelPtr model;      // null: not ready
    std::string state;   // "READY", "LOADING", "UNAVAILABLE", "UNLOADING"
    std::string reason;  // why it is not ready
  };
  struct Entry {
    std::map<int64_t, Version> versions;
    std::string stamp;  // of its files when it was loaded
  };
  void post(std::function<void()> job);
  void load_list(std::function<std::vector<std::string>()> names, Done done);
  std::map<std::string, std::filesystem::path> scan() const;  // name to folder
  std::optional<Error> load_now(const std::string& name, const std::string& config);
  std::optional<Error> unload_now(const std::string& name);
  void set_state(const std::string& name, int64_t version, std::string state, std::string reason);
  void work();

  std::vector<std::filesystem::path> folders_;
  ModelOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Entry> entries_;
  std::deque<std::function<void()>> jobs_;
  std::atomic<bool> stopping_{false};
  int loading_all_ = 0;
  std::thread thread_;
};

}  // namespace camshaft::serve
