// SPDX-License-Identifier: Apache-2.0
// SequenceMap: a graph that is run for every element (PyTorch's hstack, vstack and dstack).
#include "onnx/sequence_lowering.h"

namespace camshaft::onnx_import {

// The Loop that the standard writes it as: iteration i reads element i of every sequence and
// appends to what it makes.
std::string Lowering::map(const NodeDef& node) {
  const AttributeDef* attribute = graph_of(node, "body");
  if (!attribute || node.inputs.empty() || attribute->graph->inputs.size() != node.inputs.size() ||
      attribute->graph->outputs.size() < node.outputs.size())
    return "its graph has another number of inputs or outputs";
  const Sequence* first = find(node.inputs[0]);
  if (!first) return kNotKnown;
  if (first->empty()) {
    for (const std::string& output : node.outputs) set(output, {});
    return {};
  }
  const std::string count = fresh(node, "length");
  if (std::string reason = length({node.name, "SequenceLength", "", {node.inputs[0]}, {count}, {}});
      !reason.empty())
    return reason;

  GraphDef body = *attribute->graph;
  const std::string number = fresh(node, "iteration"), condition = fresh(node, "condition");
  std::vector<NodeDef> elements;
  for (size_t k = 0; k < node.inputs.size(); ++k) {
    const std::string &from = node.inputs[k], &to = body.inputs[k].name;
    if (find(from))
      elements.push_back({node.name, "SequenceAt", "", {from, number}, {to}, {}});
    else
      elements.push_back({node.name, "Identity", "", {from}, {to}, {}});
  }
  body.nodes.insert(body.nodes.begin(), elements.begin(), elements.end());
  body.inputs = {value(number), value(condition)};
  NodeDef loop_node{node.name, "Loop", "", {count, ""}, node.outputs, {*attribute}};
  const std::vector<ValueDef> made = std::move(body.outputs);
  body.outputs = {value(condition)};
  for (size_t k = 0; k < node.outputs.size(); ++k) {
    loop_node.inputs.push_back(fresh(node, "none"));
    set(loop_node.inputs.back(), {});
    const std::string before = fresh(node, "before"), after = fresh(node, "after");
    body.inputs.push_back(value(before));
    body.nodes.push_back({node.name, "SequenceInsert", "", {before, made[k].name}, {after}, {}});
    body.outputs.push_back(value(after));
  }
  set_graph(loop_node, "body", std::move(body));
  return loop(loop_node);
}

}  // namespace camshaft::onnx_import
