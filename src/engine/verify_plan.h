// SPDX-License-Identifier: Apache-2.0
// Checks a plan that came from a file: every index, range and relation the runtime relies on.
#pragma once

#include "engine/engine.h"

namespace camshaft::engine {

Status verify_plan(const Plan& plan, size_t weights_bytes);
Status verify_profiles(const Plan& plan, const std::vector<Profile>& profiles);

}  // namespace camshaft::engine
