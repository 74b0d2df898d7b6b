// SPDX-License-Identifier: Apache-2.0
#include "cli/camexec_report.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/tensor_files.h"

namespace camshaft::cli {
namespace {

using Json = nlohmann::ordered_json;
using Measure = double (QueryTimes::*)() const;

std::vector<double> values_of(const std::vector<QueryTimes>& queries, Measure measure) {
  std::vector<double> values;
  values.reserve(queries.size());
  for (const QueryTimes& query : queries) values.push_back((query.*measure)());
  return values;
}

double mean_of(const QueryTimes* first, const QueryTimes* last, Measure measure) {
  double sum = 0;
  for (const QueryTimes* query = first; query != last; ++query) sum += (query->*measure)();
  return sum / static_cast<double>(last - first);
}

std::string summary_line(const Summary& summary, const std::vector<double>& percentiles) {
  std::string line = fmt::format("min = {:g} ms, max = {:g} ms, mean = {:g} ms, median = {:g} ms",
                                 summary.min, summary.max, summary.mean, summary.median);
  for (size_t k = 0; k < percentiles.size(); ++k) {
    line += fmt::format(", percentile({}%) = {:g} ms", percent_text(percentiles[k]),
                        summary.percentiles[k]);
  }
  return line;
}

void print_warnings(Console& console, const LogWords& words, const Summary& compute,
                    const Summary& enqueue, int streams) {
  if (enqueue.median > 0.8 * compute.median) {
    console.warning(
        "* Throughput may be bound by {}: the median enqueue time is more than 80 % of the median "
        "compute time.",
        words.is_trtexec() ? "Enqueue Time rather than GPU Compute"
                           : "what happens before the first layer runs rather than by the layers");
  }
  if (compute.variation > 0.025) {
    console.warning("{}{:g}%.", words.variation, compute.variation * 100);
    console.warning(
        "  Other load on this machine or a changing clock is the usual reason; a longer --duration "
        "helps.");
  }
  if (streams > 1) {
    console.warning(
        "* {} streams run at the same time: the latency of one query is not that of a query "
        "running alone.",
        streams);
  }
}

}  // namespace

void print_trace(Console& console, const LogWords& words, const std::vector<QueryTimes>& queries,
                 int64_t avg_runs) {
  constexpr size_t kShown = 200;
  console.section("Trace details");
  console.info("Trace averages of {} runs:", avg_runs);
  const size_t group = static_cast<size_t>(avg_runs);
  const size_t groups = queries.size() / group;
  for (size_t k = 0; k < groups; ++k) {
    if (k == kShown && groups > 2 * kShown) {
      console.info("... Omitting {} lines", groups - 2 * kShown);
      k = groups - kShown;
    }
    const QueryTimes* first = queries.data() + k * group;
    const QueryTimes* last = first + group;
    console.info("Average on {} runs - {}: {:g} ms - Host latency: {:g} ms (enqueue {:g} ms)",
                 avg_runs, words.average, mean_of(first, last, &QueryTimes::compute),
                 mean_of(first, last, &QueryTimes::latency),
                 mean_of(first, last, &QueryTimes::enqueue));
  }
}

void print_summary(Console& console, const LogWords& words, const LoopResult& result,
                   const std::vector<double>& percentiles, int streams) {
  const std::string compute_time = fmt::format("{} Time", words.compute);
  const std::pair<std::string, Measure> lines[] = {{"Latency", &QueryTimes::latency},
                                                   {"Enqueue Time", &QueryTimes::enqueue},
                                                   {"H2D Latency", &QueryTimes::h2d},
                                                   {compute_time, &QueryTimes::compute},
                                                   {"D2H Latency", &QueryTimes::d2h}};
  const double count = static_cast<double>(result.queries.size());
  console.info("");
  console.section("Performance summary");
  console.info("Throughput: {:g} qps", result.wall_seconds > 0 ? count / result.wall_seconds : 0);
  for (const auto& [label, measure] : lines) {
    const Summary summary = summarize(values_of(result.queries, measure), percentiles);
    console.info("{}: {}", label, summary_line(summary, percentiles));
  }
  const std::vector<double> compute = values_of(result.queries, &QueryTimes::compute);
  double total = 0;
  for (double ms : compute) total += ms;
  console.info("Total Host Walltime: {:g} s", result.wall_seconds);
  console.info("Total {}: {:g} s", compute_time, total / 1e3);
  print_warnings(console, words, summarize(compute, {}),
                 summarize(values_of(result.queries, &QueryTimes::enqueue), {}), streams);
}

void print_explanations(Console& console, const LogWords& words) {
  if (words.is_trtexec() && !console.is_verbose())
    console.info("Explanations of the performance metrics are printed in the verbose logs.");
  console.verbose("");
  console.verbose("=== Explanations of the performance metrics ===");
  console.verbose(
      "Total Host Walltime: from the start of the first timed query to the end of the last one.");
  console.verbose("{} Time: from the start of a query's first layer to the end of its last one.",
                  words.compute);
  console.verbose(
      "Total {} Time: the sum over all queries. Well below the wall time: the processor waited.",
      words.compute);
  console.verbose("Enqueue Time: what passes before a query's first layer starts.");
  console.verbose(
      "H2D Latency, D2H Latency: copying inputs and outputs; zero here, they are used in place.");
  console.verbose("Throughput: queries divided by the wall time.");
  console.verbose("Latency: H2D Latency + {} Time + D2H Latency of one query.", words.compute);
}

std::string profile_text_8(const LayerProfile& profile) {
  const std::vector<LayerProfile::Row> rows = profile.rows();
  size_t width = std::string_view("Layer").size();
  for (const LayerProfile::Row& row : rows) width = std::max(width, display_width(row.name));
  const auto padded = [&](const std::string& name) {
    return std::string(width - display_width(name), ' ') + name;
  };
  std::string out = fmt::format("=== Profile ({} iterations ) ===\n", profile.runs());
  out += fmt::format("{}   {:>9}   {:>14}   {:>16}   {:>6}\n", padded("Layer"), "Time (ms)",
                     "Avg. Time (ms)", "Median Time (ms)", "Time %");
  double average = 0, median = 0;
  for (const LayerProfile::Row& row : rows) {
    average += row.average_ms;
    median += row.median_ms;
    out += fmt::format("{}   {:>9.2f}   {:>14.4f}   {:>16.4f}   {:>6.1f}\n", padded(row.name),
                       row.total_ms, row.average_ms, row.median_ms, row.percentage);
  }
  return out + fmt::format("{}   {:>9.2f}   {:>14.4f}   {:>16.4f}   {:>6.1f}\n", padded("Total"),
                           profile.total_ms(), average, median, 100.0);
}

std::string times_json(const std::vector<QueryTimes>& queries) {
  std::string out = "[";
  const char* separator = "\n  ";
  for (const QueryTimes& query : queries) {
    out += separator + Json{{"startEnqMs", query.start_enqueue},
                            {"endEnqMs", query.end_enqueue},
                            {"startH2dMs", query.start_h2d},
                            {"endH2dMs", query.end_h2d},
                            {"startComputeMs", query.start_compute},
                            {"endComputeMs", query.end_compute},
                            {"startD2hMs", query.start_d2h},
                            {"endD2hMs", query.end_d2h},
                            {"h2dMs", query.h2d()},
                            {"computeMs", query.compute()},
                            {"d2hMs", query.d2h()},
                            {"latencyMs", query.latency()}}
                           .dump();
    separator = ",\n  ";
  }
  return out + "\n]\n";
}

Result<std::string> outputs_json(Context& context) {
  std::string out = "[";
  const char* separator = "\n  ";
  for (const TensorInfo& info : context.engine().outputs()) {
    CAMSHAFT_ASSIGN(const TensorView view, context.output(info.name));
    // Not-a-number and infinity have no JSON form: null.
    const Json object = {{"name", info.name},
                         {"dimensions", fmt::format("{}", fmt::join(view.dims, "x"))},
                         {"values", to_doubles(view)}};
    out += separator + object.dump(-1, ' ', false, Json::error_handler_t::replace);
    separator = ",\n  ";
  }
  return out + "\n]\n";
}

Result<std::string> outputs_text(Context& context) {
  std::string out = "Output Tensors:\n";
  for (const TensorInfo& info : context.engine().outputs()) {
    CAMSHAFT_ASSIGN(const TensorView view, context.output(info.name));
    out += fmt::format("{}: ({})\n", info.name, fmt::join(view.dims, "x"));
    const int64_t row = view.dims.empty() ? 1 : std::max<int64_t>(view.dims.back(), 1);
    const std::vector<double> values = to_doubles(view);
    for (size_t k = 0; k < values.size(); ++k) {
      const bool ends_row = (k + 1) % static_cast<size_t>(row) == 0;
      out += fmt::format("{:g}{}", values[k], ends_row ? "\n" : " ");
    }
  }
  out.pop_back();
  return out;
}

Status dump_raw(const std::filesystem::path& folder, const std::string& name, const char* role,
                const TensorView& view) {
  const std::string dims = view.dims.empty() ? "" : fmt::format("{}.", fmt::join(view.dims, "."));
  const std::string file = fmt::format("{}.{}.{}{}.raw", name, role, dims, type_name(view.type));
  return write_file(folder / file, std::span<const std::byte>(
                                       static_cast<const std::byte*>(view.data), view.bytes()));
}

}  // namespace camshaft::cli
