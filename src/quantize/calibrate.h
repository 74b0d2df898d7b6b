// SPDX-License-Identifier: Apache-2.0
// Calibration: the float network on real data, one histogram per tensor, one scale from each.
#pragma once

#include "quantize/calibration_cache.h"
#include "quantize/calibrators.h"
#include "quantize/sampler.h"

namespace camshaft::quantize {

struct CalibrationOptions : SamplerOptions {
  CalibratorOptions calibrator;
  bool is_asymmetric = false;  // uint8: the range from the smallest value to the largest, with 0
};

struct Calibration {
  Scales scales;  // a tensor that was always zero gets none
  Scales lows;    // of asymmetric ones: the smallest value represented
  std::vector<std::string> warnings;
  std::vector<std::string> not_finite;  // tensors with NaN or infinite values in a sample
};

// Consumes the graph. Phases of the progress: the engine's, then "Calibrating" by sample and
// "Choosing scales" by tensor.
Result<Calibration> calibrate(std::unique_ptr<ir::Graph> graph,
                              const std::vector<std::string>& tensors,
                              std::span<const Sample> samples, const CalibrationOptions& options);

// Float tensors that layers make or the network gets: what a calibration cache lists.
std::vector<std::string> float_activations(const ir::Graph& graph);

}  // namespace camshaft::quantize
