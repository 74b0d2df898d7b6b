// SPDX-License-Identifier: Apache-2.0
#include "onnx/renaming.h"

namespace camshaft::onnx_import {
namespace {

void rename(std::string& name, const NewName& new_name) {
  if (!name.empty()) name = new_name(name);
}

GraphDef renamed(const GraphDef& graph, const NewName& new_name) {
  GraphDef copy = graph;
  for (ValueDef& value : copy.inputs) rename(value.name, new_name);
  for (ValueDef& value : copy.outputs) rename(value.name, new_name);
  for (TensorDef& tensor : copy.initializers) rename(tensor.name, new_name);
  for (SparseTensorDef& tensor : copy.sparse_initializers) rename(tensor.values.name, new_name);
  for (NodeDef& node : copy.nodes) node = renamed(node, new_name);
  return copy;
}

}  // namespace

NodeDef renamed(const NodeDef& node, const NewName& new_name) {
  NodeDef copy = node;
  for (std::string& name : copy.inputs) rename(name, new_name);
  for (std::string& name : copy.outputs) rename(name, new_name);
  for (AttributeDef& attribute : copy.attributes)
    if (attribute.graph)
      attribute.graph = std::make_shared<GraphDef>(renamed(*attribute.graph, new_name));
  return copy;
}

NodeDef bind_attributes(const NodeDef& node, const NodeDef& call) {
  NodeDef bound = node;
  std::vector<AttributeDef> attributes;
  for (const AttributeDef& attribute : node.attributes) {
    AttributeDef copy = attribute;
    if (attribute.graph) {
      auto graph = std::make_shared<GraphDef>(*attribute.graph);
      for (NodeDef& inner : graph->nodes) inner = bind_attributes(inner, call);
      copy.graph = std::move(graph);
    }
    if (attribute.reference.empty()) {
      attributes.push_back(std::move(copy));
      continue;
    }
    for (const AttributeDef& given : call.attributes) {
      if (given.name != attribute.reference) continue;
      attributes.push_back(given);
      attributes.back().name = attribute.name;
    }
  }
  bound.attributes = std::move(attributes);
  return bound;
}

}  // namespace camshaft::onnx_import
