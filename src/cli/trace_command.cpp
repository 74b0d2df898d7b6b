// SPDX-License-Identifier: Apache-2.0
// `camshaft trace`: PyTorch profiler traces in a terminal and in CI. Exit code 1: a file could not
// be read, or ends early; 2: the condition of --fail-if holds.
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <set>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "cli/trace_views.h"
#include "trace/reader.h"

namespace camshaft::cli {
namespace {

using trace::JsonWriter;

constexpr int kConditionHolds = 2;
constexpr int kInterrupted = 130;

constexpr OptionRow kTraceOptions[] = {
    {"json", OptionValue::kNone, "", "", "Output", OptionStatus::kWorks, "JSON on standard output"},
    {"csv", OptionValue::kNone, "", "", "Output", OptionStatus::kWorks,
     "comma-separated values on standard output"},
    {"top", OptionValue::kInteger, "N", "20", "Output", OptionStatus::kWorks,
     "rows to print; 0: all", "", 0, 0},
    {"sort", OptionValue::kText, "COLUMN", "", "Output", OptionStatus::kWorks,
     "column to sort by, as in the header of --csv"},
    {"filter", OptionValue::kText, "TEXT", "", "Output", OptionStatus::kWorks,
     "only rows that have TEXT in a name, whatever the case"},
    {"by-shape", OptionValue::kNone, "", "", "Output", OptionStatus::kWorks,
     "ops: one row per name and input shapes"},
    {"by-launch", OptionValue::kNone, "", "", "Output", OptionStatus::kWorks,
     "kernels: one row per name, operator, grid and block"},
    {"fail-if", OptionValue::kText, "CONDITION", "", "CI", OptionStatus::kWorks,
     "exit code 2 if it holds, e.g. 'gpu0.utilization_percent < 50'; `trace summary --json` lists "
     "the figures"},
    {"compat", OptionValue::kNone, "", "", "Analysis", OptionStatus::kWorks,
     "figures as the original plugin gave them"},
    {"help", OptionValue::kNone, "", "", "Help", OptionStatus::kWorks, "this text", "", 'h'},
};

std::atomic<bool> read_interrupted{false};
void on_interrupt(int) {
  read_interrupted = true;
}

std::vector<std::string> trace_files(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!std::filesystem::is_directory(path, error)) {
      files.push_back(path);
      continue;
    }
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path, error)) {
      const std::string name = entry.path().filename().string();
      if (entry.is_regular_file(error) && name.find(".json") != name.npos)
        found.push_back(entry.path().string());
    }
    std::sort(found.begin(), found.end());
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

Result<Loaded> load(const std::string& file, const Options& options) {
  ProgressLine line;
  trace::ReadOptions read;
  read.cancel = &read_interrupted;
  read.progress = [&](const trace::ReadProgress& progress) {
    line.update(std::filesystem::path(file).filename().string(),
                static_cast<int64_t>(progress.bytes_done),
                static_cast<int64_t>(progress.bytes_total));
  };
  auto trace = trace::read_trace(file, read);
  line.clear();
  if (!trace.ok()) return trace.status();
  if (!trace->report.note.empty()) warn(fmt::format("{}: {}", file, trace->report.note));
  trace::Semantics semantics;
  semantics.original = options.has("compat");
  semantics.dialect = trace::dialect_of(*trace);
  Loaded loaded;
  loaded.name = file;
  loaded.profile =
      trace::analyze(std::make_shared<const trace::Trace>(std::move(*trace)), semantics);
  loaded.insights = trace::find_insights(*loaded.profile);
  return loaded;
}

// 0, or kConditionHolds, or 1 when the condition itself is wrong.
int check_condition(const Options& options, const trace::Figures& figures,
                    const std::string& name) {
  if (!options.has("fail-if")) return 0;
  const auto result = trace::holds(options.text("fail-if"), figures);
  if (!result.ok()) return fail(result.status().message());
  if (!result.value()) return 0;
  fmt::print(stderr, "camshaft: {}: {}\n", name,
             styled("condition holds: " + options.text("fail-if"), Style::kRed, stderr));
  return kConditionHolds;
}

int summary(std::vector<Loaded>& traces, const Options& options) {
  if (options.has("json")) {
    JsonWriter json;
    json.begin_array();
    for (const Loaded& loaded : traces) write_summary(json, loaded);
    json.end_array();
    fmt::print("{}\n", json.take());
  } else if (options.has("csv")) {
    fmt::print("file,figure,value\n");
    for (const Loaded& loaded : traces)
      for (const auto& [name, value] : trace::metrics(*loaded.profile, loaded.insights))
        fmt::print("{},{},{}\n", csv_quoted(loaded.name), name, value);
  } else {
    for (const Loaded& loaded : traces) print_summary(loaded);
  }
  int code = 0;
  for (const Loaded& loaded : traces)
    code = std::max(code, check_condition(options, trace::metrics(*loaded.profile, loaded.insights),
                                          loaded.name));
  return code;
}

int tables(std::vector<Loaded>& traces, const Options& options,
           const std::function<Report(const Loaded&)>& make) {
  JsonWriter json;
  json.begin_array();
  int code = 0;
  for (size_t k = 0; k < traces.size(); ++k) {
    Report report = make(traces[k]);
    if (options.has("filter")) report.filter(options.text("filter"));
    if (options.has("sort") && !report.sort_by(options.text("sort")))
      return fail(
          fmt::format("there is no column '{}'; --csv shows their names", options.text("sort")));
    report.cut(options.integer("top"));
    if (options.has("json")) {
      json.begin_object().text("file", traces[k].name);
      report.write(json.key("rows"));
      json.end_object();
    } else if (options.has("csv")) {
      report.print_csv(traces.size() > 1, traces[k].name, k == 0);
    } else {
      if (traces.size() > 1)
        fmt::print("{}{}\n", k == 0 ? "" : "\n", styled(traces[k].name, Style::kBold));
      report.print();
    }
    code = std::max(code,
                    check_condition(options, trace::metrics(*traces[k].profile, traces[k].insights),
                                    traces[k].name));
  }
  json.end_array();
  if (options.has("json")) fmt::print("{}\n", json.take());
  return code;
}

int diff(std::vector<Loaded>& traces, const Options& options) {
  if (traces.size() != 2) return fail("trace diff takes two files");
  const trace::Figures figures = diff_figures(traces[0], traces[1]);
  Report report = diff_report(traces[0], traces[1]);
  if (options.has("filter")) report.filter(options.text("filter"));
  report.cut(options.integer("top"));
  if (options.has("json")) {
    JsonWriter json;
    json.begin_object()
        .text("a", traces[0].name)
        .text("b", traces[1].name)
        .key("figures")
        .begin_object();
    for (const auto& [name, value] : figures) json.real(name, value);
    json.end_object();
    report.write(json.key("operators"));
    json.end_object();
    fmt::print("{}\n", json.take());
  } else if (options.has("csv")) {
    report.print_csv(false, "", true);
  } else {
    fmt::print("A {}\nB {}\n\n", traces[0].name, traces[1].name);
    Table table(
        {{"figure"}, {"A", Align::kRight}, {"B", Align::kRight}, {"change %", Align::kRight}});
    for (size_t k = 0; k + 3 < figures.size(); k += 4) {
      const double before = figures[k].second, after = figures[k + 1].second;
      if (before == after) continue;
      table.add({figures[k].first.substr(2), fmt::format("{:.1f}", before),
                 fmt::format("{:.1f}", after),
                 before != 0 ? fmt::format("{:+.1f}", 100 * (after - before) / before)
                             : std::string("–")});
    }
    fmt::print("{}\n{}", table.text(),
               styled(traces[0].profile->has_device_work ? "device self time by operator\n"
                                                         : "host self time by operator\n",
                      Style::kBold));
    report.print();
  }
  return check_condition(options, figures, "diff");
}

// `summary` and `diff` print more than a table.
struct Word {
  const char* word;
  const char* help;
  Report (*report)(const Loaded&, const Options&);
};
constexpr Word kWords[] = {
    {"summary", "where a step goes, what devices wait for, findings", nullptr},
    {"ops", "operators by device and host time",
     [](const Loaded& loaded, const Options& options) {
       return operator_report(loaded, options.has("by-shape"));
     }},
    {"kernels", "kernels by time",
     [](const Loaded& loaded, const Options& options) {
       return kernel_report(loaded, options.has("by-launch"));
     }},
    {"memory", "what operators allocated, and kept",
     [](const Loaded& loaded, const Options&) { return memory_report(loaded); }},
    {"modules", "nn.Modules as a tree",
     [](const Loaded& loaded, const Options&) { return module_report(loaded); }},
    {"steps", "every step and its parts",
     [](const Loaded& loaded, const Options&) { return step_report(loaded); }},
    {"collectives", "collectives by group",
     [](const Loaded& loaded, const Options&) { return collective_report(loaded); }},
    {"ranks", "the ranks of a job: who waits for whom",
     [](const Loaded& loaded, const Options&) { return rank_report(loaded); }},
    {"diff", "two traces, A and B: what changed", nullptr},
};

const Word* find_word(const std::string& word) {
  const auto* found = std::find_if(std::begin(kWords), std::end(kWords),
                                   [&](const Word& known) { return word == known.word; });
  return found == std::end(kWords) ? nullptr : found;
}

int usage(bool asked) {
  std::string words;
  for (const Word& word : kWords) words += fmt::format("  {:<12} {}\n", word.word, word.help);
  fmt::print(
      "usage: camshaft trace WORD FILE|FOLDER… [OPTIONS]\n\n{}\n"
      "Exit codes: 0 done, 1 failed, or a file could not be read whole, 2 the condition of "
      "--fail-if holds.\n\n{}",
      words, options_help(kTraceOptions));
  return asked ? 0 : 1;
}

// One table for a job, not one per rank: of the traces that were read together the first.
std::vector<Loaded> one_per_job(std::vector<Loaded> traces) {
  std::set<const void*> seen;
  std::erase_if(traces,
                [&](const Loaded& loaded) { return !seen.insert(loaded.together.get()).second; });
  return traces;
}

}  // namespace

int trace_command(std::span<char* const> args) {
  const std::string what = args.empty() ? "" : args[0];
  if (what == "--help" || what == "-h") return usage(true);
  if (what.empty()) return usage(false);
  const Word* const word = find_word(what);
  if (word == nullptr) {
    std::vector<std::string> words;
    for (const Word& known : kWords) words.emplace_back(known.word);
    return fail(fmt::format("unknown word 'trace {}'; {} are known", what, fmt::join(words, ", ")));
  }
  auto options = Options::parse(kTraceOptions, args.subspan(1), {false, 4096});
  if (!options.ok()) return fail(options.status().message());
  if (options->has("help")) return usage(true);
  const std::vector<std::string> files = trace_files(options->positionals());
  if (files.empty()) return fail("no trace files given");

  struct sigaction action {};
  action.sa_handler = on_interrupt;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  std::vector<Loaded> traces;
  bool all_whole = true;
  for (const std::string& file : files) {
    auto loaded = load(file, *options);
    if (!loaded.ok()) {
      if (loaded.status().code() == ErrorCode::kCancelled) return kInterrupted;
      if (files.size() == 1 || what == "diff") return fail(loaded.status().message());
      warn(loaded.status().message());  // the others still count
      all_whole = false;
      continue;
    }
    all_whole = all_whole && !loaded->profile->trace.report.truncated;
    traces.push_back(std::move(*loaded));
  }
  if (read_interrupted) return kInterrupted;
  if (traces.empty()) return fail("none of the files could be read");
  join_ranks(traces);
  if (what == "ranks") traces = one_per_job(std::move(traces));
  const int code = what == "summary" ? summary(traces, *options)
                   : what == "diff"  ? diff(traces, *options)
                                     : tables(traces, *options, [&](const Loaded& loaded) {
                                        return word->report(loaded, *options);
                                      });
  return std::max(code, all_whole ? 0 : 1);
}

}  // namespace camshaft::cli
