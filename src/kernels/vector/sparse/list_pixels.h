// SPDX-License-Identifier: Apache-2.0
// Which pixels lists of weights meet: those of a block, row by row, and what they see through a
// tap.
#pragma once

#include "kernels/vector/convolution/conv_gemm.h"
#include "kernels/vector/counts.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

// Neighbouring pixels of one output row: calls visit(place, pixels before it).
template <class Visit>
void for_each_run(const ConvShape& s, int64_t first, int64_t count, const Visit& visit) {
  for (int64_t done = 0; done < count;) {
    const int64_t pixel = first + done, col = pixel % s.ow, row = pixel / s.ow;
    const int64_t pixels = smaller(s.ow - col, count - done);
    visit(TilePlace{row / s.oh, row % s.oh, col, pixels}, done);
    done += pixels;
  }
}

struct Tap {
  int64_t h, w, channel, channels;  // channels of the whole input
};

// The pixels [begin, end) of a place see a tap inside the image.
struct TapView {
  const TilePlace& place;
  int64_t ih, iw, begin, end;

  TapView(const ConvShape& s, const TilePlace& place_, const Tap& tap)
      : place(place_),
        ih(place.row * s.sh - s.pad_top + tap.h * s.dh),
        iw(place.col * s.sw - s.pad_left + tap.w * s.dw),
        begin(0),
        end(ih >= 0 && ih < s.ih ? smaller(place.pixels, ceil_div(s.iw - iw, s.sw)) : 0) {
    begin = smaller(end, ceil_div(-iw, s.sw));
  }
  const std::byte* first(const ConvRun& run) const {
    return run.x.data + place.image * run.x.image + ih * run.x.row +
           (iw + begin * run.shape.sw) * run.x.pixel;
  }
};

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
