// SPDX-License-Identifier: Apache-2.0
// Which of the waiting requests run now, and whether a free instance waits for more. A function of
// what is measured: the time of each batch size, how often requests come, and how long they may
// take.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "batching/batch_times.h"

namespace camshaft::batching {

struct LatencyBounds {
  double goal_us = 0;  // of a request, queue and computing; 0: none
  double max_delay_us =
      0;  // a request waits so long at most for others to come; 0: as the goal says
};

// What waits, as one batch would take it: requests of one priority and one shape.
struct WaitingRows {
  std::vector<int64_t>
      rows_up_to;  // of the first, the first two … requests, as far as the batch limit lets them
  bool is_all = true;      // nothing else waits
  double oldest_us = 0;    // how long the first one has waited
  double newest_us = 0;    // how long ago the last one came
  double rows_per_us = 0;  // arrivals of late; 0: unknown
};

struct BatchChoice {
  size_t requests = 0;  // how many to run now; 0: wait
  int64_t rows = 0;     // theirs
  int64_t size = 0;     // run as a batch of so many
  double wait_us = 0;   // where requests is 0
  std::string why;
};

// The largest batch that lets a request that just misses one keep the goal: it waits for that one,
// then runs in the next.
int64_t batch_limit(const BatchTimes& times, const LatencyBounds& bounds);

// `waiting` holds at least one request.
BatchChoice choose_batch(const BatchTimes& times, const LatencyBounds& bounds, int64_t limit,
                         const WaitingRows& waiting);

}  // namespace camshaft::batching
