// SPDX-License-Identifier: Apache-2.0
// `camshaft trace`: PyTorch profiler traces in a terminal and in CI. Exit code 2: the condition of
// --fail-if holds.
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "trace/condition.h"
#include "trace/insights.h"
#include "trace/json_text.h"
#include "trace/reader.h"

namespace camshaft::cli {
namespace {

using trace::JsonWriter;
using trace::Profile;

constexpr int kConditionHolds = 2;
constexpr int kInterrupted = 130;

constexpr OptionRow kOptions[] = {
    {"json", OptionValue::kNone, "", "", "Output", OptionStatus::kWorks, "JSON on standard output"},
    {"csv", OptionValue::kNone, "", "", "Output", OptionStatus::kWorks,
     "comma-separated values on standard output"},
    {"top", OptionValue::kInteger, "N", "20", "Output", OptionStatus::kWorks,
     "rows to print; 0: all", "", 0, 0},
    {"sort", OptionValue::kText, "COLUMN", "", "Output", OptionStatus::kWorks,
     "column to sort by, as in the header of --csv"},
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

std::atomic<bool> interrupted{false};
void on_interrupt(int) {
  interrupted = true;
}

struct Loaded {
  std::string name;
  std::unique_ptr<Profile> profile;
  trace::Insights insights;
};

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
  read.cancel = &interrupted;
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

// One table in three forms: what all subcommands but summary print.
struct Field {
  const char* key;
  const char* title;
  bool is_number;
};
struct Cell {
  Cell(std::string from) : text(std::move(from)) {}  // NOLINT: implicit on purpose
  Cell(double from) : number(from) {}                // NOLINT: implicit on purpose
  std::string text;
  double number = 0;
};

class Report {
 public:
  explicit Report(std::vector<Field> fields) : fields_(std::move(fields)) {}

  void add(std::vector<Cell> row) { rows_.push_back(std::move(row)); }
  // "" when `key` is no column.
  bool sort_by(const std::string& key) {
    for (size_t k = 0; k < fields_.size(); ++k) {
      if (key != fields_[k].key) continue;
      std::stable_sort(rows_.begin(), rows_.end(), [&](const auto& a, const auto& b) {
        return fields_[k].is_number ? a[k].number > b[k].number : a[k].text < b[k].text;
      });
      return true;
    }
    return false;
  }
  void cut(int64_t top) {
    if (top > 0 && rows_.size() > static_cast<size_t>(top)) {
      left_out_ = rows_.size() - static_cast<size_t>(top);
      rows_.resize(static_cast<size_t>(top));
    }
  }
  void write(JsonWriter& json) const {
    json.begin_array();
    for (const auto& row : rows_) {
      json.begin_object();
      for (size_t k = 0; k < fields_.size(); ++k) {
        if (fields_[k].is_number)
          json.real(fields_[k].key, row[k].number);
        else
          json.text(fields_[k].key, row[k].text);
      }
      json.end_object();
    }
    json.end_array();
  }
  void print_csv(bool with_file, const std::string& file, bool with_header) const {
    if (with_header) {
      std::string header = with_file ? "file," : "";
      for (const Field& field : fields_) header += std::string(field.key) + ",";
      header.pop_back();
      fmt::print("{}\n", header);
    }
    for (const auto& row : rows_) {
      std::string line = with_file ? quoted(file) + "," : "";
      for (size_t k = 0; k < fields_.size(); ++k)
        line +=
            (fields_[k].is_number ? fmt::format("{}", row[k].number) : quoted(row[k].text)) + ",";
      line.pop_back();
      fmt::print("{}\n", line);
    }
  }
  void print() const {
    std::vector<Column> columns;
    for (const Field& field : fields_)
      columns.push_back({field.title, field.is_number ? Align::kRight : Align::kLeft, 90});
    Table table(columns);
    for (const auto& row : rows_) {
      std::vector<std::string> cells;
      for (size_t k = 0; k < fields_.size(); ++k)
        cells.push_back(fields_[k].is_number ? shown(row[k].number) : row[k].text);
      table.add(std::move(cells));
    }
    fmt::print("{}", table.text());
    if (left_out_ > 0)
      fmt::print("{}\n",
                 styled(fmt::format("{} more rows: --top 0 prints all", left_out_), Style::kDim));
  }

 private:
  static std::string quoted(const std::string& text) {
    std::string out = "\"";
    for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
    return out + "\"";
  }
  static std::string shown(double value) {
    const bool is_whole = value == std::floor(value) && std::abs(value) < 1e15;
    return is_whole ? fmt::format("{:.0f}", value) : fmt::format("{:.2f}", value);
  }

  std::vector<Field> fields_;
  std::vector<std::vector<Cell>> rows_;
  size_t left_out_ = 0;
};

Report operator_report(const Loaded& loaded, const Options& options) {
  const Profile& profile = *loaded.profile;
  const bool by_shape = options.has("by-shape");
  std::vector<Field> fields{{"name", "Operator", false}};
  if (by_shape) fields.push_back({"shape", "Input shapes", false});
  for (const Field& field :
       {Field{"calls", "Calls", true}, Field{"device_self_us", "Device self us", true},
        Field{"device_total_us", "Device total us", true},
        Field{"host_self_us", "Host self us", true}, Field{"host_total_us", "Host total us", true}})
    fields.push_back(field);
  Report report(fields);
  const auto& groups = by_shape ? profile.operators.by_shape : profile.operators.by_name;
  for (const uint32_t k : trace::order_by_self_time(groups, !profile.has_device_work)) {
    const trace::OperatorGroup& group = groups[k];
    std::vector<Cell> row{std::string(profile.trace.strings[group.name])};
    if (by_shape) row.push_back(std::string(profile.trace.strings[group.shapes]));
    row.push_back(static_cast<double>(group.calls));
    for (const double ticks :
         {group.device_self, group.device_total, group.host_self, group.host_total})
      row.push_back(profile.clock.to_us(ticks));
    report.add(std::move(row));
  }
  return report;
}

Report kernel_report(const Loaded& loaded, const Options& options) {
  const Profile& profile = *loaded.profile;
  const bool by_launch = options.has("by-launch");
  std::vector<Field> fields{{"name", "Kernel", false}};
  if (by_launch)
    fields.insert(fields.end(),
                  {{"op", "Operator", false}, {"grid", "Grid", false}, {"block", "Block", false}});
  for (const Field& field : {Field{"tensor_cores", "TC", false}, Field{"calls", "Calls", true},
                             Field{"total_us", "Total us", true}, Field{"mean_us", "Mean us", true},
                             Field{"max_us", "Max us", true}, Field{"min_us", "Min us", true}})
    fields.push_back(field);
  Report report(fields);
  for (const trace::KernelGroup& group :
       by_launch ? profile.kernels.by_properties : profile.kernels.by_name) {
    std::vector<Cell> row{std::string(profile.trace.strings[group.name])};
    if (by_launch)
      for (const std::string_view text :
           {trace::operator_label(profile.trace, group), profile.trace.strings[group.grid],
            profile.trace.strings[group.block]})
        row.push_back(std::string(text));
    row.push_back(std::string(group.uses_tensor_cores ? "yes" : "no"));
    row.push_back(static_cast<double>(group.calls));
    for (const double ticks : {group.total, group.mean(), group.longest, group.shortest})
      row.push_back(profile.clock.to_us(ticks));
    report.add(std::move(row));
  }
  return report;
}

Report memory_report(const Loaded& loaded, const Options&) {
  const Profile& profile = *loaded.profile;
  Report report({{"device", "Device", false},
                 {"name", "Operator", false},
                 {"calls", "Calls", true},
                 {"self_increase", "Self increase B", true},
                 {"increase", "Increase B", true},
                 {"self_allocations", "Self allocs", true},
                 {"self_allocated", "Self allocated B", true},
                 {"allocated", "Allocated B", true}});
  const auto tables =
      trace::memory_stats(profile.trace, profile.clock, profile.semantics, profile.forest,
                          profile.memory, trace::moved_away(profile), {});
  for (size_t device = 0; device < tables.size(); ++device)
    for (const trace::MemoryStat& stat : tables[device]) {
      std::vector<Cell> row{profile.memory.devices[device],
                            std::string(profile.trace.strings[stat.name])};
      for (const int64_t value : {stat.calls, stat.self_increase, stat.increase,
                                  stat.self_allocations, stat.self_allocated, stat.allocated})
        row.push_back(static_cast<double>(value));
      report.add(std::move(row));
    }
  report.sort_by("self_allocated");
  return report;
}

void write_summary(JsonWriter& json, const Loaded& loaded) {
  json.begin_object().text("file", loaded.name).key("figures").begin_object();
  for (const auto& [name, value] : trace::metrics(*loaded.profile, loaded.insights))
    json.real(name, value);
  json.end_object().key("findings").begin_array();
  for (const trace::Finding& finding : loaded.insights.findings)
    json.begin_object()
        .text("id", finding.id)
        .real("value", finding.value)
        .text("text", finding.text)
        .end_object();
  json.end_array().text("note", loaded.profile->trace.report.note).end_object();
}

std::string microseconds(double us) {
  return human_seconds(us / 1e6);
}

void print_summary(const Loaded& loaded) {
  const Profile& profile = *loaded.profile;
  const trace::Insights& insights = loaded.insights;
  fmt::print("{}\n", styled(loaded.name, Style::kBold));
  fmt::print(
      "  {} events, {} steps{}, average step {}\n",
      human_count(static_cast<double>(profile.trace.events.size())), profile.steps.list.size(),
      profile.steps.from_annotation ? fmt::format(" of annotation '{}'", profile.steps.annotation)
                                    : "",
      microseconds(profile.clock.to_us(profile.breakdown.average_step)));
  Table parts({{"  where a step goes"}, {"time", Align::kRight}, {"percent", Align::kRight}});
  for (int k = 0; k < trace::kPartCount && !profile.breakdown.average.empty(); ++k) {
    const double time = profile.clock.to_us(profile.breakdown.average[k]);
    const double whole = profile.clock.to_us(profile.breakdown.average_step);
    if (time > 0)
      parts.add({fmt::format("  {}", trace::part_name(static_cast<trace::Part>(k))),
                 microseconds(time), fmt::format("{:.1f}", whole > 0 ? 100 * time / whole : 0)});
  }
  if (!parts.empty()) fmt::print("\n{}", parts.text());
  if (!profile.devices.devices.empty()) {
    Table devices({{"  device"},
                   {"busy %", Align::kRight},
                   {"SM eff. %", Align::kRight},
                   {"occupancy %", Align::kRight},
                   {"Tensor Cores %", Align::kRight},
                   {"waits for host", Align::kRight},
                   {"between kernels", Align::kRight}});
    const auto share = [](const std::optional<double>& value, double scale) {
      return value ? fmt::format("{:.1f}", *value * scale) : std::string("–");
    };
    for (const trace::DeviceUse& use : profile.devices.devices) {
      const auto idle =
          std::find_if(insights.idle.begin(), insights.idle.end(),
                       [&](const trace::IdleSplit& split) { return split.device == use.device; });
      const bool known = idle != insights.idle.end();
      devices.add({fmt::format("  {}", use.device), fmt::format("{:.1f}", use.utilization * 100),
                   share(use.sm_efficiency, 100), share(use.occupancy, 1),
                   share(use.tensor_core_share, 100),
                   known ? microseconds(idle->host_wait_us) : "–",
                   known ? microseconds(idle->kernel_wait_us) : "–"});
    }
    fmt::print("\n{}", devices.text());
  }
  if (!insights.causes.empty() && insights.causes[0].idle_us > 0) {
    Table causes(
        {{"  the device waited before"}, {"idle", Align::kRight}, {"times", Align::kRight}});
    for (size_t k = 0; k < std::min<size_t>(5, insights.causes.size()); ++k)
      causes.add({"  " + insights.causes[k].op, microseconds(insights.causes[k].idle_us),
                  fmt::format("{}", insights.causes[k].gaps)});
    fmt::print("\n{}", causes.text());
  }
  if (profile.has_device_work && !insights.critical.parts.empty()) {
    Table path({{"  the steps hung on", Align::kLeft, 80},
                {"kind"},
                {"time", Align::kRight},
                {"percent", Align::kRight}});
    for (size_t k = 0; k < std::min<size_t>(5, insights.critical.parts.size()); ++k) {
      const trace::CriticalPart& part = insights.critical.parts[k];
      path.add({"  " + part.name, trace::critical_kind_name(part.kind), microseconds(part.total_us),
                fmt::format("{:.1f}", 100 * part.total_us / insights.critical.span_us)});
    }
    fmt::print("\n{}", path.text());
  }
  if (!insights.collectives.empty()) {
    Table collectives({{"  collective"},
                       {"group"},
                       {"calls", Align::kRight},
                       {"time", Align::kRight},
                       {"exposed", Align::kRight}});
    for (size_t k = 0; k < std::min<size_t>(10, insights.collectives.size()); ++k) {
      const trace::CollectiveUse& use = insights.collectives[k];
      collectives.add({"  " + shorten(use.name, 60), use.group, fmt::format("{}", use.calls),
                       microseconds(use.total_us), microseconds(use.exposed_us)});
    }
    fmt::print("\n{}", collectives.text());
  }
  for (const trace::MemoryUse& use : insights.memory)
    fmt::print("\n  {} peak {}{}", use.device, human_bytes(static_cast<double>(use.peak)),
               use.capacity > 0
                   ? fmt::format(" of {}", human_bytes(static_cast<double>(use.capacity)))
                   : "");
  fmt::print("{}", insights.memory.empty() ? "" : "\n");
  for (const trace::Finding& finding : insights.findings)
    fmt::print("\n  {} {}", styled("•", Style::kYellow), finding.text);
  fmt::print("{}\n", insights.findings.empty() ? "" : "\n");
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
        fmt::print("\"{}\",{},{}\n", loaded.name, name, value);
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
           Report (*make)(const Loaded&, const Options&)) {
  JsonWriter json;
  json.begin_array();
  int code = 0;
  for (size_t k = 0; k < traces.size(); ++k) {
    Report report = make(traces[k], options);
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

// Figures of both sides and how they changed: "a.X", "b.X", "delta.X", "ratio.X".
trace::Figures diff_figures(const Loaded& a, const Loaded& b) {
  trace::Figures figures;
  const auto left = trace::metrics(*a.profile, a.insights),
             right = trace::metrics(*b.profile, b.insights);
  for (const auto& [name, before] : left)
    for (const auto& [other, after] : right) {
      if (name != other) continue;
      figures.emplace_back("a." + name, before);
      figures.emplace_back("b." + name, after);
      figures.emplace_back("delta." + name, after - before);
      figures.emplace_back("ratio." + name, before != 0  ? after / before
                                            : after == 0 ? 1.0
                                                         : HUGE_VAL);
    }
  return figures;
}

Report diff_report(const Loaded& a, const Loaded& b) {
  Report report({{"name", "Operator", false},
                 {"a_calls", "A calls", true},
                 {"b_calls", "B calls", true},
                 {"a_self_us", "A self us", true},
                 {"b_self_us", "B self us", true},
                 {"delta_us", "Change us", true}});
  struct Sides {
    double calls[2] = {0, 0}, self[2] = {0, 0};
  };
  const bool on_device = a.profile->has_device_work && b.profile->has_device_work;
  std::map<std::string, Sides> rows;
  int side = 0;
  for (const Loaded* loaded : {&a, &b}) {
    for (const trace::OperatorGroup& group : loaded->profile->operators.by_name) {
      Sides& sides = rows[std::string(loaded->profile->trace.strings[group.name])];
      sides.calls[side] += static_cast<double>(group.calls);
      sides.self[side] +=
          loaded->profile->clock.to_us(on_device ? group.device_self : group.host_self);
    }
    ++side;
  }
  std::vector<std::pair<std::string, Sides>> order(rows.begin(), rows.end());
  std::stable_sort(order.begin(), order.end(), [](const auto& x, const auto& y) {
    return std::abs(x.second.self[1] - x.second.self[0]) >
           std::abs(y.second.self[1] - y.second.self[0]);
  });
  for (const auto& [name, sides] : order)
    report.add({name, sides.calls[0], sides.calls[1], sides.self[0], sides.self[1],
                sides.self[1] - sides.self[0]});
  return report;
}

int diff(std::vector<Loaded>& traces, const Options& options) {
  if (traces.size() != 2) return fail("trace diff takes two files");
  const trace::Figures figures = diff_figures(traces[0], traces[1]);
  Report report = diff_report(traces[0], traces[1]);
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

int usage(bool asked) {
  fmt::print(
      "usage: camshaft trace summary|ops|kernels|memory FILE|FOLDER… [OPTIONS]\n       camshaft "
      "trace diff A B "
      "[OPTIONS]\n\nExit codes: 0 done, 1 failed, 2 the condition of --fail-if holds.\n\n{}",
      options_help(kOptions));
  return asked ? 0 : 1;
}

}  // namespace

int trace_command(std::span<char* const> args) {
  const std::string what = args.empty() ? "" : args[0];
  if (what == "--help" || what == "-h") return usage(true);
  if (what.empty()) return usage(false);
  const std::vector<std::string> words{"summary", "ops", "kernels", "memory", "diff"};
  if (std::find(words.begin(), words.end(), what) == words.end())
    return fail(fmt::format("unknown word 'trace {}'; {} are known", what, fmt::join(words, ", ")));
  auto options = Options::parse(kOptions, args.subspan(1), {false, 4096});
  if (!options.ok()) return fail(options.status().message());
  if (options->has("help")) return usage(true);
  const std::vector<std::string> files = trace_files(options->positionals());
  if (files.empty()) return fail("no trace files given");

  struct sigaction action {};
  action.sa_handler = on_interrupt;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  std::vector<Loaded> traces;
  for (const std::string& file : files) {
    auto loaded = load(file, *options);
    if (!loaded.ok()) {
      if (loaded.status().code() == ErrorCode::kCancelled) return kInterrupted;
      if (files.size() == 1 || what == "diff") return fail(loaded.status().message());
      warn(loaded.status().message());  // the others still count
      continue;
    }
    traces.push_back(std::move(*loaded));
  }
  if (traces.empty()) return fail("none of the files could be read");
  if (what == "summary") return summary(traces, *options);
  if (what == "diff") return diff(traces, *options);
  return tables(traces, *options,
                what == "ops"       ? operator_report
                : what == "kernels" ? kernel_report
                                    : memory_report);
}

}  // namespace camshaft::cli
