// SPDX-License-Identifier: Apache-2.0
// Weights of few bits in products of floats, for many rows: a part of the depth of some vectors of
// columns becomes floats near by, and all tiles of rows pass it. Sums wait in the output.
#include "kernels/vector/gemm/gemm_cost.h"
#include "kernels/vector/low_bit/matmul_nbits_layer.h"
#include "kernels/vector/low_bit/matmul_nbits_unpack.h"
#include "kernels/vector/prepare.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::matmul_nbits_float {
namespace {

constexpr int64_t kWidth = kUnpackedWidth;
constexpr int64_t kChunkRows = 256;  // copied next to each other

const ir::LowBits& weights_of(const Problem& problem) {
  return problem.layer->as<ir::LowBits>();
}

double cost_us(const Problem& problem) {
  const BitGeometry g(weights_of(problem));
  const int64_t rows = low_bit_rows(problem);
  const double unpacking = static_cast<double>(g.columns * g.depth) * 2.5 / kLanes / 3000;
  return 0.3 +
         (tile_cost_us(Numeric::kFloat, 1, rows, g.columns, g.depth, kUnpackedVecs) + unpacking) /
             problem.threads;
}

std::string arithmetic(const Problem& problem, const std::byte*) {
  return describe_low_bits(problem, "floats");
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

void run_tiles(const FloatChunk& c, int64_t channel, const UnpackedPart& part,
               const float* weights) {
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
    float* weights = c.scratch + worker * kUnpackedDepth * kWidth;
    for (int64_t panel = first; panel < last; ++panel)
      for_unpacked_parts(run.geometry, call.packed, panel, weights, [&](const UnpackedPart& part) {
        run_tiles(c, panel * kWidth, part, weights);
      });
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
  if (run.matmul.images * run.matmul.rows * run.matmul.m < kLeastUnpackedRows)
    return prepare_integer_rows(args, kernel);
  run.chunk_rows = smaller(kChunkRows, run.matmul.m);
  run.a_stride = round_up(run.geometry.depth, 16) + 16;  // rows begin in different sets of L1
  const double macs = static_cast<double>(run.matmul.m) *
                      static_cast<double>(run.geometry.columns * run.geometry.depth);
  const int threads = args.pool ? args.pool->threads() : 1;
  run.shares = threads > 1 && macs > kMacsWorthThreads;
  kernel.workspace_bytes =
      static_cast<size_t>(run.a_floats() + threads * kUnpackedDepth * kWidth) * sizeof(float);
  keep_state<run_rows>(kernel, run);
}

constexpr Tactic kTactics[] = {{.name = "matmul_nbits_f32",
                                .kind = ir::LayerKind::kLowBitMultiply,
                                .isa = kIsa,
                                .formats = FormatRule::kLinear,
                                .version = 2,
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

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::matmul_nbits_float
