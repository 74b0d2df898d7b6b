// SPDX-License-Identifier: Apache-2.0
// The order in which the nodes of a graph can be imported.
#pragma once

#include "onnx/scope.h"

namespace camshaft::onnx_import {

// Name of a node for messages and layers: its own, or "Conv_12" after its position.
std::string node_name(const NodeDef& node, size_t position, const std::string& prefix);

// Positions of `nodes`, every one after those of them it depends on, otherwise as in the file; the
// nodes of cycles last. Of tensors that two nodes make, the first counts.
std::vector<size_t> dependency_order(const std::vector<NodeDef>& nodes);

// Positions of `nodes`, every one after those it depends on, otherwise as in the file. Errors: a
// tensor that nobody makes, one that two nodes make, a cycle.
Result<std::vector<size_t>> topological_order(const Scope& scope,
                                              const std::vector<NodeDef>& nodes);

}  // namespace camshaft::onnx_import
