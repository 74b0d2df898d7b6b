// SPDX-License-Identifier: Apache-2.0
// Logging: the library never prints, it hands records to the one Logger a program installs (none:
// records are dropped).
#pragma once

#include <cstdint>
#include <string_view>

#include "camshaft/status.h"

namespace camshaft {

// The severities of trtexec's log lines, in falling order: F, E, W, I, V.
enum class Severity : uint8_t { kInternalError, kError, kWarning, kInfo, kVerbose };

class CAMSHAFT_API Logger {
 public:
  virtual ~Logger() = default;
  // Called from any thread; `text` may hold several lines, which are one record.
  virtual void log(Severity severity, std::string_view text) = 0;
};

// Installs `logger` (not owned, may be null) for the whole process and the most talkative severity
// it wants.
CAMSHAFT_API void set_logger(Logger* logger, Severity most_verbose = Severity::kInfo);

}  // namespace camshaft
