// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

namespace camshaft::kernels {

// cos and sin of 2π k / length, k in [0, length).
struct FourierWaves {
  std::vector<double> cosine, sine;
  explicit FourierWaves(int64_t length) {
    for (int64_t k = 0; k < length; ++k) {
      const double angle =
          2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(length);
      cosine.push_back(std::cos(angle));
      sine.push_back(std::sin(angle));
    }
  }
};

}  // namespace camshaft::kernels
