// SPDX-License-Identifier: Apache-2.0
// Layer-by-layer errors: what quantization does to every tensor of a network, what an engine does
// beside the interpreter, and which layers to keep in float for a bound.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "quantize/agreement.h"
#include "quantize/sampler.h"
#include "quantize/tensor_error.h"
#include "tuner/layer_check.h"

namespace camshaft::quantize {

// Gives the same graph anew each time: building consumes one.
using GraphSource = std::function<Result<std::unique_ptr<ir::Graph>>()>;

struct TensorReport {
  std::string tensor;
  std::string layer;  // that makes it
  bool is_output = false;
  TensorError error;
};

// `visit` is called with the outputs of every sample.
// Every float tensor that layers of both graphs make (by name): the quantized network, evaluated as
// its Q/DQ say, against the reference. Null reference: the network without its Q/DQ.
Result<std::vector<TensorReport>> compare_quantized(const GraphSource& network,
                                                    const GraphSource& reference,
                                                    std::span<const Sample> samples,
                                                    const SamplerOptions& options,
                                                    const OutputsVisit& visit = nullptr);

struct EngineOptions : SamplerOptions {
  int optimization_level = 3;
  std::string timing_cache_file;
};

struct EngineReport {
  std::vector<TensorReport> tensors;
  // Every step beside the reference kernels on the operands it found, in the order of steps. A
  // tensor's numbers are summed up over the samples.
  std::vector<tuner::LayerCheck> layers;
};

// The engine as it is built, with all its fusions, against the interpreter on the network as
// imported: every float tensor that an engine step makes under the name it has in the network (with
// Q/DQ not these: the Q/DQ as written in float make others), the outputs, and every layer.
Result<EngineReport> compare_engine(const GraphSource& network, std::span<const Sample> samples,
                                    const EngineOptions& options,
                                    const OutputsVisit& visit = nullptr);

struct Bound {
  double min_cosine = -1;  // of every output; < 0: not asked
  double max_error = -1;   // largest absolute error of every output; < 0: not asked
  bool holds(const std::vector<TensorReport>& outputs) const;
};

struct BisectResult {
  struct Layer {
    std::string name;
    double noise;  // mean squared error of the outputs when this layer alone is quantized, relative
  };
  std::vector<Layer> layers;            // all quantized ones, the worst first; empty if the bound
                                        // holds as it is
  std::vector<std::string> keep_float;  // the smallest set found, in network order
  std::vector<TensorReport> before, after;  // the outputs: all quantized, and with keep_float
  bool holds = false;                       // false: not even the float network keeps the bound
  int evaluations = 0;
};

// Greedy: the layers by their own noise, the shortest prefix that keeps the bound, then every one
// left out again without which it still holds.
Result<BisectResult> bisect_precision(const GraphSource& network, const GraphSource& reference,
                                      std::span<const Sample> samples, const Bound& bound,
                                      const SamplerOptions& options);

}  // namespace camshaft::quantize
