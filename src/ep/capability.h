// SPDX-License-Identifier: Apache-2.0
// Which nodes of a graph engines will run, and why not the others.
#pragma once

#include <string>
#include <vector>

#include "ep/graph_reader.h"

namespace camshaft::ep {

struct LeftNode {
  size_t node;
  std::string reason;
};

struct Capability {
  std::vector<std::vector<size_t>> parts;  // each becomes one node
  std::vector<LeftNode> left;
};

inline constexpr const char* kEpName = "CamshaftExecutionProvider";

// `min_nodes`: smaller parts are not worth their entry and exit, unless they are the whole graph.
Capability find_capability(const Host& host, const ReadGraph& graph, size_t min_nodes);

// An EPContext node that this provider wrote.
bool is_own_context_node(const onnx_import::NodeDef& node);

}  // namespace camshaft::ep
