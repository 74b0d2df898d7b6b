// SPDX-License-Identifier: Apache-2.0
// Depthwise convolution of float tensors, channel last, through padded lines in L1, with and
// without a channel multiplier.
#include "kernels/vector/depthwise/depthwise_lines.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::depthwise_lines {
namespace {

using namespace depthwise;

template <class Window>
std::string refusal(const Problem& p) {
  ConvShape s;
  if (p.inputs[0].type != DataType::kFloat || p.outputs[0].type != DataType::kFloat)
    return "not float";
  if (std::string reason = refuse_float_constants(p); !reason.empty()) return reason;
  if (!shape_of(p, s)) return "not a 1-D or 2-D convolution";
  if (s.group_ic() != 1) return "not depthwise";
  if (!Window::fits(s)) return "another window, stride or dilation";
  if (s.oc < kLanes) return "fewer channels than a vector has";
  return refuse_float_operands(p);
}

template <class Window>
constexpr Tactic row(const char* name) {
  return {.name = name,
          .kind = ir::LayerKind::kConvolution,
          .isa = kIsa,
          .formats = FormatRule::kChannelLast,
          .version = 2,
          .refusal = refusal<Window>,
          .cost_us = line_cost_us<Window>,
          .packed_inputs = float_packed_inputs,
          .packed_bytes = float_weights_bytes,
          .pack = pack_float_weights,
          .prepare = prepare_lines<Window>};
}

constexpr Tactic kTactics[] = {
    row<LineWindow<3, 1>>("depthwise_lines_nhwc_f32_w3_s1"),
    row<LineWindow<3, 2>>("depthwise_lines_nhwc_f32_w3_s2"),
    row<LineWindow<5, 1>>("depthwise_lines_nhwc_f32_w5_s1"),
    row<LineWindow<5, 2>>("depthwise_lines_nhwc_f32_w5_s2"),
    row<LineWindow<7, 1>>("depthwise_lines_nhwc_f32_w7_s1"),
    row<AnyLineWindow<1>>("depthwise_lines_nhwc_f32_s1"),
    row<AnyLineWindow<2>>("depthwise_lines_nhwc_f32_s2"),
    row<AnyLineWindow<0>>("depthwise_lines_nhwc_f32"),
};

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::depthwise_lines
