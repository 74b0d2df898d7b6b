// SPDX-License-Identifier: Apache-2.0
// What sparse tactics want to know of weights before they take them.
#pragma once

#include "ir/sparsity.h"
#include "kernels/kernel.h"

namespace camshaft::kernels {

// Engines keep packed weights only: what the builder has found of the values holds.
inline bool has_values(const ProblemTensor& weights) {
  return weights.constant && !weights.constant->view.empty();
}

// Zeros of the constant weights (input 1) of a convolution or product, where it has the values.
std::optional<ir::SparsityCount> weight_zeros(const Problem& problem);

// Why they are not 2:4, not 4:8, or "".
std::string refuse_2_4(const Problem& problem);
std::string refuse_4_8(const Problem& problem);

}  // namespace camshaft::kernels
