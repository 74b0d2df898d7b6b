// SPDX-License-Identifier: Apache-2.0
// Transposed convolutions whose weights only running can tell: every phase packs its taps in the
// workspace, then runs.
#include "kernels/vector/conv_dynamic.h"
#include "kernels/vector/counts.h"
#include "kernels/vector/deconv_phases.h"
#include "kernels/vector/gemm_tiles.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

bool shape_of(const Problem& problem, ConvShape& shape) {
  return deconv_shape(problem.layer->as<ir::ConvolutionAttrs>(), problem.inputs[0].extents,
                      problem.inputs[1].extents, problem.outputs[0].extents, shape);
}

template <int kVecs>
std::string refusal(const Problem& problem) {
  ConvShape s;
  if (std::string reason = refuse_dynamic_conv(problem, shape_of(problem, s)); !reason.empty())
    return reason;
  if (std::string reason = refuse_phases(s); !reason.empty()) return reason;
  if (kVecs > 1 && s.group_oc() <= (kVecs - 1) * kLanes)
    return "fewer output channels than the tile has";
  return {};
}

template <int kVecs>
double cost_us(const Problem& problem) {
  ConvShape s;
  if (!shape_of(problem, s)) return 1e12;
  const DeconvForm form{s, false};
  double us = pack_dynamic_us(s);
  for (int64_t index = 0; index < form.count(); ++index) {
    const ConvShape c = phase_pair(form, index).shape;
    us += conv_tiles_us(c, Numeric::kFloat, c.batch * c.oh, c.ow, kVecs, 1);
    us += static_cast<double>(s.batch * s.ih * s.iw * s.ic) / 10e3;
  }
  return 0.2 + us / problem.threads;
}

template <int kVecs>
bool prepare(const KernelArgs& args, ConvRun& run) {
  const auto extents = [](const TensorView& view) {
    return std::span<const int64_t>(view.extents, static_cast<size_t>(view.rank));
  };
  if (!deconv_shape(args.layer->as<ir::ConvolutionAttrs>(), extents(args.inputs[0]),
                    extents(args.inputs[1]), extents(args.outputs[0]), run.shape))
    return false;
  set_conv_tensors(args, nullptr, run);
  run.max_vecs = kVecs;
  return true;
}

// Of the phase that takes most.
int64_t phase_filter_bytes(const DeconvForm& form) {
  int64_t most = 0;
  for (int64_t index = 0; index < form.count(); ++index) {
    const int64_t bytes = dynamic_filter_bytes(phase_pair(form, index).shape);
    most = bytes > most ? bytes : most;
  }
  return most;
}

template <int kVecs>
size_t workspace_bytes(const KernelArgs& args) {
  ConvRun run;
  if (!prepare<kVecs>(args, run)) return 0;
  const DeconvForm form{run.shape, false};
  size_t most = 0;
  for (int64_t index = 0; index < form.count(); ++index) {
    ConvRun phase = phase_run(run, phase_pair(form, index));
    const size_t bytes = plan_conv(phase, threads_of(args));
    most = bytes > most ? bytes : most;
  }
  return static_cast<size_t>(dynamic_bias_bytes(run.shape) + phase_filter_bytes(form)) + most;
}

template <int kVecs>
void run_phases(const KernelArgs& args) {
  ConvRun run;
  if (args.outputs[0].elements() == 0 || !prepare<kVecs>(args, run)) return;
  const DeconvForm form{run.shape, false};
  std::byte* const bias = args.workspace;
  std::byte* const weights = bias + dynamic_bias_bytes(run.shape);
  std::byte* const rest = weights + phase_filter_bytes(form);
  pack_dynamic_bias(run.shape, args.inputs.size() > 2 ? args.inputs[2] : TensorView(), bias);
  run.bias = bias;
  run.weights = weights;
  const Filter<float> filter = view_filter(run.shape, args.inputs[1], true);
  for (int64_t index = 0; index < form.count(); ++index) {
    const PhasePair pair = phase_pair(form, index);
    if (pair.shape.oh == 0 || pair.shape.ow == 0) continue;
    if (pair.shape.kh > 0)
      pack_dynamic_filter(pair.shape, phase_filter(run.shape, pair, filter), kVecs, args.pool,
                          weights);
    ConvRun phase = phase_run(run, pair);
    plan_conv(phase, threads_of(args));
    run_conv(phase, rest, args.pool);
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
          .packed_inputs = no_packed_inputs,
          .packed_bytes = no_packed_bytes,
          .pack = pack_nothing,
          .workspace_bytes = workspace_bytes<kVecs>,
          .run = run_phases<kVecs>};
}

#define CAMSHAFT_DECONV_DYNAMIC_ROW(vecs, tile) row<vecs>("deconv_gemm_dynamic_nhwc_f32_" tile),

constexpr Tactic kTactics[] = {CAMSHAFT_GEMM_TILES(CAMSHAFT_DECONV_DYNAMIC_ROW)};

}  // namespace

std::span<const Tactic> deconv_dynamic_tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
