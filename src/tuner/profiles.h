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

// What symbols that only running can tell are taken for, so that problems can be timed; and
// something else, to see what depends on the guess.
inline constexpr int64_t kRuntimeExtentEstimate = 16, kOtherExtentEstimate = 40;

// Values of all symbols at a point of a profile.
Result<runtime::Bindings> bindings_at(const ir::Graph& graph, const engine::Profile& profile,
                                      ProfilePoint point,
                                      int64_t runtime_extent = kRuntimeExtentEstimate);

// Every layer whose extents the profile decides takes its inputs there; the error names the first
// that does not.
Status check_layers(const ir::Graph& graph, const runtime::Bindings& bindings, size_t profile,
                    ProfilePoint point);

}  // namespace camshaft::tuner
