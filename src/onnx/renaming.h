// SPDX-License-Identifier: Apache-2.0
// Copies of nodes whose tensors have other names: bodies of functions and of loops that are written
// out.
#pragma once

#include <functional>

#include "onnx/model.h"

namespace camshaft::onnx_import {

using NewName = std::function<std::string(const std::string&)>;

// Every name but "", also in the graphs of the node.
NodeDef renamed(const NodeDef& node, const NewName& new_name);

// A node of a function's body with the call's attributes in place of references to them.
NodeDef bind_attributes(const NodeDef& node, const NodeDef& call);

}  // namespace camshaft::onnx_import
