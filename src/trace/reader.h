// SPDX-License-Identifier: Apache-2.0
// Reads a trace file in one pass: one thread decompresses and cuts, another fills the columns.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "base/status.h"
#include "trace/trace.h"

namespace camshaft::trace {

class ByteSource;

struct ReadProgress {
  uint64_t bytes_done = 0;  // of the file as it lies on disk
  uint64_t bytes_total = 0;
};

struct ReadOptions {
  std::function<void(const ReadProgress&)>
      progress;  // called from the reading thread, about every 4 MB
  const std::atomic<bool>* cancel = nullptr;
};

// Fails only when there is nothing to show: no such file, no event array at all, or cancelled.
// Damage inside is read around and told in Trace::report.
Result<Trace> read_trace(const std::string& path, const ReadOptions& options = {});
Result<Trace> read_trace(ByteSource& source, const ReadOptions& options = {});

}  // namespace camshaft::trace
