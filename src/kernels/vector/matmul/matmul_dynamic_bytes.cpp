// SPDX-License-Identifier: Apache-2.0
// Products of two 8-bit activations (attention). The right factor is packed by the thread that uses
// it, as int8: uint8 less 128. With b' for what is packed and z' for its zero point,
//   Σ (a - za) (b - zb) = Σ a b' - za Σ b' + k za z'  - z' Σ a:
// the first three terms start the columns, the last starts the rows.
#include "kernels/simd/tiles.h"
#include "kernels/vector/counts.h"
#include "kernels/vector/gemm/gemm_cost.h"
#include "kernels/vector/gemm/gemm_pack.h"
#include "kernels/vector/matmul/matmul_run.h"
#include "kernels/vector/tactic_util.h"

#include <cstring>

namespace camshaft::kernels::CAMSHAFT_TARGET::matmul_dynamic_bytes {
namespace {

constexpr int64_t kMaxColumns = kMaxVecs * kLanes;  // of a panel

const ir::MatrixMultiplyAttrs& attrs_of(const Problem& problem) {
  return problem.layer->as<ir::MatrixMultiplyAttrs>();
}

// Only operands of one value are packed: the number of columns may change from run to run.
ChannelLayout one_panel() {
  return {1, kMaxColumns, kMaxColumns, -1, kMaxColumns};
}

// Work units are (image, row, panel, chunk of rows of A), numbered in that order.
struct Work {
  MatmulRun run;
  int64_t a_zero_point, b_zero_point;
  uint8_t flip;
  Panels panels;
  EvenSplit chunks;
  bool copies_a, sums_rows;
  int64_t steps, a_stride;  // of the copy of A
  // A worker's memory: ones, packed panel, sums of its columns, rows of A, their sums, tiles.
  int64_t panel_at, columns_at, a_at, rows_at, rest_at, worker_bytes;
  std::byte* scratch = nullptr;

  Work(const KernelArgs& args, int max_vecs, int threads) : run(matmul_of(args)), panels(0, 0, 1) {
    const auto& attrs = args.layer->as<ir::MatrixMultiplyAttrs>();
    const bool is_unsigned = args.inputs[1].type == DataType::kUInt8;
    flip = is_unsigned ? 0x80 : 0;
    a_zero_point = attrs.a_zero_point;
    b_zero_point = attrs.b_zero_point - (is_unsigned ? 128 : 0);
    steps = (run.k + kLaneBytes - 1) / kLaneBytes;
    panels = Panels(run.n, steps, max_vecs);
    const int64_t units = run.images * run.rows * panels.count(), rows = kMaxByteRows[max_vecs];
    const int64_t most = units < 2 * threads ? (run.m + threads - 1) / threads : run.m;
    chunks = split_evenly(run.m, round_up(most, rows));
    copies_a = run.a.k != 1 || run.k % kLaneBytes != 0;
    sums_rows = b_zero_point != 0;
    a_stride = round_up(run.k, 64) + 64;
    panel_at = round_up(steps * kLaneBytes, 64);
    columns_at = panel_at + steps * max_vecs * kLanes * kLaneBytes;
    a_at = columns_at + kMaxColumns * kLaneBytes;
    rows_at = a_at + (copies_a ? run.m * a_stride : 0);
    rest_at = rows_at + (sums_rows ? round_up(run.m * kLaneBytes, 64) : 0);
    // The narrowest panel has the tallest tiles.
    worker_bytes = round_up(rest_at + rest_scratch_bytes(run.finish, kMaxByteRows[1]), 64);
  }
  static MatmulRun matmul_of(const KernelArgs& args) {
    MatmulRun run;
    set_matmul(args, args.packed, run);
    return run;
  }
  int64_t units() const { return run.images * run.rows * panels.count() * chunks.parts; }
};

// What a worker's memory holds.
struct Held {
  int64_t item = -1, panel = -1;
  bool has_ones = false;
};

class Worker {
 public:
  Worker(const Work& work, int worker)
      : work_(work), run_(work.run), memory_(work.scratch + worker * work.worker_bytes) {}

  void run(int64_t unit) {
    const int64_t chunk = unit % work_.chunks.parts,
                  panel = unit / work_.chunks.parts % work_.panels.count();
    const int64_t item = unit / work_.chunks.parts / work_.panels.count();
    const int64_t image = item / run_.rows, row = item % run_.rows;
    const std::byte* a = run_.a.data + image * run_.a.image + row * run_.a.row;
    if (held_.item != item) prepare_rows(a);
    if (held_.item != item || held_.panel != panel) prepare_panel(image, row, panel);
    held_ = {item, panel, true};
    const int64_t vecs = work_.panels.vecs_of(panel), cols = work_.panels.cols_of(panel);
    const int64_t first_col = work_.panels.first_col(panel);
    Tile tile = panel_tile(panel);
    tile.start.bias = memory_ + work_.columns_at;
    tile.a.stride = work_.copies_a ? work_.a_stride : run_.a.m;
    set_finish(run_.finish, tile);
    const int64_t first = work_.chunks.start(chunk);
    const EvenSplit tiles = split_evenly(work_.chunks.size(chunk), kMaxByteRows[vecs]);
    for (int64_t part = 0; part < tiles.parts; ++part) {
      const int64_t m = first + tiles.start(part);
      const TilePlace place{image, row, m, tiles.size(part)};
      tile.a.first = (work_.copies_a ? memory_ + work_.a_at : a) + m * tile.a.stride;
      if (work_.sums_rows) tile.start.rows = row_sums() + m;
      std::byte* rest = memory_ + work_.rest_at;
      place_byte_tile(run_.finish, place, first_col, cols, 0, first_col, rest, tile);
      byte_tile_kernel(static_cast<int>(vecs), static_cast<int>(place.pixels))(tile);
      finish_byte_tiles(run_.finish, place, first_col, cols, 0, rest);
      look_up_tiles(run_.finish, place, first_col, cols);
    }
  }

 private:
  int32_t* row_sums() const { return reinterpret_cast<int32_t*>(memory_ + work_.rows_at); }

  Tile panel_tile(int64_t panel) const {
    Tile tile{};
    tile.k.segments = &kStart;
    tile.k.num_segments = 1;
    tile.k.length = work_.steps;
    tile.b.first = memory_ + work_.panel_at;
    tile.b.stride = work_.panels.vecs_of(panel) * kLanes * kLaneBytes;
    return tile;
  }

  // The copy of A and the start values of its rows.
  void prepare_rows(const std::byte* a) {
    for (int64_t m = 0; m < run_.m && (work_.copies_a || work_.sums_rows); ++m) {
      const std::byte* from = a + m * run_.a.m;
      if (work_.copies_a) {
        std::byte* to = memory_ + work_.a_at + m * work_.a_stride;
        if (run_.a.k == 1)
          std::memcpy(to, from, static_cast<size_t>(run_.k));
        else
          for (int64_t k = 0; k < run_.k; ++k) to[k] = from[k * run_.a.k];
        from = to;
      }
      if (!work_.sums_rows) continue;
      uint32_t sum = 0;
      const uint8_t* codes = reinterpret_cast<const uint8_t*>(from);
      for (int64_t k = 0; k < run_.k; ++k) sum += codes[k];
      row_sums()[m] = static_cast<int32_t>(0u - static_cast<uint32_t>(work_.b_zero_point) * sum);
    }
  }

  // The packed panel and the start values of its columns, whose sums are products with ones.
  void prepare_panel(int64_t image, int64_t row, int64_t panel) {
    const int64_t cols = work_.panels.cols_of(panel), vecs = work_.panels.vecs_of(panel);
    const std::byte* b = run_.b.data + image * run_.b.image + row * run_.b.row +
                         work_.panels.first_col(panel) * run_.b.n;
    pack_byte_panel(b, run_.b.k, run_.b.n, run_.k, cols, vecs * kLanes, work_.flip,
                    memory_ + work_.panel_at);
    int32_t* columns = reinterpret_cast<int32_t*>(memory_ + work_.columns_at);
    if (work_.a_zero_point == 0) {
      std::memset(columns, 0, static_cast<size_t>(vecs * kLanes) * sizeof(int32_t));
      return;
    }
    if (!held_.has_ones) std::memset(memory_, 1, static_cast<size_t>(work_.steps * kLaneBytes));
    Tile tile = panel_tile(panel);
    tile.a.first = memory_;
    tile.c.first = memory_ + work_.columns_at;
    tile.c.cols = vecs * kLanes;
    tile.c.type = TileOut::kInt;
    byte_tile_kernel(static_cast<int>(vecs), 1)(tile);
    const uint32_t a_zero = static_cast<uint32_t>(work_.a_zero_point);
    const uint32_t both =
        static_cast<uint32_t>(run_.k) * a_zero * static_cast<uint32_t>(work_.b_zero_point);
    for (int64_t c = 0; c < vecs * kLanes; ++c)
      columns[c] = static_cast<int32_t>(both - a_zero * static_cast<uint32_t>(columns[c]));
  }

  static constexpr Segment kStart{0, 0};
  const Work& work_;
  const MatmulRun& run_;
  std::byte* memory_;
  Held held_;
};

template <int kVecs>
std::string refusal(const Problem& problem) {
  if (std::string reason = refuse_matmul(problem, Numeric::kByte); !reason.empty()) return reason;
  if (problem.inputs.size() > 2 && problem.inputs[2].present) return "it has a bias";
  if (kVecs > 1 && problem.outputs[0].extents.back() <= (kVecs - 1) * kLanes)
    return "fewer columns than the tile has";
  return {};
}

template <int kVecs>
double cost_us(const Problem& problem) {
  int64_t m, n, k;
  if (!matmul_extents(problem, m, n, k)) return 1e12;
  const double tiles =
      tile_cost_us(Numeric::kByte, 1, m, n, (k + kLaneBytes - 1) / kLaneBytes, kVecs);
  const double packing = static_cast<double>(n * k) * 0.2 / 4000;
  return 0.15 + matmul_batch(problem) * (tiles + packing) / problem.threads;
}

uint32_t packed_inputs(const Problem& problem) {
  return packed_operands(problem, kFirstMatmulOperand, -1);
}

size_t packed_bytes(const Problem& problem) {
  return packed_epilogue_bytes(problem, attrs_of(problem).epilogue, kFirstMatmulOperand,
                               one_panel());
}

void pack(const Problem& problem, std::byte* packed) {
  pack_epilogue(problem, attrs_of(problem).epilogue, kFirstMatmulOperand, one_panel(), packed);
}

using Kernel = UnitsKernel<Work>;

void run(Kernel& kernel, const KernelCall& call) {
  Work& work = kernel.work;
  work.scratch = call.workspace;
  work.run.finish.packed = call.packed;
  run_units(kernel, call, [&work](int worker, int64_t first, int64_t last) {
    Worker one(work, worker);
    for (int64_t unit = first; unit < last; ++unit) one.run(unit);
  });
}

template <int kVecs>
void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const int threads = threads_of(args);
  const Work work(args, kVecs, threads);
  keep_state<run>(kernel, Kernel{work, outer_items(args, work.run, kernel),
                                 threads == 1 || macs_of(work.run) < 4 * kMacsWorthThreads});
  kernel.workspace_bytes = static_cast<size_t>(work.worker_bytes) * static_cast<size_t>(threads);
}

template <int kVecs>
constexpr Tactic row(const char* name) {
  return {.name = name,
          .kind = ir::LayerKind::kMatrixMultiply,
          .isa = kIsa,
          .formats = FormatRule::kLinear,
          .version = 3,
          .refusal = refusal<kVecs>,
          .cost_us = cost_us<kVecs>,
          .packed_inputs = packed_inputs,
          .packed_bytes = packed_bytes,
          .pack = pack,
          .prepare = prepare<kVecs>};
}

#define CAMSHAFT_BYTE_MATMUL_ROW(vecs, tile) row<vecs>("matmul_u8_" tile),

constexpr Tactic kTactics[] = {CAMSHAFT_BYTE_TILES(CAMSHAFT_BYTE_MATMUL_ROW)};
#undef CAMSHAFT_BYTE_MATMUL_ROW

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::matmul_dynamic_bytes
