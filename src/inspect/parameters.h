// SPDX-License-Identifier: Apache-2.0
// ParameterType and the parameters of a layer, in TensorRT's words where it has them.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "engine/engine.h"

namespace camshaft::inspect {

void add_parameters(nlohmann::ordered_json& object, const engine::Plan& plan,
                    const engine::PlanStep& step);

// "NONE", "RELU", "CLIPPED_RELU" …, "GENERIC" for any other epilogue.
std::string activation_name(const ir::Program& epilogue);

}  // namespace camshaft::inspect
