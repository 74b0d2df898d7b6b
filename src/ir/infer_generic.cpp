// SPDX-License-Identifier: Apache-2.0
// Shapes of Generic layers: ONNX operators that only have a reference kernel. Their kernels decide
// the extents again when they run, so a rule may leave to a run-time symbol what would be long to
// derive.
#include "ir/infer_generic.h"

#include <unordered_map>

#include "ir/generic_attributes.h"

namespace camshaft::ir {
namespace {

const std::unordered_map<std::string_view, const GenericRow*>& rules() {
  static const auto table = [] {
    std::unordered_map<std::string_view, const GenericRow*> all;
    for (auto rows : {generic_algebra_rules(), generic_vision_rules(), generic_random_rules(),
                      generic_learning_rules()})
      for (const GenericRow& row : rows) all.emplace(row.op_type, &row);
    return all;
  }();
  return table;
}

}  // namespace

const GenericAttribute* GenericRule::find(std::string_view name) const {
  return find_attribute(attrs_, name);
}

int64_t GenericRule::integer(std::string_view name, int64_t fallback) const {
  const GenericAttribute* found = find(name);
  return found && found->ints.size() == 1 ? found->ints[0] : fallback;
}

std::string GenericRule::text(std::string_view name, std::string_view fallback) const {
  const GenericAttribute* found = find(name);
  return found ? found->text : std::string(fallback);
}

Ints GenericRule::list(std::string_view name) const {
  return integers_attribute(attrs_, name);
}

Result<DataType> GenericRule::type(std::string_view name, DataType fallback) const {
  constexpr DataType kTypes[] = {DataType::kUndefined, DataType::kFloat,   DataType::kUInt8,
                                 DataType::kInt8,      DataType::kUInt16,  DataType::kInt16,
                                 DataType::kInt32,     DataType::kInt64,   DataType::kUndefined,
                                 DataType::kBool,      DataType::kHalf,    DataType::kDouble,
                                 DataType::kUInt32,    DataType::kUInt64,  DataType::kUndefined,
                                 DataType::kUndefined, DataType::kBFloat16};
  if (!has(name)) return fallback;
  const int64_t number = integer(name, 0);
  if (number < 0 || number >= static_cast<int64_t>(std::size(kTypes)) ||
      kTypes[number] == DataType::kUndefined)
    return make_error(ErrorCode::kUnsupported, "{} = {}: this element type is not supported", name,
                      number);
  return kTypes[number];
}

Status GenericRule::same(size_t j, size_t k) {
  CAMSHAFT_TRY(f.require(j + 1));
  return f.ranked(j) ? f.give(f.in(j).type, f.shape(j), k) : f.unranked(f.in(j).type, k);
}

bool has_shape_rule(std::string_view generic_op_type) {
  return rules().count(generic_op_type) > 0;
}

Status infer_generic(Inference& f) {
  const auto& attrs = f.layer.as<GenericAttrs>();
  const auto rule = rules().find(attrs.op_type);
  if (rule == rules().end())
    return make_error(ErrorCode::kUnsupported, "operator {} has no shape rule", attrs.op_type);
  GenericRule generic(f);
  return rule->second->infer(generic);
}

}  // namespace camshaft::ir
