// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/conv_gemm.h"

#include "kernels/vector/conv_window.h"
#include "kernels/vector/counts.h"
#include "kernels/vector/gemm_bf16.h"
#include "kernels/vector/gemm_byte_kernels.h"
#include "kernels/vector/gemm_cost.h"
#include "kernels/vector/gemm_fold.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

// Calls `holds` on every operand of the epilogue and the initial values: true when it is true for
// all.
template <class Predicate>
bool all_sources(const TileFinish& finish, const Predicate& holds) {
  for (int k = 0; k < finish.num_operands; ++k)
    if (!holds(finish.operands[k])) return false;
  return !finish.has_initial || holds(finish.initial);
}

// A 1x1 convolution over dense rows is one long row per image; images join too when all operands
// allow it.
void merge_rows(ConvRun& run) {
  ConvShape& s = run.shape;
  const TileOutput& out = run.finish.out;
  const bool pointwise = s.kh == 1 && s.kw == 1 && s.sh == 1 && s.sw == 1 && s.oh == s.ih &&
                         s.ow == s.iw && s.pad_top == 0 && s.pad_left == 0;
  if (!pointwise) return;
  if (s.oh > 1) {
    const bool joins =
        run.x_row == s.iw * run.x_pixel && out.row == s.ow * out.pixel &&
        all_sources(run.finish, [&s](const TileSource& t) { return t.row == s.ow * t.pixel; });
    if (!joins) return;
  }
  const int64_t pixels = s.oh * s.ow;
  s.oh = s.ih = 1;
  s.ow = s.iw = pixels;
  if (s.batch == 1) return;
  const bool joins = run.x_image == pixels * run.x_pixel && out.image == pixels * out.pixel &&
                     all_sources(run.finish, [pixels](const TileSource& t) {
                       return t.image == pixels * t.pixel;
                     });
  if (!joins) return;
  s.ow = s.iw = pixels * s.batch;
  s.batch = 1;
}

constexpr int64_t kSlack =
    64;  // between rows of copies: tiles read a few bytes more than a row has

// Bytes of input a block of `rows` output rows of one strip reads.
int64_t window_bytes(const ConvRun& run, int64_t rows) {
  const ConvShape& s = run.shape;
  const int64_t high = (rows - 1) * s.sh + (s.kh - 1) * s.dh + 1;
  const int64_t wide = (run.strip - 1) * s.sw + (s.kw - 1) * s.dw + 1;
  return high * (wide * run.pixel + kSlack);
}

// Strips: whole rows where two of them fit in the cache share, else parts that are a whole number
// of tiles.
void choose_strips(ConvRun& run, int threads, int64_t budget) {
  const ConvShape& s = run.shape;
  const int64_t tile_rows = run.tile_rows();
  const bool one_row = s.oh * s.batch == 1;
  const int64_t tile =
      at_least_one(ceil_div(s.ow, at_least_one(ceil_div(s.ow, tile_rows))));  // even tiles
  const int64_t tiles = at_least_one(ceil_div(s.ow, tile));
  int64_t per_strip = one_row && !run.splits_panels ? ceil_div(tiles, threads) : tiles;
  run.strip = per_strip * tile;
  while (per_strip > 1 && window_bytes(run, 1) > budget) {
    per_strip = ceil_div(per_strip, 2);
    run.strip = per_strip * tile;
  }
  if (one_row && !run.splits_panels) {  // the same number of strips for every thread
    const int64_t strips = ceil_div(ceil_div(tiles, per_strip), threads) * threads;
    run.strip = at_least_one(ceil_div(tiles, strips)) * tile;
  }
  run.strip = at_least_one(smaller(run.strip, s.ow));
  run.strips_per_row = ceil_div(s.ow, run.strip);
}

double imbalance(int64_t units, int64_t threads) {
  return static_cast<double>(ceil_div(units, threads) * threads) /
         static_cast<double>(at_least_one(units));
}

// Panels are shared out when the weights are the larger stream, or when there are too few rows for
// all threads.
bool should_split_panels(const ConvRun& run, int64_t threads) {
  if (threads == 1) return false;
  const ConvShape& s = run.shape;
  const int64_t panels = run.panels().count() * s.groups;
  const bool one_row = s.oh * s.batch == 1;
  const int64_t units = one_row ? ceil_div(s.ow, run.tile_rows()) : s.oh * s.batch;
  const double by_panels = imbalance(panels, threads), by_rows = imbalance(units, threads);
  const bool heavy_weights =
      run.panels().lanes() * kLaneBytes * s.groups > s.batch * s.ih * s.iw * s.ic * run.element();
  return heavy_weights ? by_panels <= by_rows * 1.15 : by_panels * 1.1 < by_rows;
}

}  // namespace

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

// Cycles per k and pixel of a row of `pixels` in register tiles: short rows make small, inefficient
// tiles.
double pixel_cost(const ConvRun& run, int64_t pixels) {
  const int64_t vecs = run.max_vecs;
  const EvenSplit tiles = split_evenly(pixels, run.tile_rows());
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
  swap_values(run.x_row, run.x_pixel);
  swap_values(run.b_row, run.b_tap);
  swap_values(run.finish.out.row, run.finish.out.pixel);
  for (int k = 0; k < run.finish.num_operands; ++k)
    swap_values(run.finish.operands[k].row, run.finish.operands[k].pixel);
  swap_values(run.finish.initial.row, run.finish.initial.pixel);
}

// How A is read: in place, zone by zone, or from copies.
void choose_reading(ConvRun& run) {
  const ConvShape& s = run.shape;
  const bool reads = s.kh > 0 && s.kw > 0;  // a phase of a deconvolution may have no taps
  // Steps that are not whole read beyond their pixel.
  const bool whole_steps = s.group_ic() % elements_per_step(run.numeric) == 0;
  const bool can_read_in_place = run.x_channel == run.element() &&
                                 run.x_element() == run.element() && !run.copies && whole_steps;
  // Kernel rows that are one run were packed for neighbouring pixels.
  const bool wants_runs = !taps_join(s, run.numeric, run.fold) &&
                          conv_runs(s, run.numeric, run.fold).runs == 1 && s.kw > 1;
  const int64_t bytes = s.ic * run.element();
  const bool has_runs = !wants_runs || run.x_pixel == bytes;
  const bool pads = conv_needs_copy(s, run.padding == 0);
  run.zoned = reads && can_read_in_place && pads && s.dw >= kZonedDilation && run.padding == 0 &&
              !run.chained;
  run.copies = reads && !run.zoned && (!can_read_in_place || !has_runs || pads);
  // Rows of A that lie a multiple of 4 KiB apart share one set of L1: a copy spreads them.
  const bool aliases = s.sw * bytes % 4096 == 0 && !wants_runs;
  run.pixel = run.copies ? bytes + (aliases ? 64 : 0) : run.x_pixel;
}

// Taps that lie next to each other, in A and in the filter, are one segment.
void choose_segments(ConvRun& run) {
  const ConvShape& s = run.shape;
  const ConvRuns runs = conv_runs(s, run.numeric, run.fold);
  const int64_t tap = ceil_div(s.group_ic(), elements_per_step(run.numeric));
  if (run.chained) {
    run.max_segments = s.kh;
    return;
  }
  if (!taps_join(s, run.numeric, run.fold))
    run.row_runs = runs.runs == 1;
  else
    run.row_runs =
        !run.zoned && s.dw == 1 && run.pixel == s.group_ic() * run.element() && run.b_tap == tap;
  run.max_segments = run.row_runs ? s.kh : s.kh * s.kw;
  run.segment_length = !run.row_runs ? tap : runs.runs == 1 ? runs.length : s.kw * tap;
}

// Tiles of bytes take a quarter of the time of those of floats over the same weights.
constexpr int64_t kMostTilesAhead = 8, kMostByteTilesAhead = 16;
// What is widened pixel by pixel is read again from L1.
constexpr int64_t kL1Share = 16 << 10;

bool widens_pixels(const ConvRun& run) {
  return run.numeric == Numeric::kWord && run.shape.kh * run.shape.kw == 1;
}

void choose_blocks(ConvRun& run, int threads) {
  const ConvShape& s = run.shape;
  const int64_t l2_bytes = static_cast<int64_t>(cpu_info().l2_bytes);
  const Panels panels = run.panels();
  const int64_t filter_bytes = panels.padded_n() * panels.k * kLaneBytes;
  const bool weights_fit =
      filter_bytes * (run.splits_panels ? 1 : threads) <= l2_bytes * threads / 2;
  choose_strips(run, threads, widens_pixels(run) && weights_fit ? kL1Share : l2_bytes / 3);
  const int64_t panel_bytes =
      at_least_one(static_cast<int64_t>(run.max_vecs) * kLanes * panels.k * kLaneBytes);
  run.panel_group = weights_fit ? panels.count() : at_least_one(l2_bytes * 2 / 5 / panel_bytes);
  const int64_t row_bytes = at_least_one(window_bytes(run, 2) - window_bytes(run, 1));
  const int64_t more_rows = (l2_bytes * 2 / 5 - window_bytes(run, 1)) / row_bytes;
  run.block_rows = smaller(s.oh, 1 + (more_rows > 0 ? more_rows : 0));
  // Few tiles use each panel of many weights, which come from L3 or memory: so slowly that tiles
  // would wait for most of them, unless the tiles before have fetched them.
  const int64_t tiles = run.block_rows * ceil_div(run.strip, run.tile_rows());
  const bool is_byte = run.numeric == Numeric::kByte;
  // A panel at a time is finished a panel at a time, which costs more where a program follows.
  const bool can_fetch =
      is_byte ? !run.chained && !run.finish.has_rest() : run.numeric != Numeric::kWord;
  run.fetches_ahead = can_fetch && run.fold == 1 && tiles > 1 &&
                      tiles <= (is_byte ? kMostByteTilesAhead : kMostTilesAhead) &&
                      filter_bytes > l2_bytes / 8 &&
                      window_bytes(run, run.block_rows) < l2_bytes / 4;
  if (run.fetches_ahead) run.panel_group = 1;
  const int64_t wide = (run.strip - 1) * s.sw + (s.kw - 1) * s.dw + 1;
  run.row = run.copies ? wide * run.pixel + kSlack : run.x_row;
}

// The workspace: zones or offsets of steps, then for every worker its segments and its copy.
int64_t zone_bytes(const ConvRun& run) {
  if (run.chained) return run.spans.steps * static_cast<int64_t>(sizeof(int32_t));
  return run.zoned ? (2 * run.shape.kw + 1) * static_cast<int64_t>(sizeof(ConvZone)) : 0;
}

}  // namespace

size_t plan_conv(ConvRun& run, int threads) {
  const ConvRuns runs = conv_runs(run.shape, run.numeric, run.fold);
  const bool joins = taps_join(run.shape, run.numeric, run.fold);
  run.b_tap = joins ? run.shape.group_ic() / elements_per_step(run.numeric) : runs.rows;
  run.b_row = joins ? run.shape.kw * run.b_tap : runs.runs * runs.rows;
  merge_rows(run);
  run.chained = kChainsSteps && run.numeric == Numeric::kByte;
  run.spans = conv_spans(run.shape, run.numeric, run.fold);
  const bool is_row =
      run.shape.oh == 1 || run.shape.kh * run.shape.kw == 0 || !joins || run.chained;
  if (!is_row && pixel_cost(run, run.shape.oh) < 0.9 * pixel_cost(run, run.shape.ow))
    transpose(run);
  if (run.shape.macs() < kMacsWorthThreads) threads = 1;
  run.threads = threads;
  choose_reading(run);
  run.splits_panels = should_split_panels(run, threads);
  choose_blocks(run, threads);
  choose_segments(run);
  run.segment_bytes = round_up(run.max_segments * static_cast<int64_t>(sizeof(Segment)), 64);
  run.scratch_bytes = run.copies ? round_up(window_bytes(run, run.block_rows) + kSlack, 64) : 0;
  run.worker_bytes =
      run.segment_bytes + run.scratch_bytes + rest_scratch_bytes(run.finish, run.waiting_pixels());
  return static_cast<size_t>(round_up(zone_bytes(run), 64) + run.worker_bytes * threads);
}

namespace {

// First position ≥ 0 whose input position * stride - pad + tap * dilation is ≥ 0.
int64_t first_inside(int64_t pad, int64_t offset, int64_t stride) {
  return pad > offset ? ceil_div(pad - offset, stride) : 0;
}

// One past the last position < out whose input position * stride - pad + offset is < in.
int64_t end_inside(int64_t in, int64_t pad, int64_t offset, int64_t stride, int64_t out) {
  const int64_t last = in - 1 + pad - offset;
  return last < 0 ? 0 : smaller(out, last / stride + 1);
}

// Cuts a row of outputs where the set of taps inside the image changes.
int64_t make_zones(const ConvShape& s, ConvZone* zones) {
  int64_t count = 0;
  for (int64_t col = 0; col < s.ow;) {
    ConvZone zone{col, s.ow, s.kw, 0};
    for (int64_t kw = 0; kw < s.kw; ++kw) {
      const int64_t from = first_inside(s.pad_left, kw * s.dw, s.sw);
      const int64_t to = end_inside(s.iw, s.pad_left, kw * s.dw, s.sw, s.ow);
      if (from <= col && col < to) {
        zone.first_tap = smaller(zone.first_tap, kw);
        zone.last_tap = kw + 1;
      }
      if (from > col) zone.end = smaller(zone.end, from);
      if (to > col) zone.end = smaller(zone.end, to);
    }
    zones[count++] = zone;
    col = zone.end;
  }
  return count;
}

// From the first step of a kernel row to each of its steps, in bytes of A.
void list_step_offsets(const ConvRun& run, int32_t* offsets) {
  const ConvShape& s = run.shape;
  const ConvRuns runs = conv_runs(s, run.numeric, run.fold);
  const bool by_tap = taps_join(s, run.numeric, run.fold) || runs.runs > 1;
  const int64_t steps = run.spans.steps;
  const int64_t tap = by_tap ? ceil_div(s.group_ic(), elements_per_step(run.numeric)) : steps;
  for (int64_t kw = 0, step = 0; step < steps; ++kw)
    for (int64_t k = 0; k < tap; ++k)
      offsets[step++] = static_cast<int32_t>(kw * s.dw * run.pixel + k * kLaneBytes);
}

void place_workspace(ConvRun& run, std::byte* workspace) {
  if (run.chained) {
    run.step_offsets = reinterpret_cast<int32_t*>(workspace);
    list_step_offsets(run, run.step_offsets);
  }
  run.zones = reinterpret_cast<ConvZone*>(workspace);
  if (run.zoned) run.num_zones = make_zones(run.shape, run.zones);
  run.scratch = workspace + round_up(zone_bytes(run), 64);
}

// Output rows [row, row + rows) of one strip of one image.
struct Block {
  int64_t image, row, rows, col, cols;
};

// The taps of one output row and zone.
struct TapRange {
  int64_t first_row, end_row, first_tap, end_tap;
  bool operator==(const TapRange& other) const {
    return first_row == other.first_row && end_row == other.end_row &&
           first_tap == other.first_tap && end_tap == other.end_tap;
  }
};

// Kernel rows that lie inside the image for one output row: what is outside is skipped, not
// multiplied by zero.
TapRange taps_of_row(const ConvRun& run, int64_t row) {
  const ConvShape& s = run.shape;
  if (run.padding != 0) return {0, s.kh, 0, s.kw};
  const int64_t above = s.pad_top - row * s.sh;  // input rows missing before the window
  const int64_t first = above > 0 ? ceil_div(above, s.dh) : 0, left = s.ih - 1 + above;
  const int64_t end = left < 0 ? 0 : smaller(s.kh, left / s.dh + 1);
  return {first, end < first ? first : end, 0, s.kw};
}

int64_t list_segments(const ConvRun& run, const TapRange& taps, Segment* segments) {
  const ConvShape& s = run.shape;
  int64_t count = 0;
  for (int64_t kh = taps.first_row; kh < taps.end_row; ++kh) {
    const int64_t a = kh * s.dh * run.row, b = kh * run.b_row;
    if (run.chained) {
      segments[count++] = {a, kh};
      continue;
    }
    if (run.row_runs) {
      segments[count++] = {a, b};
      continue;
    }
    for (int64_t kw = taps.first_tap; kw < taps.end_tap; ++kw)
      segments[count++] = {a + kw * s.dw * run.pixel, b + kw * run.b_tap};
  }
  return count;
}

// Sets the panel of `tile`; gives the kernel for it.
TileKernel set_panel(const ConvRun& run, const std::byte* panel, int vecs, int rows, Tile& tile) {
  tile.b = panel;
  if (run.fold > 1) return fold_kernel(run.fold, vecs, rows);
  if (run.numeric == Numeric::kFloat) return tile_kernel(vecs, rows);
  if (run.numeric == Numeric::kBf16) return pair_tile_kernel(vecs, rows);
#if defined(CAMSHAFT_TARGET_avx2)
  if (run.numeric == Numeric::kWord) return widened_tile_kernel(vecs, rows);
#endif
  return byte_panel_kernel(panel, run.spans, vecs, rows, tile);
}

// What tiles of a panel need to know of it.
struct PanelTile {
  const std::byte *weights, *bias;
  int64_t channel, cols;  // of the output
  int64_t column;         // of the packed vectors
  int vecs;
};
constexpr int64_t kMostPanelTiles = 32;  // listed together

// Tiles of `rows` pixels, together those of `place`, against the panels [first, last).
void run_panels(const ConvRun& run, Tile& tile, const TilePlace& place, int rows,
                const PanelTile* first, const PanelTile* last, std::byte* rest_scratch) {
  for (const PanelTile* panel = first; panel < last; ++panel) {
    tile.b_stride = panel->vecs * kLanes * kLaneBytes;
    tile.bias = panel->bias;
    if (run.numeric == Numeric::kFloat)
      place_tile(run.finish, place, panel->channel, panel->cols, tile);
    else if (run.numeric == Numeric::kBf16)
      place_pair_tile(run.finish, place, panel->channel, panel->cols, first->channel, rest_scratch,
                      tile);
    else
      place_byte_tile(run.finish, place, panel->channel, panel->cols, panel->column, first->channel,
                      rest_scratch, tile);
    set_panel(run, panel->weights, panel->vecs, rows, tile)(tile);
  }
}

// What follows the kernel on the pixels of `place`.
void finish_panels(const ConvRun& run, const TilePlace& place, const PanelTile* first,
                   const PanelTile* last, std::byte* rest_scratch) {
  const int64_t channels = last[-1].channel + last[-1].cols - first->channel;
  if (run.numeric == Numeric::kFloat)
    finish_tiles(run.finish, place, first->channel, channels);
  else if (run.numeric == Numeric::kBf16)
    finish_pair_tiles(run.finish, place, first->channel, channels, rest_scratch);
  else
    finish_byte_tiles(run.finish, place, first->channel, channels, first->column, rest_scratch);
}

// A block in progress: what its tiles share.
struct BlockRun {
  const ConvRun& run;
  const Block& block;
  const std::byte* a;  // of the block's first window
  Segment* segments;
  std::byte* rest_scratch;
  Panels panels;
  int64_t finished_together;  // panels
  PanelTile listed_panels[kMostPanelTiles] = {};
  int64_t num_panels = 0;
  Tile tile{};
  TapRange listed{-1, -1, -1, -1};
  const std::byte *next = nullptr, *next_end = nullptr;  // what of the next panel is to be fetched

  // Shares the fetching of the panel after `panel` out to the tiles of this one.
  void fetch_after(int64_t panel, int64_t end, const std::byte* weights) {
    next = next_end = nullptr;
    if (!run.fetches_ahead || panel + 1 >= end) return;
    constexpr int64_t kLine = 64;
    next = weights + panels.offset(panel + 1) * kLaneBytes;
    next_end = next + panels.vecs_of(panel + 1) * panels.vec_lanes * kLaneBytes;
    const int64_t tiles = block.rows * ceil_div(block.cols, run.tile_rows());
    tile.ahead_step = smaller(kLine, ceil_div(next_end - next, tiles * panels.k));
  }
  void set_ahead() {
    tile.ahead = next < next_end ? next : nullptr;
    if (next < next_end) next += tile.num_segments * tile.segment_length * tile.ahead_step;
  }

  void list(const TapRange& taps) {
    if (taps == listed) return;
    tile.num_segments = list_segments(run, taps, segments);
    listed = taps;
  }

  // Panels [from, to) of `group`.
  void list_panels(int64_t group, int64_t from, int64_t to) {
    const int64_t group_column = group * group_bias_lanes(run.shape);
    const std::byte* weights = run.weights + group * panels.lanes() * kLaneBytes;
    num_panels = to - from;
    for (int64_t k = 0; k < num_panels; ++k) {
      const int64_t col = panels.first_col(from + k), column = group_column + col;
      listed_panels[k] = {weights + panels.offset(from + k) * kLaneBytes,
                          run.bias ? run.bias + column * kLaneBytes : nullptr,
                          group * panels.n + col,
                          panels.cols_of(from + k),
                          column,
                          panels.vecs_of(from + k)};
    }
  }

  int64_t channels() const {
    const PanelTile& last = listed_panels[num_panels - 1];
    return last.channel + last.cols - listed_panels[0].channel;
  }

  // How many tiles of as many pixels go together: what they read and write stays in L1 while panel
  // after panel passes.
  int64_t repeats_from(const EvenSplit& tiles, int64_t part) const {
    if (!run.repeats_tiles() || run.fetches_ahead) return 1;
    constexpr int64_t kBytes = 16 << 10;
    const bool waits = run.finish.uses_scratch();
    const int64_t same = (part < tiles.extra ? tiles.extra : tiles.parts) - part;
    const int64_t bytes =
        tiles.size(part) * (run.shape.sw * run.pixel + run.finish.out.pixel +
                            (waits ? 4 * smaller(channels(), kMaxRestChannels) : 0));
    const int64_t fit = at_least_one(kBytes / at_least_one(bytes));
    return smaller(same, waits ? smaller(fit, run.waiting_pixels() / tiles.size(part)) : fit);
  }

  // Floats are finished where they are, so several tiles can be together: short rows of a few
  // channels take longer to set up than to finish.
  bool finishes_later(int64_t pixels) const {
    constexpr int64_t kFloats = 2048;
    return run.numeric == Numeric::kFloat && finished_together >= num_panels &&
           pixels * channels() < kFloats;
  }

  // Columns [first, end) of the block's output row `row`, against the listed panels of `group`.
  void columns(int64_t row, int64_t first, int64_t end, int64_t group) {
    const ConvShape& s = run.shape;
    const std::byte* a_row = a + row * s.sh * run.row + group * s.group_ic() * run.element();
    const EvenSplit tiles = split_evenly(end - first, run.tile_rows());
    int64_t unfinished = first;
    for (int64_t part = 0; part < tiles.parts; part += tile.repeats) {
      const int64_t col = first + tiles.start(part);
      tile.repeats = repeats_from(tiles, part);
      tile.a = a_row + (col - block.col) * s.sw * run.pixel;
      const int64_t rows = tiles.size(part), next_col = col + rows * tile.repeats;
      const TilePlace place{block.image, block.row + row, col, next_col - col};
      const TilePlace stored{block.image, block.row + row, unfinished, next_col - unfinished};
      const bool waits = next_col < end && finishes_later(stored.pixels);
      set_ahead();
      for (int64_t panel = 0; panel < num_panels; panel += finished_together) {
        const PanelTile *from = listed_panels + panel,
                        *to = listed_panels + smaller(num_panels, panel + finished_together);
        run_panels(run, tile, place, static_cast<int>(rows), from, to, rest_scratch);
        if (!waits) finish_panels(run, stored, from, to, rest_scratch);
      }
      if (!waits) unfinished = next_col;
    }
    look_up_tiles(run.finish, {block.image, block.row + row, first, end - first},
                  listed_panels[0].channel, channels());
  }

  void row(int64_t row, int64_t group) {
    TapRange taps = taps_of_row(run, block.row + row);
    const int64_t end = block.col + block.cols;
    if (!run.zoned) {
      list(taps);
      columns(row, block.col, end, group);
      return;
    }
    for (int64_t z = 0; z < run.num_zones; ++z) {
      const ConvZone& zone = run.zones[z];
      if (zone.end <= block.col || zone.col >= end) continue;
      taps.first_tap = zone.first_tap;
      taps.end_tap = zone.last_tap;
      list(taps);
      columns(row, zone.col > block.col ? zone.col : block.col, smaller(zone.end, end), group);
    }
  }
};

// The pixels of `block` for all (group, panel) pairs numbered [first, last).
void run_block_panels(const ConvRun& run, const Block& block, int worker, int64_t first,
                      int64_t last) {
  const ConvShape& s = run.shape;
  std::byte* scratch = run.scratch + worker * run.worker_bytes;
  if (run.copies)
    copy_window(run, block.image, block.row, block.rows, block.col, block.cols, scratch);
  const std::byte* in_place = run.x + block.image * run.x_image +
                              (block.row * s.sh - s.pad_top) * run.row +
                              (block.col * s.sw - s.pad_left) * run.pixel;
  Segment* segments = reinterpret_cast<Segment*>(scratch + run.scratch_bytes);
  const bool waits =
      is_quantized(run.numeric) ? run.finish.has_rest() : run.finish.waits_as_floats();
  BlockRun work{run,
                block,
                run.copies ? scratch : in_place,
                segments,
                scratch + run.scratch_bytes + run.segment_bytes,
                run.panels(),
                waits ? kMaxRestChannels / (run.max_vecs * kLanes) : run.panels().count()};
  work.tile.a_stride = s.sw * run.pixel;
  work.tile.segments = segments;
  work.tile.segment_length = run.segment_length;
  work.tile.step_offsets = run.step_offsets;
  set_finish(run.finish, work.tile);
  const int64_t panels = work.panels.count(), together = smaller(run.panel_group, kMostPanelTiles);
  while (first < last) {
    const int64_t group = first / panels, panel = first - group * panels;
    const int64_t end = smaller(panels, panel + last - first);
    for (int64_t from = panel; from < end; from += together) {
      work.fetch_after(from, end, run.weights + group * work.panels.lanes() * kLaneBytes);
      work.list_panels(group, from, smaller(end, from + together));
      for (int64_t row = 0; row < block.rows; ++row) work.row(row, group);
    }
    first += end - panel;
  }
}

// Work units are numbered (image, strip, row).
void run_units(const ConvRun& run, int worker, int64_t first_unit, int64_t last_unit,
               int64_t first_panel, int64_t last_panel) {
  const ConvShape& s = run.shape;
  for (int64_t unit = first_unit; unit < last_unit;) {
    const int64_t row = unit % s.oh, strip = unit / s.oh % run.strips_per_row;
    Block block{unit / s.oh / run.strips_per_row, row, 0, strip * run.strip, 0};
    block.rows = smaller(smaller(run.block_rows, s.oh - row), last_unit - unit);
    block.cols = smaller(run.strip, s.ow - block.col);
    run_block_panels(run, block, worker, first_panel, last_panel);
    unit += block.rows;
  }
}

}  // namespace

void run_conv(ConvRun& planned, std::byte* workspace, ThreadPool* pool) {
  place_workspace(planned, workspace);
  const ConvRun& run = planned;
  const ConvShape& s = run.shape;
  const int64_t units = s.batch * run.strips_per_row * s.oh,
                panels = run.panels().count() * s.groups;
  if (!pool || run.threads == 1) {
    run_units(run, 0, 0, units, 0, panels);
  } else if (run.splits_panels) {
    pool->parallel_ranges(panels, [&run, units](int worker, int64_t first, int64_t last) {
      run_units(run, worker, 0, units, first, last);
    });
  } else {
    pool->parallel_ranges(units, [&run, panels](int worker, int64_t first, int64_t last) {
      run_units(run, worker, first, last, 0, panels);
    });
  }
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
