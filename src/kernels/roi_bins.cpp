// SPDX-License-Identifier: Apache-2.0
#include "kernels/roi_bins.h"

#include <algorithm>
#include <cmath>

namespace camshaft::kernels {

RoiBins::RoiBins(double from, double to, double scale, bool half_pixel, int64_t bins,
                 int64_t sampling) {
  const double shift = half_pixel ? 0.5 : 0;
  first = from * scale - shift;
  const double length = to * scale - shift - first;
  size = (half_pixel ? length : std::max(length, 1.0)) / static_cast<double>(bins);
  samples = sampling > 0 ? sampling : static_cast<int64_t>(std::ceil(size));
}

RoiTap roi_tap(const RoiBins& bins, int64_t bin, int64_t sample, int64_t extent) {
  const double step = (static_cast<double>(sample) + 0.5) / static_cast<double>(bins.samples);
  const double at = bins.first + (static_cast<double>(bin) + step) * bins.size;
  if (!(at >= -1 && at <= static_cast<double>(extent))) return {};
  const int64_t last = extent - 1, low = std::min(static_cast<int64_t>(std::max(at, 0.0)), last);
  const double rest = low == last ? 0 : std::max(at, 0.0) - static_cast<double>(low);
  return {{low, std::min(low + 1, last)}, {1 - rest, rest}};
}

PixelRange pooled_pixels(double from, double to, double scale, int64_t bin, int64_t bins,
                         int64_t extent) {
  const auto start = static_cast<int64_t>(std::round(from * scale)),
             end = static_cast<int64_t>(std::round(to * scale));
  const double size =
      static_cast<double>(std::max<int64_t>(end - start + 1, 1)) / static_cast<double>(bins);
  const auto first = static_cast<int64_t>(std::floor(static_cast<double>(bin) * size)),
             last = static_cast<int64_t>(std::ceil(static_cast<double>(bin + 1) * size));
  return {std::clamp<int64_t>(first + start, 0, extent),
          std::clamp<int64_t>(last + start, 0, extent)};
}

}  // namespace camshaft::kernels
