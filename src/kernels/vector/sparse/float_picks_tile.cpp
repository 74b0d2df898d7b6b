// SPDX-License-Identifier: Apache-2.0
// The register tile over panels of picks. Two picks of a vector of columns stay in registers while
// row after row of A is read once for both: per row two permutations and two multiply-adds, for
// four dense multiply-adds. Zen 5 takes 1.45 such pairs a cycle (512 and 256 bits), a limit
// of 1.45.
#include "kernels/vector/gemm/gemm_float_tile.h"
#include "kernels/vector/sparse/float_picks.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

constexpr int64_t kFloatBytes = 4, kVecBytes = kLanes * kLaneBytes;
constexpr int kTogether = 2;  // picks
static_assert(kTogether * kChannelsPerPick <= kPickWidth && kBlockPicks % kTogether == 0);

// Where in a row the channels lie that a pick may be of, from the first of its block.
constexpr int64_t channels_at(int64_t pick) {
  return pick * kChannelsPerPick / kPickWidth * kPickWidth;
}

template <int kRows, int kVecs>
struct PickLoop {
  Accumulators<F32, kRows, kVecs>& acc;
  StepRows<kRows> rows;
  const std::byte *b, *ahead;
  int64_t ahead_step;

  CAMSHAFT_INLINE_MEMBER F32 row(int r, int64_t channel) const {
    return pick_row(reinterpret_cast<const float*>(rows.at(r) + channel * kFloatBytes));
  }

  // Few rows wait for weights: all lines of them are fetched as far ahead as `ahead` is. Else a
  // line with every pick.
  CAMSHAFT_INLINE_MEMBER void fetch(const std::byte* weights) {
    if constexpr (kRows <= kRowsPerBase) {
      for (int64_t at = 0; at < kTogether * kVecs * kVecBytes; at += kCacheLine)
        __builtin_prefetch(weights + (ahead - b) + at, 0, 2);
    } else {
      __builtin_prefetch(ahead, 0, 2);
      __builtin_prefetch(ahead + ahead_step, 0, 2);
      ahead += kTogether * ahead_step;
    }
  }

  template <int kPick>
  CAMSHAFT_INLINE_MEMBER void add_two(const std::byte* block) {
    const std::byte* weights = block + (1 + kPick) * kVecs * kVecBytes;
    fetch(weights);
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) {
      const PackedLanes positions = load_lanes(block + v * kVecBytes);
      const PackedLanes first = shift_dwords<kPick * kPickBits>(positions),
                        second = shift_dwords<(kPick + 1) * kPickBits>(positions);
      const F32 first_weights = load_floats(weights + v * kVecBytes),
                second_weights = load_floats(weights + (kVecs + v) * kVecBytes);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const F32 channels = row(r, channels_at(kPick));
        add_in_place(pick_floats(channels, first), first_weights, acc.v[r][v]);
        add_in_place(pick_floats(channels, second), second_weights, acc.v[r][v]);
      }
    }
  }
  template <int... kPairs>
  CAMSHAFT_INLINE_MEMBER void add_block(std::integer_sequence<int, kPairs...>) {
    (add_two<kTogether * kPairs>(b), ...);
  }

  // The last block, of fewer picks.
  CAMSHAFT_INLINE_MEMBER void add_rest(int64_t picks) {
    PackedLanes positions[kVecs];
    for (int v = 0; v < kVecs; ++v) positions[v] = load_lanes(b + v * kVecBytes);
    const std::byte* weights = b + kVecs * kVecBytes;
    for (int64_t pick = 0; pick < picks; ++pick, weights += kVecs * kVecBytes) {
      const int64_t channel = channels_at(pick);
      const int left = static_cast<int>(picks * kChannelsPerPick - channel);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const F32 channels =
            pick_row(reinterpret_cast<const float*>(rows.at(r) + channel * kFloatBytes), left);
#pragma GCC unroll 8
        for (int v = 0; v < kVecs; ++v)
          add_in_place(pick_floats(channels, positions[v]), load_floats(weights + v * kVecBytes),
                       acc.v[r][v]);
      }
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) positions[v] = shift_dwords<kPickBits>(positions[v]);
    }
  }

  CAMSHAFT_INLINE_MEMBER void run(int64_t picks) {
    constexpr auto kPairs = std::make_integer_sequence<int, kBlockPicks / kTogether>();
    constexpr int64_t kBlockBytes = (1 + kBlockPicks) * kVecs * kVecBytes;
    for (; picks >= kBlockPicks; picks -= kBlockPicks) {
      add_block(kPairs);
      if constexpr (kRows <= kRowsPerBase) ahead += kBlockBytes;
      b += kBlockBytes;
      rows.advance(kBlockPicks * kChannelsPerPick * kFloatBytes);
    }
    if (picks > 0) add_rest(picks);
  }
};

template <int kRows, int kVecs>
CAMSHAFT_INLINE void add_picks(const Tile& t, const std::byte* a,
                               Accumulators<F32, kRows, kVecs>& acc) {
  const std::byte* ahead = t.ahead.from ? t.ahead.from : t.b.first;
  const int64_t ahead_step = t.ahead.from ? t.ahead.step : 0;
  for (int64_t segment = 0; segment < t.k.num_segments; ++segment) {
    const std::byte* b = t.b.first + t.k.segments[segment].b * t.b.stride;
    if (kRows <= kRowsPerBase && t.ahead.from) ahead = b + (t.ahead.from - t.b.first);
    PickLoop<kRows, kVecs> loop{acc, StepRows<kRows>(a + t.k.segments[segment].a, t.a.stride), b,
                                ahead, ahead_step};
    loop.run(t.k.length);
    ahead = loop.ahead;
  }
}

template <int kRows, int kVecs>
struct PickTile {
  static void run(const Tile& t) {
    run_float_tiles<kRows, kVecs, true>(
        t, [&t](const std::byte* a, Accumulators<F32, kRows, kVecs>& acc)
               __attribute__((always_inline)) { add_picks(t, a, acc); });
  }
};

constexpr KernelTable<PickTile, kMaxPickRows> kTable;

}  // namespace

int pick_max_rows(int vecs) {
  return kMaxPickRows[vecs];
}

TileKernel pick_tile_kernel(int vecs, int rows) {
  return kTable.at(vecs, rows);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
