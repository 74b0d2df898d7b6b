// SPDX-License-Identifier: Apache-2.0
// ChosenProduct, row by row in double.
#include "ir/chosen_product.h"
#include "kernels/index_error.h"
#include "kernels/reference/generic.h"

namespace camshaft::kernels::reference {
namespace {

Status chosen_product(const KernelArgs& args) {
  const TensorView &chosen = args.inputs[ir::kChosenMatrix],
                   &weights = args.inputs[ir::kChosenWeights];
  const int64_t matrices = weights.extents[0], columns = weights.extents[1],
                depth = weights.extents[2];
  CAMSHAFT_TRY(index_error(chosen, {&matrices, 1}));
  const Ints matrix = load_ints(chosen);
  const std::vector<double> x = load<double>(args.inputs[ir::kChosenRows]),
                            w = load<double>(weights);
  std::vector<double> y(matrix.size() * static_cast<size_t>(columns));
  parallel(args, static_cast<int64_t>(matrix.size()), [&](int64_t row) {
    const int64_t at = matrix[row] < 0 ? matrix[row] + matrices : matrix[row];
    for (int64_t n = 0; n < columns; ++n) {
      double sum = 0;
      for (int64_t k = 0; k < depth; ++k)
        sum += x[row * depth + k] * w[(at * columns + n) * depth + k];
      y[row * columns + n] = sum;
    }
  });
  store(args.outputs[0], y);
  return ok_status();
}

}  // namespace

std::span<const GenericRow> generic_chosen_operators() {
  static constexpr GenericRow kRows[] = {{ir::kChosenProduct, {chosen_product, nullptr}}};
  return kRows;
}

}  // namespace camshaft::kernels::reference
