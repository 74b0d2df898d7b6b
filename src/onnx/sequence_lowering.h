// SPDX-License-Identifier: Apache-2.0
// Takes the sequences of a graph apart (sequences.h).
#pragma once

#include <map>
#include <unordered_map>

#include <fmt/format.h>

#include "onnx/sequence_parts.h"
#include "onnx/sequences.h"

namespace camshaft::onnx_import {

// One graph; those of its nodes are taken apart by one each, which looks for names here as well.
class Lowering {
 public:
  Lowering(const GraphDef& def, const Lowering* outer) : outer_(outer), result_(def) {
    result_.nodes.clear();
    for (const TensorDef& tensor : def.initializers)
      if (const auto known = numbers_in(tensor)) numbers_[tensor.name] = *known;
    for (const NodeDef& node : def.nodes)
      if (node.op_type == "Constant" && !node.outputs.empty())
        if (const auto known = numbers_in(node)) numbers_[node.outputs[0]] = *known;
    nodes_ = &def.nodes;
    count_ = outer ? outer->count_ : &own_count_;
  }
  Lowering(const Lowering&) = delete;

  void set(const std::string& name, Sequence sequence) { sequences_[name] = std::move(sequence); }
  const Sequence* find(const std::string& name) const {
    const auto found = sequences_.find(name);
    if (found != sequences_.end()) return &found->second;
    return outer_ ? outer_->find(name) : nullptr;
  }

  GraphDef& run() {
    for (const NodeDef& node : *nodes_) {
      const std::string_view reason = lower(node);
      if (!reason.empty()) refuse(node, reason);
    }
    return result_;
  }

  // Sequences that leave the network.
  void refuse_outputs();

  // Of a Loop's body: the tensor that holds the last element of a sequence before the iteration;
  // empty: nobody asks for it.
  std::string last_of(size_t state) const {
    const auto found = last_.find(state);
    return found == last_.end() ? "" : found->second;
  }

 private:
  using Handler = std::string_view (Lowering::*)(const NodeDef&);

  // Why it stays; empty: it is done.
  std::string_view lower(const NodeDef& node);

  // As it is, but for the graphs in it.
  void keep(const NodeDef& node);

  void refuse(const NodeDef& node, std::string_view reason);

  void add(const NodeDef& origin, const char* op, std::vector<std::string> inputs,
           std::string output, std::vector<AttributeDef> attributes = {}) {
    result_.nodes.push_back({origin.name,
                             op,
                             std::string(kSequenceDomain),
                             std::move(inputs),
                             {std::move(output)},
                             std::move(attributes)});
  }

  // A name that no other graph of the model has either, and no tensor of the file is likely to.
  std::string fresh(const NodeDef& node, const char* what) {
    return fmt::format("{} ({} {})", node.outputs[0], what, (*count_)++);
  }

  std::optional<int64_t> number(const std::string& name) const {
    const auto found = numbers_.find(name);
    if (found != numbers_.end())
      return found->second.values.size() == 1 ? std::optional(found->second.values[0])
                                              : std::nullopt;
    return outer_ ? outer_->number(name) : std::nullopt;
  }
  const Numbers* known(const std::string& name) const {
    const auto found = numbers_.find(name);
    if (found != numbers_.end()) return &found->second;
    return outer_ ? outer_->known(name) : nullptr;
  }

  // --- operators; what they give is why not
  static constexpr std::string_view kNotKnown = "what its sequence holds is not known";

  std::string_view construct(const NodeDef& node);  // SequenceEmpty has no inputs

  std::string_view identity(const NodeDef& node);

  // Where `position` points to in a sequence of single tensors; `last`: the largest it may be.
  std::optional<size_t> place(const std::string& position, size_t count, size_t last) const;

  std::string_view insert(const NodeDef& node);

  std::string_view erase(const NodeDef& node);

  // One tensor of all elements along a new first axis; empty: that cannot be told.
  std::string stack(const NodeDef& node, const Sequence& sequence);

  std::string_view at(const NodeDef& node);

  std::string_view length(const NodeDef& node);

  std::string_view concat(const NodeDef& node);

  std::string_view split(const NodeDef& node);

  // A sequence that every iteration appends to: what it appends is stacked by the Loop. One whose
  // elements are replaced: every element is a state of its own.
  std::string_view loop(const NodeDef& node);
  struct LoopParts;
  Sequence held(LoopParts& parts, size_t k, const Sequence& before, Lowering& inner);
  static bool fits(const LoopParts& parts, size_t k, const Sequence& before, const Lowering& inner);
  std::string_view finish_loop(LoopParts& parts, Lowering& inner);
  static void carry(LoopParts& parts, const std::string& first, ValueDef input, ValueDef output,
                    const std::string& result);
  void carry_elements(LoopParts& parts, size_t k, const Sequence& before, const Sequence& after);
  Sequence appended(LoopParts& parts, size_t k, const Lowering& inner, const Sequence& before,
                    const Sequence& after);
  std::optional<int64_t> rounds(const LoopParts& parts, const Lowering& inner) const;

  std::string last_element(const NodeDef& node, const Sequence& sequence);

  // Sequences that both branches give become as many tensors as they hold.
  std::string_view branches(const NodeDef& node);

  static ValueDef value(std::string name) {
    ValueDef made;
    made.name = std::move(name);
    made.kind = "tensor";
    return made;
  }
  static const AttributeDef* graph_of(const NodeDef& node, std::string_view name) {
    for (const AttributeDef& attribute : node.attributes)
      if (attribute.name == name && attribute.graph) return &attribute;
    return nullptr;
  }
  static void set_graph(NodeDef& node, std::string_view name, GraphDef graph) {
    for (AttributeDef& attribute : node.attributes)
      if (attribute.name == name) attribute.graph = std::make_shared<GraphDef>(std::move(graph));
  }

  const Lowering* outer_;
  const std::vector<NodeDef>* nodes_;
  GraphDef result_;
  std::unordered_map<std::string, Sequence> sequences_;
  std::unordered_map<std::string, Numbers> numbers_;
  std::map<size_t, std::string> last_;
  int own_count_ = 0;
  int* count_;  // of fresh names, one for the graph and those inside
};

}  // namespace camshaft::onnx_import
