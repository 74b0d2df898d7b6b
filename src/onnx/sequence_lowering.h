// SPDX-License-Identifier: Apache-2.0
// Takes the sequences of a graph apart (sequences.h).
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <unordered_map>

#include <fmt/format.h>

#include "onnx/sequence_parts.h"
#include "onnx/sequences.h"
#include "onnx/topology.h"

namespace camshaft::onnx_import {

// What a graph and those of its nodes share.
struct LoweringShared {
  int names = 0;                  // fresh ones
  int64_t room = 100'000;         // nodes that loops may still be written out to
  std::deque<std::string> texts;  // that nodes of the result point to
};

// One graph; those of its nodes are taken apart by one each, which looks for names here as well.
class Lowering {
 public:
  Lowering(const GraphDef& def, const Lowering* outer, LoweringShared& shared)
      : outer_(outer), shared_(shared), result_(def) {
    result_.nodes.clear();
    for (const TensorDef& tensor : def.initializers) learn(tensor.name, tensor);
    for (const NodeDef& node : def.nodes) learn_constant(node);
    nodes_ = &def.nodes;
  }
  Lowering(const Lowering&) = delete;

  void set(const std::string& name, Sequence sequence) { sequences_[name] = std::move(sequence); }
  const Sequence* find(const std::string& name) const {
    const auto found = sequences_.find(name);
    if (found != sequences_.end()) return &found->second;
    return outer_ ? outer_->find(name) : nullptr;
  }

  GraphDef& run() {
    for (const size_t position : dependency_order(*nodes_)) {
      const NodeDef& node = (*nodes_)[position];
      if (const std::string reason = lower(node); !reason.empty()) refuse(node, reason);
    }
    return result_;
  }

  GraphDef& result() { return result_; }

  // Sequences that leave the network do so as tensors: one per element, or all in one, stacked.
  void give_outputs();

  // The one known integer a tensor holds.
  std::optional<int64_t> number(const std::string& name) const {
    const auto found = numbers_.find(name);
    if (found != numbers_.end())
      return found->second.values.size() == 1 ? std::optional(found->second.values[0])
                                              : std::nullopt;
    return outer_ ? outer_->number(name) : std::nullopt;
  }

  // Of a Loop's body: the tensor that holds the last element of a sequence before the iteration;
  // empty: nobody asks for it.
  std::string last_of(size_t state) const {
    const auto found = last_.find(state);
    return found == last_.end() ? "" : found->second;
  }

 private:
  void give_output(const ValueDef& output, const Sequence& sequence,
                   std::vector<ValueDef>& outputs);

  using Handler = std::string (Lowering::*)(const NodeDef&);

  // Why it stays; empty: it is done.
  std::string lower(const NodeDef& node);

  // As it is, but for the graphs in it.
  void keep(const NodeDef& node);

  // What a constant holds.
  template <class Source>
  void learn(const std::string& name, const Source& source) {
    if (const auto known = numbers_in(source)) numbers_[name] = *known;
    if (const auto known = real_in(source)) reals_[name] = *known;
  }
  void learn_constant(const NodeDef& node) {
    if (node.op_type == "Constant" && !node.outputs.empty()) learn(node.outputs[0], node);
  }

  // What a kept node makes of known numbers.
  void follow_numbers(const NodeDef& node);

  void refuse(const NodeDef& node, const std::string& reason);
  // Does what `add_nodes` does, or nothing where that gives a reason why not.
  std::string attempt(const std::function<std::string()>& add_nodes);
  // With what was refused inside, where that goes with the node.
  static std::string told(std::string reason, const Lowering& inner);

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
  std::string fresh(const NodeDef& node, const char* what) { return fresh(node.outputs[0], what); }
  std::string fresh(const std::string& name, const char* what) {
    return fmt::format("{} ({} {})", name, what, shared_.names++);
  }

  const Numbers* known(const std::string& name) const {
    const auto found = numbers_.find(name);
    if (found != numbers_.end()) return &found->second;
    return outer_ ? outer_->known(name) : nullptr;
  }

  // --- operators; what they give is why not
  static constexpr const char* kNotKnown = "what its sequence holds is not known";

  std::string construct(const NodeDef& node);  // SequenceEmpty has no inputs

  std::string identity(const NodeDef& node);

  // Where `position` points to in a sequence of single tensors; `last`: the largest it may be.
  std::optional<size_t> place(const std::string& position, size_t count, size_t last) const;

  std::string insert(const NodeDef& node);

  bool fill(const NodeDef& node, const Sequence& sequence);

  std::string erase(const NodeDef& node);

  // One tensor of all elements along a new first axis; empty: that cannot be told.
  std::string stack(const NodeDef& node, const Sequence& sequence);

  std::string at(const NodeDef& node);

  std::string length(const NodeDef& node);

  std::string concat(const NodeDef& node);

  std::string split(const NodeDef& node);

  // A sequence that every iteration appends to: what it appends is stacked by the Loop. One whose
  // elements are replaced: every element is a state of its own, or all are one where only running
  // tells how many there are or which are replaced.
  std::string loop(const NodeDef& node);
  struct LoopParts;
  std::string carried_loop(LoopParts& parts);
  Sequence held(LoopParts& parts, size_t k, const Sequence& before, Lowering& inner);
  static bool fits(const LoopParts& parts, size_t k, const Sequence& before, const Lowering& inner);
  std::string finish_loop(LoopParts& parts, Lowering& inner);
  static void carry(LoopParts& parts, const std::string& first, ValueDef input, ValueDef output,
                    const std::string& result);
  void carry_elements(LoopParts& parts, size_t k, const Sequence& before, const Sequence& after);
  Sequence appended(LoopParts& parts, size_t k, const Lowering& inner, const Sequence& before,
                    const Sequence& after);
  Sequence scanned(LoopParts& parts, const Lowering& inner, const Sequence& rows,
                   const std::string& name, bool last_first);
  std::optional<int64_t> rounds(const NodeDef& node, const GraphDef& body,
                                const Lowering& inner) const;

  // Loops written out (sequences_unrolled.cpp): those of a known number of iterations whose number
  // says which element of a sequence is meant.
  bool counts_elements(const NodeDef& node, const GraphDef& body, const Lowering& inner) const;
  bool holds_elements(const NodeDef& node, const GraphDef& body, std::string name) const;
  std::string add_rounds(const NodeDef& node, const GraphDef& body, int64_t count);
  std::map<std::string, std::string> begin_unrolled(const NodeDef& node, const GraphDef& body);
  std::string add_round(const NodeDef& node, const GraphDef& body,
                        std::map<std::string, std::string>& names);

  std::string last_element(const NodeDef& node, const Sequence& sequence);

  std::string map(const NodeDef& node);  // sequences_mapped.cpp

  // Sequences that both branches give become as many tensors as they hold.
  std::string branches(const NodeDef& node);

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
  LoweringShared& shared_;
  const std::vector<NodeDef>* nodes_;
  GraphDef result_;
  std::unordered_map<std::string, Sequence> sequences_;
  std::unordered_map<std::string, Numbers> numbers_;
  std::unordered_map<std::string, double> reals_;
  std::map<size_t, std::string> last_;
  std::vector<std::string> refused_;  // nodes with reasons, those of the graphs in it as well
};

}  // namespace camshaft::onnx_import
