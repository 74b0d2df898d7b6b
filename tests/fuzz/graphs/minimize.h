// SPDX-License-Identifier: Apache-2.0
// Makes a failing graph smaller while it fails in the same way.
#pragma once

#include <functional>

#include "fuzz/graphs/graph_case.h"

namespace camshaft::fuzz {

// `fails` says whether a smaller case still does; `most_checks` bounds how often it is asked.
Case minimize(Case test, const std::function<bool(const Case&)>& fails, int most_checks = 2000);

}  // namespace camshaft::fuzz
