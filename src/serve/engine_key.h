// SPDX-License-Identifier: Apache-2.0
// The name of a model's engine in the cache.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "camshaft/status.h"

namespace camshaft::serve {

// Of every file's bytes, this machine, this version and `facts`.
Result<std::string> engine_key(const std::vector<std::filesystem::path>& files,
                               const std::string& facts);

}  // namespace camshaft::serve
