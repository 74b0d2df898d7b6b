// SPDX-License-Identifier: Apache-2.0
// Matrix products whose right factor is known only at run time (attention): panels of B are packed
// by the thread that uses them, or read in place when few rows of A use them; a row or two against
// the rows of a transposed B are dot products.
#include "kernels/vector/counts.h"
#include "kernels/vector/gemm_cost.h"
#include "kernels/vector/gemm_pack.h"
#include "kernels/vector/gemm_tiles.h"
#include "kernels/vector/matmul_run.h"
#include "kernels/vector/tactic_util.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

// Batches of A with one B are one matrix when their rows lie evenly.
void merge_batches(MatmulRun& run) {
  const auto joins = [&run](const TileSource& t) { return t.row == run.m * t.pixel; };
  if (run.rows == 1 || run.b.row != 0 || run.a.row != run.m * run.a.m ||
      run.finish.out.row != run.m * run.finish.out.pixel)
    return;
  for (int k = 0; k < run.finish.num_operands; ++k)
    if (!joins(run.finish.operands[k])) return;
  if (run.finish.has_initial && !joins(run.finish.initial)) return;
  run.m *= run.rows;
  run.rows = 1;
}

void prepare(const KernelArgs& args, MatmulRun& run) {
  set_matmul(args, nullptr, run);
  if (args.inputs.size() > 2 && args.inputs[2].present()) {
    run.finish.has_initial = true;
    run.finish.initial = matrix_source(args.inputs[2], args.outputs[0]);
  }
  merge_batches(run);
}

double macs_of(const MatmulRun& run) {
  return static_cast<double>(run.images * run.rows * run.m) * static_cast<double>(run.n * run.k);
}

constexpr double kMacsWorthThreads =
    400e3;  // about 4 us: below, waking a thread costs more than it saves

// ---- panels

// Work units are (image, row, panel, chunk of rows of A), numbered in that order.
struct PanelWork {
  MatmulRun run;
  Panels panels;
  EvenSplit chunks;
  bool copies_a, packs_b;
  int64_t a_stride;  // of the copy of A
  int64_t worker_floats;
  float* scratch = nullptr;

  PanelWork(const MatmulRun& matmul, int max_vecs, int threads)
      : run(matmul), panels(matmul.n, matmul.k, max_vecs) {
    const int64_t units = run.images * run.rows * panels.count();
    const int64_t most = units < 2 * threads ? (run.m + threads - 1) / threads : run.m;
    chunks = split_evenly(run.m, round_up(most, kMaxRows[max_vecs]));
    copies_a = run.a.k != kLaneBytes;
    packs_b = run.b.n != kLaneBytes || run.alpha != 1 || run.m > 4 * kMaxRows[max_vecs];
    a_stride = round_up(run.k, kLanes) + kLanes;
    const int64_t panel_floats = run.k * max_vecs * kLanes;
    worker_floats = round_up(panel_floats + (copies_a ? run.m * a_stride : 0), 16);
  }
  int64_t units() const { return run.images * run.rows * panels.count() * chunks.parts; }
};

struct PanelCursor {
  int64_t item = -1, panel = -1;  // what the scratch holds
};

void run_unit(const PanelWork& work, int worker, int64_t unit, PanelCursor& held) {
  const MatmulRun& run = work.run;
  const int64_t chunk = unit % work.chunks.parts,
                panel = unit / work.chunks.parts % work.panels.count();
  const int64_t item = unit / work.chunks.parts / work.panels.count();
  const int64_t image = item / run.rows, row = item % run.rows;
  float* b_scratch = work.scratch + worker * work.worker_floats;
  float* a_scratch = b_scratch + run.k * work.panels.vecs_of(0) * kLanes;
  const std::byte* a = run.a.data + image * run.a.image + row * run.a.row;
  const std::byte* b =
      run.b.data + image * run.b.image + row * run.b.row + work.panels.first_col(panel) * run.b.n;
  const int64_t vecs = work.panels.vecs_of(panel), cols = work.panels.cols_of(panel),
                width = vecs * kLanes;
  if (work.copies_a && held.item != item)
    copy_matrix(reinterpret_cast<const float*>(a), run.a.m / kLaneBytes, run.a.k / kLaneBytes,
                run.m, run.k, a_scratch, work.a_stride);
  const bool packs = work.packs_b || cols < width;
  if (packs && (held.item != item || held.panel != panel))
    pack_panel(reinterpret_cast<const float*>(b), run.b.k / kLaneBytes, run.b.n / kLaneBytes, run.k,
               cols, width, run.alpha, b_scratch);
  held = {item, panel};

  const Segment segment{0, 0};
  Tile tile{};
  tile.segments = &segment;
  tile.num_segments = 1;
  tile.segment_length = run.k;
  tile.a_stride = work.copies_a ? work.a_stride * kLaneBytes : run.a.m;
  tile.b = packs ? reinterpret_cast<const std::byte*>(b_scratch) : b;
  tile.b_stride = packs ? width * kLaneBytes : run.b.k;
  set_finish(run.finish, tile);
  const int64_t first = work.chunks.start(chunk);
  const EvenSplit tiles = split_evenly(work.chunks.size(chunk), kMaxRows[vecs]);
  for (int64_t part = 0; part < tiles.parts; ++part) {
    const int64_t m = first + tiles.start(part);
    const TilePlace place{image, row, m, tiles.size(part)};
    tile.a =
        (work.copies_a ? reinterpret_cast<const std::byte*>(a_scratch) : a) + m * tile.a_stride;
    place_tile(run.finish, place, work.panels.first_col(panel), cols, tile);
    tile_kernel(static_cast<int>(vecs), static_cast<int>(place.pixels))(tile);
    finish_tiles(run.finish, place, work.panels.first_col(panel), cols);
  }
}

template <int kVecs>
std::string refusal(const Problem& problem) {
  if (std::string reason = refuse_matmul(problem, Numeric::kFloat); !reason.empty()) return reason;
  if (kVecs > 1 && problem.outputs[0].extents.back() <= (kVecs - 1) * kLanes)
    return "fewer columns than the tile has";
  return {};
}

template <int kVecs>
double cost_us(const Problem& problem) {
  int64_t m, n, k;
  if (!matmul_extents(problem, m, n, k)) return 1e12;
  const double tiles = tile_cost_us(Numeric::kFloat, 1, m, n, k, kVecs),
               packing = static_cast<double>(n * k) * 0.3 / 4000;
  return 0.15 + matmul_batch(problem) * (tiles + packing) / problem.threads;
}

template <int kVecs>
size_t workspace_bytes(const KernelArgs& args) {
  MatmulRun run;
  prepare(args, run);
  const PanelWork work(run, kVecs, threads_of(args));
  return static_cast<size_t>(work.worker_floats) * sizeof(float) *
         static_cast<size_t>(threads_of(args));
}

template <int kVecs>
void run_panels(const KernelArgs& args) {
  if (args.outputs[0].elements() == 0) return;
  MatmulRun matmul;
  prepare(args, matmul);
  const bool alone = !args.pool || args.pool->threads() == 1 || macs_of(matmul) < kMacsWorthThreads;
  PanelWork work(matmul, kVecs, threads_of(args));
  work.scratch = reinterpret_cast<float*>(args.workspace);
  for (int64_t outer = 0; outer < matmul.outer; ++outer) {
    if (matmul.outer > 1) move_outer(args, outer, work.run);
    const auto body = [&work](int worker, int64_t first, int64_t last) {
      PanelCursor held;
      for (int64_t unit = first; unit < last; ++unit) run_unit(work, worker, unit, held);
    };
    if (alone)
      body(0, 0, work.units());
    else
      args.pool->parallel_ranges(work.units(), body);
  }
}

// ---- dot products

constexpr int64_t kMaxDotRows = 4;
constexpr int kDotCols = 4;

// y[0 … kCols) = alpha * a · rows of b.
template <int kCols>
CAMSHAFT_INLINE void dot(const float* a, const float* b, int64_t b_stride, int64_t k, float alpha,
                         float* y) {
  F32 sum[kCols];
#pragma GCC unroll 4
  for (int c = 0; c < kCols; ++c) sum[c] = zero();
  int64_t p = 0;
  for (; p + kLanes <= k; p += kLanes) {
    const F32 left = load(a + p);
#pragma GCC unroll 4
    for (int c = 0; c < kCols; ++c) sum[c] = fma(left, load(b + c * b_stride + p), sum[c]);
  }
  if (p < k) {
    const M32 tail = first_n(static_cast<int>(k - p));
    const F32 left = load(a + p, tail);
#pragma GCC unroll 4
    for (int c = 0; c < kCols; ++c) sum[c] = fma(left, load(b + c * b_stride + p, tail), sum[c]);
  }
#pragma GCC unroll 4
  for (int c = 0; c < kCols; ++c) y[c] = alpha * reduce_add(sum[c]);
}

// Units are (image, row, m); each worker has a share of the columns of all, or of the units.
void dot_columns(const MatmulRun& run, int64_t image, int64_t row, int64_t first, int64_t last) {
  const auto floats = [](const std::byte* p) { return reinterpret_cast<const float*>(p); };
  const std::byte* b = run.b.data + image * run.b.image + row * run.b.row;
  for (int64_t m = 0; m < run.m; ++m) {
    const float* a = floats(run.a.data + image * run.a.image + row * run.a.row + m * run.a.m);
    const TileOutput& out = run.finish.out;
    float* y =
        reinterpret_cast<float*>(out.data + image * out.image + row * out.row + m * out.pixel);
    const int64_t b_stride = run.b.n / kLaneBytes;
    int64_t col = first;
    for (; col + kDotCols <= last; col += kDotCols)
      dot<kDotCols>(a, floats(b + col * run.b.n), b_stride, run.k, run.alpha, y + col);
    for (; col < last; ++col)
      dot<1>(a, floats(b + col * run.b.n), b_stride, run.k, run.alpha, y + col);
  }
  const TilePlace place{image, row, 0, run.m};
  add_initial(run.finish, place, first, last - first);
  finish_tiles(run.finish, place, first, last - first);
}

std::string refuse_dot(const Problem& problem) {
  if (std::string reason = refuse_matmul(problem, Numeric::kFloat); !reason.empty()) return reason;
  const ir::MatrixMultiplyAttrs& attrs = problem.layer->as<ir::MatrixMultiplyAttrs>();
  int64_t m, n, k;
  matmul_extents(problem, m, n, k);
  if (m > kMaxDotRows) return "more than 4 rows";
  if (attrs.transpose_a) return "the rows of the left factor are not contiguous";
  if (!attrs.transpose_b) return "the columns of the right factor are not contiguous";
  return {};
}

double dot_cost_us(const Problem& problem) {
  int64_t m, n, k;
  if (!matmul_extents(problem, m, n, k)) return 1e12;
  const double per_dot = static_cast<double>(k) / kLanes + 10;
  return 0.1 +
         matmul_batch(problem) * static_cast<double>(m * n) * per_dot / 4000 / problem.threads;
}

void run_dot(const KernelArgs& args) {
  if (args.outputs[0].elements() == 0) return;
  MatmulRun run;
  prepare(args, run);
  // Every epilogue but none goes through the program.
  if (run.finish.program && !run.finish.program->empty())
    run.finish.epilogue.kind = EpilogueKind::kProgram;
  const bool alone =
      !args.pool || args.pool->threads() == 1 || macs_of(run) < kMacsWorthThreads / 4;
  for (int64_t outer = 0; outer < run.outer; ++outer) {
    if (run.outer > 1) move_outer(args, outer, run);
    // Units of columns: all batches times n / kDotCols.
    const int64_t blocks = (run.n + kDotCols - 1) / kDotCols;
    const auto body = [&run, blocks](int, int64_t first, int64_t last) {
      while (first < last) {
        const int64_t item = first / blocks, block = first - item * blocks;
        const int64_t end = block + (last - first) < blocks ? block + (last - first) : blocks;
        const int64_t to = end * kDotCols < run.n ? end * kDotCols : run.n;
        dot_columns(run, item / run.rows, item % run.rows, block * kDotCols, to);
        first += end - block;
      }
    };
    if (alone)
      body(0, 0, blocks * run.images * run.rows);
    else
      args.pool->parallel_ranges(blocks * run.images * run.rows, body);
  }
}

// ---- the table

uint32_t no_packed_inputs(const Problem&) {
  return 0;
}
size_t no_bytes(const Problem&) {
  return 0;
}
void no_pack(const Problem&, std::byte*) {}
size_t no_workspace(const KernelArgs&) {
  return 0;
}

template <int kVecs>
constexpr Tactic row(const char* name) {
  return {.name = name,
          .kind = ir::LayerKind::kMatrixMultiply,
          .isa = kIsa,
          .formats = FormatRule::kLinear,
          .version = 1,
          .refusal = refusal<kVecs>,
          .cost_us = cost_us<kVecs>,
          .packed_inputs = no_packed_inputs,
          .packed_bytes = no_bytes,
          .pack = no_pack,
          .workspace_bytes = workspace_bytes<kVecs>,
          .run = run_panels<kVecs>};
}

#define CAMSHAFT_MATMUL_ROW(vecs, tile) row<vecs>("matmul_f32_" tile),

constexpr Tactic kTactics[] = {
    CAMSHAFT_GEMM_TILES(CAMSHAFT_MATMUL_ROW){.name = "matmul_dot_f32",
                                             .kind = ir::LayerKind::kMatrixMultiply,
                                             .isa = kIsa,
                                             .formats = FormatRule::kLinear,
                                             .version = 1,
                                             .refusal = refuse_dot,
                                             .cost_us = dot_cost_us,
                                             .packed_inputs = no_packed_inputs,
                                             .packed_bytes = no_bytes,
                                             .pack = no_pack,
                                             .workspace_bytes = no_workspace,
                                             .run = run_dot}};

}  // namespace

std::span<const Tactic> matmul_dynamic_tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
