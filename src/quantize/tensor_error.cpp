// SPDX-License-Identifier: Apache-2.0
#include "quantize/tensor_error.h"

#include <algorithm>
#include <cmath>

namespace camshaft::quantize {

void TensorError::add(std::span<const float> actual, std::span<const float> reference) {
  const size_t count = std::min(actual.size(), reference.size());
  double range = 0;
  for (size_t k = 0; k < count; ++k)
    if (std::isfinite(reference[k])) range = std::max(range, std::abs(double{reference[k]}));
  max_reference_ = std::max(max_reference_, range);
  std::array<double, kDecades> edges;
  for (int k = 0; k < kDecades; ++k) edges[k] = range * std::pow(10.0, k + 1 - kDecades);
  for (size_t k = 0; k < count; ++k) {
    const double a = actual[k], r = reference[k];
    const bool same = a == r || (std::isnan(a) && std::isnan(r));
    const double error = same ? 0 : std::isfinite(a - r) ? std::abs(a - r) : INFINITY;
    max_error_ = std::max(max_error_, error);
    squared_error_ += error * error;
    if (std::isfinite(a) && std::isfinite(r)) {
      squared_actual_ += a * a;
      squared_reference_ += r * r;
      product_ += a * r;
    }
    const auto* edge = std::upper_bound(edges.begin(), edges.end(), error);
    ++histogram_[same ? 0 : static_cast<size_t>(edge - edges.begin()) + 1];
  }
  elements_ += static_cast<int64_t>(count);
}

double TensorError::signal_to_noise() const {
  if (squared_error_ == 0) return INFINITY;
  return 10 * std::log10(squared_reference_ / squared_error_);
}

double TensorError::cosine() const {
  if (squared_actual_ == 0 && squared_reference_ == 0) return 1;
  if (squared_actual_ == 0 || squared_reference_ == 0) return 0;
  return std::min(1.0, product_ / std::sqrt(squared_actual_) / std::sqrt(squared_reference_));
}

double TensorError::mean_squared() const {
  return elements_ > 0 ? squared_error_ / static_cast<double>(elements_) : 0;
}

double TensorError::max_relative() const {
  if (max_error_ == 0) return 0;
  return max_reference_ > 0 ? max_error_ / max_reference_ : INFINITY;
}

}  // namespace camshaft::quantize
