// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/sparse/float_picks.h"

#include <cstring>

#include "kernels/vector/sparse/pair_quads.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

// Calls visit(first weight of a tap) for all taps of output channel `n`.
template <class Visit>
void for_each_tap(const ConvShape& s, const Filter<float>& filter, int64_t group, int64_t n,
                  const Visit& visit) {
  for (int64_t h = 0; h < s.kh; ++h)
    for (int64_t w = 0; w < s.kw; ++w)
      visit(filter.data + group * filter.group + n * filter.n + h * filter.h + w * filter.w);
}

// A column of a panel: rows of `width` lanes.
struct Column {
  uint32_t* first;
  int64_t width;

  // Two weights of a quad and where they are among the channels a register holds.
  void place(int64_t quad, const float* weights, int64_t stride, float scale) const {
    const int pair = pair_of_quad(weights, stride);
    if (pair == kQuadPairs) return;  // refused before
    put(2 * quad, quad, kFirstOfPair[pair], scale * weights[kFirstOfPair[pair] * stride]);
    put(2 * quad + 1, quad, kSecondOfPair[pair], scale * weights[kSecondOfPair[pair] * stride]);
  }

 private:
  void put(int64_t pick, int64_t quad, int row, float weight) const {
    uint32_t* block = first + pick / kBlockPicks * (1 + kBlockPicks) * width;
    const int64_t slot = pick % kBlockPicks, position = (quad * kQuadRows + row) % kPickWidth;
    *block |= static_cast<uint32_t>(position) << (slot * kPickBits);
    std::memcpy(block + (1 + slot) * width, &weight, sizeof weight);
  }
};

}  // namespace

Panels pick_panels(const ConvShape& s, int max_vecs) {
  const int64_t taps = s.kh * s.kw;
  Panels panels(s.group_oc(), taps * picks_of(s), max_vecs);
  panels.vec_lanes = kLanes * taps * pick_rows(s);
  return panels;
}

void pack_pick_filter(const ConvShape& s, const Filter<float>& filter, int max_vecs, float scale,
                      std::byte* packed) {
  const Panels panels = pick_panels(s, max_vecs);
  std::memset(packed, 0, static_cast<size_t>(s.groups * panels.lanes() * kLaneBytes));
  uint32_t* lanes = reinterpret_cast<uint32_t*>(packed);
  for (int64_t group = 0; group < s.groups; ++group, lanes += panels.lanes())
    for (int64_t panel = 0; panel < panels.count(); ++panel) {
      const int64_t width = panels.vecs_of(panel) * kLanes, first = panels.first_col(panel);
      for (int64_t col = 0; col < panels.cols_of(panel); ++col) {
        Column column{lanes + panels.offset(panel) + col, width};
        for_each_tap(s, filter, group, first + col, [&](const float* tap) {
          for (int64_t quad = 0; quad < s.group_ic() / kQuadRows; ++quad)
            column.place(quad, tap + quad * kQuadRows * filter.c, filter.c, scale);
          column.first += pick_rows(s) * width;
        });
      }
    }
}

// Pairs of a permutation and a multiply-add share three pipes on AMD and, at 256 bits, on newer
// Intel cores; at 512 bits Intel has two for both.
double pick_tiles_us(double dense_us) {
  return 0.75 * dense_us;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
