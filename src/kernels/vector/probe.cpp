// SPDX-License-Identifier: Apache-2.0
// Independent chains of fused multiply-adds: as many as hide the latency of two pipes, none
// touching memory.
#include "kernels/simd/simd.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

// Runs `rounds` rounds of 12 × kLanes MACs; gives a value the compiler cannot drop.
float run_fma_chains(int64_t rounds) {
  constexpr int kChains = 12;
  F32 sum[kChains];
  for (int k = 0; k < kChains; ++k) sum[k] = set1(static_cast<float>(k));
  const F32 a = set1(0.999999f), b = set1(1e-6f);
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int k = 0; k < kChains; ++k) sum[k] = fma(sum[k], a, b);
  }
  F32 total = sum[0];
  for (int k = 1; k < kChains; ++k) total = total + sum[k];
  return reduce_add(total);
}

int64_t macs_per_round() {
  return 12 * kLanes;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
