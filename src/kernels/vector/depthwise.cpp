// SPDX-License-Identifier: Apache-2.0
// Depthwise convolution on channel-last tensors: vectors of channels, a block of output pixels in
// registers. Packed weights are, per vector of channels, the bias and then the taps in order. The
// last vector overlaps the one before where the channels do not fill it.
#include "kernels/conv_shape.h"
#include "kernels/epilogue.h"
#include "kernels/vector/nest.h"
#include "kernels/vector/program_tile.h"
#include "kernels/vector/tactic_util.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

constexpr size_t kFirstOperand = 3;  // after x, w, bias
constexpr int kMaxOperands = 8;
// Output pixels of a register tile: their accumulators, a row of weights and an input.
constexpr int kPixels = kRegisters == 32 ? 8 : 6;
// Vectors of channels that go along a row together. All of them: the weights push the rows out of
// L1 (480 channels: 12 cycles per output vector for 3x3). One: pixels far apart defeat the
// prefetcher and collide in L1 (256 channels: 17). Six: 6 to 7.
constexpr int64_t kChannelBlock = 6 * kLanes;
constexpr float kZeros[kLanes] = {};

struct Operand {
  const float* data;
  int64_t image, row, pixel, channel;  // strides
  const float* at(int64_t n, int64_t oh, int64_t c) const {
    return data + n * image + oh * row + c * channel;
  }
};

struct Run {
  ConvShape s;
  const float* x;
  int64_t x_image, x_row, x_pixel;
  float* y;
  int64_t y_image, y_row, y_pixel;
  const float* packed;
  Epilogue epilogue;
  const ir::Program* program;
  Operand operands[kMaxOperands];
  int num_operands = 0;

  int64_t block_floats() const {
    return (1 + s.kh * s.kw) * kLanes;
  }  // packed floats per vector of channels
};

// The channels [first, last) of one output row; pointers are to channel 0.
struct Strip {
  const float* x;        // column 0 of the first input row in use
  const float* weights;  // of the first channel: its bias; taps follow
  float* y;
  const float* residual;
  int64_t residual_pixel;
  int64_t kh_first, kh_last;  // taps inside the image
  int64_t first, last;
};

template <bool kMasked>
CAMSHAFT_INLINE F32 read(const float* p, M32 mask) {
  if constexpr (kMasked) return load(p, mask);
  return load(p);
}
template <bool kMasked>
CAMSHAFT_INLINE void write(float* p, F32 v, M32 mask) {
  if constexpr (kMasked)
    store(p, v, mask);
  else
    store(p, v);
}

// Input column `col` of a row, zeros outside the image.
template <bool kChecked>
CAMSHAFT_INLINE const float* column(const Run& run, const float* row, int64_t col) {
  const float* p = row + col * run.x_pixel;
  if constexpr (!kChecked) return p;
  return static_cast<uint64_t>(col) < static_cast<uint64_t>(run.s.iw) ? p : kZeros;
}

// Any window: each tap loads its own input.
struct AnyWindow {
  static constexpr bool kIsAny = true;
  static bool fits(const ConvShape&) { return true; }
  template <int P, bool kChecked, bool kMasked>
  CAMSHAFT_INLINE void add_row(const Run& run, F32 (&sum)[P], const float* row, int64_t iw,
                               const float* w, M32 mask) {
    for (int64_t kw = 0; kw < run.s.kw; ++kw) {
      const F32 weight = load(w + kw * kLanes);
#pragma GCC unroll 8
      for (int p = 0; p < P; ++p)
        sum[p] =
            fma(read<kMasked>(column<kChecked>(run, row, iw + kw * run.s.dw + p * run.s.sw), mask),
                weight, sum[p]);
    }
  }
};

// kWidth taps a row, undilated, a fixed stride: neighbouring pixels share the inputs they have in
// common.
template <int kWidth, int kStride>
struct FixedWindow {
  static constexpr bool kIsAny = false;
  static bool fits(const ConvShape& s) { return s.kw == kWidth && s.sw == kStride && s.dw == 1; }
  template <int P, bool kChecked, bool kMasked>
  CAMSHAFT_INLINE void add_row(const Run& run, F32 (&sum)[P], const float* row, int64_t iw,
                               const float* w, M32 mask) {
    F32 weight[kWidth];
#pragma GCC unroll 8
    for (int kw = 0; kw < kWidth; ++kw) weight[kw] = load(w + kw * kLanes);
#pragma GCC unroll 32
    for (int col = 0; col < (P - 1) * kStride + kWidth; ++col) {
      F32 input = read<kMasked>(column<kChecked>(run, row, iw + col), mask);
      keep_in_register(input);  // the compiler would load it again for every tap
#pragma GCC unroll 8
      for (int p = 0; p < P; ++p) {
        const int kw = col - p * kStride;
        if (kw >= 0 && kw < kWidth) sum[p] = fma(input, weight[kw], sum[p]);
      }
    }
  }
};

// What is added to and done with the sums, and their store.
template <int P, bool kMasked>
CAMSHAFT_INLINE void finish(const Run& run, const Strip& strip, F32 (&sum)[P], int64_t ow,
                            int64_t c, M32 mask) {
  float* y = strip.y + ow * run.y_pixel + c;
  if (run.epilogue.kind == EpilogueKind::kResidualClip) {
    const float* residual = strip.residual + ow * strip.residual_pixel + c;
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p)
      sum[p] = sum[p] + read<kMasked>(residual + p * strip.residual_pixel, mask);
  } else if (run.epilogue.kind == EpilogueKind::kLeaky) {
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) sum[p] = max(sum[p] * set1(run.epilogue.slope), sum[p]);
  }
  const F32 low = set1(run.epilogue.low),
            high = set1(run.epilogue.high);  // infinite where there is nothing to clamp
#pragma GCC unroll 8
  for (int p = 0; p < P; ++p)
    write<kMasked>(y + p * run.y_pixel, min(high, max(low, sum[p])), mask);
}

// P neighbouring pixels from column ow on.
template <class Window, int P, bool kChecked, bool kMasked>
void run_tile(const Run& run, const Strip& strip, int64_t ow, M32 mask) {
  const ConvShape& s = run.s;
  const int64_t iw = ow * s.sw - s.pad_left, step = s.dh * run.x_row, w_step = s.kw * kLanes,
                block = run.block_floats();
  const float* weights = strip.weights;
  for (int64_t first = strip.first; first < strip.last; first += kLanes, weights += block) {
    const int64_t c = kMasked || first + kLanes <= s.oc ? first : s.oc - kLanes;
    F32 sum[P];
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) sum[p] = load(weights);
    const float* w = weights + (1 + strip.kh_first * s.kw) * kLanes;
    const float* row = strip.x + c;
    for (int64_t kh = strip.kh_first; kh < strip.kh_last; ++kh, row += step, w += w_step)
      Window::template add_row<P, kChecked, kMasked>(run, sum, row, iw, w, mask);
    finish<P, kMasked>(run, strip, sum, ow, c, mask);
  }
}

template <class Window, bool kChecked, bool kMasked>
void run_tile(const Run& run, const Strip& strip, int64_t ow, int64_t pixels, M32 mask) {
  switch (pixels) {
    case 1:
      return run_tile<Window, 1, kChecked, kMasked>(run, strip, ow, mask);
    case 2:
      return run_tile<Window, 2, kChecked, kMasked>(run, strip, ow, mask);
    case 3:
      return run_tile<Window, 3, kChecked, kMasked>(run, strip, ow, mask);
    case 4:
      return run_tile<Window, 4, kChecked, kMasked>(run, strip, ow, mask);
    case 5:
      return run_tile<Window, 5, kChecked, kMasked>(run, strip, ow, mask);
    case 6:
      return run_tile<Window, 6, kChecked, kMasked>(run, strip, ow, mask);
    case 7:
      return run_tile < Window, kPixels == 8 ? 7 : 1, kChecked, kMasked > (run, strip, ow, mask);
    default:
      return run_tile<Window, kPixels, kChecked, kMasked>(run, strip, ow, mask);
  }
}

// A row in tiles of nearly equal width.
template <class Window, bool kMasked>
void run_strip(const Run& run, const Strip& strip, M32 mask) {
  const ConvShape& s = run.s;
  const int64_t tiles = (s.ow + kPixels - 1) / kPixels, reach = (s.kw - 1) * s.dw + 1;
  for (int64_t tile = 0; tile < tiles; ++tile) {
    const int64_t ow = s.ow * tile / tiles, pixels = s.ow * (tile + 1) / tiles - ow;
    const int64_t first = ow * s.sw - s.pad_left, last = first + (pixels - 1) * s.sw + reach;
    if (first >= 0 && last <= s.iw)
      run_tile<Window, false, kMasked>(run, strip, ow, pixels, mask);
    else
      run_tile<Window, true, kMasked>(run, strip, ow, pixels, mask);
  }
}

int64_t clamp_to(int64_t v, int64_t low, int64_t high) {
  return v < low ? low : v > high ? high : v;
}
// End of the block of channels at `first`. What is left joins the last block when it has no whole
// vector: a vector that overlaps the block before would undo its epilogue.
int64_t next_block(int64_t channels, int64_t first) {
  return channels - first < kChannelBlock + kLanes ? channels : first + kChannelBlock;
}
int64_t ceil_div(int64_t a, int64_t b) {
  return a <= 0 ? 0 : (a + b - 1) / b;
}

void run_epilogue(const Run& run, const Strip& strip, int64_t n, int64_t oh) {
  const int64_t c = strip.first;
  TileOperand operands[1 + kMaxOperands] = {{strip.y + c, run.y_pixel, 1}};
  for (int k = 0; k < run.num_operands; ++k)
    operands[k + 1] = {run.operands[k].at(n, oh, c), run.operands[k].pixel,
                       run.operands[k].channel};
  run_program(*run.program, operands, strip.y + c, run.y_pixel, run.s.ow, strip.last - c);
}

template <class Window>
void run_row(const Run& run, int64_t n, int64_t oh) {
  const ConvShape& s = run.s;
  const int64_t top = oh * s.sh - s.pad_top;
  Strip strip{};
  strip.kh_last = clamp_to(ceil_div(s.ih - top, s.dh), 0, s.kh);
  strip.kh_first = clamp_to(ceil_div(-top, s.dh), 0, strip.kh_last);
  strip.x = run.x + n * run.x_image + (top + strip.kh_first * s.dh) * run.x_row;
  strip.y = run.y + n * run.y_image + oh * run.y_row;
  if (run.num_operands > 0) {
    strip.residual = run.operands[0].at(n, oh, 0);
    strip.residual_pixel = run.operands[0].pixel;
  }
  for (strip.first = 0; strip.first < s.oc; strip.first = strip.last) {
    strip.weights = run.packed + strip.first / kLanes * run.block_floats();
    strip.last = next_block(s.oc, strip.first);
    if (s.oc < kLanes)
      run_strip<AnyWindow, true>(run, strip, first_n(static_cast<int>(s.oc)));
    else
      run_strip<Window, false>(run, strip, first_n(kLanes));
    if (run.epilogue.kind == EpilogueKind::kProgram) run_epilogue(run, strip, n, oh);
  }
}

// --- the tactic
// ----------------------------------------------------------------------------------------------------------------

const ir::ConvolutionAttrs& attrs_of(const ir::Layer& layer) {
  return *std::get_if<ir::ConvolutionAttrs>(&layer.attrs);
}

bool shape_of(const Problem& p, ConvShape& s) {
  return conv_shape(attrs_of(*p.layer), p.inputs[0].extents, p.inputs[1].extents,
                    p.outputs[0].extents, s);
}

bool has_bias(const Problem& p) {
  return p.inputs.size() > 2 && p.inputs[2].present;
}

template <class Window>
std::string refusal(const Problem& p) {
  ConvShape s;
  if (p.inputs[0].type != DataType::kFloat || p.outputs[0].type != DataType::kFloat)
    return "not float";
  if (p.inputs[1].type != DataType::kFloat || !p.inputs[1].constant)
    return "weights are not a float constant";
  if (has_bias(p) && (p.inputs[2].type != DataType::kFloat || !p.inputs[2].constant))
    return "the bias is not a float constant";
  if (!shape_of(p, s)) return "not a 1-D or 2-D convolution";
  if (s.groups != s.ic || s.ic == 1) return "not depthwise";
  if (s.oc != s.ic) return "channel multiplier > 1";
  if (!Window::fits(s)) return "another window width, stride or dilation";
  if (!Window::kIsAny && s.oc < kLanes) return "fewer channels than a vector has";
  if (p.inputs.size() > kFirstOperand + kMaxOperands) return "too many epilogue operands";
  if (!program_fits(attrs_of(*p.layer).epilogue)) return "the epilogue is too long";
  return refuse_operands(p, kFirstOperand);
}

// Two vector FMAs and two loads a cycle at 3 GHz; windows that share inputs are bound by the FMAs,
// others by the loads.
template <class Window>
double cost_us(const Problem& p) {
  ConvShape s;
  if (!shape_of(p, s)) return 1e12;
  const double vectors =
      static_cast<double>(s.batch * s.oh * s.ow * ((s.oc + kLanes - 1) / kLanes));
  const double cycles = vectors * static_cast<double>(s.kh * s.kw) * (Window::kIsAny ? 0.9 : 0.7);
  return traffic_us(p) / 4 + cycles / 3000 / p.threads;
}

uint32_t packed_inputs(const Problem& p) {
  return has_bias(p) ? 6u : 2u;
}

size_t packed_bytes(const Problem& p) {
  ConvShape s;
  if (!shape_of(p, s)) return 0;
  return static_cast<size_t>((s.oc + kLanes - 1) / kLanes * (1 + s.kh * s.kw) * kLanes) *
         sizeof(float);
}

// Channel in `lane` of the vector at `first`; -1: none.
int64_t channel_of(const ConvShape& s, int64_t first, int64_t lane) {
  if (s.oc < kLanes) return lane < s.oc ? lane : -1;
  return (first + kLanes <= s.oc ? first : s.oc - kLanes) + lane;
}

void pack(const Problem& p, std::byte* packed) {
  ConvShape s;
  if (!shape_of(p, s)) return;
  const auto floats = [](const ProblemTensor& t) {
    return reinterpret_cast<const float*>(t.constant->view.data());
  };
  const float *w = floats(p.inputs[1]), *bias = has_bias(p) ? floats(p.inputs[2]) : nullptr;
  float* to = reinterpret_cast<float*>(packed);
  const int64_t taps = s.kh * s.kw;
  for (int64_t first = 0; first < s.oc; first += kLanes)
    for (int64_t tap = -1; tap < taps; ++tap)
      for (int64_t lane = 0; lane < kLanes; ++lane) {
        const int64_t c = channel_of(s, first, lane);
        *to++ = c < 0 ? 0 : tap >= 0 ? w[c * taps + tap] : bias != nullptr ? bias[c] : 0;
      }
}

Operand operand_of(const TensorView& view, const TensorView& y) {
  const BroadcastOperand b = broadcast_operand(view, y);
  if (y.rank == 3) return {b.data, b.strides[2], 0, b.strides[0], b.strides[1]};
  return {b.data, b.strides[3], b.strides[1], b.strides[0], b.strides[2]};
}

bool prepare(const KernelArgs& args, Run& run) {
  const TensorView &x = args.inputs[0], &w = args.inputs[1], &y = args.outputs[0];
  const ir::ConvolutionAttrs& attrs = attrs_of(*args.layer);
  const auto extents = [](const TensorView& view) {
    return std::span<const int64_t>(view.extents, static_cast<size_t>(view.rank));
  };
  if (!conv_shape(attrs, extents(x), extents(w), extents(y), run.s)) return false;
  const int last = x.rank - 1;
  run.x = x.as<const float>();
  run.x_image = x.strides[0], run.x_row = x.rank == 4 ? x.strides[2] : 0,
  run.x_pixel = x.strides[last];
  run.y = y.as<float>();
  run.y_image = y.strides[0], run.y_row = y.rank == 4 ? y.strides[2] : 0,
  run.y_pixel = y.strides[last];
  run.packed = reinterpret_cast<const float*>(args.packed);
  run.program = &attrs.epilogue;
  run.epilogue = classify_epilogue(attrs.epilogue);
  if (run.epilogue.kind == EpilogueKind::kProgram)
    run.epilogue.low = -__builtin_inff(), run.epilogue.high = __builtin_inff();
  for (size_t k = kFirstOperand; k < args.inputs.size(); ++k)
    run.operands[run.num_operands++] = operand_of(args.inputs[k], y);
  if (run.epilogue.kind == EpilogueKind::kResidualClip && run.operands[0].channel != 1)
    run.epilogue = {EpilogueKind::kProgram, -__builtin_inff(), __builtin_inff(), 0};
  return true;
}

template <class Window>
void run(const KernelArgs& args) {
  Run run;
  if (count_of(args.outputs[0]) == 0 || !prepare(args, run)) return;
  const ConvShape& s = run.s;
  const double us = static_cast<double>(count_of(args.outputs[0]) * s.kh * s.kw) / kLanes / 4500;
  split(args.pool, s.batch * s.oh, us, [&run, &s](int, int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) run_row<Window>(run, row / s.oh, row % s.oh);
  });
}

template <class Window>
constexpr Tactic row(const char* name) {
  return {name,
          ir::LayerKind::kConvolution,
          kIsa,
          FormatRule::kChannelLast,
          1,
          refusal<Window>,
          cost_us<Window>,
          packed_inputs,
          packed_bytes,
          pack,
          no_workspace,
          run<Window>};
}

constexpr Tactic kTactics[] = {
    row<FixedWindow<3, 1>>("depthwise_nhwc_f32_w3_s1"),
    row<FixedWindow<3, 2>>("depthwise_nhwc_f32_w3_s2"),
    row<FixedWindow<5, 1>>("depthwise_nhwc_f32_w5_s1"),
    row<FixedWindow<5, 2>>("depthwise_nhwc_f32_w5_s2"),
    row<AnyWindow>("depthwise_nhwc_f32"),
};

}  // namespace

std::span<const Tactic> depthwise_tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
