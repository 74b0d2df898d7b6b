// SPDX-License-Identifier: Apache-2.0
// Conditions over named figures, for CI: "gpu0.utilization_percent < 50 || step.average_us > 2 *
// 90000".
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace camshaft::trace {

using Figures = std::vector<std::pair<std::string, double>>;

// Numbers, names, + - * /, comparisons (< <= > >= == !=), && and ||, parentheses. An unknown name
// is an error that names the nearest known ones.
Result<bool> holds(std::string_view condition, const Figures& figures);

}  // namespace camshaft::trace
