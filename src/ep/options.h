// SPDX-License-Identifier: Apache-2.0
// What a session asks of this execution provider: ep.camshaftexecutionprovider.KEY among its
// configuration entries.
#pragma once

#include <map>
#include <string>

#include "base/status.h"
#include "camshaft/builder.h"

namespace camshaft::ep {

struct Options {
  int threads = 0;   // 0: as many as the session's own pool has
  int contexts = 0;  // runs at the same time; 0: as many as the processors allow
  int spin_us = 50;
  size_t min_nodes = 3;
  bool cache = true;
  std::string cache_dir;  // "": the default folder
  BuildOptions build;     // one profile if shapes were given

  // ONNX Runtime's own, for EPContext.
  bool context_enable = false, context_embed = false;
  std::string context_file, context_prefix;

  // What changes an engine, for the cache's key.
  std::string facts() const;
};

inline constexpr const char* kOptionPrefix = "ep.camshaftexecutionprovider.";

// All configuration entries of a session; kInvalidArgument for an unknown key of ours or a bad
// value.
Result<Options> read_options(const std::map<std::string, std::string>& entries);

}  // namespace camshaft::ep
