// SPDX-License-Identifier: Apache-2.0
// How far one tensor is from another, summed up over samples.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace camshaft::quantize {

class TensorError {
 public:
  static constexpr int kDecades = 7;  // of the histogram

  void add(std::span<const float> actual, std::span<const float> reference);

  int64_t elements() const { return elements_; }
  double signal_to_noise() const;  // dB; infinite without any error
  double cosine() const;           // 1 for two zero tensors
  double max_absolute() const { return max_error_; }
  double mean_squared() const;
  double max_reference() const { return max_reference_; }
  // max_absolute() as a share of the largest reference value.
  double max_relative() const;
  // [0]: exactly equal; [1]: below 1e-6 of the range, … [kDecades]: below 1, [kDecades + 1]: the
  // rest.
  const std::array<int64_t, kDecades + 2>& histogram() const { return histogram_; }

 private:
  int64_t elements_ = 0;
  double squared_error_ = 0, squared_actual_ = 0, squared_reference_ = 0, product_ = 0;
  double max_error_ = 0, max_reference_ = 0;
  std::array<int64_t, kDecades + 2> histogram_{};
};

}  // namespace camshaft::quantize
