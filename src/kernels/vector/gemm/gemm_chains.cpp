// SPDX-License-Identifier: Apache-2.0
// A panel is: for each span where its chains of 4, of 2, its single steps and its 16-bit steps end;
// the steps in the order they are taken, numbered within their span; their rows of weights.
#include "kernels/vector/gemm/gemm_chains.h"

#include <cstring>

#include "kernels/vector/counts.h"
#include "kernels/vector/gemm/gemm_byte_kernels.h"

#if defined(CAMSHAFT_HAS_BYTE_PAIRS)
#include "kernels/vector/gemm/gemm_byte_tile.h"
#include "kernels/vector/gemm/gemm_chain_sort.h"
#endif

namespace camshaft::kernels::CAMSHAFT_TARGET {

#if !defined(CAMSHAFT_HAS_BYTE_PAIRS)

Panels byte_panels(int64_t n, const Spans& spans, int max_vecs) {
  return Panels(n, spans.count * spans.steps, max_vecs);
}

void pack_byte_steps(const std::byte* natural, const Spans& spans, int64_t width, int64_t,
                     std::byte* panel) {
  std::memcpy(panel, natural, static_cast<size_t>(spans.count * spans.steps * width * kLaneBytes));
}

TileKernel byte_panel_kernel(const std::byte* panel, const Spans&, int vecs, int rows, Tile& tile) {
  tile.b.first = panel;
  return byte_tile_kernel(vecs, rows);
}

void count_products(const std::byte*, const Spans& spans, int64_t width, ProductShares& shares) {
  (uses(Feature::kVnni) ? shares.vnni : shares.words) += spans.count * spans.steps * width;
}

#else

namespace {

int64_t order_at(const Spans& spans) {  // in bytes
  return spans.count * kChainKinds * static_cast<int64_t>(sizeof(int32_t));
}
int64_t rows_at(const Spans& spans) {
  const int64_t bytes =
      order_at(spans) + spans.count * spans.steps * static_cast<int64_t>(sizeof(int32_t));
  return round_up(bytes, 64);
}

// The rows of A at one step: four or five index registers reach six rows.
struct RowPitch {
  int64_t s, s3, s5;
  CAMSHAFT_INLINE_MEMBER const std::byte* at(const std::byte* a, int row) const {
    return a + (row == 3 ? s3 : row == 5 ? s5 : row * s);
  }
};

// Steps [first, end) of a span, kDepth at a time.
template <int kDepth, int kRows, int kVecs>
CAMSHAFT_INLINE void add_chains(const Tile& t, const std::byte* a, int64_t first, int64_t end,
                                Accumulators<I32, kRows, kVecs>& acc) {
  const RowPitch pitch{t.a.stride, 3 * t.a.stride, 5 * t.a.stride};
  const int64_t b_stride = t.b.stride;
  const int32_t* step = t.chain.order + first;
  const int32_t* const last = t.chain.order + end;
  const std::byte* b = t.b.first + first * b_stride;
  for (; step != last; step += kDepth) {
    PackedLanes sum[kRows][kVecs];
#pragma GCC unroll 4
    for (int d = 0; d < kDepth; ++d) {
      const std::byte* a_step = a + t.chain.offsets[step[d]];
      PackedLanes column[kVecs];
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) {
        column[v] = load_lanes(b + v * kLanes * kLaneBytes);
        if (kRows > 1) keep_order(column[v]);
      }
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const PackedLanes row = broadcast_lane(pitch.at(a_step, r));
#pragma GCC unroll 8
        for (int v = 0; v < kVecs; ++v) {
          const PackedLanes product = multiply_byte_pairs(row, column[v]);
          sum[r][v] = d == 0 ? product : add_pair_sums(sum[r][v], product);
          keep_order(sum[r][v]);
        }
      }
      b += b_stride;
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) {
        widen_pair_sums(sum[r][v], acc.v[r][v]);
        keep_order(acc.v[r][v].v);
      }
  }
}

template <int kRows, int kVecs>
CAMSHAFT_INLINE void add_words(const Tile& t, const std::byte* a, int64_t first, int64_t end,
                               Accumulators<I32, kRows, kVecs>& acc) {
  const RowPitch pitch{t.a.stride, 3 * t.a.stride, 5 * t.a.stride};
  const int32_t* step = t.chain.order + first;
  const int32_t* const last = t.chain.order + end;
  const std::byte* b = t.b.first + first * t.b.stride;
  const WordProduct product;
  for (; step != last; ++step, b += t.b.stride) {
    const std::byte* a_step = a + t.chain.offsets[*step];
    WordProduct::Column column[kVecs];
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) column[v] = product.column(b + v * kLanes * kLaneBytes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const WordProduct::Row row = product.row(pitch.at(a_step, r));
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) product.add_product(row, column[v], acc.v[r][v]);
    }
  }
}

template <int kRows, int kVecs>
struct ChainTile {
  static void run(const Tile& t) {
    run_byte_tiles<kRows, kVecs>(
        t, [&t](const TilePart& part, Sums& acc)
               __attribute__((always_inline)) { add(t, part.a, acc); });
  }

 private:
  using Sums = Accumulators<I32, kRows, kVecs>;

  CAMSHAFT_INLINE void add(const Tile& t, const std::byte* row, Sums& acc) {
    for (int64_t segment = 0; segment < t.k.num_segments; ++segment) {
      const std::byte* a = row + t.k.segments[segment].a;
      const int32_t* ends = t.chain.ends + t.k.segments[segment].b * kChainKinds;
      const int64_t first = t.k.segments[segment].b == 0 ? 0 : ends[-1];
      add_chains<4>(t, a, first, ends[0], acc);
      add_chains<2>(t, a, ends[0], ends[1], acc);
      add_chains<1>(t, a, ends[1], ends[2], acc);
      add_words(t, a, ends[2], ends[3], acc);
    }
  }
};

// With AVX-VNNI the order of the steps does not matter: the same panels serve both.
template <int kRows, int kVecs>
struct VnniTile {
  static void run(const Tile& t) {
    run_byte_tiles<kRows, kVecs>(
        t, [&t](const TilePart& part, Sums& acc)
               __attribute__((always_inline)) { add(t, part.a, acc); });
  }

 private:
  using Sums = Accumulators<I32, kRows, kVecs>;

  CAMSHAFT_INLINE void add(const Tile& t, const std::byte* row, Sums& acc) {
    const RowPitch pitch{t.a.stride, 3 * t.a.stride, 5 * t.a.stride};
    const VnniProduct product;
    for (int64_t segment = 0; segment < t.k.num_segments; ++segment) {
      const std::byte* a = row + t.k.segments[segment].a;
      const int32_t* ends = t.chain.ends + t.k.segments[segment].b * kChainKinds;
      const int64_t first = t.k.segments[segment].b == 0 ? 0 : ends[-1];
      const int32_t* const last = t.chain.order + ends[kChainKinds - 1];
      const std::byte* b = t.b.first + first * t.b.stride;
      for (const int32_t* step = t.chain.order + first; step != last; ++step, b += t.b.stride) {
        const std::byte* a_step = a + t.chain.offsets[*step];
        PackedLanes column[kVecs];
#pragma GCC unroll 8
        for (int v = 0; v < kVecs; ++v) column[v] = product.column(b + v * kLanes * kLaneBytes);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          const PackedLanes lanes = product.row(pitch.at(a_step, r));
#pragma GCC unroll 8
          for (int v = 0; v < kVecs; ++v) product.add_product(lanes, column[v], acc.v[r][v]);
        }
      }
    }
  }
};

constexpr KernelTable<ChainTile, kMaxByteRows> kTable;
constexpr KernelTable<VnniTile, kMaxVnniRows> kVnniTable;

}  // namespace

Panels byte_panels(int64_t n, const Spans& spans, int max_vecs) {
  Panels panels(n, spans.count * spans.steps, max_vecs);
  panels.vec_lanes += rows_at(spans) / kLaneBytes;
  return panels;
}

void pack_byte_steps(const std::byte* natural, const Spans& spans, int64_t width, int64_t x_maximum,
                     std::byte* panel) {
  const int64_t row_bytes = width * kLaneBytes;
  int32_t* ends = reinterpret_cast<int32_t*>(panel);
  int32_t* order = reinterpret_cast<int32_t*>(panel + order_at(spans));
  std::byte* rows = panel + rows_at(spans);
  ChainSorter sorter(spans.steps, width, x_maximum);
  for (int64_t span = 0; span < spans.count; ++span, ends += kChainKinds) {
    const std::byte* from = natural + span * spans.steps * row_bytes;
    sorter.sort(reinterpret_cast<const int8_t*>(from), ends, order + span * spans.steps);
    for (int kind = 0; kind < kChainKinds; ++kind)
      ends[kind] += static_cast<int32_t>(span * spans.steps);
    for (int64_t k = 0; k < spans.steps; ++k, rows += row_bytes)
      std::memcpy(rows, from + order[span * spans.steps + k] * row_bytes,
                  static_cast<size_t>(row_bytes));
  }
}

TileKernel byte_panel_kernel(const std::byte* panel, const Spans& spans, int vecs, int rows,
                             Tile& tile) {
  tile.b.first = panel + rows_at(spans);
  tile.chain.ends = reinterpret_cast<const int32_t*>(panel);
  tile.chain.order = reinterpret_cast<const int32_t*>(panel + order_at(spans));
  return uses(Feature::kVnni) ? kVnniTable.at(vecs, rows) : kTable.at(vecs, rows);
}

void count_products(const std::byte* panel, const Spans& spans, int64_t width,
                    ProductShares& shares) {
  if (uses(Feature::kVnni)) {
    shares.vnni += spans.count * spans.steps * width;
    return;
  }
  const int32_t* ends = reinterpret_cast<const int32_t*>(panel);
  int64_t* const parts[kChainKinds] = {&shares.chain4, &shares.chain2, &shares.single,
                                       &shares.words};
  int32_t first = 0;
  for (int64_t k = 0; k < spans.count * kChainKinds; first = ends[k++])
    *parts[k % kChainKinds] += (ends[k] - first) * width;
}

#endif

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
