// SPDX-License-Identifier: Apache-2.0
// Rows sorted by the experts chosen for them, batch by batch.
#include "kernels/index_error.h"
#include "kernels/vector/experts/experts.h"
#include "kernels/vector/gemm/gemm_cost.h"
#include "kernels/vector/prepare.h"
#include "kernels/vector/program/program_tile.h"
#include "kernels/vector/tactic_util.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

// Tiles of three rows take four.
int64_t digit_rows(const ExpertsRun& run) {
  return ceil_div(run.most_choices() * 4, 3) + kMaxBitRows;
}

int64_t take_memory(const ExpertsRun& run, int threads, std::byte* workspace, SortedChoices& sorted,
                    ExpertsBatch& batch) {
  Pieces pieces(workspace);
  sorted = take_sorted(run, pieces);
  const int64_t most = run.most_choices();
  batch.segment = pieces.take<ExpertSegment>(most);
  batch.tile = pieces.take<ExpertTile>(most);
  batch.sums = pieces.take<float>(most * run.sum_stride);
  batch.result = pieces.take<float>(most * run.row_stride);
  if (run.way != ExpertsWay::kIntegers) batch.rows = pieces.take<float>(most * run.row_stride);
  if (run.way != ExpertsWay::kFloats) {
    const int64_t rows = digit_rows(run);
    batch.digits = pieces.take<int32_t>(rows * larger(run.up.row_digits, run.down.row_digits));
    batch.parts = pieces.take<std::byte>(rows * larger(run.up.row_parts, run.down.row_parts));
  }
  if (run.way == ExpertsWay::kUnpacked)
    batch.weights = pieces.take<float>(threads * kUnpackedDepth * kUnpackedWidth);
  return pieces.bytes();
}

void add_tiles(const ExpertsRun& run, const ExpertSegment& segment, int64_t& digits,
               ExpertsBatch& batch) {
  for (int64_t r = 0; r < segment.count; r += kMaxBitRows) {
    const auto rows = static_cast<int32_t>(smaller(kMaxBitRows, segment.count - r));
    const auto first = static_cast<int32_t>(segment.first + r);
    // A single row for several experts is made integers once.
    const ExpertTile* last = batch.tiles > 0 ? &batch.tile[batch.tiles - 1] : nullptr;
    const bool is_copy =
        last && rows == 1 && last->rows == 1 &&
        batch.chosen[first] / run.choices_of_row == batch.chosen[last->first] / run.choices_of_row;
    const auto at = static_cast<int32_t>(is_copy ? last->digits : digits);
    batch.tile[batch.tiles++] = {segment.expert, first, rows, at, is_copy};
    if (!is_copy) digits += tile_rows(rows);
  }
}

}  // namespace

SortedChoices take_sorted(const ExpertsRun& run, Pieces& pieces) {
  auto* const first = pieces.take<int32_t>(run.experts + 1);
  return {first, pieces.take<int32_t>(run.choices())};
}

bool sort_choices(const ExpertsRun& run, const int64_t* chosen, const SortedChoices& sorted) {
  const int64_t count = run.choices();
  for (int64_t e = 0; e <= run.experts; ++e) sorted.first[e] = 0;
  for (int64_t c = 0; c < count; ++c) {
    if (chosen[c] < 0 || chosen[c] >= run.experts) return false;
    ++sorted.first[chosen[c] + 1];
  }
  for (int64_t e = 0; e < run.experts; ++e) sorted.first[e + 1] += sorted.first[e];
  for (int64_t c = 0; c < count; ++c)
    sorted.chosen[sorted.first[chosen[c]]++] = static_cast<int32_t>(c);
  for (int64_t e = run.experts; e > 0; --e) sorted.first[e] = sorted.first[e - 1];
  sorted.first[0] = 0;
  return true;
}

void fill_batch(const ExpertsRun& run, const SortedChoices& sorted, int64_t& expert, int64_t& from,
                ExpertsBatch& batch) {
  batch.segments = batch.tiles = batch.choices = 0;
  batch.chosen = sorted.chosen + from;
  int64_t digits = 0;
  while (from < run.choices() && batch.choices < kMostChoices) {
    while (sorted.first[expert + 1] <= from) ++expert;
    const int64_t count = smaller(sorted.first[expert + 1] - from, kMostChoices - batch.choices);
    ExpertSegment& segment = batch.segment[batch.segments++];
    segment.expert = static_cast<int32_t>(expert);
    segment.first = static_cast<int32_t>(batch.choices);
    segment.count = static_cast<int32_t>(count);
    segment.first_tile = static_cast<int32_t>(batch.tiles);
    segment.integers = run.way == ExpertsWay::kIntegers ||
                       (run.way == ExpertsWay::kUnpacked && count < kLeastUnpackedRows);
    if (segment.integers) add_tiles(run, segment, digits, batch);
    batch.choices += count;
    from += count;
  }
}

namespace {

// --- a batch

struct Call {
  const ExpertsRun& run;
  const KernelCall& call;
  ExpertsBatch batch;

  int64_t row_of(int64_t choice) const { return batch.chosen[choice] / run.choices_of_row; }
  const float* x(int64_t choice) const {
    return call.input<const float>(ir::kExpertRows) + row_of(choice) * run.x_stride;
  }
  const float* bias(size_t k, int64_t expert, int64_t columns) const {
    const auto* all = k < run.views.args.inputs.size() ? call.input<const float>(k) : nullptr;
    return all ? all + expert * columns : nullptr;
  }
  // body(worker, first, last), among threads where `work` elements are worth it.
  template <class Body>
  void share(int64_t count, int64_t work, const Body& body) const {
    constexpr int64_t kWorthThreads = 16 << 10;
    if (run.shares && work > kWorthThreads)
      call.pool->parallel_ranges(count, body);
    else if (count > 0)
      body(0, int64_t{0}, count);
  }
};

// One vector after the other: body(k, mask of what is left).
template <class Body>
void for_vectors(int64_t first, int64_t last, const Body& body) {
  for (int64_t k = first; k < last; k += kLanes)
    body(k, first_n(static_cast<int>(smaller(last - k, kLanes))));
}

void add_row(const float* addend, int64_t count, float* sums) {
  for_vectors(0, count, [&](int64_t k, M32 some) {
    store(sums + k, load(sums + k, some) + load(addend + k, some), some);
  });
}

// Operands of the first product.
void take_rows(const Call& c) {
  const ExpertsBatch& batch = c.batch;
  const ExpertsRun& run = c.run;
  if (run.way != ExpertsWay::kIntegers)
    c.share(batch.segments, batch.choices * run.width, [&](int, int64_t first, int64_t last) {
      for (int64_t s = first; s < last; ++s) {
        const ExpertSegment& segment = batch.segment[s];
        for (int64_t r = segment.first; !segment.integers && r < segment.first + segment.count; ++r)
          __builtin_memcpy(batch.rows + r * run.row_stride, c.x(r),
                           static_cast<size_t>(run.width) * sizeof(float));
      }
    });
  c.share(batch.tiles, batch.tiles * run.up.row_digits, [&](int, int64_t first, int64_t last) {
    for (int64_t t = first; t < last; ++t)
      if (const ExpertTile& tile = batch.tile[t]; !tile.is_copy)
        make_tile_digits(run.up, run.planes, tile, batch,
                         [&](int64_t r) { return c.x(tile.first + r); });
  });
}

void multiply(const Call& c, const ExpertsMultiply& m) {
  const int64_t units = c.batch.segments * m.run->panels();
  c.share(units, units * m.run->panel_columns * m.run->product.depth,
          [&](int worker, int64_t first, int64_t last) {
            for (int64_t unit = first; unit < last; ++unit) multiply_unit(c.batch, m, unit, worker);
          });
}

// What the first product's sums of a choice become, where they are.
void activate(const Call& c, int64_t choice, int64_t expert) {
  const ExpertsRun& run = c.run;
  float* sums = c.batch.sums + choice * run.sum_stride;
  const int64_t columns = run.up.product.columns;
  if (const float* bias = c.bias(ir::kUpBias, expert, columns)) add_row(bias, columns, sums);
  if (run.activation->empty()) return;
  const TileOperand operands[] = {{sums, 0, 1}, {sums + columns - run.hidden, 0, 1}};
  run_program(*run.activation, operands, sums, 0, 1, run.hidden);
}

// Operands of the second product: floats where the sums are, integers in the place of the first
// one's, each tile with rows of its own.
void activate_all(const Call& c, ExpertsBatch& batch) {
  const ExpertsRun& run = c.run;
  const int64_t work = batch.choices * run.up.product.columns;
  int64_t digits = 0;
  for (int64_t t = 0; t < batch.tiles; ++t) {
    batch.tile[t].digits = static_cast<int32_t>(digits);
    digits += tile_rows(batch.tile[t].rows);
  }
  c.share(batch.tiles, work, [&](int, int64_t first, int64_t last) {
    for (int64_t t = first; t < last; ++t) {
      const ExpertTile& tile = batch.tile[t];
      for (int64_t r = 0; r < tile.rows; ++r) activate(c, tile.first + r, tile.expert);
      make_tile_digits(run.down, run.planes, tile, batch,
                       [&](int64_t r) { return batch.sums + (tile.first + r) * run.sum_stride; });
    }
  });
  if (run.way == ExpertsWay::kIntegers) return;
  c.share(batch.choices, work, [&](int, int64_t first, int64_t last) {
    for (int64_t s = 0; s < batch.segments; ++s) {
      const ExpertSegment& segment = batch.segment[s];
      if (segment.integers) continue;
      const int64_t end = smaller(last, segment.first + segment.count);
      for (int64_t r = larger(first, segment.first); r < end; ++r) activate(c, r, segment.expert);
    }
  });
}

// y += share * (sums + bias), for columns [first, last).
void add_shares(const Call& c, int64_t first, int64_t last) {
  const ExpertsRun& run = c.run;
  const auto* shares = c.call.input<const float>(ir::kExpertShares);
  auto* y = c.call.output<float>(0);
  for (int64_t s = 0; s < c.batch.segments; ++s) {
    const ExpertSegment& segment = c.batch.segment[s];
    const float* bias = c.bias(ir::kDownBias, segment.expert, run.width);
    for (int64_t r = segment.first; r < segment.first + segment.count; ++r) {
      const F32 share = set1(shares[c.batch.chosen[r]]);
      const float* sums = c.batch.result + r * run.row_stride;
      float* to = y + c.row_of(r) * run.y_stride;
      for_vectors(first, last, [&](int64_t k, M32 some) {
        F32 sum = load(sums + k, some);
        if (bias) sum = sum + load(bias + k, some);
        store(to + k, fma(share, sum, load(to + k, some)), some);
      });
    }
  }
}

void run_batch(Call& c) {
  const ExpertsRun& run = c.run;
  ExpertsBatch& batch = c.batch;
  take_rows(c);
  multiply(c, {&run.up, c.call.packed, batch.rows, run.row_stride, batch.sums, run.sum_stride,
               run.planes});
  activate_all(c, batch);
  multiply(c, {&run.down, c.call.packed, batch.sums, run.sum_stride, batch.result, run.row_stride,
               run.planes});
  constexpr int64_t kColumns = 64;
  c.share(ceil_div(run.width, kColumns), batch.choices * run.width,
          [&](int, int64_t first, int64_t last) {
            add_shares(c, first * kColumns, smaller(last * kColumns, run.width));
          });
}

Status run_experts(ExpertsRun& run, const KernelCall& call) {
  SortedChoices sorted;
  Call c{run, call, {}};
  take_memory(run, threads_of(call), call.workspace, sorted, c.batch);
  if (!sort_choices(run, call.input<const int64_t>(ir::kExpertsChosen), sorted))
    return chosen_error(run.views.at(call).inputs[ir::kExpertsChosen], run.experts);
  for (int64_t row = 0; row < run.rows; ++row)
    __builtin_memset(call.output<float>(0) + row * run.y_stride, 0,
                     static_cast<size_t>(run.width) * sizeof(float));
  int64_t expert = 0;
  for (int64_t from = 0; from < run.choices();) {
    fill_batch(run, sorted, expert, from, c.batch);
    run_batch(c);
  }
  return Status();
}

int64_t row_stride_of(const TensorView& view) {
  return view.rank < 2 ? view.extents[0] : view.strides[view.rank - 2];
}

}  // namespace

void prepare_experts(const KernelArgs& args, ExpertsWay way, int planes, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const auto& attrs = args.layer->as<ir::ExpertsAttrs>();
  const PackedExperts packed = packed_experts(attrs);
  ExpertsRun run{packed.up, packed.down};
  run.activation = &attrs.activation;
  run.way = way;
  run.planes = planes;
  run.experts = attrs.experts;
  run.width = attrs.width;
  run.hidden = attrs.hidden;
  run.rows = args.outputs[0].elements() / attrs.width;
  run.choices_of_row = args.inputs[ir::kExpertsChosen].elements() / run.rows;
  run.x_stride = row_stride_of(args.inputs[ir::kExpertRows]);
  run.y_stride = row_stride_of(args.outputs[0]);
  // Rows begin in different sets of L1.
  run.row_stride = round_up(run.width, 16) + 16;
  run.sum_stride = round_up(run.up.product.columns, 16) + 16;
  for (ExpertProductRun* product : {&run.up, &run.down}) {
    if (product->product.is_float()) continue;
    product->row_digits = product->geometry.row_dwords() * planes;
    product->row_parts =
        product->geometry.parts(part_dwords(product->geometry.bits)) * part_bytes(planes);
  }
  const double macs = static_cast<double>(run.choices()) *
                      static_cast<double>(run.up.product.columns + run.hidden) *
                      static_cast<double>(run.width);
  run.shares = threads_of(args) > 1 && macs > kMacsWorthThreads;
  run.views = keep_views(args, kernel);
  SortedChoices sorted;
  ExpertsBatch batch;
  kernel.workspace_bytes =
      static_cast<size_t>(take_memory(run, threads_of(args), nullptr, sorted, batch));
  keep_checked_state<run_experts>(kernel, run);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
