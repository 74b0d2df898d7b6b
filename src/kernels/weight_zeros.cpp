// SPDX-License-Identifier: Apache-2.0
#include "kernels/weight_zeros.h"

namespace camshaft::kernels {
namespace {

size_t channel_dimension(const Problem& problem) {
  if (problem.layer->kind == ir::LayerKind::kConvolution) return 1;
  const size_t rank = problem.inputs[1].extents.size();
  const bool transposed = problem.layer->as<ir::MatrixMultiplyAttrs>().transpose_b;
  return rank < 2 ? 0 : transposed ? rank - 1 : rank - 2;
}

// `full`: how many groups hold too many.
std::string refuse(const Problem& problem, int64_t ir::SparsityCount::*full, const char* reason) {
  if (!has_values(problem.inputs[1])) return {};
  const std::optional<ir::SparsityCount> zeros = weight_zeros(problem);
  return zeros && (*zeros).*full == 0 ? "" : reason;
}

}  // namespace

std::optional<ir::SparsityCount> weight_zeros(const Problem& problem) {
  const ProblemTensor& weights = problem.inputs[1];
  if (!has_values(weights)) return std::nullopt;
  if (problem.layer->kind == ir::LayerKind::kLowBitMultiply)
    return ir::sparsity_of(*weights.constant, problem.layer->as<ir::LowBits>());
  return ir::sparsity_of(*weights.constant, weights.type,
                         ir::channel_axis(weights.extents, channel_dimension(problem)));
}

std::string refuse_2_4(const Problem& problem) {
  return refuse(problem, &ir::SparsityCount::full_groups, "weights are not 2:4");
}

std::string refuse_4_8(const Problem& problem) {
  return refuse(problem, &ir::SparsityCount::full_eights, "weights are not 4:8");
}

}  // namespace camshaft::kernels
