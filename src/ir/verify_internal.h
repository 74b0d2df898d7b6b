// SPDX-License-Identifier: Apache-2.0
// The invariants of each layer kind beyond its arity, as rows of kind_traits.cpp name them. Every
// check may take the arity for granted.
#pragma once

#include <fmt/format.h>

#include "ir/graph.h"

namespace camshaft::ir {

template <class... Args>
Status broken(fmt::format_string<Args...> format, Args&&... args) {
  return make_error(ErrorCode::kInternal, format, std::forward<Args>(args)...);
}

Status check_nothing(const Layer& layer);
Status check_convolution(const Layer& layer);
Status check_matrix_multiply(const Layer& layer);
Status check_low_bits(const Layer& layer);
Status check_experts(const Layer& layer);
Status check_epilogue(const Layer& layer);
Status check_attention(const Layer& layer);
Status check_pooling(const Layer& layer);
Status check_point_op(const Layer& layer);
Status check_pointwise(const Layer& layer);
Status check_scale(const Layer& layer);
Status check_shuffle(const Layer& layer);
Status check_slice(const Layer& layer);
Status check_pad(const Layer& layer);
Status check_concatenation(const Layer& layer);
Status check_reduce(const Layer& layer);
Status check_softmax(const Layer& layer);
Status check_gather(const Layer& layer);

}  // namespace camshaft::ir
