// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "errors.h"
#include "runner.h"

namespace camshaft::python {
namespace {

// Arrays bound to inputs and outputs once and run many times.
class Binding {
 public:
  explicit Binding(const Engine& engine)
      : inputs_(engine.inputs().size()),
        outputs_(engine.outputs().size()),
        given_(engine.outputs().size()),
        wanted_(engine.outputs().size(), false) {}

  void bind_input(Runner& runner, const std::string& name, nb::handle array) {
    const int index = runner.input_index(name);
    const DataType type = runner.engine().inputs()[static_cast<size_t>(index)].type;
    inputs_[static_cast<size_t>(index)] = input_array(array, type, name);
  }

  void bind_output(Runner& runner, const std::string& name, nb::object array) {
    const auto index = static_cast<size_t>(runner.output_index(name));
    wanted_[index] = true;
    outputs_[index].reset();
    if (!array.is_none())
      outputs_[index] = output_array(array, runner.engine().outputs()[index].type, name);
    given_[index] = std::move(array);
  }

  void clear_inputs() { inputs_.assign(inputs_.size(), std::nullopt); }
  void clear_outputs() {
    outputs_.assign(outputs_.size(), std::nullopt);
    wanted_.assign(wanted_.size(), false);
    results_.clear();
  }

  void run(Runner& runner) {
    Call call;
    call.wanted = wanted_;
    call.outputs = outputs_;
    for (size_t k = 0; k < inputs_.size(); ++k) {
      if (!inputs_[k])
        raise(Status(ErrorCode::kInvalidArgument,
                     "input '" + runner.engine().inputs()[k].name + "' is not bound"));
      call.inputs.push_back(*inputs_[k]);
    }
    runner.run(call);
    results_.assign(call.results.begin(), call.results.end());
  }

  nb::list outputs() const {
    nb::list results;
    for (size_t k = 0; k < results_.size(); ++k)
      if (wanted_[k]) results.append(outputs_[k] ? given_[k] : results_[k]);
    return results;
  }

 private:
  std::vector<std::optional<Array>> inputs_, outputs_;
  std::vector<nb::object> given_, results_;
  std::vector<bool> wanted_;
};

std::unique_ptr<Runner> make_runner(const Engine& engine, int threads, int profile, int spin_us,
                                    int contexts) {
  ContextOptions options;
  options.threads = threads;
  options.profile = profile;
  options.spin_us = spin_us;
  return std::make_unique<Runner>(engine, options, contexts);
}

}  // namespace

void bind_runner(nb::module_& module) {
  nb::class_<Runner>(module, "Runner")
      .def(nb::new_(&make_runner), nb::arg("engine"), nb::arg("threads") = 0,
           nb::arg("profile") = 0, nb::arg("spin_us") = 50, nb::arg("contexts") = 1)
      .def_prop_ro("engine", [](const Runner& runner) { return runner.engine(); })
      .def_prop_ro("threads", &Runner::threads)
      .def("run", nb::overload_cast<nb::handle, nb::handle>(&Runner::run),
           nb::arg("output_names").none(), nb::arg("feed"));
  nb::class_<Binding>(module, "Binding")
      .def("__init__",
           [](Binding* self, const Runner& runner) { new (self) Binding(runner.engine()); })
      .def("bind_input", &Binding::bind_input)
      .def("bind_output", &Binding::bind_output, nb::arg("runner"), nb::arg("name"),
           nb::arg("array").none())
      .def("clear_inputs", &Binding::clear_inputs)
      .def("clear_outputs", &Binding::clear_outputs)
      .def("run", &Binding::run)
      .def("outputs", &Binding::outputs);
}

}  // namespace camshaft::python
