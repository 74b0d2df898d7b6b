// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

namespace camshaft::kernels::reference {

// The uint8 grid that DynamicQuantizeLinear (ONNX) gives floats: from the least to the largest of
// them and 0.
struct DynamicGrid {
  float scale, zero_point;

  explicit DynamicGrid(std::span<const float> values) {
    float low = 0, high = 0;
    for (const float value : values) {
      low = std::min(low, value);
      high = std::max(high, value);
    }
    scale = high == low ? 1.0f : (high - low) / 255.0f;
    zero_point = std::clamp(std::nearbyint(-low / scale), 0.0f, 255.0f);
  }
  float code(float value) const {
    return std::clamp(std::nearbyint(value / scale) + zero_point, 0.0f, 255.0f);
  }
};

}  // namespace camshaft::kernels::reference
