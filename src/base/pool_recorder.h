// SPDX-License-Identifier: Apache-2.0
// Tells which worker of a thread pool worked when: what traces of a run show per thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

namespace camshaft {

// What one worker did of one job, on the steady clock.
struct PoolSpan {
  int worker = 0;
  int64_t start_ns = 0, end_ns = 0;
};

// Records all pools from its making to its end; one at a time. Pools without one pay a load per
// job.
class PoolRecorder {
 public:
  PoolRecorder() { current_.store(this, std::memory_order_release); }
  ~PoolRecorder() { current_.store(nullptr, std::memory_order_release); }
  PoolRecorder(const PoolRecorder&) = delete;
  PoolRecorder& operator=(const PoolRecorder&) = delete;

  static PoolRecorder* current() { return current_.load(std::memory_order_acquire); }

  void add(const PoolSpan& span) {
    const std::lock_guard lock(mutex_);
    spans_.push_back(span);
  }
  // All spans since the last call; while no pool runs.
  std::vector<PoolSpan> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(spans_, {});
  }

 private:
  static inline std::atomic<PoolRecorder*> current_{nullptr};
  std::mutex mutex_;
  std::vector<PoolSpan> spans_;
};

}  // namespace camshaft
