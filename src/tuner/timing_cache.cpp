// SPDX-License-Identifier: Apache-2.0
#include "tuner/timing_cache.h"

#include <charconv>
#include <fstream>

#include <unistd.h>

namespace camshaft::tuner {
namespace {

constexpr std::string_view kFamily = "camshaft timing cache", kHeader = "camshaft timing cache 2";

// Text that reads back as the same number: a build from the cache repeats the one that measured.
std::string format_time(double us) {
  return fmt::format("{:.3f}", us);
}

std::optional<double> parse_time(std::string_view text) {
  double us = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), us);
  if (error != std::errc() || end != text.data() + text.size() || !(us >= 0)) return {};
  return us;
}

}  // namespace

std::string timing_key(const kernels::Tactic& tactic, const std::string& problem_key) {
  return fmt::format("{}/{}/{}\t{}", tactic.name, isa_name(tactic.isa), tactic.version,
                     problem_key);
}

std::optional<double> TimingCache::find(const std::string& key) const {
  const auto found = entries_.find(full_key(key));
  return found == entries_.end() ? std::nullopt : parse_time(found->second);
}

void TimingCache::insert(const std::string& key, double us) {
  entries_[full_key(key)] = format_time(us);
  inserted_.insert(full_key(key));
}

Status TimingCache::read(const std::filesystem::path& file, Entries& entries) {
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return ok_status();
  std::ifstream stream(file);
  if (!stream) return make_error(ErrorCode::kIo, "{}: cannot read the timing cache", file.string());
  std::string line;
  if (std::filesystem::file_size(file, error) == 0) return ok_status();
  if (!std::getline(stream, line) || !line.starts_with(kFamily))
    return make_error(ErrorCode::kCorrupt, "{}: not a timing cache", file.string());
  if (line != kHeader)
    return ok_status();  // of another version: all misses, and replaced when saved
  while (std::getline(stream, line)) {
    const size_t last_tab = line.rfind('\t');
    if (last_tab == std::string::npos || !parse_time(std::string_view(line).substr(last_tab + 1)))
      continue;
    entries[line.substr(0, last_tab)] = line.substr(last_tab + 1);
  }
  return ok_status();
}

Status TimingCache::load(const std::filesystem::path& file) {
  return read(file, entries_);
}

Status TimingCache::save(const std::filesystem::path& file) const {
  Entries merged;
  CAMSHAFT_TRY(read(file, merged));  // never replaces a file that is something else
  for (const auto& [key, time] : entries_) merged[key] = time;
  const std::filesystem::path temporary = file.string() + fmt::format(".{}.part", getpid());
  {
    std::ofstream stream(temporary);
    stream << kHeader << '\n';
    for (const auto& [key, time] : merged) stream << key << '\t' << time << '\n';
    stream.close();
    if (!stream) {
      std::error_code ignored;
      std::filesystem::remove(temporary, ignored);
      return make_error(ErrorCode::kIo, "{}: cannot write the timing cache", file.string());
    }
  }
  std::error_code error;
  std::filesystem::rename(temporary, file, error);
  if (error) return make_error(ErrorCode::kIo, "{}: {}", file.string(), error.message());
  return ok_status();
}

}  // namespace camshaft::tuner
