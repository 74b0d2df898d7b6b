// SPDX-License-Identifier: Apache-2.0
#include "kernels/probe.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

namespace camshaft::kernels {

#define CAMSHAFT_DECLARE_PROBE(isa)        \
  namespace isa {                          \
  float run_fma_chains(int64_t rounds);    \
  int32_t run_byte_chains(int64_t rounds); \
  float run_pair_chains(int64_t rounds);   \
  int64_t macs_per_round();                \
  }
CAMSHAFT_DECLARE_PROBE(scalar)
CAMSHAFT_DECLARE_PROBE(avx2)
CAMSHAFT_DECLARE_PROBE(avx512)

namespace {

struct Probe {
  float (*run)(int64_t);
  int32_t (*run_bytes)(int64_t);
  float (*run_pairs)(int64_t);
  int64_t (*macs)();
};
#define CAMSHAFT_PROBE(isa) \
  { isa::run_fma_chains, isa::run_byte_chains, isa::run_pair_chains, isa::macs_per_round }
constexpr Probe kProbes[kIsaCount] = {CAMSHAFT_PROBE(scalar), CAMSHAFT_PROBE(avx2),
                                      CAMSHAFT_PROBE(avx512)};

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

constexpr int64_t kRounds = 20000;

// Best rate of `run`, which does `macs` of them.
template <class Run>
double best_rate(const Run& run, int64_t macs, double seconds) {
  volatile auto sink = run(kRounds);
  double best = 0;
  for (const Clock::time_point begin = Clock::now(); seconds_since(begin) < seconds;) {
    const Clock::time_point start = Clock::now();
    sink = run(kRounds);
    best = std::max(best, static_cast<double>(macs) / seconds_since(start));
  }
  static_cast<void>(sink);
  return best / 1e9;
}

const Probe& probe_of(Isa isa) {
  return kProbes[static_cast<int>(std::min(isa, cpu_info().best_isa))];
}

}  // namespace

double measure_fma_peak(Isa isa, double seconds) {
  const Probe& probe = probe_of(isa);
  return best_rate(probe.run, kRounds * probe.macs(), seconds);
}

double measure_byte_peak(Isa isa, double seconds) {
  const Probe& probe = probe_of(isa);
  return best_rate(probe.run_bytes, 4 * kRounds * probe.macs(), seconds);
}

double measure_bf16_peak(Isa isa, double seconds) {
  const Probe& probe = probe_of(isa);
  return best_rate(probe.run_pairs, 2 * kRounds * probe.macs(), seconds);
}

double measure_read_bandwidth(double seconds, size_t bytes) {
  // Sums of whole vectors, in registers: adding must not be what takes the time where caches hold
  // the buffer.
  using Vector [[gnu::vector_size(32)]] = uint64_t;
  constexpr size_t kSums = 4;
  if (bytes == 0) bytes = std::min<size_t>(4 * cpu_info().l3_bytes, size_t{256} << 20);
  const std::vector<Vector> buffer(std::max(bytes / sizeof(Vector) / kSums, size_t{1}) * kSums,
                                   Vector{1});
  const auto size = static_cast<double>(buffer.size() * sizeof(Vector));
  volatile uint64_t sink = 0;
  double best = 0;
  for (const Clock::time_point begin = Clock::now(); best == 0 || seconds_since(begin) < seconds;) {
    const Clock::time_point start = Clock::now();
    Vector sums[kSums] = {};
    for (size_t k = 0; k < buffer.size(); k += kSums) {
#pragma GCC unroll 4
      for (size_t lane = 0; lane < kSums; ++lane) sums[lane] += buffer[k + lane];
    }
    for (const Vector& sum : sums) sink = sink + sum[0] + sum[3];
    best = std::max(best, size / seconds_since(start));
  }
  return best / 1e9;
}

}  // namespace camshaft::kernels
