// SPDX-License-Identifier: Apache-2.0
// Depthwise convolution of bfloat16 tensors, channel last, in float arithmetic: inputs are widened
// as they are read, weights are floats.
#include "kernels/vector/depthwise/depthwise_tactics.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::depthwise_bf16 {
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
  return epilogue.is_program || epilogue.adds() || args.outputs[0].type == DataType::kFloat;
}

template <class Window>
void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  Run<Bf16> run;
  if (!has_output(args, kernel) || !describe(args, run)) return;
  const bool stores_sums = has_rows(args);
  run.epilogue = stores_sums ? kProgramEpilogue : classify_epilogue(*run.program);
  if (stores_sums) set_program_rows(args, run);
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
          .prepare = prepare<Window>,
          .precision = DataType::kBFloat16};
}

constexpr Tactic kTactics[] = {
    row<FixedWindow<3, 1>>("depthwise_nhwc_bf16_w3_s1"),
    row<FixedWindow<3, 2>>("depthwise_nhwc_bf16_w3_s2"),
    row<FixedWindow<5, 1>>("depthwise_nhwc_bf16_w5_s1"),
    row<FixedWindow<5, 2>>("depthwise_nhwc_bf16_w5_s2"),
    row<AnyWindow>("depthwise_nhwc_bf16"),
};

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::depthwise_bf16
