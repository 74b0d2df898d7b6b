// SPDX-License-Identifier: Apache-2.0
#include "cli/statistics.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "cli/options.h"

namespace camshaft::cli {
namespace {

float half_to_float(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1F;
  const uint32_t mantissa = bits & 0x3FF;
  if (exponent == 0) {
    const float value = std::ldexp(static_cast<float>(mantissa), -24);
    return sign != 0 ? -value : value;
  }
  const uint32_t wide = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | mantissa << 13);
}

float bfloat_to_float(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

template <class T>
void append(std::vector<double>& out, const TensorView& view) {
  for (T value : view.as<T>()) out.push_back(static_cast<double>(value));
}

// 4-bit elements, low nibble first.
void append_nibbles(std::vector<double>& out, const TensorView& view, bool is_signed) {
  const auto* bytes = static_cast<const uint8_t*>(view.data);
  for (int64_t k = 0; k < view.elements(); ++k) {
    const int nibble = bytes[k / 2] >> (k % 2 * 4) & 15;
    out.push_back(is_signed && nibble > 7 ? nibble - 16 : nibble);
  }
}

}  // namespace

double percentile(const std::vector<double>& sorted, double p) {
  if (sorted.empty()) return 0;
  const double count = static_cast<double>(sorted.size());
  // Not (1 - p / 100) * n: for p = 90, n = 10 that is a hair below 1.
  const double excluded = std::floor((100 - p) * count / 100 + 1e-9);
  const double at = std::max(count - 1 - excluded, 0.0);
  return sorted[static_cast<size_t>(at)];
}

Summary summarize(std::vector<double> values, const std::vector<double>& percentiles) {
  Summary summary;
  for (double p : percentiles) summary.percentiles.push_back(p * 0);
  if (values.empty()) return summary;
  std::sort(values.begin(), values.end());
  const double count = static_cast<double>(values.size());
  summary.min = values.front();
  summary.max = values.back();
  summary.mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  const size_t middle = values.size() / 2;
  summary.median =
      values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  double squares = 0;
  for (double value : values) squares += (value - summary.mean) * (value - summary.mean);
  summary.variation = summary.mean > 0 ? std::sqrt(squares / count) / summary.mean : 0;
  for (size_t k = 0; k < percentiles.size(); ++k)
    summary.percentiles[k] = percentile(values, percentiles[k]);
  return summary;
}

Result<std::vector<double>> parse_percentiles(const std::string& text, const std::string& option) {
  std::vector<double> result;
  for (const std::string& part : split_outside_quotes(text, ',')) {
    double value = 0;
    const char* end = part.data() + part.size();
    const auto parsed = std::from_chars(part.data(), end, value);
    if (part.empty() || parsed.ec != std::errc() || parsed.ptr != end ||
        !(value >= 0 && value <= 100)) {
      return make_error(ErrorCode::kInvalidArgument, "{}: '{}' is not a number from 0 to 100",
                        option, part);
    }
    result.push_back(value);
  }
  return result;
}

std::string percent_text(double p) {
  return fmt::format("{:g}", p);
}

Difference compare(const std::vector<double>& actual, const std::vector<double>& reference,
                   double atol, double rtol) {
  Difference result;
  result.elements = static_cast<int64_t>(reference.size());
  double dot = 0;
  double actual_norm = 0;
  double reference_norm = 0;
  for (size_t k = 0; k < reference.size(); ++k) {
    const double a = actual[k];
    const double r = reference[k];
    if (a == r || (std::isnan(a) && std::isnan(r))) {
      if (std::isfinite(r)) {
        dot += a * r;
        actual_norm += a * a;
        reference_norm += r * r;
        result.max_reference = std::max(result.max_reference, std::abs(r));
      }
      continue;
    }
    double error = std::abs(a - r);
    if (std::isnan(error)) error = std::numeric_limits<double>::infinity();
    result.max_reference = std::max(result.max_reference, std::isnan(r) ? 0 : std::abs(r));
    result.max_absolute = std::max(result.max_absolute, error);
    if (r != 0) result.max_relative = std::max(result.max_relative, error / std::abs(r));
    result.mean_absolute += error;
    result.mean_squared += error * error;
    if (!(error <= atol + rtol * std::abs(r))) ++result.outside;
    dot += a * r;
    actual_norm += a * a;
    reference_norm += r * r;
  }
  if (result.elements > 0) {
    result.mean_absolute /= static_cast<double>(result.elements);
    result.mean_squared /= static_cast<double>(result.elements);
  }
  if (actual_norm > 0 || reference_norm > 0) {
    const double norms = std::sqrt(actual_norm) * std::sqrt(reference_norm);
    result.cosine = norms > 0 ? dot / norms : 0;
    if (std::isnan(result.cosine)) result.cosine = 0;
  }
  return result;
}

double accuracy_loss(const Difference& difference, const std::string& algorithm) {
  if (algorithm == "l1") return difference.mean_absolute;
  if (algorithm == "l2") return difference.mean_squared;
  if (algorithm == "lInf") return difference.max_absolute;
  if (algorithm == "cos") return 1 - difference.cosine;
  return difference.elements > 0
             ? static_cast<double>(difference.outside) / static_cast<double>(difference.elements)
             : 0;
}

std::vector<double> to_doubles(const TensorView& view) {
  std::vector<double> out;
  out.reserve(static_cast<size_t>(std::max<int64_t>(view.elements(), 0)));
  switch (view.type) {
    case DataType::kUndefined:
      break;
    case DataType::kFloat:
      append<float>(out, view);
      break;
    case DataType::kHalf:
      for (uint16_t bits : view.as<uint16_t>()) out.push_back(half_to_float(bits));
      break;
    case DataType::kBFloat16:
      for (uint16_t bits : view.as<uint16_t>()) out.push_back(bfloat_to_float(bits));
      break;
    case DataType::kDouble:
      append<double>(out, view);
      break;
    case DataType::kInt8:
      append<int8_t>(out, view);
      break;
    case DataType::kUInt8:
    case DataType::kBool:
      append<uint8_t>(out, view);
      break;
    case DataType::kInt16:
      append<int16_t>(out, view);
      break;
    case DataType::kUInt16:
      append<uint16_t>(out, view);
      break;
    case DataType::kInt32:
      append<int32_t>(out, view);
      break;
    case DataType::kUInt32:
      append<uint32_t>(out, view);
      break;
    case DataType::kInt64:
      append<int64_t>(out, view);
      break;
    case DataType::kUInt64:
      append<uint64_t>(out, view);
      break;
    case DataType::kInt4:
      append_nibbles(out, view, true);
      break;
    case DataType::kUInt4:
      append_nibbles(out, view, false);
      break;
  }
  return out;
}

}  // namespace camshaft::cli
