// SPDX-License-Identifier: Apache-2.0
// What ArgMinMax and TopK share: which layers they take, and elements as keys.
#pragma once

#include <string>

#include "kernels/vector/tactic_util.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

static inline const ir::TopKAttrs& order_attrs(const ir::Layer& layer) {
  return *std::get_if<ir::TopKAttrs>(&layer.attrs);
}

static inline std::string refuse_order(const Problem& p) {
  switch (p.inputs[0].type) {
    case DataType::kFloat:
    case DataType::kDouble:
    case DataType::kInt64:
    case DataType::kInt32:
    case DataType::kUInt8:
    case DataType::kInt8:
      break;
    default:
      return "elements of another type than float, double, int64, int32 and 8-bit integers";
  }
  const ir::Extents& x = p.inputs[0].extents;
  const auto axis = static_cast<size_t>(order_attrs(*p.layer).axis);
  if (axis >= x.size()) return "no such axis";
  return x[axis] < 1 || x[axis] > INT32_MAX ? "lines of no or too many elements" : "";
}

// --- keys: integers in the same order (NaN above all numbers, -0 equal to 0; all bits flipped
// where the smallest are wanted), so that comparing them is one instruction

CAMSHAFT_INLINE int32_t key_of(float value) {
  int32_t bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  const int32_t ordered = bits ^ ((bits >> 31) & INT32_MAX);
  const int32_t number = bits == INT32_MIN ? 0 : ordered;
  return (bits & INT32_MAX) > 0x7f800000 ? INT32_MAX : number;
}
CAMSHAFT_INLINE int64_t key_of(double value) {
  int64_t bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  const int64_t ordered = bits ^ ((bits >> 63) & INT64_MAX);
  const int64_t number = bits == INT64_MIN ? 0 : ordered;
  return (bits & INT64_MAX) > 0x7ff0000000000000 ? INT64_MAX : number;
}
CAMSHAFT_INLINE int64_t key_of(int64_t value) {
  return value;
}
CAMSHAFT_INLINE int32_t key_of(int32_t value) {
  return value;
}
CAMSHAFT_INLINE int32_t key_of(uint8_t value) {
  return value;
}
CAMSHAFT_INLINE int32_t key_of(int8_t value) {
  return value;
}

template <class T>
using KeyOf = decltype(key_of(T()));

template <class Body>
static inline void with_value(DataType type, const Body& body) {
  switch (type) {
    case DataType::kFloat:
      return body(float());
    case DataType::kDouble:
      return body(double());
    case DataType::kInt64:
      return body(int64_t());
    case DataType::kInt32:
      return body(int32_t());
    case DataType::kUInt8:
      return body(uint8_t());
    default:
      return body(int8_t());
  }
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
