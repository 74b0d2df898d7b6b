// SPDX-License-Identifier: Apache-2.0
// What the plugin never said: where devices wait and for whom, what launches cost, collectives of
// every kind, graph launches, what memory was held for. Times in microseconds.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "trace/critical_path.h"
#include "trace/profile.h"

namespace camshaft::trace {

struct LaunchStats {
  int64_t launches = 0;      // calls that started device work
  double call_us = 0;        // total length of those calls
  double delay_mean_us = 0;  // from the start of the call to the start of its first activity
  double delay_median_us = 0, delay_p95_us = 0, delay_max_us = 0;
  int64_t kernels = 0;
  int64_t short_kernels = 0;  // shorter than kShortKernelUs
  double short_kernel_us = 0;
  // Of kernels that a call of their own launched, not a graph's:
  int64_t single_kernels = 0, single_short_kernels = 0;
  int64_t launch_bound_kernels = 0;  // shorter than the call that launched them
  int64_t graph_launches = 0, graph_kernels = 0;
  double graph_kernel_us = 0;
};
inline constexpr double kShortKernelUs = 10;

// A device's time inside the steps: busy, or idle for a reason.
struct IdleSplit {
  int64_t device = 0;
  double span_us = 0, busy_us = 0;
  double host_wait_us = 0;    // nothing had been launched, or the call was still at it
  double kernel_wait_us = 0;  // the next work was already queued
  double other_us = 0;  // before the first, behind the last, or before work of no recorded launch
  std::string longest;  // what launched the work that the host was latest with, in all
  double longest_us = 0;
};

// Host work that ran while a device had nothing to do.
struct IdleCause {
  std::string op;
  double idle_us = 0;
  int64_t gaps = 0;
};

struct CollectiveUse {
  std::string name, group;
  int64_t calls = 0, group_size = 0;
  double total_us = 0;
  double exposed_us = 0;  // while no computing kernel ran
  int64_t bytes = 0;
};

struct MemoryUse {
  std::string device;
  int64_t peak = 0, peak_reserved = 0, capacity = 0;  // 0: not known
  // Bytes live at the peak by what allocated them: forward, backward, optimizer, data, outside.
  std::vector<std::pair<std::string, int64_t>> at_peak;
};

struct Finding {
  const char* id;    // stable: for scripts
  std::string text;  // names the figure it rests on
  double value = 0;  // that figure
};

struct Insights {
  LaunchStats launches;
  std::vector<IdleSplit> idle;
  std::vector<IdleCause> causes;  // largest first
  std::vector<CollectiveUse> collectives;
  std::vector<MemoryUse> memory;
  CriticalPath critical;
  std::vector<Finding> findings;
};

Insights find_insights(const Profile& profile);

// The figures of a profile by name, for conditions and comparisons: "gpu0.utilization",
// "step.average_us".
std::vector<std::pair<std::string, double>> metrics(const Profile& profile,
                                                    const Insights& insights);

}  // namespace camshaft::trace
