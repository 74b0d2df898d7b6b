// SPDX-License-Identifier: Apache-2.0
// Scales for a placement: calibrated ones, made equal where that lets a Q move; weights rounded to
// int8.
#pragma once

#include <vector>

#include "kernels/interpreter.h"
#include "quantize/calibration_cache.h"
#include "quantize/placement.h"

namespace camshaft::quantize {

// The tensors whose range must be known, each once.
std::vector<const ir::Tensor*> tensors_to_calibrate(const Placement& placement);

// One scale per use of placement.activations. A tensor without a scale is not quantized: 0 (and its
// name in `missing`). Linked tensors get the largest scale of their group, unless that would cost
// one of them more than two bits.
std::vector<float> assign_scales(const Placement& placement, const Scales& calibrated,
                                 std::vector<std::string>* missing = nullptr);

inline constexpr float kLargestScaleRatio = 4;

struct QuantizedWeights {
  ir::Extents extents;
  int64_t axis = -1;          // -1: one scale
  std::vector<float> scales;  // one, or one per extent of the axis
  std::vector<int8_t> codes;  // row major

  std::vector<float> dequantized() const;
};
// Symmetric: scale = largest magnitude / 127 per channel, codes rounded half to even in [-127,
// 127].
Result<QuantizedWeights> quantize_weights(const WeightUse& use);

// The values of a constant expression.
Result<kernels::Value> evaluate_constant(const ir::Tensor* tensor);

}  // namespace camshaft::quantize
