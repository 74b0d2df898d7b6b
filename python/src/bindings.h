// SPDX-License-Identifier: Apache-2.0
// The parts of the module, one function per source file.
#pragma once

#include <nanobind/nanobind.h>

namespace camshaft::python {

void bind_builder(nanobind::module_& module);    // Model, BuildOptions, build
void bind_engine(nanobind::module_& module);     // Engine, TensorInfo
void bind_inspector(nanobind::module_& module);  // layers, rewrites, profiles
void bind_runner(nanobind::module_& module);     // Runner, Binding
void bind_context(nanobind::module_& module);    // AddressContext
void bind_batching(nanobind::module_& module);   // BatchPlanner
void bind_programs(nanobind::module_& module);   // run_program, machine facts, the log

}  // namespace camshaft::python
