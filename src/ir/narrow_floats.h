// SPDX-License-Identifier: Apache-2.0
// Floats that are 16-bit values: networks trained or stored in half precision or bfloat16 and
// widened since. Kernels may keep them as such and widen them in registers, to the last bit.
#pragma once

#include <span>

#include "ir/graph.h"

namespace camshaft::ir {

// Which types hold every value. NaN counts as none, and so do denormal floats: instructions may
// take them for zeros.
struct NarrowTypes {
  bool half = true, bfloat16 = true;
};
NarrowTypes narrow_types(std::span<const float> values);

// The same of a constant of floats, found once: every tactic asks for it.
NarrowTypes narrow_types_of(const ConstantData& constant);

}  // namespace camshaft::ir
