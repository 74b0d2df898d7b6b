// SPDX-License-Identifier: Apache-2.0
// Depthwise transposed convolution of float tensors, channel last (learned and bilinear
// upsampling), with and without a channel multiplier: the output pixels of one phase (row and
// column modulo the stride) are a plain convolution of the input. All phases read the same padded
// lines in L1, so that an input row is copied once for as many output rows as the stride has.
#include "kernels/vector/convolution/deconv_phases.h"
#include "kernels/vector/depthwise/depthwise_lines.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::depthwise_transposed {
namespace {

using namespace depthwise;
using Window = AnyLineWindow<1>;

// A phase: the plain convolution, whose first tap is at (row, col) of what the lines keep for an
// output, and its taps, `weights` floats behind the beginning of a vector of channels.
struct LinePhase {
  ConvShape s;
  int64_t first_row, first_col;  // of the output
  int64_t row, col, weights;
};

// `lines`: the stride-1 window that all phases lie in, whose outputs are one pixel of each.
struct Phases {
  ConvShape layer, lines;
  LinePhase* phases = nullptr;  // rows by columns

  int64_t count() const { return layer.sh * layer.sw; }
  const LinePhase& at(int64_t row, int64_t col) const { return phases[row * layer.sw + col]; }
  int64_t block() const { return (1 + layer.kh * layer.kw) * kLanes; }
};

struct Reach {
  int64_t before = 0, after = 0, outs = 0;
  void add(const Phase& phase, int64_t dilation) {
    const int64_t last = (phase.taps - 1) * dilation - phase.pad;
    if (phase.taps > 0 && phase.pad > before) before = phase.pad;
    if (phase.taps > 0 && last > after) after = last;
    if (phase.outs > outs) outs = phase.outs;
  }
};

// All but the places of the phases.
Phases layout_of(const ConvShape& s) {
  Reach h, w;
  for (int64_t k = 0; k < s.sh * s.sw; ++k) {
    const PhasePair pair = phase_pair(DeconvForm{s}, k);
    h.add(pair.h, s.dh), w.add(pair.w, s.dw);
  }
  Phases all{s, s};
  ConvShape& lines = all.lines;
  lines.kh = h.before + h.after + 1, lines.kw = w.before + w.after + 1;
  lines.oh = h.outs, lines.ow = w.outs;
  lines.pad_top = h.before, lines.pad_left = w.before;
  lines.sh = lines.sw = lines.dh = lines.dw = 1;
  return all;
}

Phases keep_phases(const ConvShape& s, PreparedKernel& kernel) {
  Phases all = layout_of(s);
  all.phases = keep_array<LinePhase>(kernel, all.count());
  int64_t weights = kLanes;
  for (int64_t k = 0; k < all.count(); ++k) {
    const PhasePair pair = phase_pair(DeconvForm{s}, k);
    all.phases[k] = {pair.shape,
                     pair.h.first_out,
                     pair.w.first_out,
                     all.lines.pad_top - pair.h.pad,
                     all.lines.pad_left - pair.w.pad,
                     weights};
    weights += pair.shape.kh * pair.shape.kw * kLanes;
  }
  return all;
}

// --- packed weights: per vector of channels the bias, then phase after phase its taps

size_t weights_bytes(const Problem& p) {
  ConvShape s;
  if (!deconv_shape(attrs_of(*p.layer), p.inputs[0].extents, p.inputs[1].extents,
                    p.outputs[0].extents, s))
    return 0;
  return float_weights_bytes(s);
}

void pack_weights(const Problem& p, std::byte* packed) {
  ConvShape s;
  if (!deconv_shape(attrs_of(*p.layer), p.inputs[0].extents, p.inputs[1].extents,
                    p.outputs[0].extents, s))
    return;
  const float *w = constant_floats_of(p.inputs[1]),
              *bias = has_bias(p) ? constant_floats_of(p.inputs[2]) : nullptr;
  float* to = reinterpret_cast<float*>(packed);
  for (int64_t first = 0; first < s.oc; first += kLanes) {
    const int64_t c = channel_of(s, first, 0);
    const int64_t lanes = smaller(s.oc, kLanes);
    for (int64_t lane = 0; lane < kLanes; ++lane)
      *to++ = bias != nullptr && lane < lanes ? bias[c + lane] : 0;
    for (int64_t k = 0; k < s.sh * s.sw; ++k) {
      const PhasePair pair = phase_pair(DeconvForm{s}, k);
      const Filter<float> filter =
          phase_filter(s, pair, Filter<float>{w, 0, s.kh * s.kw, 0, s.kw, 1});
      for (int64_t tap = 0; tap < pair.shape.kh * pair.shape.kw; ++tap)
        for (int64_t lane = 0; lane < kLanes; ++lane)
          *to++ = lane >= lanes
                      ? 0
                      : filter.data[(c + lane) * filter.n + tap / pair.shape.kw * filter.h +
                                    tap % pair.shape.kw * filter.w];
    }
  }
}

// --- running

struct Kernel {
  FloatRun run;  // its shape is that of the lines
  LinePlan plan;
  Phases phases;
};

// `vectors` vectors of channels of P pixels of a phase, from its column `q` and channel c on.
template <int P, bool kMasked>
void run_phase_tile(const Kernel& kernel, const LinePhase& phase, const Strip<float>& strip,
                    const float* const* lines, int64_t x, int64_t q, int64_t c, int64_t vectors) {
  const int64_t block = kernel.phases.block();
  const float* weights = strip.weights;
  for (int64_t v = 0; v < vectors; ++v, x += kernel.plan.vector(), weights += block, c += kLanes) {
    F32 sum[P];
    const F32 bias = load(weights);
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) sum[p] = bias;
    Window::add<P>(phase.s, lines, x, weights + phase.weights, sum);
    const int lanes = kMasked ? static_cast<int>(kernel.run.s.oc) : kLanes;
    finish<P, kMasked>(kernel.run, strip, sum, weights, q, c, {first_n(lanes), lanes});
  }
}

using PhaseTile = void (*)(const Kernel&, const LinePhase&, const Strip<float>&,
                           const float* const*, int64_t, int64_t, int64_t, int64_t);
template <bool kMasked>
constexpr PhaseTile kPhaseTiles[kMostLinePixels + 1] = {nullptr,
                                                        run_phase_tile<1, kMasked>,
                                                        run_phase_tile<2, kMasked>,
                                                        run_phase_tile<3, kMasked>,
                                                        run_phase_tile<4, kMasked>,
                                                        run_phase_tile<5, kMasked>,
                                                        run_phase_tile<6, kMasked>,
                                                        run_phase_tile<7, kMasked>,
                                                        run_phase_tile<8, kMasked>};

// The columns of one phase in output row `oh` of a unit.
void run_phase(const Kernel& kernel, const LineUnit& unit, const LinePhase& phase,
               const float* const* lines, int64_t oh) {
  const FloatRun& run = kernel.run;
  const int64_t stride = kernel.phases.layer.sw, cols = smaller(unit.cols, phase.s.ow - unit.col);
  if (cols <= 0) return;
  Strip<float> strip{};
  strip.y = run.y_at(unit.image * run.y_image + oh * run.y_row + phase.first_col * run.y_pixel);
  strip.y_pixel = run.y_pixel * stride;
  if (run.epilogue.adds()) {
    const TileSource& residual = run.residual();
    strip.residual =
        reinterpret_cast<const float*>(residual.at(unit.image, oh, phase.first_col, 0));
    strip.residual_pixel = residual.pixel / residual.element() * stride;
  }
  const int64_t block = kernel.phases.block();
  const float* weights = run.packed + unit.channel / kLanes * block;
  const EvenSplit tiles = split_evenly(cols, kMostLinePixels);
  for (int64_t tile = 0; tile < tiles.parts; ++tile) {
    const int64_t col = tiles.start(tile), x = (col + phase.col) * kLanes;
    const PhaseTile run_tile =
        (run.s.oc < kLanes ? kPhaseTiles<true> : kPhaseTiles<false>)[tiles.size(tile)];
    strip.weights = weights;
    run_tile(kernel, phase, strip, lines, x, unit.col + col, unit.channel, unit.vectors);
    if (!unit.has_tail) continue;
    strip.weights = weights + unit.vectors * block;
    run_tile(kernel, phase, strip, lines, x + unit.vectors * kernel.plan.vector(), unit.col + col,
             run.s.oc - kLanes, 1);
  }
}

// The program on what the unit has of output row `oh`.
void finish_row(const Kernel& kernel, const LineUnit& unit, int64_t oh) {
  const FloatRun& run = kernel.run;
  if (!run.epilogue.is_program) return;
  const ConvShape& s = kernel.phases.layer;
  Strip<float> strip{};
  strip.y = run.y_at(unit.image * run.y_image + oh * run.y_row);
  strip.first = unit.channel;
  strip.last = unit.has_tail ? run.s.oc : smaller(run.s.oc, unit.channel + unit.vectors * kLanes);
  const int64_t first = unit.col * s.sw;
  run_epilogue(run, strip, unit.image, oh, first, smaller(unit.cols * s.sw, s.ow - first));
}

// The output rows that lines [position, position + plan.rows) give; `ring`: where the first lies.
void run_position(const Kernel& kernel, const LineUnit& unit, int64_t position, int64_t ring,
                  const float* kept) {
  const Phases& phases = kernel.phases;
  const LinePlan& plan = kernel.plan;
  const float* lines[kMostLines];
  for (int64_t row = 0; row < phases.layer.sh; ++row) {
    const LinePhase& first = phases.at(row, 0);
    if (position >= first.s.oh) continue;
    const int64_t oh = first.first_row + position * phases.layer.sh;
    for (int64_t col = 0; col < phases.layer.sw; ++col) {
      const LinePhase& phase = phases.at(row, col);
      for (int64_t kh = 0; kh < phase.s.kh; ++kh)
        lines[kh] = kept + (ring + phase.row + kh * phase.s.dh) % plan.rows * plan.row;
      run_phase(kernel, unit, phase, lines, oh);
    }
    finish_row(kernel, unit, oh);
  }
}

void run_unit(const Kernel& kernel, const LineUnit& unit, float* kept) {
  const ConvShape& s = kernel.run.s;
  const LinePlan& plan = kernel.plan;
  const int64_t origin = unit.row - s.pad_top;
  int64_t copied = origin;  // the first input row that is not in the lines
  for (int64_t position = unit.row; position < unit.row + unit.rows; ++position) {
    const int64_t top = position - s.pad_top;
    for (; copied < top + plan.rows; ++copied)
      fill_lines<1>(kernel.run, plan, unit, copied, unit.col - s.pad_left,
                    kept + (copied - origin) % plan.rows * plan.row);
    run_position(kernel, unit, position, top - origin, kept);
  }
}

void run(Kernel& kernel, const KernelCall& call) {
  set_addresses(call, kernel.run);
  const LinePlan& plan = kernel.plan;
  split(call.pool, plan.units(kernel.run.s.batch), kernel.run.predicted_us,
        [&](int worker, int64_t first, int64_t last) {
          float* kept =
              reinterpret_cast<float*>(call.workspace + static_cast<size_t>(worker) * plan.bytes());
          for (int64_t unit = first; unit < last; ++unit)
            run_unit(kernel, unit_at(plan, kernel.run.s, unit), kept);
        });
}

// --- the table

std::string refusal(const Problem& p) {
  ConvShape s;
  if (p.inputs[0].type != DataType::kFloat || p.outputs[0].type != DataType::kFloat)
    return "not float";
  if (std::string reason = refuse_float_constants(p); !reason.empty()) return reason;
  if (!deconv_shape(attrs_of(*p.layer), p.inputs[0].extents, p.inputs[1].extents,
                    p.outputs[0].extents, s))
    return "not a 1-D or 2-D convolution";
  if (s.group_ic() != 1) return "not depthwise";
  if (s.kh > kMostLines) return "a window of more than 64 rows";
  if (std::string reason = refuse_phases(s); !reason.empty()) return reason;
  return refuse_float_operands(p);
}

// Two loads and two FMAs a cycle at 3 GHz: an output's taps are those of a phase.
double us_of(const ConvShape& s, double vectors) {
  const double taps =
      static_cast<double>(s.kh * s.kw) / static_cast<double>(at_least_one(s.sh * s.sw));
  return vectors * (2 + 0.8 * taps) / 3000;
}

double cost_us(const Problem& p) {
  ConvShape s;
  if (!deconv_shape(attrs_of(*p.layer), p.inputs[0].extents, p.inputs[1].extents,
                    p.outputs[0].extents, s))
    return 1e12;
  const double vectors = static_cast<double>(s.batch * s.oh * s.ow * ceil_div(s.oc, kLanes));
  return traffic_us(p) / 4 + us_of(s, vectors) / p.threads;
}

void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  FloatRun described;
  ConvShape s;
  if (!has_output(args, kernel) ||
      !deconv_shape(attrs_of(*args.layer), extents_of(args.inputs[0]), extents_of(args.inputs[1]),
                    extents_of(args.outputs[0]), s))
    return;
  describe_tensors(args, described);
  described.epilogue = float_epilogue(described);
  described.predicted_us = us_of(s, static_cast<double>(count_of(args.outputs[0])) / kLanes);
  const Phases phases = keep_phases(s, kernel);
  described.s = phases.lines;
  const int threads = threads_of(args);
  LinePlan plan = plan_lines(phases.lines, 1, threads);
  plan.sources = keep_sources(s, kernel);
  Kernel& kept = keep_state<run>(kernel, Kernel{described, plan, phases});
  compile_epilogue(kept.run, kernel);
  kernel.workspace_bytes = static_cast<size_t>(threads) * plan.bytes();
}

constexpr Tactic kTactics[] = {{.name = "deconv_lines_nhwc_f32",
                                .kind = ir::LayerKind::kDeconvolution,
                                .isa = kIsa,
                                .formats = FormatRule::kChannelLast,
                                .version = 1,
                                .refusal = refusal,
                                .cost_us = cost_us,
                                .packed_inputs = float_packed_inputs,
                                .packed_bytes = weights_bytes,
                                .pack = pack_weights,
                                .prepare = prepare}};

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::depthwise_transposed
