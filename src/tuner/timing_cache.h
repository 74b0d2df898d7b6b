// SPDX-License-Identifier: Apache-2.0
// Measured times by machine, tactic and problem, in memory and in a text file that runs merge into.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/status.h"
#include "kernels/kernel.h"

namespace camshaft::tuner {

class TimingCache {
 public:
  // `fingerprint`: what a time is valid for besides tactic and problem.
  explicit TimingCache(std::string fingerprint) : fingerprint_(std::move(fingerprint)) {}

  std::optional<double> find(const std::string& key) const;
  void insert(const std::string& key, double us);
  // Not from a file: inserted since this cache was made.
  bool is_new(const std::string& key) const { return inserted_.count(full_key(key)) > 0; }

  // Lines that are not understood are dropped; entries of other machines are kept. No file: an
  // empty cache.
  Status load(const std::filesystem::path& file);
  // Merges with what the file holds now (another run may have added to it) and replaces it.
  Status save(const std::filesystem::path& file) const;

  size_t size() const { return entries_.size(); }

 private:
  using Entries =
      std::map<std::string, std::string>;  // "fingerprint \t key" to the time as written
  static Status read(const std::filesystem::path& file, Entries& entries);
  std::string full_key(const std::string& key) const { return fingerprint_ + "\t" + key; }

  std::string fingerprint_;
  Entries entries_;
  std::set<std::string> inserted_;
};

std::string timing_key(const kernels::Tactic& tactic, const std::string& problem_key);

}  // namespace camshaft::tuner
