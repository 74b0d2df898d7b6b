// SPDX-License-Identifier: Apache-2.0
#include "camshaft/c_api.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "api/c_handles.h"
#include "api/impl.h"
#include "base/status.h"
#include "camshaft/inspector.h"
#include "camshaft/version.h"

namespace camshaft::api {
namespace {

thread_local std::string last_error;

class CallbackLogger : public Logger {
 public:
  void log(Severity severity, std::string_view text) override {
    callback(static_cast<camshaft_severity>(severity), std::string(text).c_str(), user);
  }
  camshaft_log_callback callback = nullptr;
  void* user = nullptr;
};

CallbackLogger callback_logger;

// A malloc()ed copy for C.
camshaft_status copy_text(const std::string& text, char** copy) {
  *copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (*copy == nullptr) return report(Status(ErrorCode::kResources, "out of memory"));
  std::memcpy(*copy, text.c_str(), text.size() + 1);
  return CAMSHAFT_OK;
}

// What `make` gives as text, or its error.
template <class Make>
camshaft_status give_text(char** text, const Make& make) {
  const Result<std::string> made = guarded([&]() -> Result<std::string> { return make(); });
  return made.ok() ? copy_text(made.value(), text) : report(made.status());
}

camshaft_status give_shape(const Result<Dims>& shape, int64_t* dims, int32_t* rank) {
  if (!shape.ok()) return report(shape.status());
  *rank = static_cast<int32_t>(shape.value().size());
  std::copy(shape.value().begin(), shape.value().end(), dims);
  return CAMSHAFT_OK;
}

void describe_range(const ShapeRange& range, camshaft_shape_range& out) {
  out = {};
  out.input = range.input.c_str();
  out.rank = static_cast<int32_t>(range.opt.size());
  std::copy(range.min.begin(), range.min.end(), out.min);
  std::copy(range.opt.begin(), range.opt.end(), out.opt);
  std::copy(range.max.begin(), range.max.end(), out.max);
}

camshaft_status describe_at(const std::vector<TensorInfo>& infos, size_t index,
                            camshaft_tensor_info* info) {
  if (index >= infos.size()) {
    return report(make_error(ErrorCode::kInvalidArgument, "index {} of {}", index, infos.size()));
  }
  describe(infos[index], *info);
  return CAMSHAFT_OK;
}

}  // namespace

camshaft_status wrap(Result<Engine> result, camshaft_engine** engine) {
  if (!result.ok()) return report(result.status());
  return report(guarded([&] {
    *engine = new camshaft_engine{std::move(result).value()};
    return ok_status();
  }));
}

camshaft_status report(const Status& status) {
  try {
    if (!status.ok()) last_error = status.message();
  } catch (const std::bad_alloc&) {
    last_error.clear();  // the code says it
  }
  return static_cast<camshaft_status>(status.code());
}

camshaft_status null_argument(const char* function) {
  return report(
      make_error(ErrorCode::kInvalidArgument, "{}: a required argument is NULL", function));
}

void describe(const TensorInfo& info, camshaft_tensor_info& out) {
  out.name = info.name.c_str();
  out.type = static_cast<camshaft_type>(info.type);
  out.rank = info.has_rank ? static_cast<int32_t>(info.dims.size()) : -1;
  std::fill(std::begin(out.dims), std::end(out.dims), 0);
  std::copy_n(info.dims.begin(), std::min<size_t>(info.dims.size(), CAMSHAFT_MAX_RANK), out.dims);
}

}  // namespace camshaft::api

using camshaft::Result;
using camshaft::api::null_argument;
using camshaft::api::report;

extern "C" {

const char* camshaft_version(void) {
  return CAMSHAFT_VERSION;
}

const char* camshaft_last_error(void) {
  return camshaft::api::last_error.c_str();
}

void camshaft_set_log(camshaft_log_callback callback, camshaft_severity most_verbose, void* user) {
  camshaft::set_logger(nullptr);
  camshaft::api::callback_logger.callback = callback;
  camshaft::api::callback_logger.user = user;
  if (callback != nullptr) {
    camshaft::set_logger(&camshaft::api::callback_logger,
                         static_cast<camshaft::Severity>(most_verbose));
  }
}

camshaft_status camshaft_engine_load(const char* file, camshaft_engine** engine) {
  if (file == nullptr || engine == nullptr) return null_argument(__func__);
  return camshaft::api::wrap(camshaft::Engine::load(file), engine);
}

camshaft_status camshaft_engine_from_memory(const void* data, size_t bytes,
                                            camshaft_engine** engine) {
  if (data == nullptr || engine == nullptr) return null_argument(__func__);
  return camshaft::api::wrap(
      camshaft::Engine::from_memory({static_cast<const std::byte*>(data), bytes}), engine);
}

void camshaft_engine_destroy(camshaft_engine* engine) {
  delete engine;
}

camshaft_status camshaft_engine_save(const camshaft_engine* engine, const char* file) {
  if (engine == nullptr || file == nullptr) return null_argument(__func__);
  return report(engine->engine.save(file));
}

camshaft_status camshaft_engine_bytes(const camshaft_engine* engine, const void** data,
                                      size_t* bytes) {
  if (engine == nullptr || data == nullptr || bytes == nullptr) return null_argument(__func__);
  const auto span = engine->engine.serialize();
  *data = span.data();
  *bytes = span.size();
  return CAMSHAFT_OK;
}

size_t camshaft_engine_input_count(const camshaft_engine* engine) {
  return engine == nullptr ? 0 : engine->engine.inputs().size();
}

size_t camshaft_engine_output_count(const camshaft_engine* engine) {
  return engine == nullptr ? 0 : engine->engine.outputs().size();
}

camshaft_status camshaft_engine_input(const camshaft_engine* engine, size_t index,
                                      camshaft_tensor_info* info) {
  if (engine == nullptr || info == nullptr) return null_argument(__func__);
  return camshaft::api::describe_at(engine->engine.inputs(), index, info);
}

camshaft_status camshaft_engine_output(const camshaft_engine* engine, size_t index,
                                       camshaft_tensor_info* info) {
  if (engine == nullptr || info == nullptr) return null_argument(__func__);
  return camshaft::api::describe_at(engine->engine.outputs(), index, info);
}

size_t camshaft_engine_profile_count(const camshaft_engine* engine) {
  return engine == nullptr ? 0 : engine->engine.profiles().size();
}

camshaft_status camshaft_engine_profile_shapes(const camshaft_engine* engine, size_t profile,
                                               const char* input, camshaft_shape_range* range) {
  if (engine == nullptr || input == nullptr || range == nullptr) return null_argument(__func__);
  const auto& profiles = engine->engine.profiles();
  if (profile >= profiles.size())
    return report(camshaft::make_error(camshaft::ErrorCode::kInvalidArgument,
                                       "optimization profile {} of {}", profile, profiles.size()));
  for (const camshaft::ShapeRange& one : profiles[profile]) {
    if (one.input != input) continue;
    camshaft::api::describe_range(one, *range);
    return CAMSHAFT_OK;
  }
  return report(camshaft::make_error(camshaft::ErrorCode::kInvalidArgument,
                                     "optimization profile {} has no input '{}'", profile, input));
}

size_t camshaft_engine_layer_count(const camshaft_engine* engine) {
  return engine == nullptr ? 0 : static_cast<size_t>(engine->engine.info().layer_count);
}

camshaft_status camshaft_engine_layers_json(const camshaft_engine* engine, char** json) {
  if (engine == nullptr || json == nullptr) return null_argument(__func__);
  return camshaft::api::give_text(json, [&] {
    return camshaft::Inspector(engine->engine).to_json(camshaft::Verbosity::kDetailed);
  });
}

camshaft_status camshaft_engine_explain_json(const camshaft_engine* engine, size_t layer,
                                             char** json) {
  if (engine == nullptr || json == nullptr) return null_argument(__func__);
  if (layer >= camshaft_engine_layer_count(engine))
    return report(camshaft::make_error(camshaft::ErrorCode::kInvalidArgument, "layer {} of {}",
                                       layer, camshaft_engine_layer_count(engine)));
  return camshaft::api::give_text(json, [&] {
    return camshaft::Inspector(engine->engine).explain_json(static_cast<int>(layer));
  });
}

void camshaft_free(void* text) {
  std::free(text);
}

camshaft_status camshaft_context_create(const camshaft_engine* engine, int32_t threads,
                                        int32_t profile, camshaft_context** context) {
  if (engine == nullptr || context == nullptr) return null_argument(__func__);
  camshaft::ContextOptions options;
  options.threads = threads;
  options.profile = profile;
  Result<camshaft::Context> created = camshaft::Context::create(engine->engine, options);
  if (!created.ok()) return report(created.status());
  return report(camshaft::api::guarded([&] {
    *context = new camshaft_context{std::move(created).value()};
    return camshaft::ok_status();
  }));
}

void camshaft_context_destroy(camshaft_context* context) {
  delete context;
}

camshaft_status camshaft_context_set_shape(camshaft_context* context, const char* input,
                                           const int64_t* dims, int32_t rank) {
  if (context == nullptr || input == nullptr || (dims == nullptr && rank != 0))
    return null_argument(__func__);
  if (rank < 0)
    return report(
        camshaft::make_error(camshaft::ErrorCode::kInvalidArgument, "{}: rank {}", input, rank));
  return report(context->context.set_shape(input, {dims, static_cast<size_t>(rank)}));
}

camshaft_status camshaft_context_input_shape(const camshaft_context* context, const char* input,
                                             int64_t* dims, int32_t* rank) {
  if (context == nullptr || input == nullptr || dims == nullptr || rank == nullptr)
    return null_argument(__func__);
  return camshaft::api::give_shape(context->context.input_shape(input), dims, rank);
}

camshaft_status camshaft_context_output_shape(camshaft_context* context, const char* output,
                                              int64_t* dims, int32_t* rank) {
  if (context == nullptr || output == nullptr || dims == nullptr || rank == nullptr)
    return null_argument(__func__);
  return camshaft::api::give_shape(context->context.output_shape(output), dims, rank);
}

camshaft_status camshaft_context_set_input(camshaft_context* context, const char* input,
                                           const void* data, size_t bytes) {
  if (context == nullptr || input == nullptr || (data == nullptr && bytes != 0))
    return null_argument(__func__);
  return report(context->context.set_input(input, data, bytes));
}

camshaft_status camshaft_context_set_output(camshaft_context* context, const char* output,
                                            void* data, size_t bytes) {
  if (context == nullptr || output == nullptr) return null_argument(__func__);
  return report(context->context.set_output(output, data, bytes));
}

camshaft_status camshaft_context_set_cache(camshaft_context* context, const char* past,
                                           const char* present, void* data, size_t bytes) {
  if (context == nullptr || past == nullptr || present == nullptr) return null_argument(__func__);
  return report(context->context.set_cache(past, present, data, bytes));
}

camshaft_status camshaft_context_run(camshaft_context* context) {
  if (context == nullptr) return null_argument(__func__);
  return report(context->context.run());
}

camshaft_status camshaft_context_output(camshaft_context* context, const char* output,
                                        const void** data, camshaft_tensor_info* info) {
  if (context == nullptr || output == nullptr) return null_argument(__func__);
  const Result<camshaft::TensorView> view = context->context.output(output);
  if (!view.ok()) return report(view.status());
  if (data != nullptr) *data = view.value().data;
  if (info != nullptr) {
    camshaft::api::describe(*context->context.engine().find(output), *info);
    info->rank = static_cast<int32_t>(view.value().dims.size());
    std::copy(view.value().dims.begin(), view.value().dims.end(), info->dims);
  }
  return CAMSHAFT_OK;
}

camshaft_status camshaft_context_set_profiler(camshaft_context* context,
                                              camshaft_layer_callback callback, void* user) {
  if (context == nullptr) return null_argument(__func__);
  if (callback == nullptr) {
    context->context.set_profiler(nullptr);
    return CAMSHAFT_OK;
  }
  return report(camshaft::api::guarded([&] {
    std::vector<std::string> names;
    const camshaft::Inspector inspector(context->context.engine());
    for (const camshaft::LayerInfo& layer : inspector.layers()) names.push_back(layer.name);
    context->context.set_profiler([callback, user,
                                   names = std::move(names)](const camshaft::LayerTime& time) {
      callback(time.layer, names[static_cast<size_t>(time.layer)].c_str(), time.microseconds, user);
    });
    return camshaft::ok_status();
  }));
}

}  // extern "C"
