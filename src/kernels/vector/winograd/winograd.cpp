// SPDX-License-Identifier: Apache-2.0
// Winograd convolution of floats: how its pixels leave M, and its table of tactics.
#include "kernels/simd/bytes.h"
#include "kernels/vector/program/gate.h"
#include "kernels/vector/winograd/winograd_job.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::winograd {
namespace {

using winograd::Blocking, winograd::kVecs, winograd::shape_of;

template <class F>
struct FloatOutput;
template <class F>
using FloatJob = winograd::Job<F, FloatOutput<F>>;

template <class F>
struct FloatOutput {
  using TileCursor = winograd::TileCursor<F>;
  const ConvRun& run;
  const float* bias;

  // Where a tile's pixels are stored, what is added to them, and how many of them there are;
  // distances in floats.
  struct Place {
    float* y;
    const float* more;  // null: nothing
    int64_t y_row, y_pixel, more_row, more_pixel;
    int64_t rows, pixels;

    bool is_full() const { return rows == F::kOut && pixels == F::kOut; }
  };

  Place place_of(const TileCursor& tile, int64_t channel) const {
    const ConvShape& s = run.shape;
    const Epilogue& epilogue = run.finish.epilogue;
    const TileOutput& o = run.finish.out;
    const TileSource& residual = run.finish.operands[epilogue.adds() ? epilogue.residual : 0];
    return {reinterpret_cast<float*>(o.data + tile.image * o.image + tile.row() * o.row +
                                     tile.col() * o.pixel) +
                channel,
            epilogue.adds() ? reinterpret_cast<const float*>(
                                  residual.at(tile.image, tile.row(), tile.col(), channel))
                            : nullptr,
            o.row / kLaneBytes * s.dh,
            o.pixel / kLaneBytes * s.dw,
            residual.row / kLaneBytes * s.dh,
            residual.pixel / kLaneBytes * s.dw,
            winograd::pixels_left(tile.row(), s.oh, s.dh, F::kOut),
            winograd::pixels_left(tile.col(), s.ow, s.dw, F::kOut)};
  }

  // A vector of a tile that is whole, so that its pixels stay in registers.
  CAMSHAFT_INLINE_MEMBER void store_full(F32 (&out)[F::kOut][F::kOut], const Place& place,
                                         int64_t c) const {
    const F32 low = set1(run.finish.epilogue.low), high = set1(run.finish.epilogue.high);
    if (place.more) {
#pragma GCC unroll 4
      for (int i = 0; i < F::kOut; ++i)
#pragma GCC unroll 4
        for (int j = 0; j < F::kOut; ++j)
          out[i][j] = out[i][j] + load(place.more + i * place.more_row + j * place.more_pixel + c);
    }
#pragma GCC unroll 4
    for (int i = 0; i < F::kOut; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < F::kOut; ++j)
        store(place.y + i * place.y_row + j * place.y_pixel + c, min(high, max(low, out[i][j])));
  }

  // The first `lanes` of a vector, of the pixels that exist.
  void store_some(const F32 (&out)[F::kOut][F::kOut], const Place& place, int64_t c,
                  int lanes) const {
    const F32 low = set1(run.finish.epilogue.low), high = set1(run.finish.epilogue.high);
    const M32 mask = first_n(lanes);
    for (int i = 0; i < place.rows; ++i)
      for (int j = 0; j < place.pixels; ++j) {
        F32 value = out[i][j];
        if (place.more)
          value = value + load(place.more + i * place.more_row + j * place.more_pixel + c, mask);
        value = min(high, max(low, value));
        float* to = place.y + i * place.y_row + j * place.y_pixel + c;
        if (lanes >= kLanes)
          store(to, value);
        else
          store_first(to, value, lanes);
      }
  }

  // The pixels of one tile for channels [channel, channel + cols); kPanelVecs: of the panel.
  template <int kPanelVecs>
  void store_tile(const TileCursor& tile, const float* m, int64_t channel, int64_t column,
                  int64_t cols) const {
    constexpr int kWidth = kPanelVecs * kLanes;
    const Epilogue& epilogue = run.finish.epilogue;
    const bool leaky = epilogue.slope != 1, gated = epilogue.is_gated;
    const Place place = place_of(tile, channel);
    const F32 slope = set1(epilogue.slope);
    for (int64_t c = 0; c < cols; c += kLanes) {
      F32 out[F::kOut][F::kOut];
      transform_back<F, kWidth>(m + c, out);
      const F32 shift = load(bias + column + c);
#pragma GCC unroll 4
      for (int i = 0; i < F::kOut; ++i)
#pragma GCC unroll 4
        for (int j = 0; j < F::kOut; ++j) {
          F32 value = out[i][j] + shift;
          if (leaky) value = max(slope * value, value);
          if (gated) value = value * gate_of(epilogue.gate, value);
          out[i][j] = value;
        }
      if (place.is_full() && c + kLanes <= cols)
        store_full(out, place, c);
      else
        store_some(out, place, c, static_cast<int>(cols - c));
    }
  }

  // The epilogue program on the pixels of `count` neighbouring tiles from `tile` on. Not dilated.
  void run_strip(const TileCursor& tile, int64_t count, int64_t channel, int64_t cols) const {
    const int64_t rows = winograd::pixels_left(tile.row(), run.shape.oh, 1, F::kOut);
    const int64_t pixels = winograd::pixels_left(tile.col(), run.shape.ow, 1, F::kOut * count);
    for (int64_t i = 0; i < rows; ++i)
      finish_tiles(run.finish, {tile.image, tile.row() + i, tile.col(), pixels}, channel, cols);
  }

  template <int kPanelVecs>
  void store_strip(const FloatJob<F>& job, const TileCursor& first, const float* m, int64_t count,
                   int64_t panel, std::byte*) const {
    constexpr int64_t kTileFloats = Blocking<F>::kPoints * kPanelVecs * kLanes;
    const Panels panels = job.panels();
    const winograd::GroupPanel of_group(panels, panel);
    const int64_t channel = of_group.channel(panels), column = of_group.column(panels, run.shape),
                  cols = panels.cols_of(of_group.panel);
    TileCursor tile = first;
    for (int64_t n = 0; n < count; ++n, tile.advance(1))
      store_tile<kPanelVecs>(tile, m + n * kTileFloats, channel, column, cols);
    if (run.finish.epilogue.is_program) run_strip(first, count, channel, cols);
  }
};

std::string refusal(const Problem& p) {
  ConvShape s;
  if (std::string reason = winograd::refuse_shape(p, Numeric::kFloat, s); !reason.empty())
    return reason;
  const Epilogue epilogue = classify_epilogue(p.layer->as<ir::ConvolutionAttrs>().epilogue);
  const bool is_dilated = s.dh > 1 || s.dw > 1;
  if (is_dilated && (epilogue.is_program || epilogue.adds()))
    return "dilated, and the epilogue is a program";
  return {};
}

template <class F>
double cost_us(const Problem& p) {
  ConvShape s;
  return shape_of(p, s) ? winograd::predicted_us<F>(s, p.threads, s.group_ic(), 4, 3) : 1e12;
}

Panels panels_of(const ConvShape& s) {
  return Panels(s.group_oc(), s.group_ic(), kVecs);
}

// Of the bias, in front of panels that begin with a line.
int64_t bias_lanes(const ConvShape& s) {
  return round_up(packed_bias_lanes(s), kCacheLine / kLaneBytes);
}

template <class F>
size_t packed_bytes(const Problem& p) {
  ConvShape s;
  if (!shape_of(p, s)) return 0;
  return 4 * static_cast<size_t>(bias_lanes(s) + F::kIn * F::kIn * s.groups * panels_of(s).lanes());
}

// bias[k], then U[panel][t][c][width].
template <class F>
void pack(const Problem& p, std::byte* packed) {
  ConvShape s;
  if (!shape_of(p, s)) return;
  const Panels panels = panels_of(s);
  float* bias = reinterpret_cast<float*>(packed);
  std::memset(packed, 0, packed_bytes<F>(p));
  pack_bias(s, has_bias(p) ? constant_floats(p.inputs[2]) : nullptr, bias);
  float* const filters = bias + bias_lanes(s);
  winograd::transform_filters<F, double>(
      s, panels, constant_floats(p.inputs[1]),
      [&](const winograd::GroupPanel& panel, int64_t c, int t, const double* values) {
        const int64_t row = t * panels.k + c, width = panels.vecs_of(panel.panel) * kLanes;
        float* to = filters + F::kIn * F::kIn * panel.offset(panels) + row * width;
        for (int64_t col = 0; col < panels.cols_of(panel.panel); ++col)
          to[col] = static_cast<float>(values[col]);
      });
}

template <class F>
struct Kernel {
  FloatJob<F> job;
  int64_t weights_at;  // in the packed bytes, after the bias
};

template <class F>
void run(Kernel<F>& kernel, const KernelCall& call) {
  FloatJob<F>& job = kernel.job;
  job.run.x.data = call.input<const std::byte>(0);
  set_addresses(call, kFirstConvOperand, job.run.finish);
  job.u = call.packed + kernel.weights_at;
  job.workspace = call.workspace;
  job.run_all({job.run, reinterpret_cast<const float*>(call.packed)}, call.pool);
}

template <class F>
void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const ConvShape shape = shape_of(args);
  FloatJob<F> job{{}, Blocking<F>(shape, threads_of(args)), {}, nullptr, nullptr};
  job.run.shape = shape;
  set_conv_tensors(args, nullptr, job.run);
  kernel.workspace_bytes = job.b.workspace_bytes();
  const int64_t weights_at = bias_lanes(shape) * kLaneBytes;
  keep_state<run<F>>(kernel, Kernel<F>{job, weights_at});
}

template <class F>
constexpr Tactic row(const char* name) {
  return {.name = name,
          .kind = ir::LayerKind::kConvolution,
          .isa = kIsa,
          .formats = FormatRule::kChannelLast,
          .version = 4,
          .refusal = refusal,
          .cost_us = cost_us<F>,
          .packed_inputs = packed_conv_inputs,
          .packed_bytes = packed_bytes<F>,
          .pack = pack<F>,
          .prepare = prepare<F>};
}

constexpr Tactic kTactics[] = {row<F43>("conv_winograd_f43_nhwc_f32"),
                               row<F23>("conv_winograd_f23_nhwc_f32")};

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::winograd
