// SPDX-License-Identifier: Apache-2.0
// Every recorded answer of the original plugin, asked of our routes. Prints how many agreed.
#include "trace/golden.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include <unistd.h>

#include <algorithm>

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
    {"unit_mlu r2.3", "/views?run=test_mlu_utilization",
     "that branch fails to load kernels with blocks per SM; we do not"},
};

const char* known_defect(const std::string& set, const std::string& url) {
  for (const KnownDefect& known : kKnownDefects)
    if (set == known.set && url.find(known.url_part) != url.npos) return known.reason;
  return nullptr;
}

std::string check(const server::RunStore& store, const Exchange& exchange,
                  const Tolerance& tolerance) {
  std::string path;
  server::Parameters parameters;
  split_url(exchange.url, path, parameters);
  server::Answer answer = server::answer(store, path, parameters);
  if (answer.stream)
    answer.stream([&](std::string_view piece) {
      answer.body += piece;
      return true;
    });
  if (answer.status != exchange.status)
    return fmt::format("status {}, not {} ({})", answer.status, exchange.status,
                       answer.body.substr(0, 100));
  if (exchange.body.empty()) return "";
  std::string body = answer.body;
  if (exchange.url.find("#added-counter-events") != exchange.url.npos)
    body = "[" +
           answer.counters.substr(
               0, answer.counters.size() - std::min<size_t>(2, answer.counters.size())) +
           "]";
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
    if (!found.empty() && verbose)
      std::printf("  %s\n    %s\n", exchange.url.c_str(), found.c_str());
  }
  std::printf("%-42s %4d passed, %d failed, %d known defects\n", set.c_str(), counts.passed,
              counts.failed, counts.known);
  return counts;
}

server::StoreOptions compat(trace::Dialect dialect = trace::Dialect::kGpu) {
  server::StoreOptions options;
  options.original = true;
  options.force_dialect = true;
  options.dialect = dialect;
  return options;
}

std::string first_difference(const std::string& want, const std::string& got) {
  size_t at = 0;
  while (at < want.size() && at < got.size() && want[at] == got[at]) ++at;
  const size_t from = at < 60 ? 0 : at - 60;
  return "…" + got.substr(from, 160) + " not …" + want.substr(from, 160);
}

// Equal as texts once the rows of equal keys are put in one order.
bool same_but_for_ties(const std::string& want, const std::string& got) {
  const auto sorted = [](const std::string& text) {
    std::string letters = text;
    std::sort(letters.begin(), letters.end());
    return letters;
  };
  return sorted(want) == sorted(got) &&
         difference(json::parse(want), json::parse(got), Tolerance{0, 0, true, true}).empty();
}

// A folder that holds just the run `name` of `runs`, as the recordings were made.
std::string alone(const std::string& runs, const std::string& name) {
  const std::string folder =
      testing::TempDir() + "camshaft_golden_" + std::to_string(::getpid()) + "_" + name;
  std::filesystem::create_directories(folder);
  std::error_code error;
  std::filesystem::create_directory_symlink(std::filesystem::absolute(runs + "/" + name),
                                            folder + "/" + name, error);
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
    if (data_folder().empty())
      GTEST_SKIP() << "no recorded answers: neither CAMSHAFT_SHARED nor ../shared holds profiler/";
    data = std::filesystem::absolute(data_folder()).string() + "/profiler";
  }
  std::string data;
};

TEST_F(Golden, UnitCases) {
  EXPECT_EQ(run_set("unit", data + "/unit/cases", data + "/unit/golden.jsonl", compat()).failed, 0);
}

TEST_F(Golden, UnitCasesMlu) {
  EXPECT_EQ(run_set("unit_mlu r2.3", data + "/unit_mlu/cases", data + "/unit_mlu/golden.r2.3.jsonl",
                    compat(trace::Dialect::kMlu))
                .failed,
            0);
}

TEST_F(Golden, UnitCasesMluLate) {
  EXPECT_EQ(run_set("unit_mlu r2.1", data + "/unit_mlu/cases", data + "/unit_mlu/golden.r2.1.jsonl",
                    compat(trace::Dialect::kMluLate))
                .failed,
            0);
}

TEST_F(Golden, KinetoSamples) {
  EXPECT_EQ(run_set("kineto_samples", data + "/kineto/samples",
                    data + "/golden/kineto_samples.jsonl.gz", compat())
                .failed,
            0);
}

TEST_F(Golden, RealTraces) {
  int failed = 0;
  const char* only = std::getenv("CAMSHAFT_GOLDEN_ONLY");
  for (const std::string& name : golden_names(data + "/golden")) {
    if (name == "kineto_samples" || (only != nullptr && name.find(only) == name.npos)) continue;
    failed += run_set(name, alone(data + "/traces", name), data + "/golden/" + name + ".jsonl.gz",
                      compat())
                  .failed;
  }
  EXPECT_EQ(failed, 0);
}

// With `--clock plugin`: the recordings come from a program that keeps microseconds in doubles.
TEST_F(Golden, CorrectedTracesWithThePluginsClock) {
  int failed = 0;
  const char* only = std::getenv("CAMSHAFT_GOLDEN_ONLY");
  for (const std::string& name : golden_names(data + "/corrected")) {
    if (only != nullptr && name.find(only) == name.npos) continue;
    server::StoreOptions options;
    options.as_recorded = true;
    failed += run_set("corrected, plugin's clock " + name, alone(data + "/traces", name),
                      data + "/corrected/" + name + ".jsonl.gz", options)
                  .failed;
  }
  EXPECT_EQ(failed, 0);
}

// Recorded answers that are wrong in more than the last digits, and how ours are better.
struct Improvement {
  const char* run;
  const char* route;
  const char* reason;
};
constexpr const char* kNodesLost =
    "rounded to 0.25 us, operators stick out of their parents: the recording lost them";
constexpr const char* kRounded = "kernels of a few us, each rounded to 0.25 us";
constexpr Improvement kImprovements[] = {
    {"hta_cupti_range", "/overview", "no step marks: the annotation that repeats is the step"},
    {"hta_simple_add", "/overview", kRounded},
    {"old_resnet50_newAPI_ddp", "/kernel/table",
     "rows of work that nothing launched, beside those at a thread's root"},
    {"tl_b200_eager", "/overview", kRounded},
    {"tl_vllm_decode", "/overview", kRounded},
    {"tl_mi300_norm", "/overview", kRounded},
    {"tl_mi300_norm", "/operation", kNodesLost},
    {"tl_mi300_norm", "/kernel/table", kNodesLost},
    {"tl_mi300_norm", "/memory", kNodesLost},
    {"tl_mi300_norm", "/module", kNodesLost},
    {"tl_mi300_resnet_ckpt", "/operation", "the recording lost backward passes of no module"},
    {"tl_mi300_resnet_ckpt", "/kernel/table", "the recording lost backward passes of no module"},
    {"tl_mi300_resnet_ckpt", "/module", kNodesLost},
};

const Improvement* improvement(const std::string& run, const std::string& url) {
  for (const Improvement& known : kImprovements)
    if (run == known.run && url.rfind(known.route, 0) == 0) return &known;
  return nullptr;
}

// What is ours alone and stands beside the recorded figures: rows of work that nothing launched,
// the capacity of devices.
json without_additions(json got, const json& want) {
  if (got.contains("metadata") && got["metadata"].contains("totals"))
    got["metadata"]["totals"] = json::object();
  if (!got.contains("data") || !got["data"].is_object() || !got["data"].contains("rows"))
    return got;
  const bool has_root = want.dump().find("\"CallTreeRoot\"") != std::string::npos;
  json rows = json::array();
  for (json row : got["data"]["rows"]) {
    if (row.size() > 2 && row[1] == "<unattributed>") {
      if (!has_root) continue;
      row[1] = "CallTreeRoot";
    }
    rows.push_back(std::move(row));
  }
  got["data"]["rows"] = std::move(rows);
  return got;
}

struct DefaultCounts {
  int identical = 0, rounded = 0, better = 0, failed = 0;
};

void check_default(const server::RunStore& store, const std::string& run, const Exchange& exchange,
                   DefaultCounts& counts) {
  if (check(store, exchange, Tolerance()).empty()) {
    ++counts.identical;
    return;
  }
  std::string path;
  server::Parameters parameters;
  split_url(exchange.url, path, parameters);
  const json want = json::parse(exchange.body.empty() ? "null" : exchange.body);
  const json got = json::parse(server::answer(store, path, parameters).body, nullptr, false);
  // A recorded time is off by up to 0.25 us at its start and end; rounded cells by one.
  const Tolerance last_digits{1e-3, 1.0, true, false};
  const std::string found = difference(want, without_additions(got, want), last_digits);
  if (found.empty()) {
    ++counts.rounded;
  } else if (improvement(run, exchange.url) != nullptr) {
    ++counts.better;
  } else {
    ++counts.failed;
    std::printf("  %s\n    %s\n", exchange.url.c_str(), found.c_str());
  }
}

// As `camshaft view` answers without any option.
TEST_F(Golden, CorrectedTracesByDefault) {
  int failed = 0;
  for (const std::string& name : golden_names(data + "/corrected")) {
    server::StoreOptions options;
    options.rescan_seconds = 0;
    server::RunStore store({alone(data + "/traces", name)}, options);
    store.start();
    store.wait();
    DefaultCounts counts;
    for (const Exchange& exchange : read_exchanges(data + "/corrected/" + name + ".jsonl.gz"))
      check_default(store, name, exchange, counts);
    std::printf(
        "corrected, default %-23s %4d identical, %d to the recording's precision, %d better, "
        "%d failed\n",
        name.c_str(), counts.identical, counts.rounded, counts.better, counts.failed);
    failed += counts.failed;
  }
  EXPECT_EQ(failed, 0);
}

// The lines of a file of answers: overview, operation, operation table, kernel table, kernel, for
// each run.
std::vector<std::string> answer_lines(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);)
    if (!line.empty()) lines.push_back(line);
  return lines;
}

TEST_F(Golden, KinetoByteForByte) {
  const std::vector<std::string> lines = answer_lines(data + "/kineto/result_check_file.txt");
  server::StoreOptions options = compat();
  options.rescan_seconds = 0;
  server::RunStore store({data + "/kineto/samples"}, options);
  store.start();
  store.wait();
  const char* routes[] = {"/overview?", "/operation?group_by=Operation&",
                          "/operation/table?group_by=Operation&", "/kernel/table?group_by=Kernel&",
                          "/kernel?group_by=Kernel&"};
  int equal = 0;
  ASSERT_EQ(lines.size(), 10u);
  for (size_t k = 0; k < lines.size(); ++k) {
    std::string path;
    server::Parameters parameters;
    split_url(std::string(routes[k % 5]) + "run=resnet50_num_workers_" + (k < 5 ? "0" : "4") +
                  "&worker=worker0&span=1",
              path, parameters);
    const std::string body = server::answer(store, path, parameters).body;
    // Kernels of equal total time stand in no defined order in the original.
    const bool same = body == lines[k] || (k % 5 >= 3 && same_but_for_ties(lines[k], body));
    EXPECT_TRUE(same) << "line " << k + 1 << ": " << first_difference(lines[k], body);
    equal += same ? 1 : 0;
  }
  std::printf("%-42s %4d of %zu answers byte for byte\n", "kineto result_check_file", equal,
              lines.size());
}

template <class Answer>
void expect_round_trip(const std::string& line, Result<Answer> (*parse)(std::string_view)) {
  auto answer = parse(line);
  ASSERT_TRUE(answer.ok()) << answer.status().message();
  EXPECT_EQ(trace::to_json(*answer), line);
}

TEST_F(Golden, AnswersParseAndPrintBack) {
  int documents = 0;
  for (const char* file :
       {"/mlu/mlu_two_workers.jsonl", "/kineto/result_check_file.txt",
        "/mlu/result_check_file.r2.1.txt", "/mlu/result_check_file.r1.22_pt2.4.0.txt",
        "/mlu/result_check_file.r2.4.txt"}) {
    const std::vector<std::string> lines = answer_lines(data + file);
    ASSERT_EQ(lines.size(), 10u) << file;
    for (size_t k = 0; k < lines.size(); ++k, ++documents) {
      SCOPED_TRACE(std::string(file) + " line " + std::to_string(k + 1));
      if (k % 5 == 0) expect_round_trip(lines[k], trace::parse_overview);
      if (k % 5 == 1) expect_round_trip(lines[k], trace::parse_operation);
      if (k % 5 == 2) expect_round_trip(lines[k], trace::parse_operation_table);
      if (k % 5 == 3) expect_round_trip(lines[k], trace::parse_kernel_table);
      if (k % 5 == 4) expect_round_trip(lines[k], trace::parse_total);
    }
  }
  std::printf("%-42s %4d documents, the seed's ten among them\n", "answers parsed and printed back",
              documents);
}

}  // namespace
}  // namespace camshaft::golden
