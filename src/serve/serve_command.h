// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "serve/front_end.h"

namespace camshaft::serve {

// `camshaft serve`; `grpc` is null where the program was built without it.
int serve_command(std::span<char* const> args, MakeFrontEnd grpc);

}  // namespace camshaft::serve
