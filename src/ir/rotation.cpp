// SPDX-License-Identifier: Apache-2.0
#include "ir/rotation.h"

namespace camshaft::ir {

int64_t rotated_half(const Layer& layer) {
  const auto* attrs = std::get_if<GenericAttrs>(&layer.attrs);
  if (!attrs || attrs->op_type != kRotation) return 0;
  for (const GenericAttribute& attribute : attrs->attributes)
    if (attribute.name == "half" && attribute.ints.size() == 1 && attribute.ints[0] > 0)
      return attribute.ints[0];
  return 0;
}

GenericAttrs rotation_attributes(int64_t half) {
  return {kRotation, 1, {{"half", {half}, {}, ""}}};
}

}  // namespace camshaft::ir
