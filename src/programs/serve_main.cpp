// SPDX-License-Identifier: Apache-2.0
// The program `camshaft-serve`, which `camshaft serve` becomes.
#include "serve/serve_command.h"
#ifdef CAMSHAFT_HAS_GRPC
#include "grpc/grpc_server.h"
#endif

int main(int argc, char** argv) {
  const std::span<char* const> words(argv, static_cast<size_t>(argc));
#ifdef CAMSHAFT_HAS_GRPC
  return camshaft::serve::serve_command(words.subspan(1), &camshaft::serve::make_grpc_server);
#else
  return camshaft::serve::serve_command(words.subspan(1), nullptr);
#endif
}
