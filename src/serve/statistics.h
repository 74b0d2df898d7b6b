// SPDX-License-Identifier: Apache-2.0
// What a model did, in Triton's terms: counts and times since it was loaded, and the latest batches
// with their reasons.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "inference_service.pb.h"

namespace camshaft::serve {

struct Duration {
  uint64_t count = 0, ns = 0;
  void add(uint64_t more_ns, uint64_t times = 1) {
    count += times;
    ns += more_ns;
  }
};

// One run of the engine.
struct BatchRecord {
  uint64_t id = 0;
  int64_t started_ms = 0;  // since 1970
  int instance = 0;
  size_t requests = 0;
  int64_t rows = 0, size = 0;  // size: with the rows that fill it up
  int64_t left_waiting = 0;    // requests
  double waited_us = 0;        // the longest of its requests, from arrival to here
  double idle_us = 0;          // how long an instance was free for it and waited for more
  double expected_us = 0, took_us = 0;
  std::string why;
};

struct BatchTime {
  uint64_t input_ns = 0, infer_ns = 0, output_ns = 0;
};

enum class FailureReason : uint8_t { kRejected, kCanceled, kBackend, kOther };
inline constexpr int kFailureReasons = 4;
inline constexpr std::array<const char*, kFailureReasons> kFailureNames = {"REJECTED", "CANCELED",
                                                                           "BACKEND", "OTHER"};

// The last durations of one kind, for quantiles.
class Window {
 public:
  void add(uint64_t ns);
  std::vector<uint64_t> sorted() const;

 private:
  static constexpr size_t kSize = 2048;
  std::vector<uint64_t> values_;
  size_t next_ = 0;
};

// A copy of all numbers at one time.
struct Counters {
  uint64_t inferences = 0, executions = 0;  // rows and runs
  uint64_t last_inference_ms = 0;
  Duration success, fail, queue, input, infer, output;
  std::array<uint64_t, kFailureReasons> failures = {};
  std::map<int64_t, std::array<Duration, 3>> by_size;  // input, infer, output
  Window request_window, queue_window;
};

class Statistics {
 public:
  // Requests of one run that succeeded: how long each took from arrival to answer and waited before
  // it ran.
  struct Served {
    uint64_t total_ns = 0, queue_ns = 0;
  };
  void batch(BatchRecord record, const BatchTime& time, const std::vector<Served>& served);
  void failed(FailureReason reason, uint64_t ns);

  Counters counters() const;
  std::vector<BatchRecord> latest(size_t count) const;  // newest first
  void fill(inference::ModelStatistics& statistics) const;

 private:
  mutable std::mutex mutex_;
  Counters counters_;
  std::deque<BatchRecord> batches_;
  uint64_t next_id_ = 1;
};

}  // namespace camshaft::serve
