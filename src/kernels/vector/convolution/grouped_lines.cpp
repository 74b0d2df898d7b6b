// SPDX-License-Identifier: Apache-2.0
// Convolutions of float tensors, channel last, in groups of so few channels that a vector holds
// whole groups: through padded lines in L1, one for each input of a group.
#include "kernels/vector/depthwise/depthwise_lines.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::grouped_lines {
namespace {

using namespace depthwise;

template <class Window>
std::string refusal(const Problem& p) {
  ConvShape s;
  if (p.inputs[0].type != DataType::kFloat || p.outputs[0].type != DataType::kFloat)
    return "not float";
  if (std::string reason = refuse_float_constants(p); !reason.empty()) return reason;
  if (!shape_of(p, s)) return "not a 1-D or 2-D convolution";
  if (s.group_ic() != Window::kInputs || s.group_oc() != Window::kInputs)
    return "groups of another number of channels";
  if (s.oc % kLanes != 0) return "channels that are no whole vectors";
  if (!Window::fits(s)) return "another window, stride or dilation";
  return refuse_float_operands(p);
}

template <class Window>
size_t weights_bytes(const Problem& p) {
  ConvShape s;
  if (!shape_of(p, s)) return 0;
  return static_cast<size_t>(s.oc / kLanes * line_block<Window>(s)) * sizeof(float);
}

// Per vector of channels: the bias, then for every kernel row and input of a group its taps.
template <class Window>
void pack_weights(const Problem& p, std::byte* packed) {
  ConvShape s;
  if (!shape_of(p, s)) return;
  constexpr int64_t kInputs = Window::kInputs;
  const float *w = constant_floats_of(p.inputs[1]),
              *bias = has_bias(p) ? constant_floats_of(p.inputs[2]) : nullptr;
  float* to = reinterpret_cast<float*>(packed);
  for (int64_t first = 0; first < s.oc; first += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) *to++ = bias != nullptr ? bias[first + lane] : 0;
    for (int64_t line = 0; line < s.kh * kInputs; ++line)
      for (int64_t kw = 0; kw < s.kw; ++kw)
        for (int64_t lane = 0; lane < kLanes; ++lane)
          *to++ =
              w[(((first + lane) * kInputs + line % kInputs) * s.kh + line / kInputs) * s.kw + kw];
  }
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
          .packed_bytes = weights_bytes<Window>,
          .pack = pack_weights<Window>,
          .prepare = prepare_lines<Window>};
}

#define CAMSHAFT_GROUPED_ROWS(inputs, name)                                \
  row<LineWindow<3, 1, inputs>>("grouped_lines_nhwc_f32_w3_s1_" name),     \
      row<LineWindow<3, 2, inputs>>("grouped_lines_nhwc_f32_w3_s2_" name), \
      row<AnyLineWindow<1, inputs>>("grouped_lines_nhwc_f32_s1_" name),    \
      row<AnyLineWindow<2, inputs>>("grouped_lines_nhwc_f32_s2_" name),

constexpr Tactic kTactics[] = {CAMSHAFT_GROUPED_ROWS(2, "by2") CAMSHAFT_GROUPED_ROWS(4, "by4")
                                   CAMSHAFT_LANE_GROUPS(CAMSHAFT_GROUPED_ROWS)};
#undef CAMSHAFT_GROUPED_ROWS

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::grouped_lines
