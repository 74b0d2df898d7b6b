// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/convolution/conv_gemm.h"

#include "kernels/vector/convolution/conv_tables.h"
#include "kernels/vector/convolution/conv_window.h"
#include "kernels/vector/convolution/panel_tiles.h"
#include "kernels/vector/counts.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

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
  if (run.x.padding != 0) return {0, s.kh, 0, s.kw};
  const TapsInside rows(row * s.sh - s.pad_top, s.dh, s.kh, s.ih);
  return {rows.first, rows.end, 0, s.kw};
}

int64_t list_segments(const ConvRun& run, const TapRange& taps, Segment* segments) {
  const ConvShape& s = run.shape;
  int64_t count = 0;
  for (int64_t kh = taps.first_row; kh < taps.end_row; ++kh) {
    const int64_t a = kh * s.dh * run.plan.a.row, b = kh * run.plan.k.b_row;
    if (run.plan.k.chained()) {
      segments[count++] = {a, kh};
      continue;
    }
    if (run.plan.k.row_runs()) {
      segments[count++] = {a, b};
      continue;
    }
    for (int64_t kw = taps.first_tap; kw < taps.end_tap; ++kw)
      segments[count++] = {a + kw * s.dw * run.plan.a.pixel, b + kw * run.plan.k.b_tap};
  }
  return count;
}

constexpr int64_t kMostPanelTiles = 32;  // listed together

uint32_t sum_of_codes(const std::byte* codes, int64_t count) {
  uint32_t sum = 0;
  for (int64_t k = 0; k < count; ++k) sum += std::to_integer<uint32_t>(codes[k]);
  return sum;
}

// A block in progress: what its tiles share.
struct BlockRun {
  const ConvRun& run;
  const Block& block;
  const std::byte* a;  // of the block's first window
  Segment* segments;
  int32_t* starts;  // of pixels, where the weights' zero point is not 0
  std::byte* rest_scratch;
  Panels panels;
  int64_t finished_together;  // panels
  PanelTile listed_panels[kMostPanelTiles + 1] = {};
  int64_t num_panels = 0;
  bool by_parts = false;       // A lies part by part
  bool has_following = false;  // listed after them: what is fetched last
  Tile tile{};
  TapRange listed{-1, -1, -1, -1};
  const std::byte *next = nullptr, *next_end = nullptr;  // what of the next panel is to be fetched

  // Shares the fetching of the panel after `panel` out to the tiles of this one.
  void fetch_after(int64_t panel, int64_t end, const std::byte* weights) {
    next = next_end = nullptr;
    if (!run.plan.blocks.fetches_next() || panel + 1 >= end) return;
    next = weights + panels.offset(panel + 1) * kLaneBytes;
    next_end = next + panels.vecs_of(panel + 1) * panels.vec_lanes * kLaneBytes;
    const int64_t tiles = block.rows * ceil_div(block.cols, run.tile.rows());
    tile.ahead.step = smaller(kCacheLine, ceil_div(next_end - next, tiles * panels.k));
  }
  void set_ahead() {
    tile.ahead.from = next < next_end ? next : nullptr;
    if (next < next_end)
      next += tile.repeats.count * tile.k.num_segments * tile.k.length * tile.ahead.step;
  }

  void list(const TapRange& taps) {
    if (taps == listed) return;
    tile.k.num_segments = list_segments(run, taps, segments);
    listed = taps;
  }

  // Panels [from, to) of `group`.
  void list_panels(int64_t group, int64_t from, int64_t to) {
    const int64_t group_column = group * group_bias_lanes(run.shape);
    const std::byte* weights = run.weights.panels + group * panels.lanes() * kLaneBytes;
    num_panels = to - from;
    has_following = to < panels.count();
    for (int64_t k = 0; k < num_panels + (has_following ? 1 : 0); ++k) {
      const int64_t col = panels.first_col(from + k), column = group_column + col;
      listed_panels[k] = {weights + panels.offset(from + k) * kLaneBytes,
                          run.weights.bias ? run.weights.bias + column * kLaneBytes : nullptr,
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
    if (!run.repeats_tiles() || (run.plan.blocks.fetches_next() && !run.tile.in_matrices)) return 1;
    // Matrices read rows from L2 as fast as they need; every call sets them up again.
    const int64_t kBytes = run.tile.in_matrices ? 512 << 10 : 16 << 10;
    constexpr int64_t kFloatBytes = 24 << 10;
    const bool waits = run.tile.numeric == Numeric::kBf16 ? run.finish.waits_as_floats()
                                                          : run.finish.uses_scratch();
    const bool is_float = run.tile.numeric == Numeric::kFloat;
    const int64_t same = alike_from(tiles, part);
    const int64_t panel_row = run.tile.panel_width();
    // Floats that nothing follows are not met again, unless a line of them is of several panels.
    const bool is_done = is_float && !run.finish.has_rest() && panel_row >= kCacheLine;
    const int64_t out = is_done ? 0 : run.finish.out.pixel;
    const int64_t in = (is_float ? run.shape.kh : 1) * run.shape.sw * run.plan.a.pixel;
    const int64_t bytes =
        tiles.size(part) * (in + out + (waits ? 4 * smaller(channels(), kMaxRestChannels) : 0));
    // Panels of floats take more of L1 than those of bytes.
    const int64_t left = is_float ? smaller(kBytes, kFloatBytes - panel_row * panels.k) : kBytes;
    const int64_t fit = at_least_one(left / at_least_one(bytes));
    return smaller(same, waits ? smaller(fit, run.waiting_pixels() / tiles.size(part)) : fit);
  }

  // Floats are finished where they are, so several tiles can be together: short rows of a few
  // channels take longer to set up than to finish.
  bool finishes_later(int64_t pixels) const {
    constexpr int64_t kFloats = 2048;
    return run.tile.numeric == Numeric::kFloat && finished_together >= num_panels &&
           pixels * channels() < kFloats;
  }

  // What the tile's first `pixels` pixels start from: -zero_point times the sum of what the listed
  // taps read, of any bytes that follow nothing.
  void start_pixels(int64_t pixels) {
    const ConvShape& s = run.shape;
    for (int64_t p = 0; p < pixels; ++p) {
      const std::byte* window = tile.a.first + p * tile.a.stride;
      uint32_t sum = 0;  // wraps, as the accumulators do
      for (int64_t row = listed.first_row; row < listed.end_row; ++row)
        for (int64_t tap = listed.first_tap; tap < listed.end_tap; ++tap)
          sum += sum_of_codes(window + row * s.dh * run.plan.a.row + tap * s.dw * run.plan.a.pixel,
                              s.group_ic());
      starts[p] = static_cast<int32_t>(0u - static_cast<uint32_t>(run.weights.zero_point) * sum);
    }
    tile.start.rows = starts;
  }

  // The tiles of `rows` pixels at `place` against the listed panels; then `stored` is finished.
  void run_tiles(const TilePlace& place, int64_t rows, const TilePlace* stored) {
    set_ahead();
    for (int64_t panel = 0; panel < num_panels; panel += finished_together) {
      const PanelTile *from = listed_panels + panel,
                      *to = listed_panels + smaller(num_panels, panel + finished_together);
      run_panels(run, tile, place, static_cast<int>(rows), from, to, rest_scratch);
      if (stored) finish_panels(run, *stored, from, to, rest_scratch);
    }
  }

  // As many of the block's rows from `row` on as have the same taps: a tile each. Gives how many.
  int64_t joined_rows(int64_t row, int64_t group) {
    const ConvShape& s = run.shape;
    const TapRange taps = taps_of_row(run, block.row + row);
    const int64_t most = at_least_one(run.waiting_pixels() / block.cols);
    int64_t count = 1;
    while (count < most && row + count < block.rows &&
           taps_of_row(run, block.row + row + count) == taps)
      ++count;
    list(taps);
    tile.repeats.count = count;
    tile.repeats.stride = s.sh * run.plan.a.row;
    tile.a.first = a + row * s.sh * run.plan.a.row + group * s.group_ic() * run.tile.element();
    const TilePlace place{block.image, block.row + row, block.col, count * block.cols};
    run_tiles(place, block.cols, &place);
    look_up_tiles(run.finish, place, listed_panels[0].channel, channels());
    return count;
  }

  // Columns [first, end) of the block's output row `row`, against the listed panels of `group`.
  void columns(int64_t row, int64_t first, int64_t end, int64_t group) {
    const ConvShape& s = run.shape;
    const std::byte* a_row =
        a + row * s.sh * run.plan.a.row + group * s.group_ic() * run.tile.element();
    const EvenSplit tiles = split_evenly(end - first, run.tile.rows());
    int64_t unfinished = first;
    for (int64_t part = 0; part < tiles.parts; part += tile.repeats.count) {
      const int64_t col = first + tiles.start(part);
      tile.repeats.count = repeats_from(tiles, part);
      tile.a.first = a_row + (col - block.col) * s.sw * run.plan.a.pixel;
      const int64_t rows = tiles.size(part), next_col = col + rows * tile.repeats.count;
      if (run.weights.zero_point != 0) start_pixels(next_col - col);
      const TilePlace place{block.image, block.row + row, col, next_col - col};
      const TilePlace stored{block.image, block.row + row, unfinished, next_col - unfinished};
      const bool waits = next_col < end && finishes_later(stored.pixels);
      run_tiles(place, rows, waits ? nullptr : &stored);
      if (!waits) unfinished = next_col;
    }
    look_up_tiles(run.finish, {block.image, block.row + row, first, end - first},
                  listed_panels[0].channel, channels());
  }

  // While a part of a panel is multiplied, the next one is fetched, a line with every step until
  // all is there: the same part of the next panel, or the next part of the first one.
  void fetch_after_part(int64_t index, int64_t panel) {
    const bool wraps = panel + 1 == num_panels, ends = wraps && index + 1 == run.plan.parts.count();
    next = next_end = nullptr;
    if (ends && !has_following) return;
    const PanelTile& from = listed_panels[wraps && !ends ? 0 : panel + 1];
    const ConvPart part = run.plan.parts.part(ends ? 0 : wraps ? index + 1 : index);
    const int64_t width = run.tile.panel_step(from.vecs);
    next = from.weights + (part.first * run.plan.k.length + part.step) * width;
    next_end = next + part.count * part.steps * width;
    tile.ahead.step = smaller(kCacheLine, width);
  }

  // The segments of `part` among those of the kernel rows that lie inside the image.
  void list_part(const ConvPart& part, const TapRange& taps) {
    const int64_t per_row = run.plan.k.row_runs() ? 1 : run.shape.kw;
    list(taps);
    const int64_t listed_first = taps.first_row * per_row, listed_end = taps.end_row * per_row;
    const int64_t from = part.first > listed_first ? part.first : listed_first,
                  to = smaller(part.first + part.count, listed_end);
    tile.k.segments = segments + (from - listed_first);
    tile.k.num_segments = to > from ? to - from : 0;
  }

  // The tiles of a row from tile `index` on that have as many pixels, in one call; gives how many.
  int64_t add_plain_tiles(const TileFinish& finish, const PanelTile& panel, int64_t row,
                          const EvenSplit& tiles, int64_t index) {
    const int64_t count = alike_from(tiles, index), rows = tiles.size(index),
                  left = (block.rows - row) * tiles.parts - index;
    place_tile(finish, {block.image, block.row + row, block.col + tiles.start(index), count * rows},
               panel.channel, panel.cols, tile);
    PlainProduct product = plain_product(tile);
    product.tiles = count;
    product.ahead = next;
    product.ahead_bytes = ceil_div((next_end - next) * count, left);
    next += product.ahead_bytes;
    plain_kernel(panel.vecs, rows)(product);
    return count;
  }

  // Adds `part` of K of a panel to the sums of the block's output row `row`.
  void add_part(const TileFinish& finish, const ConvPart& part, const PanelTile& panel, int64_t row,
                int64_t group) {
    const ConvShape& s = run.shape;
    const int64_t pixels = block.rows * block.cols;
    const std::byte* a_row =
        by_parts
            ? a + (part.step * pixels + row * block.cols * part.steps) * kLaneBytes
            : a + row * s.sh * run.plan.a.row + (group * s.group_ic() + part.step) * kLaneBytes;
    tile.a.stride = by_parts ? part.steps * kLaneBytes : s.sw * run.plan.a.pixel;
    list_part(part, taps_of_row(run, block.row + row));
    const EvenSplit tiles = split_evenly(block.cols, run.tile.rows());
    const bool plainly =
        !finish.has_initial && panel.cols == panel.vecs * kLanes && is_plain(tile, panel.vecs);
    for (int64_t index = 0; index < tiles.parts; ++index) {
      tile.a.first = a_row + tiles.start(index) * tile.a.stride;
      if (plainly) {
        index += add_plain_tiles(finish, panel, row, tiles, index) - 1;
        continue;
      }
      const TilePlace place{block.image, block.row + row, block.col + tiles.start(index),
                            tiles.size(index)};
      place_tile(finish, place, panel.channel, panel.cols, tile);
      set_ahead();
      tile_kernel(panel.vecs, static_cast<int>(place.pixels))(tile);
    }
  }

  // All of the block's rows against the listed panels, part after part of K.
  void add_parts(int64_t group) {
    for (int64_t index = 0; index < run.plan.parts.count(); ++index) {
      const ConvPart part = run.plan.parts.part(index);
      TileFinish finish = run.finish;
      finish.has_initial = finish.has_initial && index == 0;
      if (index + 1 < run.plan.parts.count()) finish.epilogue = {};
      set_finish(finish, tile);
      tile.start.from_c = finish.has_initial || index > 0;
      tile.k.length = part.steps;
      for (int64_t k = 0; k < num_panels; ++k) {
        const PanelTile& panel = listed_panels[k];
        tile.b.stride = run.tile.panel_step(panel.vecs);
        tile.b.first = panel.weights + part.step * tile.b.stride;
        tile.start.bias = panel.bias;
        fetch_after_part(index, k);
        for (int64_t row = 0; row < block.rows; ++row) add_part(finish, part, panel, row, group);
      }
    }
    finish_rows();
  }

  void finish_rows() {
    if (!run.finish.has_rest()) return;
    constexpr int64_t kFloats = 4096;
    const int64_t together = at_least_one(kFloats / channels());
    for (int64_t row = 0; row < block.rows; ++row)
      for (int64_t col = 0; col < block.cols; col += together)
        finish_panels(
            run,
            {block.image, block.row + row, block.col + col, smaller(together, block.cols - col)},
            listed_panels, listed_panels + num_panels, rest_scratch);
  }

  void row(int64_t row, int64_t group) {
    TapRange taps = taps_of_row(run, block.row + row);
    const int64_t end = block.col + block.cols;
    if (!run.plan.a.zoned()) {
      list(taps);
      columns(row, block.col, end, group);
      return;
    }
    for (int64_t z = 0; z < run.tables.num_zones; ++z) {
      const ConvZone& zone = run.tables.zones[z];
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
  std::byte* scratch = run.scratch + worker * run.plan.bytes.worker;
  const bool by_parts = copies_parts(run);
  if (by_parts)
    copy_parts(run, block.image, block.row, block.rows, block.col, block.cols, scratch);
  else if (run.plan.a.windows())
    copy_windows(run, block.image, block.row, block.rows, block.col, block.cols, scratch);
  else if (run.plan.a.copied())
    copy_window(run, block.image, block.row, block.rows, block.col, block.cols, scratch);
  const std::byte* in_place = run.x.data + block.image * run.x.image +
                              (block.row * s.sh - s.pad_top) * run.plan.a.row +
                              (block.col * s.sw - s.pad_left) * run.plan.a.pixel;
  Segment* segments = reinterpret_cast<Segment*>(scratch + run.plan.bytes.copy);
  int32_t* starts =
      reinterpret_cast<int32_t*>(scratch + run.plan.bytes.copy + run.plan.bytes.segments);
  const bool waits =
      is_quantized(run.tile.numeric) ? run.finish.has_rest() : run.finish.waits_as_floats();
  BlockRun work{run,
                block,
                run.plan.a.copied() ? scratch : in_place,
                segments,
                starts,
                reinterpret_cast<std::byte*>(starts) + run.plan.bytes.starts,
                run.plan.panels,
                waits ? kMaxRestChannels / (run.tile.max_vecs * kLanes) : run.plan.panels.count()};
  work.by_parts = by_parts;
  work.tile.a.stride = s.sw * run.plan.a.pixel;
  work.tile.k.segments = segments;
  work.tile.k.length = run.plan.k.length;
  work.tile.chain.offsets = run.tables.step_offsets;
  set_finish(run.finish, work.tile);
  const int64_t panels = work.panels.count(),
                together = smaller(run.plan.blocks.panels, kMostPanelTiles);
  while (first < last) {
    const int64_t group = first / panels, panel = first - group * panels;
    const int64_t end = smaller(panels, panel + last - first);
    for (int64_t from = panel; from < end; from += together) {
      work.list_panels(group, from, smaller(end, from + together));
      if (run.plan.parts.used) {
        work.add_parts(group);
        continue;
      }
      work.fetch_after(from, end, run.weights.panels + group * work.panels.lanes() * kLaneBytes);
      for (int64_t row = 0; row < block.rows;) {
        if (run.plan.blocks.joins_rows) {
          row += work.joined_rows(row, group);
        } else {
          work.row(row, group);
          ++row;
        }
      }
    }
    first += end - panel;
  }
}

// Work units are numbered (image, strip, row).
void run_units(const ConvRun& run, int worker, int64_t first_unit, int64_t last_unit,
               int64_t first_panel, int64_t last_panel) {
  const ConvShape& s = run.shape;
  for (int64_t unit = first_unit; unit < last_unit;) {
    const int64_t row = unit % s.oh, strip = unit / s.oh % run.plan.blocks.strips_per_row;
    Block block{unit / s.oh / run.plan.blocks.strips_per_row, row, 0, strip * run.plan.blocks.strip,
                0};
    block.rows = smaller(smaller(run.plan.blocks.rows, s.oh - row), last_unit - unit);
    block.cols = smaller(run.plan.blocks.strip, s.ow - block.col);
    run_block_panels(run, block, worker, first_panel, last_panel);
    unit += block.rows;
  }
}

}  // namespace

void run_conv(ConvRun& planned, std::byte* workspace, ThreadPool* pool) {
  if (!planned.tables.kept) make_tables(planned, workspace);
  planned.scratch = workspace + planned.plan.bytes.tables;
  const ConvRun& run = planned;
  if (!pool || run.plan.shares.threads == 1)
    return run_units(run, 0, 0, run.units(), 0, run.all_panels());
  pool->parallel_ranges(
      run.plan.shares.line.places(), [&run](int worker, int64_t first_place, int64_t end_place) {
        run.plan.shares.line.for_rectangles(
            first_place, end_place, [&](int64_t first, int64_t end, int64_t inner, int64_t last) {
              if (run.plan.shares.splits_panels)
                run_units(run, worker, inner, last, first, end);
              else
                run_units(run, worker, first, end, inner, last);
            });
      });
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
