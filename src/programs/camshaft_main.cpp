// SPDX-License-Identifier: Apache-2.0
// The program `camshaft`: the commands of cli/, and the server, which lies beside it.
#include "cli/program.h"
#include "cli/serve_program.h"

namespace {

int serve(std::span<char* const> args) {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  return camshaft::cli::become_server(self.parent_path() / "camshaft-serve", args);
}

constexpr camshaft::cli::Command kMore[] = {camshaft::cli::serve_row(serve)};

}  // namespace

int main(int argc, char** argv) {
  return camshaft::cli::camshaft(std::span<char* const>(argv, static_cast<size_t>(argc)), kMore);
}
