// SPDX-License-Identifier: Apache-2.0
// Boxes and regions: NonMaxSuppression, RoiAlign, MaxRoiPool.
#include <algorithm>
#include <limits>

#include "kernels/reference/generic.h"

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

struct BilinearTap {
  int64_t position[4];
  double weight[4];
};

BilinearTap bilinear_tap(double y, double x, int64_t height, int64_t width) {
  BilinearTap tap{};
  if (y < -1 || y > static_cast<double>(height) || x < -1 || x > static_cast<double>(width))
    return tap;
  const auto corner = [](double& at, int64_t extent) {
    at = std::max(at, 0.0);
    const auto low = static_cast<int64_t>(at);
    if (low >= extent - 1) at = static_cast<double>(extent - 1);
    return std::min(low, extent - 1);
  };
  const int64_t y0 = corner(y, height), x0 = corner(x, width);
  const int64_t y1 = std::min(y0 + 1, height - 1), x1 = std::min(x0 + 1, width - 1);
  const double ly = y - static_cast<double>(y0), lx = x - static_cast<double>(x0);
  return {{y0 * width + x0, y0 * width + x1, y1 * width + x0, y1 * width + x1},
          {(1 - ly) * (1 - lx), (1 - ly) * lx, ly * (1 - lx), ly * lx}};
}

// Coordinates that whole numbers of pixels can be made of.
Status check_regions(const std::vector<double>& rois, double scale) {
  for (const double value : rois)
    if (!(std::abs(value * scale) < 1e5) || !(std::abs(value) < 1e9))
      return make_error(ErrorCode::kInvalidArgument, "a region with the coordinate {}", value);
  return ok_status();
}

struct RoiOptions {
  int64_t out_height, out_width, sampling;
  double scale;
  bool half_pixel, maximum;
};

// One output value: the mean (or the largest weighted tap) over the samples of bin (ph, pw).
double roi_bin(const double* map, int64_t height, int64_t width, const double* roi,
               const RoiOptions& o, int64_t ph, int64_t pw) {
  const double shift = o.half_pixel ? 0.5 : 0;
  const double x0 = roi[0] * o.scale - shift, y0 = roi[1] * o.scale - shift;
  double roi_width = roi[2] * o.scale - shift - x0, roi_height = roi[3] * o.scale - shift - y0;
  if (!o.half_pixel) {
    roi_width = std::max(roi_width, 1.0);
    roi_height = std::max(roi_height, 1.0);
  }
  const double bin_height = roi_height / static_cast<double>(o.out_height),
               bin_width = roi_width / static_cast<double>(o.out_width);
  const int64_t rows = o.sampling > 0 ? o.sampling : static_cast<int64_t>(std::ceil(bin_height));
  const int64_t columns = o.sampling > 0 ? o.sampling : static_cast<int64_t>(std::ceil(bin_width));
  double sum = 0, largest = 0;
  bool first = true;
  for (int64_t iy = 0; iy < rows; ++iy) {
    for (int64_t ix = 0; ix < columns; ++ix) {
      const double y = y0 + (static_cast<double>(ph) +
                             (static_cast<double>(iy) + 0.5) / static_cast<double>(rows)) *
                                bin_height;
      const double x = x0 + (static_cast<double>(pw) +
                             (static_cast<double>(ix) + 0.5) / static_cast<double>(columns)) *
                                bin_width;
      const BilinearTap tap = bilinear_tap(y, x, height, width);
      for (int k = 0; k < 4; ++k) {
        const double value = tap.weight[k] * map[tap.position[k]];
        sum += value;
        largest = first ? value : std::max(largest, value);
        first = false;
      }
    }
  }
  return o.maximum ? largest : sum / static_cast<double>(std::max<int64_t>(rows * columns, 1));
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
  CAMSHAFT_TRY(check_regions(rois, options.scale));
  CAMSHAFT_TRY(check_extents(Extents{re[0], xe[1], options.out_height, options.out_width}));
  const Ints batch = call.ints(2);
  const int64_t channels = xe[1], map_size = xe[2] * xe[3];
  if (static_cast<int64_t>(batch.size()) != re[0] || map_size == 0)
    return make_error(ErrorCode::kInvalidArgument, "RoiAlign: {} batch indices for {} regions",
                      batch.size(), re[0]);
  std::vector<double> y;
  for (int64_t r = 0; r < re[0]; ++r) {
    if (batch[r] < 0 || batch[r] >= xe[0])
      return make_error(ErrorCode::kInvalidArgument, "RoiAlign: batch index {} of {}", batch[r],
                        xe[0]);
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
  CAMSHAFT_TRY(check_regions(rois, scale));
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
