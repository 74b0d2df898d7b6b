// SPDX-License-Identifier: Apache-2.0
#include "ir/weight_records.h"

namespace camshaft::ir {

LowBits low_bits_of(const Layer& layer) {
  LowBits weights;
  const auto* attrs = std::get_if<GenericAttrs>(&layer.attrs);
  if (!attrs || attrs->op_type != kLowBitMultiply) return weights;
  const auto number = [&](std::string_view name) -> int64_t {
    for (const GenericAttribute& attribute : attrs->attributes)
      if (attribute.name == name && attribute.ints.size() == 1) return attribute.ints[0];
    return 0;
  };
  weights.columns = number("columns");
  weights.depth = number("depth");
  weights.bits = number("bits");
  weights.block = number("block");
  weights.codes_rows = number("codes_rows") != 0;
  const int64_t zero = number("zero");  // bytes of one
  weights.zero = zero == 1 ? DataType::kUInt8 : zero == 4 ? DataType::kFloat : DataType::kUndefined;
  return weights;
}

GenericAttrs low_bit_attributes(const LowBits& weights) {
  GenericAttrs attrs{kLowBitMultiply, 1, {}};
  const auto add = [&](const char* name, int64_t value) {
    attrs.attributes.push_back({name, {value}, {}, {}});
  };
  add("columns", weights.columns);
  add("depth", weights.depth);
  add("bits", weights.bits);
  add("block", weights.block);
  add("zero",
      static_cast<int64_t>(weights.zero == DataType::kUndefined ? 0 : bits_of(weights.zero) / 8));
  add("codes_rows", weights.codes_rows ? 1 : 0);
  return attrs;
}

}  // namespace camshaft::ir
