// SPDX-License-Identifier: Apache-2.0
// Packing of whole texts.
#pragma once

#include <string>
#include <string_view>

namespace camshaft::trace {

// One whole gzip member. Level 1 is the fastest, 9 packs best.
std::string gzip(std::string_view text, int level);

}  // namespace camshaft::trace
