// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "camshaft/builder.h"

namespace camshaft::cli {

// "disable", "enable" or "force", as the option tables have checked.
inline Sparsity parse_sparsity(std::string_view word) {
  return word == "force"    ? Sparsity::kForce
         : word == "enable" ? Sparsity::kEnable
                            : Sparsity::kDisable;
}

}  // namespace camshaft::cli
