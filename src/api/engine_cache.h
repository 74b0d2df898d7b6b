// SPDX-License-Identifier: Apache-2.0
// The folder of built engines that the server, the execution provider and the Python package share:
// a file for each model, machine and set of options, the least recently used ones removed beyond a
// number of bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "camshaft/engine.h"

namespace camshaft::api {

class EngineCache {
 public:
  // An empty folder: nothing is kept.
  EngineCache(std::filesystem::path folder, uint64_t limit)
      : folder_(std::move(folder)), limit_(limit) {}

  // $CAMSHAFT_CACHE_DIR, else $XDG_CACHE_HOME/camshaft, else ~/.cache/camshaft; "" without a home.
  static std::filesystem::path default_folder();
  static uint64_t default_limit();  // $CAMSHAFT_CACHE_BYTES, else 4 GiB

  // Empty: there is none, or it cannot be read (`note` says so then).
  std::optional<Engine> load(const std::string& key, std::string& note) const;
  Status store(const std::string& key, const Engine& engine) const;

 private:
  std::filesystem::path path(const std::string& key) const { return folder_ / (key + ".engine"); }
  void trim(const std::filesystem::path& keep) const;

  std::filesystem::path folder_;
  uint64_t limit_;
};

}  // namespace camshaft::api
