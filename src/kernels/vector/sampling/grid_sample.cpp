// SPDX-License-Identifier: Apache-2.0
// GridSample of lines, images and volumes: the corners around a vector of points are found once for
// all channels; threads share points. Channel last, a corner is a vector of channels; else every
// lane gathers its own. Sums are floats, in the order of the reference kernel, which has doubles.
#include <cmath>

#include "kernels/nest.h"
#include "kernels/vector/counts.h"
#include "kernels/vector/generic.h"
#include "kernels/vector/prepare.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::grid_sample {
namespace {

enum class Mode : uint8_t { kNearest, kLinear, kCubic, kOther };

Mode mode_of(const ir::Layer& layer) {
  const std::string_view mode = generic_text(layer, "mode", "linear");
  return mode == "nearest"                        ? Mode::kNearest
         : mode == "linear" || mode == "bilinear" ? Mode::kLinear
         : mode == "cubic" || mode == "bicubic"   ? Mode::kCubic
                                                  : Mode::kOther;
}

constexpr size_t kMostAxes = 3;  // of an image or a volume
// Floats up to here are integers and halves of integers, and a turn more or less when a position is
// reflected meets the same element.
constexpr int64_t kMostExact = 1 << 22;

std::string refusal(const Problem& p) {
  if (!is_operator(p, "GridSample")) return "another operator";
  if (p.inputs.size() < 2 || !all_float(p)) return "not float";
  const ir::Extents &x = p.inputs[0].extents, &grid = p.inputs[1].extents,
                    &y = p.outputs[0].extents;
  if (mode_of(*p.layer) == Mode::kOther) return "an unknown mode";
  const size_t axes = x.size() < 3 ? 0 : x.size() - 2;
  if (axes == 0 || axes > kMostAxes || grid.size() != x.size() || y.size() != x.size())
    return "neither lines, images nor volumes";
  bool fits = grid[axes + 1] == static_cast<int64_t>(axes) && grid[0] == x[0] && y[0] == x[0] &&
              y[1] == x[1] && count_of(p.inputs[0]) != 0;
  for (size_t d = 0; d < axes; ++d) fits = fits && y[d + 2] == grid[d + 1];
  if (!fits) return "the grid does not fit";
  if (count_of(p.inputs[0]) > INT32_MAX) return "offsets of more than 32 bits";
  for (size_t d = 0; d < axes; ++d)
    if (x[d + 2] > kMostExact) return "positions of more than 22 bits";
  return "";
}

constexpr double kUsPerPoint = 0.003, kUsPerTap = 0.0003;
double us_of(Mode mode, int axes, int64_t points, int64_t channels) {
  const double per_axis = mode == Mode::kNearest ? 1 : mode == Mode::kLinear ? 2 : 4;
  double taps = 1;
  for (int d = 0; d < axes; ++d) taps *= per_axis;
  return static_cast<double>(points) *
         (kUsPerPoint + kUsPerTap * taps * static_cast<double>(channels));
}

double cost_us(const Problem& p) {
  const ir::Extents& y = p.outputs[0].extents;
  int64_t points = y[0];
  for (size_t d = 2; d < y.size(); ++d) points *= y[d];
  return 0.3 + us_of(mode_of(*p.layer), static_cast<int>(y.size()) - 2, points, y[1]) / p.threads;
}

constexpr int taps_of(Mode mode) {
  return mode == Mode::kNearest ? 1 : mode == Mode::kLinear ? 2 : 4;
}

enum class Border : uint8_t { kZeros, kEdge, kReflection };

struct Axis {
  float extent;
  int32_t stride;
  float low, high;  // where it is reflected
  bool aligns;
};

// In doubles: positions of millions of widths, where floats no longer tell elements apart.
float reflected_far(double x, double low, double high) {
  const double range = high - low, distance = x < low ? low - x : x > high ? x - high : 0;
  if (distance == 0) return static_cast<float>(x);
  if (range == 0) return static_cast<float>(low);
  const double turns = std::floor(distance / range), rest = distance - turns * range;
  const bool even = std::fmod(turns, 2) == 0;
  return static_cast<float>((x < low) == even ? low + rest : high - rest);
}

CAMSHAFT_INLINE F32 reflected(const Axis& axis, F32 x) {
  const F32 low = set1(axis.low), high = set1(axis.high);
  // One element has no range: what is clamped is that one.
  const F32 range = max(high - low, set1(1)), distance = max(low - x, x - high);
  const F32 turns = floor(distance / range), rest = fnma(turns, range, distance);
  const M32 is_even = equal(floor(turns * set1(0.5f)) * set1(2), turns);
  const F32 folded = select(mask_xor(less(x, low), is_even), high - rest, low + rest);
  return select(less(zero(), distance), min(max(folded, low), high), x);
}

CAMSHAFT_INLINE F32 position_of(const Axis& axis, F32 coordinate) {
  const F32 one = set1(1), length = set1(axis.extent);
  return (axis.aligns ? (coordinate + one) * (length - one) : (coordinate + one) * length - one) *
         set1(0.5f);
}

// Position `x` as the border has it: of four taps each meets the edge on its own, as in PyTorch. A
// NaN is the first element, or none.
template <Mode kMode>
CAMSHAFT_INLINE F32 within(const Axis& axis, Border border, F32 x) {
  constexpr float kBeyond = 3;  // no tap of it is inside
  const F32 near = min(max(x, set1(-kBeyond)), set1(axis.extent - 1 + kBeyond));
  if (border == Border::kZeros) return near;
  const F32 low = set1(axis.low), high = set1(axis.high);
  if (border == Border::kEdge && kMode == Mode::kCubic) {
    x = select(is_nan(x), x, near);
  } else if (border == Border::kEdge) {
    const F32 clamped = min(max(x, zero()), set1(axis.extent - 1));
    x = select(mask_or(less(x, low), less(high, x)), clamped, x);
  } else if (any(less(set1(kMostExact), abs(x)))) {
    float lanes[kLanes];
    store(lanes, x);
    for (float& lane : lanes) lane = reflected_far(lane, axis.low, axis.high);
    x = load(lanes);
  } else {
    x = reflected(axis, x);
  }
  return select(is_nan(x), zero(), x);
}

// Neighbours of kLanes points along one axis: offsets in elements, weights (0: not read).
template <int kCount>
struct LaneTaps {
  I32 at[kCount];
  F32 weight[kCount];
};

// Convolution with Keys' kernel, a = -0.75: of the second of four taps and the first, the third and
// the fourth mirrored.
CAMSHAFT_INLINE F32 near_weight(F32 t) {
  return fma((set1(1.25f) * t - set1(2.25f)) * t, t, set1(1));
}
CAMSHAFT_INLINE F32 far_weight(F32 t) {
  return fma(fma(fma(set1(-0.75f), t, set1(3.75f)), t, set1(-6)), t, set1(3));
}

CAMSHAFT_INLINE void weigh(F32 rest, LaneTaps<2>& found) {
  found.weight[0] = set1(1) - rest;
  found.weight[1] = rest;
}
CAMSHAFT_INLINE void weigh(F32 rest, LaneTaps<4>& found) {
  const F32 one = set1(1);
  found.weight[0] = far_weight(one + rest);
  found.weight[1] = near_weight(rest);
  found.weight[2] = near_weight(one - rest);
  found.weight[3] = far_weight(set1(2) - rest);
}

template <Mode kMode>
CAMSHAFT_INLINE void find_taps(const Axis& axis, Border border, F32 coordinate,
                               LaneTaps<taps_of(kMode)>& found) {
  constexpr int kCount = taps_of(kMode), kBefore = kMode == Mode::kCubic ? 1 : 0;
  F32 x = position_of(axis, coordinate);
  if constexpr (kMode == Mode::kNearest) x = round_even(x);
  x = within<kMode>(axis, border, x);
  const F32 base = kMode == Mode::kNearest ? x : floor(x);
  if constexpr (kMode == Mode::kNearest)
    found.weight[0] = set1(1);
  else
    weigh(x - base, found);
#pragma GCC unroll 4
  for (int n = 0; n < kCount; ++n) {
    F32 k = base + set1(static_cast<float>(n - kBefore));
    if (kMode != Mode::kNearest && border == Border::kReflection) k = reflected(axis, k);
    const F32 inside = min(max(k, zero()), set1(axis.extent - 1));
    found.at[n] = to_int(inside) * iset1(axis.stride);
    if (border == Border::kZeros)
      found.weight[n] = select(equal(k, inside), found.weight[n], zero());
  }
}

struct GridSample {
  TensorView x, grid, y;
  Axis axes[kMostAxes];  // outermost first
  Mode mode;
  Border border;
  double predicted_us;
  int64_t points;                // of an image
  bool grid_is_even, y_is_even;  // points at one step
};

// Whether dimensions [first, first + count) are as good as one.
bool is_even(const TensorView& view, int first, int count) {
  bool even = true;
  for (int d = first; d + 1 < first + count; ++d)
    even = even && view.strides[d] == view.strides[d + 1] * view.extents[d + 1];
  return even;
}

constexpr int power(int base, size_t exponent) {
  return exponent == 0 ? 1 : base * power(base, exponent - 1);
}

// All combinations of the taps of every axis: what is summed.
template <int kCount>
struct CornersOf {
  I32 at[kCount];
  F32 weight[kCount];
};

// Of axes [0, kDone) and the next.
template <int kDone, int kTaps, int kCorners>
CAMSHAFT_INLINE void combine(const LaneTaps<kTaps>& taps, CornersOf<kCorners>& corners) {
#pragma GCC unroll 4
  for (int k = kDone * kTaps - 1; k >= 0; --k) {
    corners.at[k] = corners.at[k / kTaps] + taps.at[k % kTaps];
    corners.weight[k] = corners.weight[k / kTaps] * taps.weight[k % kTaps];
  }
}

template <size_t kAxes, Mode kMode>
struct Sampler {
  static constexpr int kTaps = taps_of(kMode), kCorners = power(kTaps, kAxes);
  static constexpr int64_t kLast = kAxes + 1;  // dimension of y, and of the grid
  using Corners = CornersOf<kCorners>;

  const GridSample& s;
  const KernelCall& call;

  // Where point `point` of an image lies in y, or in the grid (whose points begin a dimension
  // earlier).
  int64_t place(const TensorView& view, bool is_even, int64_t first_dimension,
                int64_t point) const {
    if (is_even) return point * view.strides[first_dimension + kLast - 2];
    int64_t offset = 0;
    for (int64_t d = kLast; d >= 2; point /= s.y.extents[d--])
      offset += point % s.y.extents[d] * view.strides[first_dimension + d - 2];
    return offset;
  }

  // Of the points [point, point + count) of image `image`, count ≤ kLanes; the last one repeated.
  void find_corners(int64_t image, int64_t point, int64_t count, Corners& corners) const {
    const float* grid = call.input<const float>(1) + image * s.grid.strides[0];
    float coordinates[kAxes][kLanes];
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const float* at = grid + place(s.grid, s.grid_is_even, 1, point + smaller(lane, count - 1));
      for (size_t d = 0; d < kAxes; ++d)  // the grid holds the last dimension first
        coordinates[d][lane] = at[static_cast<int64_t>(kAxes - 1 - d) * s.grid.strides[kLast]];
    }
    corners.at[0] = iset1(0);
    corners.weight[0] = set1(1);
    LaneTaps<kTaps> taps;
    add_axis<0>(coordinates, taps, corners);
  }
  template <size_t kAxis>
  CAMSHAFT_INLINE_MEMBER void add_axis(const float (*coordinates)[kLanes], LaneTaps<kTaps>& taps,
                                       Corners& corners) const {
    if constexpr (kAxis < kAxes) {
      find_taps<kMode>(s.axes[kAxis], s.border, load(coordinates[kAxis]), taps);
      combine<power(kTaps, kAxis)>(taps, corners);
      add_axis<kAxis + 1>(coordinates, taps, corners);
    }
  }

  // Every lane a point. What has no weight counts as 0, whatever it is.
  void sample_lanes(const Corners& corners, int64_t image, int64_t point, int64_t count) const {
    const float* map = call.input<const float>(0) + image * s.x.strides[0];
    float* y = call.output<float>(0) + image * s.y.strides[0];
    const bool is_row = s.y_is_even && s.y.strides[kLast] == 1;
    const M32 lanes = first_n(static_cast<int>(count));
    for (int64_t c = 0; c < s.y.extents[1]; ++c, map += s.x.strides[1], y += s.y.strides[1]) {
      F32 sum = zero();
#pragma GCC unroll 4
      for (int k = 0; k < kCorners; ++k) {
        const F32 weight = corners.weight[k], value = load_at(map, corners.at[k]);
        sum = fma(select(not_equal(weight, zero()), value, zero()), weight, sum);
      }
      if (is_row) {
        store(y + point, sum, lanes);
        continue;
      }
      float values[kLanes];
      store(values, sum);
      for (int64_t k = 0; k < count; ++k) y[place(s.y, s.y_is_even, 2, point + k)] = values[k];
    }
  }

  // Point by point, vectors of channels.
  void sample_channels(const Corners& corners, int64_t image, int64_t point, int64_t count) const {
    int32_t at[kCorners][kLanes];
    float weight[kCorners][kLanes];
    for (int k = 0; k < kCorners; ++k)
      istore(at[k], corners.at[k]), store(weight[k], corners.weight[k]);
    const float* map = call.input<const float>(0) + image * s.x.strides[0];
    float* y = call.output<float>(0) + image * s.y.strides[0];
    const int64_t channels = s.y.extents[1];
    for (int64_t lane = 0; lane < count; ++lane) {
      float* to = y + place(s.y, s.y_is_even, 2, point + lane);
      for (int64_t c = 0; c < channels; c += kLanes) {
        const M32 some = first_n(static_cast<int>(smaller(kLanes, channels - c)));
        F32 sum = zero();
#pragma GCC unroll 4
        for (int k = 0; k < kCorners; ++k)
          if (weight[k][lane] != 0)
            sum = fma(load(map + at[k][lane] + c, some), set1(weight[k][lane]), sum);
        store(to + c, sum, some);
      }
    }
  }
};

template <size_t kAxes, Mode kMode>
void sample_points(const GridSample& s, const KernelCall& call, int64_t first, int64_t last) {
  const Sampler<kAxes, kMode> sampler{s, call};
  typename Sampler<kAxes, kMode>::Corners corners;
  const bool in_channels =
      s.x.strides[1] == 1 && s.y.strides[1] == 1 && 2 * s.y.extents[1] >= kLanes;
  for (int64_t at = first; at < last;) {
    const int64_t image = at / s.points, point = at % s.points,
                  count = smaller(kLanes, smaller(last - at, s.points - point));
    sampler.find_corners(image, point, count, corners);
    if (in_channels)
      sampler.sample_channels(corners, image, point, count);
    else
      sampler.sample_lanes(corners, image, point, count);
    at += count;
  }
}

using SamplePoints = void (*)(const GridSample&, const KernelCall&, int64_t first, int64_t last);

template <size_t kAxes>
SamplePoints points_of(Mode mode) {
  return mode == Mode::kNearest  ? sample_points<kAxes, Mode::kNearest>
         : mode == Mode::kLinear ? sample_points<kAxes, Mode::kLinear>
                                 : sample_points<kAxes, Mode::kCubic>;
}

void run(GridSample& s, const KernelCall& call) {
  const SamplePoints body = s.y.rank == 3   ? points_of<1>(s.mode)
                            : s.y.rank == 4 ? points_of<2>(s.mode)
                                            : points_of<3>(s.mode);
  split(call.pool, s.y.extents[0] * s.points, s.predicted_us,
        [&](int, int64_t first, int64_t last) { body(s, call, first, last); });
}

void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const TensorView &x = args.inputs[0], &grid = args.inputs[1], &y = args.outputs[0];
  const bool aligns = generic_integer(*args.layer, "align_corners", 0) != 0;
  const std::string_view padding = generic_text(*args.layer, "padding_mode", "zeros");
  const int axes = y.rank - 2;
  GridSample s{x,
               grid,
               y,
               {},
               mode_of(*args.layer),
               Border::kZeros,
               0,
               1,
               is_even(grid, 1, axes),
               is_even(y, 2, axes)};
  if (padding == "border") s.border = Border::kEdge;
  if (padding == "reflection") s.border = Border::kReflection;
  for (int d = 2; d < y.rank; ++d) {
    const auto extent = static_cast<float>(x.extents[d]);
    s.axes[d - 2] = {extent, static_cast<int32_t>(x.strides[d]), aligns ? 0 : -0.5f,
                     aligns ? extent - 1 : extent - 0.5f, aligns};
    s.points *= y.extents[d];
  }
  s.predicted_us = us_of(s.mode, axes, y.extents[0] * s.points, y.extents[1]);
  keep_state<run>(kernel, s);
}

constexpr Tactic kTactics[] = {
    {"grid_sample_f32", ir::LayerKind::kGeneric, kIsa, FormatRule::kAny, 4, refusal, cost_us,
     CAMSHAFT_NOTHING_PACKED, prepare},
};

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::grid_sample
