// SPDX-License-Identifier: Apache-2.0
#include "serve/model_config.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/json_util.h>

#include "cli/shapes.h"
#include "serve/data_types.h"

namespace camshaft::serve {
namespace {

namespace pb = google::protobuf;

constexpr int64_t kLargestBatch = 4096;
constexpr size_t kLargestFile = 1 << 20;
constexpr int kMostInstances = 64;

class Messages : public pb::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (error.empty()) error = fmt::format("{}:{}: {}", line + 1, column + 1, message);
  }
  void AddWarning(int line, int, const std::string& message) override {
    notes.push_back(fmt::format("line {}: {}", line + 1, message));
  }
  std::string error;
  std::vector<std::string> notes;
};

Status unsupported(const char* what) {
  return make_error(ErrorCode::kUnsupported, "config.pbtxt: {} is not supported", what);
}

bool has_batch(const TensorInfo& info) {
  return info.has_rank && !info.dims.empty() && info.dims[0] == -1;
}

// Whether every tensor's first extent is the same open one: then it is the batch.
bool is_batchable(const NetworkFacts& network) {
  if (network.inputs.empty() || !has_batch(network.inputs[0])) return false;
  const std::string& batch = network.inputs[0].symbols[0];
  for (const auto* infos : {&network.inputs, &network.outputs})
    for (const TensorInfo& info : *infos)
      if (!has_batch(info) || info.symbols[0] != batch) return false;
  return true;
}

const TensorInfo* find(const std::vector<TensorInfo>& infos, const std::string& name) {
  for (const TensorInfo& info : infos)
    if (info.name == name) return &info;
  return nullptr;
}

std::string names(const std::vector<TensorInfo>& infos) {
  std::string text;
  for (const TensorInfo& info : infos) text += (text.empty() ? "" : ", ") + info.name;
  return text;
}

// Extents without the batch.
Dims inner_dims(const TensorInfo& info, bool is_batched) {
  return {info.dims.begin() + (is_batched && !info.dims.empty() ? 1 : 0), info.dims.end()};
}

template <class ConfigTensor>
Status check_tensor(const ConfigTensor& given, const std::vector<TensorInfo>& infos,
                    const char* what, bool is_batched) {
  const TensorInfo* info = find(infos, given.name());
  if (info == nullptr)
    return make_error(ErrorCode::kInvalidArgument, "config.pbtxt: no {} '{}'; the network has {}",
                      what, given.name(), names(infos));
  const std::string place = fmt::format("config.pbtxt: {} '{}'", what, given.name());
  if (given.has_reshape()) return unsupported("reshape").with_context(given.name());
  if (given.data_type() != inference::TYPE_INVALID && given.data_type() != config_type(info->type))
    return make_error(ErrorCode::kInvalidArgument, "{} is {}, the network's is TYPE_{}", place,
                      inference::DataType_Name(given.data_type()), protocol_name(info->type));
  if (!info->has_rank || given.dims().empty()) return ok_status();
  const Dims own = inner_dims(*info, is_batched);
  bool fits = own.size() == static_cast<size_t>(given.dims_size());
  for (size_t k = 0; fits && k < own.size(); ++k) {
    const int64_t wanted = given.dims(static_cast<int>(k));
    fits = wanted == -1 || own[k] == -1 || wanted == own[k];
  }
  if (fits) return ok_status();
  return make_error(ErrorCode::kInvalidArgument, "{} has extents {}, the network's are {}{}", place,
                    to_string(Dims(given.dims().begin(), given.dims().end())), to_string(own),
                    is_batched ? " beside the batch" : "");
}

template <class ConfigTensor>
void fill_tensor(ConfigTensor& tensor, const TensorInfo& info, bool is_batched) {
  tensor.set_name(info.name);
  tensor.set_data_type(static_cast<inference::DataType>(config_type(info.type)));
  if (!tensor.dims().empty()) return;
  for (const int64_t extent : inner_dims(info, is_batched)) tensor.add_dims(extent);
}

// Brings the tensors into the network's order and adds those that are not there.
template <class List>
void fill_tensors(List& list, const std::vector<TensorInfo>& infos, bool is_batched) {
  List all;
  for (const TensorInfo& info : infos) {
    auto* tensor = all.Add();
    for (const auto& given : list)
      if (given.name() == info.name) *tensor = given;
    fill_tensor(*tensor, info, is_batched);
  }
  list.Swap(&all);
}

Status check_refused(const ModelConfig& config) {
  if (config.has_sequence_batching()) return unsupported("sequence_batching");
  if (config.has_ensemble_scheduling()) return unsupported("ensemble_scheduling");
  if (config.model_transaction_policy().decoupled()) return unsupported("a decoupled model");
  for (const auto& input : config.input()) {
    if (input.optional()) return unsupported("an optional input");
    if (input.allow_ragged_batch()) return unsupported("allow_ragged_batch");
  }
  for (const auto& group : config.instance_group())
    if (group.count() < 0 || group.count() > kMostInstances)
      return make_error(ErrorCode::kInvalidArgument,
                        "config.pbtxt: instance_group: {} instances; 1 to {} are possible",
                        group.count(), kMostInstances);
  if (config.max_batch_size() < 0 || config.max_batch_size() > kLargestBatch)
    return make_error(ErrorCode::kInvalidArgument, "config.pbtxt: max_batch_size {}: 0 to {}",
                      config.max_batch_size(), kLargestBatch);
  return ok_status();
}

void note_without_effect(GivenConfig& given) {
  for (const auto& group : given.config.instance_group())
    if (group.kind() == inference::ModelInstanceGroup::KIND_GPU)
      given.notes.emplace_back("instance_group: KIND_GPU: instances run on the processor");
  if (!given.config.dynamic_batching().preferred_batch_size().empty())
    given.notes.emplace_back("preferred_batch_size: sizes are chosen by measured times");
}

Status complete_batch(GivenConfig& given, const NetworkFacts& network, int64_t default_max_batch) {
  ModelConfig& config = given.config;
  const bool is_open = !given.is_given || (config.max_batch_size() == 0 && config.input().empty() &&
                                           config.output().empty());
  const int64_t bound = network.batch_bound;
  if (is_open && is_batchable(network)) {
    const int64_t most = bound > 0 ? bound : default_max_batch;
    config.set_max_batch_size(static_cast<int>(std::min(most, kLargestBatch)));
    if (config.max_batch_size() > 1 && !config.has_dynamic_batching())
      config.mutable_dynamic_batching();
  }
  if (config.max_batch_size() == 0) return ok_status();
  for (const auto* infos : {&network.inputs, &network.outputs})
    for (const TensorInfo& info : *infos) {
      const bool fits = info.has_rank && !info.dims.empty() &&
                        (info.dims[0] == -1 || (info.dims[0] == 1 && config.max_batch_size() == 1));
      if (info.has_rank && !fits)
        return make_error(ErrorCode::kInvalidArgument,
                          "max_batch_size is {}, but the first extent of '{}' ({}) is not open",
                          config.max_batch_size(), info.name, to_string(info.dims));
    }
  if (bound > 0 && config.max_batch_size() > bound)
    return make_error(ErrorCode::kInvalidArgument,
                      "max_batch_size is {}, the engine was built for batches up to {}",
                      config.max_batch_size(), bound);
  return ok_status();
}

// The range of one input in one profile: `tuned` is the batch to tune for.
Result<ShapeRange> range_of(const TensorInfo& info, const ModelConfig& config,
                            const cli::ProfileShapes& shapes, int64_t tuned) {
  const bool is_batched = config.max_batch_size() > 0;
  ShapeRange range{info.name, info.dims, info.dims, info.dims};
  const inference::ModelInput* given = nullptr;
  for (const auto& input : config.input())
    if (input.name() == info.name) given = &input;
  const Dims* min = cli::find_shape(shapes.min, info.name);
  const Dims* opt = cli::find_shape(shapes.opt, info.name);
  const Dims* max = cli::find_shape(shapes.max, info.name);
  const size_t first = is_batched ? 1 : 0;
  for (size_t k = 0; k < info.dims.size(); ++k) {
    if (info.dims[k] != -1) continue;
    if (is_batched && k == 0) {
      range.min[0] = 1;
      range.opt[0] = tuned;
      range.max[0] = config.max_batch_size();
      continue;
    }
    const int configured = static_cast<int>(k - first);
    if (given != nullptr && configured < given->dims_size() && given->dims(configured) >= 0) {
      range.min[k] = range.opt[k] = range.max[k] = given->dims(configured);
      continue;
    }
    const auto of = [k](const Dims* dims) { return dims && k < dims->size() ? (*dims)[k] : -1; };
    range.max[k] = std::max(of(max), of(opt));
    range.opt[k] = of(opt) >= 0 ? of(opt) : range.max[k];
    range.min[k] = of(min) >= 0 ? of(min) : range.opt[k];
    if (range.max[k] < 0)
      return make_error(
          ErrorCode::kInvalidArgument,
          "input '{}' ({}) has open extents: say which it takes in config.pbtxt, as dims of the "
          "input or as parameters min_shapes, opt_shapes and max_shapes (\"{}:…\")",
          info.name, to_string(info.dims), info.name);
  }
  return range;
}

}  // namespace

Result<GivenConfig> parse_config_text(const std::string& text) {
  GivenConfig given;
  given.is_given = true;
  Messages messages;
  pb::TextFormat::Parser parser;
  parser.RecordErrorsTo(&messages);
  parser.AllowUnknownField(true);
  parser.SetRecursionLimit(32);
  if (!parser.ParseFromString(text, &given.config))
    return make_error(ErrorCode::kInvalidArgument, "config.pbtxt:{}", messages.error);
  given.notes = std::move(messages.notes);
  return given;
}

Result<GivenConfig> parse_config_json(const std::string& text) {
  GivenConfig given;
  given.is_given = true;
  pb::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  const auto parsed = pb::util::JsonStringToMessage(text, &given.config, options);
  if (!parsed.ok())
    return make_error(ErrorCode::kInvalidArgument, "the configuration: {}",
                      std::string(parsed.message()));
  return given;
}

Result<GivenConfig> read_config(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "config.pbtxt";
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return GivenConfig();
  if (std::filesystem::file_size(file, error) > kLargestFile || error)
    return make_error(ErrorCode::kInvalidArgument, "config.pbtxt: larger than 1 MiB");
  std::ifstream stream(file);
  const std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  if (stream.bad() || !stream.is_open())
    return make_error(ErrorCode::kIo, "config.pbtxt cannot be read");
  return parse_config_text(text);
}

Status complete_config(GivenConfig& given, const std::string& model_name,
                       const NetworkFacts& network, int64_t default_max_batch) {
  ModelConfig& config = given.config;
  if (!config.name().empty() && config.name() != model_name)
    return make_error(ErrorCode::kInvalidArgument,
                      "config.pbtxt: the name is '{}', the folder's is '{}'", config.name(),
                      model_name);
  config.set_name(model_name);
  config.set_platform(network.platform);
  config.set_backend("camshaft");
  CAMSHAFT_TRY(check_refused(config));
  for (const auto* infos : {&network.inputs, &network.outputs})
    for (const TensorInfo& info : *infos)
      if (protocol_name(info.type).empty())
        return make_error(ErrorCode::kUnsupported, "'{}' is {}, for which the protocol has no name",
                          info.name, type_name(info.type));
  CAMSHAFT_TRY(complete_batch(given, network, default_max_batch));
  const bool is_batched = config.max_batch_size() > 0;
  for (const auto& input : config.input())
    CAMSHAFT_TRY(check_tensor(input, network.inputs, "input", is_batched));
  for (const auto& output : config.output())
    CAMSHAFT_TRY(check_tensor(output, network.outputs, "output", is_batched));
  note_without_effect(given);
  fill_tensors(*config.mutable_input(), network.inputs, is_batched);
  fill_tensors(*config.mutable_output(), network.outputs, is_batched);
  if (config.instance_group().empty()) config.add_instance_group();
  for (auto& group : *config.mutable_instance_group()) {
    group.set_kind(inference::ModelInstanceGroup::KIND_CPU);
    if (group.count() == 0) group.set_count(1);
  }
  if (!config.has_version_policy())
    config.mutable_version_policy()->mutable_latest()->set_num_versions(1);
  return ok_status();
}

Result<std::vector<OptimizationProfile>> build_profiles(const ModelConfig& config,
                                                        const std::vector<TensorInfo>& inputs) {
  cli::ProfileShapes shapes;
  const std::pair<const char*, cli::NamedShapes*> given[] = {
      {"min_shapes", &shapes.min}, {"opt_shapes", &shapes.opt}, {"max_shapes", &shapes.max}};
  for (const auto& [name, target] : given) {
    const std::string text = parameter(config, name);
    if (text.empty()) continue;
    CAMSHAFT_ASSIGN(*target, cli::parse_shapes(text, fmt::format("parameters {}", name)));
    CAMSHAFT_TRY(cli::check_all_used(*target, inputs, name));
  }
  std::vector<int64_t> tuned = {1};
  if (config.max_batch_size() > 1) tuned.push_back(config.max_batch_size());
  std::vector<OptimizationProfile> profiles;
  for (const int64_t batch : tuned) {
    OptimizationProfile profile;
    for (const TensorInfo& info : inputs) {
      if (!info.has_rank || !info.is_dynamic()) continue;
      CAMSHAFT_ASSIGN(ShapeRange range, range_of(info, config, shapes, batch));
      profile.push_back(std::move(range));
    }
    if (!profile.empty()) profiles.push_back(std::move(profile));
  }
  return profiles;
}

std::string parameter(const ModelConfig& config, const std::string& name) {
  const auto found = config.parameters().find(name);
  return found == config.parameters().end() ? "" : found->second.string_value();
}

Result<double> number_parameter(const ModelConfig& config, const std::string& name,
                                double fallback) {
  const std::string text = parameter(config, name);
  if (text.empty()) return fallback;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= 0) || value > 1e12)
    return make_error(ErrorCode::kInvalidArgument,
                      "config.pbtxt: parameter {}: '{}' is not a number of at least 0", name, text);
  return value;
}

}  // namespace camshaft::serve
