// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/gemm/gemm_cost.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

double tile_cost_us(Numeric numeric, int64_t rows, int64_t strip, int64_t n, int64_t k,
                    int max_vecs) {
  const bool is_float = numeric == Numeric::kFloat;
  // Products per cycle; bytes without VNNI take four operations.
  const bool is_single =
      is_float || uses(numeric == Numeric::kBf16 ? Feature::kBf16 : Feature::kVnni);
  const double per_cycle = is_single ? 2 : numeric == Numeric::kWord ? 1.6 : 1;
  constexpr double kCyclesPerUs = 4000;
  const Panels panels(n, k, max_vecs);
  const EvenSplit tiles = split_evenly(strip, max_rows(numeric, max_vecs));
  double cycles = 0;
  for (int64_t panel = 0; panel < panels.count(); ++panel) {
    const double vecs = panels.vecs_of(panel);
    for_tile_heights(tiles, [&](double count, double pixels) {
      // Two FMA and two loads per cycle; no chain faster than its latency of 4.
      double per_k = pixels * vecs / per_cycle;
      if (per_k < (pixels + vecs) / 2) per_k = (pixels + vecs) / 2;
      if (per_k < 4) per_k = 4;
      // A panel that does not stay in L1 streams from L2, at about 40 bytes per cycle.
      const double b_bytes = vecs * kLanes * 4;
      if (b_bytes * static_cast<double>(k) > 24e3 && per_k < b_bytes / 40) per_k = b_bytes / 40;
      cycles += count * (per_k * static_cast<double>(k) + 30 +
                         pixels * vecs * (is_quantized(numeric) ? 2.5 : 1));
    });
  }
  return cycles * static_cast<double>(rows) / kCyclesPerUs;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
