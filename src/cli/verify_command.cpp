// SPDX-License-Identifier: Apache-2.0
// camshaft verify: errors of every tensor, ranked; of quantization against float, of an engine
// against the interpreter; --bisect precision: which layers to keep in float.
#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/inference_loop.h"
#include "cli/samples.h"
#include "cli/session.h"
#include "onnx/importer.h"
#include "quantize/placement.h"
#include "quantize/quantize_model.h"
#include "quantize/verify.h"

namespace camshaft::cli {
namespace {

using Json = nlohmann::ordered_json;
using quantize::TensorError;
using quantize::TensorReport;

const std::vector<OptionRow>& verify_rows() {
  constexpr OptionStatus kWorks = OptionStatus::kWorks;
  static const std::vector<OptionRow> kRows = {
      {"data", OptionValue::kText, "DIR|FILE", "", "Inputs", kWorks,
       "samples: a folder of ONNX test data, a folder of .npz/.npy files, one .npz or .npy; may be "
       "repeated; default: random, the same every time",
       "", 'd'},
      {"samples", OptionValue::kInteger, "N", "", "Inputs", kWorks, "use the first N samples only",
       "", 0, 1},
      {"reference", OptionValue::kText, "FILE.onnx", "", "Comparison", kWorks,
       "the float network; default: the same one without its Q/DQ", "", 'r'},
      {"engine", OptionValue::kNone, "", "", "Comparison", kWorks,
       "the engine against the interpreter (with Q/DQ: against the Q/DQ as written), and each of "
       "its "
       "layers on the operands it has in the engine; fails where a layer leaves its bound. The "
       "default for networks without Q/DQ"},
      {"min-cosine", OptionValue::kNumber, "X", "", "Bounds", kWorks,
       "fail if an output's cosine is below", "", 0, -1},
      {"max-error", OptionValue::kNumber, "X", "", "Bounds", kWorks,
       "fail if an output's largest error is above", "", 0, 0},
      {"layer-error", OptionValue::kNumber, "X", "1e-4", "Bounds", kWorks,
       "of each engine layer: largest error, as a share of its largest value (codes of 8 bits: one "
       "step)",
       "", 0, 0},
      {"bisect", OptionValue::kChoice, "precision", "", "Bounds", kWorks,
       "find the smallest set of layers to keep in float for the bounds"},
      {"output", OptionValue::kText, "FILE.onnx", "", "Bounds", kWorks,
       "with --bisect: write the network with these layers in float", "", 'o'},
      {"json", OptionValue::kNone, "", "", "Report", kWorks, "everything as JSON"},
      {"top", OptionValue::kInteger, "N", "20", "Report", kWorks, "the N worst tensors; 0: all", "",
       'n', 0},
      {"level", OptionValue::kChoice, "0|1|2|3|4|5", "3", "Common options", kWorks,
       "tuning effort for the engine"},
      {"timing-cache", OptionValue::kText, "FILE", "", "Common options", kWorks,
       "reuse tactic times, add new ones"},
      {"threads", OptionValue::kInteger, "N", "", "Common options", kWorks,
       "threads; default: all this process may use", "", 't', 1},
      {"verbose", OptionValue::kNone, "", "", "Common options", kWorks,
       "the library's log on standard error", "", 'v'},
      {"help", OptionValue::kNone, "", "", "Common options", kWorks, "this text", "", 'h'},
  };
  return kRows;
}

// One bar per decade of the error, from "equal" to "as large as the range".
std::string bars(const TensorError& error) {
  static constexpr const char* kBars[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::string text;
  for (const int64_t count : error.histogram()) {
    const double share =
        static_cast<double>(count) / static_cast<double>(std::max<int64_t>(error.elements(), 1));
    text += kBars[count == 0 ? 0 : std::clamp(static_cast<int>(std::ceil(share * 8)), 1, 8)];
  }
  return text;
}

std::string decibels(double snr) {
  return std::isinf(snr) ? (snr > 0 ? "exact" : "-inf") : fmt::format("{:.1f}", snr);
}

Json number(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

Json tensor_json(const TensorReport& report) {
  return {{"name", report.tensor},
          {"layer", report.layer},
          {"output", report.is_output},
          {"elements", report.error.elements()},
          {"snrDb", number(report.error.signal_to_noise())},
          {"cosine", number(report.error.cosine())},
          {"maxError", number(report.error.max_absolute())},
          {"maxRelativeError", number(report.error.max_relative())},
          {"meanSquaredError", number(report.error.mean_squared())},
          {"histogram", report.error.histogram()}};
}

Json list_json(const std::vector<TensorReport>& reports) {
  Json list = Json::array();
  for (const TensorReport& report : reports) list.push_back(tensor_json(report));
  return list;
}

class Verifier {
 public:
  Verifier(const Options& options, Messages& messages)
      : options_(options), messages_(messages), file_(options.positionals()[0]) {
    if (options.has("min-cosine")) bound_.min_cosine = options.number("min-cosine");
    if (options.has("max-error")) bound_.max_error = options.number("max-error");
  }

  // False: a bound does not hold.
  Result<bool> run() {
    CAMSHAFT_ASSIGN(const auto imported, onnx_import::import_file(file_));
    quantized_ = quantize::has_quantization(*imported.graph);
    CAMSHAFT_TRY(check_options());
    CAMSHAFT_TRY(check_writable(options_.text("output"), "--output"));
    CAMSHAFT_TRY(read(*imported.graph));
    Result<bool> good = options_.has("bisect") ? bisect() : compare();
    messages_.progress().clear();
    if (good.ok() && options_.has("json")) fmt::print("{}\n", json_.dump(1));
    return good;
  }

  // Layers are in the order of the engine's steps.
  const tuner::LayerCheck* first_beyond() const {
    const double bound = options_.number("layer-error");
    const auto found = std::find_if(layers_.begin(), layers_.end(),
                                    [&](const auto& layer) { return !layer.is_within(bound); });
    return found == layers_.end() ? nullptr : &*found;
  }

 private:
  static Status invalid(std::string text) {
    return Status(ErrorCode::kInvalidArgument, std::move(text));
  }

  bool has_bound() const { return bound_.min_cosine >= 0 || bound_.max_error >= 0; }
  bool against_float() const {
    return options_.has("reference") || (quantized_ && !options_.has("engine"));
  }

  Status check_options() const {
    if (options_.has("bisect") && !quantized_)
      return invalid(file_.string() + ": --bisect precision: the network has no Q/DQ");
    if (options_.has("bisect") && !has_bound())
      return invalid("--bisect precision needs --min-cosine X or --max-error X");
    if (options_.has("output") && !options_.has("bisect"))
      return invalid("--output goes with --bisect precision");
    if (options_.has("engine") && (options_.has("reference") || options_.has("bisect")))
      return invalid("--engine compares with the interpreter: no --reference, no --bisect");
    return ok_status();
  }

  Status read(const ir::Graph& graph) {
    std::vector<std::string> notes;
    CAMSHAFT_ASSIGN(samples_,
                    read_samples(graph, options_.all("data"),
                                 static_cast<size_t>(options_.integer("samples")), notes));
    print_notes(messages_, notes);
    if (!samples_.empty()) return ok_status();
    quantize::Sample sample;
    for (const ir::Tensor* input : graph.inputs()) {
      HostTensor tensor{input->name, static_cast<DataType>(input->type), true, {}, {}};
      ir::Extents extents;
      for (const ir::Dim dim : input->shape) extents.push_back(dim.is_known() ? dim.extent() : 1);
      tensor.bytes.resize(ir::bytes_for(input->type, ir::element_count(extents)));
      fill_random(tensor, true);
      CAMSHAFT_ASSIGN(sample[input->name],
                      kernels::make_value(input->type, extents, std::move(tensor.bytes)));
    }
    samples_.push_back(std::move(sample));
    if (!options_.has("json"))
      fmt::print("{}\n", styled("random inputs: real ones (--data) say more", Style::kDim));
    return ok_status();
  }

  quantize::GraphSource source(const std::filesystem::path& file) const {
    return [file]() -> Result<std::unique_ptr<ir::Graph>> {
      CAMSHAFT_ASSIGN(auto imported, onnx_import::import_file(file));
      return std::move(imported.graph);
    };
  }

  quantize::GraphSource reference() const {
    return options_.has("reference") ? source(options_.text("reference")) : quantize::GraphSource();
  }

  template <class O>
  O run_options() {
    O options;
    options.threads = static_cast<int>(options_.integer("threads"));
    options.progress = [this](const char* phase, int done, int total) {
      messages_.progress().update(phase, done, total);
      return !interrupted();
    };
    return options;
  }

  Result<bool> compare() {
    std::vector<TensorReport> reports;
    quantize::AgreementCounter counter;
    const quantize::OutputsVisit visit = [&](std::span<const quantize::OutputPair> outputs) {
      counter.add(outputs);
    };
    if (against_float()) {
      CAMSHAFT_ASSIGN(reports,
                      quantize::compare_quantized(source(file_), reference(), samples_,
                                                  run_options<quantize::SamplerOptions>(), visit));
    } else {
      auto options = run_options<quantize::EngineOptions>();
      options.optimization_level = static_cast<int>(options_.integer("level"));
      options.timing_cache_file = options_.text("timing-cache");
      CAMSHAFT_ASSIGN(quantize::EngineReport engine,
                      quantize::compare_engine(source(file_), samples_, options, visit));
      reports = std::move(engine.tensors);
      layers_ = std::move(engine.layers);
    }
    messages_.progress().clear();
    agreements_ = counter.take();
    std::vector<TensorReport> outputs;
    for (const TensorReport& report : reports)
      if (report.is_output) outputs.push_back(report);
    const char* what = !against_float() ? "engine against interpreter"
                       : options_.has("reference")
                           ? "against the float network"
                           : "quantized against float (the same network without Q/DQ)";
    if (options_.has("json")) {
      json_ = {{"comparison", what}, {"samples", samples_.size()}, {"tensors", list_json(reports)}};
      if (!agreements_.empty()) json_["agreement"] = agreements_json();
      if (!layers_.empty()) json_["layers"] = layers_json();
      if (const tuner::LayerCheck* first = first_beyond()) json_["firstBeyondBound"] = first->layer;
    } else {
      print_ranked(what, reports);
      print_layers();
    }
    return first_beyond() == nullptr && (!has_bound() || bound_.holds(outputs));
  }

  static void add_row(Table& table, const TensorReport& report, Style style) {
    const TensorError& error = report.error;
    table.add({report.tensor, report.layer == report.tensor ? "" : report.layer,
               decibels(error.signal_to_noise()), fmt::format("{:.6f}", error.cosine()),
               fmt::format("{:.3g}", error.max_absolute()),
               fmt::format("{:.2g}", error.max_relative()), "|" + bars(error) + "|"},
              style);
  }

  static Table make_table(const char* first) {
    return Table({{first},
                  {"layer"},
                  {"SNR dB", Align::kRight},
                  {"cosine", Align::kRight},
                  {"max error", Align::kRight},
                  {"of range", Align::kRight},
                  {"errors: 0 … range"}});
  }

  static Table output_table(const std::vector<TensorReport>& reports) {
    Table table = make_table("output");
    for (const TensorReport& report : reports)
      if (report.is_output) add_row(table, report, Style::kPlain);
    return table;
  }

  void print_ranked(const char* what, const std::vector<TensorReport>& reports) const {
    std::vector<size_t> order(reports.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return reports[a].error.signal_to_noise() < reports[b].error.signal_to_noise();
    });
    const auto top = static_cast<size_t>(options_.integer("top"));
    const size_t shown = top == 0 ? order.size() : std::min(order.size(), top);
    fmt::print("{}: {} tensors, {} sample{}\n\n", what, reports.size(), samples_.size(),
               samples_.size() == 1 ? "" : "s");
    Table table = make_table("tensor, worst first");
    for (size_t k = 0; k < shown; ++k) add_row(table, reports[order[k]], Style::kPlain);
    fmt::print("{}", table.text());
    if (shown < order.size()) fmt::print("… {} more (--top 0)\n", order.size() - shown);
    fmt::print("\n{}", output_table(reports).text());
    for (const quantize::Agreement& agreement : agreements_) fmt::print("{}\n", agreement.text());
  }

  Json agreements_json() const {
    Json list = Json::array();
    for (const quantize::Agreement& agreement : agreements_) {
      const bool is_top1 = agreement.kind == quantize::Agreement::Kind::kTop1;
      list.push_back({{"output", agreement.output},
                      {"kind", is_top1 ? "top1" : "boxes"},
                      {"rows", agreement.rows},
                      {"same", agreement.same}});
      if (!is_top1) list.back()["coordinateError"] = agreement.coordinate_error;
    }
    return list;
  }

  Json layers_json() const {
    Json list = Json::array();
    for (const tuner::LayerCheck& layer : layers_)
      list.push_back({{"layer", layer.layer},
                      {"tactic", layer.tactic},
                      {"type", ir::type_name(layer.type)},
                      {"elements", layer.elements},
                      {"differing", layer.differing},
                      {"maxError", number(layer.error)},
                      {"maxValue", layer.largest}});
    return list;
  }

  // Each layer on the operands the engine gave it: what is left is the kernel's own doing.
  void print_layers() const {
    if (layers_.empty()) return;
    int64_t codes = 0, differing = 0, layers_of_codes = 0;
    double steps = 0, others = 0;
    for (const tuner::LayerCheck& layer : layers_)
      if (ir::is_quantized(layer.type)) {
        ++layers_of_codes, codes += layer.elements, differing += layer.differing;
        steps = std::max(steps, layer.error);
      } else if (layer.largest > 0) {
        others = std::max(others, layer.error / layer.largest);
      }
    fmt::print(
        "\neach of {} layers against exact arithmetic on the operands it had in the engine:\n"
        "  {} make 8-bit codes: {} of {} differ, by {} step{} at most\n"
        "  {} others: within {:.1e} of their largest value\n",
        layers_.size(), layers_of_codes, differing, codes, steps, steps == 1 ? "" : "s",
        static_cast<int64_t>(layers_.size()) - layers_of_codes, others);
    const tuner::LayerCheck* first = first_beyond();
    if (!first) return;
    Table table({{"beyond the bound (a step, --layer-error, what 16 bits round)"},
                 {"tactic"},
                 {"", Align::kRight}});
    for (const tuner::LayerCheck& layer : layers_) {
      if (layer.is_within(options_.number("layer-error"))) continue;
      table.add({layer.layer, layer.tactic,
                 ir::is_quantized(layer.type)
                     ? fmt::format("{} of {} by {}", layer.differing, layer.elements, layer.error)
                     : fmt::format("{:.2g} of {:.2g}", layer.error, layer.largest)});
    }
    fmt::print("\n{}\nfirst beyond the bound: {}\n", table.text(), tuner::text_of(*first));
  }

  Result<bool> bisect() {
    CAMSHAFT_ASSIGN(const quantize::BisectResult result,
                    quantize::bisect_precision(source(file_), reference(), samples_, bound_,
                                               run_options<quantize::SamplerOptions>()));
    messages_.progress().clear();
    if (options_.has("output") && result.holds) {
      CAMSHAFT_ASSIGN(const std::string bytes,
                      quantize::keep_layers_float(file_, result.keep_float));
      CAMSHAFT_TRY(write_file(options_.text("output"), bytes));
    }
    if (options_.has("json")) {
      json_ = bisect_json(result);
    } else {
      print_bisect(result);
    }
    return result.holds;
  }

  Json bisect_json(const quantize::BisectResult& result) const {
    Json layers = Json::array();
    for (const auto& layer : result.layers)
      layers.push_back({{"name", layer.name}, {"noise", number(layer.noise)}});
    return {{"samples", samples_.size()},
            {"evaluations", result.evaluations},
            {"holds", result.holds},
            {"keepFloat", result.keep_float},
            {"options", option_line(result)},
            {"layers", layers},
            {"before", list_json(result.before)},
            {"after", list_json(result.after)}};
  }

  static std::string option_line(const quantize::BisectResult& result) {
    if (result.keep_float.empty()) return "";
    std::string line = "--precisionConstraints=obey '--layerPrecisions=";
    for (size_t k = 0; k < result.keep_float.size(); ++k) {
      const std::string& name = result.keep_float[k];
      const bool quotes = name.find_first_of(",\"") != std::string::npos;
      line += fmt::format("{}{}:fp32", k > 0 ? "," : "", quotes ? "\"" + name + "\"" : name);
    }
    return line + "'";
  }

  void print_bisect(const quantize::BisectResult& result) const {
    fmt::print("all layers quantized\n{}\n", output_table(result.before).text());
    if (result.keep_float.empty()) {
      fmt::print("the bound holds: nothing needs to stay float\n");
      return;
    }
    if (!result.holds) {
      fmt::print("all layers in float: the bound does not hold either\n{}",
                 output_table(result.after).text());
      return;
    }
    fmt::print("{} of {} layers in float ({} networks tried)\n{}\n", result.keep_float.size(),
               result.layers.size(), result.evaluations, output_table(result.after).text());
    Table table({{"layer in float"}, {"outputs' SNR dB with it alone in int8", Align::kRight}});
    for (const auto& layer : result.layers)
      if (std::find(result.keep_float.begin(), result.keep_float.end(), layer.name) !=
          result.keep_float.end())
        table.add({layer.name, decibels(-10 * std::log10(layer.noise))});
    fmt::print("{}\ncamexec {}\n", table.text(), option_line(result));
    if (options_.has("output")) fmt::print("written     {}\n", options_.text("output"));
  }

  const Options& options_;
  Messages& messages_;
  std::filesystem::path file_;
  bool quantized_ = false;
  quantize::Bound bound_;
  std::vector<quantize::Sample> samples_;
  std::vector<tuner::LayerCheck> layers_;
  std::vector<quantize::Agreement> agreements_;
  Json json_;
};

}  // namespace

int verify_command(std::span<char* const> args) {
  int code = 0;
  const auto options =
      parse_command("verify", "MODEL.onnx [--data DIR] [options]", verify_rows(), args, 1, code);
  if (!options) return code;
  Messages messages(options->has("verbose"));
  Verifier verifier(*options, messages);
  const Result<bool> good = verifier.run();
  if (!good.ok()) return fail(good.status().message());
  if (good.value()) return 0;
  return fail(verifier.first_beyond() ? verifier.first_beyond()->layer + " leaves its bound"
                                      : "the bound does not hold");
}

}  // namespace camshaft::cli
