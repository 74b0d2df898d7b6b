// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv_shape.h"
#include "kernels/simd/simd.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

// Weights, floats or int8, seen as [group][n][c][kh][kw]: strides in elements, of any sign.
template <class T>
struct Filter {
  const T* data;
  int64_t group, n, c, h, w;
};
template <class T>
Filter<T> conv_filter(const ConvShape& s, const T* weights) {
  const int64_t taps = s.kh * s.kw, filter = s.group_ic() * taps;
  return {weights, s.group_oc() * filter, filter, taps, s.kw, 1};
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
