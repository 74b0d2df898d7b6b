// SPDX-License-Identifier: Apache-2.0
// Weights of few bits in products of floats, for few rows: codes become floats in registers, once
// for the rows of a tile. With AVX2 a vector of codes takes four instructions, and as many are a
// fused multiply-add for each of four rows, on other ports. Three bytes of an integer per element
// (matmul_nbits_i24) take 1.2 (4 bits) and 3.4 (8 bits) times as long for four rows of 1024x4096 on
// Zen 3.
#include "kernels/simd/bytes.h"
#include "kernels/simd/dwords.h"
#include "kernels/vector/gemm/gemm_cost.h"
#include "kernels/vector/low_bit/matmul_nbits_layer.h"
#include "kernels/vector/prepare.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::matmul_nbits_direct {
namespace {

using ir::DataType;

constexpr int kMostDirectRows = 4;   // of a tile
constexpr int64_t kRowsOfUnit = 64;  // that one thread takes with a panel

// ---- a tile

struct DirectTile {
  const std::byte* panel;
  const float* a;
  int64_t a_stride;  // floats between rows
  const BitGeometry* geometry;
  float* y;
  int64_t y_stride;
  int64_t columns;  // of the panel that there are
};
using DirectKernel = void (*)(const DirectTile&);

// Of kVecs vectors of columns in a block.
template <int kVecs>
struct BlockColumns {
  F32 scale[kVecs], zero[kVecs];

  BlockColumns(const BitGeometry& g, const std::byte* block, int64_t column) {
    const auto* scales = reinterpret_cast<const float*>(block);
    const std::byte* zeros = block + kPanelColumns * int64_t{sizeof(float)};
    for (int v = 0; v < kVecs; ++v) {
      const int64_t lane = column + v * kLanes;
      scale[v] = load(scales + lane);
      zero[v] = g.zero == DataType::kFloat ? load(reinterpret_cast<const float*>(zeros) + lane)
                : g.zero == DataType::kUInt8
                    ? to_float(load_bytes(reinterpret_cast<const uint8_t*>(zeros) + lane))
                    : set1(static_cast<float>(g.centre));
    }
  }
};

// Rows of a tile from element `k` on.
template <int kRows>
struct TileRows {
  const float* row[kRows];

  TileRows(const DirectTile& t, int64_t k) {
    for (int r = 0; r < kRows; ++r) row[r] = t.a + r * t.a_stride + k;
  }
};

// Code `in` of each of the dwords times the rows' elements k.
template <int kBits, int kRows, int kVecs>
CAMSHAFT_INLINE void add_products(const std::byte* dwords, int in, const F32 (&zero)[kVecs],
                                  const TileRows<kRows>& a, int64_t k, F32 (&sums)[kRows][kVecs]) {
  F32 weights[kVecs];
#pragma GCC unroll 8
  for (int v = 0; v < kVecs; ++v)
    weights[v] =
        codes_as_floats<kBits>(dwords + v * kLanes * 4, in % 4 * 8 + in / 4 * kBits) - zero[v];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    const F32 x = set1(a.row[r][k]);
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) sums[r][v] = fma(x, weights[v], sums[r][v]);
  }
}

template <int kBits, int kRows, int kVecs>
CAMSHAFT_INLINE void sum_block(const std::byte* dwords, const F32 (&zero)[kVecs],
                               const TileRows<kRows> a, int64_t count, F32 (&sums)[kRows][kVecs]) {
  constexpr int kCodes = 32 / kBits;
  int64_t k = 0;
  for (; k + kCodes <= count; k += kCodes, dwords += kPanelColumns * 4) {
#pragma GCC unroll 16
    for (int in = 0; in < kCodes; ++in) {
      add_products<kBits>(dwords, in, zero, a, k + in, sums);
      // Registers are full: loads moved up from the next code would spill sums.
      __asm__ volatile("" ::: "memory");
    }
  }
  for (int in = 0; k + in < count; ++in) add_products<kBits>(dwords, in, zero, a, k + in, sums);
}

// The columns of a panel from `column` on.
template <int kBits, int kRows, int kVecs>
void multiply_columns(const DirectTile& t, int64_t column) {
  const BitGeometry& g = *t.geometry;
  F32 total[kRows][kVecs] = {};
  const std::byte* block = t.panel;
  for (int64_t b = 0; b < g.blocks; ++b, block += g.block_bytes()) {
    const BlockColumns<kVecs> columns(g, block, column);
    F32 sums[kRows][kVecs] = {};
    sum_block<kBits>(block + g.header_bytes() + column * 4, columns.zero,
                     TileRows<kRows>(t, b * g.block), smaller(g.block, g.depth - b * g.block),
                     sums);
    for (int r = 0; r < kRows; ++r)
      for (int v = 0; v < kVecs; ++v) total[r][v] = fma(sums[r][v], columns.scale[v], total[r][v]);
  }
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVecs; ++v) {
      const int64_t first = column + v * kLanes, left = t.columns - first;
      float* y = t.y + r * t.y_stride + first;
      if (left >= kLanes)
        store(y, total[r][v]);
      else if (left > 0)
        store_first(y, total[r][v], static_cast<int>(left));
    }
}

template <int kBits, int kRows>
void multiply(const DirectTile& t) {
  // Eight sums in registers; a row or two take a panel's dwords in the order they lie.
  constexpr int kVecs = kRows <= 2 ? kPanelVecs : 2;
  for (int64_t column = 0; column < t.columns; column += kVecs * kLanes)
    multiply_columns<kBits, kRows, kVecs>(t, column);
}

template <int kBits>
DirectKernel kernel_of_rows(int rows) {
  static constexpr DirectKernel kKernels[kMostDirectRows] = {
      multiply<kBits, 1>, multiply<kBits, 2>, multiply<kBits, 3>, multiply<kBits, 4>};
  return kKernels[rows - 1];
}

DirectKernel direct_kernel(int bits, int rows) {
  if (bits == 2) return kernel_of_rows<2>(rows);
  return bits == 4 ? kernel_of_rows<4>(rows) : kernel_of_rows<8>(rows);
}

// ---- the layer

struct DirectRun {
  BitGeometry geometry;
  MatmulRun matmul;
  bool shares = false;

  explicit DirectRun(const BitGeometry& g) : geometry(g) {}
};

// Rows [first, last) of a matrix times a panel.
void run_panel(const DirectRun& run, const std::byte* packed, int64_t image, int64_t row,
               int64_t panel, int64_t first, int64_t last) {
  const TileFinish& finish = run.matmul.finish;
  const BitGeometry& g = run.geometry;
  const int64_t channel = panel * kPanelColumns;
  const int64_t columns = smaller(kPanelColumns, g.columns - channel);
  const std::byte* a = run.matmul.a.data + image * run.matmul.a.image + row * run.matmul.a.row;
  for (int64_t m = first; m < last; m += kMostDirectRows) {
    const int rows = static_cast<int>(smaller(kMostDirectRows, last - m));
    const TilePlace place{image, row, m, rows};
    std::byte* y = finish.out.data + image * finish.out.image + row * finish.out.row +
                   m * finish.out.pixel + channel * kLaneBytes;
    direct_kernel(g.bits, rows)({.panel = packed + panel * g.panel_bytes(),
                                 .a = reinterpret_cast<const float*>(a + m * run.matmul.a.m),
                                 .a_stride = run.matmul.a.m / kLaneBytes,
                                 .geometry = &g,
                                 .y = reinterpret_cast<float*>(y),
                                 .y_stride = finish.out.pixel / kLaneBytes,
                                 .columns = columns});
    add_initial(finish, place, channel, columns);
    finish_tiles(finish, place, channel, columns);
  }
}

void run_rows(DirectRun& run, const KernelCall& call) {
  MatmulRun& matmul = run.matmul;
  set_addresses(call, matmul);
  const int64_t parts = ceil_div(matmul.m, kRowsOfUnit);
  const int64_t units = matmul.images * matmul.rows * run.geometry.panels() * parts;
  const auto body = [&](int, int64_t from, int64_t end) {
    for (int64_t unit = from; unit < end; ++unit) {
      const int64_t part = unit % parts, panel = unit / parts % run.geometry.panels(),
                    item = unit / parts / run.geometry.panels();
      run_panel(run, call.packed, item / matmul.rows, item % matmul.rows, panel, part * kRowsOfUnit,
                smaller(part * kRowsOfUnit + kRowsOfUnit, matmul.m));
    }
  };
  if (run.shares)
    call.pool->parallel_ranges(units, body);
  else
    body(0, 0, units);
}

void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  DirectRun run{BitGeometry(args.layer->as<ir::LowBits>())};
  set_low_bits(args, run.matmul);
  set_program(run.matmul.finish);
  run.matmul.k = run.geometry.depth;
  run.shares = threads_of(args) > 1 && macs_of(run.matmul) > kMacsWorthThreads;
  keep_state<run_rows>(kernel, run);
}

double cost_us(const Problem& problem) {
  const BitGeometry g(low_bits_of(problem));
  const double vectors =
      static_cast<double>(g.panels() * kPanelVecs) * static_cast<double>(g.depth);
  const auto rows = static_cast<double>(low_bit_rows(problem));
  const double tiles = __builtin_ceil(rows / kMostDirectRows);
  const double unpacking = (rows + tiles * 4) / 4, multiplying = rows / 2;
  const double us =
      vectors * (unpacking > multiplying ? unpacking : multiplying) / 2700 / problem.threads;
  const double stream_us = static_cast<double>(packed_low_bits_bytes(problem)) / 60e3;
  return 0.3 + (us > stream_us ? us : stream_us);
}

std::string arithmetic(const Problem& problem, const std::byte*) {
  return describe_low_bits(problem, "floats");
}

constexpr Tactic kTactics[] = {{.name = "matmul_nbits_direct_f32",
                                .kind = ir::LayerKind::kLowBitMultiply,
                                .isa = kIsa,
                                .formats = FormatRule::kLinear,
                                .version = 1,
                                .refusal = refuse_low_bits,
                                .cost_us = cost_us,
                                .packed_inputs = packed_low_bits,
                                .packed_bytes = packed_low_bits_bytes,
                                .pack = pack_low_bits,
                                .prepare = prepare,
                                .arithmetic = arithmetic}};

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::matmul_nbits_direct
