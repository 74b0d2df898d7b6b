// SPDX-License-Identifier: Apache-2.0
// What kernels of Generic operators share: which operator a layer is, and its attributes.
#pragma once

#include <string_view>

#include "ir/generic_attributes.h"
#include "kernels/vector/tactic_util.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

static inline const ir::GenericAttrs& generic_attrs(const ir::Layer& layer) {
  return *std::get_if<ir::GenericAttrs>(&layer.attrs);
}

static inline bool is_operator(const Problem& p, std::string_view op_type) {
  return generic_attrs(*p.layer).op_type == op_type;
}

static inline int64_t generic_integer(const ir::Layer& layer, std::string_view name,
                                      int64_t fallback, size_t k = 0) {
  return ir::integer_attribute(generic_attrs(layer), name, fallback, k);
}
static inline double generic_real(const ir::Layer& layer, std::string_view name, double fallback) {
  return ir::real_attribute(generic_attrs(layer), name, fallback);
}
static inline std::string_view generic_text(const ir::Layer& layer, std::string_view name,
                                            std::string_view fallback) {
  return ir::text_attribute(generic_attrs(layer), name, fallback);
}

// The only element of an int64 or int32 tensor.
static inline int64_t scalar_of(const TensorView& view) {
  return view.type == DataType::kInt64 ? *view.as<const int64_t>() : *view.as<const int32_t>();
}
static inline bool is_whole_scalar(const ProblemTensor& t) {
  return count_of(t) == 1 && (t.type == DataType::kInt64 || t.type == DataType::kInt32);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
