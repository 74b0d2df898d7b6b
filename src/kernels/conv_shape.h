// SPDX-License-Identifier: Apache-2.0
// The numbers of a 1-D or 2-D convolution or deconvolution with its padding resolved; 1-D ones have
// height 1.
#pragma once

#include <cstdint>
#include <span>

#include "ir/attrs.h"
#include "kernels/kernel.h"

namespace camshaft::kernels {

struct ConvShape {
  int64_t batch = 1, groups = 1;
  int64_t ic = 0, ih = 1, iw = 1;  // whole input: all groups
  int64_t oc = 0, oh = 1, ow = 1;
  int64_t kh = 1, kw = 1;
  int64_t sh = 1, sw = 1;
  int64_t dh = 1, dw = 1;
  int64_t pad_top = 0, pad_left = 0;

  int64_t group_ic() const { return ic / groups; }
  int64_t group_oc() const { return oc / groups; }
  double macs() const {
    return static_cast<double>(batch * oh * ow) * static_cast<double>(oc * kh * kw) *
           static_cast<double>(group_ic());
  }
};

// From the extents of x, w and y. False: not a rank 3 or 4 problem, or extents that contradict each
// other.
bool conv_shape(const ir::ConvolutionAttrs& attrs, std::span<const int64_t> x,
                std::span<const int64_t> w, std::span<const int64_t> y, ConvShape& shape);
// The same for Deconvolution: kh, kw, sh … are those of the transposed operator; pads crop the
// output.
bool deconv_shape(const ir::ConvolutionAttrs& attrs, std::span<const int64_t> x,
                  std::span<const int64_t> w, std::span<const int64_t> y, ConvShape& shape);

// Whether the 8-bit weights of a convolution are multiplied as they are: int8 with zero point 0.
bool has_symmetric_weights(const Problem& problem);

}  // namespace camshaft::kernels
