// SPDX-License-Identifier: Apache-2.0
// MaxRoiPool: the largest element of every bin of a region, in vectors of channels. Where these do
// not follow each other (linear tensors), a bin's rows are vectors, reduced at their end.
#include "kernels/index_error.h"
#include "kernels/nest.h"
#include "kernels/roi_bins.h"
#include "kernels/vector/counts.h"
#include "kernels/vector/generic.h"
#include "kernels/vector/prepare.h"
#include "kernels/vector/sampling/channels.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::max_roi_pool {
namespace {

std::string refusal(const Problem& p) {
  if (!is_operator(p, "MaxRoiPool")) return "another operator";
  if (p.inputs.size() != 2) return "no regions";
  for (const ProblemTensor* t : {&p.inputs[0], &p.inputs[1], &p.outputs[0]})
    if (t->type != DataType::kFloat) return "not float";
  const ir::Extents &x = p.inputs[0].extents, &rois = p.inputs[1].extents,
                    &y = p.outputs[0].extents;
  if (x.size() != 4 || rois.size() != 2 || rois[1] != 5 || y.size() != 4) return "not of images";
  return y[0] != rois[0] || y[1] != x[1] ? "the regions do not fit" : "";
}

// Regions of half the map, say.
double us_of(const ir::Extents& x, const ir::Extents& y) {
  const double pixels = static_cast<double>(y[0] * x[2] * x[3]) / 4;
  return pixels * static_cast<double>(ceil_div(x[1], kLanes)) * 0.001;
}

double cost_us(const Problem& p) {
  return 0.3 + us_of(p.inputs[0].extents, p.outputs[0].extents) / p.threads;
}

struct MaxRoiPool {
  TensorView x, rois, y;
  double scale, predicted_us;
};

// Of [rows.first, rows.last) x [cols.first, cols.last), of one channel.
float largest_of(const float* map, const TensorView& x, const PixelRange& rows,
                 const PixelRange& cols) {
  float largest = -__builtin_inff();
  for (int64_t h = rows.first; h < rows.last; ++h) {
    const float* row = map + h * x.strides[2];
    for (int64_t w = cols.first; w < cols.last; ++w) {
      const float value = row[w * x.strides[3]];
      largest = largest < value ? value : largest;
    }
  }
  return largest;
}

// Of up to kLanes channels that follow each other.
F32 largest_channels(const float* map, const TensorView& x, const PixelRange& rows,
                     const PixelRange& cols, M32 some) {
  F32 largest = set1(-__builtin_inff());
  for (int64_t h = rows.first; h < rows.last; ++h)
    for (int64_t w = cols.first; w < cols.last; ++w) {
      const F32 value = load(map + h * x.strides[2] + w * x.strides[3], some);
      largest = select(less(largest, value), value, largest);
    }
  return largest;
}

void pool_bin(const MaxRoiPool& s, const float* map, const PixelRange& rows, const PixelRange& cols,
              float* y) {
  const int64_t channels = s.x.extents[1], stride = s.y.strides[1];
  const bool empty = rows.first >= rows.last || cols.first >= cols.last;
  if (empty || s.x.strides[1] != 1) {
    for (int64_t c = 0; c < channels; ++c)
      y[c * stride] = empty ? 0 : largest_of(map + c * s.x.strides[1], s.x, rows, cols);
    return;
  }
  for (int64_t c = 0; c < channels; c += kLanes) {
    const int64_t count = smaller(kLanes, channels - c);
    const F32 largest =
        largest_channels(map + c, s.x, rows, cols, first_n(static_cast<int>(count)));
    store_channels(y + c * stride, stride, largest, count);
  }
}

Status run(MaxRoiPool& s, const KernelCall& call) {
  s.rois.data = call.inputs[1];
  CAMSHAFT_TRY(pooled_regions_error(s.rois, s.scale, s.x.extents[0]));
  const int64_t height = s.y.extents[2], width = s.y.extents[3];
  split(call.pool, s.y.extents[0] * height, s.predicted_us, [&](int, int64_t first, int64_t last) {
    for (int64_t k = first; k < last; ++k) {
      const int64_t region = k / height, row = k % height;
      const float* corner = call.input<const float>(1) + region * s.rois.strides[0];
      const auto edge = [&](int at) { return static_cast<double>(corner[at * s.rois.strides[1]]); };
      const PixelRange rows = pooled_pixels(edge(2), edge(4), s.scale, row, height, s.x.extents[2]);
      const float* image =
          call.input<const float>(0) + static_cast<int64_t>(edge(0)) * s.x.strides[0];
      float* y = call.output<float>(0) + region * s.y.strides[0] + row * s.y.strides[2];
      for (int64_t col = 0; col < width; ++col)
        pool_bin(s, image, rows,
                 pooled_pixels(edge(1), edge(3), s.scale, col, width, s.x.extents[3]),
                 y + col * s.y.strides[3]);
    }
  });
  return Status();
}

void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const TensorView &x = args.inputs[0], &y = args.outputs[0];
  const ir::Extents from(x.extents, x.extents + 4), to(y.extents, y.extents + 4);
  keep_checked_state<run>(
      kernel, MaxRoiPool{x, args.inputs[1], y, generic_real(*args.layer, "spatial_scale", 1),
                         us_of(from, to)});
}

constexpr Tactic kTactics[] = {
    {"max_roi_pool_f32", ir::LayerKind::kGeneric, kIsa, FormatRule::kAny, 1, refusal, cost_us,
     CAMSHAFT_NOTHING_PACKED, prepare},
};

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::max_roi_pool
