// SPDX-License-Identifier: Apache-2.0
// 32x32, per 16 steps of K: four tile loads and four products of 16 cycles each, 16,384 MAC of
// bytes or 8,192 of bfloat16s in a product: 1,024 or 512 MAC a cycle, eight times vpdpbusd or
// vdpbf16ps on one port. One of the operands comes from L2 (a tile of 32 rows and the panel of 768
// bytes do not fit in L1 together with the next), 32 of the 48 bytes a cycle it gives.
#include "kernels/vector/gemm/gemm_amx.h"

#if defined(CAMSHAFT_HAS_AMX)

#include <array>

#include "kernels/vector/gemm/gemm_bf16_tile.h"
#include "kernels/vector/gemm/gemm_byte_tile.h"
#include "kernels/vector/gemm/gemm_cost.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

constexpr int kTileRows = 16, kTileBytes = 64, kTileSteps = kTileBytes / kLaneBytes;

// What ldtilecfg reads (palette 1): the shape of every register. Sums are 0 to 3, A 4 and 5, B 6
// and 7.
struct Shapes {
  uint8_t palette = 1, start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t bytes[16] = {};
  uint8_t rows[16] = {};

  constexpr explicit Shapes(int tile_rows) {
    const int upper = tile_rows < kTileRows ? tile_rows : kTileRows, lower = tile_rows - upper;
    for (int k = 0; k < 8; ++k) {
      const bool is_b = k >= 6, is_lower = !is_b && (k < 4 ? k >= 2 : k == 5);
      rows[k] = static_cast<uint8_t>(is_b ? kTileRows : is_lower ? lower : upper);
      bytes[k] = rows[k] > 0 ? kTileBytes : 0;
    }
  }
};
static_assert(sizeof(Shapes) == 64);

template <int... kRowsMinusOne>
constexpr std::array<Shapes, sizeof...(kRowsMinusOne)> all_shapes(
    std::integer_sequence<int, kRowsMinusOne...>) {
  return {Shapes(kRowsMinusOne + 1)...};
}
alignas(64) constexpr auto kShapes = all_shapes(std::make_integer_sequence<int, kAmxRows>());

// Registers of a configuration, which ends with the object: what runs next on this thread may have
// its own, and a thread without one is switched faster.
class Configured {
 public:
  explicit Configured(int rows) { asm volatile("ldtilecfg %0" : : "m"(kShapes[rows - 1])); }
  Configured(const Configured&) = delete;
  ~Configured() { asm volatile("tilerelease"); }
};

// Written in assembly: the rest of the source needs no AMX.
template <int kRegister>
CAMSHAFT_INLINE void load_matrix(const std::byte* from, int64_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(kRegister));
}
template <int kRegister>
CAMSHAFT_INLINE void store_matrix(void* to, int64_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)"
               :
               : "r"(to), "r"(stride), "i"(kRegister)
               : "memory");
}
template <int kRegister>
CAMSHAFT_INLINE void clear_matrix() {
  asm volatile("tilezero %%tmm%c0" : : "i"(kRegister));
}

constexpr int kFinishRows = 8;  // sums finished together, in vector registers

template <int kVecs>
struct Sums {
  alignas(64) int32_t of[kAmxRows][kVecs * kLanes];
};

struct ByteMatrices {
  template <int kSum, int kA, int kB>
  static CAMSHAFT_INLINE_MEMBER void add() {
    asm volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kA), "i"(kB));
  }

  template <int kRows, int kVecs>
  static void finish(const Tile& t, const TilePart& part, const int32_t (*sums)[kVecs * kLanes]) {
    Accumulators<I32, kRows, kVecs> acc;
    start_bytes(t, part, acc);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
      for (int v = 0; v < kVecs; ++v) acc.v[r][v] = acc.v[r][v] + iload(sums[r] + v * kLanes);
    finish_bytes(t, part, acc);
  }
};

// Rounds to nearest even and flushes denormals, as vdpbf16ps.
struct PairMatrices : StoresByInstruction {
  template <int kSum, int kA, int kB>
  static CAMSHAFT_INLINE_MEMBER void add() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kA), "i"(kB));
  }

  template <int kRows, int kVecs>
  static void finish(const Tile& whole, const TilePart& part,
                     const int32_t (*sums)[kVecs * kLanes]) {
    Tile t = whole;
    t.c.first = part.c;
    t.residual.first = part.residual;
    Accumulators<F32, kRows, kVecs> acc;
    start_floats(t, t.c.first, first_n(static_cast<int>(t.c.cols - (kVecs - 1) * kLanes)), acc);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
      for (int v = 0; v < kVecs; ++v)
        acc.v[r][v] = acc.v[r][v] + bits_as_float(iload(sums[r] + v * kLanes));
    finish_pairs<PairMatrices>(t, acc);
  }
};

// Steps of a segment beyond its last whole tile: A and B with zeros behind them.
template <int kVecs>
struct Rest {
  alignas(64) std::byte a[kAmxRows][kTileBytes];
  alignas(64) std::byte b[kTileSteps][kVecs * kTileBytes];

  void copy(const std::byte* from_a, int64_t a_stride, int rows, const std::byte* from_b,
            int64_t b_stride, int64_t steps) {
    const __mmask16 mask = first_n(static_cast<int>(steps)).m;
    for (int r = 0; r < rows; ++r)
      _mm512_store_si512(a[r], _mm512_maskz_loadu_epi32(mask, from_a + r * a_stride));
    for (int k = 0; k < kTileSteps; ++k)
      for (int v = 0; v < kVecs; ++v)
        _mm512_store_si512(b[k] + v * kTileBytes,
                           k < steps ? _mm512_loadu_si512(from_b + k * b_stride + v * kTileBytes)
                                     : _mm512_setzero_si512());
  }
};

// Adds the product of a tile of A and one of B to the sums; kBoth: of more than 16 rows.
template <class P, int kVecs, bool kBoth>
CAMSHAFT_INLINE void add_product(const std::byte* a, int64_t a_stride, const std::byte* b,
                                 int64_t b_stride) {
  load_matrix<6>(b, b_stride);
  load_matrix<4>(a, a_stride);
  P::template add<0, 4, 6>();
  if constexpr (kVecs == 2) {
    load_matrix<7>(b + kTileBytes, b_stride);
    P::template add<1, 4, 7>();
  }
  if constexpr (kBoth) {
    load_matrix<5>(a + kTileRows * a_stride, a_stride);
    P::template add<2, 5, 6>();
    if constexpr (kVecs == 2) P::template add<3, 5, 7>();
  }
}

// Where in K a tile is.
struct Place {
  int64_t segment = 0, step = 0;
};

// Sums of one tile: where they start from and where they are kept.
template <bool kBoth, int kVecs>
CAMSHAFT_INLINE void start_matrices(Sums<kVecs>& sums, bool goes_on) {
  constexpr int64_t kStride = kVecs * kTileBytes;
  const auto lower = reinterpret_cast<const std::byte*>(sums.of[kTileRows]);
  const auto upper = reinterpret_cast<const std::byte*>(sums.of[0]);
  if (goes_on) {
    load_matrix<0>(upper, kStride);
    if constexpr (kVecs == 2) load_matrix<1>(upper + kTileBytes, kStride);
    if constexpr (kBoth) load_matrix<2>(lower, kStride);
    if constexpr (kBoth && kVecs == 2) load_matrix<3>(lower + kTileBytes, kStride);
    return;
  }
  clear_matrix<0>();
  if constexpr (kVecs == 2) clear_matrix<1>();
  if constexpr (kBoth) clear_matrix<2>();
  if constexpr (kBoth && kVecs == 2) clear_matrix<3>();
}
template <bool kBoth, int kVecs>
CAMSHAFT_INLINE void keep_matrices(Sums<kVecs>& sums) {
  constexpr int64_t kStride = kVecs * kTileBytes;
  store_matrix<0>(sums.of[0], kStride);
  if constexpr (kVecs == 2) store_matrix<1>(sums.of[0] + kLanes, kStride);
  if constexpr (kBoth) store_matrix<2>(sums.of[kTileRows], kStride);
  if constexpr (kBoth && kVecs == 2) store_matrix<3>(sums.of[kTileRows] + kLanes, kStride);
}

// Adds at most `blocks` registers of K from `place` on to the sums of a tile; gives where that
// ends.
template <class P, int kVecs, bool kBoth>
Place multiply_matrices(const Tile& t, const std::byte* first, const std::byte*& ahead, int rows,
                        Place place, int64_t blocks, Rest<kVecs>& rest, Sums<kVecs>& sums) {
  start_matrices<kBoth>(sums, place.segment > 0 || place.step > 0);
  const int64_t a_stride = t.a.stride, b_stride = t.b.stride;
  for (; place.segment < t.k.num_segments && blocks > 0; ++place.segment, place.step = 0) {
    const Segment& segment = t.k.segments[place.segment];
    const std::byte *a = first + segment.a + place.step * kLaneBytes,
                    *b = t.b.first + (segment.b + place.step) * b_stride;
    int64_t left = t.k.length - place.step;
    for (; left >= kTileSteps && blocks > 0; left -= kTileSteps, --blocks) {
      add_product<P, kVecs, kBoth>(a, a_stride, b, b_stride);
      a += kTileBytes;
      b += kTileSteps * b_stride;
      if (ahead)
        for (int k = 0; k < kTileSteps; ++k, ahead += t.ahead.step) __builtin_prefetch(ahead, 0, 2);
    }
    if (left > 0 && blocks > 0) {
      rest.copy(a, a_stride, rows, b, b_stride, left);
      add_product<P, kVecs, kBoth>(rest.a[0], kTileBytes, rest.b[0], kVecs * kTileBytes);
      left = 0;
      --blocks;
    }
    if (left > 0) {
      place.step = t.k.length - left;
      break;
    }
  }
  keep_matrices<kBoth>(sums);
  return place;
}

template <class P, int kVecs, int kRows>
void finish_rows(const Tile& t, const TilePart& part, int rows,
                 const int32_t (*sums)[kVecs * kLanes]) {
  if (rows == kRows) return P::template finish<kRows, kVecs>(t, part, sums);
  if constexpr (kRows > 1) finish_rows<P, kVecs, kRows - 1>(t, part, rows, sums);
}

// A panel longer than L1 is read from L2 for every tile, as is A: 64 bytes a cycle, which L2 does
// not give. So tiles that go down the pixels together take K in parts, whose part of the panel
// stays in L1.
constexpr int64_t kPartBlocks = 8, kTogether = 4;

int64_t blocks_of(const Tile& t) {
  return t.k.num_segments * ((t.k.length + kTileSteps - 1) / kTileSteps);
}

template <class P, int kVecs>
void finish_tile(const Tile& t, TilePart& part, int rows, const Sums<kVecs>& sums) {
  for (int row = 0; row < rows; row += kFinishRows) {
    const int together = rows - row < kFinishRows ? rows - row : kFinishRows;
    finish_rows<P, kVecs, kFinishRows>(t, part, together, sums.of + row);
    part.advance(t, together);
  }
}

template <class P, int kVecs>
void run_matrices(const Tile& t, int rows) {
  Rest<kVecs> rest;
  Sums<kVecs> sums[kTogether];
  const Configured configured(rows);
  TilePart part(t);
  const std::byte* ahead = t.ahead.from;
  const int64_t tile_stride = t.repeats.stride > 0 ? t.repeats.stride : rows * t.a.stride;
  const std::byte* first = t.a.first;
  const bool in_parts = t.repeats.count > 1 && blocks_of(t) > 2 * kPartBlocks;
  const int64_t blocks = in_parts ? kPartBlocks : INT64_MAX;
  for (int64_t left = t.repeats.count; left > 0;) {
    const int64_t tiles = !in_parts ? 1 : left < kTogether ? left : kTogether;
    Place place;
    do {
      Place end;
      for (int64_t k = 0; k < tiles; ++k) {
        const std::byte* a = first + k * tile_stride;
        end = rows > kTileRows ? multiply_matrices<P, kVecs, true>(t, a, ahead, rows, place, blocks,
                                                                   rest, sums[k])
                               : multiply_matrices<P, kVecs, false>(t, a, ahead, rows, place,
                                                                    blocks, rest, sums[k]);
      }
      place = end;
    } while (place.segment < t.k.num_segments);
    for (int64_t k = 0; k < tiles; ++k) finish_tile<P>(t, part, rows, sums[k]);
    first += tiles * tile_stride;
    left -= tiles;
  }
}

template <class P, int kVecs>
struct Kernels {
  std::array<TileKernel, kAmxRows> of;

  template <int... kRowsMinusOne>
  constexpr explicit Kernels(std::integer_sequence<int, kRowsMinusOne...>)
      : of{+[](const Tile& t) { run_matrices<P, kVecs>(t, kRowsMinusOne + 1); }...} {}
  constexpr Kernels() : Kernels(std::make_integer_sequence<int, kAmxRows>()) {}
};
constexpr Kernels<ByteMatrices, 1> kByteKernels1;
constexpr Kernels<ByteMatrices, 2> kByteKernels2;
constexpr Kernels<PairMatrices, 1> kPairKernels1;
constexpr Kernels<PairMatrices, 2> kPairKernels2;

template <class P>
void run_chains(int64_t rounds) {
  const Configured configured(kAmxRows);
  clear_matrix<4>();
  clear_matrix<5>();
  clear_matrix<6>();
  clear_matrix<7>();
  for (int64_t round = 0; round < rounds; ++round) {
    P::template add<0, 4, 6>();
    P::template add<1, 4, 7>();
    P::template add<2, 5, 6>();
    P::template add<3, 5, 7>();
  }
}

}  // namespace

TileKernel amx_tile_kernel(Numeric numeric, int vecs, int rows) {
  const size_t row = static_cast<size_t>(rows - 1);
  if (numeric == Numeric::kByte) return vecs == 1 ? kByteKernels1.of[row] : kByteKernels2.of[row];
  return vecs == 1 ? kPairKernels1.of[row] : kPairKernels2.of[row];
}

void run_amx_chains(Numeric numeric, int64_t rounds) {
  numeric == Numeric::kByte ? run_chains<ByteMatrices>(rounds) : run_chains<PairMatrices>(rounds);
}

int64_t amx_macs_per_round(Numeric numeric) {
  return 4 * kTileRows * kTileRows * kTileBytes / element_bytes(numeric);
}

double amx_cost_us(int64_t rows, int64_t strip, int64_t n, int64_t segments, int64_t steps,
                   int max_vecs) {
  constexpr double kCyclesPerUs = 2500, kProduct = 16, kLoad = 12, kBegin = 120, kRest = 80,
                   kFinish = 6;
  const Panels panels(n, steps, max_vecs);
  const EvenSplit tiles = split_evenly(strip, kAmxRows);
  const double blocks = static_cast<double>(segments * ((steps + kTileSteps - 1) / kTileSteps));
  const double rests = steps % kTileSteps == 0 ? 0 : kRest * static_cast<double>(segments);
  double cycles = 0;
  for (int64_t panel = 0; panel < panels.count(); ++panel) {
    const double vecs = panels.vecs_of(panel);
    for_tile_heights(tiles, [&](double count, double pixels) {
      const double high = pixels > kTileRows ? 2 : 1;
      const double products = high * vecs * kProduct, loads = (high + vecs) * kLoad;
      cycles += count * (blocks * (products > loads ? products : loads) + kBegin + rests +
                         pixels * vecs * kFinish);
    });
  }
  return cycles * static_cast<double>(rows) / kCyclesPerUs;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET

#else

namespace camshaft::kernels::CAMSHAFT_TARGET {

bool uses_amx() {
  return false;
}
TileKernel amx_tile_kernel(Numeric, int, int) {
  return nullptr;
}
double amx_cost_us(int64_t, int64_t, int64_t, int64_t, int64_t, int) {
  return 0;
}
void run_amx_chains(Numeric, int64_t) {}
int64_t amx_macs_per_round(Numeric) {
  return 0;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET

#endif
