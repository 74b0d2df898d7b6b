// SPDX-License-Identifier: Apache-2.0
#include "camshaft/context.h"

#include "api/impl.h"

namespace camshaft {
namespace {

std::string names_of(const std::vector<TensorInfo>& infos) {
  std::string text;
  for (const TensorInfo& info : infos) text += (text.empty() ? "" : ", ") + info.name;
  return text;
}

Result<int> index_of(const std::vector<TensorInfo>& infos, std::string_view name,
                     const char* what) {
  for (size_t k = 0; k < infos.size(); ++k) {
    if (infos[k].name == name) return static_cast<int>(k);
  }
  return make_error(ErrorCode::kInvalidArgument, "the engine has no {} '{}'; it has {}", what, name,
                    names_of(infos));
}

Dims initial_dims(const Engine& engine, const TensorInfo& input, int profile) {
  const auto& profiles = engine.profiles();
  if (static_cast<size_t>(profile) < profiles.size()) {
    for (const ShapeRange& range : profiles[static_cast<size_t>(profile)]) {
      if (range.input == input.name) return range.opt;
    }
  }
  return input.dims;
}

Result<Context> make_context(const Engine& engine, const ContextOptions& options) {
  runtime::ContextOptions internal;
  internal.threads = options.threads;
  internal.profile = options.profile;
  internal.spin_us = options.spin_us;
  CAMSHAFT_ASSIGN(auto context, runtime::Context::create(engine.impl().engine, internal));
  auto impl = std::make_unique<Context::Impl>(Context::Impl{engine, std::move(context), {}, false});
  for (size_t k = 0; k < engine.inputs().size(); ++k) {
    const TensorInfo& input = engine.inputs()[k];
    const Dims dims = initial_dims(engine, input, options.profile);
    impl->input_dims.push_back(dims);
    if (input.is_dynamic() && element_count(dims) >= 0) {
      CAMSHAFT_TRY(
          impl->context->set_input_extents(static_cast<int>(k), dims).with_context(input.name));
    }
  }
  return Context(std::move(impl));
}

}  // namespace

Context::Context(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Context::Context(Context&&) noexcept = default;
Context& Context::operator=(Context&&) noexcept = default;
Context::~Context() = default;

Result<Context> Context::create(const Engine& engine, const ContextOptions& options) {
  const int profiles = static_cast<int>(engine.profiles().size());
  if (options.profile < 0 || options.profile >= std::max(profiles, 1)) {
    return make_error(ErrorCode::kInvalidArgument,
                      "optimization profile {} does not exist: the engine has {}", options.profile,
                      profiles);
  }
  if (options.threads < 0)
    return make_error(ErrorCode::kInvalidArgument, "{} threads", options.threads);
  return api::guarded([&] { return make_context(engine, options); });
}

const Engine& Context::engine() const {
  return impl_->engine;
}

int Context::threads() const {
  return impl_->context->threads();
}

Status Context::set_shape(std::string_view input, std::span<const int64_t> dims) {
  CAMSHAFT_ASSIGN(const int index, index_of(engine().inputs(), input, "input"));
  if (dims.size() > ir::kMaxRank) {
    return make_error(ErrorCode::kInvalidArgument, "{}: {} dimensions; at most {} are supported",
                      input, dims.size(), ir::kMaxRank);
  }
  return api::guarded([&]() -> Status {
    CAMSHAFT_TRY(impl_->context->set_input_extents(index, dims));
    impl_->input_dims[static_cast<size_t>(index)].assign(dims.begin(), dims.end());
    impl_->has_run = false;
    return ok_status();
  });
}

Status Context::set_input(std::string_view input, const void* data, size_t bytes) {
  CAMSHAFT_ASSIGN(const int index, index_of(engine().inputs(), input, "input"));
  return impl_->context->set_input(index, data, bytes);
}

Status Context::set_elements(std::string_view input, const void* data, size_t bytes,
                             bool (*is_held)(DataType)) {
  CAMSHAFT_ASSIGN(const int index, index_of(engine().inputs(), input, "input"));
  const DataType type = engine().inputs()[static_cast<size_t>(index)].type;
  if (!is_held(type))
    return make_error(ErrorCode::kInvalidArgument,
                      "input '{}' is {}: the given values are of another type", input,
                      type_name(type));
  return impl_->context->set_input(index, data, bytes);
}

Status Context::set_output(std::string_view output, void* data, size_t bytes) {
  CAMSHAFT_ASSIGN(const int index, index_of(engine().outputs(), output, "output"));
  return impl_->context->set_output(index, data, bytes);
}

std::vector<CacheInfo> Context::caches() const {
  std::vector<CacheInfo> infos;
  for (const runtime::CacheFacts& cache : impl_->context->caches())
    infos.push_back({engine().inputs()[static_cast<size_t>(cache.input)].name,
                     engine().outputs()[static_cast<size_t>(cache.output)].name, cache.axis});
  return infos;
}

Status Context::set_cache(std::string_view past, std::string_view present, void* data,
                          size_t bytes) {
  int k = 0;  // a step of a decoder sets dozens: no list with their names is made
  for (const runtime::CacheFacts& cache : impl_->context->caches()) {
    if (engine().inputs()[static_cast<size_t>(cache.input)].name == past &&
        engine().outputs()[static_cast<size_t>(cache.output)].name == present) {
      impl_->has_run = false;
      return impl_->context->set_cache(k, data, bytes);
    }
    ++k;
  }
  return make_error(ErrorCode::kInvalidArgument,
                    "output '{}' is not input '{}' and new rows behind it, read by attention alone:"
                    " they cannot share a buffer",
                    present, past);
}

Result<Dims> Context::output_shape(std::string_view output) {
  CAMSHAFT_ASSIGN(const int index, index_of(engine().outputs(), output, "output"));
  if (!impl_->has_run) CAMSHAFT_TRY(api::guarded([&] { return impl_->context->prepare(); }));
  CAMSHAFT_ASSIGN(const ir::Extents extents, impl_->context->output_extents(index));
  return api::to_public(extents);
}

Result<Dims> Context::input_shape(std::string_view input) const {
  CAMSHAFT_ASSIGN(const int index, index_of(engine().inputs(), input, "input"));
  return impl_->input_dims[static_cast<size_t>(index)];
}

Result<TensorView> Context::output(std::string_view output) const {
  CAMSHAFT_ASSIGN(const int index, index_of(engine().outputs(), output, "output"));
  if (!impl_->has_run) {
    return make_error(ErrorCode::kInvalidArgument,
                      "output '{}' has no values before a run() that succeeds", output);
  }
  CAMSHAFT_ASSIGN(const ir::Extents extents, impl_->context->output_extents(index));
  if (impl_->context->is_in_cache(index))
    return make_error(ErrorCode::kInvalidArgument,
                      "output '{}' lies in the buffer of set_cache(): read it there", output);
  TensorView view;
  view.type = engine().outputs()[static_cast<size_t>(index)].type;
  view.dims = api::to_public(extents);
  view.data = impl_->context->output_data(index);
  return view;
}

Status Context::run() {
  impl_->has_run = false;  // what a failed run leaves is nobody's result
  CAMSHAFT_TRY(api::guarded([&] { return impl_->context->execute(); }));
  impl_->has_run = true;
  return ok_status();
}

void Context::set_profiler(std::function<void(const LayerTime&)> profiler, bool opens_bodies) {
  if (!profiler) {
    impl_->context->set_profiler(nullptr);
    return;
  }
  impl_->context->set_profiler(
      [profiler = std::move(profiler)](const runtime::LayerTime& time) {
        profiler({time.step, time.microseconds, time.start_ns, time.inner});
      },
      opens_bodies);
}

size_t Context::activation_bytes() const {
  return impl_->context->arena_bytes();
}

size_t Context::workspace_bytes() const {
  return impl_->context->workspace_bytes();
}

}  // namespace camshaft
