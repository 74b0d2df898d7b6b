// SPDX-License-Identifier: Apache-2.0
// Logging: the library never prints, it hands records to the one Logger a program installs (none:
// records are dropped).
#pragma once

#include <string_view>
#include <utility>

#include <fmt/core.h>

#include "camshaft/log.h"  // Severity, Logger, set_logger(): public

namespace camshaft {

bool log_enabled(Severity severity);
void log_text(Severity severity, std::string_view text);

template <class... Args>
void log(Severity severity, fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(severity)) log_text(severity, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace camshaft
