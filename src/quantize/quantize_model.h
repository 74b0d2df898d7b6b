// SPDX-License-Identifier: Apache-2.0
// `camshaft quantize` without the command line: an ONNX file, samples, and what comes of them.
#pragma once

#include <filesystem>

#include "quantize/calibrate.h"
#include "quantize/onnx_file.h"
#include "quantize/placement.h"
#include "quantize/simulate.h"

namespace camshaft::quantize {

struct QuantizeReport {
  int activations = 0;      // Q/DQ pairs
  int weights = 0;          // constant weights now int8
  int layers = 0;           // weighted layers that now compute in int8
  int weighted_layers = 0;  // of so many
  int biases = 0;           // that got a shift
  std::vector<std::pair<std::string, std::string>> in_float;  // weighted layer, why
  size_t float_bytes = 0, int8_bytes = 0;                     // of those weights
};

struct QuantizeResult {
  std::string onnx;
  QuantizeReport report;
};

// Places Q/DQ in the file with the given scales, uint8 where `lows` is not empty (see
// assign_grids()). `shifts`, by layer: added to the biases of those that are quantized.
// kInvalidArgument if it has Q/DQ already.
using Shifts = std::map<std::string, std::vector<float>, std::less<>>;
Result<QuantizeResult> quantize_file(const std::filesystem::path& file, const Scales& scales,
                                     const Scales& lows, const Shifts& shifts,
                                     const PlacementOptions& options);

// What each weighted layer loses when it alone is quantized, in the order of the network: see
// measure_layers().
struct NamedLoss : LayerLoss {
  std::string layer;
};
Result<std::vector<NamedLoss>> measure_file(const std::filesystem::path& file, const Scales& scales,
                                            const Scales& lows, const PlacementOptions& options,
                                            std::span<const Sample> samples,
                                            const SamplerOptions& sampler);

// The tensors quantize_file() wants scales for.
Result<std::vector<std::string>> tensors_to_calibrate(const ir::Graph& graph,
                                                      const PlacementOptions& options);

// The quantized file with the Q/DQ before the inputs of these layers (whole names) taken out.
Result<std::string> keep_layers_float(const std::filesystem::path& file,
                                      const std::vector<std::string>& layers);

}  // namespace camshaft::quantize
