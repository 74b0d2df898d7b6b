// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/conv_window.h"

#include <cstring>

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

CAMSHAFT_INLINE void zero_floats(float* to, int64_t count) {
  if (count > 0) std::memset(to, 0, static_cast<size_t>(count) * sizeof(float));
}

CAMSHAFT_INLINE void copy_floats(float* to, const float* from, int64_t count) {
  int64_t k = 0;
  for (; k + kLanes <= count; k += kLanes) store(to + k, load(from + k));
  for (; k < count; ++k) to[k] = from[k];
}

// `pixels` pixels of one input row into pixels `run.pixel` apart.
void copy_pixels(const ConvRun& run, const float* from, int64_t pixels, float* to) {
  const int64_t channels = run.shape.ic;
  if (run.x_channel == 1 && run.x_pixel == channels && run.pixel == channels) {
    std::memcpy(to, from, static_cast<size_t>(pixels * channels) * sizeof(float));
  } else if (run.x_channel == 1) {
    for (int64_t p = 0; p < pixels; ++p)
      copy_floats(to + p * run.pixel, from + p * run.x_pixel, channels);
  } else {
    for (int64_t c = 0; c < channels; ++c) {
      const float* plane = from + c * run.x_channel;
      for (int64_t p = 0; p < pixels; ++p) to[p * run.pixel + c] = plane[p * run.x_pixel];
    }
  }
}

}  // namespace

void copy_window(const ConvRun& run, int64_t image, int64_t row, int64_t rows, int64_t col,
                 int64_t cols, float* scratch) {
  const ConvShape& s = run.shape;
  const int64_t ih0 = row * s.sh - s.pad_top, iw0 = col * s.sw - s.pad_left;
  const int64_t high = (rows - 1) * s.sh + (s.kh - 1) * s.dh + 1;
  const int64_t wide = (cols - 1) * s.sw + (s.kw - 1) * s.dw + 1;
  // Columns [left, right) of the window lie inside the image.
  const int64_t left = iw0 >= 0 ? 0 : (-iw0 < wide ? -iw0 : wide);
  const int64_t inside = s.iw - iw0;
  const int64_t right = inside > wide ? wide : (inside < left ? left : inside);
  for (int64_t h = 0; h < high; ++h, scratch += run.row) {
    const int64_t ih = ih0 + h;
    if (ih < 0 || ih >= s.ih) continue;  // no tile reads it
    const float* from = run.x + image * run.x_image + ih * run.x_row + (iw0 + left) * run.x_pixel;
    zero_floats(scratch, left * run.pixel);
    copy_pixels(run, from, right - left, scratch + left * run.pixel);
    zero_floats(scratch + right * run.pixel, (wide - right) * run.pixel);
  }
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
