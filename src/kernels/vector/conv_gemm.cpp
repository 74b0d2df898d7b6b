// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/conv_gemm.h"

#include "kernels/vector/conv_window.h"
#include "kernels/vector/gemm_cost.h"
#include "kernels/vector/program_tile.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}
int64_t at_least_one(int64_t a) {
  return a < 1 ? 1 : a;
}
int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}

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

// Bytes of input a block of `rows` output rows of one strip reads.
int64_t window_floats(const ConvRun& run, int64_t rows) {
  const ConvShape& s = run.shape;
  const int64_t high = (rows - 1) * s.sh + (s.kh - 1) * s.dh + 1;
  const int64_t wide = (run.strip - 1) * s.sw + (s.kw - 1) * s.dw + 1;
  return high * (wide * run.pixel + kLanes);
}

// Strips: whole rows where two of them fit in the cache share, else parts that are a whole number
// of tiles.
void choose_strips(ConvRun& run, int threads, int64_t budget) {
  const ConvShape& s = run.shape;
  const int64_t tile_rows = kMaxRows[run.max_vecs];
  const bool one_row = s.oh * s.batch == 1;
  const int64_t tile =
      at_least_one(ceil_div(s.ow, at_least_one(ceil_div(s.ow, tile_rows))));  // even tiles
  const int64_t tiles = at_least_one(ceil_div(s.ow, tile));
  int64_t per_strip = one_row && !run.splits_panels ? ceil_div(tiles, threads) : tiles;
  run.strip = per_strip * tile;
  while (per_strip > 1 && window_floats(run, 1) > budget) {
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
  const int64_t units = one_row ? ceil_div(s.ow, kMaxRows[run.max_vecs]) : s.oh * s.batch;
  const double by_panels = imbalance(panels, threads), by_rows = imbalance(units, threads);
  const bool heavy_weights = run.panels().floats() * s.groups > s.batch * s.ih * s.iw * s.ic;
  return heavy_weights ? by_panels <= by_rows * 1.15 : by_panels * 1.1 < by_rows;
}

}  // namespace

bool conv_needs_copy(const ConvShape& s) {
  if (s.kh == 0 || s.kw == 0) return false;  // reads nothing
  return s.pad_top > 0 || s.pad_left > 0 ||
         (s.oh - 1) * s.sh + (s.kh - 1) * s.dh + 1 - s.pad_top > s.ih ||
         (s.ow - 1) * s.sw + (s.kw - 1) * s.dw + 1 - s.pad_left > s.iw;
}

size_t plan_conv(ConvRun& run, int threads) {
  merge_rows(run);
  const ConvShape& s = run.shape;
  const bool reads = s.kh > 0 && s.kw > 0;  // a phase of a deconvolution may have no taps
  run.copies = reads && (run.copies || run.x_channel != 1 || conv_needs_copy(s));
  if (run.shape.macs() < kMacsWorthThreads) threads = 1;
  run.threads = threads;
  // Rows of A that lie a multiple of 4 KiB apart share one set of L1: a copy spreads them.
  const bool aliases = s.sw * s.ic % 1024 == 0;
  run.pixel = run.copies ? s.ic + (aliases ? kLanes : 0) : run.x_pixel;
  run.splits_panels = should_split_panels(run, threads);

  const int64_t l2_floats = static_cast<int64_t>(cpu_info().l2_bytes / sizeof(float));
  choose_strips(run, threads, l2_floats / 3);
  const Panels panels = run.panels();
  const int64_t group_floats = panels.padded_n() * panels.k;
  const bool weights_fit =
      group_floats * (run.splits_panels ? 1 : threads) <= l2_floats * threads / 2;
  const int64_t panel_floats = static_cast<int64_t>(run.max_vecs) * kLanes * panels.k;
  run.panel_group = weights_fit ? panels.count() : at_least_one(l2_floats * 2 / 5 / panel_floats);
  const int64_t row_floats = window_floats(run, 2) - window_floats(run, 1);
  const int64_t more_rows = (l2_floats * 2 / 5 - window_floats(run, 1)) / row_floats;
  run.block_rows = smaller(s.oh, 1 + (more_rows > 0 ? more_rows : 0));

  const int64_t wide = (run.strip - 1) * s.sw + (s.kw - 1) * s.dw + 1;
  run.row = run.copies ? wide * run.pixel + kLanes : run.x_row;
  const bool row_runs = s.dw == 1 && run.pixel == s.group_ic();
  run.num_segments = row_runs ? s.kh : s.kh * s.kw;
  run.segment_length = row_runs ? s.kw * s.group_ic() : s.group_ic();
  run.scratch_floats = run.copies ? ceil_div(window_floats(run, run.block_rows), 16) * 16 : 0;
  const size_t segment_bytes = static_cast<size_t>(ceil_div(run.num_segments, 8)) * 64;
  return segment_bytes +
         static_cast<size_t>(run.scratch_floats) * sizeof(float) * static_cast<size_t>(threads);
}

namespace {

void place_workspace(ConvRun& run, std::byte* workspace) {
  const ConvShape& s = run.shape;
  run.segments = reinterpret_cast<int64_t*>(workspace);
  run.scratch = reinterpret_cast<float*>(workspace + ceil_div(run.num_segments, 8) * 64);
  const int64_t taps = s.kh == 0 ? 0 : run.num_segments / s.kh;
  for (int64_t kh = 0; kh < s.kh; ++kh)
    for (int64_t tap = 0; tap < taps; ++tap)
      run.segments[kh * taps + tap] = kh * s.dh * run.row + tap * s.dw * run.pixel;
}

// Output rows [row, row + rows) of one strip of one image.
struct Block {
  int64_t image, row, rows, col, cols;
};

// One tile of pixels against panels [first, last) of conv group `group`.
void run_panels(const ConvRun& run, const Panels& panels, Tile& tile, const TilePlace& place,
                int64_t group, int64_t first, int64_t last) {
  const int64_t group_channel = group * panels.n;
  const float* bias = run.bias ? run.bias + group * panels.padded_n() : nullptr;
  const float* weights = run.weights + group * panels.floats();
  for (int64_t panel = first; panel < last; ++panel) {
    const int64_t channel = panels.first_col(panel), vecs = panels.vecs_of(panel);
    tile.b = weights + panels.offset(panel);
    tile.b_stride = vecs * kLanes;
    tile.bias = bias ? bias + channel : nullptr;
    place_tile(run.finish, place, group_channel + channel, panels.cols_of(panel), tile);
    tile_kernel(static_cast<int>(vecs), static_cast<int>(place.pixels))(tile);
  }
  const int64_t from = panels.first_col(first);
  const int64_t to = panels.first_col(last - 1) + panels.cols_of(last - 1);
  finish_tiles(run.finish, place, group_channel + from, to - from);
}

// Pixels [block] against panels [first, last) of conv group `group`, a group of panels at a time.
void run_block(const ConvRun& run, const Block& block, const float* a, int64_t group, int64_t first,
               int64_t last) {
  const ConvShape& s = run.shape;
  const Panels panels = run.panels();
  const EvenSplit tiles = split_evenly(block.cols, kMaxRows[run.max_vecs]);
  Tile tile{};
  tile.a_stride = s.sw * run.pixel;
  set_finish(run.finish, tile);
  tile.segments = run.segments;
  tile.num_segments = run.num_segments;
  tile.segment_length = run.segment_length;
  for (int64_t from = first; from < last; from += run.panel_group) {
    const int64_t to = smaller(last, from + run.panel_group);
    for (int64_t row = 0; row < block.rows; ++row) {
      const float* a_row = a + row * s.sh * run.row + group * s.group_ic();
      for (int64_t part = 0; part < tiles.parts; ++part) {
        const int64_t col = tiles.start(part);
        tile.a = a_row + col * s.sw * run.pixel;
        run_panels(run, panels, tile,
                   {block.image, block.row + row, block.col + col, tiles.size(part)}, group, from,
                   to);
      }
    }
  }
}

// The pixels of `block` for all (group, panel) pairs numbered [first, last).
void run_block_panels(const ConvRun& run, const Block& block, int worker, int64_t first,
                      int64_t last) {
  const ConvShape& s = run.shape;
  const float* a;
  if (run.copies) {
    float* scratch = run.scratch + worker * run.scratch_floats;
    copy_window(run, block.image, block.row, block.rows, block.col, block.cols, scratch);
    a = scratch;
  } else {
    a = run.x + block.image * run.x_image + (block.row * s.sh - s.pad_top) * run.row +
        (block.col * s.sw - s.pad_left) * run.pixel;
  }
  const int64_t panels = run.panels().count();
  while (first < last) {
    const int64_t group = first / panels, panel = first - group * panels;
    const int64_t end = smaller(panels, panel + last - first);
    run_block(run, block, a, group, panel, end);
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

Filter conv_filter(const ConvShape& s, const float* weights) {
  const int64_t taps = s.kh * s.kw, filter = s.group_ic() * taps;
  return {weights, s.group_oc() * filter, filter, taps, s.kw, 1};
}

int64_t packed_bias_floats(const ConvShape& s) {
  return s.groups * Panels(s.group_oc(), 0, 1).padded_n();
}

int64_t packed_filter_floats(const ConvShape& s) {
  return s.groups * Panels(s.group_oc(), s.kh * s.kw * s.group_ic(), 1).floats();
}

void pack_bias(const ConvShape& s, const float* bias, float* packed) {
  const int64_t n = s.group_oc(), padded = Panels(n, 0, 1).padded_n();
  for (int64_t group = 0; group < s.groups; ++group)
    for (int64_t c = 0; c < padded; ++c)
      packed[group * padded + c] = bias && c < n ? bias[group * n + c] : 0;
}

void pack_filter(const ConvShape& s, const Filter& f, int max_vecs, float* packed) {
  const Panels panels(s.group_oc(), s.kh * s.kw * s.group_ic(), max_vecs);
  for (int64_t group = 0; group < s.groups; ++group)
    for (int64_t panel = 0; panel < panels.count(); ++panel) {
      const int64_t width = panels.vecs_of(panel) * kLanes, cols = panels.cols_of(panel);
      const float* from = f.data + group * f.group + panels.first_col(panel) * f.n;
      float* to = packed + group * panels.floats() + panels.offset(panel);
      for (int64_t kh = 0; kh < s.kh; ++kh)
        for (int64_t kw = 0; kw < s.kw; ++kw)
          for (int64_t c = 0; c < s.group_ic(); ++c, to += width)
            for (int64_t col = 0; col < width; ++col)
              to[col] = col < cols ? from[col * f.n + c * f.c + kh * f.h + kw * f.w] : 0;
    }
}

std::string refuse_conv(const Problem& problem, bool has_shape) {
  const ProblemTensor &x = problem.inputs[0], &w = problem.inputs[1], &y = problem.outputs[0];
  if (x.type != DataType::kFloat || y.type != DataType::kFloat) return "not float";
  if (w.type != DataType::kFloat) return "weights are not float";
  if (!w.constant) return "weights are not constant";
  if (has_bias(problem) &&
      (!problem.inputs[2].constant || problem.inputs[2].type != DataType::kFloat))
    return "the bias is not a float constant";
  if (!has_shape) return "not 1-D or 2-D";
  if (problem.inputs.size() > kFirstConvOperand + kMaxOperands) return "too many epilogue operands";
  if (!program_fits(problem.layer->as<ir::ConvolutionAttrs>().epilogue))
    return "the epilogue is too long";
  return refuse_operands(problem, kFirstConvOperand);
}

uint32_t packed_conv_inputs(const Problem& problem) {
  return has_bias(problem) ? 6u : 2u;
}

void set_conv_tensors(const KernelArgs& args, ConvRun& run) {
  const TensorView &x = args.inputs[0], &y = args.outputs[0];
  const int last = x.rank - 1;
  run.x = x.as<const float>();
  run.x_image = x.strides[0];
  run.x_channel = x.extents[1] == 1 ? 1 : x.strides[1];
  run.x_pixel = x.strides[last];
  run.x_row = x.rank == 4 ? x.strides[2] : x.extents[last] * x.strides[last];
  run.finish =
      tile_finish(args, args.layer->as<ir::ConvolutionAttrs>().epilogue, kFirstConvOperand);
  run.finish.out = {y.as<float>(), y.strides[0],
                    y.rank == 4 ? y.strides[2] : y.extents[last] * y.strides[last],
                    y.strides[last]};
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
