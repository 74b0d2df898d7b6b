// SPDX-License-Identifier: Apache-2.0
// camshaft bench: latency, throughput, arithmetic rate, percent of what this machine can do in the
// same seconds.
#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/cpu.h"
#include "camshaft/inspector.h"
#include "cli/commands.h"
#include "cli/decode.h"
#include "cli/inference_loop.h"
#include "cli/session.h"
#include "kernels/probe.h"

namespace camshaft::cli {
namespace {

const std::vector<double> kPercentiles = {50, 90, 95, 99};

struct Measurement {
  LoopResult loop;
  Summary latency;
  double peak_gmacs = 0;  // of all threads used, around the loop
  double macs = 0;        // per run; layers of unknown work left out
  double fmas = 0;        // the same, 8-bit ones as the FMAs that take as long at peak
  int threads = 1;        // per stream
  int streams = 1;
  size_t activation_bytes = 0;
  int64_t images_per_pass = 0;  // of the last group of layers that cuts the batch
  int layers_in_passes = 0;

  double queries_per_second() const {
    return loop.wall_seconds > 0 ? static_cast<double>(loop.queries.size()) / loop.wall_seconds : 0;
  }
  double gmacs() const { return macs * queries_per_second() / 1e9; }
  double peak_percent() const {
    return peak_gmacs > 0 ? fmas * queries_per_second() / 1e9 / peak_gmacs * 100 : 0;
  }
};

void count_work(const Engine& engine, const Context& context, Measurement& result) {
  const Inspector inspector(engine, context);
  for (const LayerInfo& layer : inspector.layers()) {
    result.macs += std::max(layer.macs, 0.0);
    result.fmas += std::max(layer.macs, 0.0) / layer.peak_factor;
    if (layer.images_per_pass == 0 || layer.is_no_op) continue;
    result.images_per_pass = layer.images_per_pass;
    ++result.layers_in_passes;
  }
}

// `inputs` is what the contexts are bound to: it must outlive their runs.
Result<Measurement> measure(const Engine& engine, const Options& options, DataSet data,
                            InputSet& inputs, std::vector<Context>& contexts, Messages& messages) {
  CAMSHAFT_ASSIGN(NamedShapes shapes, wanted_shapes(options));
  for (const auto& [name, tensor] : data.inputs)
    if (tensor.has_shape && find_shape(shapes, name) == nullptr)
      shapes.emplace_back(name, tensor.dims);
  Measurement result;
  result.streams = static_cast<int>(options.integer("streams"));
  for (int k = 0; k < result.streams; ++k) {
    CAMSHAFT_ASSIGN(Context context, make_context(engine, options, shapes, result.streams));
    contexts.push_back(std::move(context));
  }
  CAMSHAFT_ASSIGN(inputs, InputSet::create(contexts[0], shapes, std::move(data.inputs)));
  std::string note;
  CAMSHAFT_TRY(inputs.try_run(contexts[0], note));
  if (!note.empty()) messages.log(Severity::kWarning, note);
  for (Context& context : contexts) CAMSHAFT_TRY(inputs.bind(context));
  LoopOptions loop;
  loop.iterations = options.integer("iterations");
  loop.warm_up_ms = options.number("warm-up");
  loop.duration_s = options.number("duration");
  loop.progress = [&](double elapsed, double total) {
    messages.progress().update("measuring", static_cast<int64_t>(elapsed * 1e3),
                               static_cast<int64_t>(total * 1e3));
  };
  // The clock moves: the yardstick is the better of a probe before and one after.
  const double before = kernels::measure_fma_peak(active_isa());
  CAMSHAFT_ASSIGN(result.loop, run_loop(contexts, loop));
  messages.progress().clear();
  result.threads = contexts[0].threads();
  result.peak_gmacs =
      std::max(before, kernels::measure_fma_peak(active_isa())) * result.threads * result.streams;
  count_work(engine, contexts[0], result);
  result.activation_bytes = contexts[0].activation_bytes();
  std::vector<double> latencies;
  for (const QueryTimes& query : result.loop.queries) latencies.push_back(query.latency());
  result.latency = summarize(latencies, kPercentiles);
  return result;
}

void print(const Measurement& result) {
  const Summary& latency = result.latency;
  Table table({{"latency"}, {"ms", Align::kRight}});
  auto row = [&](const std::string& name, double ms, Style style = Style::kPlain) {
    table.add({name, fmt::format("{:.4f}", ms)}, style);
  };
  row("min", latency.min);
  row("median", latency.median, Style::kGreen);
  row("mean", latency.mean);
  for (size_t k = 1; k < kPercentiles.size(); ++k)
    row("p" + percent_text(kPercentiles[k]), latency.percentiles[k]);
  row("max", latency.max);
  fmt::print("{}\n", table.text());
  fmt::print("{} runs in {}, {} stream{} of {} thread{}\n", result.loop.queries.size(),
             human_seconds(result.loop.wall_seconds), result.streams,
             result.streams == 1 ? "" : "s", result.threads, result.threads == 1 ? "" : "s");
  fmt::print("throughput  {:.2f} runs/s\n", result.queries_per_second());
  if (result.macs > 0) {
    fmt::print(
        "arithmetic  {}MAC per run, {:.1f} GMAC/s, {:.1f} % of the {} peak measured beside it "
        "({:.1f} GMAC/s)\n",
        human_count(result.macs), result.gmacs(), result.peak_percent(),
        result.fmas < result.macs ? "FMA and 8 or 16-bit" : "FMA", result.peak_gmacs);
  }
  fmt::print("memory      {} of activations per stream\n",
             human_bytes(static_cast<double>(result.activation_bytes)));
  if (result.layers_in_passes > 0)
    fmt::print("batch       {} layers take {} image{} at a time, so that L2 holds them\n",
               result.layers_in_passes, result.images_per_pass,
               result.images_per_pass == 1 ? "" : "s");
}

std::string to_json(const Measurement& result) {
  nlohmann::ordered_json json = {{"runs", result.loop.queries.size()},
                                 {"seconds", result.loop.wall_seconds},
                                 {"streams", result.streams},
                                 {"threads", result.threads},
                                 {"runsPerSecond", result.queries_per_second()},
                                 {"latencyMs",
                                  {{"min", result.latency.min},
                                   {"median", result.latency.median},
                                   {"mean", result.latency.mean},
                                   {"max", result.latency.max},
                                   {"variation", result.latency.variation}}},
                                 {"macs", result.macs},
                                 {"gmacs", result.gmacs()},
                                 {"peakGmacs", result.peak_gmacs},
                                 {"percentOfPeak", result.peak_percent()},
                                 {"activationBytes", result.activation_bytes}};
  for (size_t k = 1; k < kPercentiles.size(); ++k) {
    json["latencyMs"]["p" + percent_text(kPercentiles[k])] = result.latency.percentiles[k];
  }
  return json.dump(2) + "\n";
}

// Under an If, Loop or Scan: the slowest of the layers inside, in the order they run.
void add_inner_rows(Table& table, const LayerInfo& layer, std::vector<LayerProfile::Row> rows,
                    size_t count, double whole_ms) {
  std::vector<double> slowest;
  slowest.reserve(rows.size());
  for (const LayerProfile::Row& row : rows) slowest.push_back(row.median_ms);
  std::sort(slowest.begin(), slowest.end(), std::greater<>());
  const double least = slowest.size() > count ? slowest[count - 1] : 0;
  std::erase_if(rows, [least](const LayerProfile::Row& row) { return row.median_ms < least; });
  for (const LayerProfile::Row& row : rows) {
    const InnerLayer& inner = layer.inner[static_cast<size_t>(row.inner)];
    table.add({"", indented_name(inner, row.calls), fmt::format("{:.4f}", row.median_ms),
               fmt::format("{:.1f}", whole_ms > 0 ? 100 * row.median_ms / whole_ms : 0), "", "", "",
               tactic_text(inner)},
              Style::kDim);
  }
}

// The slowest layers of some profiled runs.
Status print_layers(const Engine& engine, Context& context, size_t count) {
  const Inspector inspector(engine, context);
  LayerProfile profile(inspector);
  context.set_profiler([&](const LayerTime& time) { profile.add(time); }, true);
  constexpr int kRuns = 10;
  for (int k = 0; k < kRuns; ++k) {
    CAMSHAFT_TRY(context.run());
    profile.end_run();
  }
  context.set_profiler(nullptr);
  const double peak = kernels::measure_fma_peak(active_isa()) * context.threads();
  std::vector<LayerProfile::Row> rows = profile.rows(peak);
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.median_ms > b.median_ms; });
  Table table({{"#", Align::kRight},
               {"slowest layers", Align::kLeft, 64},
               {"ms", Align::kRight},
               {"%", Align::kRight},
               {"GMAC/s", Align::kRight},
               {"% peak", Align::kRight},
               {"GB/s", Align::kRight},
               {"tactic"}});
  double whole = 0;  // medians: one disturbed run must not make a layer most of the time
  for (const LayerProfile::Row& row : rows) whole += row.median_ms;
  bool any_counted = false;
  for (size_t k = 0; k < std::min(count, rows.size()); ++k) {
    const LayerProfile::Row& row = rows[k];
    const LayerInfo& layer = inspector.layers()[static_cast<size_t>(row.layer)];
    any_counted |= !layer.counted_arithmetic.empty();
    table.add({std::to_string(row.layer), row.name, fmt::format("{:.4f}", row.median_ms),
               fmt::format("{:.1f}", whole > 0 ? 100 * row.median_ms / whole : 0),
               row.gmacs > 0 ? fmt::format("{:.1f}", row.gmacs) : "",
               row.gmacs > 0 ? fmt::format("{:.0f}{}", row.peak_percent,
                                           layer.counted_arithmetic.empty() ? "" : "*")
                             : "",
               row.gbytes > 0 ? fmt::format("{:.1f}", row.gbytes) : "", tactic_text(layer)});
    add_inner_rows(table, layer, profile.inner_rows(row.layer), count, whole);
  }
  fmt::print("\n{}", table.text());
  if (any_counted) fmt::print("{}\n", styled(kCountedArithmetic, Style::kDim));
  return ok_status();
}

Status decode(const Options& options, Network& network, Messages& messages) {
  CAMSHAFT_ASSIGN(const DecodeRequest request, parse_decode(options.text("decode")));
  CAMSHAFT_ASSIGN(const DecoderBindings bindings,
                  DecoderBindings::find(network.inputs(), network.outputs()));
  CAMSHAFT_TRY(bindings.check(request));
  CAMSHAFT_ASSIGN(const Engine engine,
                  network.engine_for(options, bindings.profiles(request), messages));
  CAMSHAFT_ASSIGN(
      const DecodeResult result,
      run_decode(engine, bindings, request, static_cast<int>(options.integer("threads"))));
  if (options.has("json"))
    fmt::print("{}", decode_json(request, result));
  else
    print_decode(request, result);
  return ok_status();
}

Status bench(const Options& options) {
  Messages messages(options.has("verbose"));
  CAMSHAFT_ASSIGN(Network network, Network::open(options.positionals()[0]));
  if (options.has("decode")) return decode(options, network, messages);
  CAMSHAFT_ASSIGN(std::vector<DataSet> sets, read_data(network, options, messages));
  CAMSHAFT_ASSIGN(const Engine engine, network.engine(options, sets, messages));
  InputSet inputs;
  std::vector<Context> contexts;
  CAMSHAFT_ASSIGN(const Measurement result,
                  measure(engine, options, std::move(sets[0]), inputs, contexts, messages));
  if (result.loop.queries.empty())
    return Status(ErrorCode::kCancelled, "interrupted before a run was timed");
  if (options.has("json")) {
    fmt::print("{}", to_json(result));
    return ok_status();
  }
  print(result);
  const auto layers = static_cast<size_t>(options.integer("layers"));
  return layers > 0 ? print_layers(engine, contexts[0], layers) : ok_status();
}

}  // namespace

int bench_command(std::span<char* const> args) {
  constexpr OptionStatus kWorks = OptionStatus::kWorks;
  const std::vector<OptionRow> rows = with_input_rows({
      {"duration", OptionValue::kNumber, "S", "3", "Measuring", kWorks, "at least so many seconds",
       "", 0, 0},
      {"iterations", OptionValue::kInteger, "N", "10", "Measuring", kWorks, "at least so many runs",
       "", 'n', 1},
      {"warm-up", OptionValue::kNumber, "MS", "200", "Measuring", kWorks,
       "milliseconds before timing starts", "", 0, 0},
      {"streams", OptionValue::kInteger, "N", "1", "Measuring", kWorks,
       "contexts that run at the same time", "", 0, 1},
      {"layers", OptionValue::kInteger, "N", "10", "Measuring", kWorks, "show the N slowest layers",
       "", 0, 0},
      {"decode", OptionValue::kText, "PROMPT,STEPS", "", "Measuring", kWorks,
       "generate: a prompt of so many tokens, then so many one by one with their keys and values "
       "(past… inputs, present… outputs); tokens/s, and GB/s beside what this machine reads"},
      {"json", OptionValue::kNone, "", "", "Measuring", kWorks, "print JSON instead"},
      profile_row(),
  });
  int code = 0;
  const auto options = parse_command("bench", "MODEL.onnx|ENGINE [options]", rows, args, 1, code);
  if (!options) return code;
  const Status status = bench(*options);
  return status.ok() ? 0 : fail(status.message());
}

}  // namespace camshaft::cli
