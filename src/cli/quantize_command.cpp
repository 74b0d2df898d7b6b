// SPDX-License-Identifier: Apache-2.0
// camshaft quantize: scales from real data, Q/DQ into the ONNX file or a calibration cache.
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/inference_loop.h"
#include "cli/samples.h"
#include "cli/session.h"
#include "onnx/importer.h"
#include "quantize/quantize_model.h"

namespace camshaft::cli {
namespace {

const std::vector<OptionRow>& quantize_rows() {
  constexpr OptionStatus kWorks = OptionStatus::kWorks;
  static const std::vector<OptionRow> kRows = {
      {"data", OptionValue::kText, "DIR|FILE", "", "Calibration", kWorks,
       "samples: a folder of ONNX test data, a folder of .npz/.npy files, one .npz or .npy; may be "
       "repeated",
       "", 'd'},
      {"method", OptionValue::kChoice, "minmax|entropy|percentile|mse", "mse", "Calibration",
       kWorks, "how a tensor's range is chosen from its values", "", 'm'},
      {"percentile", OptionValue::kNumber, "P", "99.99", "Calibration", kWorks,
       "of --method percentile: the share of values that is not clipped", "", 0, 50},
      {"samples", OptionValue::kInteger, "N", "", "Calibration", kWorks,
       "use the first N samples only", "", 0, 1},
      {"cache", OptionValue::kText, "FILE", "", "Calibration", kWorks,
       "TensorRT's calibration cache: written with --data, read without; alone with --data: write "
       "only it",
       "", 'c'},
      {"output", OptionValue::kText, "FILE.onnx", "", "Result", kWorks,
       "the quantized network; default: MODEL_int8.onnx", "", 'o'},
      {"activation-type", OptionValue::kChoice, "int8|uint8", "int8", "Result", kWorks,
       "int8: symmetric, TensorRT's dialect; uint8: with zero points, ONNX Runtime's; weights are "
       "symmetric int8 in both",
       "", 'a'},
      {"per-channel", OptionValue::kNone, "", "", "Result", kWorks,
       "weights: one scale per output channel (the default)"},
      {"per-tensor", OptionValue::kNone, "", "", "Result", kWorks, "weights: one scale"},
      {"attention", OptionValue::kNone, "", "", "Result", kWorks,
       "quantize products of two activations, too"},
      {"min-snr", OptionValue::kNumber, "DB", "28", "Result", kWorks,
       "layers whose own quantization leaves their output less signal to noise stay float; 0: "
       "none; "
       "needs --data",
       "", 0, 0},
      {"no-bias-correction", OptionValue::kNone, "", "", "Result", kWorks,
       "do not add to the biases of convolutions what rounding takes from their mean outputs"},
      {"keep-float", OptionValue::kText, "LAYER,…", "", "Result", kWorks,
       "layers that stay float; a name may hold one *; may be repeated"},
      {"only", OptionValue::kText, "LAYER,…", "", "Result", kWorks, "quantize these layers only"},
      {"threads", OptionValue::kInteger, "N", "", "Common options", kWorks,
       "threads; default: all this process may use", "", 't', 1},
      {"verbose", OptionValue::kNone, "", "", "Common options", kWorks,
       "the library's log on standard error", "", 'v'},
      {"help", OptionValue::kNone, "", "", "Common options", kWorks, "this text", "", 'h'},
  };
  return kRows;
}

class Quantizer {
 public:
  Quantizer(const Options& options, Messages& messages)
      : options_(options), messages_(messages), model_(options.positionals()[0]) {
    placement_.per_channel = !options.has("per-tensor");
    placement_.matmul_of_activations = options.has("attention");
    placement_.keep_float = options.names("keep-float");
    placement_.only = options.names("only");
  }

  Status run() {
    if (options_.has("per-tensor") && options_.has("per-channel"))
      return invalid("--per-tensor and --per-channel exclude each other");
    if (!options_.has("data") && !options_.has("cache"))
      return invalid("give samples with --data, or a calibration cache with --cache");
    if (is_asymmetric() && options_.has("cache"))
      return invalid("a calibration cache holds symmetric scales: no --activation-type=uint8");
    if (!is_cache_only()) CAMSHAFT_TRY(check_writable(output(), "--output"));
    if (options_.has("data")) CAMSHAFT_TRY(check_writable(options_.text("cache"), "--cache"));
    CAMSHAFT_TRY(options_.has("data") ? calibrate() : read_cache());
    return is_cache_only() ? ok_status() : write_model();
  }

 private:
  bool is_cache_only() const {
    return options_.has("data") && options_.has("cache") && !options_.has("output");
  }

  bool is_asymmetric() const { return options_.text("activation-type") == "uint8"; }

  static Status invalid(std::string text) {
    return Status(ErrorCode::kInvalidArgument, std::move(text));
  }

  quantize::SamplerOptions sampler_options() {
    quantize::SamplerOptions options;
    options.threads = static_cast<int>(options_.integer("threads"));
    options.progress = [this](const char* phase, int done, int total) {
      messages_.progress().update(phase, done, total);
      return !interrupted();
    };
    return options;
  }

  // Layers that lose too much by their own quantization are kept in float.
  Status keep_noisy_layers(std::span<const quantize::Sample> samples) {
    if (options_.number("min-snr") == 0 && options_.has("no-bias-correction")) return ok_status();
    auto layers =
        quantize::measure_file(model_, scales_, lows_, placement_, samples, sampler_options());
    messages_.progress().clear();
    CAMSHAFT_TRY(layers.status());
    for (quantize::NamedLoss& layer : *layers) {
      messages_.log(Severity::kVerbose,
                    fmt::format("{}: {:.1f} dB", layer.layer, layer.signal_to_noise));
      if (!options_.has("no-bias-correction") && !layer.shift.empty())
        shifts_[layer.layer] = std::move(layer.shift);
      if (layer.signal_to_noise >= options_.number("min-snr")) continue;
      placement_.keep_float.push_back(layer.layer);
      noisy_[layer.layer] = layer.signal_to_noise;
    }
    return ok_status();
  }

  Status calibrate() {
    CAMSHAFT_ASSIGN(auto imported, onnx_import::import_file(model_));
    if (quantize::has_quantization(*imported.graph))
      return make_error(ErrorCode::kInvalidArgument, "{}: the network is quantized already",
                        model_.string());
    std::vector<std::string> notes;
    CAMSHAFT_ASSIGN(const auto samples,
                    read_samples(*imported.graph, options_.all("data"),
                                 static_cast<size_t>(options_.integer("samples")), notes));
    print_notes(messages_, notes);
    CAMSHAFT_ASSIGN(std::vector<std::string> tensors,
                    quantize::tensors_to_calibrate(*imported.graph, placement_));
    if (tensors.empty()) return invalid("there is nothing to quantize in " + model_.string());
    // A cache is for other tools, too: TensorRT looks every tensor up in it.
    if (options_.has("cache")) tensors = quantize::float_activations(*imported.graph);
    quantize::CalibrationOptions options;
    options.calibrator.method = *quantize::parse_method(options_.text("method"));
    options.calibrator.percentile = options_.number("percentile");
    options.is_asymmetric = is_asymmetric();
    static_cast<quantize::SamplerOptions&>(options) = sampler_options();
    auto calibration = quantize::calibrate(std::move(imported.graph), tensors, samples, options);
    messages_.progress().clear();
    CAMSHAFT_TRY(calibration.status());
    for (const std::string& warning : calibration->warnings)
      messages_.log(Severity::kVerbose, warning);
    if (const std::vector<std::string>& bad = calibration->not_finite; !bad.empty())
      messages_.log(Severity::kWarning,
                    fmt::format("{} of {} tensors have values that are NaN (not a number) or "
                                "infinite, \"{}\" first: they were left out",
                                bad.size(), tensors.size(), bad[0]));
    scales_ = std::move(calibration->scales);
    lows_ = std::move(calibration->lows);
    fmt::print("calibrated  {} tensors on {} sample{}, method {}\n", scales_.size(), samples.size(),
               samples.size() == 1 ? "" : "s", options_.text("method"));
    if (options_.has("cache")) CAMSHAFT_TRY(write_cache(options.calibrator.method));
    return is_cache_only() ? ok_status() : keep_noisy_layers(samples);
  }

  Status write_cache(quantize::Method method) {
    const std::string text = quantize::to_text({quantize::cache_header(method), scales_});
    CAMSHAFT_TRY(write_file(options_.text("cache"), text));
    fmt::print("cache       {}\n", options_.text("cache"));
    return ok_status();
  }

  Status read_cache() {
    const std::string file = options_.text("cache");
    CAMSHAFT_ASSIGN(const std::vector<std::byte> bytes, read_file(file));
    auto cache = quantize::parse_calibration_cache(
        {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    if (!cache.ok()) return cache.status().with_context(file);
    scales_ = std::move(cache->scales);
    fmt::print("cache       {}: {} tensors, {}\n", file, scales_.size(), cache->header);
    return ok_status();
  }

  std::filesystem::path output() const {
    if (options_.has("output")) return options_.text("output");
    return model_.stem().string() + "_int8.onnx";
  }

  Status write_model() {
    CAMSHAFT_ASSIGN(const quantize::QuantizeResult result,
                    quantize::quantize_file(model_, scales_, lows_, shifts_, placement_));
    const quantize::QuantizeReport& report = result.report;
    if (report.layers == 0 && report.activations == 0)
      return invalid("no scale fits a layer of " + model_.string() + ": nothing was quantized");
    CAMSHAFT_TRY(write_file(output(), result.onnx));
    fmt::print("quantized   {} of {} weighted layers; {} Q/DQ pairs on activations\n",
               report.layers, report.weighted_layers, report.activations);
    fmt::print("weights     {} -> {} in int8, {}\n",
               human_bytes(static_cast<double>(report.float_bytes)),
               human_bytes(static_cast<double>(report.int8_bytes)),
               placement_.per_channel ? "one scale per output channel" : "one scale each");
    if (report.biases > 0)
      fmt::print("biases      {} corrected by the mean error of their layer\n", report.biases);
    constexpr size_t kShown = 10;
    for (size_t k = 0; k < std::min(report.in_float.size(), kShown); ++k)
      print_float(report.in_float[k].first, report.in_float[k].second);
    if (report.in_float.size() > kShown)
      fmt::print("in float    … and {} more\n", report.in_float.size() - kShown);
    fmt::print("written     {} ({})\n", output().string(),
               human_bytes(static_cast<double>(result.onnx.size())));
    return ok_status();
  }

  void print_float(const std::string& layer, const std::string& reason) const {
    const auto found = noisy_.find(layer);
    fmt::print("in float    {}: {}\n", layer,
               found == noisy_.end()
                   ? reason
                   : fmt::format("int8 would leave it {:.1f} dB signal to noise", found->second));
  }

  const Options& options_;
  Messages& messages_;
  std::map<std::string, double> noisy_;
  std::filesystem::path model_;
  quantize::PlacementOptions placement_;
  quantize::Scales scales_, lows_;
  quantize::Shifts shifts_;
};

}  // namespace

int quantize_command(std::span<char* const> args) {
  int code = 0;
  const auto options = parse_command("quantize", "MODEL.onnx --data DIR [-o FILE.onnx] [options]",
                                     quantize_rows(), args, 1, code);
  if (!options) return code;
  Messages messages(options->has("verbose"));
  const Status status = Quantizer(*options, messages).run();
  return status.ok() ? 0 : fail(status.message());
}

}  // namespace camshaft::cli
