// SPDX-License-Identifier: Apache-2.0
#include "camshaft/builder.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "api/impl.h"
#include "api/model.h"
#include "base/log.h"
#include "onnx/importer.h"
#include "quantize/implicit.h"
#include "tuner/builder.h"

namespace camshaft {

struct Model::Impl {
  std::unique_ptr<ir::Graph> graph;
  std::vector<TensorInfo> inputs, outputs;
  ModelInfo info;
};

namespace {

std::vector<TensorInfo> tensor_infos(const ir::Graph& graph,
                                     const std::vector<ir::Tensor*>& tensors) {
  std::vector<TensorInfo> infos;
  infos.reserve(tensors.size());
  for (const ir::Tensor* tensor : tensors) {
    infos.push_back(api::tensor_info(tensor->name, tensor->type, tensor->has_rank, tensor->shape,
                                     graph.symbols()));
  }
  return infos;
}

Status check_range(const ShapeRange& range, const std::vector<TensorInfo>& inputs) {
  auto input = std::find_if(inputs.begin(), inputs.end(),
                            [&](const TensorInfo& info) { return info.name == range.input; });
  if (input == inputs.end()) {
    return make_error(ErrorCode::kInvalidArgument,
                      "optimization profile: the model has no input '{}'", range.input);
  }
  const size_t rank = input->has_rank ? input->dims.size() : range.opt.size();
  for (const Dims* dims : {&range.min, &range.opt, &range.max}) {
    if (dims->size() != rank || rank > ir::kMaxRank) {
      return make_error(ErrorCode::kInvalidArgument,
                        "optimization profile: {}: {} has {} dimensions, the model's input {}",
                        range.input, to_string(*dims), dims->size(), rank);
    }
  }
  for (size_t k = 0; k < rank; ++k) {
    if (range.min[k] < 0 || range.min[k] > range.opt[k] || range.opt[k] > range.max[k]) {
      return make_error(ErrorCode::kInvalidArgument,
                        "optimization profile: {}: not min <= opt <= max: {}, {}, {}", range.input,
                        to_string(range.min), to_string(range.opt), to_string(range.max));
    }
    if (input->has_rank && input->dims[k] >= 0 &&
        (range.min[k] != input->dims[k] || range.max[k] != input->dims[k])) {
      return make_error(ErrorCode::kInvalidArgument,
                        "optimization profile: {}: {} contradicts the model's shape {}",
                        range.input, to_string(range.opt), to_string(input->dims));
    }
  }
  return ok_status();
}

Result<std::string> read_text(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return make_error(ErrorCode::kIo, "{}: cannot be read", file.string());
  return std::string(std::istreambuf_iterator<char>(in), {});
}

std::vector<quantize::LayerType> layer_types(const std::vector<LayerTypeRequest>& requests) {
  std::vector<quantize::LayerType> types;
  types.reserve(requests.size());
  for (const LayerTypeRequest& request : requests)
    types.push_back({request.layer, api::to_internal(request.type)});
  return types;
}

Status check_layer_types(const BuildOptions& options) {
  for (const auto* requests : {&options.layer_precisions, &options.layer_output_types})
    for (const LayerTypeRequest& request : *requests)
      if (request.type != DataType::kFloat && request.type != DataType::kInt8 &&
          request.type != DataType::kBFloat16 && request.type != DataType::kHalf)
        return make_error(ErrorCode::kUnsupported,
                          "layer \"{}\": {} is not in this version, only float, bfloat16, half "
                          "and int8",
                          request.layer, type_name(request.type));
  return ok_status();
}

// What the options ask of precision, with the calibration cache read.
struct Precision {
  quantize::PrecisionOptions options;
  quantize::Scales scales;
};

Result<std::unique_ptr<Precision>> read_precision(const BuildOptions& options) {
  CAMSHAFT_TRY(check_layer_types(options));
  auto precision = std::make_unique<Precision>();
  precision->options.int8 = options.int8;
  precision->options.precisions = layer_types(options.layer_precisions);
  precision->options.output_types = layer_types(options.layer_output_types);
  precision->options.constraints =
      static_cast<quantize::Constraints>(options.precision_constraints);
  if (options.calibration_cache.empty()) return precision;
  CAMSHAFT_ASSIGN(const std::string text, read_text(options.calibration_cache));
  auto cache = quantize::parse_calibration_cache(text);
  if (!cache.ok()) return cache.status().with_context(options.calibration_cache.string());
  precision->scales = std::move(cache->scales);
  precision->options.scales = &precision->scales;
  return precision;
}

ir::DataType wanted_type(const std::vector<quantize::LayerType>& types, const ir::Layer& layer) {
  ir::DataType wanted = ir::DataType::kUndefined;
  for (const quantize::LayerType& type : types)
    if (type.type != ir::DataType::kInt8 && quantize::matches_layer(type.layer, layer))
      wanted = type.type;
  return wanted;
}

void log_warnings(quantize::PrecisionReport& report) {
  for (const std::string& warning : report.warnings) log(Severity::kWarning, "{}", warning);
  report.warnings.clear();
}

}  // namespace

Model api::wrap_model(onnx_import::ImportedModel imported) {
  auto impl = std::make_unique<Model::Impl>();
  impl->graph = std::move(imported.graph);
  impl->inputs = tensor_infos(*impl->graph, impl->graph->inputs());
  impl->outputs = tensor_infos(*impl->graph, impl->graph->outputs());
  const onnx_import::ModelInfo& info = imported.info;
  impl->info.graph_name = impl->graph->name();
  impl->info.ir_version = info.ir_version;
  impl->info.opset = info.opset;
  impl->info.model_version = info.model_version;
  impl->info.producer_name = info.producer_name;
  impl->info.producer_version = info.producer_version;
  impl->info.domain = info.domain;
  impl->info.doc_string = info.doc_string;
  impl->info.node_count = info.node_count;
  return Model(std::move(impl));
}

Model::Model(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;
Model::~Model() = default;

Result<Model> Model::from_file(const std::filesystem::path& onnx_file) {
  return api::guarded([&]() -> Result<Model> {
    CAMSHAFT_ASSIGN(auto imported, onnx_import::import_file(onnx_file));
    return api::wrap_model(std::move(imported));
  });
}

Result<Model> Model::from_memory(std::span<const std::byte> onnx_bytes,
                                 const std::filesystem::path& external_data) {
  return api::guarded([&]() -> Result<Model> {
    CAMSHAFT_ASSIGN(auto imported, onnx_import::import_bytes(onnx_bytes, external_data));
    return api::wrap_model(std::move(imported));
  });
}

const std::vector<TensorInfo>& Model::inputs() const {
  return impl_->inputs;
}

const std::vector<TensorInfo>& Model::outputs() const {
  return impl_->outputs;
}

const ModelInfo& Model::info() const {
  return impl_->info;
}

namespace {

Result<Engine> build_engine(Model model, const BuildOptions& options, BuildStatistics* statistics) {
  tuner::BuildOptions internal;
  for (const OptimizationProfile& profile : options.profiles) {
    engine::Profile ranges;
    for (const ShapeRange& range : profile) {
      CAMSHAFT_TRY(check_range(range, model.inputs()));
      ranges.push_back({range.input, api::to_internal(range.min), api::to_internal(range.opt),
                        api::to_internal(range.max)});
    }
    internal.profiles.push_back(std::move(ranges));
  }
  internal.threads = options.threads;
  internal.optimization_level = options.optimization_level;
  internal.avg_timing = options.avg_timing;
  internal.max_tactics = options.max_tactics;
  internal.timing_cache_file = options.timing_cache.string();
  internal.use_timing_cache = options.use_timing_cache;
  internal.error_on_timing_cache_miss = options.error_on_timing_cache_miss;
  internal.verbosity = static_cast<engine::Verbosity>(options.verbosity);
  internal.progress = options.progress;
  CAMSHAFT_ASSIGN(const std::unique_ptr<Precision> precision, read_precision(options));
  CAMSHAFT_ASSIGN(quantize::PrecisionReport report,
                  quantize::apply_precision(*model.impl().graph, precision->options));
  log_warnings(report);
  const auto asks_for_int8 = [](const LayerTypeRequest& request) {
    return request.type == DataType::kInt8;
  };
  internal.quantized_in_float =
      options.precision_constraints == PrecisionConstraints::kNone ||
      std::none_of(options.layer_precisions.begin(), options.layer_precisions.end(), asks_for_int8);
  internal.portable = options.portable;
  internal.dump_after = options.dump_after;
  internal.dump_to = options.dump_to.string();
  internal.strongly_typed = options.strongly_typed;
  internal.without_quantization = options.without_quantization;
  internal.sparsity = static_cast<tuner::Sparsity>(options.sparsity);
  if (options.bf16) internal.reduced_types.push_back(ir::DataType::kBFloat16);
  if (options.fp16) internal.reduced_types.push_back(ir::DataType::kHalf);
  if (options.precision_constraints != PrecisionConstraints::kNone)
    internal.layer_types = [&precision](const ir::Layer& layer) {
      return tuner::BuildOptions::LayerTypes{wanted_type(precision->options.precisions, layer),
                                             wanted_type(precision->options.output_types, layer)};
    };
  tuner::BuildStatistics stats;
  CAMSHAFT_ASSIGN(auto bytes, tuner::build(std::move(model.impl().graph), internal, &stats));
  if (statistics != nullptr) {
    *statistics = {stats.total_seconds, stats.graph_seconds, stats.timing_seconds,
                   stats.timed_tactics, stats.cache_hits,    stats.reused_times};
  }
  CAMSHAFT_ASSIGN(auto loaded, engine::Engine::load(std::move(bytes)));
  Engine engine = api::wrap_engine(std::move(loaded));
  CAMSHAFT_TRY(quantize::check_precision(engine.impl().engine->plan(), precision->options, report));
  log_warnings(report);
  return engine;
}

}  // namespace

Result<Engine> build(Model model, const BuildOptions& options, BuildStatistics* statistics) {
  return api::guarded([&] { return build_engine(std::move(model), options, statistics); });
}

}  // namespace camshaft
