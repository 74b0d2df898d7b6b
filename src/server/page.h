// SPDX-License-Identifier: Apache-2.0
// The files of the built page, held in the program.
#pragma once

#include <string>

#include "server/api.h"

namespace camshaft::server {

// "/" is index.html; 404 for what the page does not have.
Answer page_file(const std::string& path);

}  // namespace camshaft::server
