// SPDX-License-Identifier: Apache-2.0
// RoiAlign: every sample of a bin is four pixels, read as vectors of channels. Where these do not
// follow each other (linear tensors) lanes gather them. Threads share rows of bins. Sums are
// floats; where samples lie is what the reference kernel says, too.
#include "kernels/index_error.h"
#include "kernels/nest.h"
#include "kernels/roi_bins.h"
#include "kernels/vector/counts.h"
#include "kernels/vector/generic.h"
#include "kernels/vector/prepare.h"
#include "kernels/vector/sampling/channels.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

std::string refusal(const Problem& p) {
  if (!is_operator(p, "RoiAlign")) return "another operator";
  if (p.inputs.size() != 3) return "no regions or images of these";
  for (const ProblemTensor* t : {&p.inputs[0], &p.inputs[1], &p.outputs[0]})
    if (t->type != DataType::kFloat) return "not float";
  if (p.inputs[2].type != DataType::kInt64) return "images that are not int64";
  const ir::Extents &x = p.inputs[0].extents, &rois = p.inputs[1].extents,
                    &y = p.outputs[0].extents;
  if (x.size() != 4 || rois.size() != 2 || rois[1] != 4 || y.size() != 4) return "not of images";
  if (y[0] != rois[0] || y[1] != x[1] || p.inputs[2].extents != ir::Extents{rois[0]})
    return "the regions do not fit";
  if (count_of(p.inputs[0]) == 0 || count_of(p.inputs[0]) > kMostElements)
    return "no pixels, or offsets of more than 32 bits";
  return "";
}

// Of a vector of channels, four pixels a sample: one load each, or a gather of kLanes lines.
double us_of(int64_t bins, int64_t channels, int64_t samples, bool gathers) {
  const double vectors = static_cast<double>(ceil_div(channels, kLanes));
  return static_cast<double>(bins * samples) * (0.01 + vectors * (gathers ? 0.02 : 0.001));
}

// A guess where regions tell: bins of two by two pixels.
int64_t samples_of(const ir::Layer& layer) {
  const int64_t ratio = generic_integer(layer, "sampling_ratio", 0);
  return ratio > 0 ? ratio * ratio : 4;
}

double cost_us(const Problem& p) {
  const ir::Extents& y = p.outputs[0].extents;
  const bool gathers = p.inputs[0].format != Format::kChannelLast;
  return 0.3 + us_of(y[0] * y[2] * y[3], y[1], samples_of(*p.layer), gathers) / p.threads;
}

struct RoiAlign {
  TensorView x, rois, images, y;
  double scale;
  int64_t sampling;
  bool half_pixel, maximum;
  double predicted_us;
};

constexpr int kVecs = 8;  // vectors of channels that are summed together

// `count` channels of one bin: their mean, or the largest weighted pixel.
template <bool kGathers>
void pool_bin(const RoiAlign& s, const float* map, const RoiBins& rows, int64_t row,
              const RoiBins& cols, int64_t col, int64_t count, float* y) {
  F32 result[kVecs];
  M32 some[kVecs];
  const int vecs = static_cast<int>(ceil_div(count, kLanes));
  const int64_t samples = rows.samples * cols.samples, stride = s.x.strides[1],
                step = kLanes * stride;
  const bool any = rows.samples > 0 && cols.samples > 0;
  for (int v = 0; v < vecs; ++v) {
    result[v] = s.maximum && any ? set1(-__builtin_inff()) : zero();
    some[v] = first_n(static_cast<int>(smaller(kLanes, count - v * kLanes)));
  }
  for (int64_t r = 0; r < rows.samples; ++r) {
    const RoiTap down = roi_tap(rows, row, r, s.x.extents[2]);
    for (int64_t c = 0; c < cols.samples; ++c) {
      const RoiTap along = roi_tap(cols, col, c, s.x.extents[3]);
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k) {
        const float* from =
            map + down.pixel[k / 2] * s.x.strides[2] + along.pixel[k % 2] * s.x.strides[3];
        const F32 weight = set1(static_cast<float>(down.weight[k / 2] * along.weight[k % 2]));
        for (int v = 0; v < vecs; ++v) {
          const F32 pixel = load_channels<kGathers>(from + v * step, stride, some[v]);
          result[v] = s.maximum ? max(result[v], pixel * weight) : fma(pixel, weight, result[v]);
        }
      }
    }
  }
  const F32 share = set1(s.maximum || !any ? 1 : 1 / static_cast<float>(samples));
  for (int v = 0; v < vecs; ++v) {
    const F32 mean = result[v] * share;
    store_channels(y + v * kLanes * s.y.strides[1], s.y.strides[1], mean,
                   smaller(kLanes, count - v * kLanes));
  }
}

// Row `row` of the bins of region `region`.
template <bool kGathers>
void pool_row(const RoiAlign& s, const KernelCall& call, int64_t region, int64_t row) {
  const float* corner = call.input<const float>(1) + region * s.rois.strides[0];
  const auto bins = [&s, corner](int axis, int64_t count) {  // 0: along rows
    const auto edge = [&](int k) { return static_cast<double>(corner[k * s.rois.strides[1]]); };
    return RoiBins(edge(axis), edge(axis + 2), s.scale, s.half_pixel, count, s.sampling);
  };
  const RoiBins rows = bins(1, s.y.extents[2]), cols = bins(0, s.y.extents[3]);
  const int64_t image = call.input<const int64_t>(2)[region * s.images.strides[0]];
  const float* map = call.input<const float>(0) + image * s.x.strides[0];
  float* y = call.output<float>(0) + region * s.y.strides[0] + row * s.y.strides[2];
  const int64_t channels = s.y.extents[1], together = kVecs * kLanes;
  for (int64_t col = 0; col < s.y.extents[3]; ++col)
    for (int64_t c = 0; c < channels; c += together)
      pool_bin<kGathers>(s, map + c * s.x.strides[1], rows, row, cols, col,
                         smaller(together, channels - c),
                         y + col * s.y.strides[3] + c * s.y.strides[1]);
}

Status run(RoiAlign& s, const KernelCall& call) {
  s.rois.data = call.inputs[1], s.images.data = call.inputs[2];
  CAMSHAFT_TRY(regions_error(s.rois, s.scale));
  CAMSHAFT_TRY(images_error(s.images, s.x.extents[0]));
  const auto pool = s.x.strides[1] == 1 ? pool_row<false> : pool_row<true>;
  const int64_t rows = s.y.extents[2];
  split(call.pool, s.y.extents[0] * rows, s.predicted_us, [&](int, int64_t first, int64_t last) {
    for (int64_t k = first; k < last; ++k) pool(s, call, k / rows, k % rows);
  });
  return Status();
}

void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const ir::Layer& layer = *args.layer;
  const TensorView &x = args.inputs[0], &y = args.outputs[0];
  const std::string_view default_mode =
      generic_attrs(layer).opset >= 16 ? "half_pixel" : "output_half_pixel";
  const double us = us_of(y.extents[0] * y.extents[2] * y.extents[3], y.extents[1],
                          samples_of(layer), x.strides[1] != 1);
  keep_checked_state<run>(
      kernel,
      RoiAlign{x, args.inputs[1], args.inputs[2], y, generic_real(layer, "spatial_scale", 1),
               generic_integer(layer, "sampling_ratio", 0),
               generic_text(layer, "coordinate_transformation_mode", default_mode) == "half_pixel",
               generic_text(layer, "mode", "avg") == "max", us});
}

constexpr Tactic kTactics[] = {
    {"roi_align_f32", ir::LayerKind::kGeneric, kIsa, FormatRule::kAny, 1, refusal, cost_us,
     CAMSHAFT_NOTHING_PACKED, prepare},
};

}  // namespace

std::span<const Tactic> roi_align_tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
