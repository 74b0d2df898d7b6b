// SPDX-License-Identifier: Apache-2.0
// A random graph with its shapes, the same for the same seed on every machine.
#pragma once

#include <map>
#include <string>

#include "fuzz/graphs/graph_case.h"

namespace camshaft::fuzz {

Case random_case(uint64_t seed);

// How often each row of the makers' tables has made something since the process began.
const std::map<std::string, long>& maker_counts();

}  // namespace camshaft::fuzz
