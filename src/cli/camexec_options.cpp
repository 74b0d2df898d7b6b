// SPDX-License-Identifier: Apache-2.0
#include "cli/camexec_options.h"

#include <algorithm>
#include <cstring>
#include <fstream>

#include "cli/sparsity.h"
#include "cli/statistics.h"
#include "cli/tensor_files.h"
#include "engine/file_format.h"

namespace camshaft::cli {
namespace {

Status invalid(std::string text) {
  return Status(ErrorCode::kInvalidArgument, std::move(text));
}

// min/opt/maxShapes in order, each for the --profile before it.
Status collect_profiles(CamexecOptions& result) {
  size_t profile = 0;
  for (const GivenOption& given : result.options.given()) {
    const std::string name = given.row->name;
    if (name == "profile") {
      profile = static_cast<size_t>(std::stoll(given.value));
      if (profile > 63) return invalid("--profile: at most 64 profiles");
      result.profiles.resize(std::max(result.profiles.size(), profile + 1));
      continue;
    }
    if (name != "minShapes" && name != "optShapes" && name != "maxShapes") continue;
    CAMSHAFT_ASSIGN(const NamedShapes shapes, parse_shapes(given.value, given.spelling));
    result.profiles.resize(std::max(result.profiles.size(), profile + 1));
    ProfileShapes& target = result.profiles[profile];
    NamedShapes& point = name == "minShapes"   ? target.min
                         : name == "optShapes" ? target.opt
                                               : target.max;
    CAMSHAFT_TRY(add_shapes(point, shapes, given.spelling));
  }
  return ok_status();
}

Status collect_pairs(CamexecOptions& result) {
  size_t pair = 0;
  result.pairs.resize(1);
  for (const GivenOption& given : result.options.given()) {
    const std::string name = given.row->name;
    if (name == "refPair") {
      pair = static_cast<size_t>(std::stoll(given.value));
      if (pair > 1023) return invalid("--refPair: at most 1024 pairs");
      result.pairs.resize(std::max(result.pairs.size(), pair + 1));
    } else if (name == "loadInputs" || name == "loadRefOutputs") {
      CAMSHAFT_ASSIGN(auto values, parse_named_values(given.value, given.spelling));
      auto& target = name == "loadInputs" ? result.pairs[pair].inputs : result.pairs[pair].outputs;
      target.insert(target.end(), values.begin(), values.end());
    }
  }
  return ok_status();
}

Result<DataType> parse_precision(const std::string& word, const std::string& option) {
  if (word == "fp32") return DataType::kFloat;
  if (word == "fp16") return DataType::kHalf;
  if (word == "bf16") return DataType::kBFloat16;
  if (word == "int8") return DataType::kInt8;
  if (word == "int32" || word == "fp8" || word == "int4")
    return make_error(ErrorCode::kUnsupported,
                      "{}: {} is not in this version: only fp32, fp16, bf16 and int8", option,
                      word);
  return make_error(ErrorCode::kInvalidArgument,
                    "{}: '{}' is not a precision (fp32, fp16, bf16, int8)", option, word);
}

// "conv1:fp32,'odd,name':int8": the type follows the last colon, names may hold others.
Status collect_layer_types(const Options& options, const char* name,
                           std::vector<LayerTypeRequest>& requests) {
  const std::string option = fmt::format("--{}", name);
  for (const std::string& text : options.all(name))
    for (const std::string& entry : split_outside_quotes(text, ',')) {
      const size_t colon = entry.rfind(':');
      if (colon == std::string::npos || colon == 0)
        return make_error(ErrorCode::kInvalidArgument, "{}: '{}' is not of the form layer:type",
                          option, entry);
      CAMSHAFT_ASSIGN(const DataType type, parse_precision(entry.substr(colon + 1), option));
      requests.push_back({unquoted(entry.substr(0, colon)), type});
    }
  return ok_status();
}

Status collect_precision(CamexecOptions& result) {
  const Options& options = result.options;
  CAMSHAFT_TRY(collect_layer_types(options, "layerPrecisions", result.layer_precisions));
  CAMSHAFT_TRY(collect_layer_types(options, "layerOutputTypes", result.layer_output_types));
  const std::string constraints = options.text("precisionConstraints");
  result.precision_constraints = constraints == "obey"     ? PrecisionConstraints::kObey
                                 : constraints == "prefer" ? PrecisionConstraints::kPrefer
                                                           : PrecisionConstraints::kNone;
  // The best of all precisions is never a timing run with made-up scales.
  result.int8 = options.has("int8") || (options.has("best") && options.has("calib"));
  result.bf16 = options.has("bf16") || options.has("best");
  result.fp16 = options.has("fp16") || options.has("best");
  if ((result.int8 || result.bf16 || result.fp16) && options.has("stronglyTyped")) {
    result.int8 = result.bf16 = result.fp16 = false;
    result.warnings.emplace_back(
        "--stronglyTyped: types come from the network; --fp16, --bf16, --int8 and --best add none");
  }
  for (const auto* requests : {&result.layer_precisions, &result.layer_output_types})
    for (const LayerTypeRequest& request : *requests)
      if ((request.type == DataType::kBFloat16 && !result.bf16) ||
          (request.type == DataType::kHalf && !result.fp16))
        return make_error(ErrorCode::kInvalidArgument, "layer \"{}\": {} needs --{}", request.layer,
                          type_name(request.type),
                          request.type == DataType::kHalf ? "fp16" : "bf16");
  if (options.has("calib") && !options.has("int8") && !options.has("best"))
    result.warnings.emplace_back("--calib has no effect without --int8 or --best");
  return ok_status();
}

int verbosity_number(const Options& options) {
  const std::string word = options.text("profilingVerbosity");
  if (word == "detailed" || word == "verbose") return 2;
  if (word == "none") return 1;
  if (!word.empty()) return 0;
  return options.has("exportLayerInfo") || options.has("dumpLayerInfo") ? 2 : 0;
}

Status check_together(const CamexecOptions& result) {
  const Options& options = result.options;
  if (!options.has("onnx") && !options.has("loadEngine"))
    return invalid("give a model: --onnx=FILE or --loadEngine=FILE");
  if (options.has("onnx") && options.has("loadEngine"))
    return invalid("--onnx and --loadEngine exclude each other");
  if (options.has("loadEngine") && options.has("saveEngine")) {
    return invalid("--loadEngine and --saveEngine exclude each other");
  }
  if (options.has("getPlanVersionOnly") && !options.has("loadEngine")) {
    return invalid("--getPlanVersionOnly needs --loadEngine=FILE");
  }
  if (options.all("profilingVerbosity").size() > 1)
    return invalid("--profilingVerbosity was given twice");
  const bool has_references =
      std::any_of(result.pairs.begin(), result.pairs.end(),
                  [](const ReferencePair& pair) { return !pair.outputs.empty(); });
  if (has_references && !options.has("accuracyThreshold"))
    return invalid("--loadRefOutputs needs --accuracyThreshold=X");
  if (options.number("duration") < 0 && options.number("duration") != -1) {
    return invalid("--duration: seconds, or -1 for no end");
  }
  for (const char* shapes : {"shapes", "minShapes", "optShapes", "maxShapes"})
    for (const char* batch : {"batch", "maxBatch"})
      if (options.has(shapes) && options.has(batch))
        return make_error(ErrorCode::kInvalidArgument, "--{} and --{} exclude each other", batch,
                          shapes);
  if (result.batch > 0 && result.max_batch > 0 && result.batch > result.max_batch)
    return make_error(ErrorCode::kInvalidArgument, "--batch={} is above --maxBatch={}",
                      result.batch, result.max_batch);
  if (options.has("heuristic") && options.has("builderOptimizationLevel"))
    return invalid("--heuristic and --builderOptimizationLevel exclude each other");
  return ok_status();
}

bool is_engine_file(const std::filesystem::path& file) {
  char magic[sizeof engine::kMagic] = {};
  std::ifstream(file, std::ios::binary).read(magic, sizeof magic);
  return std::memcmp(magic, engine::kMagic, sizeof magic) == 0;
}

// An engine given as a model or a model as an engine is a common slip: the message says so.
Status check_model(const Options& options, const char* option, const char* other, bool is_engine) {
  if (!options.has(option)) return ok_status();
  const std::string spelling = fmt::format("--{}", option);
  const std::filesystem::path file = options.text(option);
  CAMSHAFT_TRY(check_readable(file, spelling));
  if (is_engine_file(file) == is_engine || (is_engine && file.extension() != ".onnx"))
    return ok_status();
  return make_error(ErrorCode::kInvalidArgument, "{}: {} is an {}; use --{}={}", spelling,
                    file.string(), is_engine ? "ONNX model" : "engine", other, file.string());
}

}  // namespace

Status check_files(const CamexecOptions& result) {
  const Options& options = result.options;
  CAMSHAFT_TRY(check_model(options, "onnx", "loadEngine", false));
  CAMSHAFT_TRY(check_model(options, "loadEngine", "onnx", true));
  for (const char* option : {"saveEngine", "timingCacheFile", "exportLayerInfo", "exportProfile",
                             "exportTimes", "exportOutput", "exportTrace"}) {
    if (!options.has(option)) continue;
    const std::string spelling = fmt::format("--{}", option);
    if (options.text(option).empty()) return invalid(spelling + ": no file is named");
    CAMSHAFT_TRY(check_writable(options.text(option), spelling));
  }
  if (options.has("calib")) CAMSHAFT_TRY(check_readable(options.text("calib"), "--calib"));
  for (const ReferencePair& pair : result.pairs) {
    for (const auto& [name, file] : pair.inputs) CAMSHAFT_TRY(check_readable(file, "--loadInputs"));
    for (const auto& [name, file] : pair.outputs)
      CAMSHAFT_TRY(check_readable(file, "--loadRefOutputs"));
  }
  return ok_status();
}

Result<CamexecOptions> parse_camexec(std::span<char* const> words) {
  CamexecOptions result;
  CAMSHAFT_ASSIGN(result.options, Options::parse(camexec_rows(), words, {true, 0}));
  const Options& options = result.options;
  if (options.has("help")) return result;
  for (const GivenOption& given : options.given()) {
    const std::string line = fmt::format("{} ({})", given.spelling, given.row->help);
    if (given.row->status == OptionStatus::kAlways) result.always.push_back(line);
    if (given.row->status == OptionStatus::kNoEffect) result.no_effect.push_back(line);
  }
  result.batch = options.integer("batch");
  result.max_batch = options.integer("maxBatch");
  CAMSHAFT_TRY(collect_profiles(result));
  CAMSHAFT_TRY(collect_pairs(result));
  CAMSHAFT_TRY(collect_precision(result));
  if (options.has("shapes")) {
    CAMSHAFT_ASSIGN(result.shapes, parse_all_shapes(options.all("shapes"), "--shapes"));
    // Shapes given for inference only are what the engine is built for, too.
    if (result.profiles.empty()) result.profiles.push_back({{}, result.shapes, {}});
  }
  CAMSHAFT_ASSIGN(result.percentiles,
                  parse_percentiles(options.text("percentile"), "--percentile"));
  result.verbosity = verbosity_number(options);
  result.sparsity = parse_sparsity(options.text("sparsity"));
  CAMSHAFT_TRY(check_together(result));
  return result;
}

}  // namespace camshaft::cli
