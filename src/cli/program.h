// SPDX-License-Identifier: Apache-2.0
// camshaft: the friendly face of the library, one subcommand per job.
#pragma once

#include <span>

namespace camshaft::cli {

// The whole program: dispatches to the subcommand and returns its exit code.
int camshaft(std::span<char* const> argv);

}  // namespace camshaft::cli
