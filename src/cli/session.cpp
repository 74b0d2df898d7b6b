// SPDX-License-Identifier: Apache-2.0
#include "cli/session.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "base/cpu.h"
#include "base/topology.h"
#include "cli/conversion.h"
#include "cli/inference_loop.h"
#include "cli/sparsity.h"

namespace camshaft::cli {
namespace {

constexpr const char* kCommon = "Common options";
constexpr const char* kInputs = "Inputs";
constexpr const char* kRunning = "Running";

// "name:file,…", or a file alone where the network has one of these.
Status read_named(const Options& options, const char* option, const char* what,
                  const std::vector<std::string>& known, NamedTensors& tensors) {
  const std::string spelling = fmt::format("--{}", option);
  for (const std::string& text : options.all(option)) {
    const bool is_file = split_outside_quotes(text, ':').size() == 1 && known.size() == 1;
    std::vector<std::pair<std::string, std::string>> pairs;
    if (is_file) {
      pairs.emplace_back(known[0], unquoted(text));
    } else {
      CAMSHAFT_ASSIGN(pairs, parse_named_values(text, spelling));
    }
    for (const auto& [name, file] : pairs) {
      CAMSHAFT_TRY(check_name(name, known, spelling, what));
      CAMSHAFT_TRY(check_readable(file, spelling));
      CAMSHAFT_ASSIGN(tensors[name], read_tensor(file));
    }
  }
  return ok_status();
}

// Gives every input the network's element type and takes the notes of what had to be done.
Status convert_inputs(const std::vector<TensorInfo>& inputs, DataSet& set,
                      std::vector<std::string>& notes) {
  for (const TensorInfo& info : inputs) {
    const auto found = set.inputs.find(info.name);
    if (found == set.inputs.end() || !found->second.has_shape) continue;
    HostTensor& tensor = found->second;
    CAMSHAFT_TRY(convert(tensor, info.type, fmt::format("input '{}'", info.name))
                     .with_context(set.source.empty() ? "--input" : set.source));
    if (!tensor.note.empty()) notes.push_back(std::exchange(tensor.note, ""));
  }
  return ok_status();
}

// Shapes of the data sets as one profile: from the smallest to the largest extent seen, tuned for
// the first set.
ProfileShapes shapes_of(const std::vector<DataSet>& data) {
  ProfileShapes shapes;
  if (data.empty()) return shapes;
  for (const auto& [name, tensor] : data[0].inputs) {
    if (!tensor.has_shape) continue;
    Dims min = tensor.dims;
    Dims max = tensor.dims;
    for (const DataSet& set : data) {
      auto found = set.inputs.find(name);
      if (found == set.inputs.end() || found->second.dims.size() != min.size()) continue;
      for (size_t k = 0; k < min.size(); ++k) {
        min[k] = std::min(min[k], found->second.dims[k]);
        max[k] = std::max(max[k], found->second.dims[k]);
      }
    }
    shapes.min.emplace_back(name, min);
    shapes.opt.emplace_back(name, tensor.dims);
    shapes.max.emplace_back(name, max);
  }
  return shapes;
}

Result<ProfileShapes> profile_of(const Options& options, const std::vector<DataSet>& data) {
  ProfileShapes shapes;
  const std::pair<const char*, NamedShapes*> given[] = {
      {"min-shapes", &shapes.min}, {"opt-shapes", &shapes.opt}, {"max-shapes", &shapes.max}};
  for (const auto& [name, target] : given) {
    if (!options.has(name)) continue;
    CAMSHAFT_ASSIGN(*target, parse_all_shapes(options.all(name), fmt::format("--{}", name)));
  }
  if (shapes.empty() && options.has("shape")) {
    CAMSHAFT_ASSIGN(shapes.opt, wanted_shapes(options));
  }
  return shapes.empty() ? shapes_of(data) : shapes;
}

}  // namespace

std::vector<std::string> names_of(const std::vector<TensorInfo>& infos) {
  std::vector<std::string> names;
  names.reserve(infos.size());
  for (const TensorInfo& info : infos) names.push_back(info.name);
  return names;
}

std::vector<OptionRow> with_common_rows(std::vector<OptionRow> rows) {
  constexpr OptionStatus kWorks = OptionStatus::kWorks;
  const OptionRow common[] = {
      {"min-shapes", OptionValue::kText, "SPEC", "", kCommon, kWorks,
       "smallest shapes to build for: name:1x3x224x224,…"},
      {"opt-shapes", OptionValue::kText, "SPEC", "", kCommon, kWorks, "shapes to tune for"},
      {"max-shapes", OptionValue::kText, "SPEC", "", kCommon, kWorks,
       "largest shapes to build for"},
      {"threads", OptionValue::kInteger, "N", "", kCommon, kWorks,
       "threads; default: all this process may use", "", 't', 1},
      {"affinity", OptionValue::kChoice, "none|close|spread", "none", kCommon, kWorks,
       "threads stay on cores: of as few L3 caches as have them, or of all evenly"},
      {"portable", OptionValue::kNone, "", "", kCommon, kWorks,
       "build an engine that runs on every x86-64 processor"},
      {"level", OptionValue::kChoice, "0|1|2|3|4|5", "3", kCommon, kWorks, "tuning effort"},
      {"precision", OptionValue::kChoice, "fp32|fp16|bf16|best", "fp32", kCommon, kWorks,
       "what float layers may compute in and store, where that is faster"},
      {"sparsity", OptionValue::kChoice, "disable|enable|force", "disable", kCommon, kWorks,
       "enable: time sparse tactics where weights are 2:4; force: overwrite weights so that they "
       "are, for timing only"},
      {"timing-cache", OptionValue::kText, "FILE", "", kCommon, kWorks,
       "reuse tactic times, add new ones"},
      {"verbose", OptionValue::kNone, "", "", kCommon, kWorks,
       "the library's log on standard error", "", 'v'},
      {"help", OptionValue::kNone, "", "", kCommon, kWorks, "this text", "", 'h'},
  };
  const size_t own = rows.size();
  for (const OptionRow& row : common) {  // a command's own row of that name wins
    const std::string_view name = row.name;
    const auto same = [name](const OptionRow& other) { return name == other.name; };
    if (std::none_of(rows.begin(), rows.begin() + static_cast<ptrdiff_t>(own), same))
      rows.push_back(row);
  }
  return rows;
}

std::vector<OptionRow> with_input_rows(std::vector<OptionRow> rows) {
  constexpr OptionStatus kWorks = OptionStatus::kWorks;
  const OptionRow inputs[] = {
      {"data", OptionValue::kText, "DIR|FILE", "", kInputs, kWorks,
       "inputs, and outputs to compare with: a folder of ONNX test data (input_0.pb, output_0.pb "
       "…), of test_data_set_N or of .npz and .npy files, or one such file; may be repeated",
       "", 'd'},
      {"input", OptionValue::kText, "NAME:FILE,…", "", kInputs, kWorks,
       "values of inputs: .npy, .pb or raw; FILE alone where there is one input", "", 'i'},
      {"shape", OptionValue::kText, "SPEC", "", kInputs, kWorks,
       "shapes to run with: name:1x3x224x224,…; may be repeated", "", 's'},
  };
  rows.insert(rows.end(), std::begin(inputs), std::end(inputs));
  return with_common_rows(std::move(rows));
}

OptionRow profile_row() {
  return {"profile",
          OptionValue::kInteger,
          "N",
          "",
          kRunning,
          OptionStatus::kWorks,
          "the engine's optimization profile to run with; default: the first that takes the shapes",
          "",
          0,
          0};
}

std::optional<Options> parse_command(const char* name, const char* usage,
                                     const std::vector<OptionRow>& rows,
                                     std::span<char* const> args, size_t max_positionals,
                                     int& code) {
  Result<Options> parsed = Options::parse(rows, args, {false, max_positionals});
  if (!parsed.ok()) {
    code = fail(fmt::format("{} (camshaft {} --help)", parsed.status().message(), name));
    return std::nullopt;
  }
  if (parsed->has("help")) {
    fmt::print("usage: camshaft {} {}\n\n{}", name, usage, options_help(rows));
    code = 0;
    return std::nullopt;
  }
  if (max_positionals > 0 && parsed->positionals().empty()) {
    code = fail(fmt::format("which file? usage: camshaft {} {}", name, usage));
    return std::nullopt;
  }
  if (parsed->has("affinity")) force_affinity(parse_affinity(parsed->text("affinity")).value());
  install_interrupt_handler();
  return std::move(parsed).value();
}

Messages::Messages(bool verbose) : verbose_(verbose) {
  set_logger(this, verbose ? Severity::kVerbose : Severity::kWarning);
}

Messages::~Messages() {
  set_logger(nullptr);
}

void Messages::log(Severity severity, std::string_view text) {
  progress_.clear();
  if (severity <= Severity::kWarning) {
    warn(text);
  } else if (verbose_) {
    fmt::print(stderr, "{}\n", styled(text, Style::kDim, stderr));
  }
}

Result<Network> Network::open(const std::filesystem::path& file) {
  Network network;
  network.file_ = file;
  if (file.extension() == ".onnx") {
    CAMSHAFT_ASSIGN(network.model_, Model::from_file(file));
  } else {
    CAMSHAFT_ASSIGN(network.engine_, Engine::load(file));
  }
  return network;
}

Result<Engine> Network::engine(const Options& options, const std::vector<DataSet>& data,
                               Messages& messages, BuildStatistics* statistics) {
  std::vector<OptimizationProfile> profiles;
  if (model_) {
    std::vector<std::string> warnings;
    CAMSHAFT_ASSIGN(const ProfileShapes shapes, profile_of(options, data));
    CAMSHAFT_ASSIGN(profiles, make_profiles({shapes}, model_->inputs(), warnings));
    for (const std::string& warning : warnings) messages.log(Severity::kWarning, warning);
  }
  return engine_for(options, std::move(profiles), messages, statistics);
}

Result<Engine> Network::engine_for(const Options& options,
                                   std::vector<OptimizationProfile> profiles, Messages& messages,
                                   BuildStatistics* statistics) {
  if (!model_) {
    if (!engine_->info().same_cpu) {
      messages.log(Severity::kWarning,
                   fmt::format("{}: tuned on another machine ({}, or other caches or instruction "
                               "set), not at its best here",
                               file_.string(), engine_->info().cpu_model));
    }
    return *engine_;
  }
  BuildOptions build_options;
  build_options.profiles = std::move(profiles);
  build_options.threads = static_cast<int>(options.integer("threads"));
  build_options.optimization_level = static_cast<int>(options.integer("level"));
  const std::string precision = options.text("precision");
  build_options.bf16 = precision == "bf16" || precision == "best";
  build_options.fp16 = precision == "fp16" || precision == "best";
  build_options.without_quantization = drops_quantization_;
  build_options.sparsity = parse_sparsity(options.text("sparsity"));
  build_options.timing_cache = options.text("timing-cache");
  build_options.portable = options.has("portable");
  if (options.has("dump-after"))
    build_options.dump_after = split_outside_quotes(options.text("dump-after"), ',');
  if (options.has("dump-to")) build_options.dump_to = options.text("dump-to");
  build_options.progress = [&](const char* phase, int done, int total) {
    messages.progress().update(phase, done, total);
    return !interrupted();
  };
  Result<Engine> engine = build(std::move(*model_), build_options, statistics);
  messages.progress().clear();
  if (!engine.ok()) return engine.status().with_context(file_.string());
  return engine;
}

void print_notes(Messages& messages, const std::vector<std::string>& notes) {
  constexpr size_t kShown = 3;
  for (size_t k = 0; k < std::min(notes.size(), kShown); ++k)
    messages.log(Severity::kWarning, notes[k]);
  if (notes.size() > kShown)
    messages.log(Severity::kWarning,
                 fmt::format("… and {} more of such notes", notes.size() - kShown));
}

Result<std::vector<DataSet>> read_data(const Network& network, const Options& options,
                                       Messages& messages) {
  std::vector<DataSet> sets;
  std::vector<std::string> notes;
  const NetworkNames names{names_of(network.inputs()), names_of(network.outputs())};
  for (const std::string& source : options.all("data"))
    CAMSHAFT_TRY(
        read_data_sets(source, names, UnknownArrays::kRefuse, [&](DataSet set) -> Result<bool> {
          sets.push_back(std::move(set));
          return true;
        }));
  if (sets.empty()) sets.emplace_back();
  CAMSHAFT_TRY(read_named(options, "input", "input", names.inputs, sets[0].inputs));
  if (options.has("expect"))
    CAMSHAFT_TRY(read_named(options, "expect", "output", names.outputs, sets[0].outputs));
  for (DataSet& set : sets) CAMSHAFT_TRY(convert_inputs(network.inputs(), set, notes));
  print_notes(messages, notes);
  return sets;
}

std::string timing_text(const BuildStatistics& statistics) {
  std::string text = fmt::format("{} tactics timed", statistics.timed_tactics);
  if (statistics.reused_times > 0)
    text += fmt::format(", {} times taken over from alike layers", statistics.reused_times);
  if (statistics.cache_hits > 0)
    text += fmt::format(", {} times from the timing cache", statistics.cache_hits);
  return text;
}

Result<NamedShapes> wanted_shapes(const Options& options) {
  return parse_all_shapes(options.all("shape"), "--shape");
}

Result<Context> make_context(const Engine& engine, const Options& options,
                             const NamedShapes& shapes, int streams) {
  ContextOptions context_options;
  context_options.threads = options.has("threads") || streams == 1
                                ? static_cast<int>(options.integer("threads"))
                                : std::max(1, default_num_threads() / streams);
  context_options.profile = options.has("profile") ? static_cast<int>(options.integer("profile"))
                                                   : std::max(fitting_profile(engine, shapes), 0);
  CAMSHAFT_TRY(check_profile(engine, context_options.profile, shapes, "--profile "));
  return Context::create(engine, context_options);
}

}  // namespace camshaft::cli
