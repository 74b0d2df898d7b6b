// SPDX-License-Identifier: Apache-2.0
// ParameterType and the parameters of a layer, in TensorRT's words where it has them.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "engine/engine.h"

namespace camshaft::inspect {

void add_parameters(nlohmann::ordered_json& object, const engine::Plan& plan,
                    const engine::PlanStep& step);

// A PointWise layer that only changes between real values and codes, or from one scale to another:
// TensorRT's Reformat of origin QDQ.
bool is_quantization_copy(const engine::Plan& plan, const engine::PlanStep& step);

// "NONE", "RELU", "CLIPPED_RELU" …, "GENERIC" for any other epilogue.
std::string activation_name(const ir::Program& epilogue);
// The same of a quantized layer: what scales its sums and makes codes of the result is no
// activation.
std::string quantized_activation_name(const ir::Program& epilogue);

}  // namespace camshaft::inspect
