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

bool turns_neighbours(const Layer& rotation) {
  const GenericAttribute* found = find_attribute(rotation.as<GenericAttrs>(), "interleaved");
  return found && found->ints.size() == 1 && found->ints[0] != 0;
}

GenericAttrs rotation_attributes(int64_t half, bool interleaved) {
  GenericAttrs attrs{kRotation, 1, {{"half", {half}, {}, ""}}};
  if (interleaved) attrs.attributes.push_back({"interleaved", {1}, {}, ""});
  return attrs;
}

}  // namespace camshaft::ir
