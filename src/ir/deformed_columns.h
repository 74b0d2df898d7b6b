// SPDX-License-Identifier: Apache-2.0
// DeformedColumns: what a deformable convolution multiplies its weights with. A Generic layer of x
// [N, C, H, W], offset [N, offset_group*taps*2, OH, OW] and, if given, mask [N, offset_group*taps,
// OH, OW], with the attributes of DeformConv (kernel_shape always): y [N, C*taps, OH, OW], whose
// channel (g * taps + t) * C/group + c is channel c of group g where tap t was moved to, times the
// mask; bilinear, nothing outside.
#pragma once

#include "ir/graph.h"

namespace camshaft::ir {

inline constexpr const char* kDeformedColumns = "DeformedColumns";
enum DeformedColumnsInput : size_t { kDeformedImage, kDeformedOffset, kDeformedMask };

}  // namespace camshaft::ir
