// SPDX-License-Identifier: Apache-2.0
// Runs one engine on arrays from any thread: a bounded set of contexts, made when they are needed.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "arrays.h"
#include "camshaft/context.h"

namespace camshaft::python {

// Inputs and outputs of one run, by position; outputs without memory are allocated.
struct Call {
  std::vector<Array> inputs;
  std::vector<bool> wanted;
  std::vector<std::optional<Array>> outputs;
  std::vector<Allocation> made;
  std::vector<nb::object> results;  // of the wanted outputs; what was given, or new NumPy arrays
};

class Runner {
 public:
  Runner(Engine engine, const ContextOptions& options, int contexts);

  const Engine& engine() const { return engine_; }
  int threads();
  // The wanted outputs (null: all) for arrays by name. The GIL is released while the engine runs.
  nb::list run(nb::handle names, nb::handle feed);
  void run(Call& call);
  int input_index(const std::string& name) const { return index_of(engine_.inputs(), name); }
  int output_index(const std::string& name) const { return index_of(engine_.outputs(), name); }

 private:
  // A context with what it was last set to, so that equal shapes cost nothing.
  struct Slot {
    explicit Slot(Context made) : context(std::move(made)) {}
    Context context;
    std::vector<Dims> input_dims;
    std::vector<std::optional<Dims>> output_dims;  // nullopt: only running tells
    bool shapes_known = false;
  };
  class Lease;

  static int index_of(const std::vector<TensorInfo>& infos, const std::string& name);
  bool is_available() const { return !free_.empty() || made_ < limit_; }
  std::unique_ptr<Slot> take_free();
  std::unique_ptr<Slot> acquire();
  std::unique_ptr<Slot> make_slot();
  void release(std::unique_ptr<Slot> slot);
  int output_of(nb::handle name) const;
  std::vector<bool> wanted_outputs(nb::handle names) const;
  std::vector<Array> read_feed(nb::handle feed) const;
  void set_inputs(Slot& slot, const std::vector<Array>& inputs) const;
  void learn_output_shapes(Slot& slot) const;
  void set_outputs(Slot& slot, Call& call) const;
  void collect_outputs(Slot& slot, Call& call) const;

  Engine engine_;
  ContextOptions options_;
  size_t limit_;
  std::vector<nb::object> input_keys_;
  std::mutex mutex_;
  std::condition_variable freed_;
  std::vector<std::unique_ptr<Slot>> free_;
  size_t made_ = 0;
};

}  // namespace camshaft::python
