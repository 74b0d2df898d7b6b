// SPDX-License-Identifier: Apache-2.0
// A panel is: 1 if it is halved; the first row of each step, and of the end; by how many bytes of A
// each row advances; the rows.
#include "kernels/vector/gemm_halves.h"

#include <cstring>

#include "kernels/vector/gemm_byte_kernels.h"

#if defined(CAMSHAFT_TARGET_avx2)
#include "kernels/vector/gemm_byte_tile.h"
#endif

namespace camshaft::kernels::CAMSHAFT_TARGET {

#if !defined(CAMSHAFT_TARGET_avx2)

Panels byte_panels(int64_t n, int64_t steps, int max_vecs) {
  return Panels(n, steps, max_vecs);
}

void pack_halves(const std::byte* natural, int64_t steps, int64_t width, std::byte* panel) {
  std::memcpy(panel, natural, static_cast<size_t>(steps * width * kLaneBytes));
}

TileKernel byte_panel_kernel(const std::byte* panel, int64_t, int vecs, int rows, Tile& tile) {
  tile.b = panel;
  return byte_tile_kernel(vecs, rows);
}

#else

namespace {

// Rows a panel of `steps` has room for: half of the steps may be two.
int64_t most_rows(int64_t steps) {
  return steps + steps / 2;
}
int64_t round_up(int64_t count, int64_t multiple) {
  return (count + multiple - 1) / multiple * multiple;
}
int64_t advances_at(int64_t steps) {  // in bytes
  return (steps + 2) * kLaneBytes;
}
int64_t rows_at(int64_t steps) {
  return round_up(advances_at(steps) + most_rows(steps), 64);
}

constexpr int kMostPositive = 128, kLeastNegative = -128;  // * 255 are within 16 bits

bool is_safe(const int8_t* weights, int64_t count) {
  for (int64_t pair = 0; pair < count; pair += 2) {
    const int w0 = weights[pair], w1 = weights[pair + 1];
    const int positive = (w0 > 0 ? w0 : 0) + (w1 > 0 ? w1 : 0);
    const int negative = (w0 < 0 ? w0 : 0) + (w1 < 0 ? w1 : 0);
    if (positive > kMostPositive || negative < kLeastNegative) return false;
  }
  return true;
}

template <int kRows, int kVecs>
CAMSHAFT_INLINE void multiply_halves(const Tile& t, Accumulators<I32, kRows, kVecs>& acc) {
  constexpr int kBases = (kRows + kRowsPerBase - 1) / kRowsPerBase;
  const int64_t s = t.a_stride, s3 = 3 * s, b_stride = t.b_stride;
  const __m256i ones = _mm256_set1_epi16(1);
  for (int64_t segment = 0; segment < t.num_segments; ++segment) {
    const std::byte* a[kBases];
    a[0] = t.a + t.segments[segment].a;
#pragma GCC unroll 8
    for (int base = 1; base < kBases; ++base) a[base] = a[base - 1] + kRowsPerBase * s;
    const int32_t* first_row = t.first_rows + t.segments[segment].b;
    const uint8_t* advance = t.advances + first_row[0];
    const uint8_t* const end = t.advances + first_row[t.segment_length];
    const std::byte* b = t.b + first_row[0] * b_stride;
    for (; advance != end; ++advance, b += b_stride) {
      __m256i column[kVecs];
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) column[v] = load_lanes(b + v * kLanes * kLaneBytes);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const int step = r % kRowsPerBase;
        const __m256i row = broadcast_lane(a[r / kRowsPerBase] + (step == 3 ? s3 : step * s));
#pragma GCC unroll 8
        for (int v = 0; v < kVecs; ++v)
          acc.v[r][v].v = _mm256_add_epi32(
              acc.v[r][v].v, _mm256_madd_epi16(_mm256_maddubs_epi16(row, column[v]), ones));
      }
      const int64_t bytes = *advance;
#pragma GCC unroll 8
      for (int base = 0; base < kBases; ++base) a[base] += bytes;
    }
  }
}

template <int kRows, int kVecs>
struct HalvesTile {
  static void run(const Tile& t) {
    Accumulators<I32, kRows, kVecs> acc;
    start_bytes(t, acc);
    multiply_halves(t, acc);
    finish_bytes(t, acc);
  }
};

constexpr KernelTable<HalvesTile, kMaxByteRows> kTable;

}  // namespace

Panels byte_panels(int64_t n, int64_t steps, int max_vecs) {
  Panels panels(n, steps, max_vecs);
  panels.vec_lanes = most_rows(steps) * kLanes + rows_at(steps) / kLaneBytes;
  return panels;
}

void pack_halves(const std::byte* natural, int64_t steps, int64_t width, std::byte* panel) {
  const int64_t row_bytes = width * kLaneBytes;
  int64_t unsafe = 0;
  const auto weights = [natural, row_bytes](int64_t step) {
    return reinterpret_cast<const int8_t*>(natural + step * row_bytes);
  };
  for (int64_t step = 0; step < steps; ++step) unsafe += is_safe(weights(step), row_bytes) ? 0 : 1;
  int32_t* header = reinterpret_cast<int32_t*>(panel);
  std::byte* rows = panel + rows_at(steps);
  // Halved, a step costs twice its safe form, 1.4 times its 16-bit form.
  header[0] = 2 * unsafe <= steps ? 1 : 0;
  if (header[0] == 0) {
    std::memcpy(rows, natural, static_cast<size_t>(steps * row_bytes));
    return;
  }
  std::byte* advance = panel + advances_at(steps);
  int32_t row = 0;
  for (int64_t step = 0; step < steps; ++step) {
    header[1 + step] = row;
    const int8_t* from = weights(step);
    int8_t* to = reinterpret_cast<int8_t*>(rows + row * row_bytes);
    const bool safe = is_safe(from, row_bytes);
    for (int64_t k = 0; k < row_bytes; ++k) {
      const int half = from[k] >> 1;
      to[k] = safe ? from[k] : static_cast<int8_t>(half);
      if (!safe) to[row_bytes + k] = static_cast<int8_t>(from[k] - half);
    }
    if (!safe) advance[row++] = std::byte{0};
    advance[row++] = std::byte{kLaneBytes};
  }
  header[1 + steps] = row;
}

TileKernel byte_panel_kernel(const std::byte* panel, int64_t steps, int vecs, int rows,
                             Tile& tile) {
  const int32_t* header = reinterpret_cast<const int32_t*>(panel);
  tile.b = panel + rows_at(steps);
  tile.first_rows = header + 1;
  tile.advances = reinterpret_cast<const uint8_t*>(panel + advances_at(steps));
  return header[0] != 0 ? kTable.at(vecs, rows) : word_tile_kernel(vecs, rows);
}

#endif

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
