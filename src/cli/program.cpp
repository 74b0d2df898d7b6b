// SPDX-License-Identifier: Apache-2.0
#include "cli/program.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "camshaft/version.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/terminal.h"

namespace camshaft::cli {
namespace {

std::vector<Command> all_commands(std::span<const Command> more) {
  std::vector<Command> all(commands().begin(), commands().end());
  all.insert(all.end() - 1, more.begin(), more.end());  // version comes last
  return all;
}

int print_help(std::span<const Command> commands) {
  fmt::print(
      "camshaft {}: optimizes, runs and explains ONNX networks\n\nusage: camshaft COMMAND "
      "[ARGUMENTS]\n\n",
      CAMSHAFT_VERSION);
  size_t width = 0;
  for (const Command& command : commands)
    width = std::max(width, std::string_view(command.name).size());
  for (const Command& command : commands) {
    fmt::print("  {}  {}\n", styled(fmt::format("{:<{}}", command.name, width), Style::kBold),
               command.summary);
  }
  fmt::print(
      "\n`camshaft COMMAND --help` lists a command's options; `camexec` takes "
      "trtexec's.\n");
  return 0;
}

int unknown_command(const std::string& word, std::span<const Command> commands) {
  std::vector<std::string> names;
  for (const Command& command : commands) names.emplace_back(command.name);
  const std::string near = nearest_word(names, word);
  if (near.empty())
    return fail(fmt::format("unknown command '{}'; `camshaft help` lists them", word));
  return fail(fmt::format("unknown command '{}'; did you mean '{}'?", word, near));
}

}  // namespace

int camshaft(std::span<char* const> argv, std::span<const Command> more) {
  const std::vector<Command> commands = all_commands(more);
  const auto words = argv.subspan(std::min<size_t>(argv.size(), 1));
  const std::string_view first = words.empty() ? "help" : words[0];
  if (first == "help" || first == "--help" || first == "-h") return print_help(commands);
  if (first == "--version") return version_command({});
  for (const Command& command : commands) {
    if (first == command.name) return command.run(words.subspan(1));
  }
  return unknown_command(std::string(first), commands);
}

}  // namespace camshaft::cli
