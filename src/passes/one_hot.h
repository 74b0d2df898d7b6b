// SPDX-License-Identifier: Apache-2.0
// Recognizing one-hot encodings, however they are spelled.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"
#include "ir/rewriter.h"

namespace camshaft::passes {

// A tensor that is `on` where its coordinate along `axis` is the index, `off` elsewhere.
struct OneHot {
  ir::Tensor* indices = nullptr;  // integers, or floats that OneHot truncates
  int64_t depth = 0;              // the extent along `axis`
  int64_t first = 0;              // the index that coordinate 0 stands for
  bool wraps = false;             // indices -depth … -1 count from the end
  int64_t axis = 0;
  double on = 1, off = 0;
  std::vector<ir::ShuffleAttrs> moves;  // bring the indices to the tensor's other dimensions
};

// OneHot, indices == 0 … depth-1, and ones scattered into zeros; behind casts, pointwise layers of
// nothing else, and shuffles that keep the axis whole.
std::optional<OneHot> one_hot_of(const ir::Tensor* tensor);

// The row of each index among 0 … depth-1; `depth`, or -1, for indices outside. Inserted before
// `reader`, with the extents of the encoding without its axis.
ir::Tensor* rows_of(ir::Rewriter& rewriter, const OneHot& code, const ir::Layer* reader);

}  // namespace camshaft::passes
