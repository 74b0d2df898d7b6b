// SPDX-License-Identifier: Apache-2.0
#include "ir/append_rows.h"

namespace camshaft::ir {

int64_t append_axis(const Layer& layer) {
  const auto* attrs = std::get_if<GenericAttrs>(&layer.attrs);
  if (!attrs || attrs->op_type != kAppendRows) return 0;
  for (const GenericAttribute& attribute : attrs->attributes)
    if (attribute.name == "axis" && attribute.ints.size() == 1 && attribute.ints[0] > 0)
      return attribute.ints[0];
  return 0;
}

GenericAttrs append_attributes(int64_t axis) {
  return {kAppendRows, 1, {{"axis", {axis}, {}, ""}}};
}

}  // namespace camshaft::ir
