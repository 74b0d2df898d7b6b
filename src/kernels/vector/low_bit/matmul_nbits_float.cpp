// SPDX-License-Identifier: Apache-2.0
// Weights of few bits in products of floats, for many rows: a part of the depth of some vectors of
// columns becomes floats in L1, and all tiles of rows pass it. Sums wait in the output.
#include "kernels/simd/bytes.h"
#include "kernels/simd/dwords.h"
#include "kernels/vector/gemm/gemm_cost.h"
#include "kernels/vector/low_bit/matmul_nbits_layer.h"
#include "kernels/vector/prepare.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

constexpr int kVecs = 2;  // of columns; divides kPanelVecs
constexpr int64_t kWidth = kVecs * kLanes;
constexpr int64_t kPartDepth = 256;  // that wide, 32 KiB with AVX-512
constexpr int64_t kChunkRows = 256;  // copied next to each other
constexpr int64_t kLeastRows = 8;    // fewer are made integers

const ir::LowBits& weights_of(const Problem& problem) {
  return problem.layer->as<ir::LowBits>();
}

double cost_us(const Problem& problem) {
  const BitGeometry g(weights_of(problem));
  const int64_t rows = low_bit_rows(problem);
  const double unpacking = static_cast<double>(g.columns * g.depth) * 2.5 / kLanes / 3000;
  return 0.3 + (tile_cost_us(Numeric::kFloat, 1, rows, g.columns, g.depth, kVecs) + unpacking) /
                   problem.threads;
}

std::string arithmetic(const Problem& problem, const std::byte*) {
  return describe_low_bits(problem, "floats");
}

// ---- unpacking

// Codes [first, first + count) of a block, for kVecs vectors of columns, as rows of kWidth floats.
template <int kBits>
void unpack_block(const BitGeometry& g, const std::byte* block, int64_t vec, int64_t first,
                  int64_t count, float* to) {
  constexpr int64_t kCodes = 32 / kBits;
  const std::byte* zeros = block + kPanelColumns * int64_t{sizeof(float)};
  for (int v = 0; v < kVecs; ++v, ++vec) {
    const int64_t column = vec * kLanes;
    const F32 scale = load(reinterpret_cast<const float*>(block) + column);
    const F32 zero = g.zero == DataType::kFloat
                         ? load(reinterpret_cast<const float*>(zeros) + column)
                     : g.zero == DataType::kUInt8
                         ? to_float(load_bytes(reinterpret_cast<const uint8_t*>(zeros) + column))
                         : set1(static_cast<float>(g.centre));
    const std::byte* codes = block + g.header_bytes() + column * 4;
    for (int64_t k = first; k < first + count; k += kCodes) {
      const std::byte* dwords = codes + k / kCodes * kPanelColumns * 4;
      for (int64_t in = 0; in < smaller(kCodes, first + count - k); ++in) {
        const int shift = static_cast<int>(in % 4 * 8 + in / 4 * kBits);
        store(to + (k - first + in) * kWidth + v * kLanes,
              (codes_as_floats<kBits>(dwords, shift) - zero) * scale);
      }
    }
  }
}

void unpack_block(const BitGeometry& g, const std::byte* block, int64_t vec, int64_t first,
                  int64_t count, float* to) {
  if (g.bits == 2) return unpack_block<2>(g, block, vec, first, count, to);
  if (g.bits == 4) return unpack_block<4>(g, block, vec, first, count, to);
  unpack_block<8>(g, block, vec, first, count, to);
}

// ---- running

struct FloatRun {
  MatmulRun matmul;
  BitGeometry geometry;
  int64_t chunk_rows = 1, a_stride = 0;  // of the copy of A, in floats
  bool shares = false;

  explicit FloatRun(const BitGeometry& g) : geometry(g) {}
  int64_t a_floats() const { return chunk_rows * a_stride; }
  int64_t panels() const { return ceil_div(geometry.columns, kWidth); }
};

struct FloatChunk {
  const FloatRun* run;
  const std::byte* a;
  int64_t image, row, first, count;
  float* rows;     // the copy
  float* scratch;  // of all workers
};

void copy_row(const FloatChunk& c, int64_t r) {
  const MatmulRun& matmul = c.run->matmul;
  __builtin_memcpy(c.rows + r * c.run->a_stride, c.a + (c.first + r) * matmul.a.m,
                   static_cast<size_t>(c.run->geometry.depth) * sizeof(float));
}

// The depth [k, k + depth) of a panel's tiles, the first of which starts sums and the last ends.
struct Part {
  int64_t k = 0, depth = 0;
  bool is_last = false;
};

void run_tiles(const FloatChunk& c, int64_t channel, const Part& part, const float* weights) {
  const FloatRun& run = *c.run;
  const TileFinish& finish = run.matmul.finish;
  const int64_t columns = smaller(kWidth, run.geometry.columns - channel);
  const int vecs = static_cast<int>(ceil_div(columns, kLanes));
  const Segment segment{0, 0};
  Tile tile{};
  tile.k.segments = &segment;
  tile.k.num_segments = 1;
  tile.k.length = part.depth;
  tile.a.stride = run.a_stride * kLaneBytes;
  tile.b.first = reinterpret_cast<const std::byte*>(weights);
  tile.b.stride = kWidth * kLaneBytes;
  set_finish(finish, tile);
  if (!part.is_last) {
    tile.floats.low = -__builtin_inff(), tile.floats.high = __builtin_inff(), tile.floats.slope = 1;
    tile.floats.gate = nullptr;
  }
  if (part.k > 0) tile.start.from_c = true;
  const EvenSplit tiles = split_evenly(c.count, kMaxRows[vecs]);
  for (int64_t t = 0; t < tiles.parts; ++t) {
    const int64_t r = tiles.start(t);
    const TilePlace place{c.image, c.row, c.first + r, tiles.size(t)};
    if (part.k == 0) {
      place_tile(finish, place, channel, columns, tile);
    } else {
      TileFinish later = finish;
      later.has_initial = false;
      place_tile(later, place, channel, columns, tile);
    }
    if (!part.is_last) tile.residual.first = nullptr;
    tile.a.first = reinterpret_cast<const std::byte*>(c.rows + r * run.a_stride + part.k);
    tile_kernel(vecs, static_cast<int>(place.pixels))(tile);
    if (part.is_last) finish_tiles(finish, place, channel, columns);
  }
}

// Blocks that end within a part together; of longer ones, a part at a time.
void run_panel(const FloatChunk& c, const std::byte* packed, float* weights, int64_t panel) {
  const BitGeometry& g = c.run->geometry;
  const int64_t vec = panel * kVecs % kPanelVecs;
  const std::byte* block = packed + panel * kVecs / kPanelVecs * g.panel_bytes();
  Part part;
  for (int64_t b = 0; b < g.blocks; ++b, block += g.block_bytes()) {
    const int64_t codes = smaller(g.block, g.depth - b * g.block);
    for (int64_t k = 0; k < codes;) {
      const int64_t count = smaller(codes - k, kPartDepth - part.depth);
      // A part begins where a dword of codes does.
      const int64_t taken =
          k + count < codes ? count / g.codes_per_dword() * g.codes_per_dword() : count;
      if (taken > 0) unpack_block(g, block, vec, k, taken, weights + part.depth * kWidth);
      k += taken;
      part.depth += taken;
      part.is_last = part.k + part.depth == g.depth;
      const bool is_full = taken == 0 || part.depth == kPartDepth;
      if (!is_full && !part.is_last) continue;
      run_tiles(c, panel * kWidth, part, weights);
      part = {part.k + part.depth, 0, false};
    }
  }
}

void run_chunk(const FloatChunk& c, const KernelCall& call) {
  const FloatRun& run = *c.run;
  const auto share = [&](int64_t count, const auto& body) {
    if (run.shares)
      call.pool->parallel_ranges(count, body);
    else
      body(0, int64_t{0}, count);
  };
  share(c.count, [&c](int, int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) copy_row(c, r);
  });
  share(run.panels(), [&](int worker, int64_t first, int64_t last) {
    float* weights = c.scratch + worker * kPartDepth * kWidth;
    for (int64_t panel = first; panel < last; ++panel) run_panel(c, call.packed, weights, panel);
  });
}

void run_rows(FloatRun& run, const KernelCall& call) {
  MatmulRun& matmul = run.matmul;
  set_addresses(call, kFirstMatmulOperand, matmul.finish);
  auto* rows = reinterpret_cast<float*>(call.workspace);
  for (int64_t item = 0; item < matmul.images * matmul.rows; ++item) {
    const int64_t image = item / matmul.rows, row = item % matmul.rows;
    const std::byte* a =
        call.input<const std::byte>(0) + image * matmul.a.image + row * matmul.a.row;
    for (int64_t first = 0; first < matmul.m; first += run.chunk_rows)
      run_chunk({&run, a, image, row, first, smaller(run.chunk_rows, matmul.m - first), rows,
                 rows + run.a_floats()},
                call);
  }
}

void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  FloatRun run{BitGeometry(args.layer->as<ir::LowBits>())};
  set_low_bits(args, run.matmul);
  // An engine takes prompts and single tokens with one tactic; weights are packed alike.
  if (run.matmul.images * run.matmul.rows * run.matmul.m < kLeastRows)
    return prepare_integer_rows(args, kernel);
  run.chunk_rows = smaller(kChunkRows, run.matmul.m);
  run.a_stride = round_up(run.geometry.depth, 16) + 16;  // rows begin in different sets of L1
  const double macs = static_cast<double>(run.matmul.m) *
                      static_cast<double>(run.geometry.columns * run.geometry.depth);
  const int threads = args.pool ? args.pool->threads() : 1;
  run.shares = threads > 1 && macs > kMacsWorthThreads;
  kernel.workspace_bytes =
      static_cast<size_t>(run.a_floats() + threads * kPartDepth * kWidth) * sizeof(float);
  keep_state<run_rows>(kernel, run);
}

constexpr Tactic kTactics[] = {{.name = "matmul_nbits_f32",
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

std::span<const Tactic> matmul_nbits_float_tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
