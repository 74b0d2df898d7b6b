// SPDX-License-Identifier: Apache-2.0
// Damaged events made readable: raw control characters, broken UTF-8, text that no JSON reader
// accepts.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace camshaft::trace {

// Calls `use` with every element of "[a,b,…]", by quotes and brackets alone.
void for_each_element(std::string_view array, const std::function<void(std::string_view)>& use);

// Appends `event` with control characters escaped and bytes that are not UTF-8 replaced by '?'.
void append_repaired(std::string& out, std::string_view event);

}  // namespace camshaft::trace
