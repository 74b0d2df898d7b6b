// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "arrays.h"
#include "bindings.h"
#include "camshaft/inspector.h"
#include "errors.h"

namespace camshaft::python {
namespace {

// An inspector whose dynamic extents are those of a profile's opt shapes.
std::unique_ptr<Inspector> make_inspector(const Engine& engine) {
  ContextOptions options;
  options.threads = 1;
  Context context = take(Context::create(engine, options));
  // Evaluates shapes; outputs whose extents only running tells stay unknown.
  for (const TensorInfo& output : engine.outputs()) (void)context.output_shape(output.name);
  return std::make_unique<Inspector>(engine, context);
}

// Per-layer times of a number of runs on the inputs of a feed.
class Profiler {
 public:
  Profiler(const Engine& engine, int threads) : context_(make_context(engine, threads)) {}

  void set_input(const std::string& name, nb::handle object) {
    const TensorInfo* info = context_.engine().find(name);
    Array array = input_array(object, info ? info->type : DataType::kUndefined, name);
    check(context_.set_shape(name, array.dims));
    check(context_.set_input(name, array.data, array.bytes));
    arrays_.push_back(std::move(array));
  }

  nb::tuple run(int warm_up, int runs) {
    std::optional<Inspector> inspector;
    std::optional<LayerProfile> profile;
    Status status;
    {
      const nb::gil_scoped_release release;
      status = context_.run();
      inspector.emplace(context_.engine(), context_);
      profile.emplace(*inspector);
      for (int k = 0; k < warm_up && status.ok(); ++k) status = context_.run();
      context_.set_profiler([&profile](const LayerTime& time) { profile->add(time); }, true);
      for (int k = 0; k < runs && status.ok(); ++k) {
        status = context_.run();
        profile->end_run();
      }
      context_.set_profiler(nullptr);
    }
    check(status);
    const double peak = inspector->peak_gmacs() * context_.threads();
    std::vector<std::vector<LayerProfile::Row>> inside;
    for (const LayerInfo& layer : inspector->layers())
      inside.push_back(profile->inner_rows(layer.index));
    return nb::make_tuple(profile->rows(peak), inside, profile->to_json(), profile->to_text());
  }

 private:
  static Context make_context(const Engine& engine, int threads) {
    ContextOptions options;
    options.threads = threads;
    return take(Context::create(engine, options));
  }

  Context context_;
  std::vector<Array> arrays_;
};

}  // namespace

void bind_inspector(nb::module_& module) {
  nb::class_<LayerTensor>(module, "LayerTensor")
      .def_ro("name", &LayerTensor::name)
      .def_prop_ro("dtype", [](const LayerTensor& tensor) { return numpy_name(tensor.type); })
      .def_ro("shape", &LayerTensor::dims)
      .def_ro("format", &LayerTensor::format)
      .def_ro("scale", &LayerTensor::scale)
      .def_ro("zero_point", &LayerTensor::zero_point);
  nb::class_<LayerCandidate>(module, "LayerCandidate")
      .def_ro("tactic", &LayerCandidate::tactic)
      .def_ro("formats", &LayerCandidate::formats)
      .def_ro("time_us", &LayerCandidate::time_us)
      .def_ro("refusal", &LayerCandidate::refusal)
      .def_ro("why_not", &LayerCandidate::why_not)
      .def_ro("chosen", &LayerCandidate::chosen);
  nb::class_<InnerLayer>(module, "InnerLayer")
      .def_ro("body", &InnerLayer::body)
      .def_ro("depth", &InnerLayer::depth)
      .def_ro("name", &InnerLayer::name)
      .def_ro("type", &InnerLayer::type)
      .def_ro("tactic", &InnerLayer::tactic)
      .def_prop_ro("tactic_text", [](const InnerLayer& layer) { return tactic_text(layer); })
      .def_ro("isa", &InnerLayer::isa)
      .def_ro("is_no_op", &InnerLayer::is_no_op)
      .def_ro("is_late", &InnerLayer::is_late)
      .def_ro("inputs", &InnerLayer::inputs)
      .def_ro("outputs", &InnerLayer::outputs)
      .def_ro("source_nodes", &InnerLayer::source_nodes);
  nb::class_<LayerInfo>(module, "Layer")
      .def_ro("index", &LayerInfo::index)
      .def_ro("name", &LayerInfo::name)
      .def_ro("type", &LayerInfo::type)
      .def_ro("tactic", &LayerInfo::tactic)
      .def_prop_ro("tactic_text", [](const LayerInfo& layer) { return tactic_text(layer); })
      .def_ro("isa", &LayerInfo::isa)
      .def_ro("arithmetic", &LayerInfo::arithmetic)
      .def_prop_ro("precision", [](const LayerInfo& layer) { return numpy_name(layer.precision); })
      .def_ro("is_no_op", &LayerInfo::is_no_op)
      .def_ro("is_late", &LayerInfo::is_late)
      .def_ro("inputs", &LayerInfo::inputs)
      .def_ro("outputs", &LayerInfo::outputs)
      .def_ro("source_nodes", &LayerInfo::source_nodes)
      .def_ro("macs", &LayerInfo::macs)
      .def_ro("io_bytes", &LayerInfo::io_bytes)
      .def_ro("weight_bytes", &LayerInfo::weight_bytes)
      .def_ro("build_time_us", &LayerInfo::build_time_us)
      .def_ro("peak_factor", &LayerInfo::peak_factor)
      .def_ro("candidates", &LayerInfo::candidates)
      .def_ro("inner", &LayerInfo::inner)
      .def_ro("region", &LayerInfo::region)
      .def_ro("region_name", &LayerInfo::region_name)
      .def_ro("region_type", &LayerInfo::region_type);
  nb::class_<RegionInfo::Border>(module, "RegionBorder")
      .def_ro("tensor", &RegionInfo::Border::tensor)
      .def_ro("layer", &RegionInfo::Border::layer)
      .def_ro("layer_name", &RegionInfo::Border::layer_name)
      .def_ro("reason", &RegionInfo::Border::reason);
  nb::class_<RegionInfo>(module, "Region")
      .def_ro("index", &RegionInfo::index)
      .def_ro("name", &RegionInfo::name)
      .def_ro("layers", &RegionInfo::layers)
      .def_ro("running", &RegionInfo::running)
      .def_ro("build_time_us", &RegionInfo::build_time_us)
      .def_ro("reason", &RegionInfo::reason)
      .def_ro("before", &RegionInfo::before)
      .def_ro("after", &RegionInfo::after);
  nb::class_<RewriteInfo>(module, "Rewrite")
      .def_ro("declined", &RewriteInfo::declined)
      .def_ro("action", &RewriteInfo::action)
      .def_ro("rule", &RewriteInfo::pass)
      .def_ro("layer", &RewriteInfo::layer)
      .def_ro("layers", &RewriteInfo::layers)
      .def_ro("text", &RewriteInfo::text)
      .def_ro("reason", &RewriteInfo::reason);
  nb::class_<LayerProfile::Row>(module, "LayerTime")
      .def_ro("layer", &LayerProfile::Row::layer)
      .def_ro("inner", &LayerProfile::Row::inner)
      .def_ro("name", &LayerProfile::Row::name)
      .def_ro("calls", &LayerProfile::Row::calls)
      .def_ro("total_ms", &LayerProfile::Row::total_ms)
      .def_ro("average_ms", &LayerProfile::Row::average_ms)
      .def_ro("median_ms", &LayerProfile::Row::median_ms)
      .def_ro("percentage", &LayerProfile::Row::percentage)
      .def_ro("gmacs", &LayerProfile::Row::gmacs)
      .def_ro("gbytes", &LayerProfile::Row::gbytes)
      .def_ro("peak_percent", &LayerProfile::Row::peak_percent);
  nb::class_<Inspector>(module, "Inspector")
      .def(nb::new_(&make_inspector), nb::arg("engine"))
      .def_prop_ro("layers", [](const Inspector& inspector) { return inspector.layers(); })
      .def_prop_ro("regions", [](const Inspector& inspector) { return inspector.regions(); })
      .def_prop_ro("rewrites", [](const Inspector& inspector) { return inspector.rewrites(); })
      .def_prop_ro("layer_counts",
                   [](const Inspector& inspector) { return inspector.layer_counts(); })
      .def_prop_ro("peak_gmacs", &Inspector::peak_gmacs)
      .def("rewrites_of", &Inspector::rewrites_of)
      .def("layer_json", &Inspector::layer_json)
      .def("layer_text", &Inspector::layer_text)
      .def("to_json",
           [](const Inspector& inspector, int verbosity) {
             return inspector.to_json(static_cast<Verbosity>(verbosity));
           })
      .def("to_text", [](const Inspector& inspector, int verbosity) {
        return inspector.to_text(static_cast<Verbosity>(verbosity));
      });
  nb::class_<Profiler>(module, "Profiler")
      .def(nb::init<const Engine&, int>(), nb::arg("engine"), nb::arg("threads") = 0)
      .def("set_input", &Profiler::set_input)
      .def("run", &Profiler::run, nb::arg("warm_up"), nb::arg("runs"));
}

}  // namespace camshaft::python
