// SPDX-License-Identifier: Apache-2.0
// Runs a float graph on samples and hands out the values of chosen tensors: an engine, built
// without timing, that has them as outputs.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "kernels/interpreter.h"
#include "runtime/context.h"

namespace camshaft::quantize {

using Sample = std::map<std::string, kernels::Value, std::less<>>;  // network input -> values

struct SamplerOptions {
  int threads = 0;
  std::function<bool(const char* phase, int done, int total)> progress;  // false: cancel
};

class Sampler {
 public:
  // `tensors`: names of float tensors of the graph, made by layers or network inputs. The shapes of
  // dynamic inputs span those of `samples`.
  static Result<std::unique_ptr<Sampler>> create(std::unique_ptr<ir::Graph> graph,
                                                 const std::vector<std::string>& tensors,
                                                 std::span<const Sample> samples,
                                                 const SamplerOptions& options);
  ~Sampler();

  // Calls `visit` with every tensor's index (in `tensors`) and values, in that order.
  using Visit = std::function<Status(size_t tensor, const ir::Extents& extents,
                                     std::span<const float> values)>;
  Status run(const Sample& sample, const Visit& visit);

  struct Source {
    bool is_input = false;
    int output = -1;  // index among the context's outputs
  };

 private:
  Sampler() = default;
  std::vector<std::string> tensors_;
  std::vector<Source> sources_;
  std::unique_ptr<runtime::Context> context_;
};

// The shapes of the dynamic inputs over all samples as one optimization profile, tuned for the
// first; empty if nothing is dynamic.
engine::Profile profile_of(const ir::Graph& graph, std::span<const Sample> samples);

// Every network input is there, with the type and (where they are known) the extents it must have.
Status check_sample(const ir::Graph& graph, const Sample& sample);

}  // namespace camshaft::quantize
