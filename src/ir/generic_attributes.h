// SPDX-License-Identifier: Apache-2.0
// Attributes of Generic layers by name. Compiled once: kernels of all instruction sets call it.
#pragma once

#include <string_view>

#include "ir/attrs.h"

namespace camshaft::ir {

const GenericAttribute* find_attribute(const GenericAttrs& attrs,
                                       std::string_view name);  // or null

// All of its whole numbers; none where there is no such attribute.
const Ints& integers_attribute(const GenericAttrs& attrs, std::string_view name);

// The first number (or number k), the text; `fallback` where there is none.
int64_t integer_attribute(const GenericAttrs& attrs, std::string_view name, int64_t fallback,
                          size_t k = 0);
double real_attribute(const GenericAttrs& attrs, std::string_view name, double fallback);
std::string_view text_attribute(const GenericAttrs& attrs, std::string_view name,
                                std::string_view fallback);

}  // namespace camshaft::ir
