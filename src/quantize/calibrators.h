// SPDX-License-Identifier: Apache-2.0
// From a histogram of magnitudes to the largest one an 8-bit tensor should represent.
#pragma once

#include <optional>
#include <string_view>

#include "quantize/histogram.h"

namespace camshaft::quantize {

enum class Method : uint8_t {
  kMinMax,      // the largest magnitude seen
  kEntropy,     // least relative entropy between the values and their 128 levels, as TensorRT's
  kPercentile,  // the magnitude that a share of the values does not exceed
  kMse,         // least mean squared error
};
std::string_view method_name(Method method);  // "minmax", "entropy" …
std::optional<Method> parse_method(std::string_view name);

struct CalibratorOptions {
  Method method = Method::kMse;
  double percentile = 99.99;  // of kPercentile
};

// The threshold: magnitudes above it saturate, scale = threshold / 127. 0 for a tensor that was
// always zero.
double find_threshold(const Histogram& histogram, const CalibratorOptions& options);

// The parts of it, on plain bins: bin k holds magnitudes [k, k+1) * width.
double percentile_threshold(std::span<const uint64_t> bins, double width, double percentile);
double entropy_threshold(std::span<const uint64_t> bins, double width);
double mse_threshold(std::span<const uint64_t> bins, double width);
// Mean squared error of rounding the bin centres to multiples of threshold / 127, saturating there.
double quantization_error(std::span<const uint64_t> bins, double width, double threshold);

inline constexpr int kLevels = 128;  // magnitudes of a symmetric int8: 0 … 127
inline constexpr double kLargestCode = 127;

}  // namespace camshaft::quantize
