// SPDX-License-Identifier: Apache-2.0
#include "quantize/calibrators.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace camshaft::quantize {
namespace {

constexpr size_t kSearchBins =
    2048;  // resolution of the searching calibrators: 0.05 % of the range
// Counting noise alone adds about bins / (2 values) to every relative entropy, more the wider the
// range: with fewer values per bin the search would clip because it has seen too little.
constexpr uint64_t kValuesPerBin = 128;
constexpr std::string_view kNames[] = {"minmax", "entropy", "percentile", "mse"};

double x_log_x(double x) {
  return x > 0 ? x * std::log(x) : 0;
}

// Prefix sums over the bins: what makes every candidate of the entropy search cost 128 logarithms
// instead of one per bin.
struct EntropySums {
  explicit EntropySums(std::span<const uint64_t> bins)
      : count(bins.size() + 1), used(bins.size() + 1), x_log_x_sum(bins.size() + 1) {
    for (size_t k = 0; k < bins.size(); ++k) {
      const auto value = static_cast<double>(bins[k]);
      count[k + 1] = count[k] + value;
      used[k + 1] = used[k] + (bins[k] > 0 ? 1 : 0);
      x_log_x_sum[k + 1] = x_log_x_sum[k] + x_log_x(value);
    }
  }
  std::vector<double> count, used, x_log_x_sum;
};

// KL(P || Q) where P is the first `size` bins with all that lies beyond added to the last, and Q
// spreads each of 128 levels evenly over its bins that are not empty. Infinite where Q is zero and
// P is not.
double relative_entropy(std::span<const uint64_t> bins, const EntropySums& sums, size_t size) {
  const double total = sums.count.back(), kept = sums.count[size];
  const double outliers = total - kept;
  const auto last = static_cast<double>(bins[size - 1]);
  if (kept == 0 || (last == 0 && outliers > 0)) return INFINITY;
  double p_log_q = 0;
  for (size_t level = 0; level < kLevels; ++level) {
    const size_t first = level * size / kLevels, end = (level + 1) * size / kLevels;
    const double count = sums.count[end] - sums.count[first];
    if (count == 0) continue;
    const double log_q = std::log(count / (sums.used[end] - sums.used[first]));
    p_log_q += (count + (level + 1 == kLevels ? outliers : 0)) * log_q;
  }
  const double p_log_p = sums.x_log_x_sum[size] - x_log_x(last) + x_log_x(last + outliers);
  return (p_log_p - p_log_q) / total - std::log(total) + std::log(kept);
}

}  // namespace

std::string_view method_name(Method method) {
  return kNames[static_cast<size_t>(method)];
}

std::optional<Method> parse_method(std::string_view name) {
  const auto* found = std::find(std::begin(kNames), std::end(kNames), name);
  if (found == std::end(kNames)) return std::nullopt;
  return static_cast<Method>(found - std::begin(kNames));
}

double percentile_threshold(std::span<const uint64_t> bins, double width, double percentile) {
  const double total = std::accumulate(bins.begin(), bins.end(), 0.0);
  const double wanted = total * std::min(percentile, 100.0) / 100;
  double below = 0;
  for (size_t k = 0; k < bins.size(); ++k) {
    below += static_cast<double>(bins[k]);
    if (below >= wanted) return static_cast<double>(k + 1) * width;
  }
  return static_cast<double>(bins.size()) * width;
}

double entropy_threshold(std::span<const uint64_t> given, double width) {
  if (given.size() <= kLevels) return static_cast<double>(given.size()) * width;
  // Zero is represented exactly: its many occurrences (after a ReLU, say) must not count as values
  // that a level has to share.
  std::vector<uint64_t> bins(given.begin(), given.end());
  bins[0] = bins[1];
  const EntropySums sums(bins);
  double least = INFINITY;
  size_t best = bins.size();
  for (size_t size = kLevels; size <= bins.size(); ++size) {
    const double entropy = relative_entropy(bins, sums, size);
    if (entropy < least) {
      least = entropy;
      best = size;
    }
  }
  return static_cast<double>(best) * width;
}

double quantization_error(std::span<const uint64_t> bins, double width, double threshold) {
  const double scale = threshold / kLargestCode, inverse = 1 / scale;
  double error = 0, total = 0;
  for (size_t k = 0; k < bins.size(); ++k) {
    const double value = (static_cast<double>(k) + 0.5) * width;
    const double code = std::min(std::nearbyint(value * inverse), kLargestCode);
    const double off = value - code * scale;
    error += static_cast<double>(bins[k]) * off * off;
    total += static_cast<double>(bins[k]);
  }
  return total > 0 ? error / total : 0;
}

double mse_threshold(std::span<const uint64_t> bins, double width) {
  constexpr size_t kCandidates = 256;  // the minimum is flat: steps of 0.4 % of the range do
  const double largest = static_cast<double>(bins.size()) * width;
  double least = INFINITY, best = largest;
  for (size_t k = kCandidates; k >= 1; --k) {
    const double threshold = largest * static_cast<double>(k) / kCandidates;
    const double error = quantization_error(bins, width, threshold);
    if (error < least) {
      least = error;
      best = threshold;
    }
  }
  return best;
}

double find_threshold(const Histogram& histogram, const CalibratorOptions& options) {
  const double largest = histogram.largest();
  if (largest == 0) return 0;
  size_t resolution = options.method == Method::kPercentile ? Histogram::kBins : kSearchBins;
  if (options.method == Method::kEntropy)
    resolution = std::clamp<size_t>(histogram.count() / kValuesPerBin, 1, kSearchBins);
  const Histogram::Bins bins = histogram.bins(resolution);
  double threshold = largest;
  switch (options.method) {
    case Method::kMinMax:
      break;
    case Method::kEntropy:
      threshold = entropy_threshold(bins.counts, bins.width);
      break;
    case Method::kPercentile:
      threshold = percentile_threshold(bins.counts, bins.width, options.percentile);
      break;
    case Method::kMse:
      threshold = mse_threshold(bins.counts, bins.width);
      break;
  }
  return std::min(threshold, largest);
}

}  // namespace camshaft::quantize
