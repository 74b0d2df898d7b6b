// SPDX-License-Identifier: Apache-2.0
#include "api/engine_cache.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "base/status.h"

namespace camshaft::api {

namespace fs = std::filesystem;

namespace {

const char* variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != 0 ? value : nullptr;
}

}  // namespace

fs::path EngineCache::default_folder() {
  if (const char* folder = variable("CAMSHAFT_CACHE_DIR")) return folder;
  if (const char* folder = variable("XDG_CACHE_HOME")) return fs::path(folder) / "camshaft";
  if (const char* home = variable("HOME")) return fs::path(home) / ".cache" / "camshaft";
  return {};
}

uint64_t EngineCache::default_limit() {
  if (const char* bytes = variable("CAMSHAFT_CACHE_BYTES"))
    return std::strtoull(bytes, nullptr, 10);
  return uint64_t{4} << 30;
}

std::optional<Engine> EngineCache::load(const std::string& key, std::string& note) const {
  std::error_code error;
  if (folder_.empty() || !fs::exists(path(key), error)) return std::nullopt;
  Result<Engine> engine = Engine::load(path(key));
  if (!engine.ok()) {
    note = engine.status().message() + "; it is built again";
    return std::nullopt;
  }
  fs::last_write_time(path(key), fs::file_time_type::clock::now(), error);
  return std::move(engine).value();
}

Status EngineCache::store(const std::string& key, const Engine& engine) const {
  if (folder_.empty()) return ok_status();
  std::error_code error;
  fs::create_directories(folder_, error);
  CAMSHAFT_TRY(engine.save(path(key)).with_context("the engine is not kept"));
  trim(path(key));
  return ok_status();
}

void EngineCache::trim(const fs::path& keep) const {
  struct File {
    fs::file_time_type used;
    uint64_t bytes;
    fs::path path;
  };
  std::vector<File> files;
  uint64_t total = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    std::error_code gone;  // another process may remove it meanwhile
    if (entry.path().extension() != ".engine") continue;
    const uint64_t bytes = entry.file_size(gone);
    const auto used = entry.last_write_time(gone);
    if (gone) continue;
    files.push_back({used, bytes, entry.path()});
    total += bytes;
  }
  std::sort(files.begin(), files.end(),
            [](const File& a, const File& b) { return a.used < b.used; });
  for (const File& file : files) {
    if (total <= limit_) return;
    if (file.path == keep) continue;
    fs::remove(file.path, error);
    total -= file.bytes;
  }
}

}  // namespace camshaft::api
