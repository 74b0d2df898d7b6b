// SPDX-License-Identifier: Apache-2.0
// camshaft sparsify: weights of an ONNX file become 2:4, by rule or with the help of data.
#include "cli/sparsify_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/commands.h"
#include "cli/inference_loop.h"
#include "cli/samples.h"
#include "cli/session.h"
#include "cli/sparsify_timing.h"
#include "onnx/importer.h"
#include "quantize/sparsify.h"

namespace camshaft::cli {
namespace {

const std::vector<OptionRow>& sparsify_rows() {
  constexpr OptionStatus kWorks = OptionStatus::kWorks;
  static const std::vector<OptionRow> kRows = {
      {"output", OptionValue::kText, "FILE.onnx", "", "Result", kWorks,
       "the sparse network; default: MODEL_2_4.onnx", "", 'o'},
      {"method", OptionValue::kChoice, "first-two|magnitude|activation", "magnitude", "Pruning",
       kWorks,
       "which two of every four input channels stay: the first (as trtexec --sparsity=force), "
       "those "
       "with the largest weights, or with the largest weight times input (needs --data)",
       "", 'm'},
      {"reconstruct", OptionValue::kNone, "", "", "Pruning", kWorks,
       "kept weights take over what the pruned ones did, by least squares on --data"},
      {"permute", OptionValue::kNone, "", "", "Pruning", kWorks,
       "first let channels change places, in all tensors at once, so that more is kept; costs "
       "nothing at run time"},
      {"data", OptionValue::kText, "DIR|FILE", "", "Pruning", kWorks,
       "samples: a folder of ONNX test data, a folder of .npz/.npy files, one .npz or .npy; may be "
       "repeated; also for the errors in the table",
       "", 'd'},
      {"samples", OptionValue::kInteger, "N", "", "Pruning", kWorks, "use the first N samples only",
       "", 0, 1},
      {"keep-accuracy", OptionValue::kNumber, "DB", "", "Pruning", kWorks,
       "leave the layers dense that cost most, until the outputs keep so much signal to noise on "
       "--data",
       "", 0, 0},
      {"layers", OptionValue::kText, "LAYER,…", "", "Pruning", kWorks,
       "prune these layers only; a name may hold one *; may be repeated"},
      {"exclude", OptionValue::kText, "LAYER,…", "", "Pruning", kWorks, "leave these layers dense"},
      {"no-timing", OptionValue::kNone, "", "", "Pruning", kWorks,
       "leave out how fast the layers are dense and sparse on this machine: nothing is built"},
      {"threads", OptionValue::kInteger, "N", "", "Common options", kWorks,
       "threads; default: all this process may use", "", 't', 1},
      {"verbose", OptionValue::kNone, "", "", "Common options", kWorks,
       "the library's log on standard error", "", 'v'},
      {"help", OptionValue::kNone, "", "", "Common options", kWorks, "this text", "", 'h'},
  };
  return kRows;
}

std::string snr_text(std::optional<double> snr) {
  if (!snr) return "";
  return *snr >= 999 ? "exact" : fmt::format("{:.1f}", *snr);
}

// "exact", "12.3 dB signal to noise"
std::string closeness(double snr) {
  return snr_text(snr) + (snr >= 999 ? "" : " dB signal to noise");
}

using Speeds = std::map<std::string, LayerSpeed>;

std::string milliseconds(const Speeds& speeds, const std::string& name, double LayerSpeed::*us) {
  const auto found = speeds.find(name);
  if (found == speeds.end()) return "";
  if (found->second.is_repeated) return "\"";
  return found->second.*us > 0 ? fmt::format("{:.4f}", found->second.*us / 1e3) : "–";
}

void print_pruned_layers(const std::vector<quantize::SparsifiedLayer>& layers,
                         const Speeds& speeds) {
  Table table({{"layer", Align::kLeft, 60},
               {"weights"},
               {"pruned %", Align::kRight},
               {"magnitude kept %", Align::kRight},
               {"alone dB", Align::kRight},
               {"dense ms", Align::kRight},
               {"sparse ms", Align::kRight},
               {"dense because"}});
  for (const quantize::SparsifiedLayer& layer : layers) {
    const bool sparse = layer.dense_reason.empty();
    const double share = 100 * static_cast<double>(layer.pruned) /
                         static_cast<double>(std::max<int64_t>(layer.weights, 1));
    table.add({layer.name, fmt::format("{}", fmt::join(layer.extents, "x")),
               sparse ? fmt::format("{:.1f}", share) : "",
               sparse ? fmt::format("{:.1f}", 100 * layer.kept_magnitude) : "",
               snr_text(layer.alone_snr), milliseconds(speeds, layer.name, &LayerSpeed::dense_us),
               sparse ? milliseconds(speeds, layer.name, &LayerSpeed::sparse_us) : "",
               layer.dense_reason},
              sparse ? Style::kPlain : Style::kDim);
  }
  fmt::print("{}", table.text());
}

void print_totals(const quantize::SparsifyResult& result) {
  int64_t weights = 0, pruned = 0;
  size_t layers = 0;
  for (const quantize::SparsifiedLayer& layer : result.layers) {
    weights += layer.weights;
    pruned += layer.pruned;
    layers += layer.dense_reason.empty() ? 1 : 0;
  }
  fmt::print("\n{} of {} layers are 2:4; {} of {} weights were zeroed\n", layers,
             result.layers.size(), pruned, weights);
  if (const auto& p = result.permutation)
    fmt::print(
        "permuted    {} of {} sets of channels ({} are fixed): 2:4 keeps {:.1f} % of the energy of "
        "their readers' weights, {:.1f} % before\n",
        p->permuted, p->spaces, p->pinned, 100 * p->kept_after, 100 * p->kept_before);
  if (result.snr)
    fmt::print("outputs     {} beside the dense network on the samples\n", closeness(*result.snr));
  else
    fmt::print("outputs     not compared: give --data to see what this costs\n");
}

// What is known of the layers' speed; a network that does not build is pruned all the same.
Speeds speeds_of(const quantize::SparsifyResult& result, const std::filesystem::path& model,
                 const std::vector<quantize::Sample>& samples, int threads, Messages& messages) {
  std::vector<std::string> names;
  for (const quantize::SparsifiedLayer& layer : result.layers) names.push_back(layer.name);
  Result<Speeds> speeds = time_layers(result.onnx, std::filesystem::absolute(model).parent_path(),
                                      names, samples, threads, messages);
  if (speeds.ok()) return std::move(*speeds);
  messages.log(Severity::kWarning,
               fmt::format("layers were not timed: {}", speeds.status().message()));
  return {};
}

quantize::SparsifyOptions sparsify_options(const Options& options, Messages& messages) {
  quantize::SparsifyOptions result;
  const std::string method = options.text("method");
  result.rule = method == "first-two"    ? ir::KeepRule::kFirstTwo
                : method == "activation" ? ir::KeepRule::kActivation
                                         : ir::KeepRule::kMagnitude;
  result.reconstruct = options.has("reconstruct");
  result.permute = options.has("permute");
  result.only = options.names("layers");
  result.exclude = options.names("exclude");
  if (options.has("keep-accuracy")) result.keep_snr = options.number("keep-accuracy");
  result.threads = static_cast<int>(options.integer("threads"));
  result.progress = [&messages](const char* phase, int done, int total) {
    messages.progress().update(phase, done, total);
    return !interrupted();
  };
  return result;
}

Status sparsify(const Options& options, Messages& messages) {
  const std::filesystem::path model = options.positionals()[0];
  const quantize::SparsifyOptions wanted = sparsify_options(options, messages);
  const bool needs_data =
      wanted.rule == ir::KeepRule::kActivation || wanted.reconstruct || wanted.keep_snr >= 0;
  if (needs_data && !options.has("data"))
    return Status(ErrorCode::kInvalidArgument,
                  "--method=activation, --reconstruct and --keep-accuracy need --data");
  std::vector<quantize::Sample> samples;
  if (options.has("data")) {
    CAMSHAFT_ASSIGN(const auto imported, onnx_import::import_file(model));
    std::vector<std::string> notes;
    CAMSHAFT_ASSIGN(samples, read_samples(*imported.graph, options.all("data"),
                                          static_cast<size_t>(options.integer("samples")), notes));
    print_notes(messages, notes);
  }
  Result<quantize::SparsifyResult> result = quantize::sparsify_file(model, samples, wanted);
  messages.progress().clear();
  CAMSHAFT_TRY(result.status());
  const std::filesystem::path output =
      options.has("output") ? options.text("output") : model.stem().string() + "_2_4.onnx";
  CAMSHAFT_TRY(write_file(output, result->onnx));
  Speeds speeds;
  if (!options.has("no-timing"))
    speeds = speeds_of(*result, model, samples, wanted.threads, messages);
  print_pruned_layers(result->layers, speeds);
  print_totals(*result);
  fmt::print("written     {} ({})\n", output.string(),
             human_bytes(static_cast<double>(result->onnx.size())));
  return ok_status();
}

}  // namespace

int sparsify_command(std::span<char* const> args) {
  int code = 0;
  const auto options = parse_command("sparsify", "MODEL.onnx [-o FILE.onnx] [options]",
                                     sparsify_rows(), args, 1, code);
  if (!options) return code;
  Messages messages(options->has("verbose"));
  const Status status = sparsify(*options, messages);
  return status.ok() ? 0 : fail(status.message());
}

}  // namespace camshaft::cli
