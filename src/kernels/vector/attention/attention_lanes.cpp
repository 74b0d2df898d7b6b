// SPDX-License-Identifier: Apache-2.0
// Attention of many small heads (columns of a table, frames of a pixel): a head per lane. A head of
// 8 by 8 alone leaves tiles and vectors mostly empty: 0.35 us, here 0.12 (Zen 3). A head's result
// hangs on no other head.
#include "kernels/vector/attention/attention_problem.h"
#include "kernels/vector/attention/attention_rows.h"
#include "kernels/vector/counts.h"
#include "kernels/vector/movement/transpose_tile.h"
#include "kernels/vector/prepare.h"
#include "kernels/vector/tactic_util.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::attention_lanes {
namespace {

constexpr int64_t kMostSteps = 16;     // queries, keys
constexpr int64_t kMostFloats = 2048;  // of a head: kLanes of them are a quarter of L2
constexpr double kMacsWorthThreads = 100e3;

// Where the scratch of a worker has what, in floats: element by element, of all heads.
struct Scratch {
  int64_t queries, keys, values, scores, result, floats;
};

Scratch scratch_of(const AttentionShape& s) {
  const int64_t q = s.queries * s.depth, k = s.keys * s.depth, v = s.keys * s.value_depth,
                y = s.queries * s.value_depth;
  Scratch at{};
  at.keys = at.queries + q * kLanes;
  at.values = at.keys + k * kLanes;
  at.scores = at.values + v * kLanes;
  at.result = at.scores + s.queries * s.keys * kLanes;
  at.floats = at.result + y * kLanes;
  return at;
}

// Units of work are kLanes heads one behind the other.
struct State {
  AttentionCall call;
  Scratch scratch = {};
  bool alone = true;

  int64_t heads() const { return call.shape.batch * call.shape.heads; }
  int64_t units() const { return ceil_div(heads(), kLanes); }
};

// out[row][col] = factor * sum over steps of a[row][step] * b[col][step], in all lanes; strides in
// vectors.
struct Products {
  const float *a, *b;
  float* out;
  int64_t a_row, b_col, b_step, out_row, steps;
  float factor;
};

template <int kRows, int kCols>
CAMSHAFT_INLINE void multiply_tile(const Products& p, int64_t row, int64_t col) {
  F32 sum[kRows][kCols];
#pragma GCC unroll 2
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
    for (int c = 0; c < kCols; ++c) sum[r][c] = zero();
  const float *a = p.a + row * p.a_row * kLanes, *b = p.b + col * p.b_col * kLanes;
  for (int64_t s = 0; s < p.steps; ++s, a += kLanes, b += p.b_step * kLanes) {
    F32 left[kRows];
#pragma GCC unroll 2
    for (int r = 0; r < kRows; ++r) left[r] = load(a + r * p.a_row * kLanes);
#pragma GCC unroll 4
    for (int c = 0; c < kCols; ++c) {
      const F32 right = load(b + c * p.b_col * kLanes);
#pragma GCC unroll 2
      for (int r = 0; r < kRows; ++r) sum[r][c] = fma(left[r], right, sum[r][c]);
    }
  }
  const F32 factor = set1(p.factor);
#pragma GCC unroll 2
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
    for (int c = 0; c < kCols; ++c)
      store(p.out + ((row + r) * p.out_row + col + c) * kLanes, sum[r][c] * factor);
}

template <int kRows>
CAMSHAFT_INLINE void multiply_rows(const Products& p, int64_t row, int64_t cols) {
  int64_t col = 0;
  for (; col + 4 <= cols; col += 4) multiply_tile<kRows, 4>(p, row, col);
  for (; col < cols; ++col) multiply_tile<kRows, 1>(p, row, col);
}

void multiply_all(const Products& p, int64_t rows, int64_t cols) {
  int64_t row = 0;
  for (; row + 2 <= rows; row += 2) multiply_rows<2>(p, row, cols);
  if (row < rows) multiply_rows<1>(p, row, cols);
}

// Scores of a query become weights, those of keys it does not see 0; gives their sum.
F32 weigh_query(float* scores, KeyRange seen, int64_t keys) {
  F32 largest = set1(-kInfinity), sum = zero();
  for (int64_t k = seen.first; k < seen.last; ++k)
    largest = max(load(scores + k * kLanes), largest);
  const F32 shift = select(equal(largest, set1(-kInfinity)), zero(), zero() - largest);
  for (int64_t k = 0; k < keys; ++k) {
    const bool is_seen = k >= seen.first && k < seen.last;
    const F32 weight = is_seen ? weight_of(shift + load(scores + k * kLanes)) : zero();
    store(scores + k * kLanes, weight);
    sum = sum + weight;
  }
  return sum;
}

void attend(const State& s, float* scratch) {
  const AttentionShape& shape = s.call.shape;
  float *scores = scratch + s.scratch.scores, *result = scratch + s.scratch.result;
  multiply_all({scratch + s.scratch.queries, scratch + s.scratch.keys, scores, shape.depth,
                shape.depth, 1, shape.keys, shape.depth, s.call.scale},
               shape.queries, shape.keys);
  F32 sums[kMostSteps];
  for (int64_t q = 0; q < shape.queries; ++q)
    sums[q] = weigh_query(scores + q * shape.keys * kLanes, s.call.windows.seen_by(q, shape.keys),
                          shape.keys);
  multiply_all({scores, scratch + s.scratch.values, result, shape.keys, 1, shape.value_depth,
                shape.value_depth, shape.keys, 1},
               shape.queries, shape.value_depth);
  const F32 nothing = set1(s.call.nothing());
  for (int64_t q = 0; q < shape.queries; ++q) {
    const M32 sees = less(zero(), sums[q]);
    const F32 share = set1(1) / sums[q];
    float* row = result + q * shape.value_depth * kLanes;
    for (int64_t c = 0; c < shape.value_depth; ++c)
      store(row + c * kLanes, select(sees, load(row + c * kLanes) * share, nothing));
  }
}

// Rows of the heads [first, first + count), `strides` apart, from and to where lanes have them.
struct Heads {
  const HeadStrides& strides;
  int64_t heads, first, count, rows, columns;

  // body(where a row of a head is, element by element, in lanes; where it is in memory; so many
  // heads; so many columns): whole heads where their rows lie one behind the other.
  template <class Body>
  void for_runs(const Body& body) const {
    const bool is_even = strides.batch == heads * strides.head, is_whole = strides.step == columns;
    const int64_t parts = is_whole ? 1 : rows, width = is_whole ? rows * columns : columns;
    for (int64_t lane = 0; lane < count;) {
      const int64_t head = first + lane,
                    run = is_even ? count : smaller(count - lane, heads - head % heads);
      for (int64_t part = 0; part < parts; ++part)
        body(part * width * kLanes + lane,
             head / heads * strides.batch + head % heads * strides.head + part * strides.step, run,
             width);
      lane += run;
    }
  }
  void take(const float* x, float* to) const {
    if (count < kLanes) fill(to, 0, rows * columns * kLanes);
    for_runs([&](int64_t lanes, int64_t at, int64_t run, int64_t width) {
      transpose_block(x + at, strides.head, to + lanes, kLanes, run, width);
    });
  }
  void give(const float* from, float* y) const {
    for_runs([&](int64_t lanes, int64_t at, int64_t run, int64_t width) {
      transpose_block(from + lanes, kLanes, y + at, strides.head, width, run);
    });
  }
};

void run_unit(const State& s, const KernelCall& call, int64_t unit, float* scratch) {
  const AttentionShape& shape = s.call.shape;
  const int64_t first = unit * kLanes, count = smaller(kLanes, s.heads() - first);
  const auto heads_of = [&](const HeadStrides& strides, int64_t rows, int64_t columns) {
    return Heads{strides, shape.heads, first, count, rows, columns};
  };
  heads_of(shape.q, shape.queries, shape.depth)
      .take(call.input<const float>(0), scratch + s.scratch.queries);
  heads_of(shape.k, shape.keys, shape.depth)
      .take(call.input<const float>(1), scratch + s.scratch.keys);
  heads_of(shape.v, shape.keys, shape.value_depth)
      .take(call.input<const float>(2), scratch + s.scratch.values);
  attend(s, scratch);
  heads_of(shape.y, shape.queries, shape.value_depth)
      .give(scratch + s.scratch.result, call.output<float>(0));
}

void run(State& s, const KernelCall& call) {
  const auto body = [&](int worker, int64_t first, int64_t last) {
    float* scratch = reinterpret_cast<float*>(call.workspace) + worker * s.scratch.floats;
    for (int64_t unit = first; unit < last; ++unit) run_unit(s, call, unit, scratch);
  };
  if (s.alone)
    body(0, 0, s.units());
  else
    call.pool->parallel_ranges(s.units(), body);
}

void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  AttentionCall call;
  if (!has_output(args, kernel) || !make_attention_call(args, call)) return;
  State& s = keep_state<run>(kernel, State{call});
  s.scratch = scratch_of(s.call.shape);
  s.alone = threads_of(args) == 1 || macs_of(s.call.shape) < kMacsWorthThreads;
  kernel.workspace_bytes = static_cast<size_t>(s.scratch.floats * threads_of(args)) * sizeof(float);
}

std::string refusal(const Problem& p) {
  if (std::string reason = refuse_attention(p); !reason.empty()) return reason;
  AttentionShape s;
  attention_shape(p, s);
  if (s.queries > kMostSteps || s.keys > kMostSteps) return "more than 16 queries or keys";
  if (s.keys * (s.depth + s.value_depth) > kMostFloats ||
      s.queries * (s.depth + s.value_depth) > kMostFloats)
    return "more than 2,048 elements in a head";
  if (s.heads != s.kv_heads) return "heads share keys";
  if (s.batch * s.heads < kLanes / 2) return "fewer heads than half of the lanes";
  if (!p.layer->as<ir::AttentionAttrs>().epilogue.empty()) return "scores have an epilogue";
  if (p.inputs.size() > kAttentionLengths && p.inputs[kAttentionLengths].present)
    return "the number of keys is an input";
  return {};
}

double cost_us(const Problem& p) {
  AttentionShape s;
  if (!attention_shape(p, s)) return 1e12;
  const double steps = static_cast<double>(s.depth + s.value_depth),
               scores = static_cast<double>(s.queries * s.keys),
               moved = static_cast<double>(s.queries + s.keys) * steps,
               units = static_cast<double>(ceil_div(s.batch * s.heads, kLanes));
  return 0.2 + units * (scores * steps * 0.6 + scores * 8 + moved * 2.5) / 4000 / p.threads;
}

constexpr Tactic kTactics[] = {
    {"attention_lanes_f32", ir::LayerKind::kAttention, kIsa, FormatRule::kLinear, 1, refusal,
     cost_us, CAMSHAFT_NOTHING_PACKED, prepare},
};

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::attention_lanes
