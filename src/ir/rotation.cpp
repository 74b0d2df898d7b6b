// SPDX-License-Identifier: Apache-2.0
#include "ir/rotation.h"

#include "ir/generic_attributes.h"

namespace camshaft::ir {

int64_t rotated_half(const Layer& layer) {
  const auto* attrs = std::get_if<GenericAttrs>(&layer.attrs);
  if (!attrs || attrs->op_type != kRotation) return 0;
  const GenericAttribute* half = find_attribute(*attrs, "half");
  return half && half->ints.size() == 1 && half->ints[0] > 0 ? half->ints[0] : 0;
}

GenericAttrs rotation_attributes(int64_t half) {
  return {kRotation, 1, {{"half", {half}, {}, ""}}};
}

}  // namespace camshaft::ir
