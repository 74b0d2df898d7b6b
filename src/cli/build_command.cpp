// SPDX-License-Identifier: Apache-2.0
// camshaft build: ONNX in, engine out, one screen about it.
#include <algorithm>

#include <fmt/format.h>

#include "camshaft/inspector.h"
#include "cli/commands.h"
#include "cli/session.h"

namespace camshaft::cli {
namespace {

std::string describe(const TensorInfo& info) {
  std::string dims;
  for (size_t k = 0; k < info.dims.size(); ++k) {
    dims += (k > 0 ? ", " : "") +
            (info.symbols[k].empty() ? std::to_string(info.dims[k]) : info.symbols[k]);
  }
  return fmt::format("{} {}[{}]", info.name, type_name(info.type), info.has_rank ? dims : "*");
}

void print_summary(const Engine& engine, const BuildStatistics& statistics,
                   const std::string& file) {
  const EngineInfo& info = engine.info();
  const Inspector inspector(engine);
  double total_us = 0;
  int views = 0;
  for (const LayerInfo& layer : inspector.layers()) {
    total_us += layer.build_time_us;
    views += layer.is_no_op ? 1 : 0;
  }
  for (const TensorInfo& input : engine.inputs()) fmt::print("input    {}\n", describe(input));
  for (const TensorInfo& output : engine.outputs()) fmt::print("output   {}\n", describe(output));
  fmt::print("layers   {} ({} of them views, nothing runs)\n", info.layer_count, views);
  for (const auto& [stage, count] : inspector.layer_counts())
    fmt::print("         {:5}  {}\n", count, stage);
  fmt::print("weights  {}\n", human_bytes(static_cast<double>(info.weight_bytes)));
  if (total_us > 0) {
    fmt::print("time     {} expected per run with {} thread{}\n", human_seconds(total_us / 1e6),
               info.build_threads, info.build_threads == 1 ? "" : "s");
  }
  fmt::print("built    in {}: {}\n", human_seconds(statistics.total_seconds),
             timing_text(statistics));
  fmt::print("{}   {} ({})\n", styled("engine", Style::kGreen), file,
             human_bytes(static_cast<double>(info.file_bytes)));
}

Status build(const Options& options) {
  const std::filesystem::path model = options.positionals()[0];
  Messages messages(options.has("verbose"));
  std::filesystem::path output = options.text("output");
  if (output.empty()) output = std::filesystem::path(model).replace_extension(".engine");
  CAMSHAFT_TRY(check_writable(output, "--output"));
  CAMSHAFT_ASSIGN(Network network, Network::open(model));
  if (!network.is_model()) {
    return make_error(ErrorCode::kInvalidArgument,
                      "{}: an engine already; build takes an .onnx file", model.string());
  }
  BuildStatistics statistics;
  CAMSHAFT_ASSIGN(const Engine engine, network.engine(options, {}, messages, &statistics));
  CAMSHAFT_TRY(engine.save(output));
  print_summary(engine, statistics, output.string());
  return ok_status();
}

}  // namespace

int build_command(std::span<char* const> args) {
  const std::vector<OptionRow> rows = with_common_rows({
      {"output", OptionValue::kText, "FILE", "", "Build", OptionStatus::kWorks,
       "the engine file; default: the model's name with .engine", "", 'o'},
      {"dump-after", OptionValue::kText, "PASS,…", "", "Build", OptionStatus::kWorks,
       "write the text form of the graph behind these passes (docs/passes.md), or all that change "
       "something"},
      {"dump-to", OptionValue::kText, "DIR", "passes", "Build", OptionStatus::kWorks,
       "the folder for that; -: standard output"},
  });
  int code = 0;
  const auto options = parse_command("build", "MODEL.onnx [-o ENGINE]", rows, args, 1, code);
  if (!options) return code;
  const Status status = build(*options);
  return status.ok() ? 0 : fail(status.message());
}

}  // namespace camshaft::cli
