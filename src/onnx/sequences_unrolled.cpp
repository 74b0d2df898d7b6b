// SPDX-License-Identifier: Apache-2.0
// Loops of a known number of iterations whose number says which element of a sequence is read or
// replaced (`for i in range(2): states[i] = cell(x, states[i])`): the iterations one after the
// other.
#include <set>

#include "onnx/renaming.h"
#include "onnx/sequence_lowering.h"

namespace camshaft::onnx_import {
namespace {

// The position an operator on sequences is given; empty: none.
const std::string& position_of(const NodeDef& node) {
  static const std::string none;
  if (!node.domain.empty()) return none;
  if (node.op_type == "SequenceAt" || node.op_type == "SequenceErase") return input(node, 1);
  return node.op_type == "SequenceInsert" ? input(node, 2) : none;
}

}  // namespace

// Whether some position follows from the iteration's number or from what iterations hand on.
bool Lowering::counts_elements(const NodeDef& node, const GraphDef& body,
                               const Lowering& inner) const {
  std::set<std::string> changing;
  for (const ValueDef& value : body.inputs) changing.insert(value.name);
  for (const size_t at : dependency_order(body.nodes)) {
    const NodeDef& step = body.nodes[at];
    const std::string& position = position_of(step);
    if (!position.empty() && changing.count(position) && !inner.number(position) &&
        holds_elements(node, body, input(step, 0)))
      return true;
    if (std::any_of(step.inputs.begin(), step.inputs.end(),
                    [&](const std::string& name) { return changing.count(name); }))
      changing.insert(step.outputs.begin(), step.outputs.end());
  }
  return false;
}

// Whether a sequence in the body is one of single tensors with some taken out and put in.
bool Lowering::holds_elements(const NodeDef& node, const GraphDef& body, std::string name) const {
  for (size_t steps = 0; steps <= body.nodes.size(); ++steps) {
    const NodeDef* maker = maker_of(body, name);
    if (!maker) break;
    if (maker->op_type == "SequenceConstruct") return true;
    if (maker->op_type != "Identity" && maker->op_type != "SequenceInsert" &&
        maker->op_type != "SequenceErase")
      return false;
    name = input(*maker, 0);
  }
  for (size_t k = 2; k < body.inputs.size(); ++k)
    if (body.inputs[k].name == name) name = input(node, k);
  const Sequence* sequence = find(name);
  return sequence && !sequence->empty() && all_ones(*sequence);
}

std::string Lowering::add_rounds(const NodeDef& node, const GraphDef& body, int64_t count) {
  const size_t refused = refused_.size();
  shared_.room -= count * static_cast<int64_t>(body.nodes.size());
  if (shared_.room < 0) return "too many iterations";
  if (!body.sparse_initializers.empty()) return "sparse tensors";
  const size_t states = node.inputs.size() - 2, scans = body.outputs.size() - 1 - states;
  std::map<std::string, std::string> names = begin_unrolled(node, body);
  std::vector<std::vector<std::string>> rows(scans);
  for (int64_t round = 0; round < count; ++round) {
    std::string& number = names[body.inputs[0].name];
    number = fresh(node, "iteration");
    add(node, "SequenceCount", {}, number, {integer("ones", round)});
    numbers_[number] = {{round}, true};
    if (std::string reason = add_round(node, body, names); !reason.empty()) return reason;
    const auto named = [&](size_t output) {
      const auto found = names.find(body.outputs[output].name);
      return found == names.end() ? body.outputs[output].name : found->second;
    };
    std::vector<std::string> ends;
    for (size_t k = 0; k < states; ++k) ends.push_back(named(k + 1));
    for (size_t k = 0; k < scans; ++k) {
      rows[k].push_back(named(states + 1 + k));
      if (find(rows[k].back())) return "it stacks sequences";
    }
    for (size_t k = 0; k < states; ++k) names[body.inputs[k + 2].name] = ends[k];
  }
  for (size_t k = 0; k < node.outputs.size(); ++k) {
    if (node.outputs[k].empty()) continue;
    if (k >= states + scans) return "it has more outputs than its graph";
    if (k >= states) {
      add(node, "SequenceStack", rows[k - states], node.outputs[k]);
    } else if (const std::string& end = names[body.inputs[k + 2].name]; find(end)) {
      set(node.outputs[k], Sequence(*find(end)));
    } else {
      add(node, "SequenceElement", {end}, node.outputs[k]);
    }
  }
  return refused_.size() > refused ? refused_.back() : "";
}

// Names of what is there before the first iteration.
std::map<std::string, std::string> Lowering::begin_unrolled(const NodeDef& node,
                                                            const GraphDef& body) {
  std::map<std::string, std::string> names;
  for (const TensorDef& tensor : body.initializers) {
    const std::string name = fresh(tensor.name, "of a loop");
    learn(name, tensor);
    result_.initializers.push_back(tensor);
    result_.initializers.back().name = names[tensor.name] = name;
  }
  std::string condition = input(node, 1);
  if (condition.empty()) {
    const std::string one = fresh(node, "one");
    condition = fresh(node, "condition");
    add(node, "SequenceCount", {}, one, {integer("ones", 1)});
    result_.nodes.push_back({node.name, "Cast", "", {one}, {condition}, {integer("to", kBool)}});
  }
  numbers_[condition] = {{1}, true};
  names[body.inputs[1].name] = condition;
  for (size_t k = 2; k < body.inputs.size(); ++k) names[body.inputs[k].name] = node.inputs[k];
  return names;
}

// One iteration; `names` get those of what it makes.
std::string Lowering::add_round(const NodeDef& node, const GraphDef& body,
                                std::map<std::string, std::string>& names) {
  for (const NodeDef& step : body.nodes)
    for (const std::string& output : step.outputs)
      if (!output.empty()) names[output] = fresh(output, "iteration");
  const NewName new_name = [&](const std::string& name) {
    const auto found = names.find(name);
    return found == names.end() ? name : found->second;
  };
  for (const size_t at : dependency_order(body.nodes)) {
    NodeDef copy = renamed(body.nodes[at], new_name);
    if (!copy.name.empty())
      copy.name = fmt::format("{}/{}/{}", node.name, copy.name, shared_.names);
    learn_constant(copy);
    if (std::string reason = lower(copy); !reason.empty()) return named(copy) + ": " + reason;
  }
  return {};
}

}  // namespace camshaft::onnx_import
