// SPDX-License-Identifier: Apache-2.0
// GridSample of images, bilinear: the taps of a point are found once for all channels; threads
// share points. Sums in double precision and the order of the reference kernel.
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

std::string refusal(const Problem& p) {
  if (!is_operator(p, "GridSample")) return "another operator";
  if (p.inputs.size() < 2 || !all_float(p)) return "not float";
  const ir::Extents &x = p.inputs[0].extents, &grid = p.inputs[1].extents,
                    &y = p.outputs[0].extents;
  const std::string_view mode = text_of(*p.layer, "mode", "linear");
  if (mode != "linear" && mode != "bilinear") return "not bilinear";
  if (text_of(*p.layer, "padding_mode", "zeros") == "reflection") return "reflects at the border";
  if (x.size() != 4 || grid.size() != 4 || y.size() != 4) return "no images";
  if (grid[3] != 2 || grid[0] != x[0] || y[0] != x[0] || y[1] != x[1] || y[2] != grid[1] ||
      y[3] != grid[2] || count_of(p.inputs[0]) == 0)
    return "the grid does not fit";
  return {};
}

constexpr double kUsPerPoint = 0.01, kUsPerSample = 0.002;
double us_of(int64_t points, int64_t channels) {
  return static_cast<double>(points) * (kUsPerPoint + kUsPerSample * static_cast<double>(channels));
}

double cost_us(const Problem& p) {
  const ir::Extents& y = p.outputs[0].extents;
  return 0.3 + us_of(y[0] * y[2] * y[3], y[1]) / p.threads;
}

// Two neighbours along one axis: offsets in elements, weights (0: not read).
struct Taps {
  int64_t at[2];
  double weight[2];
};

struct Side {
  int64_t extent, stride;
  bool aligns, clamps;

  Taps taps(float coordinate) const {
    const auto length = static_cast<float>(extent);
    float x = aligns ? (coordinate + 1) / 2 * (length - 1) : ((coordinate + 1) * length - 1) / 2;
    if (clamps) x = x < 0 ? 0 : x > length - 1 ? length - 1 : x;
    Taps taps{{0, 0}, {0, 0}};
    // Far outside there is nothing, as around a NaN; of a clamped one the first element counts.
    if (!(x > -2e9f && x < 2e9f)) {
      taps.weight[0] = clamps ? 1 : 0;
      return taps;
    }
    const auto base = static_cast<int64_t>(std::floor(x));
    const double rest = static_cast<double>(x) - static_cast<double>(base);
    const double weights[2] = {1 - rest, rest};
    for (int k = 0; k < 2; ++k) {
      const int64_t position = base + k;
      if (position < 0 || position >= extent) continue;
      taps.at[k] = position * stride;
      taps.weight[k] = weights[k];
    }
    return taps;
  }
};

CAMSHAFT_INLINE double blend(const float* row, const Taps& wide) {
  double sum = 0;
  for (int k = 0; k < 2; ++k)
    if (wide.weight[k] != 0) sum += wide.weight[k] * static_cast<double>(row[wide.at[k]]);
  return sum;
}

struct GridSample {
  TensorView x, grid, y;
  Side rows, cols;
  double predicted_us;
};

void run(GridSample& s, const KernelCall& call) {
  const TensorView &x = s.x, &grid = s.grid, &y = s.y;
  const int64_t channels = y.extents[1], high = y.extents[2], wide = y.extents[3];
  const int64_t points = y.extents[0] * high * wide;
  split(call.pool, points, s.predicted_us, [&](int, int64_t first, int64_t last) {
    for (int64_t point = first; point < last; ++point) {
      const int64_t col = point % wide, row = point / wide % high, n = point / wide / high;
      const float* place = call.input<const float>(1) + n * grid.strides[0] +
                           row * grid.strides[1] + col * grid.strides[2];
      const Taps across = s.cols.taps(place[0]), down = s.rows.taps(place[grid.strides[3]]);
      const float* map = call.input<const float>(0) + n * x.strides[0];
      float* to =
          call.output<float>(0) + n * y.strides[0] + row * y.strides[2] + col * y.strides[3];
      for (int64_t c = 0; c < channels; ++c, map += x.strides[1], to += y.strides[1]) {
        double sum = 0;
        for (int k = 0; k < 2; ++k)
          if (down.weight[k] != 0) sum += down.weight[k] * blend(map + down.at[k], across);
        *to = static_cast<float>(sum);
      }
    }
  });
}

void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const TensorView &x = args.inputs[0], &y = args.outputs[0];
  const bool aligns = generic_integer(*args.layer, "align_corners", 0) != 0,
             clamps = text_of(*args.layer, "padding_mode", "zeros") == "border";
  keep_state<run>(kernel,
                  GridSample{x,
                             args.inputs[1],
                             y,
                             {x.extents[2], x.strides[2], aligns, clamps},
                             {x.extents[3], x.strides[3], aligns, clamps},
                             us_of(y.extents[0] * y.extents[2] * y.extents[3], y.extents[1])});
}

constexpr Tactic kTactics[] = {
    {"grid_sample_f32", ir::LayerKind::kGeneric, kIsa, FormatRule::kAny, 1, refusal, cost_us,
     CAMSHAFT_NOTHING_PACKED, prepare},
};

}  // namespace

std::span<const Tactic> grid_sample_tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
