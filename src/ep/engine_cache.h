// SPDX-License-Identifier: Apache-2.0
// The folder of built engines, shared with the Python package: one file for each model, machine and
// set of options, the least recently used ones removed when it grows.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "camshaft/engine.h"
#include "onnx/model.h"

namespace camshaft::ep {

// A name for the engine of this model under these options on this machine.
std::string engine_key(const onnx_import::Model& model, const std::string& facts);

class EngineCache {
 public:
  // "": $CAMSHAFT_CACHE_DIR, else $XDG_CACHE_HOME/camshaft, else ~/.cache/camshaft.
  explicit EngineCache(const std::string& folder);

  // A file that cannot be read back counts as missing.
  std::optional<Engine> load(const std::string& key) const;
  Status store(const std::string& key, const Engine& engine) const;
  const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path path(const std::string& key) const { return folder_ / (key + ".engine"); }
  void trim(const std::filesystem::path& keep) const;

  std::filesystem::path folder_;
};

}  // namespace camshaft::ep
