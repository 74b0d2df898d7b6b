// SPDX-License-Identifier: Apache-2.0
// The part of the C API that builds: in libcamshaft only.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "api/c_handles.h"
#include "api/impl.h"
#include "base/status.h"
#include "camshaft/builder.h"

namespace camshaft::api {
namespace {

// Before int8 came.
constexpr size_t kFirstSize = offsetof(camshaft_build_options, int8);

Result<std::vector<OptimizationProfile>> profiles_of(const camshaft_build_options& given) {
  constexpr int32_t kMostProfiles = 64;
  std::vector<OptimizationProfile> profiles;
  if (given.shape_count > 0 && given.shapes == nullptr)
    return Status(ErrorCode::kInvalidArgument, "shape ranges are counted, but not there");
  for (size_t k = 0; k < given.shape_count; ++k) {
    const camshaft_shape_range& range = given.shapes[k];
    if (range.input == nullptr || range.rank < 0 || range.rank > CAMSHAFT_MAX_RANK)
      return make_error(ErrorCode::kInvalidArgument,
                        "shape range {}: no input name, or a rank not in 0 to {}", k,
                        CAMSHAFT_MAX_RANK);
    const int32_t number = given.shape_profiles != nullptr ? given.shape_profiles[k] : 0;
    if (number < 0 || number >= kMostProfiles)
      return make_error(ErrorCode::kInvalidArgument,
                        "shape range {}: optimization profile {} is not in 0 to {}", k, number,
                        kMostProfiles - 1);
    const auto profile = static_cast<size_t>(number);
    profiles.resize(std::max(profiles.size(), profile + 1));
    profiles[profile].push_back({range.input, Dims(range.min, range.min + range.rank),
                                 Dims(range.opt, range.opt + range.rank),
                                 Dims(range.max, range.max + range.rank)});
  }
  return profiles;
}

Result<std::vector<LayerTypeRequest>> layer_types(const camshaft_layer_type* given, size_t count) {
  std::vector<LayerTypeRequest> requests;
  if (count > 0 && given == nullptr)
    return Status(ErrorCode::kInvalidArgument, "layer types are counted, but not there");
  for (size_t k = 0; k < count; ++k) {
    if (given[k].layer == nullptr)
      return make_error(ErrorCode::kInvalidArgument, "layer type {}: no layer is named", k);
    requests.push_back({given[k].layer, static_cast<DataType>(given[k].type)});
  }
  return requests;
}

Result<BuildOptions> build_options(const camshaft_build_options* callers) {
  BuildOptions options;
  if (callers == nullptr) return options;
  if (callers->struct_size < kFirstSize) {
    return Status(ErrorCode::kInvalidArgument,
                  "build options were not set by camshaft_build_options_init()");
  }
  camshaft_build_options known = {};
  std::memcpy(&known, callers, std::min(callers->struct_size, sizeof known));
  const camshaft_build_options* const given = &known;
  options.threads = given->threads;
  options.optimization_level = given->optimization_level;
  options.avg_timing = given->avg_timing;
  options.max_tactics = given->max_tactics;
  options.bf16 = given->allow_bf16 != 0;
  options.fp16 = given->allow_fp16 != 0;
  if (given->timing_cache_file != nullptr) options.timing_cache = given->timing_cache_file;
  options.int8 = given->int8 != 0;
  if (given->calibration_cache_file != nullptr)
    options.calibration_cache = given->calibration_cache_file;
  options.strongly_typed = given->strongly_typed != 0;
  options.portable = given->portable != 0;
  CAMSHAFT_ASSIGN(options.profiles, profiles_of(*given));
  CAMSHAFT_ASSIGN(options.layer_precisions,
                  layer_types(given->layer_precisions, given->layer_precision_count));
  CAMSHAFT_ASSIGN(options.layer_output_types,
                  layer_types(given->layer_output_types, given->layer_output_type_count));
  if (given->precision_constraints < CAMSHAFT_CONSTRAINTS_NONE ||
      given->precision_constraints > CAMSHAFT_CONSTRAINTS_OBEY)
    return make_error(ErrorCode::kInvalidArgument, "precision constraints {} are not known",
                      static_cast<int>(given->precision_constraints));
  options.precision_constraints = static_cast<PrecisionConstraints>(given->precision_constraints);
  if (given->sparsity < 0 || given->sparsity > static_cast<int32_t>(Sparsity::kForce))
    return make_error(ErrorCode::kInvalidArgument, "sparsity {} is not 0, 1 or 2", given->sparsity);
  options.sparsity = static_cast<Sparsity>(given->sparsity);
  if (given->progress != nullptr) {
    options.progress = [progress = given->progress, user = given->user](const char* phase, int done,
                                                                        int total) {
      return progress(phase, done, total, user) != 0;
    };
  }
  return options;
}

Result<Engine> build_with(Result<Model> model, const camshaft_build_options* given) {
  CAMSHAFT_TRY(model.status());
  CAMSHAFT_ASSIGN(const BuildOptions options, guarded([&] { return build_options(given); }));
  return build(std::move(model).value(), options);
}

}  // namespace
}  // namespace camshaft::api

extern "C" {

void camshaft_build_options_init(camshaft_build_options* options, size_t struct_size) {
  if (options == nullptr) return;
  const camshaft::BuildOptions defaults;
  camshaft_build_options known = {};
  known.struct_size = struct_size;
  known.optimization_level = defaults.optimization_level;
  known.avg_timing = defaults.avg_timing;
  known.max_tactics = defaults.max_tactics;
  // What a newer caller has beyond is 0 there, too.
  std::memset(static_cast<void*>(options), 0, struct_size);
  std::memcpy(static_cast<void*>(options), &known, std::min(struct_size, sizeof known));
}

camshaft_status camshaft_build_file(const char* onnx_file, const camshaft_build_options* options,
                                    camshaft_engine** engine) {
  if (onnx_file == nullptr || engine == nullptr) return camshaft::api::null_argument(__func__);
  return camshaft::api::wrap(
      camshaft::api::build_with(camshaft::Model::from_file(onnx_file), options), engine);
}

camshaft_status camshaft_build_memory(const void* onnx, size_t bytes,
                                      const camshaft_build_options* options,
                                      camshaft_engine** engine) {
  if (onnx == nullptr || engine == nullptr) return camshaft::api::null_argument(__func__);
  const std::span<const std::byte> model(static_cast<const std::byte*>(onnx), bytes);
  return camshaft::api::wrap(
      camshaft::api::build_with(camshaft::Model::from_memory(model), options), engine);
}

}  // extern "C"
