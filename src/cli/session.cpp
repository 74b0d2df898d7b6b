// SPDX-License-Identifier: Apache-2.0
#include "cli/session.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "cli/inference_loop.h"

namespace camshaft::cli {
namespace {

constexpr const char* kCommon = "Common options";
constexpr const char* kInputs = "Inputs";

// "a/b/input_12.pb" -> 12 for prefix "input_"; -1: not of that form.
int file_number(const std::filesystem::path& file, const std::string& prefix) {
  const std::string stem = file.stem().string();
  if (file.extension() != ".pb" || !stem.starts_with(prefix)) return -1;
  const std::string digits = stem.substr(prefix.size());
  if (digits.empty() || digits.size() > 6 ||
      !std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; }))
    return -1;
  return std::stoi(digits);
}

struct Names {
  std::vector<std::string> inputs, outputs;
};

std::vector<std::string> names_of(const std::vector<TensorInfo>& infos) {
  std::vector<std::string> names;
  names.reserve(infos.size());
  for (const TensorInfo& info : infos) names.push_back(info.name);
  return names;
}

Status read_numbered(const std::filesystem::path& folder, const std::string& prefix,
                     const std::vector<std::string>& names, NamedTensors& tensors) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const int number = file_number(entry.path(), prefix);
    if (number < 0) continue;
    CAMSHAFT_ASSIGN(HostTensor tensor, read_tensor(entry.path()));
    // The number is the position; a stored name that the network has wins.
    const bool named = std::find(names.begin(), names.end(), tensor.name) != names.end();
    if (!named && static_cast<size_t>(number) >= names.size()) {
      return make_error(ErrorCode::kInvalidArgument, "{}: the network has only {} of these",
                        entry.path().string(), names.size());
    }
    tensors[named ? tensor.name : names[static_cast<size_t>(number)]] = std::move(tensor);
  }
  if (error) return make_error(ErrorCode::kIo, "{}: {}", folder.string(), error.message());
  return ok_status();
}

// Folders inside `folder` named test_data_set_N, in order; the folder itself if it has none.
std::vector<std::filesystem::path> data_folders(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> folders;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.is_directory() && entry.path().filename().string().starts_with("test_data_set_"))
      folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());
  if (folders.empty()) folders.push_back(folder);
  return folders;
}

Status distribute(std::vector<HostTensor> tensors, const Names& names, const std::string& source,
                  DataSet& set) {
  for (HostTensor& tensor : tensors) {
    auto is_in = [&](const std::vector<std::string>& list) {
      return std::find(list.begin(), list.end(), tensor.name) != list.end();
    };
    if (is_in(names.inputs)) {
      set.inputs[tensor.name] = std::move(tensor);
    } else if (is_in(names.outputs)) {
      set.outputs[tensor.name] = std::move(tensor);
    } else {
      return make_error(ErrorCode::kInvalidArgument, "{}: the network has no input or output '{}'",
                        source, tensor.name);
    }
  }
  return ok_status();
}

Status read_named(const Options& options, const char* option, NamedTensors& tensors) {
  for (const std::string& text : options.all(option)) {
    CAMSHAFT_ASSIGN(const auto pairs, parse_named_values(text, fmt::format("--{}", option)));
    for (const auto& [name, file] : pairs) {
      CAMSHAFT_ASSIGN(tensors[name], read_tensor(file));
    }
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
    CAMSHAFT_ASSIGN(*target, parse_shapes(options.text(name), fmt::format("--{}", name)));
  }
  if (shapes.empty() && options.has("shape")) {
    CAMSHAFT_ASSIGN(shapes.opt, parse_shapes(options.text("shape"), "--shape"));
  }
  return shapes.empty() ? shapes_of(data) : shapes;
}

}  // namespace

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
      {"level", OptionValue::kChoice, "0|1|2|3|4|5", "3", kCommon, kWorks, "tuning effort"},
      {"precision", OptionValue::kChoice, "fp32|fp16|bf16|best", "fp32", kCommon, kWorks,
       "what float layers may compute in and store, where that is faster"},
      {"timing-cache", OptionValue::kText, "FILE", "", kCommon, kWorks,
       "reuse tactic times, add new ones"},
      {"verbose", OptionValue::kNone, "", "", kCommon, kWorks,
       "the library's log on standard error", "", 'v'},
      {"help", OptionValue::kNone, "", "", kCommon, kWorks, "this text", "", 'h'},
  };
  rows.insert(rows.end(), std::begin(common), std::end(common));
  return rows;
}

std::vector<OptionRow> with_input_rows(std::vector<OptionRow> rows) {
  constexpr OptionStatus kWorks = OptionStatus::kWorks;
  const OptionRow inputs[] = {
      {"data", OptionValue::kText, "DIR|FILE.npz", "", kInputs, kWorks,
       "inputs, and outputs to compare with: ONNX test data (input_0.pb, output_0.pb …), a model "
       "folder with test_data_set_N, "
       "or an .npz; may be repeated",
       "", 'd'},
      {"input", OptionValue::kText, "NAME:FILE,…", "", kInputs, kWorks,
       "values of inputs: .npy, .pb or raw", "", 'i'},
      {"shape", OptionValue::kText, "SPEC", "", kInputs, kWorks,
       "shapes to run with: name:1x3x224x224,…", "", 's'},
  };
  rows.insert(rows.end(), std::begin(inputs), std::end(inputs));
  return with_common_rows(std::move(rows));
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
  std::vector<std::string> warnings;
  CAMSHAFT_ASSIGN(const ProfileShapes shapes, profile_of(options, data));
  CAMSHAFT_ASSIGN(build_options.profiles, make_profiles({shapes}, model_->inputs(), warnings));
  for (const std::string& warning : warnings) messages.log(Severity::kWarning, warning);
  build_options.threads = static_cast<int>(options.integer("threads"));
  build_options.optimization_level = static_cast<int>(options.integer("level"));
  const std::string precision = options.text("precision");
  build_options.bf16 = precision == "bf16" || precision == "best";
  build_options.fp16 = precision == "fp16" || precision == "best";
  build_options.timing_cache = options.text("timing-cache");
  build_options.progress = [&](const char* phase, int done, int total) {
    messages.progress().update(phase, done, total);
    return !interrupted();
  };
  Result<Engine> engine = build(std::move(*model_), build_options, statistics);
  messages.progress().clear();
  if (!engine.ok()) return engine.status().with_context(file_.string());
  return engine;
}

Result<std::vector<DataSet>> read_test_folder(const std::filesystem::path& source,
                                              const std::vector<std::string>& inputs,
                                              const std::vector<std::string>& outputs) {
  std::vector<DataSet> sets;
  for (const std::filesystem::path& folder : data_folders(source)) {
    sets.push_back({folder.string(), {}, {}});
    CAMSHAFT_TRY(read_numbered(folder, "input_", inputs, sets.back().inputs));
    CAMSHAFT_TRY(read_numbered(folder, "output_", outputs, sets.back().outputs));
    if (sets.back().inputs.empty() && sets.back().outputs.empty()) {
      return make_error(ErrorCode::kInvalidArgument,
                        "{}: no input_N.pb, output_N.pb or test_data_set_N in it", folder.string());
    }
  }
  return sets;
}

Result<std::vector<DataSet>> read_data(const Network& network, const Options& options) {
  std::vector<DataSet> sets;
  const Names names{names_of(network.inputs()), names_of(network.outputs())};
  for (const std::string& source : options.all("data")) {
    if (std::filesystem::path(source).extension() == ".npz") {
      CAMSHAFT_ASSIGN(std::vector<HostTensor> tensors, read_npz(source));
      sets.push_back({source, {}, {}});
      CAMSHAFT_TRY(distribute(std::move(tensors), names, source, sets.back()));
      continue;
    }
    CAMSHAFT_ASSIGN(std::vector<DataSet> read,
                    read_test_folder(source, names.inputs, names.outputs));
    std::move(read.begin(), read.end(), std::back_inserter(sets));
  }
  if (sets.empty()) sets.emplace_back();
  CAMSHAFT_TRY(read_named(options, "input", sets[0].inputs));
  if (options.has("expect")) CAMSHAFT_TRY(read_named(options, "expect", sets[0].outputs));
  return sets;
}

Result<Context> make_context(const Engine& engine, const Options& options) {
  ContextOptions context_options;
  context_options.threads = static_cast<int>(options.integer("threads"));
  return Context::create(engine, context_options);
}

}  // namespace camshaft::cli
