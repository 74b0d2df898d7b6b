// SPDX-License-Identifier: Apache-2.0
// What sparse tactics want to know of weights before they take them.
#pragma once

#include "ir/sparsity.h"
#include "kernels/kernel.h"

namespace camshaft::kernels {

// Zeros of the constant weights (input 1) of a convolution or product; none of weights whose
// values are not there: engines keep packed ones only, and what the builder found of them holds.
std::optional<ir::SparsityCount> weight_zeros(const Problem& problem);

// Why they are not 2:4, not 4:8, or "".
std::string refuse_2_4(const Problem& problem);
std::string refuse_4_8(const Problem& problem);

}  // namespace camshaft::kernels
