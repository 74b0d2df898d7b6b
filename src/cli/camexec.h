// SPDX-License-Identifier: Apache-2.0
// camexec: trtexec's command line over Camshaft.
#pragma once

#include <span>

namespace camshaft::cli {

// The whole program: `words` are argv. Returns the exit code: 0 PASSED or help, 1 FAILED.
int camexec(std::span<char* const> words);

}  // namespace camshaft::cli
