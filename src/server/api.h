// SPDX-License-Identifier: Apache-2.0
// The plugin's routes: a path with parameters in, a status and JSON out. Knows nothing of sockets.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "server/run_store.h"
#include "trace/views.h"

namespace camshaft::server {

using Parameters = std::multimap<std::string, std::string>;

struct Answer {
  int status = 200;
  std::string body;  // JSON; of errors a plain message
  std::string content_type = "application/json";
  bool always_gzip = false;  // the original sends these packed whatever the client accepts
  // Of large answers instead of a body: writes it piece by piece, false when it could not finish.
  std::function<bool(const trace::TextSink&)> stream;
  // Of /trace: this file is the answer, with the counter events written by `counters` (may be
  // empty) put in front of its own; packed once as long as `profile` is there.
  std::string trace_file;
  std::shared_ptr<const trace::Profile> profile;
  std::function<bool(const trace::TextSink&)> counters;
  std::string left_out;  // the name of an event of the file that is not sent
};

Answer failure(int status, std::string message);

// `path` is relative to the plugin's mount point: "/overview".
Answer answer(const RunStore& store, const std::string& path, const Parameters& parameters);

}  // namespace camshaft::server
