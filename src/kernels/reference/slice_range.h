// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/kernel.h"

namespace camshaft::kernels::reference {

// Where a Slice begins and how far it steps, per dimension of x; how much it takes (empty where
// attributes say, as the output's extents do).
struct SliceRange {
  ir::Ints start, step, size;
};
// From the attributes, or from the numbers in the inputs starts, ends, axes, steps: ONNX Slice.
Result<SliceRange> slice_range(const KernelArgs& args);

}  // namespace camshaft::kernels::reference
