// SPDX-License-Identifier: Apache-2.0
// Depthwise convolution of float tensors, channel last.
#include "kernels/vector/depthwise_rows.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

using namespace depthwise;

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
  return shape_of(p, s) ? float_weights_bytes(s) : 0;
}

void pack(const Problem& p, std::byte* packed) {
  ConvShape s;
  if (shape_of(p, s)) pack_float_weights(p, s, packed);
}

template <class Window>
void run(const KernelArgs& args) {
  Run<float, float> run;
  if (count_of(args.outputs[0]) == 0 || !prepare(args, run)) return;
  const Epilogue as_it_is{EpilogueKind::kProgram, -__builtin_inff(), __builtin_inff(), 0};
  run.epilogue = classify_epilogue(*run.program);
  if (run.epilogue.kind == EpilogueKind::kProgram ||
      (run.epilogue.kind == EpilogueKind::kResidualClip && run.operands[0].channel != 1))
    run.epilogue = as_it_is;
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
