// SPDX-License-Identifier: Apache-2.0
// A trace file sent on as gzip, with counter events put in front of its own; a few megabytes of
// memory whatever its size.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace camshaft::server {

// Calls `sink` with pieces of the packed stream; `sink` returns false to stop.
Status stream_trace(const std::string& file, const std::string& counters,
                    const std::function<bool(std::string_view)>& sink);

}  // namespace camshaft::server
