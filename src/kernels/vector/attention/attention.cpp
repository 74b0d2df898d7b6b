// SPDX-License-Identifier: Apache-2.0
// Attention: a block of keys and values is packed into L2, then every tile of queries passes it.
// Its scores are a few rows in L1: their product with the keys, the epilogue, the exponentials and
// the product with the values follow each other there. Where there are more keys than one block
// has, sums are rescaled when a block has a much larger score. Blocks depend on the shape alone and
// a row on no other, so results do not depend on the number of threads.
#include "kernels/vector/attention/attention_pack.h"
#include "kernels/vector/attention/attention_problem.h"
#include "kernels/vector/attention/attention_rows.h"
#include "kernels/vector/counts.h"
#include "kernels/vector/gemm/gemm_bf16.h"
#include "kernels/vector/gemm/gemm_cost.h"
#include "kernels/vector/gemm/gemm_plain.h"
#include "kernels/vector/prepare.h"
#include "kernels/vector/shares.h"
#include "kernels/vector/tactic_util.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::attention {
namespace {

constexpr int64_t kMostKeys = 512, kLeastKeys = 64;  // of a block
constexpr int64_t kBlockFloats = 64 * 1024;          // of its keys and values
constexpr int64_t kPad = 16;           // floats that keep rows of scratch from the same sets of L1
constexpr double kUsWorthThreads = 8;  // of one thread
// Of a unit: of fewer rows each more would pack the keys again (384: 1.05 times as long, Zen 3).
constexpr int64_t kMostUnitRows = 1024;
constexpr int64_t kLeastRowsOfThread = kTileRows < 12 ? 2 * kTileRows : kTileRows;
constexpr double kEven = 1.1;
constexpr float kUntouched = -1;  // as a sum
// A row's maximum stays where later scores are larger by less: weights up to e^16, whose sums are
// as exact. 4,096 keys of 64 columns: 0.98 of the time that finding it anew for every block takes.
constexpr float kHeadroom = 16;
constexpr int64_t kMostRowsAhead = 32;  // more in one go keep what is needed now waiting

int64_t keys_per_block(const AttentionShape& shape) {
  const int64_t fitting = kBlockFloats / larger(shape.depth + shape.value_depth, 1);
  const int64_t most = smaller(larger(fitting, kLeastKeys), kMostKeys);
  const int64_t blocks = at_least_one(ceil_div(shape.keys, most));
  return round_up(at_least_one(ceil_div(shape.keys, blocks)), kTileCols);
}

// Where the scratch of a worker has what, in floats.
struct Scratch {
  int64_t queries, keys, values, scores, maxima, sums, floats;
  int64_t query_stride, score_stride;
};

Scratch scratch_of(const AttentionShape& shape, int64_t block, int64_t unit_rows) {
  Scratch s{};
  s.query_stride = round_up(shape.depth, kLanes) + kPad;
  s.score_stride = block + kPad;
  s.keys = round_up(kTileRows * s.query_stride, 16);
  s.values = s.keys + block * shape.depth;
  s.scores = s.values + block * round_up(shape.value_depth, kLanes);
  s.maxima = s.scores + round_up(kTileRows * s.score_stride, 16);
  s.sums = s.maxima + round_up(unit_rows, 16);
  s.floats = s.sums + round_up(unit_rows, 16);
  return s;
}

// Units of work are (item of the batch, head of keys and values, part of the rows that read it),
// numbered in that order. Rows are (head of the group, query).
struct State {
  AttentionCall call;
  int64_t block = 0;  // of keys
  EvenSplit parts = {};
  Scratch scratch = {};
  bool pairs = false;  // products of bfloat16s
  bool alone = true;

  int64_t steps(int64_t k) const { return steps_of(k, pairs); }
  TileKernel kernel(int vecs, int64_t rows) const {
    return (pairs ? pair_tile_kernel : tile_kernel)(vecs, static_cast<int>(rows));
  }

  int64_t units() const { return call.shape.batch * call.shape.kv_heads * parts.parts; }
};

// Parts of the rows that read the same keys: as few as kMostUnitRows lets, or more where so many
// threads could not divide them evenly. Each part packs the keys again. What a row gives does not
// depend on the parts.
EvenSplit split_rows(const AttentionShape& shape, int64_t threads) {
  const int64_t rows = shape.group() * shape.queries, items = shape.batch * shape.kv_heads;
  int64_t parts = at_least_one(ceil_div(rows, kMostUnitRows));
  for (int64_t more = parts + 1; rows / more >= kLeastRowsOfThread; ++more) {
    if (imbalance(items * parts, threads) <= kEven) break;
    if (imbalance(items * more, threads) < imbalance(items * parts, threads)) parts = more;
  }
  return split_evenly(rows, ceil_div(rows, parts));
}

// What a unit reads and writes.
struct Unit {
  const State& state;
  const float *q, *k, *v;  // of the first head of the group
  float* y;
  float* scratch;
  int64_t b, first_head, first_row, last_row, length;
  const float *next_k, *next_v;  // of the unit after this one, or null
  Tile of_scores, of_values;     // what all tiles have in common
};

// Queries of one head whose scores are computed together.
struct RowTile {
  int64_t head, query, rows;
  int64_t row;  // within the unit
};

// Floats become pairs where they lie.
void narrow(const State& s, float* row, int64_t count) {
  if (s.pairs) to_bf16(row, count, reinterpret_cast<uint16_t*>(row));
}

void copy_queries(const Unit& unit, const RowTile& tile) {
  const State& s = unit.state;
  const AttentionShape& shape = s.call.shape;
  const float* from = unit.q + tile.head * shape.q.head + tile.query * shape.q.step;
  float* to = unit.scratch + s.scratch.queries;
  for (int64_t r = 0; r < tile.rows; ++r, from += shape.q.step, to += s.scratch.query_stride) {
    scale_copy(from, s.call.scale, shape.depth, to);
    if (shape.depth % 2 != 0) to[shape.depth] = 0;
    narrow(s, to, round_up(shape.depth, 2));
  }
}

// 4,096 tokens of 64 columns wait 7 % of the time for queries and sums nobody fetched (Zen 3).
CAMSHAFT_INLINE void fetch_next_queries(const Unit& unit, const RowTile& tile) {
  const AttentionShape& shape = unit.state.call.shape;
  fetch(unit.q + tile.head * shape.q.head + (tile.query + tile.rows) * shape.q.step, shape.q.step,
        tile.rows, shape.depth);
}

CAMSHAFT_INLINE void fetch_sums(const Unit& unit, const RowTile& tile) {
  const AttentionShape& shape = unit.state.call.shape;
  fetch(unit.y + tile.head * shape.y.head + tile.query * shape.y.step, shape.y.step, tile.rows,
        shape.value_depth);
}

// Keys and values that are packed next, fetched into L2 a few rows with every tile: packing 49 of
// each waits a fifth of the time for them (Zen 3).
struct NextBlock {
  const float *k, *v;
  int64_t keys, rows_per_tile;
  int64_t fetched = 0;

  CAMSHAFT_INLINE_MEMBER void fetch_some(const AttentionShape& shape) {
    const int64_t rows = smaller(rows_per_tile, keys - fetched);
    fetch<kIntoL2>(k + fetched * shape.k.step, shape.k.step, rows, shape.depth);
    fetch<kIntoL2>(v + fetched * shape.v.step, shape.v.step, rows, shape.value_depth);
    fetched += rows;
  }
};

NextBlock next_block(const Unit& unit, int64_t first_key, int64_t last_key) {
  const AttentionShape& shape = unit.state.call.shape;
  NextBlock next{unit.next_k, unit.next_v, 0, 0};
  if (first_key < last_key)
    next = {unit.k + first_key * shape.k.step, unit.v + first_key * shape.v.step, 0, 0};
  else
    first_key = 0;
  const int64_t tiles = ceil_div(unit.last_row - unit.first_row, kTileRows),
                keys = smaller(unit.state.block, shape.keys - first_key);
  next.rows_per_tile = ceil_div(keys, tiles);
  if (next.k && next.rows_per_tile <= kMostRowsAhead) next.keys = keys;
  return next;
}

void set_tiles(Unit& unit) {
  const State& s = unit.state;
  unit.of_scores =
      plain_tile(unit.scratch + s.scratch.queries, s.scratch.query_stride, s.scratch.score_stride);
  unit.of_scores.k.length = s.steps(s.call.shape.depth);
  set_floats(s.call.finish.epilogue, unit.of_scores.floats);
  unit.of_values =
      plain_tile(unit.scratch + s.scratch.scores, s.scratch.score_stride, s.call.shape.y.step);
}

// Scores against whole panels of keys [from, to), all in one call.
void compute_whole_scores(const Unit& unit, const RowTile& rows, const TilePlace& place,
                          const FloatFinish& finish, int64_t block_key, int64_t from, int64_t to) {
  const State& s = unit.state;
  const int64_t depth = s.call.shape.depth, panel = kTileCols * depth;
  PlainProduct p{.a = unit.scratch + s.scratch.queries,
                 .a_row = s.scratch.query_stride,
                 .b = unit.scratch + s.scratch.keys + from * panel,
                 .b_panel = panel,
                 .panels = to - from,
                 .steps = depth,
                 .c = unit.scratch + s.scratch.scores + from * kTileCols,
                 .c_row = s.scratch.score_stride,
                 .low = finish.low,
                 .high = finish.high};
  if (s.call.finish.epilogue.adds()) {
    const TileSource& operand = s.call.finish.residual();
    p.added = reinterpret_cast<const float*>(
        operand.at(place.image, place.row, place.col, block_key + from * kTileCols));
    p.added_row = operand.pixel / kLaneBytes;
  }
  plain_kernel(kTileVecs, rows.rows)(p);
}

// Scores against the panels of keys [from, to), whole or not.
void compute_any_scores(const Unit& unit, const RowTile& rows, const TilePlace& place,
                        const Panels& panels, int64_t block_key, int64_t from, int64_t to) {
  const State& s = unit.state;
  Tile tile = unit.of_scores;
  for (int64_t p = from; p < to; ++p) {
    const int64_t col = panels.first_col(p), vecs = panels.vecs_of(p);
    tile.b.first =
        reinterpret_cast<const std::byte*>(unit.scratch + s.scratch.keys + panels.offset(p));
    tile.b.stride = vecs * kLanes * kLaneBytes;
    tile.c.cols = panels.cols_of(p);
    tile.c.first = reinterpret_cast<std::byte*>(unit.scratch + s.scratch.scores + col);
    if (s.call.finish.epilogue.adds()) {
      const TileSource& operand = s.call.finish.residual();
      tile.residual.first = operand.at(place.image, place.row, place.col, block_key + col);
      tile.residual.stride = operand.pixel;
    }
    s.kernel(static_cast<int>(vecs), rows.rows)(tile);
  }
}

// Scores of the keys [first, last) of a block, and a few around them.
void compute_scores(const Unit& unit, const RowTile& rows, int64_t block_key, int64_t count,
                    int64_t first, int64_t last) {
  const State& s = unit.state;
  const Panels panels(count, s.steps(s.call.shape.depth), kTileVecs);
  const TilePlace place{unit.b, unit.first_head + rows.head, rows.query, rows.rows};
  const FloatFinish& finish = unit.of_scores.floats;
  int64_t p = first / kTileCols;
  const int64_t end = smaller(ceil_div(last, kTileCols), panels.count()),
                whole = smaller(end, count / kTileCols);
  if (!s.pairs && p < whole && ends_plainly(finish)) {
    compute_whole_scores(unit, rows, place, finish, block_key, p, whole);
    p = whole;
  }
  if (p < end) compute_any_scores(unit, rows, place, panels, block_key, p, end);
  if (s.call.finish.epilogue.is_program)
    run_tile_program(s.call.finish, place, unit.scratch + s.scratch.scores + first,
                     s.scratch.score_stride, block_key + first, last - first);
}

// Weights of the keys [first, last) times all whole panels of values.
void add_whole_values(const Unit& unit, const RowTile& rows, float* y, int64_t count, int64_t first,
                      int64_t last, bool accumulate) {
  const State& s = unit.state;
  plain_kernel(kTileVecs, rows.rows)({.a = unit.scratch + s.scratch.scores + first,
                                      .a_row = s.scratch.score_stride,
                                      .b = unit.scratch + s.scratch.values + first * kTileCols,
                                      .b_panel = kTileCols * count,
                                      .panels = s.call.shape.value_depth / kTileCols,
                                      .steps = last - first,
                                      .c = y,
                                      .c_row = s.call.shape.y.step,
                                      .from_c = accumulate});
}

// The same with the panels of values from `from` on, whole or not.
void add_any_values(const Unit& unit, const RowTile& rows, float* y, const Panels& panels,
                    int64_t from, int64_t first, int64_t last, bool accumulate) {
  const State& s = unit.state;
  Tile tile = unit.of_values;
  tile.k.length = s.steps(last - first);
  tile.a.first = reinterpret_cast<const std::byte*>(unit.scratch + s.scratch.scores + first);
  tile.start.from_c = accumulate;
  for (int64_t p = from; p < panels.count(); ++p) {
    const int64_t width = panels.vecs_of(p) * kLanes;
    tile.b.first = reinterpret_cast<const std::byte*>(unit.scratch + s.scratch.values +
                                                      panels.offset(p) + s.steps(first) * width);
    tile.b.stride = width * kLaneBytes;
    tile.c.cols = panels.cols_of(p);
    tile.c.first = reinterpret_cast<std::byte*>(y + panels.first_col(p));
    s.kernel(panels.vecs_of(p), rows.rows)(tile);
  }
}

void add_values(const Unit& unit, const RowTile& rows, int64_t count, int64_t first, int64_t last,
                bool accumulate) {
  const State& s = unit.state;
  const Panels panels(s.call.shape.value_depth, s.steps(count), kTileVecs);
  float* y = unit.y + rows.head * s.call.shape.y.head + rows.query * s.call.shape.y.step;
  const int64_t whole = s.pairs ? 0 : s.call.shape.value_depth / kTileCols;
  if (whole > 0) add_whole_values(unit, rows, y, count, first, last, accumulate);
  if (whole < panels.count()) add_any_values(unit, rows, y, panels, whole, first, last, accumulate);
}

// Scores of a tile, in which of each row [first, last) are seen, some of them by no query.
struct ScoreRows {
  const Unit& unit;
  const RowTile& rows;
  int64_t block_key, first, last;

  int64_t begin() const { return first / kLanes * kLanes; }
  int64_t end() const { return round_up(last, kLanes); }
  int64_t stride() const { return unit.state.scratch.score_stride; }
  float* scores(int64_t r = 0) const {
    return unit.scratch + unit.state.scratch.scores + r * stride();
  }
  float* maxima() const { return unit.scratch + unit.state.scratch.maxima + rows.row; }
  float* sums() const { return unit.scratch + unit.state.scratch.sums + rows.row; }
};

void hide_unseen(const ScoreRows& s) {
  for (int64_t r = 0; r < s.rows.rows; ++r) {
    const KeyRange own = s.unit.state.call.windows.seen_by(s.rows.query + r, s.unit.length);
    const int64_t own_first = smaller(larger(own.first - s.block_key, s.first), s.last),
                  own_last = larger(smaller(own.last - s.block_key, s.last), own_first);
    hide(s.scores(r), s.begin(), own_first);
    hide(s.scores(r), own_last, s.end());
  }
}

// Row r's maximum becomes `found`: what was added up so far is scaled.
void raise_maximum(const ScoreRows& s, int64_t r, float found, float& before) {
  const AttentionShape& shape = s.unit.state.call.shape;
  const float rescale = exponential(s.maxima()[r] - found);
  before *= rescale;
  scale_in_place(s.unit.y + s.rows.head * shape.y.head + (s.rows.query + r) * shape.y.step, rescale,
                 shape.value_depth);
  s.maxima()[r] = found;
}

template <class Stored>
void weigh_first(const ScoreRows& s) {
  for (int64_t r = 0; r < s.rows.rows; ++r)
    s.maxima()[r] = largest_of(s.scores(r), s.begin(), s.end());
  weigh_rows<Stored>(s.scores(), s.stride(), s.rows.rows, s.begin(), s.end(), s.maxima(), s.sums());
}

// Beside the maxima of the keys before; a row in which a score is larger by more than kHeadroom
// gets another, and since its scores are gone by then, those of the tile are computed again.
template <class Stored, class Again>
void weigh_next(const ScoreRows& s, const Again& compute_again) {
  float before[kTileRows], largest[kTileRows];
  const int64_t rows = s.rows.rows;
  const auto is_raised = [&](int64_t r) { return largest[r] > s.maxima()[r] + kHeadroom; };
  bool any = false;
  for (int64_t r = 0; r < rows; ++r) before[r] = s.sums()[r];
  weigh_rows<Stored>(s.scores(), s.stride(), rows, s.begin(), s.end(), s.maxima(), s.sums(),
                     largest);
  for (int64_t r = 0; r < rows; ++r) any |= is_raised(r);
  if (any) {
    compute_again();
    for (int64_t r = 0; r < rows; ++r)
      if (is_raised(r)) raise_maximum(s, r, largest[r], before[r]);
    weigh_rows<Stored>(s.scores(), s.stride(), rows, s.begin(), s.end(), s.maxima(), s.sums());
  }
  for (int64_t r = 0; r < rows; ++r) s.sums()[r] += before[r];
}

// Scores of the keys [first, last) of a block become weights. `touched`: there were keys before.
template <class Stored>
void weigh(const Unit& unit, const RowTile& rows, int64_t block_key, int64_t count, int64_t first,
           int64_t last, bool touched) {
  const ScoreRows scores{unit, rows, block_key, first, last};
  const auto compute = [&] {
    compute_scores(unit, rows, block_key, count, first, last);
    hide_unseen(scores);
  };
  compute();
  if (touched)
    weigh_next<Stored>(scores, compute);
  else
    weigh_first<Stored>(scores);
}

void pass_tile(const Unit& unit, const RowTile& rows, int64_t block_key, int64_t count) {
  const State& s = unit.state;
  const KeyRange seen = s.call.windows.seen_by(rows.query, rows.query + rows.rows - 1, unit.length);
  const int64_t first = larger(seen.first - block_key, 0),
                last = smaller(seen.last - block_key, count);
  if (first >= last) return;
  const bool touched = unit.scratch[s.scratch.sums + rows.row] != kUntouched;
  copy_queries(unit, rows);
  fetch_sums(unit, rows);
  (s.pairs ? weigh<Bf16> : weigh<float>)(unit, rows, block_key, count, first, last, touched);
  fetch_next_queries(unit, rows);
  // Pairs begin at an even key; weights of keys nobody sees are 0.
  add_values(unit, rows, count, s.pairs ? first / kLanes * kLanes : first, last, touched);
}

// Sums become means.
void finish_tile(const Unit& unit, const RowTile& tile) {
  const State& s = unit.state;
  const AttentionShape& shape = s.call.shape;
  const float* sums = unit.scratch + s.scratch.sums + tile.row;
  float* y = unit.y + tile.head * shape.y.head + tile.query * shape.y.step;
  for (int64_t r = 0; r < tile.rows; ++r, y += shape.y.step) {
    if (sums[r] > 0)
      scale_in_place(y, 1 / sums[r], shape.value_depth);
    else
      fill(y, s.call.nothing(), shape.value_depth);
  }
}

// Calls body for all tiles of rows of the unit.
template <class Body>
void for_each_tile(const Unit& unit, const Body& body) {
  const int64_t queries = unit.state.call.shape.queries;
  for (int64_t row = unit.first_row; row < unit.last_row;) {
    const int64_t head = row / queries, end = smaller((head + 1) * queries, unit.last_row);
    const EvenSplit tiles = split_evenly(end - row, kTileRows);
    for (int64_t t = 0; t < tiles.parts; ++t) {
      const int64_t at = row + tiles.start(t);
      body(RowTile{head, at - head * queries, tiles.size(t), at - unit.first_row});
    }
    row = end;
  }
}

void run_unit(const Unit& unit) {
  const State& s = unit.state;
  float* sums = unit.scratch + s.scratch.sums;
  for (int64_t r = 0; r < unit.last_row - unit.first_row; ++r) sums[r] = kUntouched;
  const int64_t queries = s.call.shape.queries, last_row = unit.last_row - 1;
  const bool one_head = unit.first_row / queries == last_row / queries;
  const KeyRange seen =
      s.call.windows.seen_by(one_head ? unit.first_row % queries : 0,
                             one_head ? last_row % queries : queries - 1, unit.length);
  const auto finish = [&](const RowTile& tile) { finish_tile(unit, tile); };
  if (seen.first >= seen.last) return for_each_tile(unit, finish);
  for (int64_t key = seen.first / s.block * s.block; key < seen.last; key += s.block) {
    const int64_t count = smaller(s.block, s.call.shape.keys - key);
    const bool is_last = key + s.block >= seen.last;
    NextBlock next = next_block(unit, key + s.block, seen.last);
    pack_keys(s.call.shape, s.pairs, unit.k + key * s.call.shape.k.step, count,
              unit.scratch + s.scratch.keys);
    pack_values(s.call.shape, s.pairs, unit.v + key * s.call.shape.v.step, count,
                unit.scratch + s.scratch.values);
    for_each_tile(unit, [&](const RowTile& tile) {
      next.fetch_some(s.call.shape);
      pass_tile(unit, tile, key, count);
      if (is_last) finish(tile);
    });
  }
}

struct UnitPlace {
  int64_t b, kv_head, part;
};

UnitPlace place_of(const State& s, int64_t number) {
  const int64_t item = number / s.parts.parts, kv_heads = s.call.shape.kv_heads;
  return {item / kv_heads, item % kv_heads, number % s.parts.parts};
}

// Those that the unit reads.
const float* keys_of(const State& s, const KernelCall& call, const UnitPlace& place) {
  const HeadStrides& k = s.call.shape.k;
  return call.input<const float>(1) + place.b * k.batch + place.kv_head * k.head;
}
const float* values_of(const State& s, const KernelCall& call, const UnitPlace& place) {
  const HeadStrides& v = s.call.shape.v;
  return call.input<const float>(2) + place.b * v.batch + place.kv_head * v.head;
}

// `end`: of the units that this worker runs.
Unit unit_of(const State& s, const KernelCall& call, int64_t number, int64_t end, float* scratch) {
  const AttentionShape& shape = s.call.shape;
  const UnitPlace place = place_of(s, number);
  const int64_t head = place.kv_head * shape.group(), row = s.parts.start(place.part);
  Unit unit{s,
            call.input<const float>(0) + place.b * shape.q.batch + head * shape.q.head,
            keys_of(s, call, place),
            values_of(s, call, place),
            call.output<float>(0) + place.b * shape.y.batch + head * shape.y.head,
            scratch,
            place.b,
            head,
            row,
            row + s.parts.size(place.part),
            s.call.length(call, place.b),
            nullptr,
            nullptr,
            {},
            {}};
  if (number + 1 < end) {
    const UnitPlace next = place_of(s, number + 1);
    unit.next_k = keys_of(s, call, next), unit.next_v = values_of(s, call, next);
  }
  set_tiles(unit);
  return unit;
}

void run(State& s, const KernelCall& call) {
  set_addresses(call, kFirstAttentionOperand, s.call.finish);
  const auto body = [&](int worker, int64_t first, int64_t last) {
    float* scratch = reinterpret_cast<float*>(call.workspace) + worker * s.scratch.floats;
    for (int64_t number = first; number < last; ++number)
      run_unit(unit_of(s, call, number, last, scratch));
  };
  if (s.alone)
    body(0, 0, s.units());
  else
    call.pool->parallel_ranges(s.units(), body);
}

// Of one thread. A head costs 0.1 us however small it is (512 of 16 tokens: 52 us).
double alone_us(const AttentionShape& shape, Numeric numeric) {
  const double heads = static_cast<double>(shape.batch * shape.heads),
               kv_heads = static_cast<double>(shape.batch * shape.kv_heads);
  const double scores = static_cast<double>(shape.queries * shape.keys);
  const auto steps = [numeric](int64_t k) { return ceil_div(k, elements_per_step(numeric)); };
  const double products =
      tile_cost_us(numeric, 1, shape.queries, shape.keys, steps(shape.depth), kTileVecs) +
      tile_cost_us(numeric, 1, shape.queries, shape.value_depth, steps(shape.keys), kTileVecs);
  const double exponentials = scores / kLanes * 12 / 4000;
  const double packing =
      static_cast<double>(shape.keys * (shape.depth + shape.value_depth)) * 0.3 / 4000;
  return heads * (0.05 + products + exponentials) + kv_heads * (0.05 + packing);
}

template <bool kPairs>
void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  AttentionCall call;
  if (!has_output(args, kernel) || !make_attention_call(args, call)) return;
  State& s = keep_state<run>(kernel, State{call});
  s.pairs = kPairs;
  s.call.set_epilogue_of(args);
  s.call.take_heads_as_queries();
  s.block = keys_per_block(s.call.shape);
  s.alone = threads_of(args) == 1 ||
            alone_us(call.shape, kPairs ? Numeric::kBf16 : Numeric::kFloat) < kUsWorthThreads;
  s.parts = split_rows(s.call.shape, s.alone ? 1 : args.pool->threads());
  s.scratch = scratch_of(s.call.shape, s.block, s.parts.size(0));
  kernel.workspace_bytes = static_cast<size_t>(s.scratch.floats * threads_of(args)) * sizeof(float);
}

template <Numeric kNumeric>
double cost_us(const Problem& p) {
  AttentionShape shape;
  return attention_shape(p, shape) ? 0.2 + alone_us(shape, kNumeric) / p.threads : 1e12;
}

constexpr Tactic tactic(const char* name, Numeric numeric) {
  const bool pairs = numeric == Numeric::kBf16;
  return {.name = name,
          .kind = ir::LayerKind::kAttention,
          .isa = kIsa,
          .formats = FormatRule::kLinear,
          .version = 8,
          .refusal = refuse_attention,
          .cost_us = pairs ? cost_us<Numeric::kBf16> : cost_us<Numeric::kFloat>,
          .packed_inputs = no_packed_inputs,
          .packed_bytes = no_packed_bytes,
          .pack = pack_nothing,
          .prepare = pairs ? prepare<true> : prepare<false>,
          .precision = pairs ? DataType::kBFloat16 : DataType::kUndefined,
          .needs = pairs ? Features{Feature::kBf16} : Features{}};
}

constexpr Tactic kTactics[] = {
    tactic("attention_f32", Numeric::kFloat),
    tactic("attention_bf16", Numeric::kBf16),
};

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::attention
