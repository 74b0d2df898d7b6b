// SPDX-License-Identifier: Apache-2.0
#include "cli/camexec.h"

int main(int argc, char** argv) {
  return camshaft::cli::camexec(std::span<char* const>(argv, static_cast<size_t>(argc)));
}
