// SPDX-License-Identifier: Apache-2.0
// Which steps extents that an application gives may contradict: two inputs that should be of one
// length and are not, a window that does not fit, a reshape that does not come out even. Those are
// looked at whenever a schedule is made for new extents (check_extents). Most steps of a network
// need no look: their operands have the extents of the result, as the same expressions.
#pragma once

#include "engine/engine.h"

namespace camshaft::runtime {

bool has_open_extents(const engine::Plan& plan, const engine::PlanStep& step);

}  // namespace camshaft::runtime
