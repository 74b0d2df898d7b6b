// SPDX-License-Identifier: Apache-2.0
// The subcommands of `camshaft`. Each gets the words after its name and returns the exit code: 0
// done, 1 failed.
#pragma once

#include <span>

namespace camshaft::cli {

struct Command {
  const char* name;
  const char* usage;    // what follows the name: "MODEL.onnx -o FILE"
  const char* summary;  // one line of `camshaft help`
  int (*run)(std::span<char* const> args);
};

// The table in commands.cpp, in the order help shows it. A new subcommand: one row there, one
// declaration here.
std::span<const Command> commands();

int build_command(std::span<char* const> args);
int run_command(std::span<char* const> args);
int bench_command(std::span<char* const> args);
int inspect_command(std::span<char* const> args);
int explain_command(std::span<char* const> args);
int trace_command(std::span<char* const> args);
int view_command(std::span<char* const> args);
int quantize_command(std::span<char* const> args);
int verify_command(std::span<char* const> args);
int version_command(std::span<char* const> args);

}  // namespace camshaft::cli
