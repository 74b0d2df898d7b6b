// SPDX-License-Identifier: Apache-2.0
// Every recorded answer of the original plugin, asked of our routes. Prints how many agreed.
#include "trace/golden.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>

#include <gtest/gtest.h>

#include "trace/views.h"

namespace camshaft::golden {
namespace {

using nlohmann::json;

struct Counts {
  int passed = 0, failed = 0, known = 0;
};

// Answers of the original that are wrong and are not reproduced, with the reason.
struct KnownDefect {
  const char* set;
  const char* url_part;
  const char* reason;
};
constexpr KnownDefect kKnownDefects[] = {
    {"unit_mlu r2.3", "/views?run=test_mlu_utilization", "that branch fails to load kernels with blocks per SM; we do not"},
};

const char* known_defect(const std::string& set, const std::string& url) {
  for (const KnownDefect& known : kKnownDefects)
    if (set == known.set && url.find(known.url_part) != url.npos) return known.reason;
  return nullptr;
}

std::string check(const server::RunStore& store, const Exchange& exchange, const Tolerance& tolerance) {
  std::string path;
  server::Parameters parameters;
  split_url(exchange.url, path, parameters);
  const server::Answer answer = server::answer(store, path, parameters);
  if (answer.status != exchange.status)
    return fmt::format("status {}, not {} ({})", answer.status, exchange.status, answer.body.substr(0, 100));
  if (exchange.body.empty()) return "";
  std::string body = answer.body;
  if (exchange.url.find("#added-counter-events") != exchange.url.npos)
    body = "[" + answer.counters.substr(0, answer.counters.size() - std::min<size_t>(2, answer.counters.size())) + "]";
  const json got = json::parse(body, nullptr, false);
  if (got.is_discarded()) return "not JSON: " + body.substr(0, 100);
  return difference(json::parse(exchange.body), got, tolerance);
}

Counts run_set(const std::string& set, const std::string& folder, const std::string& golden,
               const server::StoreOptions& options) {
  const bool verbose = std::getenv("CAMSHAFT_GOLDEN_VERBOSE") != nullptr;
  server::StoreOptions once = options;
  once.rescan_seconds = 0;
  server::RunStore store({folder}, once);
  store.start();
  store.wait();
  Counts counts;
  for (const Exchange& exchange : read_exchanges(golden)) {
    if (known_defect(set, exchange.url) != nullptr) {
      ++counts.known;
      continue;
    }
    const std::string found = check(store, exchange, Tolerance());
    found.empty() ? ++counts.passed : ++counts.failed;
    if (!found.empty() && verbose) std::printf("  %s\n    %s\n", exchange.url.c_str(), found.c_str());
  }
  std::printf("%-42s %4d passed, %d failed, %d known defects\n", set.c_str(), counts.passed, counts.failed, counts.known);
  return counts;
}

server::StoreOptions compat(trace::Dialect dialect = trace::Dialect::kGpu) {
  server::StoreOptions options;
  options.original = true;
  options.force_dialect = true;
  options.dialect = dialect;
  return options;
}

// A folder that holds just the run `name` of `runs`, as the recordings were made.
std::string alone(const std::string& runs, const std::string& name) {
  const std::string folder = testing::TempDir() + "camshaft_golden_" + std::to_string(::getpid()) + "_" + name;
  std::filesystem::create_directories(folder);
  std::error_code error;
  std::filesystem::create_directory_symlink(std::filesystem::absolute(runs + "/" + name), folder + "/" + name, error);
  return folder;
}

std::vector<std::string> golden_names(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    names.push_back(name.substr(0, name.find(".jsonl")));
  }
  std::sort(names.begin(), names.end());
  return names;
}

class Golden : public testing::Test {
 protected:
  void SetUp() override {
    if (data_folder().empty()) GTEST_SKIP() << "no recorded answers: neither CAMSHAFT_SHARED nor ../shared holds profiler/";
    data = std::filesystem::absolute(data_folder()).string() + "/profiler";
  }
  std::string data;
};

TEST_F(Golden, UnitCases) {
  EXPECT_EQ(run_set("unit", data + "/unit/cases", data + "/unit/golden.jsonl", compat()).failed, 0);
}

TEST_F(Golden, UnitCasesMlu) {
  EXPECT_EQ(run_set("unit_mlu r2.3", data + "/unit_mlu/cases", data + "/unit_mlu/golden.r2.3.jsonl",
                    compat(trace::Dialect::kMlu)).failed, 0);
}

TEST_F(Golden, UnitCasesMluLate) {
  EXPECT_EQ(run_set("unit_mlu r2.1", data + "/unit_mlu/cases", data + "/unit_mlu/golden.r2.1.jsonl",
                    compat(trace::Dialect::kMluLate)).failed, 0);
}

TEST_F(Golden, KinetoSamples) {
  EXPECT_EQ(run_set("kineto_samples", data + "/kineto/samples", data + "/golden/kineto_samples.jsonl.gz", compat()).failed, 0);
}

TEST_F(Golden, RealTraces) {
  int failed = 0;
  const char* only = std::getenv("CAMSHAFT_GOLDEN_ONLY");
  for (const std::string& name : golden_names(data + "/golden")) {
    if (name == "kineto_samples" || (only != nullptr && name.find(only) == name.npos)) continue;
    failed += run_set(name, alone(data + "/traces", name), data + "/golden/" + name + ".jsonl.gz", compat()).failed;
  }
  EXPECT_EQ(failed, 0);
}

TEST_F(Golden, CorrectedTraces) {
  int failed = 0;
  const char* only = std::getenv("CAMSHAFT_GOLDEN_ONLY");
  for (const std::string& name : golden_names(data + "/corrected")) {
    if (only != nullptr && name.find(only) == name.npos) continue;
    server::StoreOptions options;
    options.rounded_times = true;  // the recordings come from a program that keeps microseconds in doubles
    failed += run_set("corrected " + name, alone(data + "/traces", name), data + "/corrected/" + name + ".jsonl.gz", options).failed;
  }
  EXPECT_EQ(failed, 0);
}

}  // namespace
}  // namespace camshaft::golden
