// SPDX-License-Identifier: Apache-2.0
// Rotation: pairs of elements turned by angles, as rotary positions are put into queries and keys
// (ONNX RotaryEmbedding, and what exporters write out). A Generic layer of x
// [..., depth], cosine and sine [..., width] of one shape, which broadcast to x but for their last
// dimension. With h = the attribute `half`, 2h ≤ depth, width h or 2h, k < h:
//   y[k] = x[k] cosine[k] - x[k + h] sine[k]
//   y[k + h] = x[k + h] cosine[k'] + x[k] sine[k'], k' = k + h where width is 2h, else k
// and elements from 2h on are those of x. With the attribute `interleaved`, pairs are neighbours:
//   y[2k] = x[2k] cosine[i] - x[2k + 1] sine[i], i = 2k where width is 2h, else k
//   y[2k + 1] = x[2k + 1] cosine[i'] + x[2k] sine[i'], i' = 2k + 1 where width is 2h, else k
#pragma once

#include "ir/graph.h"

namespace camshaft::ir {

inline constexpr const char* kRotation = "Rotation";
inline constexpr size_t kRotationCosine = 1, kRotationSine = 2;

// ≥ 1; 0 where the layer is another operator.
int64_t rotated_half(const Layer& layer);
bool turns_neighbours(const Layer& rotation);
GenericAttrs rotation_attributes(int64_t half, bool interleaved = false);

}  // namespace camshaft::ir
