// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <optional>
#include <tuple>

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "arrays.h"
#include "bindings.h"
#include "camshaft/builder.h"
#include "errors.h"

namespace camshaft::python {
namespace {

// A model that can be built from once.
struct ModelHolder {
  explicit ModelHolder(Model from) : model(std::move(from)) {}
  std::optional<Model> model;

  Model& get() {
    if (!model)
      raise(Status(ErrorCode::kInvalidArgument, "this model has been built from; open it again"));
    return *model;
  }
};

nb::dict info_of(ModelHolder& holder) {
  const ModelInfo& info = holder.get().info();
  nb::dict facts;
  facts["graph_name"] = info.graph_name;
  facts["ir_version"] = info.ir_version;
  facts["opset"] = info.opset;
  facts["model_version"] = info.model_version;
  facts["producer_name"] = info.producer_name;
  facts["producer_version"] = info.producer_version;
  facts["domain"] = info.domain;
  facts["doc_string"] = info.doc_string;
  facts["node_count"] = info.node_count;
  return facts;
}

using Ranges = std::map<std::string, std::tuple<Dims, Dims, Dims>>;

std::vector<OptimizationProfile> to_profiles(const std::vector<Ranges>& given) {
  std::vector<OptimizationProfile> profiles;
  for (const Ranges& ranges : given) {
    OptimizationProfile& profile = profiles.emplace_back();
    for (const auto& [input, range] : ranges)
      profile.push_back({input, std::get<0>(range), std::get<1>(range), std::get<2>(range)});
  }
  return profiles;
}

std::vector<LayerTypeRequest> to_requests(const std::map<std::string, std::string>& given) {
  std::vector<LayerTypeRequest> requests;
  for (const auto& [layer, type] : given) requests.push_back({layer, type_from_name(type)});
  return requests;
}

// Calls Python between the steps of a build; what it raises, or Ctrl-C, cancels.
class Progress {
 public:
  explicit Progress(nb::object callback) : callback_(std::move(callback)) {}

  bool operator()(const char* phase, int done, int total) {
    const nb::gil_scoped_acquire gil;
    if (error_) return false;
    try {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      if (callback_.is_none()) return true;
      const nb::object answer = callback_(phase, done, total);
      return answer.is_none() || nb::cast<bool>(answer);
    } catch (nb::python_error& error) {
      error_.emplace(std::move(error));
      return false;
    }
  }
  void rethrow() {
    if (error_) throw nb::python_error(std::move(*error_));
  }

 private:
  nb::object callback_;
  std::optional<nb::python_error> error_;
};

nb::tuple build_engine(ModelHolder& holder, BuildOptions options, const nb::object& callback) {
  Model model = std::move(holder.get());
  holder.model.reset();
  Progress progress(callback);
  options.progress = [&progress](const char* phase, int done, int total) {
    return progress(phase, done, total);
  };
  BuildStatistics statistics;
  std::optional<Result<Engine>> engine;
  {
    const nb::gil_scoped_release release;
    engine.emplace(build(std::move(model), options, &statistics));
  }
  if (!engine->ok()) progress.rethrow();
  nb::dict facts;
  facts["total_seconds"] = statistics.total_seconds;
  facts["graph_seconds"] = statistics.graph_seconds;
  facts["timing_seconds"] = statistics.timing_seconds;
  facts["timed_tactics"] = statistics.timed_tactics;
  facts["cache_hits"] = statistics.cache_hits;
  facts["reused_times"] = statistics.reused_times;
  return nb::make_tuple(take(std::move(*engine)), facts);
}

template <class T>
T without_gil(Result<T> (*open)(const std::filesystem::path&), const std::filesystem::path& file) {
  std::optional<Result<T>> result;
  {
    const nb::gil_scoped_release release;
    result.emplace(open(file));
  }
  return take(std::move(*result));
}

}  // namespace

void bind_builder(nb::module_& module) {
  nb::class_<ModelHolder>(module, "Model")
      .def_static("from_file",
                  [](const std::filesystem::path& file) {
                    return ModelHolder(without_gil<Model>(&Model::from_file, file));
                  })
      .def_static(
          "from_memory",
          [](const nb::bytes& bytes, const std::filesystem::path& external_data) {
            const auto* data = static_cast<const std::byte*>(bytes.data());
            return ModelHolder(take(Model::from_memory({data, bytes.size()}, external_data)));
          })
      .def_prop_ro("inputs", [](ModelHolder& holder) { return holder.get().inputs(); })
      .def_prop_ro("outputs", [](ModelHolder& holder) { return holder.get().outputs(); })
      .def_prop_ro("info", &info_of);
  nb::class_<BuildOptions>(module, "BuildOptions")
      .def(nb::init<>())
      .def("set_profiles",
           [](BuildOptions& options, const std::vector<Ranges>& given) {
             options.profiles = to_profiles(given);
           })
      .def("set_layer_precisions",
           [](BuildOptions& options, const std::map<std::string, std::string>& given) {
             options.layer_precisions = to_requests(given);
           })
      .def("set_layer_output_types",
           [](BuildOptions& options, const std::map<std::string, std::string>& given) {
             options.layer_output_types = to_requests(given);
           })
      .def("set_precision_constraints",
           [](BuildOptions& options, int kind) {
             options.precision_constraints = static_cast<PrecisionConstraints>(kind);
           })
      .def("set_verbosity", [](BuildOptions& options,
                               int kind) { options.verbosity = static_cast<Verbosity>(kind); })
      .def("set_sparsity",
           [](BuildOptions& options, int kind) { options.sparsity = static_cast<Sparsity>(kind); })
      .def_rw("threads", &BuildOptions::threads)
      .def_rw("optimization_level", &BuildOptions::optimization_level)
      .def_rw("avg_timing", &BuildOptions::avg_timing)
      .def_rw("max_tactics", &BuildOptions::max_tactics)
      .def_rw("timing_cache", &BuildOptions::timing_cache)
      .def_rw("use_timing_cache", &BuildOptions::use_timing_cache)
      .def_rw("error_on_timing_cache_miss", &BuildOptions::error_on_timing_cache_miss)
      .def_rw("int8", &BuildOptions::int8)
      .def_rw("calibration_cache", &BuildOptions::calibration_cache)
      .def_rw("bf16", &BuildOptions::bf16)
      .def_rw("fp16", &BuildOptions::fp16)
      .def_rw("strongly_typed", &BuildOptions::strongly_typed)
      .def_rw("portable", &BuildOptions::portable);
  module.def("build", &build_engine, nb::arg("model"), nb::arg("options"),
             nb::arg("progress").none());
}

}  // namespace camshaft::python
