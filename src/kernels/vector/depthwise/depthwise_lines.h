// SPDX-License-Identifier: Apache-2.0
// Depthwise convolution through lines: the input rows that an output row needs are kept in L1 as
// lines of one vector of channels each, padded left and right, pixel next to pixel; each row is
// copied once. Tiles then read at constant offsets, without looking at borders, and neighbouring
// pixels never share a set of L1, as they do in a tensor of 512 or 1024 channels (3x3 layers of
// 14x14 pixels: 88 us in place, 34 us so). Groups of a few channels are the same with a line for
// each input of a group, spread over the lanes of its outputs. Of a channel multiplier, a line has
// each input as often as outputs read it.
#pragma once

#include "kernels/vector/depthwise/depthwise_tactics.h"
#include "kernels/vector/gemm/gemm_tile.h"

#include <numeric>

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace depthwise {

using FloatRun = Run<float>;

inline constexpr int kMostLinePixels = 8;  // output pixels of a register tile
inline constexpr int64_t kMostLines = 64;

// What an output vector adds up: `lines` lines, each times the taps of a kernel row. Of a depthwise
// layer a line is a kernel row; of grouped ones there are kInputs for each: where a group fills the
// vector, the lanes of one line.
inline constexpr int lines_per_row(int inputs) {
  return inputs == kLanes ? 1 : inputs;
}
template <int kInputs>
CAMSHAFT_INLINE F32 line_input(const float* p) {
  return kInputs == kLanes ? set1(*p) : load(p);
}

// Windows of kWidth x kWidth undilated taps: neighbouring pixels share inputs.
template <int kWidth, int kStride, int kInputs_ = 1>
struct LineWindow {
  static constexpr bool kIsAny = false;
  static constexpr int kInputs = kInputs_;
  static bool fits(const ConvShape& s) {
    return s.kh == kWidth && s.kw == kWidth && s.dh == 1 && s.dw == 1 && s.sw == kStride;
  }
  // `x`: the tile's first input in the lines.
  template <int P>
  CAMSHAFT_INLINE void add(const ConvShape&, const float* const* lines, int64_t x, const float* w,
                           F32 (&sum)[P]) {
#pragma GCC unroll 3
    for (int k = 0; k < kWidth * kInputs; ++k, w += kWidth * kLanes) {
      const float* line = lines[k] + x;
      F32 weight[kWidth];
#pragma GCC unroll 8
      for (int kw = 0; kw < kWidth; ++kw) weight[kw] = load(w + kw * kLanes);
#pragma GCC unroll 32
      for (int col = 0; col < (P - 1) * kStride + kWidth; ++col) {
        F32 value = line_input<kInputs>(line + col * kLanes);
        keep_in_register(value);
#pragma GCC unroll 8
        for (int p = 0; p < P; ++p) {
          const int kw = col - p * kStride;
          if (kw >= 0 && kw < kWidth) sum[p] = fma(value, weight[kw], sum[p]);
        }
      }
    }
  }
};

// Any window: every product loads its input. kStride 0: any stride beyond 2.
template <int kStride, int kInputs_ = 1>
struct AnyLineWindow {
  static constexpr bool kIsAny = true;
  static constexpr int kInputs = kInputs_;
  static bool fits(const ConvShape& s) {
    return (kStride > 0 ? s.sw == kStride : s.sw > 2) && s.kh * kInputs <= kMostLines;
  }
  template <int P>
  CAMSHAFT_INLINE void add(const ConvShape& s, const float* const* lines, int64_t x, const float* w,
                           F32 (&sum)[P]) {
    const int64_t step = (kStride > 0 ? kStride : s.sw) * kLanes;
    for (int64_t k = 0; k < s.kh * kInputs; ++k) {
      const float* tap = lines[k] + x;
      for (int64_t kw = 0; kw < s.kw; ++kw, tap += s.dw * kLanes, w += kLanes) {
        const F32 weight = load(w);
#pragma GCC unroll 8
        for (int p = 0; p < P; ++p)
          sum[p] = fma(line_input<kInputs>(tap + p * step), weight, sum[p]);
      }
    }
  }
};

// How a layer is cut: strips of columns, blocks of vectors of channels, chunks of rows. One unit of
// work is one of each.
struct LinePlan {
  int64_t inputs;                    // lines of a vector of channels and a row
  int64_t rows;                      // kept: those of a window
  EvenSplit strips, blocks, chunks;  // blocks: of whole vectors; what is left joins the last
  int64_t pixels, line, row;         // of a line; floats between lines and between rows of lines
  // Of a channel multiplier, or less than a vector of channels: per vector of them, which of the
  // inputs its lanes read.
  const int32_t* sources = nullptr;

  size_t bytes() const {
    return static_cast<size_t>(round_up(rows * row * static_cast<int64_t>(sizeof(float)), 64));
  }
  int64_t vector() const { return inputs * line; }  // floats between vectors of channels
  int64_t units(int64_t batch) const { return batch * blocks.parts * strips.parts * chunks.parts; }
};

// Every `out`-th output row reads input rows that are the same multiples of the dilation away from
// each other: its own are `in` of them further.
struct RowSteps {
  int64_t out, in;
};
static inline RowSteps row_steps(const ConvShape& s) {
  const int64_t common = std::gcd(s.sh, s.dh);
  return {s.dh / common, s.sh / common};
}

static inline int64_t line_pixels(const ConvShape& s, int64_t cols) {
  return (cols - 1) * s.sw + (s.kw - 1) * s.dw + 1;
}

static inline LinePlan plan_lines(const ConvShape& s, int64_t inputs, int threads) {
  constexpr int64_t kBytes = 24 << 10;  // of lines, in L1
  constexpr int64_t kMostChannels = 64, kFewCols = 14;
  LinePlan plan;
  plan.inputs = inputs;
  plan.rows = s.kh;
  const int64_t vectors = at_least_one(s.oc / kLanes);
  int64_t together = smaller(vectors, kMostChannels / kLanes), cols = s.ow;
  const auto too_large = [&] {
    return plan.rows * line_pixels(s, cols) * inputs * together * kLanes * 4 > kBytes;
  };
  // What neighbouring strips both copy stays less than half of them.
  const int64_t least = larger(kFewCols, 4 * (s.kw - 1) * s.dw);
  while (too_large() && cols > least) cols = ceil_div(cols, 2);
  while (too_large() && together > 1) together = ceil_div(together, 2);
  while (too_large() && cols > kFewCols) cols = ceil_div(cols, 2);
  plan.strips = split_evenly(s.ow, cols);
  plan.blocks = split_evenly(vectors, together);
  const int64_t units = s.batch * plan.strips.parts * plan.blocks.parts;
  constexpr int64_t kUnits = 4, kRows = 4;  // for each thread; of a chunk
  const int64_t wanted = threads == 1 ? 1 : ceil_div(kUnits * threads, units);
  plan.chunks = split_evenly(s.oh, larger(ceil_div(s.oh, wanted), kRows * row_steps(s).out));
  plan.pixels = line_pixels(s, plan.strips.size(0));
  plan.line = plan.pixels * kLanes;
  const int64_t most = plan.blocks.size(0) + (s.oc % kLanes != 0 ? 1 : 0);
  plan.row = most * plan.vector() + (most * plan.vector() % 1024 == 0 ? kLanes : 0);
  return plan;
}

// The channels, columns and rows of a unit.
struct LineUnit {
  int64_t image, channel, vectors;  // whole vectors from `channel` on
  bool has_tail;                    // and the last, which overlaps the one before
  int64_t col, cols, row, rows;
};

static inline LineUnit unit_at(const LinePlan& plan, const ConvShape& s, int64_t index) {
  const int64_t chunk = index % plan.chunks.parts;
  index /= plan.chunks.parts;
  const int64_t strip = index % plan.strips.parts;
  index /= plan.strips.parts;
  const int64_t block = index % plan.blocks.parts;
  LineUnit unit;
  unit.image = index / plan.blocks.parts;
  unit.channel = plan.blocks.start(block) * kLanes;
  unit.vectors = plan.blocks.size(block);
  unit.has_tail = block == plan.blocks.parts - 1 && s.oc > kLanes && s.oc % kLanes != 0;
  unit.col = plan.strips.start(strip), unit.cols = plan.strips.size(strip);
  unit.row = plan.chunks.start(chunk), unit.rows = plan.chunks.size(chunk);
  return unit;
}

// kVectors vectors of channels of `pixels` pixels, each to its own line. `ahead` floats further is
// what will be copied next: pixels far apart defeat the prefetcher.
template <int kVectors>
CAMSHAFT_INLINE void copy_lines(const float* from, int64_t pixel, int64_t pixels, float* to,
                                int64_t line, int64_t ahead) {
  constexpr int kLine = 16 / kLanes;  // vectors of a cache line
  for (int64_t p = 0; p < pixels; ++p, from += pixel, to += kLanes)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      if (v % kLine == 0) __builtin_prefetch(from + ahead + v * kLanes, 0, 2);
      store(to + v * line, load(from + v * kLanes));
    }
}

// Groups of kInputs channels: line k holds the k-th channel of its group in every lane.
template <int kInputs>
CAMSHAFT_INLINE void spread_lines(const float* from, int64_t pixel, int64_t pixels, float* to,
                                  int64_t line, int64_t ahead) {
  I32 source[kInputs];
  for (int k = 0; k < kInputs; ++k) {
    int32_t lanes[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] = lane / kInputs * kInputs + k;
    source[k] = iload(lanes);
  }
  for (int64_t p = 0; p < pixels; ++p, from += pixel, to += kLanes) {
    __builtin_prefetch(from + ahead, 0, 2);
    const F32 x = load(from);
#pragma GCC unroll 16
    for (int k = 0; k < kInputs; ++k) store(to + k * line, permute(x, source[k]));
  }
}

static inline void clear_lines(float* to, int64_t pixels, int64_t line, int64_t lines) {
  for (int64_t v = 0; v < lines; ++v, to += line)
    for (int64_t p = 0; p < pixels; ++p) store(to + p * kLanes, zero());
}

// The first of the inputs that lie in a register for the outputs from channel `c` on.
static inline int64_t first_source(const ConvShape& s, int64_t c) {
  const int64_t last = s.ic > kLanes ? s.ic - kLanes : 0;
  return smaller(c / (s.oc / s.ic), last);
}

static inline const int32_t* keep_sources(const ConvShape& s, PreparedKernel& kernel) {
  if (s.oc == s.ic && s.oc >= kLanes) return nullptr;
  int32_t* sources = keep_array<int32_t>(kernel, ceil_div(s.oc, kLanes) * kLanes);
  for (int64_t first = 0; first < s.oc; first += kLanes)
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const int64_t c = larger(channel_of(s, first, lane), 0);
      sources[first + lane] =
          static_cast<int32_t>(c / (s.oc / s.ic) - first_source(s, channel_of(s, first, 0)));
    }
  return sources;
}

// The line of the vector of outputs at `first`: each input as often as outputs read it.
static inline void spread_channels(const FloatRun& run, const LinePlan& plan, const float* from,
                                   int64_t first, int64_t pixels, float* to) {
  const ConvShape& s = run.s;
  const int64_t ahead = row_steps(s).in * s.dh * run.x_row;
  const M32 some = first_n(static_cast<int>(smaller(s.ic, kLanes)));
  const I32 source = iload(plan.sources + first);
  from += first_source(s, channel_of(s, first, 0));
  for (int64_t p = 0; p < pixels; ++p, from += run.x_pixel, to += kLanes) {
    __builtin_prefetch(from + ahead, 0, 2);
    store(to, permute(load(from, some), source));
  }
}

// The channels of a unit of `pixels` pixels; `from` is channel 0 of the first.
template <int kInputs>
void copy_unit(const FloatRun& run, const LinePlan& plan, const LineUnit& unit, const float* from,
               int64_t pixels, float* to) {
  const float* first = from + unit.channel;
  const int64_t pixel = run.x_pixel, line = plan.line,
                ahead = row_steps(run.s).in * run.s.dh * run.x_row;
  if constexpr (lines_per_row(kInputs) > 1) {
    for (int64_t v = 0; v < unit.vectors; ++v)
      spread_lines<kInputs>(first + v * kLanes, pixel, pixels, to + v * plan.vector(), line, ahead);
    return;
  }
  if (plan.sources != nullptr) {
    for (int64_t v = 0; v < unit.vectors + (unit.has_tail ? 1 : 0); ++v)
      spread_channels(run, plan, from, unit.channel + v * kLanes, pixels, to + v * line);
    return;
  }
  int64_t v = 0;
  for (; v + 4 <= unit.vectors; v += 4)
    copy_lines<4>(first + v * kLanes, pixel, pixels, to + v * line, line, ahead);
  for (; v + 2 <= unit.vectors; v += 2)
    copy_lines<2>(first + v * kLanes, pixel, pixels, to + v * line, line, ahead);
  for (; v < unit.vectors; ++v)
    copy_lines<1>(first + v * kLanes, pixel, pixels, to + v * line, line, ahead);
  if (unit.has_tail)
    copy_lines<1>(from + run.s.oc - kLanes, pixel, pixels, to + v * line, line, ahead);
}

// Row `ih` of the input, or of what lies around it, from column `iw` on.
template <int kInputs>
void fill_lines(const FloatRun& run, const LinePlan& plan, const LineUnit& unit, int64_t ih,
                int64_t iw, float* to) {
  const ConvShape& s = run.s;
  const int64_t lines = plan.inputs * (unit.vectors + (unit.has_tail ? 1 : 0)),
                pixels = line_pixels(s, unit.cols);
  if (ih < 0 || ih >= s.ih) return clear_lines(to, pixels, plan.line, lines);
  const int64_t left = clamp_to(-iw, 0, pixels), right = clamp_to(s.iw - iw, left, pixels);
  if (left > 0) clear_lines(to, left, plan.line, lines);
  if (right < pixels) clear_lines(to + right * kLanes, pixels - right, plan.line, lines);
  const float* from = run.x + unit.image * run.x_image + ih * run.x_row + (iw + left) * run.x_pixel;
  copy_unit<kInputs>(run, plan, unit, from, right - left, to + left * kLanes);
}

// Packed floats of a vector of channels.
template <class Window>
int64_t line_block(const ConvShape& s) {
  return (1 + s.kh * Window::kInputs * s.kw) * kLanes;
}

// `vectors` vectors of channels of P pixels, from column `ow` and channel c on; x: the first input
// in the lines.
template <class Window, int P>
void run_line_tile(const FloatRun& run, const Strip<float>& strip, const float* const* lines,
                   int64_t x, int64_t vector, int64_t ow, int64_t c, int64_t vectors) {
  const int64_t block = line_block<Window>(run.s);
  const float* weights = strip.weights;
  for (int64_t v = 0; v < vectors; ++v, x += vector, weights += block, c += kLanes) {
    F32 sum[P];
    const F32 bias = load(weights);
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) sum[p] = bias;
    Window::template add<P>(run.s, lines, x, weights + kLanes, sum);
    finish<P, false>(run, strip, sum, weights, ow, c, {first_n(kLanes), kLanes});
  }
}

using LineTile = void (*)(const FloatRun&, const Strip<float>&, const float* const*, int64_t,
                          int64_t, int64_t, int64_t, int64_t);
template <class Window>
inline constexpr LineTile kLineTiles[kMostLinePixels + 1] = {
    nullptr,
    run_line_tile<Window, 1>,
    run_line_tile<Window, 2>,
    run_line_tile<Window, 3>,
    run_line_tile<Window, 4>,
    run_line_tile<Window, 5>,
    run_line_tile<Window, 6>,
    run_line_tile<Window, 7>,
    run_line_tile<Window, 8>,
};

// An output row of a unit.
template <class Window>
void run_line_row(const FloatRun& run, const LinePlan& plan, const LineUnit& unit,
                  const float* const* lines, int64_t oh) {
  Strip<float> strip{};
  strip.y = run.y_at(unit.image * run.y_image + oh * run.y_row);
  strip.x_pixel = run.x_pixel, strip.y_pixel = run.y_pixel;
  if (run.epilogue.adds()) {
    strip.residual = reinterpret_cast<const float*>(run.residual().at(unit.image, oh, 0, 0));
    strip.residual_pixel = run.residual().pixel / run.residual().element();
  }
  const int64_t block = line_block<Window>(run.s);
  const float* weights = run.packed + unit.channel / kLanes * block;
  const EvenSplit tiles = split_evenly(unit.cols, kMostLinePixels);
  for (int64_t tile = 0; tile < tiles.parts; ++tile) {
    const int64_t col = tiles.start(tile), x = col * run.s.sw * kLanes;
    const LineTile run_tile = kLineTiles<Window>[tiles.size(tile)];
    strip.weights = weights;
    run_tile(run, strip, lines, x, plan.vector(), unit.col + col, unit.channel, unit.vectors);
    if (!unit.has_tail) continue;
    strip.weights = weights + unit.vectors * block;
    run_tile(run, strip, lines, x + unit.vectors * plan.vector(), 0, unit.col + col,
             run.s.oc - kLanes, 1);
  }
  if (!run.epilogue.is_program) return;
  strip.first = unit.channel;
  strip.last = unit.has_tail ? run.s.oc : unit.channel + unit.vectors * kLanes;
  run_epilogue(run, strip, unit.image, oh, unit.col, unit.cols);
}

// Of a dilated window, output rows that read the same input rows follow each other.
template <class Window>
void run_line_unit(const FloatRun& run, const LinePlan& plan, const LineUnit& unit, float* kept) {
  const ConvShape& s = run.s;
  const RowSteps steps = row_steps(s);
  const float* lines[kMostLines];
  const int64_t iw = unit.col * s.sw - s.pad_left;
  for (int64_t row = unit.row; row < unit.row + smaller(steps.out, unit.rows); ++row) {
    int64_t copied = 0;  // of the input rows in use, the first that is not in the lines
    for (int64_t oh = row, top = 0; oh < unit.row + unit.rows; oh += steps.out, top += steps.in) {
      if (copied < top) copied = top;
      for (; copied < top + plan.rows; ++copied)
        fill_lines<Window::kInputs>(run, plan, unit, row * s.sh - s.pad_top + copied * s.dh, iw,
                                    kept + copied % plan.rows * plan.row);
      for (int64_t kh = 0; kh < s.kh; ++kh)
        for (int k = 0; k < Window::kInputs; ++k)
          lines[kh * Window::kInputs + k] =
              kept + (top + kh) % plan.rows * plan.row + k * (plan.inputs > 1 ? plan.line : 1);
      run_line_row<Window>(run, plan, unit, lines, oh);
    }
  }
}

// --- what tactics share

struct LineKernel {
  FloatRun run;
  LinePlan plan;
};

template <class Window>
void run_lines(LineKernel& kernel, const KernelCall& call) {
  const LinePlan& plan = kernel.plan;
  const FloatRun& run = kernel.run;
  set_addresses(call, kernel.run);
  const auto body = [&](int worker, int64_t first, int64_t last) {
    float* kept =
        reinterpret_cast<float*>(call.workspace + static_cast<size_t>(worker) * plan.bytes());
    for (int64_t unit = first; unit < last; ++unit)
      run_line_unit<Window>(run, plan, unit_at(plan, run.s, unit), kept);
  };
  split(call.pool, plan.units(run.s.batch), run.predicted_us, body);
}

template <class Window>
void prepare_lines(const KernelArgs& args, PreparedKernel& kernel) {
  FloatRun run;
  if (!has_output(args, kernel) || !describe(args, run)) return;
  run.epilogue = float_epilogue(run);
  const int threads = threads_of(args);
  LinePlan plan = plan_lines(run.s, lines_per_row(Window::kInputs), threads);
  if (Window::kInputs == 1) plan.sources = keep_sources(run.s, kernel);
  const int64_t taps = run.s.kh * run.s.kw * Window::kInputs;
  run.predicted_us = static_cast<double>(count_of(args.outputs[0]) * taps) / kLanes / 4500;
  LineKernel& kept = keep_state<run_lines<Window>>(kernel, LineKernel{run, plan});
  compile_epilogue(kept.run, kernel);
  kernel.workspace_bytes = static_cast<size_t>(threads) * plan.bytes();
}

// Cycles of an output vector besides its products: its store, and the copies of its inputs.
template <class Window>
double line_cost_us(const Problem& p) {
  ConvShape s;
  if (!shape_of(p, s)) return 1e12;
  const double inputs = Window::kInputs, copies = static_cast<double>(s.ih * s.iw) /
                                                  static_cast<double>(at_least_one(s.oh * s.ow));
  return windows_us(p, 1.5 + 1.3 * lines_per_row(Window::kInputs) * copies,
                    inputs * (Window::kIsAny ? 0.7 : 0.55));
}

}  // namespace depthwise
}  // namespace camshaft::kernels::CAMSHAFT_TARGET
