// SPDX-License-Identifier: Apache-2.0
// What sequences.cpp knows of a sequence without running the network: its elements, or where they
// lie; and the integers that positions and sizes are read from.
#pragma once

#include <algorithm>
#include <cstring>

#include "onnx/model.h"

namespace camshaft::onnx_import {

inline constexpr int64_t kMostRows = int64_t{1} << 31;

// Elements of a sequence, one after the other.
struct Part {
  enum class Kind : uint8_t {
    kOne,      // a tensor
    kStacked,  // as many as a tensor has rows along its first axis
    kPieces,   // a tensor cut along an axis into pieces of `size`
    kCarried,  // what a Loop's sequence held before this iteration
    kHole,     // as kStacked, but without the element at `position`
  };
  Kind kind = Kind::kOne;
  std::string tensor;
  int64_t axis = 0, size = 0;
  size_t state = 0;             // which of the Loop's sequences
  const void* owner = nullptr;  // whose body this is
  std::string position = {};
};
using Sequence = std::vector<Part>;

inline Part one(std::string tensor) {
  return {Part::Kind::kOne, std::move(tensor)};
}
inline Part stacked(std::string tensor) {
  return {Part::Kind::kStacked, std::move(tensor)};
}
inline bool is(const Part& part, Part::Kind kind) {
  return part.kind == kind;
}
inline bool all_ones(const Sequence& sequence) {
  return std::all_of(sequence.begin(), sequence.end(),
                     [](const Part& part) { return is(part, Part::Kind::kOne); });
}

inline AttributeDef integer(std::string name, int64_t value) {
  AttributeDef attribute;
  attribute.name = std::move(name);
  attribute.type = AttributeType::kInt;
  attribute.i = value;
  return attribute;
}

inline int64_t integer_of(const NodeDef& node, std::string_view name, int64_t fallback) {
  for (const AttributeDef& attribute : node.attributes)
    if (attribute.name == name && attribute.type == AttributeType::kInt) return attribute.i;
  return fallback;
}

inline const std::string& input(const NodeDef& node, size_t k) {
  static const std::string absent;
  return k < node.inputs.size() ? node.inputs[k] : absent;
}

inline std::optional<std::vector<int64_t>> integers_of(const TensorDef& tensor) {
  if (tensor.is_external || tensor.is_segment) return {};
  std::vector<int64_t> values;
  const auto read = [&]<class T>(std::span<const T> typed) {
    values.assign(typed.begin(), typed.end());
    for (size_t at = 0; at + sizeof(T) <= tensor.raw.size(); at += sizeof(T)) {
      T value;
      std::memcpy(&value, tensor.raw.data() + at, sizeof(T));
      values.push_back(value);
    }
  };
  if (tensor.data_type == kInt64)
    read(tensor.int64s);
  else if (tensor.data_type == kInt32)
    read(tensor.int32s);
  else if (tensor.data_type == kBool && tensor.raw.empty())
    values.assign(tensor.int32s.begin(), tensor.int32s.end());
  else if (tensor.data_type == kBool)
    for (const std::byte value : tensor.raw) values.push_back(value != std::byte{0});
  else
    return {};
  return values;
}

// A known integer tensor.
struct Numbers {
  std::vector<int64_t> values;
  bool is_scalar = false;
};

inline std::optional<Numbers> numbers_in(const TensorDef& tensor) {
  const auto values = integers_of(tensor);
  if (!values) return {};
  return Numbers{*values, tensor.extents.empty()};
}

inline std::optional<Numbers> numbers_in(const NodeDef& constant) {
  for (const AttributeDef& attribute : constant.attributes) {
    if (attribute.name == "value" && attribute.tensor) return numbers_in(*attribute.tensor);
    if (attribute.name == "value_int") return Numbers{{attribute.i}, true};
    if (attribute.name == "value_ints")
      return Numbers{{attribute.ints.begin(), attribute.ints.end()}, false};
  }
  return {};
}

// The one float a tensor holds, as counts of iterations are rounded up from.
inline std::optional<double> real_in(const TensorDef& tensor) {
  if (tensor.data_type != kFloat || tensor.is_external || tensor.is_segment) return {};
  if (tensor.floats.size() == 1) return tensor.floats[0];
  float value = 0;
  if (tensor.raw.size() != sizeof(value)) return {};
  std::memcpy(&value, tensor.raw.data(), sizeof(value));
  return value;
}

inline std::optional<double> real_in(const NodeDef& constant) {
  for (const AttributeDef& attribute : constant.attributes) {
    if (attribute.name == "value" && attribute.tensor) return real_in(*attribute.tensor);
    if (attribute.name == "value_float") return attribute.f;
  }
  return {};
}

inline std::optional<int64_t> result_of(std::string_view op, int64_t a, int64_t b) {
  int64_t result = 0;
  if (op == "Add" && !__builtin_add_overflow(a, b, &result)) return result;
  if (op == "Sub" && !__builtin_sub_overflow(a, b, &result)) return result;
  if (op == "Mul" && !__builtin_mul_overflow(a, b, &result)) return result;
  return {};
}

// What an operator makes of known integers; b is null where there is no second input or it is not
// known. Nothing: another operator.
inline std::optional<Numbers> numbers_from(const NodeDef& node, const Numbers& a,
                                           const Numbers* b) {
  const std::string& op = node.op_type;
  const int64_t to = integer_of(node, "to", 0);
  if (op == "Identity" || (op == "Cast" && (to == kInt64 || (to == kBool && a.values.size() == 1 &&
                                                             (a.values[0] & ~1) == 0))))
    return a;
  if (op == "Squeeze" && a.values.size() == 1) return Numbers{a.values, true};
  if (op == "Unsqueeze" && a.is_scalar) return Numbers{a.values, false};
  if (!b || a.values.size() != 1 || b->values.size() != 1) return {};
  const auto result = result_of(op, a.values[0], b->values[0]);
  return result ? std::optional(Numbers{{*result}, a.is_scalar && b->is_scalar}) : std::nullopt;
}

// The node that makes a tensor; null: none of the graph.
inline const NodeDef* maker_of(const GraphDef& graph, const std::string& name) {
  for (const NodeDef& node : graph.nodes)
    if (std::find(node.outputs.begin(), node.outputs.end(), name) != node.outputs.end())
      return &node;
  return nullptr;
}

// As messages name it.
inline std::string named(const NodeDef& node) {
  const std::string& name =
      !node.name.empty() || node.outputs.empty() ? node.name : node.outputs[0];
  return "node " + name + " (" + node.op_type + ")";
}

}  // namespace camshaft::onnx_import
