// SPDX-License-Identifier: Apache-2.0
// Optimization profiles: completed from the model, checked against it, turned into symbol values.
#pragma once

#include "engine/engine.h"
#include "runtime/schedule.h"

namespace camshaft::tuner {

enum class ProfilePoint { kMin, kOpt, kMax };

// Every input of the graph in every profile: those the user left out get the model's extents
// (dynamic ones 1, with a warning).
Result<std::vector<engine::Profile>> complete_profiles(const ir::Graph& graph,
                                                       const std::vector<engine::Profile>& wanted);

// Values of all symbols at a point of a profile. Symbols only running can tell get an estimate, so
// that problems can be timed.
Result<runtime::Bindings> bindings_at(const ir::Graph& graph, const engine::Profile& profile,
                                      ProfilePoint point);

}  // namespace camshaft::tuner
