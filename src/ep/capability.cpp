// SPDX-License-Identifier: Apache-2.0
#include "ep/capability.h"

#include <algorithm>

#include "ep/partition.h"
#include "kernels/kernel.h"
#include "onnx/importer.h"
#include "onnx/tensor_data.h"

namespace camshaft::ep {
namespace {

class Finder {
 public:
  Finder(const Host& host, const ReadGraph& graph, size_t min_nodes)
      : host_(host), graph_(graph), min_nodes_(min_nodes), reasons_(graph.nodes.size()) {
    link_nodes();
  }

  Capability find() {
    for (size_t k = 0; k < graph_.nodes.size(); ++k) check_node(k);
    // Together first: that names most of what is not supported in one go.
    std::vector<size_t> candidates = supported();
    while (!candidates.empty() && !try_import(candidates)) candidates = supported();
    std::vector<std::vector<size_t>> parts = cut();
    // A part alone knows less of its shapes and values.
    while (!std::all_of(parts.begin(), parts.end(), [&](const std::vector<size_t>& part) {
      return part.size() == candidates.size() || try_import(part);
    })) {
      parts = cut();
      candidates.clear();
    }
    return result(std::move(parts));
  }

 private:
  void link_nodes() {
    std::unordered_map<std::string, size_t> producers;
    for (size_t k = 0; k < graph_.nodes.size(); ++k) {
      PartNode& part = parts_.emplace_back();
      const GraphNode& node = graph_.nodes[k];
      for (const auto* names : {&node.def.inputs, &node.captured})
        for (const std::string& name : *names)
          if (const auto found = producers.find(name); found != producers.end())
            part.needs.push_back(found->second);
      for (const std::string& output : node.def.outputs) producers.emplace(output, k);
    }
  }

  std::vector<size_t> supported() const {
    std::vector<size_t> nodes;
    for (size_t k = 0; k < reasons_.size(); ++k)
      if (reasons_[k].empty()) nodes.push_back(k);
    return nodes;
  }

  std::string value_refusal(const std::string& name) const {
    const auto found = graph_.values.find(name);
    if (name.empty() || found == graph_.values.end()) return "";
    const onnx_import::ValueDef& value = found->second.def;
    if (value.kind.empty()) return fmt::format("the type of {} is not known", name);
    if (value.kind != "tensor")
      return fmt::format("{} is a {}: only tensors are supported", name, value.kind);
    const auto type = onnx_import::element_type(value.data_type);
    return type.ok() ? "" : fmt::format("{}: {}", name, type.status().message());
  }

  // What can be told of a node without importing it.
  void check_node(size_t k) {
    const GraphNode& node = graph_.nodes[k];
    if (!node.taken_by.empty()) reasons_[k] = "taken by " + node.taken_by;
    if (is_own_context_node(node.def)) contexts_.push_back(k);
    if (is_own_context_node(node.def)) reasons_[k] = "an engine";
    for (const auto* names : {&node.def.inputs, &node.def.outputs, &node.captured})
      for (const std::string& name : *names)
        if (reasons_[k].empty()) reasons_[k] = value_refusal(name);
  }

  // False: some of the nodes have reasons now.
  bool try_import(const std::vector<size_t>& nodes) {
    const Result<onnx_import::Model> model = make_model(host_, graph_, nodes);
    std::vector<onnx_import::UnsupportedPart> unsupported;
    Status status = model.status();
    if (status.ok() && model->graph->outputs.empty())
      status = Status(ErrorCode::kUnsupported, "nobody uses what it makes");
    if (status.ok())
      status = onnx_import::import_model(*model, {}, {kernels::has_generic_kernel, &unsupported})
                   .status();
    if (status.ok()) return true;
    bool is_named = false;
    for (const onnx_import::UnsupportedPart& part : unsupported) {
      if (part.node < 0) continue;
      reasons_[nodes[static_cast<size_t>(part.node)]] = part.text;
      is_named = true;
    }
    if (!is_named)  // of the whole
      for (size_t k : nodes) reasons_[k] = status.message();
    return false;
  }

  std::vector<std::vector<size_t>> cut() {
    for (;;) {
      for (size_t k = 0; k < parts_.size(); ++k) parts_[k].is_supported = reasons_[k].empty();
      std::vector<std::vector<size_t>> parts = partition(parts_);
      bool is_small = false;
      for (const std::vector<size_t>& part : parts) {
        if (part.size() >= min_nodes_ || part.size() == parts_.size()) continue;
        is_small = true;
        for (size_t k : part)
          reasons_[k] = fmt::format(
              "supported, but there are only {} of the {} such nodes in a row "
              "that min_nodes asks for",
              part.size(), min_nodes_);
      }
      if (!is_small) return parts;
    }
  }

  Capability result(std::vector<std::vector<size_t>> parts) {
    Capability capability;
    capability.parts = std::move(parts);
    for (size_t k : contexts_) {
      capability.parts.push_back({k});
      reasons_[k].clear();
    }
    for (size_t k = 0; k < reasons_.size(); ++k)
      if (!reasons_[k].empty()) capability.left.push_back({k, std::move(reasons_[k])});
    return capability;
  }

  const Host& host_;
  const ReadGraph& graph_;
  size_t min_nodes_;
  std::vector<PartNode> parts_;
  std::vector<std::string> reasons_;  // "": supported, as far as is known
  std::vector<size_t> contexts_;
};

}  // namespace

bool is_own_context_node(const onnx_import::NodeDef& node) {
  if (node.op_type != "EPContext" || node.domain != "com.microsoft") return false;
  return std::any_of(node.attributes.begin(), node.attributes.end(), [](const auto& attribute) {
    return attribute.name == "source" && attribute.text == kEpName;
  });
}

Capability find_capability(const Host& host, const ReadGraph& graph, size_t min_nodes) {
  return Finder(host, graph, min_nodes).find();
}

}  // namespace camshaft::ep
