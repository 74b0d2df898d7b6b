// SPDX-License-Identifier: Apache-2.0
// Matrix products whose weights stay codes of 2, 4 or 8 bits. Rows are made integers in L2, a chunk
// at a time; then every thread passes its panels over them.
#include "kernels/vector/gemm/gemm_byte_kernels.h"
#include "kernels/vector/gemm/gemm_cost.h"
#include "kernels/vector/low_bit/matmul_nbits_layer.h"
#include "kernels/vector/prepare.h"
#include "kernels/vector/tactic_util.h"
#include "kernels/weight_zeros.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::matmul_nbits {
namespace {

// What a row of the table is made of: bytes of a row's element; whether weights are 2:4.
struct Form {
  int planes;
  bool sparse = false;
};

template <Form F>
BitGeometry geometry_of(const ir::LowBits& weights) {
  BitGeometry g(weights);
  g.sparse = F.sparse;
  return g;
}

std::string refuse_sparse_codes(const Problem& problem) {
  const BitGeometry g(low_bits_of(problem));
  if (g.bits != 4) return "sparse codes have 4 bits";
  if (g.block % kSparseCodes != 0) return "blocks are no multiple of 32 codes";
  if (g.zero == ir::DataType::kFloat) return "zero points are no codes";
  return refuse_2_4(problem);
}

template <Form F>
std::string refusal(const Problem& problem) {
  if (std::string reason = refuse_low_bits(problem); !reason.empty()) return reason;
  if (F.planes == 1 && !low_bits_of(problem).codes_rows)
    return "the model does not allow int8 rows";
  return F.sparse ? refuse_sparse_codes(problem) : "";
}

template <Form F>
size_t packed_bytes(const Problem& problem) {
  const BitGeometry g = geometry_of<F>(low_bits_of(problem));
  return static_cast<size_t>(g.panels() * g.panel_bytes());
}

template <Form F>
void pack(const Problem& problem, std::byte* packed) {
  pack_panels(geometry_of<F>(low_bits_of(problem)), low_bits_of(problem),
              constant_values<std::byte>(problem.inputs[1]), packed);
}

template <Form F>
double cost_us(const Problem& problem) {
  constexpr int kPlanes = F.planes;
  const BitGeometry g(low_bits_of(problem));
  const double weights =
                   static_cast<double>(g.panels() * kPanelColumns) * static_cast<double>(g.depth),
               rows = static_cast<double>(low_bit_rows(problem));
  const double per_cycle = (uses(Feature::kVnni) ? 6.0 : 2.0) * kLanes;
  const double us = rows * weights * kPlanes / per_cycle / 3000 / problem.threads;
  const double stream_us = static_cast<double>(packed_bytes<F>(problem)) / 60e3;
  return 0.3 + rows * static_cast<double>(g.depth) * kPlanes / 12e3 +
         (us > stream_us ? us : stream_us);
}

template <Form F>
std::string arithmetic(const Problem& problem, const std::byte*) {
  return (F.sparse ? "2:4 " : "") +
         describe_low_bits(problem, F.planes == 1 ? "int8 per block" : "24-bit integers");
}

// ---- running

constexpr int64_t kChunkBytes = 1 << 20;  // of digits, in L2
constexpr int64_t kDigitsWorthThreads = 64 << 10;

struct BitsRun {
  MatmulRun matmul;
  BitGeometry geometry;
  int planes = 3;
  int64_t part_dwords = 1;
  int64_t chunk_rows = 1;  // made integers together
  int64_t row_digits = 1;  // dwords
  int64_t row_parts = 0;   // bytes
  bool shares = false;     // work among threads

  explicit BitsRun(const BitGeometry& g) : geometry(g) {}
  int64_t parts_at() const { return chunk_rows * row_digits * 4; }
  BitTileKernel tile(int rows) const {
    return geometry.sparse ? sparse_bit_tile_kernel(planes, tile_rows(rows))
                           : bit_tile_kernel(geometry.bits, planes, tile_rows(rows));
  }
};

// The rows of one matrix from `first` on, `count` ≤ chunk_rows of them.
struct Chunk {
  const BitsRun* run;
  const std::byte* a;  // of row 0
  int64_t image, row, first, count;
  int32_t* digits;
  std::byte* parts;

  int64_t tiles() const { return ceil_div(count, kMaxBitRows); }
  int64_t rows_of(int64_t tile) const { return smaller(kMaxBitRows, count - tile * kMaxBitRows); }
  int32_t* digits_of(int64_t tile) const { return digits + tile * kMaxBitRows * run->row_digits; }
  std::byte* parts_of(int64_t tile) const { return parts + tile * kMaxBitRows * run->row_parts; }
};

// Rows that a tile lacks stay as they are: whatever they give is not stored.
void make_tile(const Chunk& c, int64_t tile) {
  const BitsRun& run = *c.run;
  const int64_t rows = c.rows_of(tile);
  const int interleaved = tile_rows(rows);
  for (int r = 0; r < interleaved; ++r) {
    const int64_t row = c.first + tile * kMaxBitRows + smaller(r, rows - 1);
    make_digits(reinterpret_cast<const float*>(c.a + row * run.matmul.a.m), run.geometry,
                run.planes, interleaved, r, c.digits_of(tile), c.parts_of(tile));
  }
}

void run_panel(const Chunk& c, const std::byte* packed, int64_t panel, int64_t first_tile,
               int64_t last_tile) {
  const BitsRun& run = *c.run;
  const TileFinish& finish = run.matmul.finish;
  const int64_t channel = panel * kPanelColumns;
  const int64_t columns = smaller(kPanelColumns, run.geometry.columns - channel);
  for (int64_t tile = first_tile; tile < last_tile; ++tile) {
    const int rows = static_cast<int>(c.rows_of(tile));
    const TilePlace place{c.image, c.row, c.first + tile * kMaxBitRows, rows};
    std::byte* y = finish.out.data + c.image * finish.out.image + c.row * finish.out.row +
                   place.col * finish.out.pixel + channel * kLaneBytes;
    run.tile(rows)({.panel = packed + panel * run.geometry.panel_bytes(),
                    .digits = c.digits_of(tile),
                    .parts = c.parts_of(tile),
                    .geometry = &run.geometry,
                    .y = reinterpret_cast<float*>(y),
                    .y_stride = finish.out.pixel / kLaneBytes,
                    .rows = rows,
                    .columns = columns});
    add_initial(finish, place, channel, columns);
    finish_tiles(finish, place, channel, columns);
  }
}

template <class Body>
void share(bool shares, ThreadPool* pool, int64_t count, const Body& body) {
  if (shares)
    pool->parallel_ranges(count, body);
  else
    body(0, int64_t{0}, count);
}

void run_chunk(const Chunk& c, const KernelCall& call) {
  const BitsRun& run = *c.run;
  const bool many = run.shares && c.count * run.row_digits * 4 > kDigitsWorthThreads;
  share(many, call.pool, c.tiles(), [&c](int, int64_t first, int64_t last) {
    for (int64_t tile = first; tile < last; ++tile) make_tile(c, tile);
  });
  // Few panels are shared by rows as well.
  const int64_t panels = run.geometry.panels();
  const int64_t wanted = run.shares ? ceil_div(2 * threads_of(call), panels) : 1;
  const int64_t stripe = ceil_div(c.tiles(), smaller(wanted, c.tiles()));
  const int64_t stripes = ceil_div(c.tiles(), stripe);
  share(run.shares, call.pool, panels * stripes, [&](int, int64_t first, int64_t last) {
    for (int64_t unit = first; unit < last; ++unit) {
      const int64_t from = unit % stripes * stripe;
      run_panel(c, call.packed, unit / stripes, from, smaller(from + stripe, c.tiles()));
    }
  });
}

void run_rows(BitsRun& run, const KernelCall& call) {
  MatmulRun& matmul = run.matmul;
  set_addresses(call, kFirstMatmulOperand, matmul.finish);
  auto* digits = reinterpret_cast<int32_t*>(call.workspace);
  for (int64_t item = 0; item < matmul.images * matmul.rows; ++item) {
    const int64_t image = item / matmul.rows, row = item % matmul.rows;
    const std::byte* a =
        call.input<const std::byte>(0) + image * matmul.a.image + row * matmul.a.row;
    for (int64_t first = 0; first < matmul.m; first += run.chunk_rows)
      run_chunk({&run, a, image, row, first, smaller(run.chunk_rows, matmul.m - first), digits,
                 call.workspace + run.parts_at()},
                call);
  }
}

template <Form F>
void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  constexpr int kPlanes = F.planes;
  if (!has_output(args, kernel)) return;
  BitsRun run{geometry_of<F>(args.layer->as<ir::LowBits>())};
  run.planes = kPlanes;
  MatmulRun& matmul = run.matmul;
  set_low_bits(args, matmul);
  set_program(matmul.finish);
  run.part_dwords = part_dwords(run.geometry.bits);
  run.row_digits = run.geometry.row_dwords() * kPlanes;
  run.row_parts = run.geometry.parts(run.part_dwords) * part_bytes(kPlanes);
  const int64_t fit = round_up(at_least_one(kChunkBytes / (run.row_digits * 4)), kMaxBitRows);
  run.chunk_rows = smaller(fit, round_up(matmul.m, kMaxBitRows));
  const double macs = static_cast<double>(matmul.m) * static_cast<double>(matmul.n) *
                      static_cast<double>(run.geometry.depth);
  run.shares = threads_of(args) > 1 && macs > kMacsWorthThreads;
  kernel.workspace_bytes =
      static_cast<size_t>(run.parts_at() + run.chunk_rows * run.row_parts + 64);
  keep_state<run_rows>(kernel, run);
}

template <Form F>
constexpr Tactic row(const char* name) {
  return {.name = name,
          .kind = ir::LayerKind::kLowBitMultiply,
          .isa = kIsa,
          .formats = FormatRule::kLinear,
          .version = 1,
          .refusal = refusal<F>,
          .cost_us = cost_us<F>,
          .packed_inputs = packed_low_bits,
          .packed_bytes = packed_bytes<F>,
          .pack = pack<F>,
          .prepare = prepare<F>,
          .arithmetic = arithmetic<F>};
}

constexpr Tactic kTactics[] = {row<Form{1}>("matmul_nbits_i8"), row<Form{3}>("matmul_nbits_i24"),
                               row<Form{1, true}>("matmul_sparse_nbits_i8"),
                               row<Form{3, true}>("matmul_sparse_nbits_i24")};

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::matmul_nbits

namespace camshaft::kernels::CAMSHAFT_TARGET {

void prepare_integer_rows(const KernelArgs& args, PreparedKernel& kernel) {
  matmul_nbits::prepare<matmul_nbits::Form{3}>(args, kernel);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
