// SPDX-License-Identifier: Apache-2.0
#include "quantize/input_moments.h"

#include <algorithm>
#include <cmath>

namespace camshaft::quantize {

InputMoments::InputMoments(int64_t channels, int64_t groups)
    : channels_(channels),
      group_channels_(channels / std::max<int64_t>(groups, 1)),
      moments_(static_cast<size_t>(channels * kBlock)) {}

void InputMoments::add(std::span<const float> values, int64_t outer, int64_t inner) {
  count_ += outer * inner;
  for (int64_t item = 0; item < outer; ++item)
    for (int64_t channel = 0; channel < channels_; ++channel) {
      const int64_t in_group = channel % group_channels_, group = channel - in_group;
      const int64_t first = group + in_group / kBlock * kBlock;
      const int64_t end = std::min(first + kBlock, group + group_channels_);
      const float* x = values.data() + (item * channels_ + channel) * inner;
      for (int64_t other = channel; other < end; ++other) {
        const float* y = values.data() + (item * channels_ + other) * inner;
        double sum = 0;
        for (int64_t k = 0; k < inner; ++k) sum += static_cast<double>(x[k]) * y[k];
        moments_[static_cast<size_t>(channel * kBlock + other - first)] += sum;
        if (other != channel)
          moments_[static_cast<size_t>(other * kBlock + channel - first)] += sum;
      }
    }
}

std::vector<float> InputMoments::norms() const {
  std::vector<float> norms;
  for (int64_t channel = 0; channel < channels_; ++channel)
    norms.push_back(static_cast<float>(std::sqrt(
        moments_[static_cast<size_t>(channel * kBlock + channel % group_channels_ % kBlock)])));
  return norms;
}

double InputMoments::at(int64_t group, int64_t a, int64_t b) const {
  return moments_[static_cast<size_t>((group * group_channels_ + a) * kBlock + b % kBlock)];
}

}  // namespace camshaft::quantize
