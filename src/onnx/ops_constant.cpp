// SPDX-License-Identifier: Apache-2.0
// Operators that make tensors from nothing: Constant, ConstantOfShape, Range.
#include "onnx/node.h"

namespace camshaft::onnx_import {
namespace {

template <class T>
TensorData data_of(DataType type, ir::Extents extents, std::span<const T> values) {
  const auto bytes = std::as_bytes(values);
  return {type, extents, ir::make_constant({bytes.begin(), bytes.end()})};
}

Result<TensorData> constant_data(Node& node) {
  Session& session = node.scope().session;
  const NodeDef& def = node.def();
  if (def.attributes.size() != 1)
    return invalid("{} attributes; exactly one must give the value", def.attributes.size());
  const AttributeDef& value = def.attributes[0];
  node.ignore({value.name});
  if (value.name == "value" && value.tensor)
    return read_tensor(*value.tensor, session.external, session.model.owner);
  if (value.name == "sparse_value" && value.sparse)
    return read_sparse_tensor(*value.sparse, session.external, session.model.owner);
  const int64_t floats = static_cast<int64_t>(value.floats.size()),
                ints = static_cast<int64_t>(value.ints.size());
  if (value.name == "value_float") return data_of<float>(DataType::kFloat, {}, {&value.f, 1});
  if (value.name == "value_int") return data_of<int64_t>(DataType::kInt64, {}, {&value.i, 1});
  if (value.name == "value_floats")
    return data_of<float>(DataType::kFloat, ir::Extents{floats}, value.floats);
  if (value.name == "value_ints")
    return data_of<int64_t>(DataType::kInt64, ir::Extents{ints}, value.ints);
  if (value.name == "value_string" || value.name == "value_strings")
    return unsupported("{}: strings are not supported", value.name);
  return invalid("attribute {} has the wrong type or is not known", value.name);
}

Status import_constant(Node& node) {
  if (!node.wants(0)) return ok_status();
  CAMSHAFT_ASSIGN(const TensorData data, constant_data(node));
  node.scope().add_constant(node.def().outputs[0], data);
  return ok_status();
}

Status import_constant_of_shape(Node& node) {
  CAMSHAFT_TRY(node.require(1, 1));
  ir::FillAttrs attrs;
  if (const AttributeDef* value = node.attribute("value", AttributeType::kTensor);
      value && value->tensor) {
    Session& session = node.scope().session;
    CAMSHAFT_ASSIGN(const TensorData data,
                    read_tensor(*value->tensor, session.external, session.model.owner));
    if (ir::element_count(data.extents) != 1)
      return invalid("value has {} elements", ir::element_count(data.extents));
    attrs.type = data.type;
    attrs.value = read_element(data.type, data.data->view.data(), 0);
  }
  const std::optional<std::vector<Dim>> shape = node.value(0);
  if (!shape) {
    attrs.is_static = false;
    return node.emit(LayerKind::kFill, attrs, node.inputs());
  }
  if (shape->size() > ir::kMaxRank)
    return unsupported("{} dimensions (at most {})", shape->size(), ir::kMaxRank);
  attrs.shape = Shape(shape->begin(), shape->end());
  return node.emit(LayerKind::kFill, attrs, {});
}

Status import_range(Node& node) {
  CAMSHAFT_TRY(node.require(3, 3));
  node.ignore({"stash_type"});
  const DataType type = node.input(0)->type;
  if (type != DataType::kHalf && type != DataType::kBFloat16)
    return node.emit(LayerKind::kRange, ir::NoAttrs{}, node.inputs());
  std::vector<Tensor*> inputs = node.inputs();
  for (size_t k = 0; k < 3; ++k) {
    CAMSHAFT_ASSIGN(inputs[k], node.cast(fmt::format("input_{}", k), inputs[k], DataType::kFloat));
  }
  CAMSHAFT_ASSIGN(Tensor* const y,
                  node.add("range", LayerKind::kRange, ir::NoAttrs{}, std::move(inputs)));
  return node.emit(LayerKind::kCast, ir::CastAttrs{type}, {y});
}

}  // namespace

std::span<const OperatorRow> constant_operators() {
  static constexpr OperatorRow kOperators[] = {
      {"Constant", import_constant},
      {"ConstantOfShape", import_constant_of_shape},
      {"Range", import_range},
  };
  return kOperators;
}

}  // namespace camshaft::onnx_import
