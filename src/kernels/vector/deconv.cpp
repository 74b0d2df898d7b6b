// SPDX-License-Identifier: Apache-2.0
// Transposed convolution, channel last: the output pixels of one phase (row and column modulo the
// stride) are a plain convolution of the input with every stride-th tap of the flipped filter,
// stored stride pixels apart. One conv_gemm per phase.
#include "kernels/vector/conv_gemm.h"
#include "kernels/vector/gemm_cost.h"
#include "kernels/vector/gemm_tiles.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

bool shape_of(const Problem& problem, ConvShape& shape) {
  return deconv_shape(problem.layer->as<ir::ConvolutionAttrs>(), problem.inputs[0].extents,
                      problem.inputs[1].extents, problem.outputs[0].extents, shape);
}

// One phase along one axis.
struct Phase {
  int64_t first_out, outs;  // output positions first_out + k * stride
  int64_t first_tap, taps;  // taps first_tap + j * stride of the filter
  int64_t pad;              // of the plain convolution
};

// Output o gets tap t from input (o + crop - t * dilation) / stride. Dilation is 1 where stride is
// not.
Phase phase_of(int64_t phase, int64_t out, int64_t kernel, int64_t stride, int64_t dilation,
               int64_t crop) {
  Phase p;
  p.first_tap = phase;
  p.taps = phase < kernel ? (kernel - phase + stride - 1) / stride : 0;
  p.first_out = ((phase - crop) % stride + stride) % stride;
  p.outs = p.first_out < out ? (out - p.first_out + stride - 1) / stride : 0;
  const int64_t newest =
      (p.first_out + crop - phase) / stride;  // input of the first output's first tap
  p.pad = (p.taps - 1) * dilation - newest;
  return p;
}

struct PhasePair {
  Phase h, w;
  ConvShape shape;  // of the plain convolution
};

PhasePair phase_pair(const ConvShape& s, int64_t index) {
  PhasePair pair{phase_of(index / s.sw, s.oh, s.kh, s.sh, s.dh, s.pad_top),
                 phase_of(index % s.sw, s.ow, s.kw, s.sw, s.dw, s.pad_left), s};
  ConvShape& c = pair.shape;
  c.oh = pair.h.outs;
  c.ow = pair.w.outs;
  c.kh = pair.h.taps;
  c.kw = pair.w.taps;
  c.sh = c.sw = 1;
  c.pad_top = pair.h.pad;
  c.pad_left = pair.w.pad;
  if (c.kh == 0 || c.kw == 0) c.kh = c.kw = 0;
  return pair;
}

int64_t phases(const ConvShape& s) {
  return s.sh * s.sw;
}

template <int kVecs>
std::string refusal(const Problem& problem) {
  ConvShape s;
  if (std::string reason = refuse_conv(problem, shape_of(problem, s)); !reason.empty())
    return reason;
  if ((s.sh > 1 && s.dh > 1) || (s.sw > 1 && s.dw > 1)) return "dilated and strided";
  if (kVecs > 1 && s.group_oc() <= (kVecs - 1) * kLanes)
    return "fewer output channels than the tile has";
  return {};
}

template <int kVecs>
double cost_us(const Problem& problem) {
  ConvShape s;
  if (!shape_of(problem, s)) return 1e12;
  double us = 0;
  for (int64_t index = 0; index < phases(s); ++index) {
    const ConvShape c = phase_pair(s, index).shape;
    us += static_cast<double>(s.groups) *
          tile_cost_us(c.batch * c.oh, c.ow, c.group_oc(), c.kh * c.kw * c.group_ic(), kVecs);
    us += static_cast<double>(s.batch * s.ih * s.iw * s.ic) / 10e3;
  }
  return 0.2 + us / problem.threads;
}

size_t packed_bytes(const Problem& problem) {
  ConvShape s;
  if (!shape_of(problem, s)) return 0;
  int64_t floats = packed_bias_floats(s);
  for (int64_t index = 0; index < phases(s); ++index)
    floats += packed_filter_floats(phase_pair(s, index).shape);
  return static_cast<size_t>(floats) * sizeof(float);
}

// Weights are [group][c][n][kh][kw]; the plain convolution of a phase runs through its taps
// backwards.
Filter phase_filter(const ConvShape& s, const PhasePair& pair, const float* weights) {
  const int64_t taps = s.kh * s.kw, c_stride = s.group_oc() * taps;
  const int64_t last_h = pair.h.first_tap + (pair.h.taps - 1) * s.sh,
                last_w = pair.w.first_tap + (pair.w.taps - 1) * s.sw;
  return {weights + last_h * s.kw + last_w,
          s.group_ic() * c_stride,
          taps,
          c_stride,
          -s.sh * s.kw,
          -s.sw};
}

template <int kVecs>
void pack(const Problem& problem, std::byte* packed) {
  ConvShape s;
  if (!shape_of(problem, s)) return;
  float* to = reinterpret_cast<float*>(packed);
  pack_bias(s, has_bias(problem) ? constant_floats(problem.inputs[2]) : nullptr, to);
  to += packed_bias_floats(s);
  for (int64_t index = 0; index < phases(s); ++index) {
    const PhasePair pair = phase_pair(s, index);
    if (pair.shape.kh > 0)
      pack_filter(pair.shape, phase_filter(s, pair, constant_floats(problem.inputs[1])), kVecs, 1,
                  to);
    to += packed_filter_floats(pair.shape);
  }
}

template <int kVecs>
bool prepare(const KernelArgs& args, ConvRun& run) {
  const auto extents = [](const TensorView& view) {
    return std::span<const int64_t>(view.extents, static_cast<size_t>(view.rank));
  };
  if (!deconv_shape(args.layer->as<ir::ConvolutionAttrs>(), extents(args.inputs[0]),
                    extents(args.inputs[1]), extents(args.outputs[0]), run.shape))
    return false;
  set_conv_tensors(args, run);
  run.max_vecs = kVecs;
  run.bias = reinterpret_cast<const float*>(args.packed);
  run.weights = run.bias + packed_bias_floats(run.shape);
  return true;
}

void to_phase(TileSource& source, const ConvShape& s, const PhasePair& pair) {
  source.data += pair.h.first_out * source.row + pair.w.first_out * source.pixel;
  source.row *= s.sh;
  source.pixel *= s.sw;
}

// `whole` (the layer) restricted to one phase.
ConvRun phase_run(const ConvRun& whole, const PhasePair& pair) {
  const ConvShape& s = whole.shape;
  ConvRun run = whole;
  run.shape = pair.shape;
  TileOutput& out = run.finish.out;
  out.data += pair.h.first_out * out.row + pair.w.first_out * out.pixel;
  out.row *= s.sh;
  out.pixel *= s.sw;
  for (int k = 0; k < run.finish.num_operands; ++k) to_phase(run.finish.operands[k], s, pair);
  return run;
}

template <int kVecs>
size_t workspace_bytes(const KernelArgs& args) {
  ConvRun whole;
  if (!prepare<kVecs>(args, whole)) return 0;
  size_t most = 0;
  for (int64_t index = 0; index < phases(whole.shape); ++index) {
    ConvRun run = phase_run(whole, phase_pair(whole.shape, index));
    const size_t bytes = plan_conv(run, threads_of(args));
    most = bytes > most ? bytes : most;
  }
  return most;
}

template <int kVecs>
void run_phases(const KernelArgs& args) {
  ConvRun whole;
  if (args.outputs[0].elements() == 0 || !prepare<kVecs>(args, whole)) return;
  for (int64_t index = 0; index < phases(whole.shape); ++index) {
    const PhasePair pair = phase_pair(whole.shape, index);
    ConvRun run = phase_run(whole, pair);
    whole.weights += packed_filter_floats(pair.shape);
    if (pair.shape.oh == 0 || pair.shape.ow == 0) continue;
    plan_conv(run, threads_of(args));
    run_conv(run, args.workspace, args.pool);
  }
}

template <int kVecs>
constexpr Tactic row(const char* name) {
  return {.name = name,
          .kind = ir::LayerKind::kDeconvolution,
          .isa = kIsa,
          .formats = FormatRule::kChannelLast,
          .version = 1,
          .refusal = refusal<kVecs>,
          .cost_us = cost_us<kVecs>,
          .packed_inputs = packed_conv_inputs,
          .packed_bytes = packed_bytes,
          .pack = pack<kVecs>,
          .workspace_bytes = workspace_bytes<kVecs>,
          .run = run_phases<kVecs>};
}

#define CAMSHAFT_DECONV_ROW(vecs, tile) row<vecs>("deconv_gemm_nhwc_f32_" tile),

constexpr Tactic kTactics[] = {CAMSHAFT_GEMM_TILES(CAMSHAFT_DECONV_ROW)};

}  // namespace

std::span<const Tactic> deconv_tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
