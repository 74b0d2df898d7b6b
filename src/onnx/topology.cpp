// SPDX-License-Identifier: Apache-2.0
#include "onnx/topology.h"

#include <functional>
#include <queue>

#include "onnx/errors.h"

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

struct Dependencies {
  std::vector<std::vector<size_t>> needs, feeds;  // per node
  std::vector<int> open;                          // how many of those a node needs are to come
};

std::unordered_map<std::string, size_t> producers_of(const std::vector<NodeDef>& nodes) {
  std::unordered_map<std::string, size_t> producers;
  for (size_t k = 0; k < nodes.size(); ++k)
    for (const std::string& output : nodes[k].outputs)
      if (!output.empty()) producers.emplace(output, k);
  return producers;
}

// `is_known`: whether a tensor that no node makes is there, asked with the node that reads it.
template <class IsKnown>
Result<Dependencies> dependencies_of(const std::vector<NodeDef>& nodes, const IsKnown& is_known) {
  const auto producers = producers_of(nodes);
  Dependencies result{std::vector<std::vector<size_t>>(nodes.size()),
                      std::vector<std::vector<size_t>>(nodes.size()),
                      std::vector<int>(nodes.size())};
  for (size_t k = 0; k < nodes.size(); ++k) {
    std::unordered_set<std::string> names;
    collect_used(nodes[k], names);
    for (const std::string& name : names) {
      const auto made = producers.find(name);
      if (made == producers.end()) {
        CAMSHAFT_TRY(is_known(k, name));
        continue;
      }
      result.needs[k].push_back(made->second);
      result.feeds[made->second].push_back(k);
      ++result.open[k];
    }
  }
  return result;
}

// Leaves in `open` what waits for itself.
std::vector<size_t> ordered(Dependencies& d) {
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  for (size_t k = 0; k < d.open.size(); ++k)
    if (d.open[k] == 0) ready.push(k);
  std::vector<size_t> order;
  while (!ready.empty()) {
    const size_t k = ready.top();
    ready.pop();
    order.push_back(k);
    for (size_t follower : d.feeds[k])
      if (--d.open[follower] == 0) ready.push(follower);
  }
  return order;
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

std::vector<size_t> dependency_order(const std::vector<NodeDef>& nodes) {
  Dependencies d =
      dependencies_of(nodes, [](size_t, const std::string&) { return ok_status(); }).value();
  std::vector<size_t> order = ordered(d);
  for (size_t k = 0; k < nodes.size(); ++k)
    if (d.open[k] > 0) order.push_back(k);
  return order;
}

Result<std::vector<size_t>> topological_order(const Scope& scope,
                                              const std::vector<NodeDef>& nodes) {
  const auto name_of = [&](size_t k) { return node_name(nodes[k], k, scope.prefix); };
  std::unordered_map<std::string_view, size_t> makers;
  for (size_t k = 0; k < nodes.size(); ++k)
    for (const std::string& output : nodes[k].outputs)
      if (const auto [entry, added] = makers.emplace(output, k); !output.empty() && !added)
        return invalid("tensor \"{}\" is made by two nodes: {} and {}", output,
                       name_of(entry->second), name_of(k));
  CAMSHAFT_ASSIGN(Dependencies d, dependencies_of(nodes, [&](size_t k, const std::string& name) {
                    return scope.knows(name)
                               ? ok_status()
                               : invalid(
                                     "node {} ({}): tensor \"{}\" is not made by any node, and is "
                                     "neither an input nor an initializer",
                                     name_of(k), nodes[k].op_type, name);
                  }));
  std::vector<size_t> order = ordered(d);
  if (order.size() != nodes.size())
    return invalid("the nodes form a cycle: {}",
                   describe_cycle(nodes, d.needs, d.open, scope.prefix));
  return order;
}

}  // namespace camshaft::onnx_import
