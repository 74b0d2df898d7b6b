// SPDX-License-Identifier: Apache-2.0
#include "ir/append_rows.h"

#include "ir/generic_attributes.h"

namespace camshaft::ir {

int64_t append_axis(const Layer& layer) {
  const auto* attrs = std::get_if<GenericAttrs>(&layer.attrs);
  if (!attrs || attrs->op_type != kAppendRows) return 0;
  const GenericAttribute* axis = find_attribute(*attrs, "axis");
  return axis && axis->ints.size() == 1 && axis->ints[0] > 0 ? axis->ints[0] : 0;
}

GenericAttrs append_attributes(int64_t axis) {
  return {kAppendRows, 1, {{"axis", {axis}, {}, ""}}};
}

}  // namespace camshaft::ir
