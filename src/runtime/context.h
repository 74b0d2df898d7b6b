// SPDX-License-Identifier: Apache-2.0
// A context runs an engine: it owns the activation memory and the threads; one engine serves many
// contexts.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "runtime/caches.h"

namespace camshaft::runtime {

struct ContextOptions {
  int threads = 0;   // 0: default_num_threads()
  int profile = 0;   // optimization profile
  int spin_us = 50;  // how long idle workers spin before they sleep (ThreadPool)
  // Batches are cut (image_passes.h) where a step's activations have more bytes; -1: than half of
  // L3.
  int64_t cut_batches_beyond = -1;
  // Input shapes whose plans are kept for when they come back, at least one.
  size_t kept_shapes = 16;
};

// Steps [first, last] of a plan, as often as it takes to get through the `batch`, `images` at a
// time (image_passes.h).
struct ImagePasses {
  int first = 0, last = 0;
  int64_t batch = 0, images = 0;

  int64_t count() const { return batch / images; }
  bool contains(int step) const { return first <= step && step <= last; }
};

// For who reads tensors between steps.
inline constexpr int64_t kWholeBatches = INT64_MAX;

struct LayerTime {
  int step;  // index into Plan::steps
  double microseconds;
  int64_t start_ns;  // steady clock, for traces
  // Of a layer in the step's bodies: which of for_each_inner_step's; else -1.
  int inner = -1;
};

// The steps of a step's bodies and of theirs, in the order LayerTime::inner counts them:
// use(body, step, depth), depth 1 in the step's own bodies.
template <class Use>
void for_each_inner_step(const engine::PlanStep& step, const Use& use, int depth = 1) {
  for (const auto& body : step.bodies)
    for (const engine::PlanStep& inner : body->steps) {
      use(*body, inner, depth);
      for_each_inner_step(inner, use, depth + 1);
    }
}

class Context {
 public:
  static Result<std::unique_ptr<Context>> create(std::shared_ptr<const engine::Engine> engine,
                                                 const ContextOptions& options = {});
  ~Context();

  const engine::Engine& engine() const;
  int threads() const;

  // Bindings by index: the engine's inputs then outputs, in plan order.
  int binding_index(std::string_view name) const;  // -1: none of that name

  // Extents of one input; out of the profile's range or contradicting the model is an error. Static
  // inputs need not be set.
  Status set_input_extents(int input, std::span<const int64_t> extents);
  // Evaluates shapes, plans memory, prepares steps. Called by execute() when needed; a repeated
  // shape is cheap.
  Status prepare();
  // Extents of an output after prepare(); data-dependent ones only after execute() (before:
  // kUnsupported).
  Result<ir::Extents> output_extents(int output) const;

  // The caller's memory, row major; null for an output: the context keeps it, see output_data().
  Status set_input(int input, const void* data, size_t bytes);
  Status set_output(int output, void* data, size_t bytes);
  // Inputs that outputs continue, which may share a buffer with them (caches.h).
  std::span<const CacheFacts> caches() const;
  // One buffer, row major, for a cache's input and output: its rows are those that fit into `bytes`
  // beside the other extents; a run reads those the input's extents name and writes the new ones
  // behind them. It must be aligned to its element. Until set_input() or set_output() says
  // otherwise.
  Status set_cache(int cache, void* data, size_t bytes);
  bool is_in_cache(int output) const;
  const void* output_data(
      int output) const;  // after execute(), row major, valid until the next execute()

  Status execute();

  // While set, execute() calls it after every step that ran with its time: once per part of the
  // batch where the batch is cut. `opens_bodies`: and after every step of an If's, Loop's or Scan's
  // body, before the step that runs it.
  void set_profiler(std::function<void(const LayerTime&)> profiler, bool opens_bodies = false);

  // Extents and formats of any plan tensor after prepare()/execute(), for the inspector. Unless the
  // context keeps whole batches, memory may be that of a part of the extents only.
  Result<kernels::TensorView> tensor_view(int plan_tensor) const;

  // Groups of steps that run on a part of the batch at a time, after prepare().
  std::span<const ImagePasses> image_passes() const;

  size_t arena_bytes() const;  // planned activation memory
  size_t workspace_bytes() const;

 private:
  struct Impl;
  explicit Context(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace camshaft::runtime
