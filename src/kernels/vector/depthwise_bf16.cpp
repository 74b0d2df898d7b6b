// SPDX-License-Identifier: Apache-2.0
// Depthwise convolution of bfloat16 tensors, channel last, in float arithmetic: inputs are widened
// as they are read, weights are floats.
#include "kernels/vector/depthwise_rows.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

using namespace depthwise;

template <class Window>
std::string refusal(const Problem& p) {
  const DataType y = p.outputs[0].type;
  if (p.inputs[0].type != DataType::kBFloat16) return "the input is not bfloat16";
  if (y != DataType::kBFloat16 && y != DataType::kFloat)
    return "neither bfloat16 nor float results";
  return refuse_float_weights<Window>(p, DataType::kBFloat16);
}

template <class Window>
double cost_us(const Problem& p) {
  return windows_us(p, 0, Window::kIsAny ? 1.2 : 0.9);
}

// Floats wait in rows, one per thread, for programs.
bool has_rows(const KernelArgs& args) {
  const Epilogue epilogue = classify_epilogue(attrs_of(*args.layer).epilogue);
  return epilogue.kind == EpilogueKind::kProgram || epilogue.kind == EpilogueKind::kResidualClip ||
         args.outputs[0].type == DataType::kFloat;
}

size_t workspace_bytes(const KernelArgs& args) {
  return has_rows(args) ? program_rows_bytes(args) : 0;
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
          float_packed_inputs,
          float_weights_bytes,
          pack_float_weights,
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
