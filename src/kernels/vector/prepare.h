// SPDX-License-Identifier: Apache-2.0
// Kernels in their prepared form (kernels/prepared.h): a state that is filled once for the shapes,
// and a function that runs it.
#pragma once

#include <new>
#include <type_traits>

#include "kernels/prepared.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

// A copy that lives as long as the kernel.
template <class T>
T& keep(PreparedKernel& kernel, const T& value) {
  static_assert(std::is_trivially_destructible_v<T> && alignof(T) <= 64);
  return *new (kernel.allocate(sizeof(T))) T(value);
}

static inline int threads_of(const KernelCall& call) {
  return call.pool ? call.pool->threads() : 1;
}

static inline void run_nothing(void*, const KernelCall&) {}

// The state of a kernel that runs as kRun(state, call).
template <auto kRun, class State>
State& keep_state(PreparedKernel& kernel, const State& value) {
  State& state = keep(kernel, value);
  kernel.state = &state;
  kernel.run = [](void* s, const KernelCall& call) { kRun(*static_cast<State*>(s), call); };
  return state;
}

// The same for a kernel that returns a Status: its data may be wrong (an index out of range).
template <auto kRun, class State>
State& keep_checked_state(PreparedKernel& kernel, const State& value) {
  State& state = keep(kernel, value);
  kernel.state = &state;
  kernel.run_checked = [](void* s, const KernelCall& call) {
    return kRun(*static_cast<State*>(s), call);
  };
  return state;
}

// Memory for `count` of T, zeros at first.
template <class T>
T* keep_array(PreparedKernel& kernel, int64_t count) {
  static_assert(std::is_trivially_destructible_v<T> && alignof(T) <= 64);
  return reinterpret_cast<T*>(kernel.allocate(static_cast<size_t>(count) * sizeof(T)));
}

// Whether there are elements to compute; until it gets a state, the kernel does nothing.
static inline bool has_output(const KernelArgs& args, PreparedKernel& kernel) {
  kernel.run = run_nothing;
  return args.outputs[0].elements() != 0;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
