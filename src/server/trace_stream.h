// SPDX-License-Identifier: Apache-2.0
// A trace file sent on as gzip, with counter events put in front of its own; a few megabytes of
// memory whatever its size.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "server/body.h"

namespace camshaft::server {

// Calls `sink` with pieces of the packed stream; `sink` returns false to stop. `counters` (may be
// empty) writes events with commas between them. The last event named `left_out` is, if it is not
// "".
Status stream_trace(const std::string& file, const std::function<bool(const PieceSink&)>& counters,
                    const std::string& left_out, const PieceSink& sink);

}  // namespace camshaft::server
