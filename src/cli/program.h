// SPDX-License-Identifier: Apache-2.0
// camshaft: the friendly face of the library, one subcommand per job.
#pragma once

#include <span>

#include "cli/commands.h"

namespace camshaft::cli {

// The whole program: dispatches to the subcommand and returns its exit code. `more`: commands that
// lie in folders above this one.
int camshaft(std::span<char* const> argv, std::span<const Command> more = {});

}  // namespace camshaft::cli
