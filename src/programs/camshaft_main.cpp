// SPDX-License-Identifier: Apache-2.0
// The program `camshaft`: the commands of cli/ and the server.
#include "cli/program.h"
#include "serve/serve_command.h"
#ifdef CAMSHAFT_HAS_GRPC
#include "grpc/grpc_server.h"
#endif

namespace {

int serve(std::span<char* const> args) {
#ifdef CAMSHAFT_HAS_GRPC
  return camshaft::serve::serve_command(args, &camshaft::serve::make_grpc_server);
#else
  return camshaft::serve::serve_command(args, nullptr);
#endif
}

constexpr camshaft::cli::Command kMore[] = {
    {"serve", "REPOSITORY [--http 8000 --grpc 8001]",
     "a server of the Open Inference Protocol over a folder of models, batches explained", serve},
};

}  // namespace

int main(int argc, char** argv) {
  return camshaft::cli::camshaft(std::span<char* const>(argv, static_cast<size_t>(argc)), kMore);
}
