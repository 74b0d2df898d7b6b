// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <span>

#include <nanobind/ndarray.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "arrays.h"
#include "bindings.h"
#include "camshaft/engine.h"
#include "errors.h"

namespace camshaft::python {
namespace {

// Extents as numbers, symbols as text, None where neither is known; None for an unknown rank.
nb::object shape_of(const TensorInfo& info) {
  if (!info.has_rank) return nb::none();
  nb::list shape;
  for (size_t k = 0; k < info.dims.size(); ++k) {
    if (info.dims[k] >= 0) {
      shape.append(info.dims[k]);
    } else if (info.symbols[k].empty()) {
      shape.append(nb::none());
    } else {
      shape.append(info.symbols[k]);
    }
  }
  return shape;
}

nb::list profiles_of(const Engine& engine) {
  nb::list profiles;
  for (const OptimizationProfile& profile : engine.profiles()) {
    nb::dict ranges;
    for (const ShapeRange& range : profile)
      ranges[range.input.c_str()] = nb::make_tuple(range.min, range.opt, range.max);
    profiles.append(ranges);
  }
  return profiles;
}

nb::dict info_of(const Engine& engine) {
  const EngineInfo& info = engine.info();
  nb::dict facts;
  facts["model_name"] = info.model_name;
  facts["builder_version"] = info.builder_version;
  facts["cpu_model"] = info.cpu_model;
  facts["same_cpu"] = info.same_cpu;
  facts["build_threads"] = info.build_threads;
  facts["layer_count"] = info.layer_count;
  facts["file_bytes"] = info.file_bytes;
  facts["weight_bytes"] = info.weight_bytes;
  facts["peak_gmacs"] = info.peak_gmacs;
  facts["read_gbytes"] = info.read_gbytes;
  return facts;
}

nb::bytes bytes_of(const Engine& engine) {
  const auto bytes = engine.serialize();
  return nb::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

// Over memory that is not copied: a NumPy array, read-only ones too, kept as long as the engine.
Engine engine_over(nb::ndarray<nb::ro, nb::device::cpu, nb::c_contig> array) {
  const std::span bytes(static_cast<const std::byte*>(array.data()), array.nbytes());
  using Array = decltype(array);
  // The last handle may go away in any thread.
  std::shared_ptr<const void> owner(new Array(std::move(array)), [](const void* kept) {
    if (!Py_IsInitialized()) return;
    const nb::gil_scoped_acquire gil;
    delete static_cast<const Array*>(kept);
  });
  return take(Engine::from_shared_memory(bytes, std::move(owner)));
}

}  // namespace

void bind_engine(nb::module_& module) {
  nb::class_<TensorInfo>(module, "TensorInfo")
      .def_ro("name", &TensorInfo::name)
      .def_prop_ro("dtype", [](const TensorInfo& info) { return numpy_name(info.type); })
      .def_prop_ro("shape", &shape_of);
  nb::class_<Engine>(module, "Engine")
      .def_static("load",
                  [](const std::filesystem::path& file) { return take(Engine::load(file)); })
      .def_static("from_bytes",
                  [](const nb::bytes& bytes) {
                    const auto* data = static_cast<const std::byte*>(bytes.data());
                    return take(Engine::from_memory({data, bytes.size()}));
                  })
      .def_static("from_buffer", &engine_over, nb::arg("array"))
      .def_prop_ro("address",
                   [](const Engine& engine) {
                     return reinterpret_cast<uintptr_t>(engine.serialize().data());
                   })
      .def("to_bytes", &bytes_of)
      .def("save", [](const Engine& engine,
                      const std::filesystem::path& file) { check(engine.save(file)); })
      .def_prop_ro("inputs", [](const Engine& engine) { return engine.inputs(); })
      .def_prop_ro("outputs", [](const Engine& engine) { return engine.outputs(); })
      .def_prop_ro("profiles", &profiles_of)
      .def_prop_ro("info", &info_of);
}

}  // namespace camshaft::python
