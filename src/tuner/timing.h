// SPDX-License-Identifier: Apache-2.0
// Measures kernels on problems: candidates interleaved, medians, with the thread count the engine
// will run with.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/kernel.h"

namespace camshaft::tuner {

class Timer {
 public:
  Timer(int threads, int avg_timing);
  ~Timer();

  // Microseconds per run of each tactic; all must accept the problem. Hopeless ones are dropped
  // early, with what they took so far.
  std::vector<double> time(const kernels::Problem& problem,
                           std::span<const kernels::Tactic* const> tactics);

 private:
  ThreadPool pool_;
  int rounds_;
};

}  // namespace camshaft::tuner
