// SPDX-License-Identifier: Apache-2.0
#include "serve/repository.h"

#include <algorithm>
#include <charconv>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace camshaft::serve {

namespace fs = std::filesystem;

namespace {

Failure failure_of_load(const Status& status) {
  switch (status.code()) {
    case ErrorCode::kUnsupported:
      return Failure::kUnsupported;
    case ErrorCode::kInternal:
    case ErrorCode::kResources:
      return Failure::kInternal;
    default:
      return Failure::kInvalid;
  }
}

// "3" but neither "03" nor "3a"; -1: no version's name.
int64_t version_of(const std::string& name) {
  int64_t version = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), version);
  const bool is_whole = error == std::errc() && end == name.data() + name.size();
  return is_whole && version >= 0 && std::to_string(version) == name ? version : -1;
}

std::set<int64_t> versions_in(const fs::path& folder) {
  std::set<int64_t> versions;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    std::error_code gone;
    const int64_t version = version_of(entry.path().filename().string());
    if (version >= 0 && entry.is_directory(gone)) versions.insert(version);
  }
  return versions;
}

Result<std::set<int64_t>> chosen_versions(const ModelConfig& config, std::set<int64_t> present) {
  const inference::ModelVersionPolicy& policy = config.version_policy();
  if (present.empty())
    return make_error(ErrorCode::kIo, "there is no version's folder (MODEL/1/model.onnx)");
  if (policy.has_all()) return present;
  if (policy.has_specific()) {
    std::set<int64_t> chosen;
    for (const int64_t version : policy.specific().versions()) {
      if (!present.count(version))
        return make_error(ErrorCode::kIo, "version {} of version_policy is not there", version);
      chosen.insert(version);
    }
    return chosen;
  }
  const size_t count = std::max<size_t>(policy.latest().num_versions(), 1);
  while (present.size() > count) present.erase(present.begin());
  return present;
}

// Names, sizes and times of all files: another text when any has changed.
std::string stamp_of(const fs::path& folder) {
  std::vector<std::string> lines;
  std::error_code error;
  for (const auto& entry : fs::recursive_directory_iterator(folder, error)) {
    std::error_code gone;
    if (!entry.is_regular_file(gone)) continue;
    lines.push_back(fmt::format("{} {} {}\n", entry.path().string(), entry.file_size(gone),
                                entry.last_write_time(gone).time_since_epoch().count()));
  }
  std::sort(lines.begin(), lines.end());
  return fmt::format("{}", fmt::join(lines, ""));
}

}  // namespace

Repository::Repository(std::vector<fs::path> folders, ModelOptions options)
    : folders_(std::move(folders)), options_(std::move(options)) {
  options_.is_ending = [this] { return stopping_.load(); };
  thread_ = std::thread([this] { work(); });
}

Repository::~Repository() {
  stop();
}

void Repository::work() {
  for (;;) {
    std::function<void()> job;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job();
  }
}

void Repository::post(std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    if (!stopping_) {
      jobs_.push_back(std::move(job));
      changed_.notify_one();
      return;
    }
  }
  job();  // finds that the server ends
}

std::map<std::string, fs::path> Repository::scan() const {
  std::map<std::string, fs::path> found;
  for (const fs::path& folder : folders_) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error)) {
      std::error_code gone;
      const std::string name = entry.path().filename().string();
      if (entry.is_directory(gone) && !name.empty() && name[0] != '.')
        found.emplace(name, entry.path());
    }
  }
  return found;
}

void Repository::set_state(const std::string& name, int64_t version, std::string state,
                           std::string reason) {
  const std::lock_guard lock(mutex_);
  Version& entry = entries_[name].versions[version];
  entry.state = std::move(state);
  entry.reason = std::move(reason);
}

std::optional<Error> Repository::load_now(const std::string& name, const std::string& config) {
  if (stopping_) return Error{Failure::kUnavailable, "the server is ending"};
  const auto folders = scan();
  const auto folder = folders.find(name);
  if (folder == folders.end())
    return Error{Failure::kNotFound, fmt::format("failed to load '{}': the repository has no such "
                                                 "model",
                                                 name)};
  const auto failed = [&](const Status& status) {
    const std::string text = fmt::format("failed to load '{}': {}", name, status.message());
    options_.say(text);
    return Error{failure_of_load(status), text};
  };
  const std::string stamp = stamp_of(folder->second);
  Result<GivenConfig> given = config.empty()     ? read_config(folder->second)
                              : config[0] == '{' ? parse_config_json(config)
                                                 : parse_config_text(config);
  Result<std::set<int64_t>> chosen =
      given.ok() ? chosen_versions(given->config, versions_in(folder->second))
                 : Result<std::set<int64_t>>(given.status());
  if (!chosen.ok()) {
    std::set<int64_t> known = versions_in(folder->second);
    if (known.empty()) known.insert(1);
    bool is_serving = false;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [version, state] : entries_[name].versions)
        is_serving |= state.model != nullptr;
      entries_[name].stamp = stamp;
    }
    if (!is_serving) set_state(name, *known.rbegin(), "UNAVAILABLE", chosen.status().message());
    return failed(chosen.status());
  }
  std::optional<Error> error;
  for (const int64_t version : *chosen) {
    bool is_new = false;
    {
      const std::lock_guard lock(mutex_);
      Version& entry = entries_[name].versions[version];
      is_new = entry.model == nullptr;
      if (is_new) entry = {nullptr, "LOADING", ""};
    }
    Result<ModelPtr> model = Model::load(name, version, folder->second, *given, options_);
    if (!model.ok()) {
      if (is_new) set_state(name, version, "UNAVAILABLE", model.status().message());
      error = failed(model.status());
      continue;
    }
    ModelPtr old;
    {
      const std::lock_guard lock(mutex_);
      Version& entry = entries_[name].versions[version];
      old = std::exchange(entry.model, *model);
      entry.state = "READY";
      entry.reason.clear();
    }
    if (old) old->stop();
  }
  std::vector<ModelPtr> dropped;
  {
    const std::lock_guard lock(mutex_);
    Entry& entry = entries_[name];
    entry.stamp = stamp;
    for (auto& [version, state] : entry.versions) {
      if (chosen->count(version)) continue;
      if (state.model) dropped.push_back(std::exchange(state.model, nullptr));
      state.state = "UNAVAILABLE";
      state.reason = "not chosen by version_policy";
    }
  }
  for (const ModelPtr& model : dropped) model->stop();
  return error;
}

std::optional<Error> Repository::unload_now(const std::string& name) {
  std::vector<ModelPtr> models;
  {
    const std::lock_guard lock(mutex_);
    const auto entry = entries_.find(name);
    if (entry == entries_.end())
      return Error{Failure::kNotFound, fmt::format("the repository has no model '{}'", name)};
    for (auto& [version, state] : entry->second.versions) {
      if (state.model) models.push_back(std::exchange(state.model, nullptr));
      state.state = "UNLOADING";
    }
  }
  for (const ModelPtr& model : models) model->stop();
  {
    const std::lock_guard lock(mutex_);
    for (auto& [version, state] : entries_[name].versions) {
      state.state = "UNAVAILABLE";
      state.reason = "unloaded";
    }
  }
  if (!models.empty()) options_.say(fmt::format("model '{}': unloaded", name));
  return std::nullopt;
}

void Repository::load_list(std::function<std::vector<std::string>()> names, Done done) {
  {
    const std::lock_guard lock(mutex_);
    ++loading_all_;
  }
  post([this, names = std::move(names), done = std::move(done)] {
    std::optional<Error> first;
    for (const std::string& name : names())
      if (auto error = load_now(name, ""); error && !first) first = std::move(error);
    {
      const std::lock_guard lock(mutex_);
      --loading_all_;
    }
    done(std::move(first));
  });
}

void Repository::load_all(Done done) {
  load_list(
      [this] {
        std::vector<std::string> names;
        for (const auto& [name, folder] : scan()) names.push_back(name);
        return names;
      },
      std::move(done));
}

void Repository::load_these(std::vector<std::string> names, Done done) {
  load_list([names = std::move(names)] { return names; }, std::move(done));
}

void Repository::load(const std::string& name, const std::string& config, Done done) {
  post([this, name, config, done = std::move(done)] { done(load_now(name, config)); });
}

void Repository::unload(const std::string& name, Done done) {
  post([this, name, done = std::move(done)] { done(unload_now(name)); });
}

void Repository::rescan() {
  post([this] {
    const auto folders = scan();
    std::vector<std::string> changed, gone;
    for (const auto& [name, folder] : folders) {
      const std::string stamp = stamp_of(folder);
      const std::lock_guard lock(mutex_);
      const auto entry = entries_.find(name);
      if (entry == entries_.end() || entry->second.stamp != stamp) changed.push_back(name);
    }
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [name, entry] : entries_)
        if (!folders.count(name)) gone.push_back(name);
    }
    for (const std::string& name : changed) load_now(name, "");
    for (const std::string& name : gone) {
      unload_now(name);
      const std::lock_guard lock(mutex_);
      entries_.erase(name);
    }
  });
}

std::optional<Error> Repository::find(const std::string& name, const std::string& version,
                                      ModelPtr& model) const {
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.find(name);
  if (entry == entries_.end())
    return Error{Failure::kNotFound,
                 fmt::format("Request for unknown model: '{}' is not found", name)};
  const auto& versions = entry->second.versions;
  if (version.empty()) {
    for (auto at = versions.rbegin(); at != versions.rend(); ++at)
      if ((model = at->second.model)) return std::nullopt;
    return Error{Failure::kUnavailable,
                 fmt::format("Request for unknown model: '{}' has no available versions", name)};
  }
  const auto at = versions.find(version_of(version));
  if (at == versions.end())
    return Error{
        Failure::kNotFound,
        fmt::format("Request for unknown model: '{}' version {} is not found", name, version)};
  model = at->second.model;
  if (model) return std::nullopt;
  return Error{Failure::kUnavailable,
               fmt::format("Request for unknown model: '{}' version {} is not at ready state", name,
                           version)};
}

std::vector<ModelPtr> Repository::loaded() const {
  const std::lock_guard lock(mutex_);
  std::vector<ModelPtr> models;
  for (const auto& [name, entry] : entries_)
    for (const auto& [version, state] : entry.versions)
      if (state.model) models.push_back(state.model);
  return models;
}

std::vector<std::string> Repository::versions(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> versions;
  const auto entry = entries_.find(name);
  if (entry == entries_.end()) return versions;
  for (const auto& [version, state] : entry->second.versions)
    if (state.model) versions.push_back(std::to_string(version));
  return versions;
}

inference::RepositoryIndexResponse Repository::index(bool only_ready) const {
  inference::RepositoryIndexResponse index;
  const auto folders = scan();
  const std::lock_guard lock(mutex_);
  const auto add = [&](const std::string& name, const std::string& version,
                       const std::string& state, const std::string& reason) {
    if (only_ready && state != "READY") return;
    auto* model = index.add_models();
    model->set_name(name);
    model->set_version(version);
    model->set_state(state);
    model->set_reason(reason);
  };
  for (const auto& [name, entry] : entries_)
    for (const auto& [version, state] : entry.versions)
      add(name, std::to_string(version), state.state, state.reason);
  for (const auto& [name, folder] : folders)
    if (!entries_.count(name)) add(name, "", "", "");
  return index;
}

bool Repository::is_loading() const {
  const std::lock_guard lock(mutex_);
  return loading_all_ > 0;
}

void Repository::stop(bool refuses_waiting) {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  for (const ModelPtr& model : loaded()) model->stop(refuses_waiting);
}

}  // namespace camshaft::serve
