// SPDX-License-Identifier: Apache-2.0
#include "cli/commands.h"

#include <fmt/core.h>

#include "camshaft/version.h"

namespace camshaft::cli {
namespace {

constexpr Command kCommands[] = {
    {"version", "", "print the version", version_command},
};

}  // namespace

std::span<const Command> commands() {
  return kCommands;
}

int version_command(std::span<char* const>) {
  fmt::print("camshaft {}\n", CAMSHAFT_VERSION);
  return 0;
}

}  // namespace camshaft::cli
