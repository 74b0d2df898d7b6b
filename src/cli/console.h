// SPDX-License-Identifier: Apache-2.0
// trtexec's log: "[11/21/2026-08:12:59] [I] text", errors and warnings to standard error, the rest
// to standard output.
#pragma once

#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include "camshaft/log.h"
#include "cli/terminal.h"

namespace camshaft::cli {

class Console : public Logger {
 public:
  explicit Console(bool verbose, const char* library_tag = "[CAM] ")
      : verbose_(verbose), library_tag_(library_tag) {}

  // Records of the library carry "[CAM]" after the level.
  void log(Severity severity, std::string_view text) override {
    write(severity, library_tag_, text);
  }

  template <class... Args>
  void info(fmt::format_string<Args...> format, Args&&... args) {
    write(Severity::kInfo, "", fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  void verbose(fmt::format_string<Args...> format, Args&&... args) {
    if (verbose_) write(Severity::kVerbose, "", fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  void warning(fmt::format_string<Args...> format, Args&&... args) {
    write(Severity::kWarning, "", fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  void error(fmt::format_string<Args...> format, Args&&... args) {
    write(Severity::kError, "", fmt::format(format, std::forward<Args>(args)...));
  }
  void section(std::string_view title) { info("=== {} ===", title); }

  bool is_verbose() const { return verbose_; }
  ProgressLine& progress() { return progress_; }

 private:
  void write(Severity severity, std::string_view tag, std::string_view text);

  bool verbose_;
  const char* library_tag_;
  std::mutex mutex_;
  ProgressLine progress_;
};

// "11/21/2026-08:12:59", local time.
std::string timestamp();

}  // namespace camshaft::cli
