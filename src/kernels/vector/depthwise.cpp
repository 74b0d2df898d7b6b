// SPDX-License-Identifier: Apache-2.0
// Depthwise convolution of float tensors, channel last.
#include "kernels/vector/depthwise_rows.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
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
void run(const KernelArgs& args) {
  Run<float, float> run;
  if (count_of(args.outputs[0]) == 0 || !prepare(args, run)) return;
  run.epilogue = float_epilogue(run);
  run_rows<Window>(run, args);
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
          float_packed_inputs,
          float_weights_bytes,
          pack_float_weights,
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
