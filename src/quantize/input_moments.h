// SPDX-License-Identifier: Apache-2.0
// Second moments of a layer's input channels over samples: how large each is, and which rise and
// fall together. Correlations are kept within blocks of neighbouring channels.
#pragma once

#include <span>
#include <vector>

#include "ir/graph.h"

namespace camshaft::quantize {

class InputMoments {
 public:
  static constexpr int64_t kBlock = 64;

  InputMoments() = default;
  // Blocks do not cross the `groups` of a grouped convolution.
  InputMoments(int64_t channels, int64_t groups);

  // Values [outer][channels][inner], row major.
  void add(std::span<const float> values, int64_t outer, int64_t inner);

  bool empty() const { return count_ == 0; }
  int64_t group_channels() const { return group_channels_; }
  std::vector<float> norms() const;  // root of the sum of squares, per channel
  // The moments of channels [first, first + size) of a group: the block that holds `first`.
  double at(int64_t group, int64_t a, int64_t b) const;

 private:
  int64_t channels_ = 0, group_channels_ = 0, count_ = 0;
  std::vector<double> moments_;  // [channels][kBlock]
};

}  // namespace camshaft::quantize
