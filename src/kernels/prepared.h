// SPDX-License-Identifier: Apache-2.0
// A kernel made ready for tensors of known extents and strides: plans, tables and compiled programs
// are there, what is left to a run is addresses.
#pragma once

#include <memory>
#include <vector>

#include "kernels/kernel.h"

namespace camshaft::kernels {

// All that may change from run to run. Addresses are those of the views the kernel was prepared
// for, in their order; null: absent, or in the packed weights.
struct KernelCall {
  void* const* inputs = nullptr;
  void* const* outputs = nullptr;
  const std::byte* packed = nullptr;  // the bytes seen while preparing, perhaps at another address
  std::byte* workspace = nullptr;     // workspace_bytes of it, 64-byte aligned
  ThreadPool* pool = nullptr;         // of as many threads as while preparing

  template <class T>
  T* input(size_t k) const {
    return static_cast<T*>(inputs[k]);
  }
  template <class T>
  T* output(size_t k) const {
    return static_cast<T*>(outputs[k]);
  }
};

// Runs one call at a time: the state may keep the addresses of the call it runs.
struct PreparedKernel {
  void (*run)(void* state, const KernelCall& call) = nullptr;
  // Instead of `run`, where data may be wrong (an index out of range).
  Status (*run_checked)(void* state, const KernelCall& call) = nullptr;
  void* state = nullptr;
  size_t workspace_bytes = 0;

  // 64-byte aligned memory that lives as long as the kernel. Defined out of line, as all that may
  // be called from code of an instruction set.
  std::byte* allocate(size_t bytes);
  // What else lives as long.
  void hold(std::shared_ptr<void> state);

  Status operator()(const KernelCall& call) const {
    if (run_checked) return run_checked(state, call);
    run(state, call);
    return Status();
  }

 private:
  std::vector<std::shared_ptr<void>> memory_;
};

// The views of `args`, with the addresses of a call: for what derives something from them in every
// run.
struct KeptViews {
  KernelArgs args;
  TensorView* inputs;
  TensorView* outputs;
  const KernelArgs& at(const KernelCall& call);
};
KeptViews keep_views(const KernelArgs& args, PreparedKernel& kernel);

// `args`: the views, whose data is null where they are absent or packed, else any address, for it
// is not looked at; `packed` and `pool` are set. The layer must outlive the kernel.
PreparedKernel prepare_kernel(const Tactic& tactic, const KernelArgs& args);
PreparedKernel prepare_kernel(const ReferenceKernel& reference, const KernelArgs& args);

// A kernel with addresses of its own: for what runs in one place, as tests, timings and late steps.
class BoundKernel {
 public:
  BoundKernel() = default;
  // Addresses are those of the views.
  BoundKernel(PreparedKernel kernel, const KernelArgs& args);
  BoundKernel(const Tactic& tactic, const KernelArgs& args)
      : BoundKernel(prepare_kernel(tactic, args), args) {}
  BoundKernel(BoundKernel&&) = default;
  BoundKernel& operator=(BoundKernel&&) = default;

  size_t workspace_bytes() const { return kernel_.workspace_bytes; }
  void set_workspace(std::byte* workspace) { call_.workspace = workspace; }
  void set_packed(const std::byte* packed) { call_.packed = packed; }
  void set_input(size_t k, void* data) { pointers_[k] = data; }
  void set_output(size_t k, void* data) { pointers_[inputs_ + k] = data; }
  Status run() const { return kernel_(call_); }

 private:
  PreparedKernel kernel_;
  std::vector<void*> pointers_;  // inputs, then outputs
  size_t inputs_ = 0;
  KernelCall call_;
};

// Prepares and runs once, with a workspace of its own.
Status run_once(const Tactic& tactic, const KernelArgs& args);

}  // namespace camshaft::kernels
