// SPDX-License-Identifier: Apache-2.0
// Runs one engine in a kernel call of ONNX Runtime: inputs and outputs are used where they are. Any
// thread; a bounded set of contexts.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "camshaft/context.h"
#include "ep/profiler.h"

namespace camshaft::ep {

// A fused node's values by position, as ONNX Runtime passes them.
struct NodeNames {
  std::string node;
  std::vector<std::string> inputs, outputs;
};

struct InputView {
  const int64_t* extents = nullptr;
  size_t rank = 0;
  const void* data = nullptr;
  std::vector<int64_t> storage;  // of the extents, where the host has no place of its own
};
Result<InputView> read_input(const Host& host, const abi::KernelContext* context, size_t index);

class Runner {
 public:
  // kInvalidArgument: the engine's inputs and outputs are not the node's.
  static Result<std::unique_ptr<Runner>> create(const Host& host, Engine engine,
                                                const NodeNames& names,
                                                const ContextOptions& options, int contexts,
                                                ProfileBoard& board);

  const Engine& engine() const { return engine_; }
  Status run(abi::KernelContext* context);

 private:
  struct Port {
    size_t position;  // among the node's inputs or outputs
    std::string name;
    DataType type;
  };
  // A context with what it was last set to, so that equal shapes cost nothing.
  struct Slot {
    explicit Slot(Context made) : context(std::move(made)) {}
    Context context;
    std::vector<Dims> input_dims;
    std::vector<std::optional<Dims>> output_dims;  // nullopt: only running tells
    bool shapes_known = false;
    bool is_profiled = false;
  };
  class Lease;

  Runner(const Host& host, Engine engine, const NodeNames& names, const ContextOptions& options,
         int contexts, ProfileBoard& board);
  Result<std::unique_ptr<Slot>> acquire();
  void release(std::unique_ptr<Slot> slot);
  Status set_inputs(Slot& slot, const abi::KernelContext* context) const;
  Status learn_output_shapes(Slot& slot) const;
  Result<void*> output_memory(abi::KernelContext* context, const Port& port,
                              const Dims& dims) const;
  Status set_outputs(Slot& slot, abi::KernelContext* context) const;
  Status copy_late_outputs(Slot& slot, abi::KernelContext* context) const;
  void watch(Slot& slot);

  const Host& host_;
  Engine engine_;
  std::string node_;
  ContextOptions options_;
  size_t limit_;
  ProfileBoard& board_;
  std::vector<Port> inputs_, outputs_;
  std::once_flag names_read_;
  std::shared_ptr<const EventNames> names_;
  std::mutex mutex_;
  std::condition_variable freed_;
  std::vector<std::unique_ptr<Slot>> free_;
  size_t made_ = 0;
};

}  // namespace camshaft::ep
