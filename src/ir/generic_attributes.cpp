// SPDX-License-Identifier: Apache-2.0
#include "ir/generic_attributes.h"

namespace camshaft::ir {

const GenericAttribute* find_attribute(const GenericAttrs& attrs, std::string_view name) {
  for (const GenericAttribute& attribute : attrs.attributes)
    if (attribute.name == name) return &attribute;
  return nullptr;
}

const Ints& integers_attribute(const GenericAttrs& attrs, std::string_view name) {
  static const Ints kNone;
  const GenericAttribute* found = find_attribute(attrs, name);
  return found ? found->ints : kNone;
}

int64_t integer_attribute(const GenericAttrs& attrs, std::string_view name, int64_t fallback,
                          size_t k) {
  const Ints& all = integers_attribute(attrs, name);
  return k < all.size() ? all[k] : fallback;
}

double real_attribute(const GenericAttrs& attrs, std::string_view name, double fallback) {
  const GenericAttribute* found = find_attribute(attrs, name);
  return found && !found->floats.empty() ? static_cast<double>(found->floats[0]) : fallback;
}

std::string_view text_attribute(const GenericAttrs& attrs, std::string_view name,
                                std::string_view fallback) {
  const GenericAttribute* found = find_attribute(attrs, name);
  return found ? std::string_view(found->text) : fallback;
}

}  // namespace camshaft::ir
