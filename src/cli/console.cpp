// SPDX-License-Identifier: Apache-2.0
#include "cli/console.h"

#include <ctime>

namespace camshaft::cli {

std::string timestamp() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char text[32];
  std::strftime(text, sizeof text, "%m/%d/%Y-%H:%M:%S", &local);
  return text;
}

void Console::write(Severity severity, std::string_view tag, std::string_view text) {
  static constexpr char kLetters[] = {'F', 'E', 'W', 'I', 'V'};
  static constexpr Style kStyles[] = {Style::kRed, Style::kRed, Style::kYellow, Style::kPlain,
                                      Style::kDim};
  if (severity == Severity::kVerbose && !verbose_) return;
  const int level = static_cast<int>(severity);
  std::FILE* stream = severity <= Severity::kWarning ? stderr : stdout;
  const std::string line = fmt::format("[{}] [{}] {}{}", timestamp(), kLetters[level], tag, text);
  const std::lock_guard<std::mutex> lock(mutex_);
  progress_.clear();
  if (stream == stderr) std::fflush(stdout);  // keeps the order when both go to one place
  fmt::print(stream, "{}\n", styled(line, kStyles[level], stream));
}

}  // namespace camshaft::cli
