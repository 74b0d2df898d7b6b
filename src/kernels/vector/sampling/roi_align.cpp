// SPDX-License-Identifier: Apache-2.0
// RoiAlign: every sample of a bin is four pixels, read as vectors of channels. Where these do not
// follow each other (linear tensors) lanes gather them; results that do not are transposed, a group
// of bins together. Threads share groups of bins. Sums are floats; where samples lie is what the
// reference kernel says, too.
#include "kernels/index_error.h"
#include "kernels/nest.h"
#include "kernels/roi_bins.h"
#include "kernels/vector/counts.h"
#include "kernels/vector/generic.h"
#include "kernels/vector/movement/transpose_tile.h"
#include "kernels/vector/prepare.h"
#include "kernels/vector/sampling/channels.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::roi_align {
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

// A part of the taps of a bin: where their pixels lie in a plane, and their weights.
struct Taps {
  static constexpr int64_t kSamples = 16;
  int64_t count = 0;
  int64_t offset[4 * kSamples];
  float weight[4 * kSamples];
};

struct RoiAlign {
  TensorView x, rois, images, y;
  double scale;
  int64_t sampling;
  bool half_pixel, maximum;
  double predicted_us;

  int64_t channels() const { return x.extents[1]; }
  int64_t bins() const { return y.extents[2] * y.extents[3]; }
  // Results of a group of bins, channel last, where those of y lie otherwise.
  bool is_channel_last() const { return y.strides[1] == 1; }
  int64_t group_floats() const {
    return is_channel_last() ? 0 : kLanes * ceil_div(channels(), kLanes) * kLanes;
  }
};

struct Region {
  RoiBins rows, cols;
  const float* map;

  int64_t samples() const {  // of a bin
    return rows.samples > 0 && cols.samples > 0 ? rows.samples * cols.samples : 0;
  }
};

Region region_of(const RoiAlign& s, const KernelCall& call, int64_t region) {
  const float* corner = call.input<const float>(1) + region * s.rois.strides[0];
  const auto bins = [&s, corner](int axis, int64_t count) {  // 0: along rows
    const auto edge = [&](int k) { return static_cast<double>(corner[k * s.rois.strides[1]]); };
    return RoiBins(edge(axis), edge(axis + 2), s.scale, s.half_pixel, count, s.sampling);
  };
  const int64_t image = call.input<const int64_t>(2)[region * s.images.strides[0]];
  return {bins(1, s.y.extents[2]), bins(0, s.y.extents[3]),
          call.input<const float>(0) + image * s.x.strides[0]};
}

// Samples [first, last) of bin (row, col), of as many as there are.
void list_taps(const RoiAlign& s, const Region& region, int64_t row, int64_t col, int64_t first,
               int64_t last, Taps& taps) {
  taps.count = 0;
  RoiTap down{};
  for (int64_t k = first; k < last; ++k) {
    const int64_t r = k / region.cols.samples, c = k % region.cols.samples;
    if (k == first || c == 0) down = roi_tap(region.rows, row, r, s.x.extents[2]);
    const RoiTap along = roi_tap(region.cols, col, c, s.x.extents[3]);
    for (int n = 0; n < 4; ++n, ++taps.count) {
      taps.offset[taps.count] =
          down.pixel[n / 2] * s.x.strides[2] + along.pixel[n % 2] * s.x.strides[3];
      taps.weight[taps.count] = static_cast<float>(down.weight[n / 2] * along.weight[n % 2]);
    }
  }
}

constexpr int kVecs = 8;  // vectors of channels that are summed together

// Adds the taps to `count` channels, or takes the largest weighted pixel.
template <bool kGathers>
void add_taps(const RoiAlign& s, const Taps& taps, const float* map, int64_t count,
              F32 (&result)[kVecs]) {
  const int vecs = static_cast<int>(ceil_div(count, kLanes));
  const int64_t stride = s.x.strides[1], step = kLanes * stride;
  const M32 tail = first_n(static_cast<int>(count - (vecs - 1) * kLanes));
  const auto add = [&](const float* from, F32 weight, int v, M32 some)
      __attribute__((always_inline)) {
    const F32 pixel = load_channels<kGathers>(from + v * step, stride, some);
    result[v] = s.maximum ? max(result[v], pixel * weight) : fma(pixel, weight, result[v]);
  };
  for (int64_t k = 0; k < taps.count; ++k) {
    const float* from = map + taps.offset[k];
    const F32 weight = set1(taps.weight[k]);
    if (!kGathers && count == kVecs * kLanes && !s.maximum) {
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) result[v] = fma(load(from + v * kLanes), weight, result[v]);
      continue;
    }
    for (int v = 0; v + 1 < vecs; ++v) add(from, weight, v, first_n(kLanes));
    add(from, weight, vecs - 1, tail);
  }
}

// All channels of bin (row, col), next to each other from `y` on.
template <bool kGathers>
void pool_bin(const RoiAlign& s, const Region& region, int64_t row, int64_t col, float* y) {
  const int64_t samples = region.samples(), channels = s.channels();
  Taps taps;
  const bool once = samples <= Taps::kSamples;
  if (once) list_taps(s, region, row, col, 0, samples, taps);
  const F32 start = set1(s.maximum && samples > 0 ? -__builtin_inff() : 0);
  const F32 share = set1(s.maximum || samples == 0 ? 1 : 1 / static_cast<float>(samples));
  for (int64_t c = 0; c < channels; c += kVecs * kLanes) {
    const int64_t count = smaller(kVecs * kLanes, channels - c);
    const float* map = region.map + c * s.x.strides[1];
    F32 result[kVecs];
    for (F32& value : result) value = start;
    if (once) add_taps<kGathers>(s, taps, map, count, result);
    for (int64_t k = 0; !once && k < samples; k += Taps::kSamples) {
      list_taps(s, region, row, col, k, smaller(samples, k + Taps::kSamples), taps);
      add_taps<kGathers>(s, taps, map, count, result);
    }
    for (int64_t v = 0; v * kLanes < count; ++v)
      store(y + c + v * kLanes, result[v] * share,
            first_n(static_cast<int>(smaller(kLanes, count - v * kLanes))));
  }
}

// Bins [first, last) of a region, [bin][channel], to where they belong.
void put_bins(const RoiAlign& s, const float* group, int64_t first, int64_t last, float* y) {
  const int64_t channels = s.channels(), pitch = s.group_floats() / kLanes, count = last - first;
  const int64_t width = s.y.extents[3];
  if (s.y.strides[3] != 1 || s.y.strides[2] != width) {
    for (int64_t k = 0; k < count; ++k)
      transpose_part(
          group + k * pitch, pitch,
          y + (first + k) / width * s.y.strides[2] + (first + k) % width * s.y.strides[3],
          s.y.strides[1], int64_t{1}, channels);
    return;
  }
  transpose_block(group, pitch, y + first, s.y.strides[1], count, channels);
}

// Group `group` of kLanes bins of a region.
template <bool kGathers>
void pool_group(const RoiAlign& s, const KernelCall& call, int64_t region, int64_t group,
                float* memory) {
  const Region bins = region_of(s, call, region);
  const int64_t first = group * kLanes, last = smaller(first + kLanes, s.bins()),
                width = s.y.extents[3], pitch = s.group_floats() / kLanes;
  float* y = call.output<float>(0) + region * s.y.strides[0];
  for (int64_t k = first; k < last; ++k) {
    const int64_t row = k / width, col = k % width;
    pool_bin<kGathers>(s, bins, row, col,
                       s.is_channel_last() ? y + row * s.y.strides[2] + col * s.y.strides[3]
                                           : memory + (k - first) * pitch);
  }
  if (!s.is_channel_last()) put_bins(s, memory, first, last, y);
}

Status run(RoiAlign& s, const KernelCall& call) {
  s.rois.data = call.inputs[1], s.images.data = call.inputs[2];
  CAMSHAFT_TRY(regions_error(s.rois, s.scale));
  CAMSHAFT_TRY(images_error(s.images, s.x.extents[0]));
  const auto pool = s.x.strides[1] == 1 ? pool_group<false> : pool_group<true>;
  const int64_t groups = ceil_div(s.bins(), kLanes);
  split(call.pool, s.y.extents[0] * groups, s.predicted_us,
        [&](int worker, int64_t first, int64_t last) {
          float* memory = reinterpret_cast<float*>(call.workspace) + worker * s.group_floats();
          for (int64_t k = first; k < last; ++k) pool(s, call, k / groups, k % groups, memory);
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
  const RoiAlign roi_align{
      x,
      args.inputs[1],
      args.inputs[2],
      y,
      generic_real(layer, "spatial_scale", 1),
      generic_integer(layer, "sampling_ratio", 0),
      generic_text(layer, "coordinate_transformation_mode", default_mode) == "half_pixel",
      generic_text(layer, "mode", "avg") == "max",
      us};
  keep_checked_state<run>(kernel, roi_align);
  kernel.workspace_bytes =
      static_cast<size_t>(threads_of(args) * roi_align.group_floats()) * sizeof(float);
}

constexpr Tactic kTactics[] = {
    {"roi_align_f32", ir::LayerKind::kGeneric, kIsa, FormatRule::kAny, 2, refusal, cost_us,
     CAMSHAFT_NOTHING_PACKED, prepare},
};

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::roi_align
