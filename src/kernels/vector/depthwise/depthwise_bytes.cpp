// SPDX-License-Identifier: Apache-2.0
// Quantized depthwise convolution, channel last: uint8 inputs and 8-bit weights summed as floats,
// which is exact below 2^24. Epilogues that are affine per channel (scales, clamps, requantization)
// become a multiplier and an addend in the packed weights, functions of a code a table; others run
// as a program on rows of sums.
#include "kernels/packed/packed_records.h"
#include "kernels/vector/depthwise/depthwise_tactics.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::depthwise_bytes {
namespace {

using namespace depthwise;

template <class Window>
std::string refusal(const Problem& p) {
  if (std::string reason = refuse_quantized(p, Bias::kInAddend); !reason.empty()) return reason;
  ConvShape s;
  shape_of(p, s);
  constexpr double kExactSum = 1 << 24;  // of integers in float
  const double largest_weight = has_symmetric_weights(p) ? 128 : 255;
  if (static_cast<double>(s.kh * s.kw) * 255 * largest_weight > kExactSum / 2)
    return "the window is too large for exact floats";
  return refuse_window<Window>(s);
}

template <class Window>
double cost_us(const Problem& p) {
  return windows_us(p, 2, Window::kIsAny ? 1.5 : 0.8);
}

size_t packed_bytes(const Problem& p) {
  ConvShape s;
  if (!shape_of(p, s)) return 0;
  return folded_bytes() +
         static_cast<size_t>((s.oc + kLanes - 1) / kLanes * (2 + s.kh * s.kw) * kLanes) *
             sizeof(float);
}

void pack(const Problem& p, std::byte* packed) {
  ConvShape s;
  if (!shape_of(p, s)) return;
  const int64_t taps = s.kh * s.kw;
  const CenteredWeights w(p);
  float* to = reinterpret_cast<float*>(packed + folded_bytes());
  FoldedEpilogue folded;
  fold_epilogue(p, Bias::kInAddend, folded);
  store_folded(folded, packed);
  for (int64_t first = 0; first < s.oc; first += kLanes)
    for (int64_t tap = -2; tap < taps; ++tap)
      for (int64_t lane = 0; lane < kLanes; ++lane) {
        const int64_t c = channel_of(s, first, lane);
        const size_t k = static_cast<size_t>(c < 0 ? 0 : c);
        *to++ = c < 0       ? 0
                : tap == -2 ? folded.multipliers[k]
                : tap == -1 ? folded.addends[k]
                            : static_cast<float>(w[c * taps + tap]);
      }
}

template <class Window>
void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  Run<uint8_t> run;
  if (!has_output(args, kernel) || !describe(args, run)) return;
  FoldedHeader header;
  read_record(args.packed, header);
  run.packed_at = static_cast<int64_t>(folded_bytes());
  run.has_table = header.has_table != 0;
  const auto zero_point = attrs_of(*args.layer).zero_point;
  for (auto& code : run.padding) code = static_cast<uint8_t>(zero_point);
  run.zero_point = static_cast<float>(zero_point);
  run.epilogue = {.is_program = header.is_folded == 0,
                  .low = header.low,
                  .high = header.high,
                  .is_gated = header.is_gated != 0,
                  .gate = header.gate};
  run.after = header.after;
  if (header.is_gated != 0) run.scale = header.scale, run.shift = header.shift;
  if (header.is_folded == 0 && !run.stores_floats) set_program_rows(args, run);
  keep_rows<Window>(args, run, kernel);
}

template <class Window>
constexpr Tactic row(const char* name) {
  return {.name = name,
          .kind = ir::LayerKind::kConvolution,
          .isa = kIsa,
          .formats = FormatRule::kChannelLast,
          .version = 3,
          .refusal = refusal<Window>,
          .cost_us = cost_us<Window>,
          .packed_inputs = quantized_packed_inputs,
          .packed_bytes = packed_bytes,
          .pack = pack,
          .prepare = prepare<Window>};
}

constexpr Tactic kTactics[] = {
    row<FixedWindow<3, 1>>("depthwise_nhwc_i8_w3_s1"),
    row<FixedWindow<3, 2>>("depthwise_nhwc_i8_w3_s2"),
    row<FixedWindow<5, 1>>("depthwise_nhwc_i8_w5_s1"),
    row<FixedWindow<5, 2>>("depthwise_nhwc_i8_w5_s2"),
    row<AnyWindow>("depthwise_nhwc_i8"),
};

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::depthwise_bytes
