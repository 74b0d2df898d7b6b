// SPDX-License-Identifier: Apache-2.0
// The windows of 1-D and 2-D pooling, one dimension at a time, and where the maps lie in memory.
#pragma once

#include "ir/infer.h"
#include "kernels/vector/program/result_epilogue.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

struct PoolAxis {
  int64_t in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, pre = 0, post = 0;

  int64_t start(int64_t o) const { return o * stride - pre; }
  // Taps [first, last) of output o are inside the map.
  int64_t first(int64_t o) const {
    return start(o) >= 0 ? 0 : (-start(o) + dilation - 1) / dilation;
  }
  int64_t last(int64_t o) const {
    const int64_t fit = start(o) >= in ? 0 : (in - start(o) + dilation - 1) / dilation;
    return fit < kernel ? fit : kernel;
  }
  // How many count for an average.
  int64_t counted(int64_t o, bool with_padding) const {
    if (!with_padding) return last(o) - first(o);
    const int64_t fit = (in + post - start(o) + dilation - 1) / dilation;
    return fit < kernel ? fit : kernel;
  }
};

// Strides in elements; 1-D maps have one row.
struct PoolMaps {
  PoolAxis h, w;
  int64_t batch, channels;
  int64_t x_image, x_channel, x_row, x_pixel, y_image, y_channel, y_row, y_pixel;
  bool with_padding = false;

  float scale(int64_t oh, int64_t ow) const {
    const int64_t count = h.counted(oh, with_padding) * w.counted(ow, with_padding);
    return count > 0 ? 1 / static_cast<float>(count) : 0;
  }
};

static inline const ir::PoolingAttrs& pooling_attrs(const ir::Layer& layer) {
  return *std::get_if<ir::PoolingAttrs>(&layer.attrs);
}

static inline PoolAxis pool_axis(const ir::PoolingAttrs& attrs, size_t d, int64_t in, int64_t out) {
  if (attrs.global) return {in, out, in, 1, 1, 0, 0};
  const auto at = [d](const ir::Ints& list, int64_t otherwise) {
    return d < list.size() ? list[d] : otherwise;
  };
  PoolAxis axis{in, out, at(attrs.kernel, 1), at(attrs.stride, 1), at(attrs.dilation, 1), 0, 0};
  const ir::Window window =
      ir::resolve_window(attrs.padding_mode, in, axis.kernel, axis.stride, axis.dilation,
                         at(attrs.pre_padding, 0), at(attrs.post_padding, 0));
  axis.pre = window.pre_padding, axis.post = window.post_padding;
  return axis;
}

static inline PoolMaps pool_maps(const KernelArgs& args) {
  const TensorView &x = args.inputs[0], &y = args.outputs[0];
  const ir::PoolingAttrs& attrs = pooling_attrs(*args.layer);
  PoolMaps p;
  const bool flat = x.rank == 3;
  const int row = flat ? 0 : 2, col = flat ? 2 : 3;
  if (!flat) p.h = pool_axis(attrs, 0, x.extents[row], y.extents[row]);
  p.w = pool_axis(attrs, flat ? 0 : 1, x.extents[col], y.extents[col]);
  p.batch = x.extents[0], p.channels = x.extents[1];
  p.x_image = x.strides[0], p.x_channel = x.strides[1], p.x_row = flat ? 0 : x.strides[row],
  p.x_pixel = x.strides[col];
  p.y_image = y.strides[0], p.y_channel = y.strides[1], p.y_row = flat ? 0 : y.strides[row],
  p.y_pixel = y.strides[col];
  p.with_padding = attrs.count_includes_padding;
  return p;
}

// Epilogues follow rows of images (channel last) or maps (linear), the units kernels share.
inline constexpr size_t kFirstPoolOperand = 1;

static inline ResultEpilogue row_epilogue(const KernelArgs& args, const TensorView& results) {
  constexpr int kFlat[] = {0, 2, 1}, kImage[] = {0, 2, 3, 1};
  const bool flat = args.outputs[0].rank == 3;
  return make_unit_epilogue(pooling_attrs(*args.layer).epilogue, args, kFirstPoolOperand, results,
                            flat ? kFlat : kImage, flat ? 1 : 2);
}

static inline ResultEpilogue map_epilogue(const KernelArgs& args) {
  constexpr int kOrder[] = {0, 1, 2, 3};
  return make_unit_epilogue(pooling_attrs(*args.layer).epilogue, args, kFirstPoolOperand,
                            args.outputs[0], kOrder, 2);
}

static inline bool wants_indices(const Problem& p) {
  return p.outputs.size() > 1 && p.outputs[1].present;
}

// Predicted time for threading: one step per window element.
static inline double pool_us(const PoolMaps& p, int lanes) {
  return static_cast<double>(p.batch * p.channels * p.h.out * p.w.out * p.h.kernel * p.w.kernel) /
         lanes / 5000;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
