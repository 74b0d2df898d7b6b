// SPDX-License-Identifier: Apache-2.0
#include "bindings.h"

NB_MODULE(_core, module) {
  using namespace camshaft::python;
  module.doc() = "The engine of the package camshaft; use the package.";
  // Types that outlive the interpreter's end are not a leak to complain about.
  nanobind::set_leak_warnings(false);
  bind_engine(module);
  bind_builder(module);
  bind_inspector(module);
  bind_runner(module);
  bind_context(module);
  bind_batching(module);
  bind_programs(module);
}
