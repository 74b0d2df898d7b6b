// SPDX-License-Identifier: Apache-2.0
// What inputs hold while tactics are timed.
#pragma once

#include "kernels/kernel.h"

namespace camshaft::tuner {

// Fills input `k` of the problem: floats in (-1, 1), so that no kernel meets denormals or
// infinities, choices of both kinds, indices from all over what they index (equal ones would find
// one hot row of a table), whole lengths, zeros where nothing is known of what numbers mean. The
// same in every build.
void fill_sample(const kernels::Problem& problem, size_t k, const kernels::TensorView& view);

}  // namespace camshaft::tuner
