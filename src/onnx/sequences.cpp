// SPDX-License-Identifier: Apache-2.0
#include "onnx/sequences.h"

#include <algorithm>
#include <cmath>

#include "base/log.h"
#include "onnx/sequence_lowering.h"

namespace camshaft::onnx_import {

std::string Lowering::lower(const NodeDef& node) {
  static const std::unordered_map<std::string_view, Handler> handlers = {
      {"SequenceEmpty", &Lowering::construct},
      {"SequenceConstruct", &Lowering::construct},
      {"SequenceInsert", &Lowering::insert},
      {"SequenceErase", &Lowering::erase},
      {"SequenceAt", &Lowering::at},
      {"SequenceLength", &Lowering::length},
      {"ConcatFromSequence", &Lowering::concat},
      {"SplitToSequence", &Lowering::split},
      {"SequenceMap", &Lowering::map},
      {"Identity", &Lowering::identity},
      {"Loop", &Lowering::loop},
      {"If", &Lowering::branches},
  };
  const auto found = handlers.find(node.op_type);
  if (found != handlers.end() && node.domain.empty() && !node.outputs.empty())
    return (this->*found->second)(node);
  for (const std::string& name : node.inputs)
    if (find(name)) return "this operator does not take sequences here";
  keep(node);
  return {};
}

void Lowering::keep(const NodeDef& node) {
  NodeDef kept = node;
  for (AttributeDef& attribute : kept.attributes)
    if (attribute.graph) {
      Lowering inner(*attribute.graph, this, shared_);
      attribute.graph = std::make_shared<GraphDef>(std::move(inner.run()));
      refused_.insert(refused_.end(), inner.refused_.begin(), inner.refused_.end());
    }
  follow_numbers(node);
  result_.nodes.push_back(std::move(kept));
}

void Lowering::follow_numbers(const NodeDef& node) {
  if (!node.domain.empty() || node.outputs.size() != 1 || node.inputs.empty()) return;
  const std::string& result = node.outputs[0];
  if (const auto real = reals_.find(node.inputs[0]); real != reals_.end()) {
    const double value = real->second;
    if (node.op_type == "Ceil") reals_[result] = std::ceil(value);
    if (node.op_type == "Floor") reals_[result] = std::floor(value);
    if (node.op_type == "Cast" && integer_of(node, "to", 0) == kInt64 && std::fabs(value) < 1e9)
      numbers_[result] = {{static_cast<int64_t>(value)}, true};
  }
  const Numbers* a = known(node.inputs[0]);
  if (!a) return;
  const Numbers* b = node.inputs.size() > 1 ? known(node.inputs[1]) : nullptr;
  if (auto made = numbers_from(node, *a, b)) numbers_[result] = std::move(*made);
}

void Lowering::refuse(const NodeDef& node, const std::string& reason) {
  std::vector<std::string> tensors;
  for (const std::string& name : node.inputs)
    if (!find(name)) tensors.push_back(name);
  refused_.push_back(named(node) + ": " + reason);
  AttributeDef attribute;
  attribute.name = "reason";
  attribute.type = AttributeType::kString;
  attribute.text = shared_.texts.emplace_back(reason);
  result_.nodes.push_back({node.name,
                           node.op_type,
                           std::string(kSequenceDomain),
                           std::move(tensors),
                           node.outputs,
                           {attribute}});
}

std::string Lowering::attempt(const std::function<std::string()>& add_nodes) {
  const size_t nodes = result_.nodes.size(), initializers = result_.initializers.size(),
               refused = refused_.size();
  const std::map<size_t, std::string> last = last_;
  std::string reason = add_nodes();
  if (reason.empty()) return {};
  result_.nodes.resize(nodes);
  result_.initializers.resize(initializers);
  refused_.resize(refused);
  last_ = last;
  return reason;
}

std::string Lowering::told(std::string reason, const Lowering& inner) {
  constexpr size_t kMost = 3;
  for (size_t k = 0; k < inner.refused_.size() && k < kMost; ++k)
    reason += (k ? "; " : "; inside: ") + inner.refused_[k];
  return reason;
}

namespace {

// A tensor whose name begins so.
bool makes_some(const std::vector<NodeDef>& nodes, const std::string& prefix) {
  return std::any_of(nodes.begin(), nodes.end(), [&](const NodeDef& node) {
    return std::any_of(node.outputs.begin(), node.outputs.end(),
                       [&](const std::string& name) { return name.starts_with(prefix); });
  });
}

}  // namespace

void Lowering::give_outputs() {
  std::vector<ValueDef> outputs;
  for (const ValueDef& output : result_.outputs) {
    const auto found = sequences_.find(output.name);
    if (found == sequences_.end())
      outputs.push_back(output);
    else
      give_output(output, found->second, outputs);
  }
  result_.outputs = std::move(outputs);
}

void Lowering::give_output(const ValueDef& output, const Sequence& sequence,
                           std::vector<ValueDef>& outputs) {
  const auto give = [&](const std::string& tensor, const std::string& name) {
    result_.nodes.push_back({name, "Identity", "", {tensor}, {name}, {}});
    ValueDef& made = outputs.emplace_back();
    made.name = name, made.kind = "tensor";
  };
  if (sequence.size() == 1 && is(sequence[0], Part::Kind::kStacked)) {
    log(Severity::kWarning, "{} is one tensor instead of a sequence: its elements, stacked",
        output.name);
    return give(sequence[0].tensor, output.name);
  }
  if (!sequence.empty() && all_ones(sequence)) {
    std::string base = output.name + "_";
    while (makes_some(*nodes_, base)) base += "_";
    log(Severity::kWarning, "{} is {} tensors instead of a sequence of them: {}0 to {}{}",
        output.name, sequence.size(), base, base, sequence.size() - 1);
    for (size_t k = 0; k < sequence.size(); ++k) give(sequence[k].tensor, base + std::to_string(k));
    return;
  }
  NodeDef maker = *std::find_if(nodes_->begin(), nodes_->end(), [&](const NodeDef& node) {
    return std::find(node.outputs.begin(), node.outputs.end(), output.name) != node.outputs.end();
  });
  maker.outputs = {output.name};
  refuse(maker, "a network's output cannot be a sequence of pieces that only running tells");
  outputs.push_back(output);
}

std::string Lowering::construct(const NodeDef& node) {
  Sequence sequence;
  for (const std::string& name : node.inputs) {
    if (name.empty() || find(name)) return "an element that is no tensor";
    sequence.push_back(one(name));
  }
  set(node.outputs[0], std::move(sequence));
  return {};
}

std::string Lowering::identity(const NodeDef& node) {
  if (const Sequence* sequence = find(input(node, 0)))
    set(node.outputs[0], *sequence);
  else
    keep(node);
  return {};
}

std::optional<size_t> Lowering::place(const std::string& position, size_t count,
                                      size_t last) const {
  const std::optional<int64_t> given = number(position);
  if (!given) return {};
  const int64_t at = *given < 0 ? *given + static_cast<int64_t>(count) : *given;
  if (at < 0 || at > static_cast<int64_t>(last)) return {};
  return static_cast<size_t>(at);
}

std::string Lowering::insert(const NodeDef& node) {
  const Sequence* found = find(input(node, 0));
  if (!found) return kNotKnown;
  if (input(node, 1).empty() || find(input(node, 1))) return "an element that is no tensor";
  if (fill(node, *found)) return {};
  Sequence sequence = *found;
  if (std::any_of(sequence.begin(), sequence.end(),
                  [](const Part& part) { return is(part, Part::Kind::kHole); }))
    return "an element is erased at a position that is not known";
  size_t at = sequence.size();
  if (!input(node, 2).empty()) {
    const auto given =
        all_ones(sequence) ? place(input(node, 2), sequence.size(), sequence.size()) : std::nullopt;
    if (!given && number(input(node, 2)) != 0)
      return "an element is inserted at a position that is not known";
    at = given.value_or(0);
  }
  sequence.insert(sequence.begin() + static_cast<std::ptrdiff_t>(at), one(input(node, 1)));
  set(node.outputs[0], std::move(sequence));
  return {};
}

std::string Lowering::erase(const NodeDef& node) {
  const Sequence* found = find(input(node, 0));
  if (!found || found->empty()) return kNotKnown;
  Sequence sequence = *found;
  const std::string& position = input(node, 1);
  auto at = std::optional(sequence.size() - 1);
  if (!position.empty()) at = place(position, sequence.size(), sequence.size() - 1);
  if (all_ones(sequence) && at) {
    sequence.erase(sequence.begin() + static_cast<std::ptrdiff_t>(*at));
  } else {
    const std::string all = position.empty() ? "" : stack(node, sequence);
    if (all.empty()) return kNotKnown;
    sequence = {{Part::Kind::kHole, all}};
    sequence[0].position = position;
  }
  set(node.outputs[0], std::move(sequence));
  return {};
}

// An element where another was taken out, in sequences of any length.
bool Lowering::fill(const NodeDef& node, const Sequence& sequence) {
  if (sequence.size() != 1 || !is(sequence[0], Part::Kind::kHole) ||
      sequence[0].position != input(node, 2))
    return false;
  const std::string all = fresh(node, "rows");
  add(node, "SequenceReplace", {sequence[0].tensor, sequence[0].position, input(node, 1)}, all);
  set(node.outputs[0], {stacked(all)});
  return true;
}

std::string Lowering::stack(const NodeDef& node, const Sequence& sequence) {
  std::vector<std::string> parts, row;
  const auto end_row = [&] {
    if (row.empty()) return;
    parts.push_back(fresh(node, "stack"));
    add(node, "SequenceStack", std::move(row), parts.back());
    row.clear();
  };
  for (const Part& part : sequence) {
    if (is(part, Part::Kind::kOne)) {
      row.push_back(part.tensor);
      continue;
    }
    if (!is(part, Part::Kind::kStacked)) return {};
    end_row();
    parts.push_back(part.tensor);
  }
  end_row();
  if (parts.size() < 2) return parts.empty() ? "" : parts[0];
  const std::string whole = fresh(node, "stack");
  add(node, "SequenceConcat", parts, whole);
  return whole;
}

std::string Lowering::at(const NodeDef& node) {
  const Sequence* sequence = find(input(node, 0));
  if (!sequence) return kNotKnown;
  const std::string &position = input(node, 1), &output = node.outputs[0];
  if (all_ones(*sequence))
    if (const auto k = place(position, sequence->size(), sequence->size() - 1);
        k && !sequence->empty()) {
      add(node, "SequenceElement", {(*sequence)[*k].tensor}, output);
      return {};
    }
  const std::optional<int64_t> given = number(position);
  if (given == -1 && !sequence->empty()) {
    const Part& last = sequence->back();
    if (is(last, Part::Kind::kOne)) {
      add(node, "SequenceElement", {last.tensor}, output);
      return {};
    }
    if (is(last, Part::Kind::kCarried) && last.owner == this) {
      std::string& name = last_[last.state];
      if (name.empty()) name = fresh(node, "last");
      add(node, "SequenceElement", {name}, output);
      return {};
    }
  }
  if (sequence->size() == 1 && is((*sequence)[0], Part::Kind::kPieces)) {
    const Part& whole = (*sequence)[0];
    std::vector<AttributeDef> attributes = {integer("axis", whole.axis),
                                            integer("size", whole.size)};
    const bool is_known = given && *given >= 0 && *given < kMostRows;
    if (is_known) attributes.push_back(integer("start", *given * whole.size));
    std::vector<std::string> inputs = {whole.tensor};
    if (!is_known) inputs.push_back(position);
    add(node, "SequencePiece", std::move(inputs), output, std::move(attributes));
    return {};
  }
  const std::string all = stack(node, *sequence);
  if (all.empty())
    return "it takes an element of a sequence that a loop makes, by an index that is not known";
  add(node, "SequencePick", {all, position}, output);
  return {};
}

std::string Lowering::length(const NodeDef& node) {
  const Sequence* sequence = find(input(node, 0));
  if (!sequence) return kNotKnown;
  if (sequence->size() == 1 && is((*sequence)[0], Part::Kind::kPieces)) {
    const Part& whole = (*sequence)[0];
    add(node, "SequencePieces", {whole.tensor}, node.outputs[0],
        {integer("axis", whole.axis), integer("size", whole.size)});
    return {};
  }
  std::vector<std::string> stacks;
  int64_t ones = 0;
  for (const Part& part : *sequence) {
    if (!is(part, Part::Kind::kOne) && !is(part, Part::Kind::kStacked))
      return "the length of a sequence that a loop makes";
    if (is(part, Part::Kind::kOne))
      ++ones;
    else
      stacks.push_back(part.tensor);
  }
  if (stacks.empty()) numbers_[node.outputs[0]] = {{ones}, true};
  add(node, "SequenceCount", std::move(stacks), node.outputs[0], {integer("ones", ones)});
  return {};
}

std::string Lowering::concat(const NodeDef& node) {
  const Sequence* sequence = find(input(node, 0));
  if (!sequence) return kNotKnown;
  const AttributeDef axis = integer("axis", integer_of(node, "axis", 0)),
                     new_axis = integer("new_axis", integer_of(node, "new_axis", 0));
  if (sequence->empty()) return "an empty sequence";
  if (all_ones(*sequence)) {
    std::vector<std::string> tensors;
    for (const Part& part : *sequence) tensors.push_back(part.tensor);
    add(node, "ConcatFromSequence", std::move(tensors), node.outputs[0], {axis, new_axis});
    return {};
  }
  const Part& first = sequence->front();
  if (sequence->size() == 1 && is(first, Part::Kind::kPieces) && new_axis.i == 0 &&
      first.axis == axis.i) {
    add(node, "SequenceElement", {first.tensor}, node.outputs[0]);
    return {};
  }
  const std::string all = stack(node, *sequence);
  if (all.empty())
    return "a sequence that a loop makes, inside of it, or pieces along another axis";
  add(node, "SequenceJoin", {all}, node.outputs[0], {axis, new_axis});
  return {};
}

std::string Lowering::split(const NodeDef& node) {
  const int64_t axis = integer_of(node, "axis", 0);
  const std::string &x = input(node, 0), &sizes = input(node, 1);
  if (x.empty() || find(x)) return "what it cuts is no tensor";
  // Pieces of one keep the axis or not as rows do, which is what PyTorch's unbind counts on.
  const Numbers* given = sizes.empty() ? nullptr : known(sizes);
  if (sizes.empty() || (given && given->is_scalar && given->values == std::vector<int64_t>{1})) {
    const std::string all = fresh(node, "rows");
    add(node, "SequenceRows", {x}, all,
        {integer("axis", axis), integer("keepdims", integer_of(node, "keepdims", 1))});
    set(node.outputs[0], {stacked(all)});
    return {};
  }
  if (!given) return "pieces of sizes that are not known";
  if (std::any_of(given->values.begin(), given->values.end(),
                  [](int64_t size) { return size < 0 || size > kMostRows; }))
    return "pieces of sizes that are not believable";
  if (given->is_scalar) {
    if (given->values.size() != 1 || given->values[0] == 0) return "pieces of no size";
    set(node.outputs[0], {{Part::Kind::kPieces, x, axis, given->values[0]}});
    return {};
  }
  Sequence pieces;
  int64_t start = 0;
  for (const int64_t size : given->values) {
    pieces.push_back(one(fresh(node, "piece")));
    add(node, "SequencePiece", {x}, pieces.back().tensor,
        {integer("axis", axis), integer("start", start), integer("size", size)});
    start += size;
  }
  set(node.outputs[0], std::move(pieces));
  return {};
}

bool uses_sequences(const GraphDef& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const NodeDef& node) {
    const bool makes = node.domain.empty() &&
                       (node.op_type == "SequenceEmpty" || node.op_type == "SequenceConstruct" ||
                        node.op_type == "SplitToSequence");
    return makes || std::any_of(node.attributes.begin(), node.attributes.end(),
                                [](const AttributeDef& attribute) {
                                  return attribute.graph && uses_sequences(*attribute.graph);
                                });
  });
}

std::shared_ptr<const GraphDef> without_sequences(const GraphDef& graph) {
  struct Lowered {
    LoweringShared shared;
    GraphDef graph;
  };
  const auto lowered = std::make_shared<Lowered>();
  Lowering lowering(graph, nullptr, lowered->shared);
  lowering.run();
  lowering.give_outputs();
  lowered->graph = std::move(lowering.result());
  return {lowered, &lowered->graph};
}

}  // namespace camshaft::onnx_import
