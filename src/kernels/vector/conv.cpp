// SPDX-License-Identifier: Apache-2.0
// The dense convolution tactics: conv_gemm over channel-last tensors, one row per register tile and
// way of reading the input; conv_fold for few output channels.
#include "kernels/vector/conv_gemm.h"
#include "kernels/vector/gemm_cost.h"
#include "kernels/vector/gemm_fold.h"
#include "kernels/vector/gemm_tiles.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

enum class Reading { kDirect, kCopied, kLinear };

const ir::ConvolutionAttrs& attrs_of(const Problem& problem) {
  return problem.layer->as<ir::ConvolutionAttrs>();
}

bool shape_of(const Problem& problem, ConvShape& shape) {
  return conv_shape(attrs_of(problem), problem.inputs[0].extents, problem.inputs[1].extents,
                    problem.outputs[0].extents, shape);
}

template <int kVecs, Reading kReading, int kFold>
std::string refusal(const Problem& problem) {
  ConvShape shape;
  if (std::string reason = refuse_conv(problem, shape_of(problem, shape)); !reason.empty())
    return reason;
  if (kFold == 1 && kVecs > 1 && shape.group_oc() <= (kVecs - 1) * kLanes)
    return "fewer output channels than the tile has";
  if (kFold > 1 && !folding_helps(shape, kFold)) return "folding K saves no lanes";
  if (kReading == Reading::kCopied && conv_needs_copy(shape))
    return "padding makes it copy its input anyway";
  if (kReading == Reading::kCopied && shape.kh * shape.kw > 1 && shape.sw * shape.ic % 1024 != 0)
    return "pixels do not collide in the cache";
  if (kReading == Reading::kLinear && shape.ic > 16) return "more than 16 channels to interleave";
  return {};
}

template <int kVecs, Reading kReading, int kFold>
double cost_us(const Problem& problem) {
  ConvShape s;
  if (!shape_of(problem, s)) return 1e12;
  const bool merges = s.kh == 1 && s.kw == 1 && s.sh == 1 && s.sw == 1;
  const int64_t rows = merges ? s.batch : s.batch * s.oh, strip = merges ? s.oh * s.ow : s.ow;
  double us = conv_tiles_us(s, rows, strip, kVecs, kFold);
  const double input_bytes = 4.0 * static_cast<double>(s.batch * s.ih * s.iw * s.ic);
  if (kReading != Reading::kDirect || conv_needs_copy(s)) us += input_bytes / 40e3;
  if (kReading == Reading::kLinear) us += input_bytes / 10e3;
  // Twelve rows in one set of L1 is one too many.
  const bool aliases = s.sw * s.ic % 1024 == 0 && kMaxRows[kVecs] > 8 && strip > 8;
  if (aliases && kReading == Reading::kDirect && !conv_needs_copy(s)) us *= 1.3;
  us /= problem.threads;
  const double weight_bytes = 4.0 * static_cast<double>(s.oc * s.kh * s.kw * s.group_ic());
  const double stream_us = weight_bytes / 30e3;
  return us > stream_us ? us : stream_us;
}

template <int kFold>
size_t packed_bytes(const Problem& problem) {
  ConvShape s;
  if (!shape_of(problem, s)) return 0;
  return static_cast<size_t>(packed_bias_floats(s) + packed_filter_floats(s, kFold)) *
         sizeof(float);
}

template <int kVecs, int kFold>
void pack(const Problem& problem, std::byte* packed) {
  ConvShape s;
  if (!shape_of(problem, s)) return;
  float* bias = reinterpret_cast<float*>(packed);
  pack_bias(s, has_bias(problem) ? constant_floats(problem.inputs[2]) : nullptr, bias);
  pack_filter(s, conv_filter(s, constant_floats(problem.inputs[1])), tile_vecs(s, kVecs, kFold),
              kFold, bias + packed_bias_floats(s));
}

template <int kVecs, Reading kReading, int kFold>
bool prepare(const KernelArgs& args, ConvRun& run) {
  const auto extents = [](const TensorView& view) {
    return std::span<const int64_t>(view.extents, static_cast<size_t>(view.rank));
  };
  if (!conv_shape(args.layer->as<ir::ConvolutionAttrs>(), extents(args.inputs[0]),
                  extents(args.inputs[1]), extents(args.outputs[0]), run.shape))
    return false;
  set_conv_tensors(args, run);
  run.max_vecs = tile_vecs(run.shape, kVecs, kFold);
  run.fold = kFold;
  run.copies = kReading != Reading::kDirect;
  run.bias = reinterpret_cast<const float*>(args.packed);
  run.weights = run.bias + packed_bias_floats(run.shape);
  return true;
}

template <int kVecs, Reading kReading, int kFold>
size_t workspace_bytes(const KernelArgs& args) {
  ConvRun run;
  return prepare<kVecs, kReading, kFold>(args, run) ? plan_conv(run, threads_of(args)) : 0;
}

template <int kVecs, Reading kReading, int kFold>
void run(const KernelArgs& args) {
  ConvRun run;
  if (args.outputs[0].elements() == 0 || !prepare<kVecs, kReading, kFold>(args, run)) return;
  plan_conv(run, threads_of(args));
  run_conv(run, args.workspace, args.pool);
}

template <int kVecs, Reading kReading, int kFold = 1>
constexpr Tactic row(const char* name) {
  return {.name = name,
          .kind = ir::LayerKind::kConvolution,
          .isa = kIsa,
          .formats = kReading == Reading::kLinear ? FormatRule::kLinearToChannelLast
                                                  : FormatRule::kChannelLast,
          .version = 1,
          .refusal = refusal<kVecs, kReading, kFold>,
          .cost_us = cost_us<kVecs, kReading, kFold>,
          .packed_inputs = packed_conv_inputs,
          .packed_bytes = packed_bytes<kFold>,
          .pack = pack<kVecs, kFold>,
          .workspace_bytes = workspace_bytes<kVecs, kReading, kFold>,
          .run = run<kVecs, kReading, kFold>};
}

#define CAMSHAFT_CONV_ROWS(vecs, tile)                              \
  row<vecs, Reading::kDirect>("conv_gemm_nhwc_f32_" tile),          \
      row<vecs, Reading::kCopied>("conv_gemm_copy_nhwc_f32_" tile), \
      row<vecs, Reading::kLinear>("conv_gemm_first_f32_" tile),

constexpr Tactic kTactics[] = {
    CAMSHAFT_GEMM_TILES(CAMSHAFT_CONV_ROWS)
        row<kMaxFoldVecs, Reading::kDirect, 2>("conv_fold2_nhwc_f32"),
    row<kMaxFoldVecs, Reading::kDirect, 4>("conv_fold4_nhwc_f32"),
#if !defined(CAMSHAFT_TARGET_scalar)
    row<1, Reading::kDirect, 8>("conv_fold8_nhwc_f32"),
#endif
#if defined(CAMSHAFT_TARGET_avx512)
    row<1, Reading::kDirect, 16>("conv_fold16_nhwc_f32"),
#endif
};

}  // namespace

std::span<const Tactic> conv_tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
