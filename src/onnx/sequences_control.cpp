// SPDX-License-Identifier: Apache-2.0
// Sequences that Loops carry and that branches of If give.
#include <algorithm>
#include <utility>

#include "onnx/sequence_lowering.h"

namespace camshaft::onnx_import {

// A Loop while its sequences become tensors.
struct Lowering::LoopParts {
  const NodeDef& node;
  const GraphDef& body;
  size_t states;  // inputs of the node behind the condition
  // Of states that go from iteration to iteration as a tensor per element: the body's inputs.
  std::map<size_t, std::vector<std::string>> elements = {};
  bool stacks = false;                      // states that do not only grow go as one tensor of rows
  std::map<size_t, std::string> rows = {};  // of these the body's inputs
  // What an iteration puts behind and before a state.
  std::map<size_t, std::string> behind = {}, before = {};
  std::vector<std::string> names = {};  // of the node's outputs, also those it leaves out
  NodeDef made = {};
  GraphDef lowered = {};
  std::vector<ValueDef> scans = {};
  std::vector<std::string> scan_names = {};
  std::vector<std::pair<std::string, Sequence>> results = {};

  const std::string& state(size_t k) const { return node.inputs[k + 2]; }
  const std::string& inner(size_t k) const { return body.inputs[k + 2].name; }
  const std::string& end(size_t k) const { return body.outputs[k + 1].name; }
};

namespace {

// Whether `end` is `start` with elements around it, as far as this graph alone tells.
bool grows(const GraphDef& body, const Lowering& inner, std::string end, const std::string& start) {
  for (size_t steps = 0; steps < body.nodes.size() && end != start; ++steps) {
    const NodeDef* node = maker_of(body, end);
    if (!node) return false;
    const bool inserts = node->op_type == "SequenceInsert" &&
                         (input(*node, 2).empty() || inner.number(input(*node, 2)) == 0);
    if (node->op_type != "Identity" && !inserts) return false;
    end = input(*node, 0);
  }
  return end == start;
}

// What stands around the elements that the Loop's sequence held before.
struct Grown {
  Sequence before, behind;
};
Grown around_carried(const Sequence& sequence) {
  const auto carried = std::find_if(sequence.begin(), sequence.end(), [](const Part& part) {
    return is(part, Part::Kind::kCarried);
  });
  return {{sequence.begin(), carried}, {carried + 1, sequence.end()}};
}

// Whether the condition behind every iteration is the one before it, or true.
bool goes_on(const GraphDef& body, const Lowering& inner) {
  std::string name = body.outputs[0].name;
  for (size_t steps = 0; steps <= body.nodes.size(); ++steps) {
    if (name == body.inputs[1].name || inner.number(name) == 1) return true;
    const NodeDef* node = maker_of(body, name);
    if (!node || (node->op_type != "Identity" && node->op_type != "Cast")) return false;
    name = input(*node, 0);
  }
  return false;
}

}  // namespace

std::string Lowering::loop(const NodeDef& node) {
  const AttributeDef* attribute = graph_of(node, "body");
  if (!attribute) {
    keep(node);
    return {};
  }
  const GraphDef& body = *attribute->graph;
  const size_t states = node.inputs.size() < 2 ? 0 : node.inputs.size() - 2;
  const bool is_sound = body.inputs.size() == states + 2 && body.outputs.size() >= states + 1;
  std::optional<int64_t> count;
  bool counts = false;
  if (is_sound) {
    const Lowering constants(body, this, shared_);
    count = rounds(node, body, constants);
    counts = count && counts_elements(node, body, constants);
  }
  const auto unrolled = [&] { return add_rounds(node, body, *count); };
  if (counts && attempt(unrolled).empty()) return {};
  const bool carries = std::any_of(node.inputs.begin(), node.inputs.end(),
                                   [&](const std::string& name) { return find(name); });
  if (!carries) {
    keep(node);
    return {};
  }
  if (find(input(node, 0)) || find(input(node, 1))) return "a sequence as count or condition";
  if (!is_sound) return "its graph has another number of inputs or outputs";
  const auto carried = [&](bool whole, bool stacks) {
    LoopParts parts{node, body, states};
    parts.stacks = stacks;
    const size_t refused = refused_.size();
    std::string reason = carried_loop(parts);
    return whole && reason.empty() && refused_.size() > refused ? refused_.back() : reason;
  };
  shared_.room -= static_cast<int64_t>(body.nodes.size());
  if (count && !counts && shared_.room > 0 &&
      (attempt([&] { return carried(true, false); }).empty() || attempt(unrolled).empty()))
    return {};
  std::string reason = attempt([&] { return carried(false, false); });
  if (!reason.empty() && shared_.room > 0 && attempt([&] { return carried(true, true); }).empty())
    return {};
  return reason;
}

std::string Lowering::carried_loop(LoopParts& parts) {
  Lowering inner(parts.body, this, shared_);
  for (size_t k = 0; k < parts.states; ++k)
    if (const Sequence* before = find(parts.state(k)))
      inner.set(parts.inner(k), held(parts, k, *before, inner));
  inner.run();
  for (size_t k = 0; k < parts.states; ++k) {
    const Sequence* before = find(parts.state(k));
    if (!before || fits(parts, k, *before, inner)) continue;
    const NodeDef* maker = maker_of(parts.body, parts.end(k));
    return told(fmt::format("a sequence that its iterations do more with than append to, or "
                            "replace elements of (\"{}\" becomes \"{}\"{})",
                            parts.inner(k), parts.end(k), maker ? ", by " + named(*maker) : ""),
                inner);
  }
  std::vector<std::string> refused = inner.refused_;
  std::string reason = finish_loop(parts, inner);
  refused_.insert(refused_.end(), refused.begin(), refused.end());
  return reason;
}

// What state k holds in the body: elements of their own, or rows, where it does not only grow.
Sequence Lowering::held(LoopParts& parts, size_t k, const Sequence& before, Lowering& inner) {
  const bool only_grows = grows(parts.body, inner, parts.end(k), parts.inner(k));
  if (parts.stacks && !before.empty() && !only_grows) {
    parts.rows[k] = fresh(parts.node, "rows");
    return {stacked(parts.rows[k])};
  }
  if (before.empty() || !all_ones(before) || only_grows)
    return {{Part::Kind::kCarried, "", 0, 0, k, &inner}};
  Sequence elements;
  for (size_t i = 0; i < before.size(); ++i) {
    parts.elements[k].push_back(fresh(parts.node, "element"));
    elements.push_back(one(parts.elements[k].back()));
  }
  return elements;
}

bool Lowering::fits(const LoopParts& parts, size_t k, const Sequence& before,
                    const Lowering& inner) {
  const Sequence* after = inner.find(parts.end(k));
  if (!after) return false;
  if (parts.elements.count(k)) return all_ones(*after) && after->size() == before.size();
  if (parts.rows.count(k)) return after->size() == 1 && is((*after)[0], Part::Kind::kStacked);
  const auto is_own = [&](const Part& part) {
    return is(part, Part::Kind::kCarried) && part.owner == &inner && part.state == k;
  };
  const auto is_row = [](const Part& part) {
    return is(part, Part::Kind::kOne) || is(part, Part::Kind::kStacked);
  };
  return std::count_if(after->begin(), after->end(), is_own) == 1 &&
         std::count_if(after->begin(), after->end(), is_row) ==
             static_cast<std::ptrdiff_t>(after->size()) - 1;
}

std::string Lowering::finish_loop(LoopParts& parts, Lowering& inner) {
  std::map<size_t, std::string> last;
  for (size_t k = 0; k < parts.states; ++k) {
    if (!find(parts.state(k)) || parts.elements.count(k) || parts.rows.count(k)) continue;
    const Grown grown = around_carried(*inner.find(parts.end(k)));
    if (!inner.last_of(k).empty())
      last[k] =
          grown.behind.empty() ? inner.last_of(k) : inner.last_element(parts.node, grown.behind);
    const auto give = [&](const Sequence& rows, std::map<size_t, std::string>& names) {
      if (!rows.empty())
        names[k] =
            rows.size() == 1 && all_ones(rows) ? rows[0].tensor : inner.stack(parts.node, rows);
    };
    give(grown.before, parts.before);
    give(grown.behind, parts.behind);
  }
  parts.lowered = std::move(inner.result_);
  const std::vector<ValueDef> inputs = std::move(parts.lowered.inputs),
                              outputs = std::move(parts.lowered.outputs);
  parts.lowered.inputs = {inputs[0], inputs[1]};
  parts.lowered.outputs = {outputs[0]};
  parts.made = parts.node;
  parts.made.inputs.resize(2);
  parts.made.outputs.clear();
  const auto scans_at = static_cast<std::ptrdiff_t>(parts.states);
  parts.scans.assign(outputs.begin() + scans_at + 1, outputs.end());
  parts.names = parts.node.outputs;
  parts.names.resize(parts.states + parts.scans.size());
  parts.scan_names.assign(parts.names.begin() + scans_at, parts.names.end());
  for (size_t k = 0; k < parts.states; ++k) {
    const Sequence* before = find(parts.state(k));
    if (!before) {
      carry(parts, parts.state(k), inputs[k + 2], outputs[k + 1], parts.names[k]);
      continue;
    }
    const Sequence after = *inner.find(parts.end(k));
    if (parts.elements.count(k)) {
      carry_elements(parts, k, *before, after);
      continue;
    }
    if (parts.rows.count(k)) {
      const std::string first = stack(parts.node, *before);
      if (first.empty()) return kNotKnown;
      const std::string result = fresh(parts.node, "rows");
      carry(parts, first, value(parts.rows[k]), value(after[0].tensor), result);
      parts.results.emplace_back(parts.names[k], Sequence{stacked(result)});
      continue;
    }
    if (last.count(k)) {
      const std::string first = last_element(parts.node, *before);
      if (first.empty()) return "it reads the last element of a sequence that is empty at first";
      carry(parts, first, value(inner.last_of(k)), value(last[k]), fresh(parts.node, "last"));
    }
    parts.results.emplace_back(parts.names[k], appended(parts, k, inner, *before, after));
  }
  parts.lowered.outputs.insert(parts.lowered.outputs.end(), parts.scans.begin(), parts.scans.end());
  parts.made.outputs.insert(parts.made.outputs.end(), parts.scan_names.begin(),
                            parts.scan_names.end());
  set_graph(parts.made, "body", std::move(parts.lowered));
  result_.nodes.push_back(std::move(parts.made));
  for (auto& [name, sequence] : parts.results)
    if (!name.empty()) set(name, std::move(sequence));
  return {};
}

// A tensor that goes from iteration to iteration.
void Lowering::carry(LoopParts& parts, const std::string& first, ValueDef input, ValueDef output,
                     const std::string& result) {
  parts.made.inputs.push_back(first);
  parts.lowered.inputs.push_back(std::move(input));
  parts.lowered.outputs.push_back(std::move(output));
  parts.made.outputs.push_back(result);
}

void Lowering::carry_elements(LoopParts& parts, size_t k, const Sequence& before,
                              const Sequence& after) {
  Sequence result;
  for (size_t i = 0; i < after.size(); ++i) {
    result.push_back(one(fresh(parts.node, "element")));
    carry(parts, before[i].tensor, value(parts.elements[k][i]), value(after[i].tensor),
          result.back().tensor);
  }
  parts.results.emplace_back(parts.names[k], std::move(result));
}

// The sequence behind the loop: what was there before, among the rows of what iterations put around
// it. What is put in front comes out last row first.
Sequence Lowering::appended(LoopParts& parts, size_t k, const Lowering& inner,
                            const Sequence& before, const Sequence& after) {
  const Grown grown = around_carried(after);
  Sequence result = before;
  if (parts.before.count(k)) {
    const Sequence rows = scanned(parts, inner, grown.before, parts.before[k], true);
    result.insert(result.begin(), rows.begin(), rows.end());
  }
  if (parts.behind.count(k)) {
    const Sequence rows = scanned(parts, inner, grown.behind, parts.behind[k], false);
    result.insert(result.end(), rows.begin(), rows.end());
  }
  return result;
}

// What the Loop stacks of `name`, the tensor of the rows of an iteration.
Sequence Lowering::scanned(LoopParts& parts, const Lowering& inner, const Sequence& rows,
                           const std::string& name, bool last_first) {
  parts.scans.push_back(value(name));
  parts.scan_names.push_back(fresh(parts.node, "appended"));
  std::string all = parts.scan_names.back();
  const auto follow = [&](const char* op) {
    const std::string from = std::exchange(all, fresh(parts.node, "appended"));
    add(parts.node, op, {from}, all);
  };
  if (last_first) follow("SequenceReverse");
  if (rows.size() > 1 || !all_ones(rows)) follow("SequenceFlatten");  // several an iteration
  const std::optional<int64_t> count =
      all_ones(rows) ? rounds(parts.node, parts.body, inner) : std::nullopt;
  if (!count) return {stacked(all)};
  Sequence result;
  for (int64_t row = 0; row < *count * static_cast<int64_t>(rows.size()); ++row) {
    result.push_back(one(fresh(parts.node, "element")));
    add(parts.node, "SequencePick", {all}, result.back().tensor, {integer("index", row)});
  }
  return result;
}

// How many iterations there will be, where it is a small number, as of a list comprehension.
std::optional<int64_t> Lowering::rounds(const NodeDef& node, const GraphDef& body,
                                        const Lowering& inner) const {
  constexpr int64_t kMost = 64;
  const std::optional<int64_t> count = number(input(node, 0));
  const std::string& condition = input(node, 1);
  if (!count || *count < 1 || *count > kMost || (!condition.empty() && number(condition) != 1))
    return {};
  return goes_on(body, inner) ? count : std::nullopt;
}

std::string Lowering::last_element(const NodeDef& node, const Sequence& sequence) {
  if (sequence.empty()) return {};
  const Part& last = sequence.back();
  if (is(last, Part::Kind::kOne)) return last.tensor;
  if (is(last, Part::Kind::kCarried) && last.owner == this) {
    std::string& name = last_[last.state];
    if (name.empty()) name = fresh(node, "last");
    return name;
  }
  if (!is(last, Part::Kind::kStacked)) return {};
  const std::string element = fresh(node, "last");
  add(node, "SequencePick", {last.tensor}, element, {integer("index", -1)});
  return element;
}

std::string Lowering::branches(const NodeDef& node) {
  const AttributeDef *yes = graph_of(node, "then_branch"), *no = graph_of(node, "else_branch");
  if (!yes || !no) {
    keep(node);
    return {};
  }
  Lowering first(*yes->graph, this, shared_), second(*no->graph, this, shared_);
  GraphDef &then_graph = first.run(), &else_graph = second.run();
  const std::vector<ValueDef> then_outputs = std::move(then_graph.outputs),
                              else_outputs = std::move(else_graph.outputs);
  then_graph.outputs.clear();
  else_graph.outputs.clear();
  NodeDef made = node;
  made.outputs.clear();
  for (size_t k = 0; k < node.outputs.size(); ++k) {
    if (k >= then_outputs.size() || k >= else_outputs.size())
      return "its graphs have another number of outputs";
    const Sequence *a = first.find(then_outputs[k].name), *b = second.find(else_outputs[k].name);
    if (!a && !b) {
      then_graph.outputs.push_back(then_outputs[k]);
      else_graph.outputs.push_back(else_outputs[k]);
      made.outputs.push_back(node.outputs[k]);
      continue;
    }
    const auto alike = [](const Part& x, const Part& y) {
      return x.kind == y.kind && x.owner == y.owner && x.state == y.state &&
             !is(x, Part::Kind::kPieces) && !is(x, Part::Kind::kHole);
    };
    if (!a || !b || !std::equal(a->begin(), a->end(), b->begin(), b->end(), alike))
      return told(told("its branches give sequences of different lengths", first), second);
    Sequence sequence;
    for (size_t i = 0; i < a->size(); ++i) {
      if (is((*a)[i], Part::Kind::kCarried)) {
        sequence.push_back((*a)[i]);
        continue;
      }
      then_graph.outputs.push_back(value((*a)[i].tensor));
      else_graph.outputs.push_back(value((*b)[i].tensor));
      made.outputs.push_back(fresh(node, "element"));
      sequence.push_back({(*a)[i].kind, made.outputs.back()});
    }
    set(node.outputs[k], std::move(sequence));
  }
  for (const Lowering* inner : {&first, &second})
    refused_.insert(refused_.end(), inner->refused_.begin(), inner->refused_.end());
  if (made.outputs.empty()) return {};  // empty sequences only
  set_graph(made, "then_branch", std::move(then_graph));
  set_graph(made, "else_branch", std::move(else_graph));
  result_.nodes.push_back(std::move(made));
  return {};
}

}  // namespace camshaft::onnx_import
