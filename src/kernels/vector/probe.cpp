// SPDX-License-Identifier: Apache-2.0
// Independent chains of fused multiply-adds: as many as hide the latency of two pipes, none
// touching memory.
#include "kernels/simd/products.h"
#include "kernels/vector/gemm/gemm_amx.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

int64_t macs_per_round() {
  return 12 * kLanes;
}

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

namespace {

// Chains begin with different sums: the compiler would make one of those that are the same.
CAMSHAFT_INLINE void begin_chain(int chain, I32& sum) {
  sum = iset1(chain);
}
CAMSHAFT_INLINE void begin_chain(int chain, F32& sum) {
  sum = set1(static_cast<float>(chain));
}

template <class Product>
typename Product::Sum run_products(int64_t rounds) {
  constexpr int kChains = 12;
  typename Product::Sum sum[kChains];
#pragma GCC unroll 12
  for (int k = 0; k < kChains; ++k) begin_chain(k, sum[k]);
  std::byte lanes[kLanes * 4] = {};
  for (std::byte& lane : lanes) lane = std::byte{3};
  const Product product;
  auto row = product.row(lanes);
  const auto column = product.column(lanes);
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int k = 0; k < kChains; ++k) {
      change(row);
      product.add_product(row, column, sum[k]);
    }
  }
  typename Product::Sum total = sum[0];
#pragma GCC unroll 12
  for (int k = 1; k < kChains; ++k) total = total + sum[k];
  return total;
}

template <class Product>
int32_t run_byte_products(int64_t rounds) {
  int32_t stored[kLanes];
  istore(stored, run_products<Product>(rounds));
  return stored[0];
}

// As many products as `rounds` rounds of float ones.
int32_t run_matrices(Numeric numeric, int64_t rounds) {
  run_amx_chains(numeric, rounds * macs_per_round() / amx_macs_per_round(numeric));
  return 0;
}

}  // namespace

// The same of uint8 by int8: 4 × 12 × kLanes MACs a round.
int32_t run_byte_chains(int64_t rounds) {
  if (uses(Feature::kAmx)) return run_matrices(Numeric::kByte, 4 * rounds);
#if defined(CAMSHAFT_HAS_VNNI)
  if (uses(Feature::kVnni)) return run_byte_products<VnniProduct>(rounds);
#endif
  return run_byte_products<WordProduct>(rounds);
}

// The same of bfloat16 pairs: 2 × 12 × kLanes MACs a round, in two FMA where there is no
// instruction for it.
float run_pair_chains(int64_t rounds) {
  if (uses(Feature::kAmx)) return static_cast<float>(run_matrices(Numeric::kBf16, 2 * rounds));
#if defined(CAMSHAFT_HAS_BF16)
  if (uses(Feature::kBf16)) return reduce_add(run_products<Dpbf16Product>(rounds));
#endif
  return run_fma_chains(2 * rounds);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
