// SPDX-License-Identifier: Apache-2.0
// Boxes and regions: NonMaxSuppression, RoiAlign, MaxRoiPool.
#include <algorithm>
#include <limits>

#include "kernels/index_error.h"
#include "kernels/reference/generic.h"
#include "kernels/roi_bins.h"

namespace camshaft::kernels::reference {
namespace {

struct Box {
  double y0, x0, y1, x1;
  double area() const { return (y1 - y0) * (x1 - x0); }
};

Box read_box(const double* p, bool center) {
  if (center) return {p[1] - p[3] / 2, p[0] - p[2] / 2, p[1] + p[3] / 2, p[0] + p[2] / 2};
  return {std::min(p[0], p[2]), std::min(p[1], p[3]), std::max(p[0], p[2]), std::max(p[1], p[3])};
}

double overlap(const Box& a, const Box& b) {
  const double height = std::min(a.y1, b.y1) - std::max(a.y0, b.y0),
               width = std::min(a.x1, b.x1) - std::max(a.x0, b.x0);
  if (height <= 0 || width <= 0) return 0;
  return height * width / (a.area() + b.area() - height * width);
}

// boxes [B, N, 4], scores [B, C, N], max per class, IoU threshold, score threshold → [selected, 3].
Status non_max_suppression(const KernelArgs& args, Outputs& outputs) {
  const Call call(args);
  CAMSHAFT_TRY(call.require(2));
  const Extents be = call.extents(0), se = call.extents(1);
  if (be.size() != 3 || se.size() != 3 || be[2] != 4 || be[0] != se[0] || be[1] != se[2])
    return make_error(ErrorCode::kInvalidArgument,
                      "NonMaxSuppression: boxes and scores do not fit");
  const std::vector<double> boxes = call.doubles(0), scores = call.doubles(1);
  const int64_t most = call.integer_scalar(2, 0);
  const double iou_threshold = call.scalar(3, 0),
               score_threshold = call.scalar(4, -std::numeric_limits<double>::infinity());
  const bool center = call.integer("center_point_box", 0) != 0;
  const int64_t count = be[1], classes = se[1];
  Ints selected;
  for (int64_t n = 0; n < be[0]; ++n) {
    for (int64_t c = 0; c < classes; ++c) {
      const double* score = scores.data() + (n * classes + c) * count;
      Ints order;
      for (int64_t k = 0; k < count; ++k)
        if (score[k] > score_threshold) order.push_back(k);
      std::stable_sort(order.begin(), order.end(),
                       [&](int64_t a, int64_t b) { return score[a] > score[b]; });
      std::vector<Box> kept;
      for (int64_t k : order) {
        if (static_cast<int64_t>(kept.size()) >= most) break;
        const Box box = read_box(boxes.data() + (n * count + k) * 4, center);
        if (std::any_of(kept.begin(), kept.end(),
                        [&](const Box& other) { return overlap(box, other) > iou_threshold; }))
          continue;
        kept.push_back(box);
        selected.insert(selected.end(), {n, c, k});
      }
    }
  }
  outputs.push_back(
      produce(DataType::kInt64, {static_cast<int64_t>(selected.size() / 3), 3}, selected));
  return ok_status();
}

// --- RoiAlign

struct RoiOptions {
  int64_t out_height, out_width, sampling;
  double scale;
  bool half_pixel, maximum;
};

// One output value: the mean (or the largest weighted tap) over the samples of bin (ph, pw).
double roi_bin(const double* map, int64_t height, int64_t width, const double* roi,
               const RoiOptions& o, int64_t ph, int64_t pw) {
  const RoiBins rows(roi[1], roi[3], o.scale, o.half_pixel, o.out_height, o.sampling),
      columns(roi[0], roi[2], o.scale, o.half_pixel, o.out_width, o.sampling);
  double sum = 0, largest = 0;
  bool first = true;
  for (int64_t iy = 0; iy < rows.samples; ++iy) {
    for (int64_t ix = 0; ix < columns.samples; ++ix) {
      const RoiTap down = roi_tap(rows, ph, iy, height), along = roi_tap(columns, pw, ix, width);
      for (int k = 0; k < 4; ++k) {
        const double value = down.weight[k / 2] * along.weight[k % 2] *
                             map[down.pixel[k / 2] * width + along.pixel[k % 2]];
        sum += value;
        largest = first ? value : std::max(largest, value);
        first = false;
      }
    }
  }
  return o.maximum
             ? largest
             : sum / static_cast<double>(std::max<int64_t>(rows.samples * columns.samples, 1));
}

Status roi_align(const KernelArgs& args, Outputs& outputs) {
  const Call call(args);
  CAMSHAFT_TRY(call.require(3));
  const Extents xe = call.extents(0), re = call.extents(1);
  if (xe.size() != 4 || re.size() != 2 || re[1] != 4)
    return make_error(ErrorCode::kInvalidArgument,
                      "RoiAlign: input or regions have the wrong shape");
  RoiOptions options{call.integer("output_height", 1),
                     call.integer("output_width", 1),
                     call.integer("sampling_ratio", 0),
                     call.real("spatial_scale", 1),
                     false,
                     call.text("mode", "avg") == "max"};
  options.half_pixel =
      call.text("coordinate_transformation_mode",
                call.opset() >= 16 ? "half_pixel" : "output_half_pixel") == "half_pixel";
  const std::vector<double> x = call.doubles(0), rois = call.doubles(1);
  CAMSHAFT_TRY(regions_error(call.in(1), options.scale));
  CAMSHAFT_TRY(check_extents(Extents{re[0], xe[1], options.out_height, options.out_width}));
  const Ints batch = call.ints(2);
  const int64_t channels = xe[1], map_size = xe[2] * xe[3];
  if (static_cast<int64_t>(batch.size()) != re[0] || map_size == 0)
    return make_error(ErrorCode::kInvalidArgument, "RoiAlign: {} batch indices for {} regions",
                      batch.size(), re[0]);
  CAMSHAFT_TRY(images_error(call.in(2), xe[0]));
  std::vector<double> y;
  for (int64_t r = 0; r < re[0]; ++r) {
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t ph = 0; ph < options.out_height; ++ph)
        for (int64_t pw = 0; pw < options.out_width; ++pw)
          y.push_back(roi_bin(x.data() + (batch[r] * channels + c) * map_size, xe[2], xe[3],
                              rois.data() + r * 4, options, ph, pw));
  }
  outputs.push_back(
      produce(call.in(0).type, {re[0], channels, options.out_height, options.out_width}, y));
  return ok_status();
}

// x [N,C,H,W], rois [R, 5] (batch, x0, y0, x1, y1 in whole pixels after scaling).
Status max_roi_pool(const KernelArgs& args, Outputs& outputs) {
  const Call call(args);
  CAMSHAFT_TRY(call.require(2));
  const Extents xe = call.extents(0), re = call.extents(1);
  const Ints pooled = call.list("pooled_shape");
  if (xe.size() != 4 || re.size() != 2 || re[1] != 5 || pooled.size() != 2)
    return make_error(ErrorCode::kInvalidArgument,
                      "MaxRoiPool: input or regions have the wrong shape");
  const double scale = call.real("spatial_scale", 1);
  const std::vector<double> x = call.doubles(0), rois = call.doubles(1);
  CAMSHAFT_TRY(regions_error(call.in(1), scale));
  CAMSHAFT_TRY(check_extents(Extents{re[0], xe[1], pooled[0], pooled[1]}));
  std::vector<double> y;
  for (int64_t r = 0; r < re[0]; ++r) {
    const double* roi = rois.data() + r * 5;
    const auto n = static_cast<int64_t>(roi[0]);
    if (n < 0 || n >= xe[0])
      return make_error(ErrorCode::kInvalidArgument, "MaxRoiPool: batch index {} of {}", n, xe[0]);
    const auto edge = [&](int k) { return static_cast<int64_t>(std::round(roi[k] * scale)); };
    const int64_t x0 = edge(1), y0 = edge(2);
    const auto width = static_cast<double>(std::max<int64_t>(edge(3) - x0 + 1, 1)),
               height = static_cast<double>(std::max<int64_t>(edge(4) - y0 + 1, 1));
    const auto bounds = [](int64_t k, int64_t bins, double size, int64_t start, int64_t extent) {
      const double bin = size / static_cast<double>(bins);
      const auto first = static_cast<int64_t>(std::floor(static_cast<double>(k) * bin)),
                 last = static_cast<int64_t>(std::ceil(static_cast<double>(k + 1) * bin));
      return std::pair(std::clamp<int64_t>(first + start, 0, extent),
                       std::clamp<int64_t>(last + start, 0, extent));
    };
    for (int64_t c = 0; c < xe[1]; ++c)
      for (int64_t ph = 0; ph < pooled[0]; ++ph)
        for (int64_t pw = 0; pw < pooled[1]; ++pw) {
          const auto [h0, h1] = bounds(ph, pooled[0], height, y0, xe[2]);
          const auto [w0, w1] = bounds(pw, pooled[1], width, x0, xe[3]);
          double largest = h0 < h1 && w0 < w1 ? -std::numeric_limits<double>::infinity() : 0;
          for (int64_t h = h0; h < h1; ++h)
            for (int64_t w = w0; w < w1; ++w)
              largest = std::max(largest, x[((n * xe[1] + c) * xe[2] + h) * xe[3] + w]);
          y.push_back(largest);
        }
  }
  outputs.push_back(produce(call.in(0).type, {re[0], xe[1], pooled[0], pooled[1]}, y));
  return ok_status();
}

}  // namespace

std::span<const GenericRow> generic_boxes_operators() {
  static constexpr GenericRow kRows[] = {
      {"NonMaxSuppression", {nullptr, appending<non_max_suppression>}},
      {"RoiAlign", {nullptr, appending<roi_align>}},
      {"MaxRoiPool", {nullptr, appending<max_roi_pool>}},
  };
  return kRows;
}

}  // namespace camshaft::kernels::reference
