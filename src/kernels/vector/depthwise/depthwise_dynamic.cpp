// SPDX-License-Identifier: Apache-2.0
// Depthwise convolution of float tensors, channel last, whose weights only running can tell: a
// template correlated with an image channel by channel (Siamese trackers), filters that another
// part of the network predicts. They are packed in the workspace at the beginning of every run.
#include "kernels/vector/convolution/conv_dynamic.h"
#include "kernels/vector/depthwise/depthwise_tactics.h"
#include "kernels/vector/gemm/gemm_pack.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::depthwise_dynamic {
namespace {

using namespace depthwise;

struct Kernel {
  Run<float> run;
  TensorView weights, bias;  // bias: perhaps absent
};

// The head and the taps of the vector of channels at `first`, as pack_float_weights writes them.
void pack_vector(const ConvShape& s, const Filter<float>& filter, const TensorView& bias,
                 int64_t first, float* to) {
  const int64_t cols = smaller(s.oc, kLanes), from = channel_of(s, first, 0);
  std::fill_n(to, kLanes, 0.0f);
  if (bias.present())
    for (int64_t lane = 0; lane < cols; ++lane)
      to[lane] = bias.as<const float>()[(from + lane) * bias.strides[bias.rank - 1]];
  to += kLanes;
  for (int64_t kh = 0; kh < s.kh; ++kh, to += s.kw * kLanes)
    pack_panel(filter.data + from * filter.n + kh * filter.h, filter.w, filter.n, s.kw, cols,
               kLanes, 1, to);
}

void run(Kernel& kernel, const KernelCall& call) {
  Run<float>& run = kernel.run;
  const ConvShape& s = run.s;
  kernel.weights.data = call.inputs[1];
  if (kernel.bias.present()) kernel.bias.data = call.inputs[2];
  auto* packed = reinterpret_cast<float*>(call.workspace);
  const Filter<float> filter = view_filter(s, kernel.weights, false);
  const int64_t floats = run.block_floats(), vectors = ceil_div(s.oc, kLanes);
  split(call.pool, vectors, static_cast<double>(vectors * floats) * kPackUsPerFloat,
        [&](int, int64_t first, int64_t last) {
          for (int64_t v = first; v < last; ++v)
            pack_vector(s, filter, kernel.bias, v * kLanes, packed + v * floats);
        });
  set_addresses(call, run);
  run.packed = packed;
  run_all_rows<AnyWindow>(run, call.pool);
}

std::string refusal(const Problem& p) {
  ConvShape s;
  if (p.inputs[0].type != DataType::kFloat || p.outputs[0].type != DataType::kFloat)
    return "not float";
  const bool has_shape = shape_of(p, s);
  if (std::string reason = refuse_dynamic_conv(p, has_shape); !reason.empty()) return reason;
  if (std::string reason = refuse_depthwise(s); !reason.empty()) return reason;
  return refuse_float_operands(p);
}

double cost_us(const Problem& p) {
  ConvShape s;
  if (!shape_of(p, s)) return 1e12;
  return windows_us(p, 0, 0.9) +
         kPackUsPerFloat * static_cast<double>(s.oc * s.kh * s.kw) / p.threads;
}

void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  Run<float> described;
  if (!has_output(args, kernel) || !describe(args, described)) return;
  described.epilogue = float_epilogue(described);
  Kernel& kept = keep_state<run>(
      kernel,
      Kernel{described, args.inputs[1], args.inputs.size() > 2 ? args.inputs[2] : TensorView()});
  predict_rows(args, kept.run);
  compile_epilogue(kept.run, kernel);
  kernel.workspace_bytes = float_weights_bytes(described.s);
}

constexpr Tactic kTactics[] = {{.name = "depthwise_dynamic_nhwc_f32",
                                .kind = ir::LayerKind::kConvolution,
                                .isa = kIsa,
                                .formats = FormatRule::kChannelLast,
                                .version = 1,
                                .refusal = refusal,
                                .cost_us = cost_us,
                                .packed_inputs = no_packed_inputs,
                                .packed_bytes = no_packed_bytes,
                                .pack = pack_nothing,
                                .prepare = prepare}};

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::depthwise_dynamic
