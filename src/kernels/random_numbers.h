// SPDX-License-Identifier: Apache-2.0
// The Mersenne Twister of a seed, two draws per number for 53 bits: how numpy draws, so that seeded
// results can be compared with it.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <random>

namespace camshaft::kernels {

class RandomNumbers {
 public:
  explicit RandomNumbers(uint32_t seed) : engine_(seed) {}
  double uniform() {  // [0, 1) in steps of 2^-53
    const uint32_t high = static_cast<uint32_t>(engine_()) >> 5,
                   low = static_cast<uint32_t>(engine_()) >> 6;
    return (high * 67108864.0 + low) / 9007199254740992.0;
  }
  double normal() {  // Box and Muller
    const double u = 1 - uniform(), v = uniform();
    return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
  }

 private:
  std::mt19937 engine_;
};

}  // namespace camshaft::kernels
