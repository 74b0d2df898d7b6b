// SPDX-License-Identifier: Apache-2.0
#include "camshaft/engine.h"

#include "api/impl.h"
#include "base/cpu.h"

namespace camshaft {
namespace api {

TensorInfo tensor_info(std::string name, ir::DataType type, bool has_rank, const ir::Shape& shape,
                       const ir::SymbolTable& symbols) {
  TensorInfo info;
  info.name = std::move(name);
  info.type = to_public(type);
  info.has_rank = has_rank;
  for (ir::Dim dim : shape) {
    info.dims.push_back(dim.is_known() ? dim.extent() : -1);
    info.symbols.push_back(dim.is_known() ? "" : symbols.to_string(dim));
  }
  return info;
}

namespace {

std::vector<TensorInfo> binding_infos(const engine::Plan& plan, const std::vector<int>& tensors) {
  std::vector<TensorInfo> infos;
  for (int index : tensors) {
    const engine::PlanTensor& tensor = plan.tensors[static_cast<size_t>(index)];
    infos.push_back(
        tensor_info(tensor.name, tensor.type, tensor.has_rank, tensor.shape, plan.symbols));
  }
  return infos;
}

EngineInfo engine_info(const engine::Engine& engine) {
  const engine::BuildRecord& record = engine.record();
  EngineInfo info;
  info.model_name = record.model_name;
  info.builder_version = record.builder_version;
  info.cpu_model = record.cpu_model;
  info.same_cpu = record.cpu_fingerprint == cpu_fingerprint();
  info.build_threads = record.threads;
  info.layer_count = static_cast<int>(engine.plan().steps.size());
  info.file_bytes = engine.file_bytes();
  info.weight_bytes = engine.weights().size();
  info.peak_gmacs = record.peak_gmacs;
  info.read_gbytes = record.read_gbytes;
  info.verbosity = static_cast<Verbosity>(engine.verbosity());
  return info;
}

}  // namespace

Engine wrap_engine(std::shared_ptr<const engine::Engine> engine) {
  auto impl = std::make_shared<Engine::Impl>();
  const engine::Plan& plan = engine->plan();
  impl->inputs = binding_infos(plan, plan.inputs);
  impl->outputs = binding_infos(plan, plan.outputs);
  for (const engine::Profile& profile : engine->profiles()) {
    OptimizationProfile ranges;
    for (const engine::ShapeRange& range : profile) {
      ranges.push_back(
          {range.input, to_public(range.min), to_public(range.opt), to_public(range.max)});
    }
    impl->profiles.push_back(std::move(ranges));
  }
  impl->info = engine_info(*engine);
  impl->engine = std::move(engine);
  return Engine(std::move(impl));
}

}  // namespace api

Result<Engine> Engine::load(const std::filesystem::path& file) {
  return api::guarded([&]() -> Result<Engine> {
    CAMSHAFT_ASSIGN(auto loaded, engine::Engine::load(file));
    return api::wrap_engine(std::move(loaded));
  });
}

Result<Engine> Engine::from_memory(std::span<const std::byte> bytes) {
  return api::guarded([&]() -> Result<Engine> {
    CAMSHAFT_ASSIGN(auto loaded, engine::Engine::load(bytes));
    return api::wrap_engine(std::move(loaded));
  });
}

Result<Engine> Engine::from_shared_memory(std::span<const std::byte> bytes,
                                          std::shared_ptr<const void> owner) {
  return api::guarded([&]() -> Result<Engine> {
    CAMSHAFT_ASSIGN(auto loaded, engine::Engine::load(bytes, std::move(owner)));
    return api::wrap_engine(std::move(loaded));
  });
}

std::span<const std::byte> Engine::serialize() const {
  return impl_->engine->bytes();
}

Status Engine::save(const std::filesystem::path& file) const {
  return api::guarded([&] { return engine::save(serialize(), file); });
}

const std::vector<TensorInfo>& Engine::inputs() const {
  return impl_->inputs;
}

const std::vector<TensorInfo>& Engine::outputs() const {
  return impl_->outputs;
}

const TensorInfo* Engine::find(std::string_view name) const {
  for (const std::vector<TensorInfo>* side : {&impl_->inputs, &impl_->outputs}) {
    for (const TensorInfo& info : *side) {
      if (info.name == name) return &info;
    }
  }
  return nullptr;
}

const std::vector<OptimizationProfile>& Engine::profiles() const {
  return impl_->profiles;
}

const EngineInfo& Engine::info() const {
  return impl_->info;
}

}  // namespace camshaft
