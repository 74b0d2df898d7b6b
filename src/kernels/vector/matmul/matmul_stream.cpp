// SPDX-License-Identifier: Apache-2.0
// A few rows times a right factor that only running tells: its rows are read one after another, a
// few together, and added to the result, which stays in L1. Down a panel of columns every step is
// on another page, and no prefetcher follows: 1x1024 times 1024x4096 takes three times as long.
#include "kernels/simd/bytes.h"
#include "kernels/vector/counts.h"
#include "kernels/vector/gemm/gemm_cost.h"
#include "kernels/vector/matmul/matmul_run.h"
#include "kernels/vector/tactic_util.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::matmul_stream {
namespace {

constexpr int kMaxStreamRows = 4;
constexpr int64_t kResultFloats = 4096;  // half of an L1 of 32 KiB

// Work units are (image, row, chunk of columns), numbered in that order.
struct StreamWork {
  MatmulRun run;
  int64_t width;  // of a chunk

  StreamWork(const MatmulRun& matmul, int threads) : run(matmul) {
    const int64_t most = kResultFloats / smaller(at_least_one(run.m), kMaxStreamRows);
    const bool shares = run.images * run.rows < 2 * threads;
    width = smaller(most, round_up(shares ? ceil_div(run.n, threads) : run.n, 8 * kLanes));
    set_program(run.finish);
  }
  int64_t chunks() const { return ceil_div(run.n, width); }
  int64_t units() const { return run.images * run.rows * chunks(); }
};

// Some rows of the result, and where their factors are; strides in bytes.
struct StreamRows {
  const std::byte *a, *b;
  std::byte* y;
  int64_t a_row, a_step, b_step, y_row;
  int64_t columns;
  float alpha;

  float left(int row, int64_t k) const {
    return alpha * *reinterpret_cast<const float*>(a + row * a_row + k * a_step);
  }
  const float* right(int64_t k) const { return reinterpret_cast<const float*>(b + k * b_step); }
  float* sums(int row) const { return reinterpret_cast<float*>(y + row * y_row); }
};

// Rows [k, k + kDepth) of the right factor.
template <int kRows, int kDepth>
CAMSHAFT_INLINE void add_depth(const StreamRows& rows, int64_t k) {
  constexpr int kVecs = kRows == 1 ? 4 : kRows < 4 ? 2 : 1;
  F32 left[kRows][kDepth];
  const float* right[kDepth];
#pragma GCC unroll 8
  for (int d = 0; d < kDepth; ++d) {
    right[d] = rows.right(k + d);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) left[r][d] = set1(rows.left(r, k + d));
  }
  int64_t col = 0;
  for (; col + kVecs * kLanes <= rows.columns; col += kVecs * kLanes)
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) {
      const int64_t at = col + v * kLanes;
      F32 sum[kRows];
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) sum[r] = load(rows.sums(r) + at);
#pragma GCC unroll 8
      for (int d = 0; d < kDepth; ++d) {
        const F32 column = load(right[d] + at);
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r) sum[r] = fma(left[r][d], column, sum[r]);
      }
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) store(rows.sums(r) + at, sum[r]);
    }
  for (; col < rows.columns; col += kLanes) {
    const int count = static_cast<int>(smaller(rows.columns - col, kLanes));
    const M32 mask = first_n(count);
    for (int r = 0; r < kRows; ++r) {
      F32 sum = load(rows.sums(r) + col, mask);
#pragma GCC unroll 8
      for (int d = 0; d < kDepth; ++d) sum = fma(left[r][d], load(right[d] + col, mask), sum);
      store_first(rows.sums(r) + col, sum, count);
    }
  }
}

template <int kRows>
void add_rows(const StreamRows& rows, int64_t depth) {
  constexpr int kDepth = kRows == 1 ? 8 : kRows == 2 ? 4 : 2;  // left factors fill eight registers
  int64_t k = 0;
  for (; k + kDepth <= depth; k += kDepth) add_depth<kRows, kDepth>(rows, k);
  for (; k < depth; ++k) add_depth<kRows, 1>(rows, k);
}

void add_rows(const StreamRows& rows, int64_t count, int64_t depth) {
  switch (count) {
    case 1:
      return add_rows<1>(rows, depth);
    case 2:
      return add_rows<2>(rows, depth);
    case 3:
      return add_rows<3>(rows, depth);
    default:
      return add_rows<4>(rows, depth);
  }
}

void run_unit(const StreamWork& work, int64_t unit) {
  const MatmulRun& run = work.run;
  const int64_t first = unit % work.chunks() * work.width, item = unit / work.chunks();
  const int64_t image = item / run.rows, row = item % run.rows;
  const TileOutput& out = run.finish.out;
  StreamRows rows{.a = run.a.data + image * run.a.image + row * run.a.row,
                  .b = run.b.data + image * run.b.image + row * run.b.row + first * kLaneBytes,
                  .y = out.data + image * out.image + row * out.row + first * kLaneBytes,
                  .a_row = run.a.m,
                  .a_step = run.a.k,
                  .b_step = run.b.k,
                  .y_row = out.pixel,
                  .columns = smaller(run.n - first, work.width),
                  .alpha = run.alpha};
  for (int64_t m = 0; m < run.m; m += kMaxStreamRows) {
    const int64_t count = smaller(run.m - m, kMaxStreamRows);
    for (int r = 0; r < count; ++r)
      __builtin_memset(rows.sums(r), 0, static_cast<size_t>(rows.columns) * sizeof(float));
    add_rows(rows, count, run.k);
    const TilePlace place{image, row, m, count};
    add_initial(run.finish, place, first, rows.columns);
    finish_tiles(run.finish, place, first, rows.columns);
    rows.a += count * rows.a_row;
    rows.y += count * rows.y_row;
  }
}

std::string refusal(const Problem& problem) {
  if (std::string reason = refuse_matmul(problem, Numeric::kFloat); !reason.empty()) return reason;
  if (!refuse_packing(problem)) return "a constant right factor is packed once";
  const ir::MatrixMultiplyAttrs& attrs = problem.layer->as<ir::MatrixMultiplyAttrs>();
  if (attrs.transpose_b) return "the rows of the right factor are not contiguous";
  int64_t m, n, k;
  matmul_extents(problem, m, n, k);
  if (m > kMaxStreamRows) return "more than 4 rows";
  if (n < kLanes) return "fewer columns than a vector has";
  return {};
}

double cost_us(const Problem& problem) {
  int64_t m, n, k;
  if (!matmul_extents(problem, m, n, k)) return 1e12;
  const double steps = static_cast<double>(k) * (static_cast<double>(n) / kLanes + 4);
  const double products = static_cast<double>(m) * steps / (1.2 * 4000),
               loads = static_cast<double>(n * k) * 4 / 60e3;
  return 0.1 + matmul_batch(problem) * (products > loads ? products : loads) / problem.threads;
}

using StreamKernel = UnitsKernel<StreamWork>;

void run_stream(StreamKernel& kernel, const KernelCall& call) {
  run_units(kernel, call, [](auto& work, int, int64_t first, int64_t last) {
    for (int64_t unit = first; unit < last; ++unit) run_unit(work, unit);
  });
}

void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const int threads = threads_of(args);
  const StreamWork work(dynamic_product(args), threads);
  keep_state<run_stream>(kernel,
                         StreamKernel{work, outer_items(args, work.run, kernel),
                                      threads == 1 || macs_of(work.run) < kMacsWorthThreads / 4});
}

constexpr Tactic kTactics[] = {{.name = "matmul_stream_f32",
                                .kind = ir::LayerKind::kMatrixMultiply,
                                .isa = kIsa,
                                .formats = FormatRule::kLinear,
                                .version = 1,
                                .refusal = refusal,
                                .cost_us = cost_us,
                                .packed_inputs = no_packed_inputs,
                                .packed_bytes = no_packed_bytes,
                                .pack = pack_nothing,
                                .prepare = prepare}};

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::matmul_stream
