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
// What the original's triggers miss; for page and terminal.
std::vector<Advice> advise_more(const Profile& profile);
// What makes the collectives of this profile shorter, by what most of their time is; with links.
std::string lower_transfers(const Profile& profile);
std::string without_tags(const std::string& html);
std::string advice_html(const std::vector<Advice>& advice);  // "<ul><li>N/A</li></ul>" when empty

}  // namespace camshaft::trace
