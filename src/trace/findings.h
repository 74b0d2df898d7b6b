// SPDX-License-Identifier: Apache-2.0
// What stands out in a profile, in words, each with the figure it rests on.
#pragma once

#include <string>
#include <vector>

#include "trace/insights.h"

namespace camshaft::trace {

std::vector<Finding> find_findings(const Profile& profile, const Insights& insights);

// "3.40 s", "59.0 ms", "17 us".
std::string time_text(double us);

}  // namespace camshaft::trace
