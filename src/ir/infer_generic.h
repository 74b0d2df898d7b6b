// SPDX-License-Identifier: Apache-2.0
// Shape rules of Generic operators: access to their attributes, and the tables.
#pragma once

#include "ir/infer_internal.h"

namespace camshaft::ir {

class GenericRule {
 public:
  explicit GenericRule(Inference& f) : f(f), attrs_(f.layer.as<GenericAttrs>()) {}

  Inference& f;

  int64_t opset() const { return attrs_.opset; }
  const std::string& op_type() const { return attrs_.op_type; }
  bool has(std::string_view name) const { return find(name) != nullptr; }
  int64_t integer(std::string_view name, int64_t fallback) const;
  std::string text(std::string_view name, std::string_view fallback) const;
  Ints list(std::string_view name) const;
  // An element type given as an onnx.TensorProto.DataType number.
  Result<DataType> type(std::string_view name, DataType fallback) const;

  // Output k like input j.
  Status same(size_t j = 0, size_t k = 0);
  // The value of input k as extents; empty where it is not known.
  std::optional<std::vector<Dim>> value(size_t k) const {
    return f.has(k) ? f.in(k).value : std::nullopt;
  }
  // Extent d of input k, a new symbol where it is not known.
  Dim extent(size_t k, size_t d) {
    return f.ranked(k) && d < f.rank(k) ? f.shape(k)[d] : f.unknown();
  }

 private:
  const GenericAttribute* find(std::string_view name) const;
  const GenericAttrs& attrs_;
};

struct GenericRow {
  std::string_view op_type;
  Status (*infer)(GenericRule&);
};
std::span<const GenericRow> generic_algebra_rules();
std::span<const GenericRow> generic_vision_rules();
std::span<const GenericRow> generic_random_rules();
std::span<const GenericRow> generic_learning_rules();

}  // namespace camshaft::ir
