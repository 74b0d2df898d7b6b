// SPDX-License-Identifier: Apache-2.0
#include "cli/memory_meter.h"

#include <unistd.h>

#include <cstdint>
#include <fstream>

#include <fmt/format.h>

namespace camshaft::cli {
namespace {

size_t resident_bytes() {
  std::ifstream status("/proc/self/statm");
  size_t pages = 0, resident = 0;
  status >> pages >> resident;
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

MemoryMeter::MemoryMeter(Console& console, const LogWords& words)
    : console_(console), words_(words), before_(resident_bytes()) {}

void MemoryMeter::report(const char* phase) {
  const size_t now = resident_bytes();
  const auto change = (static_cast<int64_t>(now) - static_cast<int64_t>(before_)) / (1 << 20);
  const bool gpu = words_.is_trtexec();
  console_.log(Severity::kInfo,
               fmt::format("[MemUsageChange] {}: CPU {:+}{}, now: CPU {}{} (MiB)", phase, change,
                           gpu ? ", GPU +0" : "", now >> 20, gpu ? ", GPU 0" : ""));
  before_ = now;
}

}  // namespace camshaft::cli
