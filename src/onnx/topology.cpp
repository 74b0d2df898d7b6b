// SPDX-License-Identifier: Apache-2.0
#include "onnx/topology.h"

#include <functional>
#include <queue>

namespace camshaft::onnx_import {
namespace {

// Names a graph inside a node takes from outside.
void collect_captured(const GraphDef& graph, std::unordered_set<std::string>& names);

void collect_used(const NodeDef& node, std::unordered_set<std::string>& names) {
  for (const std::string& input : node.inputs)
    if (!input.empty()) names.insert(input);
  for (const AttributeDef& attribute : node.attributes)
    if (attribute.graph) collect_captured(*attribute.graph, names);
}

void collect_captured(const GraphDef& graph, std::unordered_set<std::string>& names) {
  std::unordered_set<std::string> used;
  for (const NodeDef& node : graph.nodes) collect_used(node, used);
  for (const ValueDef& output : graph.outputs) used.insert(output.name);
  for (const NodeDef& node : graph.nodes)
    for (const std::string& output : node.outputs) used.erase(output);
  for (const ValueDef& input : graph.inputs) used.erase(input.name);
  for (const TensorDef& tensor : graph.initializers) used.erase(tensor.name);
  for (const SparseTensorDef& tensor : graph.sparse_initializers) used.erase(tensor.values.name);
  names.insert(used.begin(), used.end());
}

Status invalid(std::string text) {
  return Status(ErrorCode::kInvalidModel, std::move(text));
}

// The nodes of one cycle among those that were never ready.
std::string describe_cycle(const std::vector<NodeDef>& nodes,
                           const std::vector<std::vector<size_t>>& needs,
                           const std::vector<int>& open, const std::string& prefix) {
  size_t at = 0;
  while (open[at] == 0) ++at;
  std::vector<bool> seen(nodes.size());
  const auto next = [&](size_t node) {
    for (size_t other : needs[node])
      if (open[other] > 0) return other;
    return node;
  };
  while (!seen[at]) {
    seen[at] = true;
    at = next(at);
  }
  std::string text = node_name(nodes[at], at, prefix);
  int shown = 0;
  for (size_t node = next(at); node != at && shown < 8; node = next(node), ++shown)
    text += " ← " + node_name(nodes[node], node, prefix);
  return text + " ← …";
}

}  // namespace

std::string node_name(const NodeDef& node, size_t position, const std::string& prefix) {
  return prefix + (node.name.empty() ? fmt::format("{}_{}", node.op_type, position) : node.name);
}

Result<std::vector<size_t>> topological_order(const Scope& scope,
                                              const std::vector<NodeDef>& nodes) {
  std::unordered_map<std::string, size_t> producer;
  for (size_t k = 0; k < nodes.size(); ++k)
    for (const std::string& output : nodes[k].outputs) {
      if (output.empty()) continue;
      const auto [entry, added] = producer.emplace(output, k);
      if (!added)
        return invalid(fmt::format("tensor \"{}\" is made by two nodes: {} and {}", output,
                                   node_name(nodes[entry->second], entry->second, scope.prefix),
                                   node_name(nodes[k], k, scope.prefix)));
    }
  std::vector<std::vector<size_t>> needs(nodes.size()), feeds(nodes.size());
  std::vector<int> open(nodes.size());
  for (size_t k = 0; k < nodes.size(); ++k) {
    std::unordered_set<std::string> names;
    collect_used(nodes[k], names);
    for (const std::string& name : names) {
      const auto made = producer.find(name);
      if (made == producer.end()) {
        if (!scope.knows(name))
          return invalid(
              fmt::format("node {} ({}): tensor \"{}\" is not made by any node, and is neither an "
                          "input nor an initializer",
                          node_name(nodes[k], k, scope.prefix), nodes[k].op_type, name));
        continue;
      }
      needs[k].push_back(made->second);
      feeds[made->second].push_back(k);
      ++open[k];
    }
  }
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  for (size_t k = 0; k < nodes.size(); ++k)
    if (open[k] == 0) ready.push(k);
  std::vector<size_t> order;
  while (!ready.empty()) {
    const size_t k = ready.top();
    ready.pop();
    order.push_back(k);
    for (size_t follower : feeds[k])
      if (--open[follower] == 0) ready.push(follower);
  }
  if (order.size() != nodes.size())
    return invalid(fmt::format("the nodes form a cycle: {}",
                               describe_cycle(nodes, needs, open, scope.prefix)));
  return order;
}

}  // namespace camshaft::onnx_import
