// SPDX-License-Identifier: Apache-2.0
// AffineGrid: an affine function of the position of every element of a map, or of a volume. Along a
// row it is a line: one multiply-add a coordinate.
#include "kernels/nest.h"
#include "kernels/vector/counts.h"
#include "kernels/vector/generic.h"
#include "kernels/vector/prepare.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::affine_grid {
namespace {

std::string refusal(const Problem& p) {
  if (!is_operator(p, "AffineGrid")) return "another operator";
  const ProblemTensor &theta = p.inputs[0], &y = p.outputs[0];
  if (theta.type != DataType::kFloat || y.type != DataType::kFloat) return "not float";
  const ir::Extents &t = theta.extents, &e = y.extents;
  if (e.size() != 4 && e.size() != 5) return "neither of maps nor of volumes";
  const auto d = static_cast<int64_t>(e.size()) - 2;
  if (t.size() != 3 || t[0] != e[0] || t[1] != d || t[2] != d + 1 || e.back() != d)
    return "the matrices do not fit";
  return y.dense ? "" : "a part of a larger tensor";
}

double cost_us(const Problem& p) {
  return traffic_us(p) / p.threads;
}

struct AffineGrid {
  TensorView theta;
  int64_t images, depth, height, width;  // maps are one deep
  int axes;                              // 2 or 3: coordinates of a point
  const float *x, *y, *z;                // positions along the dimensions, -1 to 1
  double predicted_us;
};

template <int kAxes>
void write_rows(const AffineGrid& s, const KernelCall& call, int64_t first, int64_t last) {
  for (int64_t row = first; row < last; ++row) {
    const int64_t h = row % s.height, d = row / s.height % s.depth, n = row / s.height / s.depth;
    const float* matrix = call.input<const float>(0) + n * s.theta.strides[0];
    float slope[kAxes], start[kAxes];
    for (int k = 0; k < kAxes; ++k) {
      const float* line = matrix + k * s.theta.strides[1];
      const int64_t step = s.theta.strides[2];
      slope[k] = line[0];
      start[k] = line[kAxes * step] + line[step] * s.y[h];
      if constexpr (kAxes == 3) start[k] += line[2 * step] * s.z[d];
    }
    float* to = call.output<float>(0) + row * s.width * kAxes;
    for (int64_t w = 0; w < s.width; ++w)
      for (int k = 0; k < kAxes; ++k) to[w * kAxes + k] = start[k] + slope[k] * s.x[w];
  }
}

void run(AffineGrid& s, const KernelCall& call) {
  split(call.pool, s.images * s.depth * s.height, s.predicted_us,
        [&](int, int64_t first, int64_t last) {
          (s.axes == 2 ? write_rows<2> : write_rows<3>)(s, call, first, last);
        });
}

const float* positions(PreparedKernel& kernel, int64_t extent, bool align_corners) {
  float* made = keep_array<float>(kernel, extent);
  const auto count = static_cast<double>(extent);
  for (int64_t k = 0; k < extent; ++k) {
    const auto at = static_cast<double>(k);
    const double aligned = extent > 1 ? 2 * at / (count - 1) - 1 : -1;
    made[k] = static_cast<float>(align_corners ? aligned : (2 * at + 1) / count - 1);
  }
  return made;
}

void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const TensorView& grid = args.outputs[0];
  const bool align = generic_integer(*args.layer, "align_corners", 0) != 0;
  const int axes = grid.rank - 2;
  const int64_t depth = axes == 3 ? grid.extents[1] : 1, height = grid.extents[axes - 1],
                width = grid.extents[axes];
  keep_state<run>(
      kernel,
      AffineGrid{args.inputs[0], grid.extents[0], depth, height, width, axes,
                 positions(kernel, width, align), positions(kernel, height, align),
                 positions(kernel, depth, align), static_cast<double>(count_of(grid)) / 5000});
}

constexpr Tactic kTactics[] = {
    {"affine_grid_f32", ir::LayerKind::kGeneric, kIsa, FormatRule::kLinear, 1, refusal, cost_us,
     CAMSHAFT_NOTHING_PACKED, prepare},
};

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::affine_grid
