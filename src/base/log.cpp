// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <atomic>

namespace camshaft {
namespace {
std::atomic<Logger*> installed_logger{nullptr};
std::atomic<Severity> most_verbose_wanted{Severity::kInfo};
}  // namespace

void set_logger(Logger* logger, Severity most_verbose) {
  most_verbose_wanted = most_verbose;
  installed_logger = logger;
}

bool log_enabled(Severity severity) {
  return installed_logger.load(std::memory_order_relaxed) != nullptr &&
         severity <= most_verbose_wanted.load(std::memory_order_relaxed);
}

void log_text(Severity severity, std::string_view text) {
  if (Logger* logger = installed_logger) logger->log(severity, text);
}

}  // namespace camshaft
