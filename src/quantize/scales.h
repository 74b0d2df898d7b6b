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

// real value = scale * (code - zero_point); codes are int8 and the zero point 0 unless is_unsigned.
struct ActivationGrid {
  float scale = 0;  // 0: the use is not quantized
  int32_t zero_point = 0;
  bool is_unsigned = false;
};
// The same with `lows`, the smallest value that each tensor's uint8 codes shall represent (scale is
// then the range / 255). Linked tensors get the range that holds all of theirs. Empty: symmetric.
std::vector<ActivationGrid> assign_grids(const Placement& placement, const Scales& calibrated,
                                         const Scales& lows);
// The uint8 codes of [low, low + 255 scale], zero among them exactly.
ActivationGrid unsigned_grid(float low, float scale);

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
