// SPDX-License-Identifier: Apache-2.0
// Which inputs of an ONNX operator must have one type.
#pragma once

#include <span>
#include <string_view>

#include "camshaft/status.h"
#include "ir/graph.h"

namespace camshaft::onnx_import {

// Of an operator of the standard domain; inputs left out are null.
Status check_input_types(std::string_view op_type, std::span<const ir::Tensor* const> inputs);

}  // namespace camshaft::onnx_import
