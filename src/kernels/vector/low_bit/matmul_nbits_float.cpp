// SPDX-License-Identifier: Apache-2.0
// Weights of few bits in products of floats, for many rows: those of some columns become panels of
// floats near by, once for all rows; from there on it is a product like any other, blocks, threads
// and epilogue included (matmul_packed_f32_*, matmul_parts_f32_*).
#include "kernels/simd/tiles.h"
#include "kernels/vector/convolution/conv_gemm.h"
#include "kernels/vector/gemm/gemm_cost.h"
#include "kernels/vector/low_bit/matmul_nbits_layer.h"
#include "kernels/vector/low_bit/matmul_nbits_unpack.h"
#include "kernels/vector/prepare.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::matmul_nbits_float {
namespace {

constexpr int64_t kGroupBytes = 512 << 10;  // of a group's panels
constexpr int64_t kLeastColumns = 96;       // of a group, or A is read too often
constexpr int64_t kLeastOfThread = 48;

// What a row of the table is made of.
struct Form {
  int vecs;
  bool by_parts = false;  // of the depth
};

std::string refusal(const Form& form, const Problem& problem) {
  if (std::string reason = refuse_low_bits(problem); !reason.empty()) return reason;
  const BitGeometry g(low_bits_of(problem));
  if (form.vecs > 1 && g.columns <= (form.vecs - 1) * kLanes)
    return "fewer columns than the tile has";
  const int64_t rows = low_bit_rows(problem);
  if (rows < kLeastUnpackedRows && form.by_parts) return "few rows";
  if (form.by_parts && !has_parts(rows, g.depth, form.vecs)) return "its panels stay in L1";
  return {};
}

double cost_us(const Form& form, const Problem& problem) {
  const BitGeometry g(low_bits_of(problem));
  const double unpacking = static_cast<double>(g.columns * g.depth) * 2.5 / kLanes / 3000;
  const double tiles =
      tile_cost_us(Numeric::kFloat, 1, low_bit_rows(problem), g.columns, g.depth, form.vecs);
  return 0.3 + (tiles * (form.by_parts ? part_cost(g.columns, g.depth) : 1) + unpacking) /
                   problem.threads;
}

std::string arithmetic(const Problem& problem, const std::byte*) {
  return describe_low_bits(problem, "floats");
}

// ---- running

// Threads take whole groups, each with panels of its own; of few columns, they share every group.
enum class Shares : uint8_t { kNothing, kGroups, kEachGroup };

struct FloatRun {
  BitGeometry geometry;
  MatmulRun matmul;
  int64_t group = 0;    // columns that are multiplied together
  ConvRun whole, last;  // the product of a group, and of the last one
  Shares shares = Shares::kNothing;
  int64_t worker_floats = 0;

  explicit FloatRun(const BitGeometry& g) : geometry(g) {}
  int64_t groups() const { return ceil_div(matmul.n, group); }
  int64_t bias_floats() const { return round_up(group, 16); }
  int64_t panel_floats() const { return round_up(whole.tile.panels(whole.shape).lanes(), 16); }
};

// As even as panels allow.
void choose_groups(int vecs, int threads, FloatRun& run) {
  const BitGeometry& g = run.geometry;
  const int64_t width = vecs * kLanes;
  const int64_t most = larger(kGroupBytes / (g.depth * kLaneBytes), kLeastColumns);
  int64_t groups = ceil_div(g.columns, round_up(most, width));
  if (threads > 1 && macs_of(run.matmul) > kMacsWorthThreads) {
    const int64_t even = round_up(groups, threads);
    run.shares = g.columns / even >= kLeastOfThread ? Shares::kGroups : Shares::kEachGroup;
    if (run.shares == Shares::kGroups) groups = even;
  }
  run.group = round_up(ceil_div(g.columns, groups), width);
}

// A bias is what a product of columns starts from.
bool is_of_columns(const TileSource& bias) {
  return bias.image == 0 && bias.row == 0 && bias.pixel == 0;
}

ConvRun product_of(const Form& form, const KernelArgs& args, const MatmulRun& matmul,
                   int64_t columns) {
  ConvRun run;
  MatmulRun part = matmul;
  part.n = columns;
  set_conv(args, part, run);
  run.tile.max_vecs = form.vecs;
  run.wishes.parts = form.by_parts;
  run.finish.has_initial = run.finish.has_initial && !is_of_columns(run.finish.initial);
  return run;
}

// The panels of columns [first, first + those of the product). Without a pool on the calling
// thread.
void unpack(const FloatRun& run, const std::byte* packed, const Panels& panels, int64_t first,
            ThreadPool* pool, float* to) {
  const auto body = [&](int, int64_t from, int64_t end) {
    for (int64_t panel = from; panel < end; ++panel)
      unpack_panel(run.geometry, packed, (first + panels.first_col(panel)) / kLanes,
                   panels.vecs_of(panel), to + panels.offset(panel));
  };
  if (pool)
    pool->parallel_ranges(panels.count(), body);
  else
    body(0, 0, panels.count());
}

// The columns from `first` on.
void run_group(const FloatRun& run, const KernelCall& call, int64_t first, ThreadPool* pool,
               float* memory) {
  ConvRun product = first + run.group < run.matmul.n ? run.whole : run.last;
  const Panels panels = product.tile.panels(product.shape);
  float *bias = memory, *weights = bias + run.bias_floats();
  const TileFinish& all = run.matmul.finish;
  for (int64_t c = 0; c < panels.n; ++c)
    bias[c] = all.has_initial && !product.finish.has_initial
                  ? *reinterpret_cast<const float*>(all.initial.at(0, 0, 0, first + c))
                  : 0;
  for (int64_t c = panels.n; c < panels.padded_n(); ++c) bias[c] = 0;
  unpack(run, call.packed, panels, first, pool, weights);
  product.x.data = run.matmul.a.data;
  product.weights.bias = reinterpret_cast<const std::byte*>(bias);
  product.weights.panels = reinterpret_cast<const std::byte*>(weights);
  product.finish.out.data = all.out.data + first * all.out.channel();
  product.finish.initial.data = all.initial.at(0, 0, 0, first);
  for (int k = 0; k < all.num_operands; ++k)
    product.finish.operands[k].data = all.operands[k].at(0, 0, 0, first);
  run_conv(product, reinterpret_cast<std::byte*>(weights + run.panel_floats()), pool);
}

void run_groups(FloatRun& run, const KernelCall& call) {
  set_addresses(call, run.matmul);
  auto* const memory = reinterpret_cast<float*>(call.workspace);
  ThreadPool* const together = run.shares == Shares::kEachGroup ? call.pool : nullptr;
  const auto body = [&](int worker, int64_t first, int64_t last) {
    for (int64_t group = first; group < last; ++group)
      run_group(run, call, group * run.group, together, memory + worker * run.worker_floats);
  };
  if (run.shares == Shares::kGroups)
    call.pool->parallel_ranges(run.groups(), body);
  else
    body(0, 0, run.groups());
}

void prepare(const Form& form, const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  FloatRun run{BitGeometry(args.layer->as<ir::LowBits>())};
  MatmulRun& matmul = run.matmul;
  set_low_bits(args, matmul);
  // An engine takes prompts and single tokens with one tactic; weights are packed alike.
  if (matmul.images * matmul.rows * matmul.m < kLeastUnpackedRows)
    return prepare_integer_rows(args, kernel);
  matmul.k = run.geometry.depth;
  choose_groups(form.vecs, threads_of(args), run);
  run.whole = product_of(form, args, matmul, smaller(run.group, matmul.n));
  run.last = product_of(form, args, matmul, (matmul.n - 1) % run.group + 1);
  size_t workspace = 0;
  for (ConvRun* product : {&run.whole, &run.last}) {
    const size_t bytes =
        plan_conv(*product, run.shares == Shares::kEachGroup ? threads_of(args) : 1);
    if (bytes > workspace) workspace = bytes;
  }
  run.worker_floats = run.bias_floats() + run.panel_floats() +
                      round_up(ceil_div(static_cast<int64_t>(workspace), kLaneBytes), 16);
  const int64_t workers = run.shares == Shares::kGroups ? threads_of(args) : 1;
  kernel.workspace_bytes = static_cast<size_t>(workers * run.worker_floats) * sizeof(float);
  FloatRun& kept = keep_state<run_groups>(kernel, run);
  keep_tables(kept.whole, kernel);
  keep_tables(kept.last, kernel);
}

// A row only binds its form.
template <Form F>
constexpr Tactic row(const char* name) {
  return {
      .name = name,
      .kind = ir::LayerKind::kLowBitMultiply,
      .isa = kIsa,
      .formats = FormatRule::kLinear,
      .version = 3,
      .refusal = [](const Problem& problem) { return refusal(F, problem); },
      .cost_us = [](const Problem& problem) { return cost_us(F, problem); },
      .packed_inputs = packed_low_bits,
      .packed_bytes = packed_low_bits_bytes,
      .pack = pack_low_bits,
      .prepare = [](const KernelArgs& args, PreparedKernel& kernel) { prepare(F, args, kernel); },
      .arithmetic = arithmetic};
}

#define CAMSHAFT_LOW_BIT_ROW(vecs, tile) \
  row<Form{vecs}>("matmul_nbits_f32_" tile), row<Form{vecs, true}>("matmul_nbits_parts_f32_" tile),

constexpr Tactic kTactics[] = {CAMSHAFT_UNPACKED_TILES(CAMSHAFT_LOW_BIT_ROW)};
#undef CAMSHAFT_LOW_BIT_ROW

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::matmul_nbits_float
