// SPDX-License-Identifier: Apache-2.0
// How often rows come: of the last few arrivals, until now.
#pragma once

#include <array>
#include <cstdint>

namespace camshaft::batching {

class Arrivals {
 public:
  // Times in microseconds of any one clock.
  void came(double at_us, int64_t rows);
  double rows_per_us(double now_us) const;      // 0: unknown
  double since_newest_us(double now_us) const;  // 0: none has come

 private:
  struct Arrival {
    double at_us = 0;
    int64_t rows = 0;
  };
  const Arrival& back(uint64_t steps) const { return last_[(count_ - steps) % last_.size()]; }

  std::array<Arrival, 32> last_ = {};
  uint64_t count_ = 0;
};

}  // namespace camshaft::batching
