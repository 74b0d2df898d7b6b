// SPDX-License-Identifier: Apache-2.0
// Operators of domain com.microsoft that transformers are made of.
#pragma once

#include "onnx/node.h"

namespace camshaft::onnx_import {

std::span<const OperatorRow> contrib_operators();
// Those of them that are also written into the standard domain.
std::span<const OperatorRow> misplaced_operators();

}  // namespace camshaft::onnx_import
