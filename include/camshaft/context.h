// SPDX-License-Identifier: Apache-2.0
// A context runs an engine: it owns activation memory and threads. Use one per thread that runs
// inferences at the same time.
#pragma once

#include <functional>
#include <memory>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "camshaft/engine.h"
#include "camshaft/types.h"

namespace camshaft {

struct ContextOptions {
  int threads = 0;  // 0: CAMSHAFT_NUM_THREADS, else all this process may use
  int profile = 0;  // optimization profile
  // How long idle worker threads spin before they sleep; while a run is in progress a millisecond
  // more, unless this is 0.
  int spin_us = 50;
};

struct LayerTime {
  int layer;            // index into Inspector::layers()
  double microseconds;  // of this one execution
  int64_t start_ns;     // on the steady clock
  int inner = -1;       // index into its LayerInfo::inner: of a layer inside it; else -1
};

struct CacheInfo {
  std::string past, present;  // an input, an output
  int axis;                   // the one that grows
};

// Not thread safe: one thread at a time per context.
class CAMSHAFT_API Context {
 public:
  static Result<Context> create(const Engine& engine, const ContextOptions& options = {});
  Context(Context&&) noexcept;
  Context& operator=(Context&&) noexcept;
  ~Context();

  const Engine& engine() const;
  int threads() const;

  // The extents of an input for the next run(). Needed for dynamic inputs only; until set they are
  // the profile's opt shape. kInvalidArgument: no such input, outside the profile's range, or
  // against the model.
  Status set_shape(std::string_view input, std::span<const int64_t> dims);

  // The caller's memory, row major, `bytes` long; it is read by run() and must stay alive.
  // kInvalidArgument: no such input.
  Status set_input(std::string_view input, const void* data, size_t bytes);
  // A std::vector, std::array or std::span of the input's element type (holds<T>()); others are
  // kInvalidArgument. Like the pointer, it must stay alive: a temporary vector does not compile.
  template <std::ranges::contiguous_range Values>
  requires std::ranges::sized_range<Values> && std::ranges::borrowed_range<Values> Status
  set_input(std::string_view input, Values&& values) {
    using T = std::ranges::range_value_t<Values>;
    return set_elements(input, std::ranges::data(values), std::ranges::size(values) * sizeof(T),
                        &holds<T>);
  }
  // Optional: where run() writes an output, row major. Null: the context keeps it, see output().
  Status set_output(std::string_view output, void* data, size_t bytes);

  // Keys and values of a decoder: one buffer, row major, for input `past` and for the output
  // `present` that continues it by new rows (caches()). It has room for as many rows as fit into
  // `bytes` beside the other extents: heads lie that far apart. run() reads the rows set_shape()
  // gives `past` and writes the new ones behind them: nothing is copied, and the next run's `past`
  // is one set_shape() longer. set_input() or set_output() of either undoes it. kInvalidArgument:
  // no such pair.
  Status set_cache(std::string_view past, std::string_view present, void* data, size_t bytes);
  // Pairs that can share a buffer: `present` is `past` and new rows along `axis`, and nothing but
  // attention reads it.
  std::vector<CacheInfo> caches() const;

  // Shapes, types and memory of an output. Before run(): what the set shapes lead to (kUnsupported
  // when only running can tell).
  Result<Dims> output_shape(std::string_view output);
  Result<Dims> input_shape(std::string_view input) const;
  // The values, after a run() that succeeded; valid until the next run(), set_shape() or the
  // context's end. kInvalidArgument for what set_cache() placed: there are gaps in it.
  Result<TensorView> output(std::string_view output) const;

  // One inference. All inputs must have been set; input sizes must fit the shapes.
  Status run();

  // Called after every layer of every run() with its time, while set; null: off. Costs a clock read
  // per layer. A layer that runs on a part of a large batch at a time is called for several times.
  // `opens_bodies`: and after every layer inside an If, Loop or Scan, as often as it runs, before
  // the layer around it.
  void set_profiler(std::function<void(const LayerTime&)> profiler, bool opens_bodies = false);

  size_t activation_bytes() const;  // planned, for the present shapes
  size_t workspace_bytes() const;

  // For the library itself.
  struct Impl;
  explicit Context(std::unique_ptr<Impl> impl);
  Impl& impl() { return *impl_; }

 private:
  Status set_elements(std::string_view input, const void* data, size_t bytes,
                      bool (*is_held)(DataType));
  std::unique_ptr<Impl> impl_;
};

}  // namespace camshaft
