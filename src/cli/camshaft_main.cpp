// SPDX-License-Identifier: Apache-2.0
#include "cli/program.h"

int main(int argc, char** argv) {
  return camshaft::cli::camshaft(std::span<char* const>(argv, static_cast<size_t>(argc)));
}
