// SPDX-License-Identifier: Apache-2.0
// Winograd convolution of bytes, exact: codes and weights are transformed to int16, products summed
// in int32, and the transform back is exact modulo 2³² (winograd_transform.h). Sums of a strip of
// tiles wait in L1 for what follows the sums of every product of bytes.
#include "kernels/packed/packed_records.h"
#include "kernels/vector/gemm/gemm_int16_tile.h"
#include "kernels/vector/winograd/winograd_job.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::winograd_bytes {
namespace {

using winograd::Blocking, winograd::kPanel, winograd::kStripTiles, winograd::kVecs,
    winograd::shape_of;

template <class F>
struct ByteOutput;
template <class F>
using ByteJob = winograd::Job<F, ByteOutput<F>>;

template <class F>
struct ByteOutput {
  using TileCursor = winograd::TileCursor<F>;
  static constexpr int64_t kPixels = F::kOut * kStripTiles;  // of a strip's row
  static constexpr int64_t kSumBytes = F::kOut * kPixels * kPanel * kLaneBytes;
  const ConvRun& run;
  const int32_t* bias;

  static int64_t strip_bytes(const TileFinish& finish) {
    return kSumBytes + rest_scratch_bytes(finish, kPixels);
  }

  // The sums of one tile: sums[row][pixel][width].
  template <int kPanelVecs>
  static void transform_tile(const int32_t* m, int32_t* sums) {
    constexpr int kWidth = kPanelVecs * kLanes;
    const I32 inverse = iset1(F::kInverse);
    for (int c = 0; c < kWidth; c += kLanes) {
      I32 y[F::kOut][F::kOut];
      transform_back<F, kWidth>(m + c, y);
      const auto put = [&](auto i, auto j) __attribute__((always_inline)) {
        constexpr int kShift = F::kShift[i] + F::kShift[j];
        const I32 whole = F::kInverse == 1 ? y[i][j] : y[i][j] * inverse;
        istore(sums + (i * kPixels + j) * kWidth + c, shift_right_arithmetic<kShift>(whole));
      };
      for_each_pixel(put, std::make_integer_sequence<int, F::kOut * F::kOut>());
    }
  }
  template <class Put, int... kPixel>
  CAMSHAFT_INLINE_MEMBER static void for_each_pixel(const Put& put,
                                                    std::integer_sequence<int, kPixel...>) {
    (put(std::integral_constant<int, kPixel / F::kOut>(),
         std::integral_constant<int, kPixel % F::kOut>()),
     ...);
  }

  // `repeats` tiles of `rows` pixels; moves `tile` behind them.
  static void run_sums(Tile& tile, int vecs, int64_t rows, int64_t repeats) {
    if (repeats == 0) return;
    tile.repeats.count = repeats;
    sums_kernel(vecs, static_cast<int>(rows))(tile);
    const int64_t pixels = rows * repeats;
    tile.a.first += pixels * tile.a.stride;
    tile.c.first += pixels * tile.c.stride;
    if (tile.residual.first) tile.residual.first += pixels * tile.residual.stride;
  }

  // What follows the sums of neighbouring pixels.
  void finish_row(const TilePlace& row, const int32_t* sums, int vecs, int64_t channel,
                  int64_t column, int64_t cols, std::byte* scratch) const {
    const int64_t width = vecs * kLanes;
    Tile tile{};
    set_finish(run.finish, tile);
    tile.a.stride = width * kLaneBytes;
    tile.start.bias = bias + column;
    tile.a.first = reinterpret_cast<const std::byte*>(sums);
    place_byte_tile(run.finish, row, channel, cols, column, channel, scratch, tile);
    const EvenSplit groups = split_evenly(row.pixels, kMaxInt16Rows[vecs]);
    run_sums(tile, vecs, groups.base + 1, groups.extra);
    run_sums(tile, vecs, groups.base, groups.parts - groups.extra);
    finish_byte_tiles(run.finish, row, channel, cols, column, scratch);
    look_up_tiles(run.finish, row, channel, cols);
  }

  template <int kPanelVecs>
  void store_strip(const ByteJob<F>& job, const TileCursor& tile, const int32_t* m, int64_t count,
                   int64_t panel, std::byte* memory) const {
    constexpr int64_t kWidth = kPanelVecs * kLanes;
    const Panels panels = job.panels();
    const winograd::GroupPanel of_group(panels, panel);
    int32_t* sums = reinterpret_cast<int32_t*>(memory + Blocking<F>::half_strip_bytes());
    std::byte* scratch = reinterpret_cast<std::byte*>(sums) + kSumBytes;
    for (int64_t n = 0; n < count; ++n)
      transform_tile<kPanelVecs>(m + n * Blocking<F>::kPoints * kWidth,
                                 sums + n * F::kOut * kWidth);
    const int64_t rows = winograd::pixels_left(tile.row(), run.shape.oh, 1, F::kOut);
    const int64_t pixels = winograd::pixels_left(tile.col(), run.shape.ow, 1, F::kOut * count);
    for (int64_t i = 0; i < rows; ++i)
      finish_row({tile.image, tile.row() + i, tile.col(), pixels}, sums + i * kPixels * kWidth,
                 kPanelVecs, of_group.channel(panels), of_group.column(panels, run.shape),
                 panels.cols_of(of_group.panel), scratch);
  }
};

const ir::ConvolutionAttrs& attrs_of(const Problem& p) {
  return p.layer->as<ir::ConvolutionAttrs>();
}

// The largest magnitude a sum can have, from the weights and the codes there can be.
int64_t largest_sum(const Problem& p, const ConvShape& s) {
  const int64_t zero_point = attrs_of(p).zero_point, over = attrs_of(p).x_maximum - zero_point;
  const int64_t above = over > 0 ? over : 0;
  const int8_t* w = constant_values<int8_t>(p.inputs[1]);
  int64_t largest = 0;
  for (int64_t k = 0; k < s.oc; ++k) {
    int64_t positive = 0, negative = 0;
    for (int64_t i = 0; i < s.group_ic() * 9; ++i, ++w)
      (*w > 0 ? positive : negative) += *w > 0 ? *w : -*w;
    const int64_t up = positive * above + negative * zero_point;
    const int64_t down = negative * above + positive * zero_point;
    largest = up > largest ? up : largest;
    largest = down > largest ? down : largest;
  }
  return largest;
}

template <class F>
std::string refusal(const Problem& p) {
  ConvShape s;
  if (std::string reason = winograd::refuse_shape(p, Numeric::kByte, s); !reason.empty())
    return reason;
  if (s.dh > 1 || s.dw > 1) return "dilated";
  if (has_values(p.inputs[1]) && largest_sum(p, s) >= int64_t{1} << (31 - 2 * F::kMostShift))
    return "sums may be too large to divide";
  return {};
}

// Half the steps of K; the transforms of codes and sums take 19 and 13 operations where those of
// floats take 12 and 10.
template <class F>
double cost_us(const Problem& p) {
  ConvShape s;
  return shape_of(p, s) ? winograd::predicted_us<F>(s, p.threads, (s.group_ic() + 1) / 2, 5, 5)
                        : 1e12;
}

Panels filter_panels(const ConvShape& s) {
  return Panels(s.group_oc(), (s.group_ic() + 1) / 2, kVecs);
}

template <class F>
int64_t filter_lanes(const ConvShape& s) {
  return F::kIn * F::kIn * s.groups * filter_panels(s).lanes();
}

template <class F>
size_t packed_bytes(const Problem& p) {
  ConvShape s;
  if (!shape_of(p, s)) return 0;
  return packed_epilogue_bytes(p, attrs_of(p).epilogue, kFirstConvOperand, conv_channels(p, s)) +
         static_cast<size_t>((packed_bias_lanes(s) + filter_lanes<F>(s)) * kLaneBytes);
}

// U[panel][t][c / 2][width][2].
template <class F>
void pack_weights(const ConvShape& s, const int8_t* weights, int16_t* packed) {
  const Panels panels = filter_panels(s);
  std::memset(packed, 0, static_cast<size_t>(filter_lanes<F>(s) * kLaneBytes));
  winograd::transform_filters<F, int>(
      s, panels, weights,
      [&](const winograd::GroupPanel& panel, int64_t c, int t, const int* values) {
        const int64_t row = t * panels.k + c / 2, width = panels.vecs_of(panel.panel) * kLanes;
        int16_t* to = packed + 2 * (F::kIn * F::kIn * panel.offset(panels) + row * width) + c % 2;
        for (int64_t col = 0; col < panels.cols_of(panel.panel); ++col)
          to[2 * col] = static_cast<int16_t>(values[col]);
      });
}

// The epilogue, bias[k], U.
template <class F>
void pack(const Problem& p, std::byte* packed) {
  ConvShape s;
  if (!shape_of(p, s)) return;
  pack_epilogue(p, attrs_of(p).epilogue, kFirstConvOperand, conv_channels(p, s), packed);
  packed += packed_epilogue_bytes(packed);
  const int8_t* weights = constant_values<int8_t>(p.inputs[1]);
  // The zero point is taken from the codes, not put into the bias.
  pack_byte_bias(s, has_bias(p) ? constant_values<int32_t>(p.inputs[2]) : nullptr,
                 conv_filter(s, weights), 0, 0, reinterpret_cast<int32_t*>(packed));
  pack_weights<F>(s, weights,
                  reinterpret_cast<int16_t*>(packed + packed_bias_lanes(s) * kLaneBytes));
}

template <class F>
void run_job(ByteJob<F>& job, const KernelCall& call) {
  job.run.x.data = call.input<const std::byte>(0);
  set_addresses(call, kFirstConvOperand, job.run.finish);
  job.run.finish.packed = call.packed;
  const std::byte* bias = call.packed + job.run.finish.packed_bytes();
  job.u = bias + packed_bias_lanes(job.run.shape) * kLaneBytes;
  job.workspace = call.workspace;
  job.run_all({job.run, reinterpret_cast<const int32_t*>(bias)}, call.pool);
}

template <class F>
void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  ConvRun run;
  run.shape = shape_of(args);
  run.tile.numeric = Numeric::kByte;
  set_conv_tensors(args, args.packed, run);
  const int16_t zero_point =
      static_cast<int16_t>(args.layer->as<ir::ConvolutionAttrs>().zero_point);
  const Blocking<F> blocking(run.shape, threads_of(args), ByteOutput<F>::strip_bytes(run.finish));
  kernel.workspace_bytes = blocking.workspace_bytes();
  keep_state<run_job<F>>(kernel, ByteJob<F>{run, blocking, {wset1(zero_point)}, nullptr, nullptr});
}

std::string arithmetic(const Problem&, const std::byte*) {
  return "int16 (transformed)";
}

template <class F>
constexpr Tactic row(const char* name) {
  return {.name = name,
          .kind = ir::LayerKind::kConvolution,
          .isa = kIsa,
          .formats = FormatRule::kChannelLast,
          .version = 3,
          .refusal = refusal<F>,
          .cost_us = cost_us<F>,
          .packed_inputs = packed_byte_conv_inputs,
          .packed_bytes = packed_bytes<F>,
          .pack = pack<F>,
          .prepare = prepare<F>,
          .arithmetic = arithmetic};
}

constexpr Tactic kTactics[] = {row<F43Codes>("conv_winograd_f43_nhwc_u8i8"),
                               row<F23Codes>("conv_winograd_f23_nhwc_u8i8")};

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::winograd_bytes
