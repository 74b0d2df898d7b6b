// SPDX-License-Identifier: Apache-2.0
// Winograd convolution F(m,3), 3x3 stride 1, channel last: 6x6 (m = 4) or 4x4 (m = 2) input patches
// are transformed, multiplied as (m+2)² matrix products and transformed back; 4 or 2.25 times fewer
// multiplications than direct convolution.
//
//   block of tiles:  patches ─▶ V[t][tile][c] ─▶ for each panel of output channels:  V[t]·U[t] ─▶
//   M[tile][t][k] ─▶ m×m pixels
//
// A block's V and M stay in the second-level cache; U (the transformed weights) streams through
// once per block. A dilated convolution is dilation² independent ones on every dilation-th pixel:
// its tiles only have longer strides.
#include <cstring>

#include "kernels/vector/conv_gemm.h"
#include "kernels/vector/gate.h"
#include "kernels/vector/gemm_cost.h"
#include "kernels/vector/winograd_transform.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

constexpr int kVecs = 2;  // of a panel
constexpr int64_t kPanel = kVecs * kLanes;
constexpr int64_t kTileRows = kMaxRows[kVecs];
constexpr int64_t kStripTiles =
    8;  // finished before their epilogue program runs: 4 rows of 32 pixels fit in L1

int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}
int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}
int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}

// How the output is cut into tiles and blocks of tiles.
template <class F>
struct Blocking {
  static constexpr int64_t kPoints = F::kIn * F::kIn;
  int64_t tiles_high, tiles_wide, tiles;  // per phase of the dilation; in all
  int64_t row;    // floats of one V row: the channels, padded so that rows do not share cache sets
  int64_t block;  // tiles of one block
  int64_t blocks;
  int threads;
  bool cooperative;  // few tiles: the threads share one block and divide the output channels
  int64_t v_floats, m_floats,
      strip_floats;  // V of one block, M of one panel, a half-transformed strip

  Blocking(const ConvShape& s, int threads_wanted) {
    tiles_high = ceil_div(ceil_div(s.oh, s.dh), F::kOut);
    tiles_wide = ceil_div(ceil_div(s.ow, s.dw), F::kOut);
    tiles = s.batch * s.dh * s.dw * tiles_high * tiles_wide;
    threads = s.macs() < 2 * kMacsWorthThreads ? 1 : threads_wanted;
    row = round_up(s.ic, kLanes) + 16;
    // A third of the second-level cache for V, at least two register tiles so that the weights are
    // used more than once.
    const int64_t fit = static_cast<int64_t>(cpu_info().l2_bytes) / 3 / (kPoints * row * 4);
    const int64_t wanted = fit / kTileRows * kTileRows;
    block = wanted < 2 * kTileRows ? 2 * kTileRows : wanted;
    cooperative = threads > 1 && tiles < 2 * threads * block;
    if (cooperative && tiles <= 4 * block) block = tiles;
    if (block > tiles) block = tiles;
    blocks = block == 0 ? 0 : ceil_div(tiles, block);
    block = blocks == 0 ? 0 : ceil_div(tiles, blocks);
    v_floats = kPoints * block * row;
    m_floats = kPoints * block * kPanel;
    strip_floats = F::kIn * (F::kOut * kStripTiles + 2) * kLanes;
  }
  int64_t worker_floats() const { return m_floats + strip_floats + (cooperative ? 0 : v_floats); }
  size_t workspace_bytes() const {
    return 4 * static_cast<size_t>(threads * worker_floats() + (cooperative ? v_floats : 0));
  }
};

// Tiles in the order (image, tile row, row phase, column phase, tile column).
template <class F>
struct TileCursor {
  const ConvShape& s;
  const Blocking<F>& b;
  int64_t image, tile_row, row_phase, tile_col, col_phase;

  TileCursor(const ConvShape& shape, const Blocking<F>& blocking, int64_t index)
      : s(shape), b(blocking) {
    tile_col = index % b.tiles_wide;
    index /= b.tiles_wide;
    col_phase = index % s.dw;
    index /= s.dw;
    row_phase = index % s.dh;
    index /= s.dh;
    tile_row = index % b.tiles_high;
    image = index / b.tiles_high;
  }
  // How many of the next `most` tiles are neighbours in one row.
  int64_t strip(int64_t most) const { return smaller(most, b.tiles_wide - tile_col); }
  void advance(int64_t count) {
    tile_col += count;
    if (tile_col < b.tiles_wide) return;
    tile_col = 0;
    if (++col_phase < s.dw) return;
    col_phase = 0;
    if (++row_phase < s.dh) return;
    row_phase = 0;
    if (++tile_row < b.tiles_high) return;
    tile_row = 0;
    ++image;
  }
  int64_t row() const {
    return tile_row * F::kOut * s.dh + row_phase;
  }  // of the first output pixel
  int64_t col() const { return tile_col * F::kOut * s.dw + col_phase; }
};

// Output pixels of a tile of kOut that exist.
int64_t pixels_left(int64_t from, int64_t extent, int64_t step, int64_t most) {
  return from >= extent ? 0 : smaller(most, (extent - from + step - 1) / step);
}

// One call of a tactic.
template <class F>
struct Job {
  static constexpr int64_t kPoints = Blocking<F>::kPoints;
  ConvRun run;  // tensors and epilogue
  Blocking<F> b;
  const float* bias;
  const float* u;
  float* workspace;

  Panels panels() const { return Panels(run.shape.oc, run.shape.ic, kVecs); }
  float* worker_memory(int worker) const {
    return workspace + (b.cooperative ? b.v_floats : 0) + worker * b.worker_floats();
  }

  // The rows of the input that a row of tiles reads, at the column of `tile`'s first pixel; null
  // outside the image.
  struct InputRows {
    const float* rows[F::kIn];
    bool all = true;
  };
  InputRows input_rows(const TileCursor<F>& tile) const {
    const ConvShape& s = run.shape;
    InputRows result;
    for (int i = 0; i < F::kIn; ++i) {
      const int64_t h = tile.row() - s.pad_top + i * s.dh;
      const bool inside = h >= 0 && h < s.ih;
      result.rows[i] =
          inside ? reinterpret_cast<const float*>(run.x + tile.image * run.x_image + h * run.x_row +
                                                  (tile.col() - s.pad_left) * run.x_pixel)
                 : nullptr;
      result.all = result.all && inside;
    }
    return result;
  }

  // One vector of channels of the strip's columns [first, end), all inside the image.
  template <bool kMasked>
  void transform_columns(const InputRows& in, int64_t c, int64_t first, int64_t end, M32 mask,
                         float* out, int64_t step) const {
    const int64_t pixel = run.x_pixel / kLaneBytes * run.shape.dw;
    for (int64_t w = first; w < end; ++w) {
      const int64_t offset = w * pixel + c;
      if (in.all)
        transform_column<F>(
            [&](int h) __attribute__((always_inline)) {
              return kMasked ? load(in.rows[h] + offset, mask) : load(in.rows[h] + offset);
            },
            out + w * kLanes, step);
      else
        transform_column<F>(
            [&](int h) __attribute__((always_inline)) {
              return in.rows[h] ? load(in.rows[h] + offset, mask) : zero();
            },
            out + w * kLanes, step);
    }
  }

  // V of `count` neighbouring tiles from `tile` on; the first is tile `k` of the block.
  void transform_strip(const TileCursor<F>& tile, int64_t k, int64_t count, float* v,
                       float* strip) const {
    const ConvShape& s = run.shape;
    const int64_t plane = b.block * b.row, columns = F::kOut * count + 2, step = columns * kLanes;
    const InputRows in = input_rows(tile);
    // Columns [first, end) lie inside the image.
    const int64_t left = s.pad_left - tile.col(), right = s.iw + left;
    const int64_t first = left > 0 ? smaller(ceil_div(left, s.dw), columns) : 0;
    const int64_t last = right <= 0 ? 0 : smaller(ceil_div(right, s.dw), columns);
    const int64_t end = last < first ? first : last;
    for (int64_t h = 0; h < F::kIn; ++h) {
      std::memset(strip + h * step, 0, static_cast<size_t>(first * kLanes) * sizeof(float));
      std::memset(strip + h * step + end * kLanes, 0,
                  static_cast<size_t>((columns - end) * kLanes) * sizeof(float));
    }
    for (int64_t c = 0; c < s.ic; c += kLanes) {
      const M32 mask = first_n(static_cast<int>(s.ic - c));
      if (c + kLanes <= s.ic)
        transform_columns<false>(in, c, first, end, mask, strip, step);
      else
        transform_columns<true>(in, c, first, end, mask, strip, step);
      for (int64_t h = 0; h < F::kIn; ++h)
        for (int64_t n = 0; n < count; ++n)
          transform_row<F>(strip + h * step + n * F::kOut * kLanes,
                           v + h * F::kIn * plane + (k + n) * b.row + c, plane);
    }
  }

  // V of tiles [begin, end) of the block that starts with tile `first`.
  void transform_input(int64_t first, int64_t begin, int64_t end, float* v, float* strip) const {
    TileCursor<F> tile(run.shape, b, first + begin);
    for (int64_t k = begin; k < end;) {
      const int64_t count = tile.strip(smaller(kStripTiles, end - k));
      transform_strip(tile, k, count, v, strip);
      tile.advance(count);
      k += count;
    }
  }

  // M[tile][t][width] of the block's tiles and one panel of weights u[t][c][width].
  void multiply(const float* v, const float* panel, int64_t vecs, int64_t count, float* m) const {
    const int64_t width = vecs * kLanes, c = run.shape.ic;
    const EvenSplit groups = split_evenly(count, kTileRows);
    const Segment segment{0, 0};
    Tile tile{};
    tile.a_stride = b.row * kLaneBytes;
    tile.segments = &segment;
    tile.num_segments = 1;
    tile.segment_length = c;
    tile.b_stride = width * kLaneBytes;
    tile.c_stride = kPoints * width * kLaneBytes;
    tile.cols = width;
    tile.low = -__builtin_inff();
    tile.high = __builtin_inff();
    tile.slope = 1;
    for (int64_t t = 0; t < kPoints; ++t) {
      tile.b = reinterpret_cast<const std::byte*>(panel + t * c * width);
      for (int64_t group = 0; group < groups.parts; ++group) {
        const int64_t first = groups.start(group);
        tile.a = reinterpret_cast<const std::byte*>(v + (t * b.block + first) * b.row);
        tile.c = reinterpret_cast<std::byte*>(m + (first * kPoints + t) * width);
        tile_kernel(static_cast<int>(vecs), static_cast<int>(groups.size(group)))(tile);
      }
    }
  }

  // The pixels of one tile for channels [channel, channel + cols); kPanelVecs: of the panel.
  template <int kPanelVecs>
  void store_tile(const TileCursor<F>& tile, const float* m, int64_t channel, int64_t cols) const {
    constexpr int kWidth = kPanelVecs * kLanes;
    const ConvShape& s = run.shape;
    const Epilogue& epilogue = run.finish.epilogue;
    const TileOutput& o = run.finish.out;
    const TileSource& residual = run.finish.operands[0];
    const bool adds = epilogue.kind == EpilogueKind::kResidualClip,
               leaky = epilogue.kind == EpilogueKind::kLeaky,
               gated = epilogue.kind == EpilogueKind::kGate;
    const int64_t rows = pixels_left(tile.row(), s.oh, s.dh, F::kOut);
    const int64_t pixels = pixels_left(tile.col(), s.ow, s.dw, F::kOut);
    const int64_t y_row = o.row / kLaneBytes * s.dh, y_pixel = o.pixel / kLaneBytes * s.dw;
    const int64_t more_row = residual.row / kLaneBytes * s.dh,
                  more_pixel = residual.pixel / kLaneBytes * s.dw;
    float* y = reinterpret_cast<float*>(o.data + tile.image * o.image + tile.row() * o.row +
                                        tile.col() * o.pixel) +
               channel;
    const float* more = adds ? reinterpret_cast<const float*>(
                                   residual.at(tile.image, tile.row(), tile.col(), channel))
                             : nullptr;
    const F32 low = set1(epilogue.low), high = set1(epilogue.high), slope = set1(epilogue.slope);
    for (int64_t c = 0; c < cols; c += kLanes) {
      F32 out[F::kOut][F::kOut];
      transform_back<F, kWidth>(m + c, out);
      const F32 shift = load(bias + channel + c);
      const M32 mask = first_n(static_cast<int>(cols - c));
#pragma GCC unroll 4
      for (int i = 0; i < F::kOut; ++i)
#pragma GCC unroll 4
        for (int j = 0; j < F::kOut; ++j) {
          F32 value = out[i][j] + shift;
          if (leaky) value = max(slope * value, value);
          if (gated) value = value * gate_of(epilogue.gate, value);
          out[i][j] = value;
        }
      if (rows == F::kOut && pixels == F::kOut && !adds && c + kLanes <= cols) {
#pragma GCC unroll 4
        for (int i = 0; i < F::kOut; ++i)
#pragma GCC unroll 4
          for (int j = 0; j < F::kOut; ++j)
            store(y + i * y_row + j * y_pixel + c, min(high, max(low, out[i][j])));
        continue;
      }
      for (int i = 0; i < rows; ++i)
        for (int j = 0; j < pixels; ++j) {
          F32 value = out[i][j];
          if (adds) value = value + load(more + i * more_row + j * more_pixel + c, mask);
          store(y + i * y_row + j * y_pixel + c, min(high, max(low, value)), mask);
        }
    }
  }

  // The epilogue program on the pixels of `count` neighbouring tiles from `tile` on. Not dilated.
  void run_strip(const TileCursor<F>& tile, int64_t count, int64_t channel, int64_t cols) const {
    const int64_t rows = pixels_left(tile.row(), run.shape.oh, 1, F::kOut);
    const int64_t pixels = pixels_left(tile.col(), run.shape.ow, 1, F::kOut * count);
    for (int64_t i = 0; i < rows; ++i)
      finish_tiles(run.finish, {tile.image, tile.row() + i, tile.col(), pixels}, channel, cols);
  }

  template <int kPanelVecs>
  void transform_output(const float* m, int64_t first, int64_t count, int64_t channel,
                        int64_t cols) const {
    constexpr int64_t kTileFloats = kPoints * kPanelVecs * kLanes;
    TileCursor<F> tile(run.shape, b, first);
    for (int64_t k = 0; k < count;) {
      const TileCursor<F> start = tile;
      const int64_t strip = tile.strip(smaller(kStripTiles, count - k));
      for (int64_t n = 0; n < strip; ++n, ++k, tile.advance(1))
        store_tile<kPanelVecs>(tile, m + k * kTileFloats, channel, cols);
      if (run.finish.epilogue.kind == EpilogueKind::kProgram)
        run_strip(start, strip, channel, cols);
    }
  }

  void run_panel(int64_t panel, const float* v, float* m, int64_t first, int64_t count) const {
    const Panels p = panels();
    const int64_t channel = p.first_col(panel), vecs = p.vecs_of(panel);
    multiply(v, u + kPoints * p.offset(panel), vecs, count, m);
    if (vecs == 1)
      transform_output<1>(m, first, count, channel, p.cols_of(panel));
    else
      transform_output<kVecs>(m, first, count, channel, p.cols_of(panel));
  }

  int64_t tiles_of(int64_t block) const {
    return smaller(b.tiles - block * b.block, b.block);
  }

  // Few tiles: the threads transform a block together, then each takes a share of the output
  // channels.
  void run_cooperative(ThreadPool& pool) const {
    float* v = workspace;
    for (int64_t block = 0; block < b.blocks; ++block) {
      const int64_t first = block * b.block, count = tiles_of(block);
      pool.parallel_ranges(count, [this, first, v](int worker, int64_t begin, int64_t end) {
        transform_input(first, begin, end, v, worker_memory(worker) + b.m_floats);
      });
      pool.parallel_ranges(panels().count(),
                           [this, first, count, v](int worker, int64_t begin, int64_t end) {
                             for (int64_t panel = begin; panel < end; ++panel)
                               run_panel(panel, v, worker_memory(worker), first, count);
                           });
    }
  }

  void run_blocks(int worker, int64_t begin, int64_t end) const {
    float* m = worker_memory(worker);
    float* v = m + b.m_floats + b.strip_floats;
    const int64_t count = panels().count();
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block * b.block, tiles = tiles_of(block);
      transform_input(first, 0, tiles, v, m + b.m_floats);
      for (int64_t panel = 0; panel < count; ++panel) run_panel(panel, v, m, first, tiles);
    }
  }
};

bool shape_of(const Problem& p, ConvShape& shape) {
  return p.inputs[0].extents.size() == 4 &&
         conv_shape(p.layer->as<ir::ConvolutionAttrs>(), p.inputs[0].extents, p.inputs[1].extents,
                    p.outputs[0].extents, shape);
}

std::string refusal(const Problem& p) {
  ConvShape s;
  if (std::string reason = refuse_conv(p, Numeric::kFloat, shape_of(p, s)); !reason.empty())
    return reason;
  if (s.kh != 3 || s.kw != 3) return "the kernel is not 3x3";
  if (s.sh != 1 || s.sw != 1) return "the stride is not 1";
  if (s.groups != 1) return "groups > 1";
  if (s.ic < 8 || s.oc < 8) return "fewer than 8 channels";
  const Epilogue epilogue = classify_epilogue(p.layer->as<ir::ConvolutionAttrs>().epilogue);
  const bool is_dilated = s.dh > 1 || s.dw > 1;
  if (is_dilated &&
      (epilogue.kind == EpilogueKind::kProgram || epilogue.kind == EpilogueKind::kResidualClip))
    return "dilated, and the epilogue is a program";
  return {};
}

template <class F>
double cost_us(const Problem& p) {
  constexpr double kCyclesPerUs = 4000;
  ConvShape s;
  if (!shape_of(p, s)) return 1e12;
  const Blocking<F> b(s, p.threads);
  const double points = static_cast<double>(b.kPoints), tiles = static_cast<double>(b.tiles);
  const double products = points * tile_cost_us(Numeric::kFloat, 1, b.tiles, s.oc, s.ic, kVecs);
  const double in_vecs = static_cast<double>(ceil_div(s.ic, kLanes)),
               out_vecs = static_cast<double>(ceil_div(s.oc, kLanes));
  const double transforms = tiles * points * (in_vecs * 4 + out_vecs * 3) / kCyclesPerUs;
  const double weights_us =
      points * static_cast<double>(s.ic * s.oc) * 4 / 50e3 * static_cast<double>(b.blocks);
  return (products + transforms) / b.threads + 0.3 * weights_us;
}

template <class F>
size_t packed_bytes(const Problem& p) {
  ConvShape s;
  if (!shape_of(p, s)) return 0;
  const Panels panels(s.oc, s.ic, kVecs);
  return 4 * static_cast<size_t>(panels.padded_n() + F::kIn * F::kIn * panels.lanes());
}

// The transformed filter of one pair of channels.
template <class F>
void transform_filter(const float* g, double (&u)[F::kIn][F::kIn]) {
  double half[F::kIn][3], column_out[F::kIn];
  for (int j = 0; j < 3; ++j) {
    const double column[3] = {g[j], g[3 + j], g[6 + j]};
    F::weights(column, column_out);
    for (int i = 0; i < F::kIn; ++i) half[i][j] = column_out[i];
  }
  for (int i = 0; i < F::kIn; ++i) F::weights(half[i], u[i]);
}

// bias[k], then U[panel][t][c][width].
template <class F>
void pack(const Problem& p, std::byte* packed) {
  ConvShape s;
  if (!shape_of(p, s)) return;
  const Panels panels(s.oc, s.ic, kVecs);
  float* bias = reinterpret_cast<float*>(packed);
  std::memset(packed, 0, packed_bytes<F>(p));
  if (has_bias(p))
    std::memcpy(bias, constant_floats(p.inputs[2]), static_cast<size_t>(s.oc) * sizeof(float));
  const float* weights = constant_floats(p.inputs[1]);
  for (int64_t panel = 0; panel < panels.count(); ++panel) {
    const int64_t width = panels.vecs_of(panel) * kLanes;
    float* to = bias + panels.padded_n() + F::kIn * F::kIn * panels.offset(panel);
    for (int64_t col = 0; col < panels.cols_of(panel); ++col)
      for (int64_t c = 0; c < s.ic; ++c) {
        double u[F::kIn][F::kIn];
        transform_filter<F>(weights + ((panels.first_col(panel) + col) * s.ic + c) * 9, u);
        for (int t = 0; t < F::kIn * F::kIn; ++t)
          to[(t * s.ic + c) * width + col] = static_cast<float>(u[t / F::kIn][t % F::kIn]);
      }
  }
}

ConvShape shape_of(const KernelArgs& args) {
  const auto extents = [](const TensorView& view) {
    return std::span<const int64_t>(view.extents, static_cast<size_t>(view.rank));
  };
  ConvShape s;
  conv_shape(args.layer->as<ir::ConvolutionAttrs>(), extents(args.inputs[0]),
             extents(args.inputs[1]), extents(args.outputs[0]), s);
  return s;
}

template <class F>
size_t workspace_bytes(const KernelArgs& args) {
  return Blocking<F>(shape_of(args), threads_of(args)).workspace_bytes();
}

template <class F>
void run(const KernelArgs& args) {
  if (args.outputs[0].elements() == 0) return;
  const ConvShape shape = shape_of(args);
  const float* packed = reinterpret_cast<const float*>(args.packed);
  Job<F> job{{},
             Blocking<F>(shape, threads_of(args)),
             packed,
             nullptr,
             reinterpret_cast<float*>(args.workspace)};
  job.run.shape = shape;
  set_conv_tensors(args, nullptr, job.run);
  job.u = packed + job.panels().padded_n();
  if (job.b.cooperative)
    job.run_cooperative(*args.pool);
  else if (job.b.threads > 1)
    args.pool->parallel_ranges(job.b.blocks, [&job](int worker, int64_t begin, int64_t end) {
      job.run_blocks(worker, begin, end);
    });
  else
    job.run_blocks(0, 0, job.b.blocks);
}

template <class F>
constexpr Tactic row(const char* name) {
  return {.name = name,
          .kind = ir::LayerKind::kConvolution,
          .isa = kIsa,
          .formats = FormatRule::kChannelLast,
          .version = 2,
          .refusal = refusal,
          .cost_us = cost_us<F>,
          .packed_inputs = packed_conv_inputs,
          .packed_bytes = packed_bytes<F>,
          .pack = pack<F>,
          .workspace_bytes = workspace_bytes<F>,
          .run = run<F>};
}

constexpr Tactic kTactics[] = {row<F43>("conv_winograd_f43_nhwc_f32"),
                               row<F23>("conv_winograd_f23_nhwc_f32")};

}  // namespace

std::span<const Tactic> winograd_tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
