// SPDX-License-Identifier: Apache-2.0
// A plain product with packed panels of floats, in the register tiles: for kernels that do more
// with its results than an epilogue says.
#pragma once

#include "kernels/vector/gemm/gemm_tile.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

// c[rows][columns of the panels] = (accumulate ? c : bias) + a[rows][k] · panels.
struct PanelProduct {
  const Panels& panels;
  const float* weights;
  const float* bias;
  const float* a;
  int64_t a_stride;
  float* c;
  int64_t c_stride;
  bool accumulate;
};

// Of panels [first, last).
static inline void multiply_panels(const PanelProduct& p, int64_t rows, int64_t first,
                                   int64_t last) {
  constexpr float kInfinity = __builtin_inff();
  const Segment start{0, 0};
  const EvenSplit groups =
      split_evenly(rows, kMaxRows[p.panels.vecs_of(0)]);  // panel 0 is the widest
  for (int64_t panel = first; panel < last; ++panel)
    for (int64_t group = 0; group < groups.parts; ++group) {
      const int64_t row = groups.start(group), column = p.panels.first_col(panel);
      tile_kernel(p.panels.vecs_of(panel), static_cast<int>(groups.size(group)))(
          Tile{.a = {reinterpret_cast<const std::byte*>(p.a + row * p.a_stride),
                     p.a_stride * kLaneBytes},
               .k = {&start, 1, p.panels.k},
               .b = {reinterpret_cast<const std::byte*>(p.weights + p.panels.offset(panel)),
                     p.panels.vecs_of(panel) * kLanes * kLaneBytes},
               .chain = {},
               .start = {.bias = p.bias ? p.bias + column : nullptr,
                         .rows = nullptr,
                         .from_c = p.accumulate},
               .c = {reinterpret_cast<std::byte*>(p.c + row * p.c_stride + column),
                     p.c_stride * kLaneBytes, p.panels.cols_of(panel), TileOut::kFloat},
               .repeats = {},
               .ahead = {},
               .residual = {},
               .floats = {.low = -kInfinity, .high = kInfinity, .slope = 1},
               .bytes = {}});
    }
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
