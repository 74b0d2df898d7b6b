// SPDX-License-Identifier: Apache-2.0
// Winograd convolution F(m,3), 3x3 stride 1, channel last: 6x6 (m = 4) or 4x4 (m = 2) input patches
// are transformed, multiplied as (m+2)² matrix products and transformed back; 4 or 2.25 times fewer
// multiplications than direct convolution.
//
//   block of tiles:  patches ─▶ V[t][tile][c] ─▶ for each panel of output channels:  V[t]·U[t] ─▶
//   M[tile][t][k] ─▶ m×m pixels
//
// A block's V and M stay in the second-level cache; U (the transformed weights) streams through
// once per block. The epilogue runs on every tile while it is in the first-level cache.
// Interpolation points 0, ±√½, ±√2, ∞ keep the error of F(4,3) near 1e-6 of the largest output;
// matrices as in Lavin & Gray, "Fast Algorithms for Convolutional Neural Networks", with those
// points.
#include <cmath>
#include <cstring>

#include "kernels/conv_shape.h"
#include "kernels/kernel.h"
#include "kernels/simd/simd.h"
#include "kernels/vector/gemm_tile.h"
#include "kernels/vector/program_tile.h"
#include "kernels/vector/tile_finish.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

constexpr int kVecs = 2;
constexpr int kPanel = kVecs * kLanes;
constexpr int kTileRows = kMaxRows[kVecs];

// --- transforms of one row or column
// -------------------------------------------------------------------------------------------

struct F43 {
  static constexpr int kOut = 4, kIn = 6;
  static constexpr float kA2 = 0.5f, kB2 = 2.0f, kA = 0.70710678118654752f,
                         kB = 1.41421356237309505f;

  CAMSHAFT_INLINE void input(const F32* d, F32* v) {
    const F32 a2 = set1(kA2), b2 = set1(kB2), a = set1(kA), b = set1(kB), sum = set1(kA2 + kB2);
    const F32 e = fnma(b2, d[2], d[4]), o = fnma(b2, d[1], d[3]);
    const F32 f = fnma(a2, d[2], d[4]), q = fnma(a2, d[1], d[3]);
    v[0] = fnma(sum, d[2], d[0] + d[4]);
    v[1] = fma(a, o, e);
    v[2] = fnma(a, o, e);
    v[3] = fma(b, q, f);
    v[4] = fnma(b, q, f);
    v[5] = fnma(sum, d[3], d[1] + d[5]);
  }
  CAMSHAFT_INLINE void output(const F32* m, F32* y) {
    const F32 s1 = m[1] + m[2], d1 = m[1] - m[2], s2 = m[3] + m[4], d2 = m[3] - m[4];
    y[0] = m[0] + s1 + s2;
    y[1] = fma(set1(kA), d1, set1(kB) * d2);
    y[2] = fma(set1(kA2), s1, set1(kB2) * s2);
    y[3] = fma(set1(kA * kA2), d1, fma(set1(kB * kB2), d2, m[5]));
  }
  // Row t of G applied to three weights, in double: done once, while building.
  static void weights(const double* g, double* u) {
    const double a = std::sqrt(0.5), b = std::sqrt(2.0), a2 = 0.5, b2 = 2.0;
    const double na = 2 * a2 * (a2 - b2), nb = 2 * b2 * (b2 - a2);
    u[0] = g[0] / (a2 * b2);
    u[1] = (g[0] + a * g[1] + a2 * g[2]) / na;
    u[2] = (g[0] - a * g[1] + a2 * g[2]) / na;
    u[3] = (g[0] + b * g[1] + b2 * g[2]) / nb;
    u[4] = (g[0] - b * g[1] + b2 * g[2]) / nb;
    u[5] = g[2];
  }
};

struct F23 {
  static constexpr int kOut = 2, kIn = 4;
  CAMSHAFT_INLINE void input(const F32* d, F32* v) {
    v[0] = d[0] - d[2];
    v[1] = d[1] + d[2];
    v[2] = d[2] - d[1];
    v[3] = d[1] - d[3];
  }
  CAMSHAFT_INLINE void output(const F32* m, F32* y) {
    y[0] = m[0] + m[1] + m[2];
    y[1] = m[1] - m[2] - m[3];
  }
  static void weights(const double* g, double* u) {
    u[0] = g[0];
    u[1] = (g[0] + g[1] + g[2]) / 2;
    u[2] = (g[0] - g[1] + g[2]) / 2;
    u[3] = g[2];
  }
};

// --- the problem
// ---------------------------------------------------------------------------------------------------------------

int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}
int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}
int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}

template <class F>
struct Blocking {
  static constexpr int kPoints = F::kIn * F::kIn;
  int64_t tiles_high, tiles_wide, tiles;
  int64_t row;    // floats of one V row: the channels, padded so that rows do not share cache sets
  int64_t block;  // tiles of one block
  int64_t blocks;
  bool cooperative;  // few tiles: the threads share one block and divide the output channels
  int64_t v_floats, m_floats;  // of one block; M of one panel

  Blocking(const ConvShape& s, int threads) {
    tiles_high = ceil_div(s.oh, F::kOut);
    tiles_wide = ceil_div(s.ow, F::kOut);
    tiles = s.batch * tiles_high * tiles_wide;
    row = round_up(s.ic, kLanes) + 16;
    // Half of the second-level cache for V, at least two register tiles so that the weights are
    // used more than once.
    const int64_t fit = static_cast<int64_t>(cpu_info().l2_bytes) / 2 / (kPoints * row * 4);
    const int64_t wanted = fit / kTileRows * kTileRows;
    block = wanted < 2 * kTileRows ? 2 * kTileRows : wanted;
    cooperative = threads > 1 && tiles < 2 * threads * block;
    if (cooperative && tiles <= 4 * block) block = tiles;
    if (block > tiles) block = tiles;
    blocks = ceil_div(tiles, block);
    block = ceil_div(tiles, blocks);
    v_floats = kPoints * block * row;
    m_floats = kPoints * block * kPanel;
  }
};

// --- steps
// ---------------------------------------------------------------------------------------------------------------------

// Transforms the patches of `count` tiles from number `first` on into v[t][tile][c].
template <class F>
void transform_input(const ConvShape& s, const Blocking<F>& b, const TensorView& x, int64_t first,
                     int64_t begin, int64_t end, float* v) {
  constexpr int kIn = F::kIn;
  for (int64_t tile = begin; tile < end; ++tile) {
    const int64_t index = first + tile;
    const int64_t n = index / (b.tiles_high * b.tiles_wide);
    const int64_t h0 = index / b.tiles_wide % b.tiles_high * F::kOut - s.pad_top;
    const int64_t w0 = index % b.tiles_wide * F::kOut - s.pad_left;
    const float* image = x.as<float>() + n * x.strides[0];
    const bool inside = h0 >= 0 && w0 >= 0 && h0 + kIn <= s.ih && w0 + kIn <= s.iw;
    float* out = v + tile * b.row;
    const int64_t plane = b.block * b.row;
    for (int64_t c = 0; c < s.ic; c += kLanes) {
      const M32 mask = first_n(static_cast<int>(s.ic - c));
      const bool whole = c + kLanes <= s.ic;
      F32 half[kIn][kIn];
      for (int j = 0; j < kIn; ++j) {
        F32 d[kIn], t[kIn];
        const int64_t w = w0 + j;
        for (int i = 0; i < kIn; ++i) {
          const int64_t h = h0 + i;
          const float* pixel = image + h * x.strides[2] + w * x.strides[3] + c;
          if (inside || (h >= 0 && h < s.ih && w >= 0 && w < s.iw))
            d[i] = whole ? load(pixel) : load(pixel, mask);
          else
            d[i] = zero();
        }
        F::input(d, t);
        for (int i = 0; i < kIn; ++i) half[i][j] = t[i];
      }
      for (int i = 0; i < kIn; ++i) {
        F32 t[kIn];
        F::input(half[i], t);
        for (int j = 0; j < kIn; ++j) store(out + (i * kIn + j) * plane + c, t[j]);
      }
    }
  }
}

// M[tile][t][panel] of the block's tiles and one panel of weights u[t][c][kPanel].
template <class F>
void multiply_block(const ConvShape& s, const Blocking<F>& b, const float* v, const float* u,
                    int64_t count, float* m) {
  constexpr float kInfinity = __builtin_inff();
  const EvenSplit groups = split_evenly(count, kTileRows);
  const Segment start{0, 0};
  const int64_t m_row = b.kPoints * kPanel;
  for (int t = 0; t < b.kPoints; ++t, u += s.ic * kPanel)
    for (int64_t group = 0; group < groups.parts; ++group) {
      const int64_t first = groups.start(group);
      tile_kernel(kVecs,
                  static_cast<int>(groups.size(group)))(Tile{.a = v + (t * b.block + first) * b.row,
                                                             .a_stride = b.row,
                                                             .segments = &start,
                                                             .num_segments = 1,
                                                             .segment_length = s.ic,
                                                             .b = u,
                                                             .b_stride = kPanel,
                                                             .bias = nullptr,
                                                             .c = m + first * m_row + t * kPanel,
                                                             .c_stride = m_row,
                                                             .cols = kPanel,
                                                             .accumulate = false,
                                                             .low = -kInfinity,
                                                             .high = kInfinity,
                                                             .slope = 1,
                                                             .residual = nullptr,
                                                             .residual_stride = 0});
    }
}

// What one panel of output channels needs to end its tiles.
struct PanelEnd {
  const TileFinish& finish;
  const TensorView& y;
  const float* bias;  // of the panel
  int64_t channel, channels;
};

// Transforms one vector of channels of a tile back to `rows` x `columns` pixels; adds bias and
// residual, clamps, stores.
template <class F>
void finish_pixels(const PanelEnd& end, const TilePlace& place, int rows, const float* source,
                   int64_t c, float* out) {
  constexpr int kIn = F::kIn, kOut = F::kOut;
  const Epilogue& epilogue = end.finish.epilogue;
  const bool leaky = epilogue.kind == EpilogueKind::kLeaky,
             adds = epilogue.kind == EpilogueKind::kResidualClip;
  const F32 low = set1(epilogue.low), high = set1(epilogue.high), slope = set1(epilogue.slope);
  F32 half[kOut][kIn];
  for (int j = 0; j < kIn; ++j) {
    F32 d[kIn], t[kOut];
    for (int i = 0; i < kIn; ++i) d[i] = load(source + (i * kIn + j) * kPanel + c);
    F::output(d, t);
    for (int i = 0; i < kOut; ++i) half[i][j] = t[i];
  }
  const F32 bias = load(end.bias + c);
  const M32 mask = first_n(static_cast<int>(end.channels - c));
  for (int i = 0; i < rows; ++i) {
    F32 t[kOut];
    F::output(half[i], t);
    for (int j = 0; j < static_cast<int>(place.pixels); ++j) {
      F32 value = t[j] + bias;
      if (leaky) value = max(slope * value, value);
      if (adds)
        value = value + load(end.finish.operands[0].at(place.image, place.row + i, place.col + j,
                                                       end.channel + c),
                             mask);
      store(out + i * end.y.strides[2] + j * end.y.strides[3] + c, min(high, max(low, value)),
            mask);
    }
  }
}

// Tiles [begin, last) of the block that starts with tile `first`: from M to pixels of the output,
// epilogue included.
template <class F>
void transform_output(const ConvShape& s, const Blocking<F>& b, const PanelEnd& end, const float* m,
                      int64_t first, int64_t begin, int64_t last) {
  const TensorView& y = end.y;
  for (int64_t tile = begin; tile < last; ++tile) {
    const int64_t index = first + tile;
    TilePlace place{index / (b.tiles_high * b.tiles_wide),
                    index / b.tiles_wide % b.tiles_high * F::kOut, index % b.tiles_wide * F::kOut,
                    0};
    const int rows = static_cast<int>(smaller(s.oh - place.row, F::kOut));
    place.pixels = smaller(s.ow - place.col, F::kOut);
    float* out = y.as<float>() + place.image * y.strides[0] + place.row * y.strides[2] +
                 place.col * y.strides[3] + end.channel;
    for (int64_t c = 0; c < end.channels; c += kLanes)
      finish_pixels<F>(end, place, rows, m + tile * b.kPoints * kPanel, c, out);
    if (end.finish.epilogue.kind == EpilogueKind::kProgram)
      for (int i = 0; i < rows; ++i, ++place.row)
        run_tile_program(end.finish, place, out + i * y.strides[2], y.strides[3], end.channel,
                         end.channels);
  }
}

// --- the tactic
// ----------------------------------------------------------------------------------------------------------------

constexpr size_t kFirstOperand = 3;

bool shape_of(const ir::ConvolutionAttrs& attrs, std::span<const int64_t> x,
              std::span<const int64_t> w, std::span<const int64_t> y, ConvShape& shape) {
  return x.size() == 4 && conv_shape(attrs, x, w, y, shape);
}

std::string refusal(const Problem& p) {
  const auto& attrs = p.layer->as<ir::ConvolutionAttrs>();
  const bool has_bias = p.inputs.size() > 2 && p.inputs[2].present;
  ConvShape s;
  if (p.inputs[0].type != DataType::kFloat || p.outputs[0].type != DataType::kFloat)
    return "not float";
  if (!p.inputs[1].constant || p.inputs[1].type != DataType::kFloat)
    return "the weights are not a float constant";
  if (has_bias && (!p.inputs[2].constant || p.inputs[2].type != DataType::kFloat))
    return "the bias is not a float constant";
  if (!shape_of(attrs, p.inputs[0].extents, p.inputs[1].extents, p.outputs[0].extents, s))
    return "not a 2-D convolution";
  if (s.kh != 3 || s.kw != 3) return "the kernel is not 3x3";
  if (s.sh != 1 || s.sw != 1) return "the stride is not 1";
  if (s.dh != 1 || s.dw != 1) return "dilated";
  if (s.groups != 1) return "groups > 1";
  if (s.ic < 8 || s.oc < 8) return "fewer than 8 channels";
  if (p.inputs.size() > kFirstOperand + kMaxOperands) return "too many epilogue operands";
  if (!program_fits(attrs.epilogue)) return "the epilogue is too long";
  return refuse_operands(p, kFirstOperand);
}

template <class F>
double cost_us(const Problem& p) {
  const auto& x = p.inputs[0].extents;
  const auto& y = p.outputs[0].extents;
  constexpr double kPoints = F::kIn * F::kIn;
  const double tiles =
      static_cast<double>(y[0] * ceil_div(y[2], F::kOut) * ceil_div(y[3], F::kOut));
  const double macs = tiles * kPoints * static_cast<double>(x[1] * y[1]);
  const double transforms = tiles * kPoints * static_cast<double>(x[1] + y[1]) * 6;
  const double weights = kPoints * static_cast<double>(x[1] * y[1]) * 4;
  const double rate = kLanes * 2 * 3.0e3;  // MAC per µs: two pipes at 3 GHz
  return (macs / 0.85 + transforms) / rate / p.threads + weights / 50e3;
}

uint32_t packed_inputs(const Problem& p) {
  return p.inputs.size() > 2 && p.inputs[2].present ? 0b110u : 0b010u;
}

int64_t bias_floats(int64_t out_channels) {
  return round_up(out_channels, kPanel < 16 ? 16 : kPanel);
}

template <class F>
size_t packed_bytes(const Problem& p) {
  const int64_t in = p.inputs[1].extents[1], out = p.inputs[1].extents[0];
  return 4 * static_cast<size_t>(bias_floats(out) +
                                 ceil_div(out, kPanel) * F::kIn * F::kIn * in * kPanel);
}

// bias[k], then U[panel][t][c][kPanel].
template <class F>
void pack(const Problem& p, std::byte* packed) {
  constexpr int kIn = F::kIn;
  const int64_t in = p.inputs[1].extents[1], out = p.inputs[1].extents[0];
  std::memset(packed, 0, packed_bytes<F>(p));
  float* bias = reinterpret_cast<float*>(packed);
  if (packed_inputs(p) & 0b100u)
    std::memcpy(bias, p.inputs[2].constant->view.data(), static_cast<size_t>(out) * 4);
  float* u = bias + bias_floats(out);
  const float* weights = reinterpret_cast<const float*>(p.inputs[1].constant->view.data());
  for (int64_t k = 0; k < out; ++k)
    for (int64_t c = 0; c < in; ++c) {
      const float* g = weights + (k * in + c) * 9;
      double half[kIn][3], row[kIn];
      for (int j = 0; j < 3; ++j) {
        const double column[3] = {g[j], g[3 + j], g[6 + j]};
        F::weights(column, row);
        for (int i = 0; i < kIn; ++i) half[i][j] = row[i];
      }
      for (int i = 0; i < kIn; ++i) {
        F::weights(half[i], row);
        for (int j = 0; j < kIn; ++j)
          u[((k / kPanel * kIn * kIn + i * kIn + j) * in + c) * kPanel + k % kPanel] =
              static_cast<float>(row[j]);
      }
    }
}

ConvShape shape_of(const KernelArgs& args) {
  const auto extents = [](const TensorView& view) {
    return std::span<const int64_t>(view.extents, static_cast<size_t>(view.rank));
  };
  ConvShape s;
  shape_of(args.layer->as<ir::ConvolutionAttrs>(), extents(args.inputs[0]), extents(args.inputs[1]),
           extents(args.outputs[0]), s);
  return s;
}

int threads_of(const KernelArgs& args) {
  return args.pool ? args.pool->threads() : 1;
}

template <class F>
size_t workspace_bytes(const KernelArgs& args) {
  const int threads = threads_of(args);
  const Blocking<F> b(shape_of(args), threads);
  return 4 * static_cast<size_t>((b.cooperative ? 1 : threads) * b.v_floats + threads * b.m_floats);
}

// One call of the tactic.
template <class F>
struct Run {
  const KernelArgs& args;
  ConvShape s = shape_of(args);
  Blocking<F> b{s, threads_of(args)};
  TileFinish finish =
      tile_finish(args, args.layer->as<ir::ConvolutionAttrs>().epilogue, kFirstOperand);
  const float* bias = reinterpret_cast<const float*>(args.packed);
  const float* u = bias + bias_floats(s.oc);
  float* workspace = reinterpret_cast<float*>(args.workspace);

  int64_t panels() const { return ceil_div(s.oc, kPanel); }
  int64_t tiles_of(int64_t block) const { return smaller(b.tiles - block * b.block, b.block); }

  void panel(int64_t panel, const float* v, float* m, int64_t first, int64_t count) const {
    const int64_t channel = panel * kPanel;
    multiply_block<F>(s, b, v, u + panel * b.kPoints * s.ic * kPanel, count, m);
    transform_output<F>(
        s, b, {finish, args.outputs[0], bias + channel, channel, smaller(s.oc - channel, kPanel)},
        m, first, 0, count);
  }

  // Few tiles: the threads transform a block together, then each takes a share of the output
  // channels.
  void cooperative() const {
    float* v = workspace;
    for (int64_t block = 0; block < b.blocks; ++block) {
      const int64_t first = block * b.block, count = tiles_of(block);
      args.pool->parallel_ranges(count, [&](int, int64_t begin, int64_t end) {
        transform_input<F>(s, b, args.inputs[0], first, begin, end, v);
      });
      args.pool->parallel_ranges(panels(), [&](int worker, int64_t begin, int64_t end) {
        for (int64_t k = begin; k < end; ++k)
          panel(k, v, workspace + b.v_floats + worker * b.m_floats, first, count);
      });
    }
  }

  void blocks(int worker, int64_t begin, int64_t end) const {
    float* v = workspace + worker * (b.v_floats + b.m_floats);
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block * b.block, count = tiles_of(block);
      transform_input<F>(s, b, args.inputs[0], first, 0, count, v);
      for (int64_t k = 0; k < panels(); ++k) panel(k, v, v + b.v_floats, first, count);
    }
  }
};

template <class F>
void run(const KernelArgs& args) {
  if (args.outputs[0].elements() == 0) return;
  const Run<F> job{args};
  if (job.b.cooperative)
    job.cooperative();
  else if (args.pool)
    args.pool->parallel_ranges(job.b.blocks, [&](int worker, int64_t begin, int64_t end) {
      job.blocks(worker, begin, end);
    });
  else
    job.blocks(0, 0, job.b.blocks);
}

constexpr Tactic kTactics[] = {
    {"conv_winograd_f43_nhwc_f32", ir::LayerKind::kConvolution, kIsa, FormatRule::kChannelLast, 1,
     refusal, cost_us<F43>, packed_inputs, packed_bytes<F43>, pack<F43>, workspace_bytes<F43>,
     run<F43>},
    {"conv_winograd_f23_nhwc_f32", ir::LayerKind::kConvolution, kIsa, FormatRule::kChannelLast, 1,
     refusal, cost_us<F23>, packed_inputs, packed_bytes<F23>, pack<F23>, workspace_bytes<F23>,
     run<F23>},
};

}  // namespace

std::span<const Tactic> winograd_tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
