// SPDX-License-Identifier: Apache-2.0
// Recommendations: a rule, the figure it rests on, and what to try.
#pragma once

#include <string>
#include <vector>

#include "trace/profile.h"

namespace camshaft::trace {

struct Advice {
  int rule = 0;       // 1…7, as the original had them
  double figure = 0;  // what the rule rests on
  std::string text;   // plain
  std::string html;   // the same with links, for the overview
};

// `figures`: of the profile, or of it as one step.
std::vector<Advice> advise(const Profile& profile, const StepFigures& figures);
std::string advice_html(const std::vector<Advice>& advice);  // "<ul><li>N/A</li></ul>" when empty

}  // namespace camshaft::trace
