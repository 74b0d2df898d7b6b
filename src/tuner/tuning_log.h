// SPDX-License-Identifier: Apache-2.0
// What the tuner tries, what it takes and what it chooses, for the verbose log, in TensorRT's
// words.
#pragma once

#include <span>

#include "kernels/kernel.h"

namespace camshaft::tuner {

// A stable number for a tactic, as TensorRT's TacticValue.
uint64_t tactic_value(const kernels::Tactic& tactic);

// Tactics of one layer for one combination of formats with their microseconds, in that order.
// `title`: "Autotuning format combination", "Autotuning Reformat"; `runner`: whose they are.
void log_times(std::string_view title, std::string_view runner, const kernels::Problem& problem,
               std::span<const kernels::Tactic* const> tactics, std::span<const double> us);

}  // namespace camshaft::tuner
