// SPDX-License-Identifier: Apache-2.0
// Products of floats with nothing around them, for kernels that keep both factors packed: several
// panels in a call, no bounds and no partial columns. After few steps of K that is most of what a
// tile costs beside its products: 6x64 with panels of 16 on Zen 3 1.1 times as fast as one tile
// after the other, 1.2 times beside a busy thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace camshaft::kernels::CAMSHAFT_TARGET {

inline constexpr int kPlainVecs = 2;  // columns of the widest panel

// Distances in floats.
struct PlainProduct {
  const float* a = nullptr;  // rows of `steps` each, a_row apart
  int64_t a_row = 0;
  const float* b = nullptr;  // panels [steps][columns of a panel], b_panel apart
  int64_t b_panel = 0, panels = 1;
  int64_t steps = 0;
  float* c = nullptr;  // rows c_row apart; its panels lie side by side
  int64_t c_row = 0;
  bool from_c = false;           // sums begin with C instead of 0
  const float* added = nullptr;  // to the sums: rows added_row apart; or null
  int64_t added_row = 0;
};

using PlainKernel = void (*)(const PlainProduct&);
// 1 ≤ vecs ≤ kPlainVecs, 1 ≤ rows ≤ kMaxRows[kPlainVecs].
PlainKernel plain_kernel(int vecs, int64_t rows);

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
