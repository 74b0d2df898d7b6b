// SPDX-License-Identifier: Apache-2.0
// ChosenProduct: each row times the matrix chosen for it, as mixtures of experts are written. A
// Generic layer of rows x [T, depth] (float), chosen [T] (integers; negative ones count from the
// end, others than there are matrices are an error) and weights [matrices, columns, depth] (float):
// y[t] = weights[chosen[t]] · x[t], [T, columns].
#pragma once

#include "ir/graph.h"

namespace camshaft::ir {

inline constexpr const char* kChosenProduct = "ChosenProduct";
enum ChosenProductInput : size_t { kChosenRows, kChosenMatrix, kChosenWeights };

inline bool is_chosen_product(const Layer& layer) {
  const auto* attrs = std::get_if<GenericAttrs>(&layer.attrs);
  return attrs && attrs->op_type == kChosenProduct;
}

}  // namespace camshaft::ir
