// SPDX-License-Identifier: Apache-2.0
// camshaft inspect: what an engine is made of.
#include <fmt/format.h>

#include "camshaft/inspector.h"
#include "cli/commands.h"
#include "cli/inspect_sparsity.h"
#include "cli/layer_text.h"
#include "cli/region_report.h"
#include "cli/session.h"

namespace camshaft::cli {
namespace {

// The first word of TensorRT's description: enough for a column.
std::string format_of(const LayerInfo& layer) {
  auto short_form = [](const std::string& format) {
    return format.starts_with("Channel major") ? std::string("NHWC")
           : format.starts_with("Row major")   ? std::string("row")
                                               : format;
  };
  if (layer.outputs.empty()) return "";
  std::string out = short_form(layer.outputs[0].format);
  if (layer.inputs.empty()) return out;
  const std::string in = short_form(layer.inputs[0].format);
  return in == out ? out : in + "→" + out;
}

std::string number(double value, const char* format) {
  return value > 0 ? fmt::format(fmt::runtime(format), value) : "";
}

// Multiply-adds of layers; `fmas`: those of 8 and 16 bits as the FMAs that take as long at peak.
struct Arithmetic {
  double macs = 0, fmas = 0;
  bool counts_more = false;  // than is multiplied (LayerInfo::counted_arithmetic)

  void add(const LayerInfo& layer) {
    macs += std::max(layer.macs, 0.0);
    fmas += std::max(layer.macs, 0.0) / layer.peak_factor;
    counts_more |= !layer.counted_arithmetic.empty();
  }
  std::string percent_of(double peak_gmacs, double us) const {
    const double percent = us > 0 && peak_gmacs > 0 ? fmas / us / 1e3 / peak_gmacs * 100 : 0;
    return number(percent, counts_more ? "{:.0f}*" : "{:.0f}");
  }
};

// One row for all its layers.
void add_region(Table& table, const RegionInfo& region, const std::vector<LayerInfo>& layers,
                double total_us, double peak) {
  std::string shapes;
  for (const RegionInfo::Border& border : region.after) {
    const std::string shape = to_string(border.tensor.dims);
    if (border.layer < 0) shapes += (shapes.empty() ? "" : ", ") + shape;
  }
  Arithmetic work;
  for (const int layer : region.layers) work.add(layers[static_cast<size_t>(layer)]);
  table.add({fmt::format("{}-{}", region.layers.front(), region.layers.back()), region.name,
             "Region", number(region.build_time_us, "{:.1f}"),
             number(total_us > 0 ? region.build_time_us / total_us * 100 : 0, "{:.1f}"),
             work.percent_of(peak, region.build_time_us),
             fmt::format("{} layers", region.layers.size()), "", shapes});
}

void print_table(const Engine& engine, const Inspector& inspector, bool collapsed) {
  const EngineInfo& info = engine.info();
  const double total = total_us(inspector);
  Table table({{"#", Align::kRight},
               {"layer", Align::kLeft, 96},  // --text and --json have them whole
               {"kind"},
               {"us", Align::kRight},
               {"%", Align::kRight},
               {"% peak", Align::kRight},
               {"tactic"},
               {"format"},
               {"shape"}});
  const double peak = inspector.peak_gmacs() * info.build_threads;
  Arithmetic all;
  for (const LayerInfo& layer : inspector.layers()) {
    all.add(layer);
    if (collapsed && layer.region >= 0) {
      const RegionInfo& region = inspector.regions()[static_cast<size_t>(layer.region)];
      if (region.layers.front() == layer.index)
        add_region(table, region, inspector.layers(), total, peak);
      continue;
    }
    const double us = layer.build_time_us;
    Arithmetic work;
    work.add(layer);
    table.add({std::to_string(layer.index), layer.name, layer.type, number(us, "{:.1f}"),
               number(total > 0 ? us / total * 100 : 0, "{:.1f}"), work.percent_of(peak, us),
               tactic_text(layer), format_of(layer), shapes_text(layer.outputs)},
              layer.is_no_op ? Style::kDim : Style::kPlain);
  }
  table.rule();
  table.add(
      {"", fmt::format("{} layers", info.layer_count), "", number(total, "{:.1f}"), "",
       all.percent_of(peak, total), all.macs > 0 ? human_count(all.macs) + "MAC" : "", "", ""},
      Style::kBold);
  fmt::print("{}", table.text());
  if (all.counts_more) fmt::print("{}\n", styled(kCountedArithmetic, Style::kDim));
  fmt::print("\n{}: built by camshaft {} on {} for {} thread{}; weights {}, file {}\n",
             info.model_name.empty() ? "engine" : info.model_name, info.builder_version,
             info.cpu_model, info.build_threads, info.build_threads == 1 ? "" : "s",
             human_bytes(static_cast<double>(info.weight_bytes)),
             human_bytes(static_cast<double>(info.file_bytes)));
}

Verbosity parse_verbosity(const std::string& word) {
  if (word == "names") return Verbosity::kLayerNamesOnly;
  return word == "none" ? Verbosity::kNone : Verbosity::kDetailed;
}

Status inspect(const Options& options) {
  Messages messages(options.has("verbose"));
  const std::filesystem::path file = options.positionals()[0];
  for (const char* form : {"json", "text", "verbosity"})
    if (options.has("regions") && options.has(form))
      return make_error(ErrorCode::kInvalidArgument,
                        "--regions is of the table; --verbosity names has regions as one entry");
  if (options.has("sparsity") && file.extension() == ".onnx") return print_model_sparsity(file);
  CAMSHAFT_ASSIGN(Network network, Network::open(file));
  CAMSHAFT_ASSIGN(const Engine engine, network.engine(options, {}, messages));
  if (options.has("sparsity")) {
    print_engine_sparsity(Inspector(engine));
    return ok_status();
  }
  // A context gives dynamic extents their values, at the profile's opt shape.
  CAMSHAFT_ASSIGN(Context context, make_context(engine, options));
  for (const TensorInfo& output : engine.outputs()) (void)context.output_shape(output.name);
  const Inspector inspector(engine, context);
  const Verbosity verbosity = parse_verbosity(options.text("verbosity"));
  if (options.has("json")) {
    fmt::print("{}", inspector.to_json(verbosity));
  } else if (options.has("text") || options.has("verbosity")) {
    fmt::print("{}", inspector.to_text(verbosity));
  } else {
    print_table(engine, inspector, options.has("regions"));
  }
  return ok_status();
}

}  // namespace

int inspect_command(std::span<char* const> args) {
  constexpr OptionStatus kWorks = OptionStatus::kWorks;
  const std::vector<OptionRow> rows = with_common_rows({
      {"json", OptionValue::kNone, "", "", "Form", kWorks,
       "JSON in TensorRT's layer information schema"},
      {"text", OptionValue::kNone, "", "", "Form", kWorks,
       "a line per layer, as camexec --dumpLayerInfo prints"},
      {"verbosity", OptionValue::kChoice, "detailed|names|none", "detailed", "Form", kWorks,
       "how much JSON or text tells; names: a region is one"},
      {"regions", OptionValue::kNone, "", "", "Form", kWorks,
       "the table with a row for each region (the blocks of a transformer), not for its layers"},
      {"sparsity", OptionValue::kNone, "", "", "Form", kWorks,
       "the zeros in weights: of a model, which layers are 2:4 and what the others miss; of an "
       "engine, which run sparse, both times, and why the others do not"},
  });
  int code = 0;
  const auto options = parse_command("inspect", "ENGINE|MODEL.onnx [--json]", rows, args, 1, code);
  if (!options) return code;
  const Status status = inspect(*options);
  return status.ok() ? 0 : fail(status.message());
}

}  // namespace camshaft::cli
