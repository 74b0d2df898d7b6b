// SPDX-License-Identifier: Apache-2.0
// Measures kernels on problems: candidates interleaved, medians, with the problem's thread count
// and with weights as far away as they will be between two runs of the whole network.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/kernel.h"

namespace camshaft::tuner {

// Where a layer's packed weights are when its turn comes.
enum class WeightsFrom : uint8_t { kL2, kL3, kMemory };
// In a network with this many bytes of constants: they push each other out of the caches.
WeightsFrom weights_from(size_t constant_bytes);
// For a layer: kL2 where its weights are too few to matter.
WeightsFrom weights_from(WeightsFrom network, const kernels::Problem& problem);
std::string_view weights_from_name(WeightsFrom from);  // "L2", "L3", "memory"

class Timer {
 public:
  Timer(int threads, int avg_timing);
  ~Timer();

  // Microseconds per run of each tactic; all must accept the problem. Hopeless ones are dropped
  // early, with what they took so far.
  std::vector<double> time(const kernels::Problem& problem,
                           std::span<const kernels::Tactic* const> tactics,
                           WeightsFrom weights = WeightsFrom::kL2);
  // Of the layer's reference kernel: one run, a few where it is short. Nothing where it fails on
  // invented data.
  std::optional<double> time_reference(const kernels::Problem& problem);

 private:
  ThreadPool pool_;
  int rounds_;
};

}  // namespace camshaft::tuner
