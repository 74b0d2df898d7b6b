// SPDX-License-Identifier: Apache-2.0
// Calibrators against plain evaluations of their definitions.
#include "quantize/calibrators.h"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "quantize/calibration_cache.h"

namespace camshaft::quantize {
namespace {

std::vector<float> bell(size_t count, float width, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> draw(0, width);
  std::vector<float> values(count);
  for (float& value : values) value = draw(random);
  return values;
}

// KL divergence as it is written down: distributions first, then the sum.
double plain_entropy(std::vector<uint64_t> bins, size_t size) {
  bins[0] = bins[1];
  std::vector<double> p(bins.begin(), bins.begin() + static_cast<long>(size)), q(size);
  for (size_t k = size; k < bins.size(); ++k) p[size - 1] += static_cast<double>(bins[k]);
  for (size_t level = 0; level < 128; ++level) {
    const size_t first = level * size / 128, end = (level + 1) * size / 128;
    double sum = 0, used = 0;
    for (size_t k = first; k < end; ++k) {
      sum += static_cast<double>(bins[k]);
      used += bins[k] > 0;
    }
    for (size_t k = first; k < end; ++k) q[k] = bins[k] > 0 ? sum / used : 0;
  }
  double p_total = 0, q_total = 0, divergence = 0;
  for (size_t k = 0; k < size; ++k) {
    p_total += p[k];
    q_total += q[k];
  }
  for (size_t k = 0; k < size; ++k) {
    if (p[k] == 0) continue;
    if (q[k] == 0) return INFINITY;
    divergence += p[k] / p_total * std::log(p[k] / p_total / (q[k] / q_total));
  }
  return divergence;
}

TEST(Calibrators, EntropyIsTheLeastOfThePlainEvaluation) {
  for (unsigned seed : {1u, 2u, 3u}) {
    Histogram histogram;
    std::vector<float> values = bell(200000, 1, seed);
    if (seed == 2) values.push_back(20);  // a lone outlier
    if (seed == 3)
      for (float& value : values) value = std::max(value, 0.0f);  // after a ReLU
    histogram.add(values);
    const Histogram::Bins bins = histogram.bins(1024);
    size_t best = 0;
    double least = INFINITY;
    for (size_t size = 128; size <= bins.counts.size(); ++size) {
      const double entropy = plain_entropy(bins.counts, size);
      if (entropy < least) {
        least = entropy;
        best = size;
      }
    }
    EXPECT_NEAR(entropy_threshold(bins.counts, bins.width), static_cast<double>(best) * bins.width,
                1e-9)
        << seed;
    if (seed == 2) {
      EXPECT_LT(static_cast<double>(best) * bins.width, 10);
    }
  }
}

TEST(Calibrators, EntropyKeepsTheRangeOfFewValues) {
  Histogram histogram;
  histogram.add(bell(2000, 1, 5));
  EXPECT_EQ(find_threshold(histogram, {Method::kEntropy}), histogram.largest());
}

TEST(Calibrators, PercentileCountsValues) {
  Histogram histogram;
  std::vector<float> values;
  for (int k = 1; k <= 1000; ++k) values.push_back(static_cast<float>(k % 2 ? k : -k));
  histogram.add(values);
  EXPECT_NEAR(find_threshold(histogram, {Method::kPercentile, 99}), 990, 0.3);
  EXPECT_NEAR(find_threshold(histogram, {Method::kPercentile, 50}), 500, 0.3);
  EXPECT_EQ(find_threshold(histogram, {Method::kPercentile, 100}), 1000);
}

// The error of rounding the samples themselves.
double plain_error(const std::vector<float>& values, double threshold) {
  const double scale = threshold / 127;
  double error = 0;
  for (const float value : values) {
    const double code = std::min(std::nearbyint(std::abs(value) / scale), 127.0);
    error += std::pow(std::abs(value) - code * scale, 2);
  }
  return error / static_cast<double>(values.size());
}

TEST(Calibrators, MseIsNearTheBestForTheSamples) {
  std::vector<float> values = bell(100000, 1, 7);
  values.push_back(-12);
  Histogram histogram;
  histogram.add(values);
  const double found = find_threshold(histogram, {Method::kMse});
  double least = INFINITY;
  for (double threshold = 0.5; threshold <= 12; threshold += 0.05)
    least = std::min(least, plain_error(values, threshold));
  EXPECT_LT(plain_error(values, found), 1.02 * least);
  EXPECT_GT(plain_error(values, 12), 1.5 * least);  // what minmax would do
}

TEST(Calibrators, MinMaxIsTheLargestMagnitude) {
  Histogram histogram;
  histogram.add(std::vector<float>{0.5f, -3, 2});
  histogram.add(std::vector<float>{1});
  EXPECT_EQ(find_threshold(histogram, {Method::kMinMax}), 3);
  EXPECT_EQ(histogram.minimum(), -3);
  EXPECT_EQ(histogram.maximum(), 2);
}

TEST(Calibrators, ZeroTensorsHaveNoThreshold) {
  for (const Method method :
       {Method::kMinMax, Method::kEntropy, Method::kPercentile, Method::kMse}) {
    Histogram histogram;
    histogram.add(std::vector<float>(100, 0));
    EXPECT_EQ(find_threshold(histogram, {method}), 0);
    histogram.add(std::vector<float>{1});
    EXPECT_GT(find_threshold(histogram, {method}), 0);
    EXPECT_LE(find_threshold(histogram, {method}), 1);
  }
}

TEST(Histogram, GrowsWithoutLosingCounts) {
  Histogram histogram;
  histogram.add(std::vector<float>{0, 0});
  histogram.add(std::vector<float>{1e-3f, -1e-3f});
  histogram.add(std::vector<float>{5, NAN, INFINITY});
  const Histogram::Bins bins = histogram.bins();
  uint64_t total = 0;
  for (const uint64_t count : bins.counts) total += count;
  EXPECT_EQ(total, 5u);
  EXPECT_EQ(histogram.count(), 5u);
  EXPECT_EQ(histogram.not_finite(), 2u);
  EXPECT_GE(bins.counts.size(), Histogram::kBins / 2);
  EXPECT_EQ(bins.counts.back(), 1u);
  EXPECT_NEAR(static_cast<double>(bins.counts.size()) * bins.width, 5, 2 * bins.width);
  EXPECT_LE(histogram.bins(100).counts.size(), 100u);
}

TEST(Histogram, BinsDoNotDependOnTheOrderOfTheSamples) {
  const std::vector<float> a = bell(1000, 1, 1), b = bell(1000, 8, 2);
  Histogram first, second;
  first.add(a);
  first.add(b);
  second.add(b);
  second.add(a);
  EXPECT_EQ(first.count(), second.count());
  EXPECT_NEAR(find_threshold(first, {Method::kPercentile, 99}),
              find_threshold(second, {Method::kPercentile, 99}), 0.02);
}

TEST(CalibrationCache, RoundTrip) {
  CalibrationCache cache{cache_header(Method::kEntropy), {{"a", 0.5f}, {"b:0", 1e-20f}, {"π", 3}}};
  const std::string text = to_text(cache);
  EXPECT_TRUE(text.starts_with("TRT-8412-EntropyCalibration2\na: 3f000000\nb:0: "));
  auto parsed = parse_calibration_cache(text);
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_EQ(parsed->header, cache.header);
  EXPECT_EQ(parsed->scales, cache.scales);
}

TEST(CalibrationCache, TakesWhatTensorRtWrites) {
  auto parsed = parse_calibration_cache(
      "TRT-8501-EntropyCalibration2\r\nimages: 3c010a14\r\n(Unnamed Layer* 4) [Shuffle]_output: "
      "3C010A14\n\nzero: 0\n");
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_NEAR(parsed->scales.at("images"), 0.00787, 1e-5);
  EXPECT_EQ(parsed->scales.at("(Unnamed Layer* 4) [Shuffle]_output"), parsed->scales.at("images"));
  EXPECT_EQ(parsed->scales.at("zero"), 0);
}

TEST(CalibrationCache, NamesTheBadLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "empty"},
      {"hello", "line 1"},
      {"TRT-8", "line 1"},
      {"TRT-8412-X\nx 3c010a14", "line 2"},
      {"TRT-8412-X\nx: 3c010a14\ny: zz", "line 3"},
      {"TRT-8412-X\nx: 3c010a14f", "line 2"},
      {"TRT-8412-X\nx: 7fc00000", "line 2"},  // NaN
      {"TRT-8412-X\nx: bf800000", "line 2"},  // negative
  };
  for (const auto& [text, part] : cases) {
    auto parsed = parse_calibration_cache(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_NE(parsed.status().message().find(part), std::string::npos) << parsed.status().message();
  }
}

}  // namespace
}  // namespace camshaft::quantize
