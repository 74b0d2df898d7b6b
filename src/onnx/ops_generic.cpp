// SPDX-License-Identifier: Apache-2.0
// Operators without a layer kind: they become Generic layers with their attributes as they are.
#include "onnx/node.h"

namespace camshaft::onnx_import {
namespace {

constexpr OperatorRow kOperators[] = {
    {"", nullptr},
};

}  // namespace

std::span<const OperatorRow> generic_operators() { return std::span<const OperatorRow>(kOperators).subspan(1); }

}  // namespace camshaft::onnx_import
