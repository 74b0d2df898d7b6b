// SPDX-License-Identifier: Apache-2.0
// Where RoiAlign samples a region and what MaxRoiPool pools of it, along one axis. Compiled once,
// without fused operations: a sample just outside the image counts as 0, so all kernels have to
// agree on where it is.
#pragma once

#include <cstdint>

namespace camshaft::kernels {

struct RoiBins {
  double first, size;  // of a bin, in pixels
  int64_t samples;     // of a bin; none where a region is turned inside out

  // A region from `from` to `to`, each times `scale`; `sampling` of 0: a sample per pixel.
  RoiBins(double from, double to, double scale, bool half_pixel, int64_t bins, int64_t sampling);
};

// The two pixels around a sample, and how much of either: nothing outside the image.
struct RoiTap {
  int64_t pixel[2];
  double weight[2];
};
RoiTap roi_tap(const RoiBins& bins, int64_t bin, int64_t sample, int64_t extent);

// The pixels of bin `bin` of `bins` of a region from `from` to `to` (both of it, times `scale`
// and rounded), inside an image of so many.
struct PixelRange {
  int64_t first, last;  // [first, last)
};
PixelRange pooled_pixels(double from, double to, double scale, int64_t bin, int64_t bins,
                         int64_t extent);

}  // namespace camshaft::kernels
