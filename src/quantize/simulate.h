// SPDX-License-Identifier: Apache-2.0
// Quantization in float arithmetic: what rounding to 8 bits does to the numbers, without 8-bit
// kernels. One PointWise layer stands for a Q/DQ pair: (clip(round(x / s) + z) - z) * s.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "quantize/sampler.h"
#include "quantize/scales.h"

namespace camshaft::quantize {

// x rounded to the steps of an 8-bit tensor, made before layer `before`.
Result<ir::Tensor*> add_rounding(ir::Graph& graph, ir::Tensor* x, const ActivationGrid& grid,
                                 const ir::Layer* before);

// A graph with Q/DQ becomes one in float. Layers named in `keep_float` (whole names) get their
// inputs as if there were no Q/DQ; "*" as the only name: all of them. Dequantized constants become
// float constants. kUnsupported where quantized values go elsewhere than into a Dequantize.
struct Simulation {
  std::vector<std::string> quantized_layers;  // that read a dequantized tensor, in order
};
Result<Simulation> simulate_quantization(ir::Graph& graph, const std::set<std::string>& keep_float);

// Takes the Q/DQ pairs before the inputs of these layers away (patterns as in PlacementOptions),
// and only those.
Status keep_in_float(ir::Graph& graph, const std::vector<std::string>& patterns);

// What a weighted layer of the placement loses by its own quantization, everything before it in
// float.
struct LayerLoss {
  double signal_to_noise = 0;  // of its output, in dB
  // Of convolutions: what rounding takes from the mean of each output channel. Means that may be
  // chance are cut by as much as they are uncertain.
  std::vector<float> shift;
};
// In the order of placement.weights. Consumes the graph, which the placement refers to.
Result<std::vector<LayerLoss>> measure_layers(std::unique_ptr<ir::Graph> graph,
                                              const Placement& placement,
                                              const std::vector<ActivationGrid>& grids,
                                              std::span<const Sample> samples,
                                              const SamplerOptions& options);

}  // namespace camshaft::quantize
