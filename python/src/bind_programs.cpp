// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "base/cpu.h"
#include "bindings.h"
#include "camshaft/log.h"
#include "camshaft/version.h"
#include "cli/camexec.h"
#include "cli/program.h"
#include "cli/serve_program.h"
#include "cli/terminal.h"

namespace nb = nanobind;

namespace camshaft::python {
namespace {

// The package becomes the server's program before it comes here.
int no_server(std::span<char* const>) {
  return cli::fail("camshaft serve is in a wheel of its own: pip install camshaft-server");
}

constexpr cli::Command kMore[] = {cli::serve_row(no_server)};

// Runs `camshaft` or `camexec` inside this process; argv[0] is the program's name.
int run_program(std::vector<std::string> words) {
  std::vector<char*> argv;
  argv.reserve(words.size());
  for (std::string& word : words) argv.push_back(word.data());
  const nb::gil_scoped_release release;
  const bool is_camexec = !words.empty() && words[0] == "camexec";
  const int code = is_camexec ? cli::camexec(argv) : cli::camshaft(argv, kMore);
  std::fflush(nullptr);
  return code;
}

// Hands records to camshaft.log.record. Never destroyed: threads of the library may still log while
// the interpreter ends.
class PythonLogger : public Logger {
 public:
  void log(Severity severity, std::string_view text) override {
    if (!Py_IsInitialized()) return;
    const nb::gil_scoped_acquire gil;
    try {
      nb::module_::import_("camshaft.log").attr("record")(static_cast<int>(severity), text);
    } catch (nb::python_error& error) {
      error.discard_as_unraisable("camshaft's log");
    }
  }
};

void set_log_level(int most_verbose) {
  static auto* logger = new PythonLogger;
  set_logger(logger, static_cast<Severity>(most_verbose));
}

}  // namespace

void bind_programs(nb::module_& module) {
  module.attr("version") = CAMSHAFT_VERSION;
  module.def("run_program", &run_program, nb::arg("argv"));
  module.def("cpu_fingerprint", &cpu_fingerprint);
  module.def("cpu_model", [] { return cpu_info().model; });
  module.def("active_isa", [] { return std::string(isa_name(active_isa())); });
  module.def("default_num_threads", &default_num_threads);
  module.def("set_log_level", &set_log_level, nb::arg("most_verbose"));
}

}  // namespace camshaft::python
