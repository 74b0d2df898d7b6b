// SPDX-License-Identifier: Apache-2.0
// Boxes and regions: NonMaxSuppression, RoiAlign, MaxRoiPool.
#include <algorithm>
#include <bit>
#include <limits>

#include "kernels/box_overlap.h"
#include "kernels/index_error.h"
#include "kernels/reference/generic.h"
#include "kernels/roi_bins.h"

namespace camshaft::kernels::reference {
namespace {

// A tensor read here and there: floats where they lie, other types converted as a whole.
class Numbers {
 public:
  explicit Numbers(const TensorView& view) : view_(view) {
    if (view.type == DataType::kFloat) return;
    values_ = load<double>(view);
    const Ints strides = dense_strides(extents_of(view));
    std::copy(strides.begin(), strides.end(), view_.strides);
  }
  int64_t stride(int dimension) const { return view_.strides[dimension]; }
  double at(int64_t offset) const {
    return values_.empty() ? static_cast<double>(view_.as<const float>()[offset]) : values_[offset];
  }

 private:
  TensorView view_;
  std::vector<double> values_;
};

Box read_box(const Numbers& boxes, int64_t offset, bool center) {
  double p[4];
  for (int k = 0; k < 4; ++k) p[k] = boxes.at(offset + k * boxes.stride(2));
  if (center) return {p[1] - p[3] / 2, p[0] - p[2] / 2, p[1] + p[3] / 2, p[0] + p[2] / 2};
  return {std::min(p[0], p[2]), std::min(p[1], p[3]), std::max(p[0], p[2]), std::max(p[1], p[3])};
}

// A score and its box as one number: the higher the score and the lower the index, the larger.
uint64_t ranked(float score, int64_t box) {
  const auto bits = std::bit_cast<uint32_t>(score + 0.0F);  // -0 is 0
  const uint32_t ordered = bits >> 31 ? ~bits : bits | 1U << 31;
  return uint64_t{ordered} << 32 | (UINT32_MAX - static_cast<uint32_t>(box));
}
int64_t box_of(uint64_t ranked) {
  return UINT32_MAX - static_cast<uint32_t>(ranked);
}

// boxes [B, N, 4], scores [B, C, N], max per class, IoU threshold, score threshold → [selected, 3].
Status non_max_suppression(const KernelArgs& args, Outputs& outputs) {
  const Call call(args);
  CAMSHAFT_TRY(call.require(2));
  const Extents be = call.extents(0), se = call.extents(1);
  if (be.size() != 3 || se.size() != 3 || be[2] != 4 || be[0] != se[0] || be[1] != se[2])
    return make_error(ErrorCode::kInvalidArgument,
                      "NonMaxSuppression: boxes and scores do not fit");
  const Numbers boxes(call.in(0)), scores(call.in(1));
  const int64_t most = call.integer_scalar(2, 0);
  const double iou_threshold = call.scalar(3, 0),
               score_threshold = call.scalar(4, -std::numeric_limits<double>::infinity());
  const bool center = call.integer("center_point_box", 0) != 0;
  Ints selected;
  std::vector<uint64_t> heap;
  KeptBoxes kept;
  for (int64_t n = 0; n < be[0]; ++n) {
    for (int64_t c = 0; c < se[1]; ++c) {
      const int64_t line = n * scores.stride(0) + c * scores.stride(1);
      heap.resize(be[1]);
      size_t count = 0;
      for (int64_t k = 0; k < be[1]; ++k) {  // most are not taken, which ones no processor guesses
        const auto score = static_cast<float>(scores.at(line + k * scores.stride(2)));
        heap[count] = ranked(score, k);
        count += score > score_threshold ? 1 : 0;
      }
      heap.resize(count);
      // A heap, not a sort: `most` boxes are often found among the first few.
      std::make_heap(heap.begin(), heap.end());
      kept.clear();
      while (!heap.empty() && kept.size() < most) {
        const int64_t k = box_of(heap.front());
        std::pop_heap(heap.begin(), heap.end());
        heap.pop_back();
        const Box box = read_box(boxes, n * boxes.stride(0) + k * boxes.stride(1), center);
        if (kept.overlap(box, iou_threshold)) continue;
        kept.add(box);
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
  CAMSHAFT_TRY(pooled_regions_error(call.in(1), scale, xe[0]));
  CAMSHAFT_TRY(check_extents(Extents{re[0], xe[1], pooled[0], pooled[1]}));
  std::vector<double> y;
  for (int64_t r = 0; r < re[0]; ++r) {
    const double* roi = rois.data() + r * 5;
    const auto n = static_cast<int64_t>(roi[0]);
    for (int64_t c = 0; c < xe[1]; ++c)
      for (int64_t ph = 0; ph < pooled[0]; ++ph)
        for (int64_t pw = 0; pw < pooled[1]; ++pw) {
          const PixelRange rows = pooled_pixels(roi[2], roi[4], scale, ph, pooled[0], xe[2]),
                           cols = pooled_pixels(roi[1], roi[3], scale, pw, pooled[1], xe[3]);
          double largest = rows.first < rows.last && cols.first < cols.last
                               ? -std::numeric_limits<double>::infinity()
                               : 0;
          for (int64_t h = rows.first; h < rows.last; ++h)
            for (int64_t w = cols.first; w < cols.last; ++w)
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
