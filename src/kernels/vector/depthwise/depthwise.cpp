// SPDX-License-Identifier: Apache-2.0
// Depthwise convolution of float tensors, channel last.
#include "kernels/vector/depthwise/depthwise_tactics.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::depthwise {
namespace {

using namespace depthwise;

template <class Window>
std::string refusal(const Problem& p) {
  if (p.inputs[0].type != DataType::kFloat || p.outputs[0].type != DataType::kFloat)
    return "not float";
  return refuse_float_weights<Window>(p);
}

// Windows that share inputs are bound by the FMAs, others by the loads.
template <class Window>
double cost_us(const Problem& p) {
  return windows_us(p, 0, Window::kIsAny ? 0.9 : 0.7);
}

template <class Window>
void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  Run<float> run;
  if (!has_output(args, kernel) || !describe(args, run)) return;
  run.epilogue = float_epilogue(run);
  keep_rows<Window>(args, run, kernel);
}

template <class Window>
constexpr Tactic row(const char* name) {
  return {.name = name,
          .kind = ir::LayerKind::kConvolution,
          .isa = kIsa,
          .formats = FormatRule::kChannelLast,
          .version = 1,
          .refusal = refusal<Window>,
          .cost_us = cost_us<Window>,
          .packed_inputs = float_packed_inputs,
          .packed_bytes = float_weights_bytes,
          .pack = pack_float_weights,
          .prepare = prepare<Window>};
}

constexpr Tactic kTactics[] = {
    row<FixedWindow<3, 1>>("depthwise_nhwc_f32_w3_s1"),
    row<FixedWindow<3, 2>>("depthwise_nhwc_f32_w3_s2"),
    row<FixedWindow<5, 1>>("depthwise_nhwc_f32_w5_s1"),
    row<FixedWindow<5, 2>>("depthwise_nhwc_f32_w5_s2"),
    row<FixedWindow<7, 1>>("depthwise_nhwc_f32_w7_s1"),
    row<FixedWindow<9, 1>>("depthwise_nhwc_f32_w9_s1"),
    row<AnyWindow>("depthwise_nhwc_f32"),
};

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::depthwise
