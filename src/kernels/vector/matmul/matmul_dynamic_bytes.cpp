// SPDX-License-Identifier: Apache-2.0
// Products of two 8-bit activations (attention). The right factor is packed by the thread that uses
// it, as int8: uint8 less 128. With b' for what is packed and z' for its zero point,
//   Σ (a - za) (b - zb) = Σ a b' - za Σ b' + k za z'  - z' Σ a:
// the first three terms start the columns, the last starts the rows. Without VNNI both factors may
// become 16 bits less their zero points instead (gemm_word_tile.cpp), and nothing has to be added.
#include "kernels/simd/tiles.h"
#include "kernels/vector/counts.h"
#include "kernels/vector/gemm/gemm_byte_kernels.h"
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

// What a row of the table is made of.
struct Form {
  int vecs;
  Numeric numeric = Numeric::kByte;

  bool widens() const { return numeric == Numeric::kWord; }
};

// Panels of bytes as those of words: a lane of four steps becomes two of two.
void widen_panel(const std::byte* bytes, int64_t steps, int64_t width, int64_t zero_point,
                 std::byte* words) {
  const auto both = static_cast<uint16_t>(zero_point);
  const auto* from = reinterpret_cast<const uint32_t*>(bytes);
  auto* to = reinterpret_cast<uint16_t*>(words);
  for (int64_t step = 0; step < steps; ++step, from += width, to += 4 * width)
    for (int64_t col = 0; col < width; ++col) {
      const uint32_t codes = from[col];
      to[2 * col] = static_cast<uint16_t>((codes & 0xff) - both);
      to[2 * col + 1] = static_cast<uint16_t>((codes >> 8 & 0xff) - both);
      to[2 * (width + col)] = static_cast<uint16_t>((codes >> 16 & 0xff) - both);
      to[2 * (width + col) + 1] = static_cast<uint16_t>((codes >> 24) - both);
    }
}

// Work units are (image, row, panel, chunk of rows of A), numbered in that order.
struct Work {
  MatmulRun run;
  Form form;
  int64_t a_zero_point, b_zero_point;
  uint8_t flip;  // of B's codes, which are uint8 where they are widened and int8 else
  Panels panels;
  EvenSplit chunks;
  bool copies_a, sums_rows;
  int64_t byte_steps, a_stride;  // of the copy of A
  // A worker's memory: ones, packed panel, its bytes, sums of its columns, rows of A, their sums,
  // tiles.
  int64_t panel_at, bytes_at, columns_at, a_at, rows_at, rest_at, worker_bytes;
  std::byte* scratch = nullptr;

  Work(const KernelArgs& args, const Form& form_, int threads)
      : run(matmul_of(args)), form(form_), panels(0, 0, 1) {
    const auto& attrs = args.layer->as<ir::MatrixMultiplyAttrs>();
    const bool is_unsigned = args.inputs[1].type == DataType::kUInt8;
    flip = is_unsigned == form.widens() ? 0 : 0x80;
    a_zero_point = attrs.a_zero_point;
    b_zero_point = attrs.b_zero_point + (flip == 0 ? 0 : form.widens() ? 128 : -128);
    byte_steps = ceil_div(run.k, kLaneBytes);
    const int64_t per_step = elements_per_step(form.numeric);
    panels = Panels(run.n, byte_steps * (kLaneBytes / per_step), form.vecs);
    const int64_t units = run.images * run.rows * panels.count();
    const int64_t most = units < 2 * threads ? (run.m + threads - 1) / threads : run.m;
    chunks = split_evenly(run.m, round_up(most, max_rows(form.numeric, form.vecs)));
    copies_a = form.widens() || run.a.k != 1 || run.k % kLaneBytes != 0;
    sums_rows = !form.widens() && b_zero_point != 0;
    a_stride = round_up(run.k * element_bytes(form.numeric), 64) + 64;
    const int64_t width = form.vecs * kLanes;
    panel_at = round_up(byte_steps * kLaneBytes, 64);
    bytes_at = panel_at + panels.k * width * kLaneBytes;
    columns_at = bytes_at + (form.widens() ? byte_steps * width * kLaneBytes : 0);
    a_at = columns_at + kMaxColumns * kLaneBytes;
    rows_at = a_at + (copies_a ? run.m * a_stride : 0);
    rest_at = rows_at + (sums_rows ? round_up(run.m * kLaneBytes, 64) : 0);
    // The narrowest panel has the tallest tiles.
    worker_bytes =
        round_up(rest_at + rest_scratch_bytes(run.finish, max_rows(form.numeric, 1)), 64);
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
    if (!work_.form.widens()) tile.start.bias = memory_ + work_.columns_at;
    tile.a.stride = work_.copies_a ? work_.a_stride : run_.a.m;
    set_finish(run_.finish, tile);
    const int64_t first = work_.chunks.start(chunk);
    const EvenSplit tiles = split_evenly(work_.chunks.size(chunk),
                                         max_rows(work_.form.numeric, static_cast<int>(vecs)));
    for (int64_t part = 0; part < tiles.parts; ++part) {
      const int64_t m = first + tiles.start(part);
      const TilePlace place{image, row, m, tiles.size(part)};
      tile.a.first = (work_.copies_a ? memory_ + work_.a_at : a) + m * tile.a.stride;
      if (work_.sums_rows) tile.start.rows = row_sums() + m;
      std::byte* rest = memory_ + work_.rest_at;
      place_byte_tile(run_.finish, place, first_col, cols, 0, first_col, rest, tile);
      kernel(static_cast<int>(vecs), static_cast<int>(place.pixels))(tile);
      finish_byte_tiles(run_.finish, place, first_col, cols, 0, rest);
      look_up_tiles(run_.finish, place, first_col, cols);
    }
  }

 private:
  TileKernel kernel(int vecs, int rows) const {
#if defined(CAMSHAFT_HAS_BYTE_PAIRS)
    if (work_.form.widens()) return widened_tile_kernel(vecs, rows);
#endif
    return byte_tile_kernel(vecs, rows);
  }

  int32_t* row_sums() const {
    return reinterpret_cast<int32_t*>(memory_ + work_.rows_at);
  }

  Tile panel_tile(int64_t panel) const {
    Tile tile{};
    tile.k.segments = &kStart;
    tile.k.num_segments = 1;
    tile.k.length = work_.panels.k;
    tile.b.first = memory_ + work_.panel_at;
    tile.b.stride = work_.panels.vecs_of(panel) * kLanes * kLaneBytes;
    return tile;
  }

  // Rows of A less their zero point; what is beyond adds nothing.
  void widen_rows(const std::byte* a) {
    for (int64_t m = 0; m < run_.m; ++m) {
      const auto* from = reinterpret_cast<const uint8_t*>(a + m * run_.a.m);
      auto* to = reinterpret_cast<int16_t*>(memory_ + work_.a_at + m * work_.a_stride);
      const auto zero_point = static_cast<int16_t>(work_.a_zero_point);
      if (run_.a.k == 1)
        for (int64_t k = 0; k < run_.k; ++k) to[k] = static_cast<int16_t>(from[k] - zero_point);
      else
        for (int64_t k = 0; k < run_.k; ++k)
          to[k] = static_cast<int16_t>(from[k * run_.a.k] - zero_point);
      for (int64_t k = run_.k; k < work_.byte_steps * kLaneBytes; ++k) to[k] = 0;
    }
  }

  // The copy of A and the start values of its rows.
  void prepare_rows(const std::byte* a) {
    if (work_.form.widens()) return widen_rows(a);
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
    std::byte* const packed = memory_ + work_.panel_at;
    std::byte* const bytes = work_.form.widens() ? memory_ + work_.bytes_at : packed;
    pack_byte_panel(b, run_.b.k, run_.b.n, run_.k, cols, vecs * kLanes, work_.flip, bytes);
    if (work_.form.widens())
      return widen_panel(bytes, work_.byte_steps, vecs * kLanes, work_.b_zero_point, packed);
    int32_t* columns = reinterpret_cast<int32_t*>(memory_ + work_.columns_at);
    if (work_.a_zero_point == 0) {
      std::memset(columns, 0, static_cast<size_t>(vecs * kLanes) * sizeof(int32_t));
      return;
    }
    if (!held_.has_ones)
      std::memset(memory_, 1, static_cast<size_t>(work_.byte_steps * kLaneBytes));
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

std::string refusal(const Form& form, const Problem& problem) {
  if (std::string reason = refuse_matmul(problem, Numeric::kByte); !reason.empty()) return reason;
  if (form.widens() && uses(Feature::kVnni)) return "VNNI multiplies bytes as they are";
  if (problem.inputs.size() > 2 && problem.inputs[2].present) return "it has a bias";
  if (form.vecs > 1 && problem.outputs[0].extents.back() <= (form.vecs - 1) * kLanes)
    return "fewer columns than the tile has";
  return {};
}

// Without VNNI bytes are widened in registers, again for every tile (6x16 of words is 1.4 times as
// fast as 3x16 of bytes, Zen 3); a model of the tiles of packed weights knows nothing of that.
constexpr double kWidenedInRegisters = 1.7;

double cost_us(const Form& form, const Problem& problem) {
  int64_t m, n, k;
  if (!matmul_extents(problem, m, n, k)) return 1e12;
  double tiles =
      tile_cost_us(form.numeric, 1, m, n, ceil_div(k, elements_per_step(form.numeric)), form.vecs);
  if (!form.widens() && !uses(Feature::kVnni)) tiles *= kWidenedInRegisters;
  const double packing = static_cast<double>(n * k) * (form.widens() ? 0.4 : 0.2) / 4000,
               widening = form.widens() ? static_cast<double>(m * k) * 0.1 / 4000 : 0;
  return 0.15 + matmul_batch(problem) * (tiles + packing + widening) / problem.threads;
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
  run_units(kernel, call, [](auto& work, int worker, int64_t first, int64_t last) {
    Worker one(work, worker);
    for (int64_t unit = first; unit < last; ++unit) one.run(unit);
  });
}

void prepare(const Form& form, const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const int threads = threads_of(args);
  const Work work(args, form, threads);
  keep_state<run>(kernel, Kernel{work, outer_items(args, work.run, kernel),
                                 threads == 1 || macs_of(work.run) < 4 * kMacsWorthThreads});
  kernel.workspace_bytes = static_cast<size_t>(work.worker_bytes) * static_cast<size_t>(threads);
}

// A row only binds its form.
template <Form F>
constexpr Tactic row(const char* name) {
  return {
      .name = name,
      .kind = ir::LayerKind::kMatrixMultiply,
      .isa = kIsa,
      .formats = FormatRule::kLinear,
      .version = 3,
      .refusal = [](const Problem& problem) { return refusal(F, problem); },
      .cost_us = [](const Problem& problem) { return cost_us(F, problem); },
      .packed_inputs = packed_inputs,
      .packed_bytes = packed_bytes,
      .pack = pack,
      .prepare = [](const KernelArgs& args, PreparedKernel& kernel) { prepare(F, args, kernel); }};
}

#define CAMSHAFT_BYTE_MATMUL_ROW(vecs, tile) row<Form{vecs}>("matmul_u8_" tile),
#define CAMSHAFT_WORD_MATMUL_ROW(vecs, tile) \
  row<Form{vecs, Numeric::kWord}>("matmul_u8_words_" tile),

constexpr Tactic kTactics[] = {CAMSHAFT_BYTE_TILES(CAMSHAFT_BYTE_MATMUL_ROW)
                                   CAMSHAFT_WORD_TILES(CAMSHAFT_WORD_MATMUL_ROW)};
#undef CAMSHAFT_BYTE_MATMUL_ROW
#undef CAMSHAFT_WORD_MATMUL_ROW

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::matmul_dynamic_bytes
