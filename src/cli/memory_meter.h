// SPDX-License-Identifier: Apache-2.0
// "[MemUsageChange] building the engine: CPU +12, now: CPU 48 (MiB)": how much more memory the
// process keeps resident after a phase.
#pragma once

#include <cstddef>

#include "cli/console.h"
#include "cli/wording.h"

namespace camshaft::cli {

class MemoryMeter {
 public:
  MemoryMeter(Console& console, const LogWords& words);
  // From the last report, or the meter's beginning, to now.
  void report(const char* phase);

 private:
  Console& console_;
  const LogWords& words_;
  size_t before_;
};

}  // namespace camshaft::cli
