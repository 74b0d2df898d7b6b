// SPDX-License-Identifier: Apache-2.0
// Attention of few queries (decoding): keys and values are read once, where they lie, at the speed
// of memory. Work is shared over parts of the keys; a part's maximum, sum and mean wait in the
// workspace until all are there. Parts depend on the shape alone and are merged in order, so
// results do not depend on the number of threads.
#include "kernels/vector/attention/attention_problem.h"
#include "kernels/vector/attention/attention_rows.h"
#include "kernels/vector/counts.h"
#include "kernels/vector/gemm/gemm_pack.h"
#include "kernels/vector/prepare.h"
#include "kernels/vector/tactic_util.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::attention_few {
namespace {

constexpr int64_t kMostQueries = 8;
constexpr int64_t kPartKeys = 512;
constexpr int kTileVecs = kMaxVecs < 4 ? kMaxVecs : 4;
constexpr int64_t kTileRows = kMaxRows[kTileVecs];
constexpr double kMacsWorthThreads = 100e3;

// Units of work are (item of the batch, head, part of the keys), numbered in that order.
struct State {
  AttentionCall call;
  int64_t parts = 0;
  int64_t worker_floats = 0;                   // scores, and values where they are packed
  int64_t result_stride = 0, unit_floats = 0;  // of a unit: means, then maxima and sums
  bool packs_values = false;
  bool alone = true;

  const AttentionShape& shape() const { return call.shape; }
  int64_t units() const { return shape().batch * shape().heads * parts; }
  int64_t maxima() const { return shape().queries * result_stride; }
  int64_t sums() const { return maxima() + shape().queries; }
};

struct Place {
  int64_t b, head, part;
};

Place place_of(const State& s, int64_t unit) {
  const int64_t item = unit / s.parts;
  return {item / s.shape().heads, item % s.shape().heads, unit % s.parts};
}

// The part's mean of the values for its weights, not divided by their sum yet.
void weigh_values(const State& s, const float* v, int64_t first, int64_t last, const float* scores,
                  float* packed, float* result) {
  const AttentionShape& shape = s.shape();
  const Panels panels(shape.value_depth, last - first, kTileVecs);
  Tile tile = plain_tile(scores, kPartKeys, s.result_stride);
  tile.k.length = last - first;
  for (int64_t p = 0; p < panels.count(); ++p) {
    const float* from = v + first * shape.v.step + panels.first_col(p);
    const int64_t width = panels.vecs_of(p) * kLanes;
    if (s.packs_values)
      pack_panel(from, shape.v.step, 1, last - first, panels.cols_of(p), width, 1, packed);
    tile.b.first = reinterpret_cast<const std::byte*>(s.packs_values ? packed : from);
    tile.b.stride = (s.packs_values ? width : shape.v.step) * kLaneBytes;
    tile.c.cols = panels.cols_of(p);
    for (int64_t row = 0; row < shape.queries; row += kTileRows) {
      tile.a.first = reinterpret_cast<const std::byte*>(scores + row * kPartKeys);
      tile.c.first =
          reinterpret_cast<std::byte*>(result + row * s.result_stride + panels.first_col(p));
      tile_kernel(panels.vecs_of(p),
                  static_cast<int>(smaller(kTileRows, shape.queries - row)))(tile);
    }
  }
}

void run_unit(const State& s, const KernelCall& call, const Place& place, float* scratch,
              float* unit) {
  const AttentionShape& shape = s.shape();
  const int64_t length = s.call.length(call, place.b), kv = place.head / shape.group();
  const float* q = call.input<const float>(0) + place.b * shape.q.batch + place.head * shape.q.head;
  const float* k = call.input<const float>(1) + place.b * shape.k.batch + kv * shape.k.head;
  const float* v = call.input<const float>(2) + place.b * shape.v.batch + kv * shape.v.head;
  const KeyRange seen = s.call.windows.seen_by(0, shape.queries - 1, length);
  const int64_t first = larger(seen.first, place.part * kPartKeys),
                last = smaller(seen.last, (place.part + 1) * kPartKeys);
  float *maxima = unit + s.maxima(), *sums = unit + s.sums();
  if (first >= last) {
    for (int64_t r = 0; r < shape.queries; ++r) maxima[r] = -kInfinity, sums[r] = 0;
    return;
  }
  float* scores = scratch;  // of query r and key j: scores[r * kPartKeys + j - first]
  for (int64_t j = first; j < last; j += kDotsTogether)
    for (int64_t r = 0; r < shape.queries; ++r)
      dots(q + r * shape.q.step, k + j * shape.k.step, shape.k.step,
           smaller(kDotsTogether, last - j), shape.depth, s.call.scale,
           scores + r * kPartKeys + j - first);
  if (s.call.finish.epilogue.is_program)
    run_tile_program(s.call.finish, {place.b, place.head, 0, shape.queries}, scores, kPartKeys,
                     first, last - first);
  const int64_t end = round_up(last - first, kLanes);
  for (int64_t r = 0; r < shape.queries; ++r) {
    const KeyRange own = s.call.windows.seen_by(r, length);
    const int64_t own_first = smaller(larger(own.first, first), last),
                  own_last = larger(smaller(own.last, last), own_first);
    hide(scores + r * kPartKeys, 0, own_first - first);
    hide(scores + r * kPartKeys, own_last - first, end);
    maxima[r] = largest_of(scores + r * kPartKeys, 0, end);
  }
  weigh_rows(scores, kPartKeys, shape.queries, 0, end, maxima, sums);
  weigh_values(s, v, first, last, scores, scratch + shape.queries * kPartKeys, unit);
}

// The parts of a head's queries become its rows of the output.
void merge_parts(const State& s, const KernelCall& call, int64_t item, const float* units) {
  const AttentionShape& shape = s.shape();
  float* y = call.output<float>(0) + item / shape.heads * shape.y.batch +
             item % shape.heads * shape.y.head;
  for (int64_t r = 0; r < shape.queries; ++r, y += shape.y.step) {
    const float* unit = units + item * s.parts * s.unit_floats;
    const auto maximum = [&](int64_t part) { return unit[part * s.unit_floats + s.maxima() + r]; };
    float largest = -kInfinity, sum = 0;
    for (int64_t part = 0; part < s.parts; ++part)
      if (maximum(part) > largest) largest = maximum(part);
    fill(y, 0, shape.value_depth);
    for (int64_t part = 0; part < s.parts; ++part) {
      const float* own = unit + part * s.unit_floats;
      const float share = own[s.sums() + r];
      if (share == 0) continue;  // sees nothing: its means are not there
      const float factor = exponential(maximum(part) - largest);
      sum += share * factor;
      add_scaled(own + r * s.result_stride, factor, shape.value_depth, y);
    }
    if (sum > 0)
      scale_in_place(y, 1 / sum, shape.value_depth);
    else
      fill(y, s.call.nothing(), shape.value_depth);
  }
}

void run(State& s, const KernelCall& call) {
  set_addresses(call, kFirstAttentionOperand, s.call.finish);
  float* const units = reinterpret_cast<float*>(call.workspace);
  float* const scratch = units + round_up(s.units() * s.unit_floats, 16);
  const auto parts = [&](int worker, int64_t first, int64_t last) {
    for (int64_t unit = first; unit < last; ++unit)
      run_unit(s, call, place_of(s, unit), scratch + worker * s.worker_floats,
               units + unit * s.unit_floats);
  };
  const auto merge = [&](int, int64_t first, int64_t last) {
    for (int64_t item = first; item < last; ++item) merge_parts(s, call, item, units);
  };
  const int64_t items = s.shape().batch * s.shape().heads;
  if (s.alone) {
    parts(0, 0, s.units());
    merge(0, 0, items);
  } else {
    call.pool->parallel_ranges(s.units(), parts);
    call.pool->parallel_ranges(items, merge);
  }
}

void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  AttentionCall call;
  if (!has_output(args, kernel) || !make_attention_call(args, call)) return;
  State& s = keep_state<run>(kernel, State{call});
  AttentionCall& kept = s.call;
  kept.set_epilogue_of(args);
  kept.take_heads_as_queries();
  set_program(kept.finish);
  const AttentionShape& shape = kept.shape;
  s.parts = at_least_one(ceil_div(shape.keys, kPartKeys));
  s.packs_values = shape.value_depth % kLanes != 0;
  s.worker_floats =
      shape.queries * kPartKeys + (s.packs_values ? kTileVecs * kLanes * kPartKeys : 0);
  s.result_stride = round_up(shape.value_depth, kLanes);
  s.unit_floats = round_up(s.sums() + shape.queries, 16);
  s.alone = !args.pool || args.pool->threads() == 1 || macs_of(shape) < kMacsWorthThreads;
  kernel.workspace_bytes = static_cast<size_t>(round_up(s.units() * s.unit_floats, 16) +
                                               threads_of(args) * s.worker_floats) *
                           sizeof(float);
}

std::string refusal(const Problem& p) {
  if (std::string reason = refuse_attention(p); !reason.empty()) return reason;
  AttentionShape shape;
  attention_shape(p, shape);
  const int64_t rows = shape.queries == 1 ? shape.group() : shape.queries;
  return rows > kMostQueries ? "more than 8 queries of the same keys" : "";
}

double cost_us(const Problem& p) {
  AttentionShape shape;
  if (!attention_shape(p, shape)) return 1e12;
  const auto rows = static_cast<double>(shape.batch * shape.heads * shape.queries);
  const auto per_key = static_cast<double>(shape.depth + shape.value_depth) / kLanes + 14;
  return 0.3 + rows * static_cast<double>(shape.keys) * per_key / 4000 / p.threads;
}

constexpr Tactic kTactics[] = {
    {.name = "attention_few_f32",
     .kind = ir::LayerKind::kAttention,
     .isa = kIsa,
     .formats = FormatRule::kLinear,
     .version = 2,
     .refusal = refusal,
     .cost_us = cost_us,
     .packed_inputs = no_packed_inputs,
     .packed_bytes = no_packed_bytes,
     .pack = pack_nothing,
     .prepare = prepare},
};

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::attention_few
