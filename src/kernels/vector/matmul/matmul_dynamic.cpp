// SPDX-License-Identifier: Apache-2.0
// Matrix products whose right factor is known only at run time (attention): panels of B are packed
// by the thread that uses them, or read in place when few rows of A use them. A few rows against
// the rows of a transposed B, and a few columns, are dot products at the speed of memory.
#include "kernels/simd/shuffles.h"
#include "kernels/simd/tiles.h"
#include "kernels/vector/counts.h"
#include "kernels/vector/gemm/gemm_cost.h"
#include "kernels/vector/gemm/gemm_pack.h"
#include "kernels/vector/gemm/gemm_plain.h"
#include "kernels/vector/matmul/matmul_run.h"
#include "kernels/vector/tactic_util.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::matmul_dynamic {
namespace {

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
  tile.k.segments = &segment;
  tile.k.num_segments = 1;
  tile.k.length = run.k;
  tile.a.stride = work.copies_a ? work.a_stride * kLaneBytes : run.a.m;
  tile.b.first = packs ? reinterpret_cast<const std::byte*>(b_scratch) : b;
  tile.b.stride = packs ? width * kLaneBytes : run.b.k;
  set_finish(run.finish, tile);
  const int64_t first = work.chunks.start(chunk);
  const EvenSplit tiles = split_evenly(work.chunks.size(chunk), kMaxRows[vecs]);
  const bool plainly = packs && cols == width && is_plain(tile, static_cast<int>(vecs));
  for (int64_t part = 0; part < tiles.parts; part += tile.repeats.count) {
    const int64_t m = first + tiles.start(part), rows = tiles.size(part);
    tile.repeats.count = plainly ? alike_from(tiles, part) : 1;
    const TilePlace place{image, row, m, tile.repeats.count * rows};
    tile.a.first =
        (work.copies_a ? reinterpret_cast<const std::byte*>(a_scratch) : a) + m * tile.a.stride;
    place_tile(run.finish, place, work.panels.first_col(panel), cols, tile);
    if (plainly)
      plain_kernel(static_cast<int>(vecs), rows)(plain_product(tile));
    else
      tile_kernel(static_cast<int>(vecs), static_cast<int>(rows))(tile);
    finish_tiles(run.finish, place, work.panels.first_col(panel), cols);
  }
}

template <int kVecs>
std::string refusal(const Problem& problem) {
  if (std::string reason = refuse_matmul(problem, Numeric::kFloat); !reason.empty()) return reason;
  // A batch of constants may be packed as well: one product after another, slower where they are
  // small.
  if (!refuse_packing(problem)) return "a constant right factor is packed once";
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

using PanelKernel = UnitsKernel<PanelWork>;

void run_panels(PanelKernel& kernel, const KernelCall& call) {
  PanelWork& work = kernel.work;
  work.scratch = reinterpret_cast<float*>(call.workspace);
  run_units(kernel, call, [](auto& work, int worker, int64_t first, int64_t last) {
    PanelCursor held;
    for (int64_t unit = first; unit < last; ++unit) run_unit(work, worker, unit, held);
  });
}

template <int kVecs>
void prepare_panels(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const int threads = threads_of(args);
  const PanelWork work(dynamic_product(args), kVecs, threads);
  keep_state<run_panels>(kernel,
                         PanelKernel{work, outer_items(args, work.run, kernel),
                                     threads == 1 || macs_of(work.run) < kMacsWorthThreads});
  kernel.workspace_bytes =
      static_cast<size_t>(work.worker_floats) * sizeof(float) * static_cast<size_t>(threads);
}

// ---- dot products

constexpr int64_t kMaxDots = 4;  // rows of A, or columns of B, that all others are multiplied with
constexpr int kDotsTogether = 4;

// y[0 … kCount) = alpha * a · vectors of b.
template <int kCount>
CAMSHAFT_INLINE void dot(const float* a, const float* b, int64_t b_stride, int64_t k, float alpha,
                         float* y) {
  F32 sum[kCount], more[kCount];
#pragma GCC unroll 4
  for (int c = 0; c < kCount; ++c) sum[c] = more[c] = zero();
  int64_t p = 0;
  for (; p + 2 * kLanes <= k; p += 2 * kLanes) {
    const F32 left = load(a + p), right = load(a + p + kLanes);
#pragma GCC unroll 4
    for (int c = 0; c < kCount; ++c) {
      sum[c] = fma(left, load(b + c * b_stride + p), sum[c]);
      more[c] = fma(right, load(b + c * b_stride + p + kLanes), more[c]);
    }
  }
  if (p + kLanes <= k) {
    const F32 left = load(a + p);
#pragma GCC unroll 4
    for (int c = 0; c < kCount; ++c) sum[c] = fma(left, load(b + c * b_stride + p), sum[c]);
    p += kLanes;
  }
  if (p < k) {
    const M32 tail = first_n(static_cast<int>(k - p));
    const F32 left = load(a + p, tail);
#pragma GCC unroll 4
    for (int c = 0; c < kCount; ++c) sum[c] = fma(left, load(b + c * b_stride + p, tail), sum[c]);
  }
#pragma GCC unroll 4
  for (int c = 0; c < kCount; ++c) sum[c] = sum[c] + more[c];
  store_sums(sum, alpha, y);
}

// Contiguous vectors in memory; strides in bytes.
struct Vectors {
  const std::byte* data = nullptr;
  int64_t stride = 0, y_stride = 0, count = 0;

  const float* at(int64_t index) const {
    return reinterpret_cast<const float*>(data + index * stride);
  }
  Vectors from(int64_t index, int64_t size) const {
    return {data + index * stride, stride, y_stride, size};
  }
};

// alpha * a · every one of `many`, y_stride apart.
void dots_with(const float* a, const Vectors& many, int64_t k, float alpha, std::byte* y) {
  const int64_t stride = many.stride / kLaneBytes, y_stride = many.y_stride;
  const float* b = many.at(0);
  int64_t left = many.count;
  for (; left >= kDotsTogether; left -= kDotsTogether) {
    float sums[kDotsTogether];
    const bool dense = y_stride == kLaneBytes;
    float* to = reinterpret_cast<float*>(y);
    dot<kDotsTogether>(a, b, stride, k, alpha, dense ? to : sums);
    if (!dense)
      for (int64_t c = 0; c < kDotsTogether; ++c)
        *reinterpret_cast<float*>(y + c * y_stride) = sums[c];
    b += kDotsTogether * stride;
    y += kDotsTogether * y_stride;
  }
  for (; left > 0; --left, b += stride, y += y_stride)
    dot<1>(a, b, 0, k, alpha, reinterpret_cast<float*>(y));
}

// A product as dots of a few vectors, which stay in L1, with many that are read once: rows of A
// with the columns of B, or columns of B with the rows of A.
struct DotWork {
  MatmulRun run;
  bool few_columns;
  bool gathers;  // the few columns are not contiguous
  int64_t worker_floats;
  float* scratch = nullptr;

  explicit DotWork(const MatmulRun& matmul) : run(matmul) {
    few_columns = run.b.k != kLaneBytes || run.n < run.m;
    gathers = run.b.k != kLaneBytes;
    worker_floats = gathers ? round_up(run.k * run.n, 16) : 0;
    set_program(run.finish);
  }
  int64_t many() const { return few_columns ? run.m : run.n; }
  int64_t blocks() const { return ceil_div(many(), kDotsTogether); }
  int64_t units() const { return blocks() * run.images * run.rows; }

  void gather(const std::byte* b, float* to) const {
    for (int64_t col = 0; col < run.n; ++col)
      for (int64_t k = 0; k < run.k; ++k)
        to[col * run.k + k] = *reinterpret_cast<const float*>(b + k * run.b.k + col * run.b.n);
  }

  // The vectors [first, last) of the larger factor of a batch item.
  void dots(int worker, int64_t item, int64_t first, int64_t last) const {
    const int64_t image = item / run.rows, row = item % run.rows;
    const TileOutput& out = run.finish.out;
    const std::byte* b = run.b.data + image * run.b.image + row * run.b.row;
    Vectors rows{run.a.data + image * run.a.image + row * run.a.row, run.a.m, out.pixel, run.m};
    Vectors columns{b, run.b.n, kLaneBytes, run.n};
    if (gathers) {
      float* gathered = scratch + worker * worker_floats;
      gather(b, gathered);
      columns.data = reinterpret_cast<const std::byte*>(gathered);
      columns.stride = run.k * kLaneBytes;
    }
    std::byte* y = out.data + image * out.image + row * out.row;
    const Vectors &few = few_columns ? columns : rows, &many = few_columns ? rows : columns;
    const int64_t chunk = few.count == 1 ? last - first : kDotsTogether;
    for (int64_t index = first; index < last; index += chunk)
      for (int64_t f = 0; f < few.count; ++f)
        dots_with(few.at(f), many.from(index, smaller(chunk, last - index)), run.k, run.alpha,
                  y + f * few.y_stride + index * many.y_stride);
    const TilePlace place{image, row, few_columns ? first : 0, few_columns ? last - first : run.m};
    const int64_t channel = few_columns ? 0 : first, channels = few_columns ? run.n : last - first;
    add_initial(run.finish, place, channel, channels);
    finish_tiles(run.finish, place, channel, channels);
  }

  // Blocks of vectors of all batch items.
  void run_blocks(int worker, int64_t first, int64_t last) const {
    while (first < last) {
      const int64_t item = first / blocks(), block = first - item * blocks();
      const int64_t end = smaller(blocks(), block + last - first);
      dots(worker, item, block * kDotsTogether, smaller(many(), end * kDotsTogether));
      first += end - block;
    }
  }
};

std::string refuse_dot(const Problem& problem) {
  if (std::string reason = refuse_matmul(problem, Numeric::kFloat); !reason.empty()) return reason;
  const ir::MatrixMultiplyAttrs& attrs = problem.layer->as<ir::MatrixMultiplyAttrs>();
  int64_t m, n, k;
  matmul_extents(problem, m, n, k);
  if (m > kMaxDots && n > kMaxDots) return "more than 4 rows and columns";
  if (attrs.transpose_a) return "the rows of the left factor are not contiguous";
  if (!attrs.transpose_b && n > kMaxDots)
    return "the columns of the right factor are not contiguous";
  return {};
}

double dot_cost_us(const Problem& problem) {
  int64_t m, n, k;
  if (!matmul_extents(problem, m, n, k)) return 1e12;
  const double per_dot = static_cast<double>(k) / kLanes + 10;
  return 0.1 +
         matmul_batch(problem) * static_cast<double>(m * n) * per_dot / 4000 / problem.threads;
}

using DotKernel = UnitsKernel<DotWork>;

void run_dot(DotKernel& kernel, const KernelCall& call) {
  DotWork& work = kernel.work;
  work.scratch = reinterpret_cast<float*>(call.workspace);
  run_units(kernel, call, [](const DotWork& work, int worker, int64_t first, int64_t last) {
    work.run_blocks(worker, first, last);
  });
}

void prepare_dot(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const int threads = threads_of(args);
  const DotWork work(dynamic_product(args));
  keep_state<run_dot>(kernel, DotKernel{work, outer_items(args, work.run, kernel),
                                        threads == 1 || macs_of(work.run) < kMacsWorthThreads / 4});
  kernel.workspace_bytes = static_cast<size_t>(work.worker_floats * threads) * sizeof(float);
}

// ---- the table

template <int kVecs>
constexpr Tactic row(const char* name) {
  return {.name = name,
          .kind = ir::LayerKind::kMatrixMultiply,
          .isa = kIsa,
          .formats = FormatRule::kLinear,
          .version = 2,
          .refusal = refusal<kVecs>,
          .cost_us = cost_us<kVecs>,
          .packed_inputs = no_packed_inputs,
          .packed_bytes = no_packed_bytes,
          .pack = pack_nothing,
          .prepare = prepare_panels<kVecs>};
}

constexpr Tactic kDotRow = {.name = "matmul_dot_f32",
                            .kind = ir::LayerKind::kMatrixMultiply,
                            .isa = kIsa,
                            .formats = FormatRule::kLinear,
                            .version = 4,
                            .refusal = refuse_dot,
                            .cost_us = dot_cost_us,
                            .packed_inputs = no_packed_inputs,
                            .packed_bytes = no_packed_bytes,
                            .pack = pack_nothing,
                            .prepare = prepare_dot};

#define CAMSHAFT_MATMUL_ROW(vecs, tile) row<vecs>("matmul_f32_" tile),

constexpr Tactic kTactics[] = {CAMSHAFT_GEMM_TILES(CAMSHAFT_MATMUL_ROW) kDotRow};
#undef CAMSHAFT_MATMUL_ROW

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::matmul_dynamic
