// SPDX-License-Identifier: Apache-2.0
// Calls of functions whose bodies work on sequences become those bodies: sequences are taken apart
// by name, in one graph.
#include <map>
#include <unordered_map>

#include <fmt/format.h>

#include "onnx/renaming.h"
#include "onnx/sequences.h"

namespace camshaft::onnx_import {
namespace {

constexpr int kMostDepth = 64;
constexpr int64_t kMostNodes = 200'000;  // of a few functions that call each other

bool is_sequence_operator(const NodeDef& node) {
  return node.domain.empty() &&
         (node.op_type.starts_with("Sequence") || node.op_type == "SplitToSequence" ||
          node.op_type == "ConcatFromSequence");
}

class Inliner {
 public:
  explicit Inliner(const Model& model) : model_(model) {
    for (const FunctionDef& function : model.functions)
      functions_[{function.domain, function.name}] = &function;
  }

  bool is_needed(const std::vector<NodeDef>& nodes, int depth = 0) {
    for (const NodeDef& node : nodes) {
      if (const FunctionDef* function = called(node); function && uses(*function, depth))
        return true;
      for (const AttributeDef& attribute : node.attributes)
        if (attribute.graph && is_needed(attribute.graph->nodes, depth)) return true;
    }
    return false;
  }

  GraphDef inlined(const GraphDef& graph, int depth = 0) {
    GraphDef result = graph;
    result.nodes = inlined(graph.nodes, depth);
    return result;
  }

 private:
  const FunctionDef* called(const NodeDef& node) const {
    const auto found = functions_.find({node.domain, node.op_type});
    return found == functions_.end() ? nullptr : found->second;
  }

  static bool has_operators(const std::vector<NodeDef>& nodes) {
    for (const NodeDef& node : nodes) {
      if (is_sequence_operator(node)) return true;
      for (const AttributeDef& attribute : node.attributes)
        if (attribute.graph && has_operators(attribute.graph->nodes)) return true;
    }
    return false;
  }

  // The function works on sequences, itself or by those it calls. In a circle it does not.
  bool uses(const FunctionDef& function, int depth) {
    const auto [found, added] = uses_.emplace(&function, false);
    if (!added || depth > kMostDepth) return found->second;
    const bool result = has_same_operators(function) &&
                        (has_operators(function.nodes) || is_needed(function.nodes, depth + 1));
    return uses_[&function] = result;
  }

  // Its nodes mean in the model what they mean in the function.
  bool has_same_operators(const FunctionDef& function) const {
    for (const OpsetDef& opset : function.opsets)
      for (const OpsetDef& other : model_.opsets)
        if (opset.domain == other.domain && opset.version != other.version) return false;
    return true;
  }

  std::vector<NodeDef> inlined(const std::vector<NodeDef>& nodes, int depth) {
    std::vector<NodeDef> result;
    for (const NodeDef& node : nodes) {
      const FunctionDef* function = called(node);
      if (function && depth < kMostDepth && made_ < kMostNodes && uses(*function, 0) &&
          node.inputs.size() <= function->inputs.size() &&
          node.outputs.size() <= function->outputs.size()) {
        for (NodeDef& inner : inlined(body_of(*function, node), depth + 1))
          result.push_back(std::move(inner));
        continue;
      }
      result.push_back(node);
      for (AttributeDef& attribute : result.back().attributes)
        if (attribute.graph)
          attribute.graph = std::make_shared<GraphDef>(inlined(*attribute.graph, depth));
    }
    return result;
  }

  std::vector<NodeDef> body_of(const FunctionDef& function, const NodeDef& call) {
    std::unordered_map<std::string, std::string> names;
    // An input that the call leaves out is absent inside, too.
    for (size_t k = 0; k < function.inputs.size(); ++k)
      names[function.inputs[k]] = k < call.inputs.size() ? call.inputs[k] : "";
    for (size_t k = 0; k < call.outputs.size(); ++k)
      if (!call.outputs[k].empty() && !names.count(function.outputs[k]))
        names[function.outputs[k]] = call.outputs[k];
    const std::string prefix = fmt::format("{} ({})/", function.name, count_++);
    const NewName new_name = [&](const std::string& name) {
      const auto found = names.find(name);
      return found != names.end() ? found->second : prefix + name;
    };
    std::vector<NodeDef> nodes;
    for (const NodeDef& node : function.nodes) {
      nodes.push_back(renamed(bind_attributes(node, call), new_name));
      if (!call.name.empty() && !node.name.empty()) nodes.back().name = call.name + "/" + node.name;
    }
    for (size_t k = 0; k < call.outputs.size(); ++k)  // what it hands on as it is, or twice
      if (!call.outputs[k].empty() && new_name(function.outputs[k]) != call.outputs[k])
        nodes.push_back(
            {call.name, "Identity", "", {new_name(function.outputs[k])}, {call.outputs[k]}, {}});
    made_ += static_cast<int64_t>(nodes.size());
    return nodes;
  }

  const Model& model_;
  std::map<std::pair<std::string, std::string>, const FunctionDef*> functions_;
  std::unordered_map<const FunctionDef*, bool> uses_;
  int count_ = 0;
  int64_t made_ = 0;
};

}  // namespace

std::shared_ptr<const GraphDef> with_sequence_functions(const Model& model) {
  if (model.functions.empty()) return model.graph;
  Inliner inliner(model);
  if (!inliner.is_needed(model.graph->nodes)) return model.graph;
  return std::make_shared<GraphDef>(inliner.inlined(*model.graph));
}

}  // namespace camshaft::onnx_import
