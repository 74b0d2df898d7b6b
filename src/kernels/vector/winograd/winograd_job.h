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
// its tiles only have longer strides. Groups share V; each has its own panels, one group's after
// the other's. What floats and bytes share.
#pragma once

#include <cstring>

#include "kernels/vector/convolution/conv_gemm.h"
#include "kernels/vector/counts.h"
#include "kernels/vector/gemm/gemm_cost.h"
#include "kernels/vector/shares.h"
#include "kernels/vector/winograd/winograd_transform.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::winograd {

inline constexpr int kVecs = 2;  // of a panel
inline constexpr int64_t kPanel = kVecs * kLanes;
inline constexpr int64_t kTileRows = kMaxRows[kVecs];
// Finished before their epilogue program runs: 4 rows of 32 pixels fit in L1.
inline constexpr int64_t kStripTiles = 8;

// How the output is cut into tiles and blocks of tiles.
template <class F>
struct Blocking {
  static constexpr int64_t kPoints = F::kIn * F::kIn;
  static constexpr int64_t kElement = sizeof(typename F::Element);
  int64_t tiles_high, tiles_wide, tiles;  // per phase of the dilation; in all
  int64_t row;  // elements of one V row: the channels, padded so that rows do not share cache sets
  int64_t block;  // tiles of one block
  int64_t blocks;
  int threads;
  bool cooperative;  // few tiles: the threads share one block and divide the output channels
  // V of one block, M of one panel, what a strip of tiles needs.
  int64_t v_bytes, m_bytes, strip_bytes;

  Blocking(const ConvShape& s, int threads_wanted, int64_t output_strip_bytes = 0) {
    tiles_high = ceil_div(ceil_div(s.oh, s.dh), F::kOut);
    tiles_wide = ceil_div(ceil_div(s.ow, s.dw), F::kOut);
    tiles = s.batch * s.dh * s.dw * tiles_high * tiles_wide;
    threads = s.macs() < 2 * kMacsWorthThreads ? 1 : threads_wanted;
    row = round_up(s.ic, F::kInLanes) + 64 / kElement;
    // At least two register tiles, so that the weights are used more than once.
    const int64_t fit =
        static_cast<int64_t>(cpu_info().l2_bytes) / F::kOfL2 / (kPoints * row * kElement);
    const int64_t wanted = fit / kTileRows * kTileRows;
    block = wanted < 2 * kTileRows ? 2 * kTileRows : wanted;
    cooperative = threads > 1 && tiles < 2 * threads * block;
    if (cooperative) block = smaller(tiles, larger(4, threads) * block);
    if (block > tiles) block = tiles;
    blocks = block == 0 ? 0 : ceil_div(tiles, block);
    block = blocks == 0 ? 0 : ceil_div(tiles, blocks);
    v_bytes = kPoints * block * row * kElement;
    m_bytes = kPoints * block * kPanel * kLaneBytes;
    strip_bytes = half_strip_bytes() + round_up(output_strip_bytes, 64);
  }
  // The half-transformed columns of a strip.
  static constexpr int64_t half_strip_bytes() {
    return F::kIn * (F::kOut * kStripTiles + 2) * F::kInLanes * kElement;
  }
  int64_t worker_bytes() const { return m_bytes + strip_bytes + (cooperative ? 0 : v_bytes); }
  size_t workspace_bytes() const {
    return static_cast<size_t>(threads * worker_bytes() + (cooperative ? v_bytes : 0));
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
inline int64_t pixels_left(int64_t from, int64_t extent, int64_t step, int64_t most) {
  return from >= extent ? 0 : smaller(most, (extent - from + step - 1) / step);
}

// A panel of a group: `of_all` among those of all groups, one group's after the other's.
struct GroupPanel {
  int64_t group, panel;

  GroupPanel(const Panels& panels, int64_t of_all)
      : group(of_all / panels.count()), panel(of_all % panels.count()) {}
  int64_t channel(const Panels& panels) const { return group * panels.n + panels.first_col(panel); }
  // Of the packed bias.
  int64_t column(const Panels& panels, const ConvShape& s) const {
    return group * group_bias_lanes(s) + panels.first_col(panel);
  }
  // Lanes of packed weights before it, per point.
  int64_t offset(const Panels& panels) const {
    return group * panels.lanes() + panels.offset(panel);
  }
};

// put(panel, c, t, values) for every point t of input channel c: transformed filters of all columns
// of a panel, which lie together where they are packed. (Points lie 32 KB apart or so; filter by
// filter, a value each, took five times as long.)
template <class F, class U, class T, class Put>
void transform_filters(const ConvShape& s, const Panels& panels, const T* weights, const Put& put) {
  constexpr int kPoints = F::kIn * F::kIn;
  const int64_t channels = s.group_ic();
  U points[kPoints][kVecs * kLanes];
  for (int64_t k = 0; k < s.groups * panels.count(); ++k) {
    const GroupPanel panel(panels, k);
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t col = 0; col < panels.cols_of(panel.panel); ++col) {
        U u[F::kIn][F::kIn];
        transform_filter<F>(weights + ((panel.channel(panels) + col) * channels + c) * 9, u);
        for (int t = 0; t < kPoints; ++t) points[t][col] = u[t / F::kIn][t % F::kIn];
      }
      for (int t = 0; t < kPoints; ++t) put(panel, c, t, points[t]);
    }
  }
}

// Microseconds of one thread: products of `steps` steps of K, transforms of `input` and `output`
// operations per vector and point, weights of `element` bytes.
template <class F>
double predicted_us(const ConvShape& s, int threads, int64_t steps, double input, double output) {
  constexpr double kCyclesPerUs = 4000;
  const Blocking<F> b(s, threads);
  const double points = static_cast<double>(b.kPoints), tiles = static_cast<double>(b.tiles);
  const double products = points * static_cast<double>(s.groups) *
                          tile_cost_us(Numeric::kFloat, 1, b.tiles, s.group_oc(), steps, kVecs);
  const double in_vecs = static_cast<double>(ceil_div(s.ic, F::kInLanes)),
               out_vecs = static_cast<double>(ceil_div(s.oc, kLanes));
  const double transforms = tiles * points * (in_vecs * input + out_vecs * output) / kCyclesPerUs;
  const double weights_us = points * static_cast<double>(s.group_ic() * s.oc * b.kElement) / 50e3 *
                            static_cast<double>(b.blocks);
  return (products + transforms) / b.threads + 0.3 * weights_us;
}

// One call of a tactic. Output has void store_strip<vecs>(tile, m, count, panel): the pixels of
// `count` neighbouring tiles from M, of the panel among those of all groups.
template <class F, class Output>
struct Job {
  static constexpr int64_t kPoints = Blocking<F>::kPoints;
  static constexpr int64_t kStepsOfLane = kLaneBytes / Blocking<F>::kElement;
  using Element = typename F::Element;
  using Value = typename F::Value;

  ConvRun run;  // tensors and epilogue
  Blocking<F> b;
  typename F::Reader reader;
  const std::byte* u;
  std::byte* workspace;

  // Of a group.
  int64_t steps() const { return ceil_div(run.shape.group_ic(), kStepsOfLane); }
  Panels panels() const { return Panels(run.shape.group_oc(), steps(), kVecs); }
  int64_t num_panels() const { return run.shape.groups * panels().count(); }
  // Of a worker: M, the strip, V unless it is shared.
  std::byte* worker_memory(int worker) const {
    return workspace + (b.cooperative ? b.v_bytes : 0) + worker * b.worker_bytes();
  }
  Element* shared_v() const { return reinterpret_cast<Element*>(workspace); }

  // The rows of the input that a row of tiles reads, at the column of `tile`'s first pixel; null
  // outside the image.
  struct InputRows {
    const std::byte* rows[F::kIn];
    bool all = true;
  };
  InputRows input_rows(const TileCursor<F>& tile) const {
    const ConvShape& s = run.shape;
    InputRows result;
    for (int i = 0; i < F::kIn; ++i) {
      const int64_t h = tile.row() - s.pad_top + i * s.dh;
      const bool inside = h >= 0 && h < s.ih && s.iw > 0;
      result.rows[i] = inside ? run.x.data + tile.image * run.x.image + h * run.x.row +
                                    (tile.col() - s.pad_left) * run.x.pixel
                              : nullptr;
      result.all = result.all && inside;
    }
    return result;
  }

  // One vector of channels of the strip's columns [first, end), all inside the image.
  template <bool kTail>
  void transform_columns(const InputRows& in, int64_t c, int64_t first, int64_t end, Element* out,
                         int64_t step) const {
    const int64_t pixel = run.x.pixel * run.shape.dw;
    const typename F::Tail tail = F::tail(run.shape.ic - c);
    const typename F::Reader read = reader;
    for (int64_t w = first; w < end; ++w) {
      const int64_t offset = w * pixel + c * F::Reader::kBytes;
      if (in.all)
        transform_column<F>(
            [&](int h) __attribute__((always_inline)) {
              return kTail ? read(in.rows[h] + offset, tail) : read(in.rows[h] + offset);
            },
            out + w * F::kInLanes, step);
      else
        transform_column<F>(
            [&](int h) __attribute__((always_inline)) {
              return !in.rows[h] ? F::padding()
                     : kTail     ? read(in.rows[h] + offset, tail)
                                 : read(in.rows[h] + offset);
            },
            out + w * F::kInLanes, step);
    }
  }

  // V of `count` neighbouring tiles from `tile` on; the first is tile `k` of the block.
  void transform_strip(const TileCursor<F>& tile, int64_t k, int64_t count, Element* v,
                       Element* strip) const {
    const ConvShape& s = run.shape;
    const int64_t plane = b.block * b.row, columns = F::kOut * count + 2,
                  step = columns * F::kInLanes;
    const InputRows in = input_rows(tile);
    // Columns [first, end) lie inside the image.
    const int64_t left = s.pad_left - tile.col(), right = s.iw + left;
    const int64_t first = left > 0 ? smaller(ceil_div(left, s.dw), columns) : 0;
    const int64_t last = right <= 0 ? 0 : smaller(ceil_div(right, s.dw), columns);
    const int64_t end = last < first ? first : last;
    for (int64_t h = 0; h < F::kIn; ++h) {
      std::memset(strip + h * step, 0, static_cast<size_t>(first * F::kInLanes) * sizeof(Element));
      std::memset(strip + h * step + end * F::kInLanes, 0,
                  static_cast<size_t>((columns - end) * F::kInLanes) * sizeof(Element));
    }
    for (int64_t c = 0; c < s.ic; c += F::kInLanes) {
      if (c + F::kInLanes <= s.ic)
        transform_columns<false>(in, c, first, end, strip, step);
      else
        transform_columns<true>(in, c, first, end, strip, step);
      for (int64_t h = 0; h < F::kIn; ++h)
        for (int64_t n = 0; n < count; ++n)
          transform_row<F>(strip + h * step + n * F::kOut * F::kInLanes,
                           v + h * F::kIn * plane + (k + n) * b.row + c, plane);
    }
  }

  // V of tiles [begin, end) of the block that starts with tile `first`.
  void transform_input(int64_t first, int64_t begin, int64_t end, Element* v,
                       std::byte* strip) const {
    TileCursor<F> tile(run.shape, b, first + begin);
    for (int64_t k = begin; k < end;) {
      const int64_t count = tile.strip(smaller(kStripTiles, end - k));
      transform_strip(tile, k, count, v, reinterpret_cast<Element*>(strip));
      tile.advance(count);
      k += count;
    }
  }

  // M[tile][t][width] of the block's tiles and one panel of weights u[t][step][width].
  void multiply(const Element* v, const std::byte* panel, int vecs, int64_t count, Value* m) const {
    const int64_t width = vecs * kLanes;
    const EvenSplit groups = split_evenly(count, kTileRows);
    const Segment segment{0, 0};
    Tile tile{};
    tile.a.stride = b.row * b.kElement;
    tile.k.segments = &segment;
    tile.k.num_segments = 1;
    tile.k.length = steps();
    tile.b.stride = width * kLaneBytes;
    tile.c.stride = kPoints * width * kLaneBytes;
    tile.c.cols = width;
    tile.floats.low = -__builtin_inff();
    tile.floats.high = __builtin_inff();
    tile.floats.slope = 1;
    for (int64_t t = 0; t < kPoints; ++t) {
      tile.b.first = panel + t * steps() * tile.b.stride;
      for (int64_t group = 0; group < groups.parts; ++group) {
        const int64_t first = groups.start(group);
        tile.a.first = reinterpret_cast<const std::byte*>(v + (t * b.block + first) * b.row);
        tile.c.first = reinterpret_cast<std::byte*>(m + (first * kPoints + t) * width);
        F::product_kernel(vecs, static_cast<int>(groups.size(group)))(tile);
      }
    }
  }

  template <int kPanelVecs>
  void transform_output(const Output& output, const Value* m, int64_t first, int64_t count,
                        int64_t panel, std::byte* strip_memory) const {
    constexpr int64_t kTileValues = kPoints * kPanelVecs * kLanes;
    TileCursor<F> tile(run.shape, b, first);
    for (int64_t k = 0; k < count;) {
      const int64_t strip = tile.strip(smaller(kStripTiles, count - k));
      output.template store_strip<kPanelVecs>(*this, tile, m + k * kTileValues, strip, panel,
                                              strip_memory);
      tile.advance(strip);
      k += strip;
    }
  }

  void run_panel(const Output& output, int64_t panel, const Element* v, std::byte* memory,
                 int64_t first, int64_t count) const {
    const Panels p = panels();
    const GroupPanel of_group(p, panel);
    const int vecs = p.vecs_of(of_group.panel);
    Value* m = reinterpret_cast<Value*>(memory);
    std::byte* strip = memory + b.m_bytes;
    multiply(v + of_group.group * run.shape.group_ic(),
             u + kPoints * of_group.offset(p) * kLaneBytes, vecs, count, m);
    if (vecs == 1)
      transform_output<1>(output, m, first, count, panel, strip);
    else
      transform_output<kVecs>(output, m, first, count, panel, strip);
  }

  int64_t tiles_of(int64_t block) const { return smaller(b.tiles - block * b.block, b.block); }

  // Few tiles: the threads transform a block together, then each takes a share of the output
  // channels.
  void run_cooperative(const Output& output, ThreadPool& pool) const {
    for (int64_t block = 0; block < b.blocks; ++block) {
      const int64_t first = block * b.block, count = tiles_of(block);
      pool.parallel_ranges(count, [this, first](int worker, int64_t begin, int64_t end) {
        transform_input(first, begin, end, shared_v(), worker_memory(worker) + b.m_bytes);
      });
      const int64_t group_size = larger(kTileRows / 4, 2);  // tiles that go to one thread
      const Line line = even_line(num_panels(), ceil_div(count, group_size), b.threads);
      pool.parallel_ranges(line.places(), [&, first, count](int worker, int64_t begin,
                                                            int64_t end) {
        line.for_rectangles(
            begin, end, [&](int64_t panel, int64_t end_panel, int64_t group, int64_t end_group) {
              const int64_t from = group * group_size, to = smaller(end_group * group_size, count);
              for (; panel < end_panel; ++panel)
                run_panel(output, panel, shared_v() + from * b.row, worker_memory(worker),
                          first + from, to - from);
            });
      });
    }
  }

  // Tiles [begin, end), block after block.
  void run_tiles(const Output& output, int worker, int64_t begin, int64_t end) const {
    std::byte* memory = worker_memory(worker);
    Element* v = reinterpret_cast<Element*>(memory + b.m_bytes + b.strip_bytes);
    const int64_t count = num_panels();
    const EvenSplit blocks = split_evenly(end - begin, b.block);
    for (int64_t block = 0; block < blocks.parts; ++block) {
      const int64_t first = begin + blocks.start(block), tiles = blocks.size(block);
      transform_input(first, 0, tiles, v, memory + b.m_bytes);
      for (int64_t panel = 0; panel < count; ++panel)
        run_panel(output, panel, v, memory, first, tiles);
    }
  }

  // Threads share out tiles, not register tiles of them: none has more register tiles for it, and
  // 33 of those would give one of eight threads a fifth more than the mean.
  void run_all(const Output& output, ThreadPool* pool) const {
    if (b.cooperative) return run_cooperative(output, *pool);
    if (b.threads == 1) return run_tiles(output, 0, 0, b.tiles);
    pool->parallel_ranges(b.tiles, [this, &output](int worker, int64_t begin, int64_t end) {
      run_tiles(output, worker, begin, end);
    });
  }
};

inline bool shape_of(const Problem& p, ConvShape& shape) {
  return p.inputs[0].extents.size() == 4 &&
         conv_shape(p.layer->as<ir::ConvolutionAttrs>(), p.inputs[0].extents, p.inputs[1].extents,
                    p.outputs[0].extents, shape);
}

inline ConvShape shape_of(const KernelArgs& args) {
  const auto extents = [](const TensorView& view) {
    return std::span<const int64_t>(view.extents, static_cast<size_t>(view.rank));
  };
  ConvShape s;
  conv_shape(args.layer->as<ir::ConvolutionAttrs>(), extents(args.inputs[0]),
             extents(args.inputs[1]), extents(args.outputs[0]), s);
  return s;
}

// Types, window and channels; empty: a layer for this kind of kernel.
inline std::string refuse_shape(const Problem& p, Numeric numeric, ConvShape& s) {
  if (std::string reason = refuse_conv(p, numeric, shape_of(p, s)); !reason.empty()) return reason;
  if (s.kh != 3 || s.kw != 3) return "the kernel is not 3x3";
  if (s.sh != 1 || s.sw != 1) return "the stride is not 1";
  if (s.group_ic() < 8 || s.group_oc() < 8) return "fewer than 8 channels";
  return {};
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::winograd
