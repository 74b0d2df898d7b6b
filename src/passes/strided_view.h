// SPDX-License-Identifier: Apache-2.0
// What a chain of pure data movement (shuffles, slices, expands, gathers of one index) amounts to:
// strides over its root.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"

namespace camshaft::passes {

// Element (i0, i1 …) of the tensor is element offset + Σ ik * stride of the row-major root.
struct StridedView {
  struct Axis {
    ir::Dim extent, stride;
    bool negative = false;  // the stride counts backwards
    bool operator==(const Axis&) const = default;
  };
  ir::Tensor* root = nullptr;
  ir::Dim offset = 0;
  std::vector<Axis> axes;
  int layers = 0;  // between root and tensor
};

// The longest chain behind `tensor`; of no layers if its producer is something else.
StridedView strided_view(ir::Tensor* tensor);

// Of one layer, over its input.
StridedView view_of_layer(const ir::Layer& layer);

// The layers that give the view's elements from its root: one Shuffle, one Slice, or a Slice and a
// Shuffle that moves nothing.
struct Movement {
  std::optional<ir::SliceAttrs> slice;
  ir::Shape sliced;  // the extents of its result
  std::optional<ir::ShuffleAttrs> shuffle;
  int layers() const { return slice.has_value() + shuffle.has_value(); }
};
std::optional<Movement> movement_of(const StridedView& view, const ir::Shape& shape);

}  // namespace camshaft::passes
