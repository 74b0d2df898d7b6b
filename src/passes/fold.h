// SPDX-License-Identifier: Apache-2.0
// Evaluating a layer of constants now; shared by the folding passes.
#pragma once

#include <optional>
#include <string>

#include "ir/graph.h"
#include "ir/rewriter.h"
#include "kernels/interpreter.h"

namespace camshaft::passes {

bool has_constant_inputs(const ir::Layer& layer);
// The results become constants of that name (of the outputs' names where it is empty); the layer
// stays, without uses. False: the reference kernel refused, which is on record.
bool evaluate_now(ir::Rewriter& rewriter, ir::Layer* layer, const std::string& name);
// Makes a constant of `tensor` where layers, Dequantize layers among them, make it from constants
// alone; gives it. Null: it depends on something else, or a kernel refused.
ir::Tensor* evaluate_chain(ir::Rewriter& rewriter, const ir::Layer& reader, size_t input);

// What such a tensor holds, the graph as it is. Empty: as above.
std::optional<kernels::Value> value_of_constants(const ir::Tensor& tensor);

}  // namespace camshaft::passes
