// SPDX-License-Identifier: Apache-2.0
// If, Loop, Scan: their graphs become bodies; tensors used from outside become extra inputs of the
// layer and of every body.
#include <algorithm>

#include "onnx/node.h"

namespace camshaft::onnx_import {
namespace {

struct Body {
  ir::Graph* graph = nullptr;  // of the session's drafts
  std::vector<Scope::Capture> captures;
};

// Shape of a body input, as the iterations so far leave it.
struct BodyInput {
  DataType type = DataType::kUndefined;
  bool has_rank = true;
  Shape shape;
};

Result<const GraphDef*> graph_attribute(Node& node, const char* name) {
  const AttributeDef* found = node.attribute(name, AttributeType::kGraph);
  if (found == nullptr || !found->graph) return invalid("attribute {} is missing", name);
  return found->graph.get();
}

// The nodes inside were reported one by one already.
Status reported() {
  return Status(ErrorCode::kUnsupported, "");
}

Status import_into(Scope& scope, const GraphDef& def) {
  const size_t before = scope.session.unsupported.size();
  CAMSHAFT_TRY(scope.declare_initializers(def));
  CAMSHAFT_TRY(import_nodes(scope, def.nodes));
  return scope.session.unsupported.size() == before ? ok_status() : reported();
}

Result<Body> import_body(Node& node, const GraphDef& def, const std::vector<BodyInput>& inputs) {
  if (def.inputs.size() != inputs.size())
    return invalid("graph \"{}\" has {} inputs instead of {}", def.name, def.inputs.size(),
                   inputs.size());
  for (const auto* values : {&def.inputs, &def.outputs})
    for (const ValueDef& value : *values)
      if (value.name.empty())
        return invalid("an input or output of graph \"{}\" has no name", def.name);
  Body body;
  body.graph = node.scope().session.add_draft(def.name.empty() ? node.name() : def.name,
                                              node.graph().shared_symbols());
  Scope scope(node.scope().session, *body.graph, &node.scope(), node.scope().opsets);
  for (size_t k = 0; k < inputs.size(); ++k) {
    Tensor* tensor = body.graph->add_tensor(def.inputs[k].name, inputs[k].type, inputs[k].shape);
    tensor->has_rank = inputs[k].has_rank;
    body.graph->add_input(tensor);
    scope.define(def.inputs[k].name, tensor);
  }
  CAMSHAFT_TRY(import_into(scope, def));
  for (const ValueDef& value : def.outputs) {
    CAMSHAFT_ASSIGN(Tensor * tensor, scope.find(value.name));
    if (tensor == nullptr)
      return invalid("output \"{}\" of graph \"{}\" is not made by any node", value.name, def.name);
    CAMSHAFT_ASSIGN(tensor, as_output(scope, value.name, tensor));
    if (scope.session.unusable.count(tensor)) return reported();
    body.graph->add_output(tensor);
  }
  body.captures = std::move(scope.captures);
  return body;
}

// Appends the captured tensors of all bodies to the layer's inputs, and gives every body an input
// for each, in the same order.
void join_captures(std::vector<Body>& bodies, std::vector<Tensor*>& inputs) {
  std::vector<Tensor*> captured;
  for (const Body& body : bodies)
    for (const Scope::Capture& capture : body.captures)
      if (std::find(captured.begin(), captured.end(), capture.outer) == captured.end())
        captured.push_back(capture.outer);
  for (Body& body : bodies)
    for (Tensor* outer : captured) {
      const auto used = std::find_if(body.captures.begin(), body.captures.end(),
                                     [&](const auto& entry) { return entry.outer == outer; });
      Tensor* inner = used != body.captures.end()
                          ? used->inner
                          : body.graph->add_tensor(outer->name, outer->type, outer->shape);
      inner->has_rank = outer->has_rank;
      body.graph->add_input(inner);
    }
  inputs.insert(inputs.end(), captured.begin(), captured.end());
}

Status emit_with_bodies(Node& node, LayerKind kind, Attrs attrs, std::vector<Tensor*> inputs,
                        std::vector<Body> bodies) {
  join_captures(bodies, inputs);
  std::vector<Tensor*> outputs;
  for (size_t k = 0; k < node.def().outputs.size(); ++k) outputs.push_back(node.output_tensor(k));
  ir::Layer* layer = node.graph().add_layer(kind, node.name(), std::move(attrs), std::move(inputs),
                                            std::move(outputs));
  layer->onnx_nodes = {node.name()};
  for (const Body& body : bodies)
    layer->bodies.push_back(node.scope().session.take_draft(body.graph));
  return ir::infer_layer(node.graph(), *layer);
}

// --- If

// The condition is known: the branch becomes part of this graph.
Status inline_branch(Node& node, const GraphDef& def) {
  Scope scope(node.scope().session, node.graph(), &node.scope(), node.scope().opsets);
  scope.prefix = node.scope().prefix;
  CAMSHAFT_TRY(import_into(scope, def));
  if (def.outputs.size() < node.def().outputs.size())
    return invalid("the branch has {} outputs, the node {}", def.outputs.size(),
                   node.def().outputs.size());
  for (size_t k = 0; k < node.def().outputs.size(); ++k) {
    CAMSHAFT_ASSIGN(Tensor* const tensor, scope.find(def.outputs[k].name));
    if (tensor == nullptr)
      return invalid("output \"{}\" of a branch is not made by any node", def.outputs[k].name);
    node.give(k, tensor);
  }
  return ok_status();
}

Status import_if(Node& node) {
  CAMSHAFT_TRY(node.require(1, 1));
  CAMSHAFT_ASSIGN(const GraphDef* const yes, graph_attribute(node, "then_branch"));
  CAMSHAFT_ASSIGN(const GraphDef* const no, graph_attribute(node, "else_branch"));
  if (node.input(0)->type != DataType::kBool)
    return invalid("the condition has type {}", ir::type_name(node.input(0)->type));
  if (const std::optional<Ints> condition = node.numbers(0); condition && condition->size() == 1)
    return inline_branch(node, (*condition)[0] != 0 ? *yes : *no);
  std::vector<Body> bodies;
  Status first_failure;
  for (const GraphDef* def : {yes, no}) {
    Result<Body> body = import_body(node, *def, {});
    if (!body.ok() && body.status().code() != ErrorCode::kUnsupported) return body.status();
    if (!body.ok() && first_failure.ok()) first_failure = body.status();
    if (body.ok()) bodies.push_back(std::move(body).value());
  }
  CAMSHAFT_TRY(first_failure);
  if (bodies[0].graph->outputs().size() < node.def().outputs.size())
    return invalid("the node has more outputs than its branches");
  return emit_with_bodies(node, LayerKind::kIf, ir::NoAttrs{}, {node.input(0)}, std::move(bodies));
}

// --- Loop and Scan

// Makes the shapes of the carried inputs those that hold in every iteration: extents that change
// are other symbols than those of the first iteration, `initial`. True: something changed.
bool generalize(Node& node, const Body& body, size_t first_input, size_t first_output, size_t count,
                const std::vector<BodyInput>& initial, std::vector<BodyInput>& inputs) {
  bool changed = false;
  ir::SymbolTable& symbols = node.symbols();
  for (size_t k = 0; k < count; ++k) {
    BodyInput& input = inputs[first_input + k];
    const Tensor& output = *body.graph->outputs()[first_output + k];
    if (!input.has_rank) continue;
    if (!output.has_rank || output.shape.size() != input.shape.size()) {
      input.has_rank = false;
      input.shape.clear();
      changed = true;
      continue;
    }
    for (size_t d = 0; d < input.shape.size(); ++d) {
      const bool open = input.shape[d] != initial[first_input + k].shape[d];
      if (input.shape[d] == output.shape[d] || open) continue;
      input.shape[d] = symbols.runtime(fmt::format("run{}", symbols.size()));
      changed = true;
    }
  }
  return changed;
}

// Imports the body until the shapes of its carried inputs are those of its carried outputs.
Result<Body> import_iterated(Node& node, const GraphDef& def, std::vector<BodyInput> inputs,
                             size_t first_input, size_t first_output, size_t count) {
  constexpr int kRounds = 6;
  const std::vector<BodyInput> initial = inputs;
  for (int round = 0;; ++round) {
    CAMSHAFT_ASSIGN(Body body, import_body(node, def, inputs));
    if (body.graph->outputs().size() < first_output + count)
      return invalid("the body has {} outputs", body.graph->outputs().size());
    for (size_t k = 0; k < count; ++k)
      if (body.graph->outputs()[first_output + k]->type != inputs[first_input + k].type)
        return invalid("carried value {} changes its type", k);
    if (!generalize(node, body, first_input, first_output, count, initial, inputs)) return body;
    if (round == kRounds) return unsupported("the shapes of carried values do not settle");
  }
}

BodyInput like(const Tensor& tensor) {
  return {tensor.type, tensor.has_rank, tensor.shape};
}

Status import_loop(Node& node) {
  CAMSHAFT_ASSIGN(const GraphDef* const def, graph_attribute(node, "body"));
  const std::vector<std::string>& given = node.def().inputs;
  if (given.size() < 2 && !def->inputs.empty() && def->inputs.size() != 2)
    return invalid("{} inputs", given.size());
  const size_t carried = given.size() < 2 ? 0 : given.size() - 2;
  std::vector<Tensor*> inputs(2 + carried);
  for (size_t k = 0; k < inputs.size(); ++k) inputs[k] = node.input(k);
  if (inputs[0] != nullptr && inputs[0]->type != DataType::kInt64)
    return invalid("the trip count is not INT64");
  if (inputs[1] != nullptr && inputs[1]->type != DataType::kBool)
    return invalid("the condition is not BOOL");
  if (def->inputs.size() != 2 + carried)
    return invalid("the body has {} inputs instead of {}", def->inputs.size(), 2 + carried);
  std::vector<BodyInput> body_inputs;
  for (size_t k = 0; k < 2; ++k) {
    const bool vector = def->inputs[k].has_shape && def->inputs[k].shape.size() == 1;
    body_inputs.push_back(
        {k == 0 ? DataType::kInt64 : DataType::kBool, true, vector ? Shape{Dim(1)} : Shape{}});
  }
  for (size_t k = 2; k < inputs.size(); ++k) {
    if (inputs[k] == nullptr) return invalid("carried value {} has no initial value", k - 2);
    body_inputs.push_back(like(*inputs[k]));
  }
  CAMSHAFT_ASSIGN(Body body, import_iterated(node, *def, body_inputs, 2, 1, carried));
  const size_t scans = body.graph->outputs().size() - 1 - carried;
  if (node.def().outputs.size() > carried + scans)
    return invalid("{} outputs, the body gives {}", node.def().outputs.size(), carried + scans);
  ir::LoopAttrs attrs;
  attrs.scan_output_axes.assign(scans, 0);
  attrs.scan_output_directions.assign(scans, 0);
  std::vector<Body> bodies;
  bodies.push_back(std::move(body));
  return emit_with_bodies(node, LayerKind::kLoop, std::move(attrs), std::move(inputs),
                          std::move(bodies));
}

Result<Ints> scan_list(Node& node, const char* name, size_t count, int64_t limit) {
  Ints list = node.integers(name);
  if (list.empty()) list.assign(count, 0);
  if (list.size() != count)
    return invalid("{} has {} entries instead of {}", name, list.size(), count);
  for (int64_t entry : list)
    if (entry > limit || entry < -limit) return invalid("{} has entry {}", name, entry);
  return list;
}

Status import_scan(Node& node) {
  if (node.opset() < 9)
    return unsupported("the batched form of opset 8: convert the model to opset 9 or later");
  CAMSHAFT_ASSIGN(const GraphDef* const def, graph_attribute(node, "body"));
  const int64_t scan_inputs = node.integer("num_scan_inputs", 0);
  const size_t total = node.def().inputs.size();
  if (scan_inputs < 1 || scan_inputs > static_cast<int64_t>(total))
    return invalid("num_scan_inputs is {} of {} inputs", scan_inputs, total);
  CAMSHAFT_TRY(node.require(total));
  const size_t states = total - static_cast<size_t>(scan_inputs);
  if (def->outputs.size() < states)
    return invalid("the body has {} outputs for {} states", def->outputs.size(), states);
  const size_t scans = def->outputs.size() - states;
  ir::LoopAttrs attrs;
  attrs.num_scan_inputs = scan_inputs;
  CAMSHAFT_ASSIGN(attrs.scan_input_axes,
                  scan_list(node, "scan_input_axes", scan_inputs, ir::kMaxRank));
  CAMSHAFT_ASSIGN(attrs.scan_input_directions,
                  scan_list(node, "scan_input_directions", scan_inputs, 1));
  CAMSHAFT_ASSIGN(attrs.scan_output_axes, scan_list(node, "scan_output_axes", scans, ir::kMaxRank));
  CAMSHAFT_ASSIGN(attrs.scan_output_directions,
                  scan_list(node, "scan_output_directions", scans, 1));
  std::vector<BodyInput> body_inputs;
  for (size_t k = 0; k < states; ++k) body_inputs.push_back(like(*node.input(k)));
  for (size_t k = states; k < total; ++k) {
    CAMSHAFT_ASSIGN(const size_t rank, node.rank(k));
    CAMSHAFT_ASSIGN(const int64_t axis, node.axis(attrs.scan_input_axes[k - states], rank));
    attrs.scan_input_axes[k - states] = axis;
    body_inputs.push_back(like(*node.input(k)));
    body_inputs.back().shape.erase(axis);
  }
  CAMSHAFT_ASSIGN(Body body, import_iterated(node, *def, body_inputs, 0, 0, states));
  for (size_t k = 0; k < scans; ++k) {
    const Tensor& element = *body.graph->outputs()[states + k];
    if (!element.has_rank) continue;
    CAMSHAFT_ASSIGN(attrs.scan_output_axes[k],
                    node.axis(attrs.scan_output_axes[k], element.shape.size() + 1));
  }
  std::vector<Body> bodies;
  bodies.push_back(std::move(body));
  return emit_with_bodies(node, LayerKind::kScan, std::move(attrs), node.inputs(),
                          std::move(bodies));
}

}  // namespace

std::span<const OperatorRow> control_operators() {
  static constexpr OperatorRow kOperators[] = {
      {"If", import_if},
      {"Loop", import_loop},
      {"Scan", import_scan},
  };
  return kOperators;
}

}  // namespace camshaft::onnx_import
