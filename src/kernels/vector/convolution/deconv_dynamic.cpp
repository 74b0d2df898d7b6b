// SPDX-License-Identifier: Apache-2.0
// Transposed convolutions whose weights only running can tell: every phase packs its taps in the
// workspace, then runs.
#include "kernels/simd/tiles.h"
#include "kernels/vector/convolution/conv_dynamic.h"
#include "kernels/vector/convolution/deconv_phases.h"
#include "kernels/vector/counts.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::deconv_dynamic {
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
bool describe(const KernelArgs& args, ConvRun& run) {
  const auto extents = [](const TensorView& view) {
    return std::span<const int64_t>(view.extents, static_cast<size_t>(view.rank));
  };
  if (!deconv_shape(args.layer->as<ir::ConvolutionAttrs>(), extents(args.inputs[0]),
                    extents(args.inputs[1]), extents(args.outputs[0]), run.shape))
    return false;
  set_conv_tensors(args, nullptr, run);
  run.tile.max_vecs = kVecs;
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

// The convolution of a phase, with what is shifted from the tensors of the layer.
struct PhaseKernel {
  ConvRun run;
  PhasePair pair;
  PhaseOffsets offsets;
};

struct Kernel {
  ConvRun layer;
  DynamicWeights weights;
  PhaseKernel* phases;
  int64_t count = 0;
};

template <int kVecs>
void run_phases(Kernel& kernel, const KernelCall& call) {
  DynamicWeights& weights = kernel.weights;
  set_addresses(call, kernel.layer, weights);
  const ConvShape& s = kernel.layer.shape;
  pack_dynamic_bias(s, weights.bias, weights.packed_bias);
  const Filter<float> filter = view_filter(s, weights.filter, true);
  for (int64_t k = 0; k < kernel.count; ++k) {
    const PhasePair& pair = kernel.phases[k].pair;
    ConvRun& run = kernel.phases[k].run;
    if (pair.shape.kh > 0)
      pack_dynamic_filter(pair.shape, phase_filter(s, pair, filter), kVecs, call.pool,
                          weights.packed_filter);
    set_addresses(call, run, weights);
    shift_addresses(kernel.phases[k].offsets, run.finish);
    run_conv(run, weights.rest, call.pool);
  }
}

template <int kVecs>
void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  ConvRun layer;
  if (!has_output(args, kernel) || !describe<kVecs>(args, layer)) return;
  const DeconvForm form{layer.shape, false};
  const DynamicWeights weights(args, layer.shape, phase_filter_bytes(form));
  Kernel& state = keep_state<run_phases<kVecs>>(
      kernel, Kernel{layer, weights, keep_array<PhaseKernel>(kernel, form.count())});
  size_t most = 0;
  for (int64_t index = 0; index < form.count(); ++index) {
    const PhasePair pair = phase_pair(form, index);
    if (pair.shape.oh == 0 || pair.shape.ow == 0) continue;
    const ConvRun run = phase_run(layer, pair);
    PhaseKernel& phase = *new (state.phases + state.count++)
                             PhaseKernel{run, pair, phase_offsets(layer.finish, run.finish)};
    const size_t bytes = plan_conv(phase.run, threads_of(args));
    most = bytes > most ? bytes : most;
    keep_tables(phase.run, kernel);
  }
  kernel.workspace_bytes = weights.bytes() + most;
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
          .prepare = prepare<kVecs>};
}

#define CAMSHAFT_DECONV_DYNAMIC_ROW(vecs, tile) row<vecs>("deconv_gemm_dynamic_nhwc_f32_" tile),

constexpr Tactic kTactics[] = {CAMSHAFT_GEMM_TILES(CAMSHAFT_DECONV_DYNAMIC_ROW)};
#undef CAMSHAFT_DECONV_DYNAMIC_ROW

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::deconv_dynamic
