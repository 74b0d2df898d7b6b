// SPDX-License-Identifier: Apache-2.0
// Implicit int8: a float network gets Q/DQ before the passes, from a calibration cache or, for
// timing, from made-up scales; and the precisions asked for single layers.
#pragma once

#include <string>
#include <vector>

#include "engine/engine.h"
#include "quantize/calibration_cache.h"
#include "quantize/placement.h"

namespace camshaft::quantize {

enum class Constraints : uint8_t { kNone, kPrefer, kObey };  // none: layer types are not looked at

struct LayerType {
  std::string layer;  // name of a layer or ONNX node, one '*' allowed
  ir::DataType type;  // kFloat, kBFloat16, kHalf or kInt8
};

struct PrecisionOptions {
  bool int8 = false;
  // Null: scales as if every input were in [-2, 2] and every other tensor in [-4, 4], what trtexec
  // does to time a network without calibration.
  const Scales* scales = nullptr;
  std::vector<LayerType> precisions, output_types;
  Constraints constraints = Constraints::kNone;
};

struct PrecisionReport {
  int quantized_layers = 0;
  std::vector<std::string> warnings;
};

// Edits the graph as imported. A network that has Q/DQ keeps it, but for layers that shall compute
// in float. Errors name the layer that cannot get what is asked.
Result<PrecisionReport> apply_precision(ir::Graph& graph, const PrecisionOptions& options);

// What became of it in the engine: under kObey an error names the first layer that computes or
// writes another type than asked, under kPrefer the report gets a warning each.
Status check_precision(const engine::Plan& plan, const PrecisionOptions& options,
                       PrecisionReport& report);

}  // namespace camshaft::quantize
