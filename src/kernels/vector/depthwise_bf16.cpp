// SPDX-License-Identifier: Apache-2.0
// Depthwise convolution of bfloat16 tensors, channel last, in float arithmetic: inputs are widened
// as they are read, weights are floats.
#include "kernels/vector/depthwise_rows.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

using namespace depthwise;

template <class Window>
std::string refusal(const Problem& p) {
  ConvShape s;
  const DataType y = p.outputs[0].type;
  if (p.inputs[0].type != DataType::kBFloat16) return "the input is not bfloat16";
  if (y != DataType::kBFloat16 && y != DataType::kFloat)
    return "neither bfloat16 nor float results";
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
  return refuse_operands(p, kFirstOperand, DataType::kBFloat16);
}

template <class Window>
double cost_us(const Problem& p) {
  ConvShape s;
  if (!shape_of(p, s)) return 1e12;
  const double vectors =
      static_cast<double>(s.batch * s.oh * s.ow * ((s.oc + kLanes - 1) / kLanes));
  const double cycles = vectors * static_cast<double>(s.kh * s.kw) * (Window::kIsAny ? 1.2 : 0.9);
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

// Floats wait in rows, one per thread, for programs.
bool has_rows(const KernelArgs& args) {
  const Epilogue epilogue = classify_epilogue(attrs_of(*args.layer).epilogue);
  return epilogue.kind == EpilogueKind::kProgram || epilogue.kind == EpilogueKind::kResidualClip ||
         args.outputs[0].type == DataType::kFloat;
}

size_t workspace_bytes(const KernelArgs& args) {
  if (!has_rows(args)) return 0;
  const TensorView& y = args.outputs[0];
  const int threads = args.pool != nullptr ? args.pool->threads() : 1;
  return static_cast<size_t>(threads * y.extents[y.rank - 1] * row_channels(y.extents[1])) *
         sizeof(float);
}

template <class Window>
void run(const KernelArgs& args) {
  if (count_of(args.outputs[0]) == 0) return;
  if (!has_rows(args)) {
    Run<Bf16, Bf16> run;
    if (!prepare(args, run)) return;
    run.epilogue = classify_epilogue(*run.program);
    return run_rows<Window>(run, args);
  }
  Run<Bf16, float> run;
  if (!prepare(args, run)) return;
  run.epilogue = {EpilogueKind::kProgram, -__builtin_inff(), __builtin_inff(), 0};
  set_program_rows(args, run);
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
          workspace_bytes,
          run<Window>,
          nullptr,
          DataType::kBFloat16};
}

constexpr Tactic kTactics[] = {
    row<FixedWindow<3, 1>>("depthwise_nhwc_bf16_w3_s1"),
    row<FixedWindow<3, 2>>("depthwise_nhwc_bf16_w3_s2"),
    row<FixedWindow<5, 1>>("depthwise_nhwc_bf16_w5_s1"),
    row<FixedWindow<5, 2>>("depthwise_nhwc_bf16_w5_s2"),
    row<AnyWindow>("depthwise_nhwc_bf16"),
};

}  // namespace

std::span<const Tactic> depthwise_bf16_tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
