// SPDX-License-Identifier: Apache-2.0
// Copies the part of an input that a block of output pixels reads, padding where it leaves the
// image to the left or right; rows above and below are left as they are where the padding is 0.
#pragma once

#include "kernels/vector/convolution/conv_gemm.h"
#include "kernels/vector/counts.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

// To `scratch` as [input rows][run.row], pixels `run.pixel` apart.
void copy_window(const ConvRun& run, int64_t image, int64_t row, int64_t rows, int64_t col,
                 int64_t cols, std::byte* scratch);

// Of taps at `from`, `from` + dilation, … those inside [0, extent).
struct TapsInside {
  int64_t first, end;

  TapsInside(int64_t from, int64_t dilation, int64_t taps, int64_t extent)
      : first(smaller(taps, from < 0 ? ceil_div(-from, dilation) : 0)),
        end(from < extent ? smaller(taps, ceil_div(extent - from, dilation)) : 0) {
    if (end < first) end = first;
  }
};

// The windows of a block's pixels, each [kernel rows][taps][channels], `run.pixel` apart; taps
// outside the image are padding.
void copy_windows(const ConvRun& run, int64_t image, int64_t row, int64_t rows, int64_t col,
                  int64_t cols, std::byte* scratch);

// Copies of pixels that are multiplied part by part of K lie part by part: parts of all pixels of
// the block, one after another.
bool copies_parts(const ConvRun& run);
void copy_parts(const ConvRun& run, int64_t image, int64_t row, int64_t rows, int64_t col,
                int64_t cols, std::byte* scratch);

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
