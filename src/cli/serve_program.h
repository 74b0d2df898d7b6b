// SPDX-License-Identifier: Apache-2.0
// `camshaft serve` is a program of its own, camshaft-serve: loading what only a server needs (gRPC,
// TLS) takes longer than most other commands do.
#pragma once

#include <filesystem>
#include <span>

#include "cli/commands.h"

namespace camshaft::cli {

// Its line in `camshaft help`.
constexpr Command serve_row(int (*run)(std::span<char* const> args)) {
  return {"serve", "REPOSITORY [--http 8000 --grpc 8001]",
          "a server of the Open Inference Protocol over a folder of models, batches explained",
          run};
}

// Becomes that program; returns, with an exit code, only where this fails.
int become_server(const std::filesystem::path& program, std::span<char* const> args);

}  // namespace camshaft::cli
