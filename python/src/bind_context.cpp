// SPDX-License-Identifier: Apache-2.0
// A context over addresses instead of arrays, for interfaces that hand out pointers.
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "camshaft/context.h"
#include "errors.h"

namespace nb = nanobind;

namespace camshaft::python {
namespace {

class AddressContext {
 public:
  explicit AddressContext(Context context) : context_(std::move(context)) {}

  void set_shape(const std::string& input, const Dims& dims) {
    check(context_.set_shape(input, dims));
  }
  Dims input_shape(const std::string& input) const { return take(context_.input_shape(input)); }
  // None: only running tells.
  std::optional<Dims> output_shape(const std::string& output) {
    Result<Dims> dims = context_.output_shape(output);
    if (dims.ok()) return dims.value();
    if (dims.status().code() != ErrorCode::kUnsupported) raise(dims.status());
    return std::nullopt;
  }
  void set_input(const std::string& name, uintptr_t address, size_t bytes) {
    check(context_.set_input(name, reinterpret_cast<const void*>(address), bytes));
  }
  void set_output(const std::string& name, uintptr_t address, size_t bytes) {
    check(context_.set_output(name, reinterpret_cast<void*>(address), bytes));
  }
  void set_cache(const std::string& past, const std::string& present, uintptr_t address,
                 size_t bytes) {
    check(context_.set_cache(past, present, reinterpret_cast<void*>(address), bytes));
  }
  // (past, present, axis) of what can share a buffer.
  std::vector<std::tuple<std::string, std::string, int>> caches() const {
    std::vector<std::tuple<std::string, std::string, int>> result;
    for (const CacheInfo& cache : context_.caches())
      result.emplace_back(cache.past, cache.present, cache.axis);
    return result;
  }
  void run() {
    Status status;
    {
      const nb::gil_scoped_release release;
      status = context_.run();
    }
    check(status);
  }
  // The same with the milliseconds of every layer that ran.
  std::vector<std::pair<int, double>> run_timed() {
    std::vector<std::pair<int, double>> times;
    context_.set_profiler([&times](const LayerTime& time) {
      if (!times.empty() && times.back().first == time.layer)
        times.back().second += time.microseconds / 1e3;
      else
        times.emplace_back(time.layer, time.microseconds / 1e3);
    });
    Status status;
    {
      const nb::gil_scoped_release release;
      status = context_.run();
    }
    context_.set_profiler(nullptr);
    check(status);
    return times;
  }
  size_t memory_bytes() const { return context_.activation_bytes() + context_.workspace_bytes(); }

 private:
  Context context_;
};

std::unique_ptr<AddressContext> make_context(const Engine& engine, int threads, int profile) {
  ContextOptions options;
  options.threads = threads;
  options.profile = profile;
  return std::make_unique<AddressContext>(take(Context::create(engine, options)));
}

}  // namespace

void bind_context(nb::module_& module) {
  nb::class_<AddressContext>(module, "AddressContext")
      .def(nb::new_(&make_context), nb::arg("engine"), nb::arg("threads") = 0,
           nb::arg("profile") = 0)
      .def("set_shape", &AddressContext::set_shape)
      .def("input_shape", &AddressContext::input_shape)
      .def("output_shape", &AddressContext::output_shape)
      .def("set_input", &AddressContext::set_input)
      .def("set_output", &AddressContext::set_output)
      .def("set_cache", &AddressContext::set_cache)
      .def("caches", &AddressContext::caches)
      .def("run", &AddressContext::run)
      .def("run_timed", &AddressContext::run_timed)
      .def_prop_ro("memory_bytes", &AddressContext::memory_bytes);
}

}  // namespace camshaft::python
