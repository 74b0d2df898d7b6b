// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

namespace camshaft::cli {

int sparsify_command(std::span<char* const> args);

}  // namespace camshaft::cli
