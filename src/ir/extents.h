// SPDX-License-Identifier: Apache-2.0
// Shapes of which every extent is a number, or one.
#pragma once

#include <algorithm>

#include "ir/types.h"

namespace camshaft::ir {

inline bool all_known(std::span<const Dim> shape) {
  return std::all_of(shape.begin(), shape.end(), [](Dim dim) { return dim.is_known(); });
}

// One element in any rank.
inline bool all_ones(std::span<const Dim> shape) {
  return std::all_of(shape.begin(), shape.end(), [](Dim dim) { return dim == Dim(1); });
}

inline Extents extents_of(std::span<const Dim> shape) {  // all known
  Extents extents;
  for (const Dim dim : shape) extents.push_back(dim.extent());
  return extents;
}

}  // namespace camshaft::ir
