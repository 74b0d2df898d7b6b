// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/convolution/conv_gemm.h"

#include "kernels/vector/convolution/conv_window.h"
#include "kernels/vector/counts.h"
#include "kernels/vector/gemm/gemm_cost.h"
#include "kernels/vector/gemm/gemm_plain.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

bool comes_from_afar(int64_t weight_bytes) {
  return weight_bytes > static_cast<int64_t>(cpu_info().l2_bytes) / 2;
}

namespace {

// Calls `holds` on every operand of the epilogue and the initial values: true when it is true for
// all.
template <class Predicate>
bool all_sources(const TileFinish& finish, const Predicate& holds) {
  for (int k = 0; k < finish.num_operands; ++k)
    if (!holds(finish.operands[k])) return false;
  return !finish.has_initial || holds(finish.initial);
}

constexpr int64_t kSlack =
    64;  // between rows of copies: tiles read a few bytes more than a row has

// Columns of input that windows of one row of a strip reach.
int64_t window_columns(const ConvRun& run) {
  const ConvShape& s = run.shape;
  return (run.plan.blocks.strip - 1) * s.sw + (s.kw - 1) * s.dw + 1;
}

// Bytes of input a block of `rows` output rows of one strip reads.
int64_t window_bytes(const ConvRun& run, int64_t rows) {
  const ConvShape& s = run.shape;
  const int64_t high = (rows - 1) * s.sh + (s.kh - 1) * s.dh + 1;
  return high * (window_columns(run) * run.plan.a.pixel + kSlack);
}

int64_t filter_bytes(const ConvRun& run) {
  return run.plan.panels.padded_n() * run.plan.panels.k * column_bytes(run.tile.stored);
}

int64_t panel_bytes(const ConvRun& run) {
  return run.tile.panel_width() * run.plan.panels.k;
}

// Pixels that are one long row of A.
bool is_product(const ConvRun& run) {
  return run.shape.kh * run.shape.kw == 1 && run.shape.oh * run.shape.batch == 1;
}

// Panels of floats that L1 does not hold, of more weights than half of L2 does: what tiles wait for
// is the panel that comes from L3, unless it was fetched.
bool has_long_panels(const ConvRun& run) {
  const ConvTile& tile = run.tile;
  return tile.numeric == Numeric::kFloat && tile.fold == 1 && tile.sparse == SparseIndex::kNone &&
         panel_bytes(run) >= static_cast<int64_t>(cpu_info().l1d_bytes) &&
         comes_from_afar(filter_bytes(run));
}

// All weights pass once per strip, and rows of A once per panel: those are few streams, which the
// processor fetches ahead by itself, so that a strip need not stay in L2. 128x3072x768 on Zen 3:
// strips of 12 rows 59 % of the peak, of 24 66, of 64 72, of 128 73; 64x4096x1024 32 and 83.
constexpr int64_t kLeastStrip = 96;

// Strips: whole rows where two of them fit in the cache share, else parts that are a whole number
// of tiles.
void choose_strips(ConvRun& run, int threads, int64_t budget) {
  const ConvShape& s = run.shape;
  ConvBlocks& blocks = run.plan.blocks;
  const int64_t tile_rows = run.tile.rows();
  const bool one_row = s.oh * s.batch == 1, splits_panels = run.plan.shares.splits_panels;
  const int64_t tile =
      at_least_one(ceil_div(s.ow, at_least_one(ceil_div(s.ow, tile_rows))));  // even tiles
  const int64_t tiles = at_least_one(ceil_div(s.ow, tile));
  const int64_t least =
      is_product(run) && has_long_panels(run) && !run.plan.parts.used ? kLeastStrip : 0;
  int64_t per_strip = one_row && !splits_panels ? ceil_div(tiles, threads) : tiles;
  blocks.strip = per_strip * tile;
  while (per_strip > 1 && blocks.strip >= 2 * least && window_bytes(run, 1) > budget) {
    per_strip = ceil_div(per_strip, 2);
    blocks.strip = per_strip * tile;
  }
  if (one_row && splits_panels) {  // as many strips as an even line of panels has cuts
    const Line line = even_line(run.all_panels(), tiles, threads);
    per_strip = smaller(per_strip, ceil_div(tiles, line.cuts));
    blocks.strip = per_strip * tile;
  }
  if (one_row && !splits_panels) {  // the same number of strips for every thread
    const int64_t strips = ceil_div(ceil_div(tiles, per_strip), threads) * threads;
    blocks.strip = at_least_one(ceil_div(tiles, strips)) * tile;
  }
  blocks.strip = at_least_one(smaller(blocks.strip, s.ow));
  blocks.strips_per_row = ceil_div(s.ow, blocks.strip);
}

// Panels are shared out when the weights are the larger stream, or when there are too few rows for
// all threads.
bool should_split_panels(const ConvRun& run, int64_t threads) {
  if (threads == 1) return false;
  const ConvShape& s = run.shape;
  const int64_t panels = run.plan.panels.count() * s.groups;
  const bool one_row = s.oh * s.batch == 1;
  const int64_t units = one_row ? ceil_div(s.ow, run.tile.rows()) : s.oh * s.batch;
  const double by_panels = imbalance(panels, threads), by_rows = imbalance(units, threads);
  const bool heavy_weights = run.plan.panels.lanes() * kLaneBytes * s.groups >
                             s.batch * s.ih * s.iw * s.ic * run.tile.element();
  return heavy_weights ? by_panels <= by_rows * 1.15 : by_panels * 1.1 < by_rows;
}

}  // namespace

namespace {

// Steps of a part of K: those of a panel and of a tile's rows fill L1 so many times. Once would let
// the panel stay there, but beginning and ending a part of a tile costs more than reading from L2.
int64_t part_steps(int vecs, double fills) {
  const int64_t step_bytes = (vecs * kLanes + max_rows(Numeric::kFloat, vecs)) * kLaneBytes;
  return at_least_one(static_cast<int64_t>(fills * static_cast<double>(cpu_info().l1d_bytes)) /
                      step_bytes);
}
constexpr double kPartFills = 1.75;
// With AVX2, parts that plain tiles take stay in L1: 128x3072x768 on Zen 3 73 % of the peak, so 85.
int64_t most_part_steps(int vecs) {
  const int64_t most = part_steps(vecs, kPartFills);
  return kIsa == Isa::kAvx2 && has_plain_tiles(vecs) ? smaller(most, kMostPlainSteps) : most;
}
// Shorter panels stay in L1, or are read from L2 fast enough: tiles of AVX-512 read less per
// product.
constexpr double kLeastFills = kIsa == Isa::kAvx512 ? kPartFills : 0.875;

}  // namespace

bool has_parts(int64_t rows, int64_t k, int vecs) {
  return k > part_steps(vecs, kLeastFills) && rows > max_rows(Numeric::kFloat, vecs);
}

// Beginning and ending every part of a tile takes its time; weights that do not stay in L2 are
// waited for less.
double part_cost(int64_t n, int64_t k) {
  return n * k * kLaneBytes > static_cast<int64_t>(cpu_info().l2_bytes) ? 0.95 : 1.02;
}

bool conv_needs_copy(const ConvShape& s, bool skips_rows) {
  if (s.kh == 0 || s.kw == 0) return false;  // reads nothing
  if (!skips_rows &&
      (s.pad_top > 0 || (s.oh - 1) * s.sh + (s.kh - 1) * s.dh + 1 - s.pad_top > s.ih))
    return true;
  return s.pad_left > 0 || (s.ow - 1) * s.sw + (s.kw - 1) * s.dw + 1 - s.pad_left > s.iw;
}

namespace {

// Columns so far apart that a padded copy of a block would be several times the block: tiles there
// skip the taps outside.
constexpr int64_t kZonedDilation = 6;
// Parts of pixels that lie far apart take more pages than the TLB has, and may share sets of L1:
// they are copied next to each other, which takes as long as a few columns of products.
constexpr int64_t kColumnsWorthCopy = 64;
constexpr int64_t kLeastCollidingRows = 8;  // a set of L1 holds fewer lines, or as many

// Cycles per k and pixel of a row of `pixels` in register tiles: short rows make small, inefficient
// tiles.
double pixel_cost(const ConvRun& run, int64_t pixels) {
  const int64_t vecs = run.tile.max_vecs;
  const EvenSplit tiles = split_evenly(pixels, run.tile.rows());
  const double rows = static_cast<double>(pixels) / static_cast<double>(at_least_one(tiles.parts));
  const double fma = rows * static_cast<double>(vecs) / 2,
               loads = (rows + static_cast<double>(vecs)) / 2;
  const double longest = fma > loads ? fma : loads;
  return (longest < 4 ? 4 : longest) / rows;
}

void swap_values(int64_t& a, int64_t& b) {
  const int64_t kept = a;
  a = b;
  b = kept;
}

// Exchanges rows and columns: tiles then run down the image. The filter keeps its order in memory.
void transpose(ConvRun& run) {
  ConvShape& s = run.shape;
  swap_values(s.ih, s.iw);
  swap_values(s.oh, s.ow);
  swap_values(s.kh, s.kw);
  swap_values(s.sh, s.sw);
  swap_values(s.dh, s.dw);
  swap_values(s.pad_top, s.pad_left);
  swap_values(run.x.row, run.x.pixel);
  swap_values(run.plan.k.b_row, run.plan.k.b_tap);
  swap_values(run.finish.out.row, run.finish.out.pixel);
  for (int k = 0; k < run.finish.num_operands; ++k)
    swap_values(run.finish.operands[k].row, run.finish.operands[k].pixel);
  swap_values(run.finish.initial.row, run.finish.initial.pixel);
}

// How A is read, and whether K is taken by parts.
void choose_reading(ConvRun& run) {
  const ConvShape& s = run.shape;
  const ConvTile& tile = run.tile;
  const bool reads = s.kh > 0 && s.kw > 0;  // a phase of a deconvolution may have no taps
  // Steps that are not whole read beyond their pixel.
  const bool whole_steps = s.group_ic() % tile.step_elements() == 0;
  const bool can_read_in_place = run.x.channel == tile.element() &&
                                 run.x_element() == tile.element() && !run.wishes.copies &&
                                 whole_steps;
  // Kernel rows that are one run were packed for neighbouring pixels.
  const bool wants_runs = !tile.is_sparse() && !taps_join(s, tile.numeric, tile.fold) &&
                          conv_runs(s, tile.numeric, tile.fold).runs == 1 && s.kw > 1;
  const int64_t bytes = s.ic * tile.element();
  const bool has_runs = !wants_runs || run.x.pixel == bytes;
  const bool pads = conv_needs_copy(s, run.x.padding == 0);
  const bool zoned = reads && can_read_in_place && pads && s.dw >= kZonedDilation &&
                     run.x.padding == 0 && !run.plan.k.chained();
  const bool by_parts = run.wishes.parts && reads && !zoned &&
                        has_parts(s.oh * s.ow, run.plan.panels.k, tile.max_vecs);
  // Rows of A that lie a multiple of 4 KiB apart share one set of L1: a copy spreads them.
  const bool aliases = s.sw * bytes % 4096 == 0 && !wants_runs;
  const bool spreads =
      s.group_oc() >= kColumnsWorthCopy &&
      (by_parts ? s.kh * s.kw == 1 || aliases
                : tile.has_picks() && aliases && s.oh * s.ow > kLeastCollidingRows);
  const bool copies = reads && !zoned && (!can_read_in_place || !has_runs || pads || spreads);
  run.plan.parts.used = by_parts;
  run.plan.a.reading = run.wishes.windows ? ConvReading::kWindows
                       : zoned            ? ConvReading::kZoned
                       : copies           ? ConvReading::kCopied
                                          : ConvReading::kInPlace;
  run.plan.a.pixel = copies ? bytes + (aliases ? 64 : 0) : run.x.pixel;
}

// Taps that lie next to each other, in A and in the filter, are one segment.
void choose_segments(ConvRun& run) {
  const ConvShape& s = run.shape;
  ConvDepth& k = run.plan.k;
  if (k.chained()) {
    k.max_segments = s.kh;
    return;
  }
  if (run.tile.has_picks()) {
    k.max_segments = s.kh * s.kw;
    k.length = picks_of(s);
    return;
  }
  const ConvRuns runs = conv_runs(s, run.tile.numeric, run.tile.fold);
  const int64_t tap = ceil_div(s.group_ic(), elements_per_step(run.tile.numeric));
  const bool row_runs = taps_join(s, run.tile.numeric, run.tile.fold)
                            ? !run.plan.a.zoned() && s.dw == 1 &&
                                  run.plan.a.pixel == s.group_ic() * run.tile.element() &&
                                  k.b_tap == tap
                            : runs.runs == 1;
  k.kind = row_runs ? SegmentKind::kRows : SegmentKind::kTaps;
  k.max_segments = row_runs ? s.kh : s.kh * s.kw;
  k.length = !row_runs ? tap : runs.runs == 1 ? runs.length : s.kw * tap;
}

void choose_parts(ConvRun& run) {
  ConvParts& parts = run.plan.parts;
  if (!parts.used) return;
  const ConvDepth& k = run.plan.k;
  const int64_t most = most_part_steps(run.tile.max_vecs);
  parts.steps = split_evenly(k.length, most);
  const int64_t together = parts.steps.parts > 1 ? 1 : at_least_one(most / k.length);
  parts.segments = split_evenly(k.max_segments, together);
}

// Tiles of bytes take a quarter of the time of those of floats over the same weights.
constexpr int64_t kMostTilesAhead = 8, kMostByteTilesAhead = 16;
// Of long panels: 128 rows of 768 to 3,072 columns on Zen 3 67 % of the peak, fetched 73; 512 rows
// 75 and 76.
constexpr int64_t kMostRowsAhead = 256;
// What is widened pixel by pixel is read again from L1.
constexpr int64_t kL1Share = 16 << 10;

bool widens_pixels(const ConvRun& run) {
  return run.tile.numeric == Numeric::kWord && run.shape.kh * run.shape.kw == 1 &&
         !run.plan.a.windows();
}

int64_t parts_of_pixel(const ConvRun& run) {
  const ConvParts& parts = run.plan.parts;
  const int64_t part = parts.steps.size(0) * parts.segments.size(0) * kLaneBytes;
  return at_least_one(run.plan.a.pixel / part);
}

// Few tiles use each panel of many weights, which come from L3 or memory: so slowly that tiles
// would wait for most of them, unless the tiles before have fetched them. One tile of few rows
// reads every weight once: it waits for memory alone. What L2 holds is not fetched into it again:
// it would be asked twice for every line (1x64 of AVX2, 256 KB: 1.5 us, fetched 1.9).
WeightFetch weight_fetch(const ConvRun& run) {
  if (run.plan.parts.used) return WeightFetch::kNextPanel;
  const ConvBlocks& blocks = run.plan.blocks;
  const Numeric numeric = run.tile.numeric;
  const int64_t l2_bytes = static_cast<int64_t>(cpu_info().l2_bytes);
  const int64_t tiles = blocks.rows * ceil_div(blocks.strip, run.tile.rows());
  const bool is_byte = numeric == Numeric::kByte;
  // A panel at a time is finished a panel at a time, which costs more where a program follows.
  const bool can_fetch =
      is_byte ? !run.plan.k.chained() && !run.finish.has_rest() : numeric != Numeric::kWord;
  const bool has_few_rows = has_long_panels(run) ? tiles * run.tile.rows() <= kMostRowsAhead
                            : is_byte            ? tiles <= kMostByteTilesAhead
                                                 : tiles <= kMostTilesAhead;
  const bool stays_near = window_bytes(run, blocks.rows) < l2_bytes / 4;
  if (can_fetch && run.tile.fold == 1 && tiles > 1 && has_few_rows &&
      filter_bytes(run) > l2_bytes / 8 && (stays_near || (is_product(run) && has_long_panels(run))))
    return WeightFetch::kNextPanel;
  if (tiles == 1 && run.tile.fold == 1 && run.wishes.fetches &&
      (numeric == Numeric::kFloat || numeric == Numeric::kBf16) &&
      comes_from_afar(filter_bytes(run)))
    return WeightFetch::kFarAhead;
  return WeightFetch::kNothing;
}

void choose_blocks(ConvRun& run, int threads) {
  const ConvShape& s = run.shape;
  ConvBlocks& blocks = run.plan.blocks;
  const int64_t l2_bytes = static_cast<int64_t>(cpu_info().l2_bytes);
  const Panels& panels = run.plan.panels;
  const bool weights_fit =
      filter_bytes(run) * (run.plan.shares.splits_panels ? 1 : threads) <= l2_bytes * threads / 2;
  // Of pixels whose channels come in parts, one part of each is in L2.
  const int64_t parts = run.plan.parts.used ? parts_of_pixel(run) : 1;
  choose_strips(run, threads, widens_pixels(run) && weights_fit ? kL1Share : l2_bytes / 3 * parts);
  const int64_t row_bytes = at_least_one(window_bytes(run, 2) - window_bytes(run, 1));
  const int64_t more_rows = (l2_bytes * 2 / 5 * parts - window_bytes(run, 1)) / row_bytes;
  blocks.rows = smaller(s.oh, 1 + (more_rows > 0 ? more_rows : 0));
  blocks.fetch = weight_fetch(run);
  blocks.panels = weights_fit ? panels.count()
                              : at_least_one(l2_bytes * 2 / 5 / at_least_one(panel_bytes(run)));
  if (blocks.fetches_next()) blocks.panels = 1;
  if (run.plan.parts.used) {
    const int64_t sums = blocks.rows * blocks.strip * run.tile.panel_width();
    blocks.panels = at_least_one(l2_bytes / 4 / sums);
  }
  run.plan.a.row =
      run.plan.a.copied() ? window_columns(run) * run.plan.a.pixel + kSlack : run.x.row;
}

// Zones or offsets of steps.
int64_t table_bytes(const ConvRun& run) {
  if (run.plan.k.chained()) return run.plan.k.spans.steps * static_cast<int64_t>(sizeof(int32_t));
  return run.plan.a.zoned() ? (2 * run.shape.kw + 1) * static_cast<int64_t>(sizeof(ConvZone)) : 0;
}

ConvMemory memory_of(const ConvRun& run) {
  const ConvPlan& plan = run.plan;
  ConvMemory bytes;
  bytes.tables = round_up(table_bytes(run), 64);
  bytes.segments = round_up(plan.k.max_segments * static_cast<int64_t>(sizeof(Segment)), 64);
  bytes.copy = plan.a.copied() ? round_up(window_bytes(run, plan.blocks.rows) + kSlack, 64) : 0;
  if (run.weights.zero_point != 0)
    bytes.starts = round_up(plan.blocks.strip * static_cast<int64_t>(sizeof(int32_t)), 64);
  bytes.worker = bytes.copy + bytes.segments + bytes.starts +
                 rest_scratch_bytes(run.finish, run.waiting_pixels());
  return bytes;
}

// Output and operands continue from row to row.
bool has_dense_rows(const ConvRun& run) {
  const int64_t ow = run.shape.ow;
  return run.finish.out.row == ow * run.finish.out.pixel &&
         all_sources(run.finish, [ow](const TileSource& t) { return t.row == ow * t.pixel; });
}

}  // namespace

bool copies_parts(const ConvRun& run) {
  const ConvShape& s = run.shape;
  return run.plan.parts.used && run.plan.a.copied() && s.kh * s.kw == 1 && s.groups == 1 &&
         run.x.channel == run.tile.element() && !conv_needs_copy(s, false);
}

void merge_rows(ConvRun& run) {
  ConvShape& s = run.shape;
  const TileOutput& out = run.finish.out;
  const bool pointwise = s.kh == 1 && s.kw == 1 && s.sh == 1 && s.sw == 1 && s.oh == s.ih &&
                         s.ow == s.iw && s.pad_top == 0 && s.pad_left == 0;
  if (!pointwise) return;
  if (s.oh > 1) {
    const bool joins = run.x.row == s.iw * run.x.pixel && has_dense_rows(run);
    if (!joins) return;
  }
  const int64_t pixels = s.oh * s.ow;
  s.oh = s.ih = 1;
  s.ow = s.iw = pixels;
  if (s.batch == 1) return;
  const bool joins = run.x.image == pixels * run.x.pixel && out.image == pixels * out.pixel &&
                     all_sources(run.finish, [pixels](const TileSource& t) {
                       return t.image == pixels * t.pixel;
                     });
  if (!joins) return;
  s.ow = s.iw = pixels * s.batch;
  s.batch = 1;
}

namespace {

void set_depth(ConvRun& run) {
  const ConvShape& s = run.shape;
  const ConvTile& tile = run.tile;
  ConvDepth& k = run.plan.k;
  const ConvRuns runs = conv_runs(s, tile.numeric, tile.fold);
  const bool joins = taps_join(s, tile.numeric, tile.fold);
  k.b_tap = tile.has_picks() ? pick_rows(s)
            : joins          ? s.group_ic() / elements_per_step(tile.numeric)
                             : runs.rows;
  k.b_row = joins ? s.kw * k.b_tap : runs.runs * runs.rows;
  const bool chained = tile.is_sparse() || (kChainsSteps && tile.numeric == Numeric::kByte);
  k.kind = chained ? SegmentKind::kSpans : SegmentKind::kTaps;
  k.spans = tile.is_sparse() ? sparse_spans(s) : conv_spans(s, tile.numeric, tile.fold);
}

bool has_better_columns(const ConvRun& run) {
  const ConvShape& s = run.shape;
  return s.oh != 1 && s.kh * s.kw != 0 && taps_join(s, run.tile.numeric, run.tile.fold) &&
         !run.plan.k.chained() && pixel_cost(run, s.oh) < 0.9 * pixel_cost(run, s.ow);
}

// A window becomes a pixel whose channels are its taps': the filter is packed the same.
void lower_windows(ConvRun& run) {
  ConvShape& s = run.shape;
  run.windows = {s, run.x};
  s.ic *= s.kh * s.kw;
  s.kh = s.kw = s.sh = s.sw = s.dh = s.dw = 1;
  s.pad_top = s.pad_left = 0;
  s.ih = s.oh, s.iw = s.ow;
  run.x.pixel = s.ic * run.x_element();
  run.x.row = s.iw * run.x.pixel;
  run.x.image = s.ih * run.x.row;
}

}  // namespace

size_t plan_conv(ConvRun& run, int threads) {
  ConvPlan& plan = run.plan;
  const ConvShape& s = run.shape;
  if (run.wishes.windows) lower_windows(run);
  merge_rows(run);
  set_depth(run);
  plan.panels = run.tile.panels(s);
  if (has_better_columns(run)) transpose(run);
  constexpr int64_t kBytesWorthThreads = 256 << 10;  // of weights, which a single row only reads
  if (s.macs() < kMacsWorthThreads && filter_bytes(run) < kBytesWorthThreads) threads = 1;
  choose_reading(run);
  choose_segments(run);
  choose_parts(run);
  plan.shares.threads = threads;
  plan.shares.splits_panels = should_split_panels(run, threads);
  choose_blocks(run, threads);
  plan.blocks.joins_rows = run.tile.in_matrices && run.repeats_tiles() &&
                           plan.blocks.strips_per_row == 1 && s.ow <= kAmxRows && !plan.a.zoned() &&
                           has_dense_rows(run);
  plan.shares.line = plan.shares.splits_panels ? even_line(run.all_panels(), run.units(), threads)
                                               : even_line(run.units(), run.all_panels(), threads);
  plan.bytes = memory_of(run);
  return static_cast<size_t>(plan.bytes.tables + plan.bytes.worker * threads);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
