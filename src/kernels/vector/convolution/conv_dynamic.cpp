// SPDX-License-Identifier: Apache-2.0
// Convolutions whose weights only running can tell (modulated ones of StyleGAN, kernels predicted
// by another network): conv_gemm on panels packed in the workspace.
#include "kernels/vector/convolution/conv_dynamic.h"

#include "kernels/simd/tiles.h"
#include "kernels/vector/counts.h"
#include "kernels/vector/gemm/gemm_cost.h"
#include "kernels/vector/gemm/gemm_pack.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

Filter<float> view_filter(const ConvShape& s, const TensorView& weights, bool transposed) {
  const int last = weights.rank - 1;
  Filter<float> f{weights.as<const float>(),
                  0,
                  weights.strides[0],
                  weights.strides[1],
                  last > 2 ? weights.strides[2] : 0,
                  weights.strides[last]};
  f.group = f.n * s.group_oc();
  if (!transposed) return f;
  f.group = f.n * s.group_ic();
  const int64_t first = f.n;
  f.n = f.c;
  f.c = first;
  return f;
}

int64_t dynamic_bias_bytes(const ConvShape& s) {
  return round_up(packed_bias_lanes(s) * kLaneBytes, 64);
}

int64_t dynamic_filter_bytes(const ConvShape& s) {
  return round_up(packed_filter_lanes(s, Numeric::kFloat) * kLaneBytes, 64);
}

void pack_dynamic_bias(const ConvShape& s, const TensorView& bias, std::byte* packed) {
  float* to = reinterpret_cast<float*>(packed);
  pack_bias(s, nullptr, to);
  if (!bias.present()) return;
  const float* from = bias.as<const float>();
  const int64_t stride = bias.strides[bias.rank - 1], n = s.group_oc();
  for (int64_t group = 0; group < s.groups; ++group)
    for (int64_t c = 0; c < n; ++c)
      to[group * group_bias_lanes(s) + c] = from[(group * n + c) * stride];
}

DynamicWeights::DynamicWeights(const KernelArgs& args, const ConvShape& s, int64_t filter_bytes)
    : filter(args.inputs[1]),
      bias(args.inputs.size() > 2 ? args.inputs[2] : TensorView()),
      filter_at(dynamic_bias_bytes(s)),
      rest_at(filter_at + filter_bytes) {}

void set_addresses(const KernelCall& call, ConvRun& run, DynamicWeights& weights) {
  weights.filter.data = call.inputs[1];
  if (weights.bias.present()) weights.bias.data = call.inputs[2];
  weights.packed_bias = call.workspace;
  weights.packed_filter = call.workspace + weights.filter_at;
  weights.rest = call.workspace + weights.rest_at;
  run.x.data = call.input<const std::byte>(0);
  run.weights.bias = weights.packed_bias;
  run.weights.panels = weights.packed_filter;
  set_addresses(call, kFirstConvOperand, run.finish);
}

namespace {

// Channels whose taps stay in L1 while tap after tap is read.
int64_t channels_together(const ConvShape& s, int64_t cols) {
  constexpr int64_t kBytes = 16 << 10;
  return at_least_one(kBytes / at_least_one(cols * s.kh * s.kw * kLaneBytes));
}

// [kh][kw][c][width] of one panel.
void pack_filter_panel(const ConvShape& s, const Filter<float>& f, const float* from, int64_t cols,
                       int64_t width, float* to) {
  const int64_t ic = s.group_ic(), taps = s.kh * s.kw;
  const int64_t together = taps > 1 ? channels_together(s, cols) : ic;
  for (int64_t c = 0; c < ic; c += together)
    for (int64_t tap = 0; tap < taps; ++tap)
      pack_panel(from + c * f.c + tap / s.kw * f.h + tap % s.kw * f.w, f.c, f.n,
                 smaller(together, ic - c), cols, width, 1, to + (tap * ic + c) * width);
}

constexpr int64_t kFloatsWorthThreads = 64 << 10;

}  // namespace

void pack_dynamic_filter(const ConvShape& s, const Filter<float>& filter, int max_vecs,
                         ThreadPool* pool, std::byte* packed) {
  const Panels panels = conv_panels(s, Numeric::kFloat, max_vecs, 1);
  const auto pack = [&](int, int64_t first, int64_t last) {
    for (int64_t unit = first; unit < last; ++unit) {
      const int64_t group = unit / panels.count(), panel = unit % panels.count();
      pack_filter_panel(
          s, filter, filter.data + group * filter.group + panels.first_col(panel) * filter.n,
          panels.cols_of(panel), panels.vecs_of(panel) * kLanes,
          reinterpret_cast<float*>(packed) + group * panels.lanes() + panels.offset(panel));
    }
  };
  const int64_t units = s.groups * panels.count();
  if (pool == nullptr || pool->threads() == 1 || s.groups * panels.lanes() < kFloatsWorthThreads)
    return pack(0, 0, units);
  pool->parallel_ranges(units, pack);
}

double pack_dynamic_us(const ConvShape& s) {
  return static_cast<double>(s.oc * s.group_ic() * s.kh * s.kw) * kPackUsPerFloat;
}

std::string refuse_dynamic_conv(const Problem& problem, bool has_shape) {
  if (std::string reason = refuse_conv(problem, Numeric::kFloat, has_shape, false); !reason.empty())
    return reason;
  if (problem.inputs[1].constant && (!has_bias(problem) || problem.inputs[2].constant))
    return "constant weights are packed once";
  if (has_bias(problem) && problem.inputs[2].type != DataType::kFloat)
    return "the bias is not float";
  return {};
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET

namespace camshaft::kernels::CAMSHAFT_TARGET::conv_dynamic {
namespace {

bool shape_of(const Problem& problem, ConvShape& shape) {
  return conv_shape(problem.layer->as<ir::ConvolutionAttrs>(), problem.inputs[0].extents,
                    problem.inputs[1].extents, problem.outputs[0].extents, shape);
}

template <int kVecs, bool kByParts>
std::string refusal(const Problem& problem) {
  ConvShape s;
  if (std::string reason = refuse_dynamic_conv(problem, shape_of(problem, s)); !reason.empty())
    return reason;
  if (kVecs > 1 && s.group_oc() <= (kVecs - 1) * kLanes)
    return "fewer output channels than the tile has";
  if (kByParts && !has_parts(s.oh * s.ow, s.group_ic() * s.kh * s.kw, kVecs))
    return "its panels stay in L1";
  return {};
}

template <int kVecs, bool kByParts>
double cost_us(const Problem& problem) {
  ConvShape s;
  if (!shape_of(problem, s)) return 1e12;
  double us = conv_tiles_us(s, Numeric::kFloat, s.batch * s.oh, s.ow, kVecs, 1);
  if (conv_needs_copy(s)) us += static_cast<double>(s.batch * s.ih * s.iw * s.ic) / 10e3;
  if (kByParts) us *= part_cost(s.group_oc(), s.group_ic() * s.kh * s.kw);
  return 0.2 + (us + pack_dynamic_us(s)) / problem.threads;
}

template <int kVecs, bool kByParts>
bool describe(const KernelArgs& args, ConvRun& run) {
  const auto extents = [](const TensorView& view) {
    return std::span<const int64_t>(view.extents, static_cast<size_t>(view.rank));
  };
  if (!conv_shape(args.layer->as<ir::ConvolutionAttrs>(), extents(args.inputs[0]),
                  extents(args.inputs[1]), extents(args.outputs[0]), run.shape))
    return false;
  set_conv_tensors(args, nullptr, run);
  run.tile.max_vecs = kVecs;
  run.wishes.parts = kByParts;
  return true;
}

struct Kernel {
  ConvRun run;      // planned: rows may be columns, images one
  ConvShape shape;  // of the weights
  DynamicWeights weights;
};

template <int kVecs>
void run(Kernel& kernel, const KernelCall& call) {
  ConvRun& run = kernel.run;
  DynamicWeights& weights = kernel.weights;
  set_addresses(call, run, weights);
  const ConvShape& shape = kernel.shape;
  pack_dynamic_bias(shape, weights.bias, weights.packed_bias);
  pack_dynamic_filter(shape, view_filter(shape, weights.filter, false), kVecs, call.pool,
                      weights.packed_filter);
  run_conv(run, weights.rest, call.pool);
}

template <int kVecs, bool kByParts>
void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  ConvRun described;
  if (!has_output(args, kernel) || !describe<kVecs, kByParts>(args, described)) return;
  const DynamicWeights weights(args, described.shape, dynamic_filter_bytes(described.shape));
  ConvRun& planned =
      keep_state<run<kVecs>>(kernel, Kernel{described, described.shape, weights}).run;
  kernel.workspace_bytes = weights.bytes() + plan_conv(planned, threads_of(args));
  keep_tables(planned, kernel);
}

template <int kVecs, bool kByParts>
constexpr Tactic row(const char* name) {
  return {.name = name,
          .kind = ir::LayerKind::kConvolution,
          .isa = kIsa,
          .formats = FormatRule::kChannelLast,
          .version = 1,
          .refusal = refusal<kVecs, kByParts>,
          .cost_us = cost_us<kVecs, kByParts>,
          .packed_inputs = no_packed_inputs,
          .packed_bytes = no_packed_bytes,
          .pack = pack_nothing,
          .prepare = prepare<kVecs, kByParts>};
}

#define CAMSHAFT_CONV_DYNAMIC_ROWS(vecs, tile)          \
  row<vecs, false>("conv_gemm_dynamic_nhwc_f32_" tile), \
      row<vecs, true>("conv_gemm_dynamic_parts_nhwc_f32_" tile),

constexpr Tactic kTactics[] = {CAMSHAFT_GEMM_TILES(CAMSHAFT_CONV_DYNAMIC_ROWS)};
#undef CAMSHAFT_CONV_DYNAMIC_ROWS

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::conv_dynamic
