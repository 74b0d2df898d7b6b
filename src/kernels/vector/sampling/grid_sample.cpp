// SPDX-License-Identifier: Apache-2.0
// GridSample of lines, images and volumes: the taps of a point are found once for all channels;
// threads share points. Sums in double precision and the order of the reference kernel.
#include <cmath>

#include "kernels/vector/counts.h"
#include "kernels/vector/generic.h"
#include "kernels/vector/nest.h"
#include "kernels/vector/prepare.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

std::string_view text_of(const ir::Layer& layer, std::string_view name, std::string_view fallback) {
  const auto& attributes = generic_attrs(layer).attributes;
  for (size_t k = 0; k < attributes.size(); ++k)
    if (attributes[k].name == name) return attributes[k].text;
  return fallback;
}

enum class Mode : uint8_t { kNearest, kLinear, kCubic, kOther };

Mode mode_of(const ir::Layer& layer) {
  const std::string_view mode = text_of(layer, "mode", "linear");
  return mode == "nearest"                        ? Mode::kNearest
         : mode == "linear" || mode == "bilinear" ? Mode::kLinear
         : mode == "cubic" || mode == "bicubic"   ? Mode::kCubic
                                                  : Mode::kOther;
}

constexpr size_t kMostAxes = 3;  // of an image or a volume

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
  return fits ? "" : "the grid does not fit";
}

constexpr double kUsPerPoint = 0.01, kUsPerTap = 0.0005;
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

// Neighbours along one axis: offsets in elements, weights (0: not read).
template <int kCount>
struct Taps {
  int64_t at[kCount];
  double weight[kCount];
};

double reflected(double x, double low, double high) {
  const double range = high - low;
  if (range <= 0) return low;
  const double distance = x < low ? low - x : x > high ? x - high : 0;
  if (distance == 0) return x;
  const double turns = std::floor(distance / range), rest = distance - turns * range;
  const bool even = std::fmod(turns, 2) == 0;
  return (x < low) == even ? low + rest : high - rest;
}

double cubic_weight(double distance) {
  constexpr double kA = -0.75;
  const double t = distance < 0 ? -distance : distance;
  if (t <= 1) return ((kA + 2) * t - (kA + 3)) * t * t + 1;
  return t < 2 ? ((kA * t - 5 * kA) * t + 8 * kA) * t - 4 * kA : 0;
}

enum class Border : uint8_t { kZeros, kEdge, kReflection };

struct Axis {
  int64_t extent, stride;
  double low, high;  // where it is reflected
  bool aligns;

  float position_of(float coordinate) const {
    const auto length = static_cast<float>(extent);
    return aligns ? (coordinate + 1) / 2 * (length - 1) : ((coordinate + 1) * length - 1) / 2;
  }
  float clamped(float x) const {
    const auto last = static_cast<float>(extent - 1);
    return x < 0 ? 0 : x > last ? last : x;
  }
  int64_t clamped(int64_t k) const { return k < 0 ? 0 : k >= extent ? extent - 1 : k; }

  // Element k as tap `n`; outside the border says which element it is, or that it is none.
  template <int kCount>
  void set(int n, int64_t k, double weight, Border border, Taps<kCount>& taps) const {
    const bool inside = k >= 0 && k < extent;
    if (!inside && border == Border::kReflection)
      k = static_cast<int64_t>(reflected(static_cast<double>(k), low, high));
    const bool is_none = !inside && border == Border::kZeros;
    taps.at[n] = is_none ? 0 : clamped(k) * stride;
    taps.weight[n] = is_none ? 0 : weight;
  }

  template <Mode kMode>
  Taps<taps_of(kMode)> taps(Border border, float coordinate) const {
    float x = position_of(coordinate);
    if (kMode == Mode::kNearest) x = std::nearbyint(x);
    if (border == Border::kEdge && (x < low || x > high)) x = clamped(x);
    if (border == Border::kReflection && (x < low || x > high))
      x = static_cast<float>(reflected(x, low, high));
    Taps<taps_of(kMode)> taps;
    // Far outside there is nothing, as around a NaN; else the first element counts.
    if (!(x > -1e9f && x < 1e9f)) {
      for (int n = 0; n < taps_of(kMode); ++n)
        set(n, 0, n == 0 && border != Border::kZeros ? 1 : 0, border, taps);
      return taps;
    }
    if constexpr (kMode == Mode::kNearest) {
      set(0, static_cast<int64_t>(x), 1, border, taps);
      return taps;
    }
    const auto base = static_cast<int64_t>(std::floor(x));
    const double rest = static_cast<double>(x) - static_cast<double>(base);
    if constexpr (kMode == Mode::kLinear) {
      set(0, base, 1 - rest, border, taps);
      set(1, base + 1, rest, border, taps);
    } else if constexpr (kMode == Mode::kCubic) {
      for (int n = 0; n < 4; ++n)
        set(n, base + n - 1, cubic_weight(rest - static_cast<double>(n - 1)), border, taps);
    }
    return taps;
  }
};

struct GridSample {
  TensorView x, grid, y;
  Axis axes[kMostAxes];  // outermost first
  Mode mode;
  Border border;
  double predicted_us;
};

// Σ over all combinations of the taps of every axis.
template <size_t kAxes, int kCount>
CAMSHAFT_INLINE double sample(const float* map, const Taps<kCount>* taps) {
  if constexpr (kAxes == 0) {
    return static_cast<double>(*map);
  } else {
    double sum = 0;
    for (int n = 0; n < kCount; ++n)
      if (taps->weight[n] != 0)
        sum += taps->weight[n] * sample<kAxes - 1>(map + taps->at[n], taps + 1);
    return sum;
  }
}

template <size_t kAxes, Mode kMode>
void sample_points(const GridSample& s, const KernelCall& call, int64_t first, int64_t last) {
  const TensorView &x = s.x, &grid = s.grid, &y = s.y;
  constexpr int64_t kLast = kAxes + 1;
  for (int64_t point = first; point < last; ++point) {
    int64_t rest = point, of_grid = 0, of_y = 0;
    for (int64_t d = kLast; d >= 2; --d) {
      const int64_t index = rest % y.extents[d];
      rest /= y.extents[d];
      of_grid += index * grid.strides[d - 1];
      of_y += index * y.strides[d];
    }
    const float* place = call.input<const float>(1) + rest * grid.strides[0] + of_grid;
    Taps<taps_of(kMode)> taps[kAxes];
    for (size_t d = 0; d < kAxes; ++d)  // the grid holds the last dimension first
      taps[d] = s.axes[d].template taps<kMode>(
          s.border, place[static_cast<int64_t>(kAxes - 1 - d) * grid.strides[kLast]]);
    const float* map = call.input<const float>(0) + rest * x.strides[0];
    float* to = call.output<float>(0) + rest * y.strides[0] + of_y;
    for (int64_t c = 0; c < y.extents[1]; ++c, map += x.strides[1], to += y.strides[1])
      *to = static_cast<float>(sample<kAxes>(map, taps));
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
  int64_t points = s.y.extents[0];
  for (int d = 2; d < s.y.rank; ++d) points *= s.y.extents[d];
  const SamplePoints body = s.y.rank == 3   ? points_of<1>(s.mode)
                            : s.y.rank == 4 ? points_of<2>(s.mode)
                                            : points_of<3>(s.mode);
  split(call.pool, points, s.predicted_us,
        [&](int, int64_t first, int64_t last) { body(s, call, first, last); });
}

void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const TensorView &x = args.inputs[0], &y = args.outputs[0];
  const bool aligns = generic_integer(*args.layer, "align_corners", 0) != 0;
  const std::string_view padding = text_of(*args.layer, "padding_mode", "zeros");
  GridSample s{x, args.inputs[1], y, {}, mode_of(*args.layer), Border::kZeros, 0};
  if (padding == "border") s.border = Border::kEdge;
  if (padding == "reflection") s.border = Border::kReflection;
  int64_t points = y.extents[0];
  for (int d = 2; d < y.rank; ++d) {
    const auto extent = static_cast<double>(x.extents[d]);
    s.axes[d - 2] = {x.extents[d], x.strides[d], aligns ? 0 : -0.5,
                     aligns ? extent - 1 : extent - 0.5, aligns};
    points *= y.extents[d];
  }
  s.predicted_us = us_of(s.mode, y.rank - 2, points, y.extents[1]);
  keep_state<run>(kernel, s);
}

constexpr Tactic kTactics[] = {
    {"grid_sample_f32", ir::LayerKind::kGeneric, kIsa, FormatRule::kAny, 2, refusal, cost_us,
     CAMSHAFT_NOTHING_PACKED, prepare},
};

}  // namespace

std::span<const Tactic> grid_sample_tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
