// SPDX-License-Identifier: Apache-2.0
// Options whose meaning depends on the network: batches and formats of inputs and outputs.
#include <algorithm>

#include <fmt/format.h>

#include "cli/camexec_options.h"

namespace camshaft::cli {
namespace {

bool has_dynamic_batch(const TensorInfo& input) {
  return input.has_rank && !input.dims.empty() && input.dims[0] < 0;
}

// The network's shapes with batch `batch`, of the inputs that have one.
Result<NamedShapes> shapes_with_batch(const std::vector<TensorInfo>& inputs, int64_t batch,
                                      const char* option) {
  NamedShapes shapes;
  for (const TensorInfo& input : inputs) {
    if (!has_dynamic_batch(input)) continue;
    Dims dims = input.dims;
    dims[0] = batch;
    if (element_count(dims) < 0)
      return make_error(ErrorCode::kInvalidArgument,
                        "{}={}: input '{}' has more dynamic dimensions than its batch ({}): use "
                        "--shapes={}:…",
                        option, batch, input.name, to_string(input.dims), input.name);
    shapes.emplace_back(input.name, std::move(dims));
  }
  if (!shapes.empty()) return shapes;
  const auto other = std::find_if(inputs.begin(), inputs.end(), [&](const TensorInfo& input) {
    return !input.dims.empty() && input.dims[0] != batch;
  });
  if (other == inputs.end()) return shapes;  // it is what was asked for
  return make_error(ErrorCode::kInvalidArgument,
                    "{}={}: input '{}' has the fixed shape {}: export the model with a dynamic "
                    "batch, or run it as it is",
                    option, batch, other->name, to_string(other->dims));
}

struct IoType {
  const char* word;
  DataType type;
};
constexpr IoType kIoTypes[] = {{"fp32", DataType::kFloat},    {"fp16", DataType::kHalf},
                               {"bf16", DataType::kBFloat16}, {"int32", DataType::kInt32},
                               {"int64", DataType::kInt64},   {"int8", DataType::kInt8},
                               {"uint8", DataType::kUInt8},   {"bool", DataType::kBool}};

// "fp32:chw+int8:chw32", "chw": any of these may be chosen; ours is row major of the own type.
Status check_format(const std::string& option, const std::string& spec, const TensorInfo& info) {
  std::string why;
  for (const std::string& choice : split_outside_quotes(spec, '+')) {
    const size_t colon = choice.find(':');
    const std::string word = colon == std::string::npos ? "" : choice.substr(0, colon);
    const std::string format = colon == std::string::npos ? choice : choice.substr(colon + 1);
    const auto* const row = std::find_if(std::begin(kIoTypes), std::end(kIoTypes),
                                         [&](const IoType& type) { return type.word == word; });
    if (!word.empty() && row == std::end(kIoTypes))
      return make_error(ErrorCode::kInvalidArgument, "{}: '{}' is not a type of {}", option, word,
                        spec);
    const bool is_own_type = word.empty() || row->type == info.type;
    if (format == "chw" && is_own_type) return ok_status();
    why = format != "chw" ? "only row major (chw) is in this version"
                          : fmt::format(
                                "'{}' is {}, and types of inputs and outputs are the "
                                "network's own in this version",
                                info.name, type_name(info.type));
  }
  return make_error(ErrorCode::kUnsupported, "{}={}: {}", option, spec, why);
}

}  // namespace

Status apply_batch(CamexecOptions& camexec, const std::vector<TensorInfo>& inputs) {
  const int64_t opt = camexec.batch > 0 ? camexec.batch : camexec.max_batch;
  if (opt == 0) return ok_status();
  const char* const option = camexec.batch > 0 ? "--batch" : "--maxBatch";
  CAMSHAFT_ASSIGN(camexec.shapes, shapes_with_batch(inputs, opt, option));
  ProfileShapes profile{{}, camexec.shapes, {}};
  if (camexec.max_batch > 0) {
    CAMSHAFT_ASSIGN(profile.min, shapes_with_batch(inputs, 1, "--maxBatch"));
    CAMSHAFT_ASSIGN(profile.max, shapes_with_batch(inputs, camexec.max_batch, "--maxBatch"));
  }
  if (!camexec.shapes.empty()) camexec.profiles = {std::move(profile)};
  return ok_status();
}

Status check_io_formats(const Options& options, const char* name,
                        const std::vector<TensorInfo>& infos) {
  if (!options.has(name)) return ok_status();
  const std::string option = fmt::format("--{}", name);
  const std::vector<std::string> specs = split_outside_quotes(options.text(name), ',');
  if (specs.size() != 1 && specs.size() != infos.size())
    return make_error(ErrorCode::kInvalidArgument, "{}: {} formats for {} tensors", option,
                      specs.size(), infos.size());
  for (size_t k = 0; k < infos.size(); ++k)
    CAMSHAFT_TRY(check_format(option, specs[specs.size() == 1 ? 0 : k], infos[k]));
  return ok_status();
}

}  // namespace camshaft::cli
