// SPDX-License-Identifier: Apache-2.0
// How work divides on machines with more processors than are at hand.
#pragma once

#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

namespace camshaft {

// Thread pools made while one lives have no threads of their own: their callers do all shares, one
// after the other, and note here how long each took. One at a time, used by one thread.
class PoolRehearsal {
 public:
  struct Job {
    int64_t count = 0;             // of units
    std::vector<double> share_us;  // by worker

    double total_us() const { return std::accumulate(share_us.begin(), share_us.end(), 0.0); }
    // The largest share over the mean, with units taken for equal: times on a busy machine say
    // less.
    double imbalance() const {
      const auto units = static_cast<double>(count), workers = static_cast<double>(share_us.size());
      return std::ceil(units / workers) * workers / units;
    }
  };

  PoolRehearsal() { current_ = this; }
  ~PoolRehearsal() { current_ = nullptr; }
  PoolRehearsal(const PoolRehearsal&) = delete;
  PoolRehearsal& operator=(const PoolRehearsal&) = delete;

  static PoolRehearsal* current() { return current_; }

  std::vector<Job> jobs;  // since whoever reads them cleared them

 private:
  static inline thread_local PoolRehearsal* current_ = nullptr;
};

}  // namespace camshaft
