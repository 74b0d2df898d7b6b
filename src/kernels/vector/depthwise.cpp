// SPDX-License-Identifier: Apache-2.0
// Depthwise convolution on channel-last tensors: vectors of channels, blocks of output pixels in registers. Packed weights are, per
// vector of channels, the bias and then the taps in order, so one stream feeds the kernel.
#include "kernels/conv_shape.h"
#include "kernels/epilogue.h"
#include "kernels/vector/nest.h"
#include "kernels/vector/program_tile.h"
#include "kernels/vector/tactic_util.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

constexpr size_t kFirstOperand = 3;  // after x, w, bias
constexpr int kMaxOperands = 8;
// Output pixels of a register tile: accumulators, the inputs they share and a row of weights fit the registers.
constexpr int kPixels = kRegisters == 32 ? 6 : 4;

struct Operand {
  const float* data;
  int64_t image, row, pixel, channel;  // strides
  const float* at(int64_t n, int64_t oh, int64_t ow) const { return data + n * image + oh * row + ow * pixel; }
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

  int64_t taps() const { return s.kh * s.kw; }
  int64_t block_floats() const { return (1 + taps()) * kLanes; }  // packed floats per vector of channels
};

// Output pixels in one row whose taps [kh_first, kh_last) x [kw_first, kw_last) are inside the image.
struct Patch {
  const float* x;  // first tap of the first pixel
  float* y;
  const float* residual;
  int64_t residual_pixel;
  int64_t kh_first, kh_last, kw_first, kw_last;
};

struct Clamp {
  F32 low, high;
};

CAMSHAFT_INLINE F32 read(const float* p, M32 mask, bool masked) { return masked ? load(p, mask) : load(p); }
CAMSHAFT_INLINE void write(float* p, F32 v, M32 mask, bool masked) { masked ? store(p, v, mask) : store(p, v); }

template <int P>
CAMSHAFT_INLINE void finish(const Run& run, const Patch& patch, const Clamp& clamp, F32 (&sum)[P], int64_t c, M32 mask, bool masked) {
  float* y = patch.y + c;
  if (run.epilogue.kind == EpilogueKind::kProgram) {
    for (int p = 0; p < P; ++p) write(y + p * run.y_pixel, sum[p], mask, masked);
    return;
  }
  if (run.epilogue.kind == EpilogueKind::kResidualClip)
    for (int p = 0; p < P; ++p) sum[p] = sum[p] + read(patch.residual + p * patch.residual_pixel + c, mask, masked);
  if (run.epilogue.kind == EpilogueKind::kLeaky)
    for (int p = 0; p < P; ++p) sum[p] = max(sum[p] * set1(run.epilogue.slope), sum[p]);
  for (int p = 0; p < P; ++p) write(y + p * run.y_pixel, min(clamp.high, max(clamp.low, sum[p])), mask, masked);
}

// Any window: each tap loads its own input.
struct AnyWindow {
  static constexpr bool kFits(const ConvShape&) { return true; }
  template <int P>
  CAMSHAFT_INLINE void add_taps(const Run& run, const Patch& patch, F32 (&sum)[P], int64_t c, const float* w, M32 mask, bool masked) {
    const int64_t pixel = run.s.sw * run.x_pixel;
    for (int64_t kh = patch.kh_first; kh < patch.kh_last; ++kh) {
      const float* row = patch.x + (kh - patch.kh_first) * run.s.dh * run.x_row + c;
      for (int64_t kw = patch.kw_first; kw < patch.kw_last; ++kw) {
        const F32 weight = load(w + (kh * run.s.kw + kw) * kLanes);
        for (int p = 0; p < P; ++p) sum[p] = fma(read(row + p * pixel, mask, masked), weight, sum[p]);
        row += run.s.dw * run.x_pixel;
      }
    }
  }
};

// kWidth taps a row, undilated, a fixed stride: neighbouring pixels share the inputs they have in common.
template <int kWidth, int kStride>
struct FixedWindow {
  static constexpr bool kFits(const ConvShape& s) { return s.kw == kWidth && s.sw == kStride && s.dw == 1; }
  template <int P>
  CAMSHAFT_INLINE void add_taps(const Run& run, const Patch& patch, F32 (&sum)[P], int64_t c, const float* w, M32 mask, bool masked) {
    if (P == 1) return AnyWindow::add_taps<P>(run, patch, sum, c, w, mask, masked);
    const float* row = patch.x + c;
    w += patch.kh_first * kWidth * kLanes;
    for (int64_t kh = patch.kh_first; kh < patch.kh_last; ++kh) {
      F32 weight[kWidth];
      for (int kw = 0; kw < kWidth; ++kw) weight[kw] = load(w + kw * kLanes);
#pragma GCC unroll 32
      for (int col = 0; col < (P - 1) * kStride + kWidth; ++col) {
        const F32 input = read(row + col * run.x_pixel, mask, masked);
#pragma GCC unroll 8
        for (int p = 0; p < P; ++p) {
          const int kw = col - p * kStride;
          if (kw >= 0 && kw < kWidth) sum[p] = fma(input, weight[kw], sum[p]);
        }
      }
      row += run.s.dh * run.x_row;
      w += kWidth * kLanes;
    }
  }
};

// P neighbouring pixels, all channels.
template <class Window, int P>
void run_tile(const Run& run, const Patch& patch) {
  const Clamp clamp{set1(run.epilogue.low), set1(run.epilogue.high)};
  const int64_t channels = run.s.oc, whole = channels - channels % kLanes, block = run.block_floats();
  const float* w = run.packed;
  const M32 mask = first_n(static_cast<int>(channels - whole));
  for (int64_t c = 0; c < whole; c += kLanes, w += block) {
    F32 sum[P];
    for (int p = 0; p < P; ++p) sum[p] = load(w);
    Window::template add_taps<P>(run, patch, sum, c, w + kLanes, mask, false);
    finish<P>(run, patch, clamp, sum, c, mask, false);
  }
  if (whole == channels) return;
  F32 sum[P];
  for (int p = 0; p < P; ++p) sum[p] = load(w);
  Window::template add_taps<P>(run, patch, sum, whole, w + kLanes, mask, true);
  finish<P>(run, patch, clamp, sum, whole, mask, true);
}

template <class Window>
void run_pixels(const Run& run, const Patch& patch, int64_t pixels) {
  switch (pixels) {
    case 1: return run_tile<Window, 1>(run, patch);
    case 2: return run_tile<Window, 2>(run, patch);
    case 3: return run_tile<Window, 3>(run, patch);
    case 4: return run_tile<Window, 4>(run, patch);
    case 5: return run_tile<Window, kPixels == 6 ? 5 : 1>(run, patch);
    default: return run_tile<Window, kPixels>(run, patch);
  }
}

int64_t clamp_to(int64_t v, int64_t low, int64_t high) { return v < low ? low : v > high ? high : v; }
int64_t ceil_div(int64_t a, int64_t b) { return a <= 0 ? 0 : (a + b - 1) / b; }

struct Row {
  int64_t n, oh;
  int64_t kh_first, kh_last;
};

template <class Window>
void run_columns(const Run& run, const Row& row, int64_t ow, int64_t pixels, int64_t kw_first, int64_t kw_last) {
  const ConvShape& s = run.s;
  const int64_t ih = row.oh * s.sh - s.pad_top + row.kh_first * s.dh, iw = ow * s.sw - s.pad_left + kw_first * s.dw;
  const int64_t offset = row.n * run.y_image + row.oh * run.y_row + ow * run.y_pixel;
  Patch patch{run.x + row.n * run.x_image + ih * run.x_row + iw * run.x_pixel, run.y + offset, nullptr, 0,
              row.kh_first, row.kh_last, kw_first, kw_last};
  if (run.num_operands > 0) {
    patch.residual = run.operands[0].at(row.n, row.oh, ow);
    patch.residual_pixel = run.operands[0].pixel;
  }
  run_pixels<Window>(run, patch, pixels);
  if (run.epilogue.kind != EpilogueKind::kProgram) return;
  TileOperand operands[1 + kMaxOperands] = {{patch.y, run.y_pixel, 1}};
  for (int k = 0; k < run.num_operands; ++k)
    operands[k + 1] = {run.operands[k].at(row.n, row.oh, ow), run.operands[k].pixel, run.operands[k].channel};
  run_program(*run.program, operands, patch.y, run.y_pixel, pixels, s.oc);
}

template <class Window>
void run_row(const Run& run, int64_t n, int64_t oh) {
  const ConvShape& s = run.s;
  const int64_t top = oh * s.sh - s.pad_top;
  Row row{n, oh, ceil_div(-top, s.dh), 0};
  row.kh_last = clamp_to(ceil_div(s.ih - top, s.dh), 0, s.kh);
  if (row.kh_first > row.kh_last) row.kh_first = row.kh_last;
  // Columns [inner, outer) have all their taps inside.
  const int64_t inner = clamp_to(ceil_div(s.pad_left, s.sw), 0, s.ow);
  const int64_t last_left = s.iw - 1 - (s.kw - 1) * s.dw + s.pad_left;
  const int64_t outer = clamp_to(last_left < 0 ? 0 : last_left / s.sw + 1, inner, s.ow);
  for (int64_t ow = 0; ow < s.ow;) {
    if (ow >= inner && ow < outer) {
      const int64_t pixels = outer - ow < kPixels ? outer - ow : kPixels;
      run_columns<Window>(run, row, ow, pixels, 0, s.kw);
      ow += pixels;
      continue;
    }
    const int64_t left = ow * s.sw - s.pad_left;
    const int64_t kw_last = clamp_to(ceil_div(s.iw - left, s.dw), 0, s.kw);
    const int64_t kw_first = clamp_to(ceil_div(-left, s.dw), 0, kw_last);
    run_columns<AnyWindow>(run, row, ow, 1, kw_first, kw_last);
    ++ow;
  }
}

// --- the tactic ----------------------------------------------------------------------------------------------------------------

const ir::ConvolutionAttrs& attrs_of(const ir::Layer& layer) { return *std::get_if<ir::ConvolutionAttrs>(&layer.attrs); }

bool shape_of(const Problem& p, ConvShape& s) {
  return conv_shape(attrs_of(*p.layer), p.inputs[0].extents, p.inputs[1].extents, p.outputs[0].extents, s);
}

bool has_bias(const Problem& p) { return p.inputs.size() > 2 && p.inputs[2].present; }

template <class Window>
std::string refusal(const Problem& p) {
  ConvShape s;
  if (p.inputs[0].type != DataType::kFloat || p.outputs[0].type != DataType::kFloat) return "not float";
  if (p.inputs[1].type != DataType::kFloat || !p.inputs[1].constant) return "weights are not a float constant";
  if (has_bias(p) && (p.inputs[2].type != DataType::kFloat || !p.inputs[2].constant)) return "the bias is not a float constant";
  if (!shape_of(p, s)) return "not a 1-D or 2-D convolution";
  if (s.groups != s.ic || s.ic == 1) return "not depthwise";
  if (s.oc != s.ic) return "channel multiplier > 1";
  if (!Window::kFits(s)) return "another window width, stride or dilation";
  if (p.inputs.size() > kFirstOperand + kMaxOperands) return "too many epilogue operands";
  if (!program_fits(attrs_of(*p.layer).epilogue)) return "the epilogue is too long";
  return refuse_operands(p, kFirstOperand);
}

// Two vector FMAs and two loads a cycle at 3 GHz; windows that share inputs are bound by the FMAs, others by the loads.
template <class Window>
double cost_us(const Problem& p) {
  ConvShape s;
  if (!shape_of(p, s)) return 1e12;
  const double vectors = static_cast<double>(s.batch * s.oh * s.ow * ((s.oc + kLanes - 1) / kLanes));
  const double cycles = vectors * static_cast<double>(s.kh * s.kw) * (std::is_same_v<Window, AnyWindow> ? 0.65 : 0.55);
  return traffic_us(p) / 4 + cycles / 3000 / p.threads;
}

uint32_t packed_inputs(const Problem& p) { return has_bias(p) ? 6u : 2u; }

size_t packed_bytes(const Problem& p) {
  ConvShape s;
  if (!shape_of(p, s)) return 0;
  return static_cast<size_t>((s.oc + kLanes - 1) / kLanes * (1 + s.kh * s.kw) * kLanes) * sizeof(float);
}

void pack(const Problem& p, std::byte* packed) {
  ConvShape s;
  if (!shape_of(p, s)) return;
  const auto floats = [](const ProblemTensor& t) { return reinterpret_cast<const float*>(t.constant->view.data()); };
  const float *w = floats(p.inputs[1]), *bias = has_bias(p) ? floats(p.inputs[2]) : nullptr;
  float* to = reinterpret_cast<float*>(packed);
  const int64_t taps = s.kh * s.kw;
  for (int64_t first = 0; first < s.oc; first += kLanes)
    for (int64_t tap = -1; tap < taps; ++tap)
      for (int64_t c = first; c < first + kLanes; ++c) {
        const float value = tap >= 0 ? w[(c < s.oc ? c : 0) * taps + tap] : bias ? bias[c < s.oc ? c : 0] : 0;
        *to++ = c < s.oc ? value : 0;
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
  const auto extents = [](const TensorView& view) { return std::span<const int64_t>(view.extents, static_cast<size_t>(view.rank)); };
  if (!conv_shape(attrs, extents(x), extents(w), extents(y), run.s)) return false;
  const int last = x.rank - 1;
  run.x = x.as<const float>();
  run.x_image = x.strides[0], run.x_row = x.rank == 4 ? x.strides[2] : 0, run.x_pixel = x.strides[last];
  run.y = y.as<float>();
  run.y_image = y.strides[0], run.y_row = y.rank == 4 ? y.strides[2] : 0, run.y_pixel = y.strides[last];
  run.packed = reinterpret_cast<const float*>(args.packed);
  run.program = &attrs.epilogue;
  run.epilogue = classify_epilogue(attrs.epilogue);
  for (size_t k = kFirstOperand; k < args.inputs.size(); ++k)
    run.operands[run.num_operands++] = operand_of(args.inputs[k], y);
  if (run.epilogue.kind == EpilogueKind::kResidualClip && run.operands[0].channel != 1) run.epilogue.kind = EpilogueKind::kProgram;
  return true;
}

template <class Window>
void run(const KernelArgs& args) {
  Run run;
  if (count_of(args.outputs[0]) == 0 || !prepare(args, run)) return;
  const ConvShape& s = run.s;
  const double us = static_cast<double>(count_of(args.outputs[0]) * run.taps()) / kLanes / 4500;
  split(args.pool, s.batch * s.oh, us, [&run, &s](int, int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) run_row<Window>(run, row / s.oh, row % s.oh);
  });
}

template <class Window>
constexpr Tactic row(const char* name) {
  return {name, ir::LayerKind::kConvolution, kIsa, FormatRule::kChannelLast, 1, refusal<Window>, cost_us<Window>,
          packed_inputs, packed_bytes, pack, no_workspace, run<Window>};
}

constexpr Tactic kTactics[] = {
    row<FixedWindow<3, 1>>("depthwise_nhwc_f32_w3_s1"), row<FixedWindow<3, 2>>("depthwise_nhwc_f32_w3_s2"),
    row<FixedWindow<5, 1>>("depthwise_nhwc_f32_w5_s1"), row<FixedWindow<5, 2>>("depthwise_nhwc_f32_w5_s2"),
    row<AnyWindow>("depthwise_nhwc_f32"),
};

}  // namespace

std::span<const Tactic> depthwise_tactics() { return kTactics; }

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
