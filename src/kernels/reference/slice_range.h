// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/kernel.h"

namespace camshaft::kernels::reference {

// Where a Slice begins and how far it steps, per dimension of x.
struct SliceRange {
  ir::Ints start, step;
};
// From the attributes, or from the numbers in the inputs starts, ends, axes, steps.
Result<SliceRange> slice_range(const KernelArgs& args);

}  // namespace camshaft::kernels::reference
