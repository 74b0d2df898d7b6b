// SPDX-License-Identifier: Apache-2.0
#include "cli/serve_program.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cli/terminal.h"

namespace camshaft::cli {

int become_server(const std::filesystem::path& program, std::span<char* const> args) {
  std::string name = program.string();
  std::vector<char*> argv = {name.data()};
  argv.insert(argv.end(), args.begin(), args.end());
  argv.push_back(nullptr);
  ::execv(name.c_str(), argv.data());
  return fail(fmt::format("serve: {}: {}", name, std::strerror(errno)));
}

}  // namespace camshaft::cli
