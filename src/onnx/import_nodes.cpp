// SPDX-License-Identifier: Apache-2.0
// Imports nodes one after another: looks up inputs and operators, inlines functions, collects what
// is not supported.
#include <algorithm>
#include <array>

#include "base/log.h"
#include "onnx/input_types.h"
#include "onnx/node.h"
#include "onnx/ops_contrib.h"
#include "onnx/renaming.h"
#include "onnx/sequences.h"
#include "onnx/topology.h"

namespace camshaft::onnx_import {
namespace {

constexpr int kMaxNodes =
    4'000'000;  // after inlining: a few nested functions could ask for any number
constexpr int kMaxInlineDepth = 32;

const std::array kFamilies = {
    convolution_operators, pointwise_operators, matrix_operators,   normalization_operators,
    reduce_operators,      shuffle_operators,   squeeze_operators,  slice_operators,
    constant_operators,    gather_operators,    resize_operators,   quantize_operators,
    recurrence_operators,  control_operators,   einsum_operators,   attention_operators,
    signal_operators,      generic_operators,   learning_operators, tree_operators,
    svm_operators,         misplaced_operators};

std::string describe_inputs(const NodeDef& def, const std::vector<Tensor*>& inputs) {
  std::string text;
  for (size_t k = 0; k < inputs.size(); ++k)
    text += inputs[k] ? fmt::format("[{} -> {}], ", def.inputs[k], describe(inputs[k]))
                      : "[optional input, not set], ";
  return text;
}

void log_outputs(Scope& scope, const NodeDef& def, const std::string& name) {
  if (!log_enabled(Severity::kVerbose)) return;
  std::string text;
  for (const std::string& output : def.outputs) {
    Result<Tensor*> tensor = output.empty() ? Result<Tensor*>(nullptr) : scope.find(output);
    if (!tensor.ok() || *tensor == nullptr) continue;
    log(Severity::kVerbose, "Registering tensor: {} for ONNX tensor: {}", (*tensor)->name, output);
    text += fmt::format("[{} -> {}], ", output, describe(*tensor));
  }
  log(Severity::kVerbose, "{} [{}] outputs: {}", name, def.op_type, text);
}

// Results of a node that could not be imported: later nodes know them by this and are not blamed.
void mark_unusable(Scope& scope, const NodeDef& def) {
  for (const std::string& output : def.outputs) {
    if (output.empty()) continue;
    Tensor* tensor = scope.graph.add_tensor(scope.tensor_name(output), DataType::kUndefined, {});
    tensor->has_rank = false;
    scope.session.unusable.insert(tensor);
    scope.define(output, tensor);
  }
}

Result<std::vector<Tensor*>> find_inputs(Scope& scope, const NodeDef& def) {
  std::vector<Tensor*> inputs;
  for (const std::string& input : def.inputs) {
    if (input.empty()) {
      inputs.push_back(nullptr);
      continue;
    }
    log(Severity::kVerbose, "Searching for input: {}", input);
    CAMSHAFT_ASSIGN(Tensor* const tensor, scope.find(input));
    if (tensor == nullptr) return invalid("tensor \"{}\" does not exist", input);
    inputs.push_back(tensor);
  }
  return inputs;
}

Status inline_function(Scope& scope, const NodeDef& call, const FunctionDef& function,
                       const std::string& name, const std::vector<Tensor*>& inputs) {
  Session& session = scope.session;
  if (session.inline_depth >= kMaxInlineDepth)
    return invalid("function {} calls itself, directly or in a circle", function.name);
  if (inputs.size() > function.inputs.size())
    return invalid("{} inputs, function {} has {}", inputs.size(), function.name,
                   function.inputs.size());
  Opsets opsets;
  for (const OpsetDef& opset : function.opsets) opsets[opset.domain] = opset.version;
  Scope body(session, scope.graph, nullptr, opsets.empty() ? scope.opsets : opsets);
  body.prefix = name + "/";
  body.reserved = scope.reserved;
  body.is_function = true;
  for (size_t k = 0; k < inputs.size(); ++k)
    if (inputs[k] != nullptr) body.define(function.inputs[k], inputs[k]);
  std::vector<NodeDef> nodes;
  for (const NodeDef& node : function.nodes) {
    nodes.push_back(bind_attributes(node, call));
    // An optional input of the function that the call leaves out is an absent input inside, too.
    for (std::string& input : nodes.back().inputs)
      for (size_t k = 0; k < function.inputs.size(); ++k)
        if (input == function.inputs[k] && (k >= inputs.size() || inputs[k] == nullptr))
          input.clear();
  }
  ++session.inline_depth;
  const Status status = import_nodes(body, nodes);
  --session.inline_depth;
  CAMSHAFT_TRY(status);
  for (size_t k = 0; k < call.outputs.size(); ++k) {
    if (call.outputs[k].empty()) continue;
    if (k >= function.outputs.size())
      return invalid("{} outputs, function {} has {}", call.outputs.size(), function.name,
                     function.outputs.size());
    CAMSHAFT_ASSIGN(Tensor* const tensor, body.find(function.outputs[k]));
    if (tensor == nullptr)
      return invalid("function {} does not make its output \"{}\"", function.name,
                     function.outputs[k]);
    scope.define(call.outputs[k], tensor);
  }
  return ok_status();
}

constexpr int64_t kNotImported = 0;

int64_t opset_of(const Scope& scope, const std::string& domain) {
  const auto found = scope.opsets.find(domain);
  return found == scope.opsets.end() ? kNotImported : found->second;
}

Status import_operator(Scope& scope, const NodeDef& def, const std::string& name,
                       const std::vector<Tensor*>& inputs) {
  Session& session = scope.session;
  if (const auto function = session.functions.find({def.domain, def.op_type});
      function != session.functions.end())
    return inline_function(scope, def, *function->second, name, inputs);
  const bool on_sequences = def.domain == kSequenceDomain;
  const int64_t opset = opset_of(scope, on_sequences ? "" : def.domain);
  const bool standard = on_sequences || def.domain.empty() || def.domain == "ai.onnx.ml" ||
                        def.domain == "ai.onnx.preview.training";
  const bool microsoft = def.domain == "com.microsoft";
  const OperatorRow* row = on_sequences ? find_sequence_operator(def)
                           : microsoft  ? find_microsoft_operator(def.op_type)
                                        : find_operator(def.op_type);
  if (def.domain == "com.microsoft.nchwc")
    return unsupported(
        "ONNX Runtime saved this model in the memory layout of one machine (optimization level "
        "\"all\"): save it at level \"extended\", or give the model it was made of");
  if (microsoft && !row)
    return unsupported("operator {} of domain com.microsoft is not known", def.op_type);
  if (!standard && !microsoft)
    return unsupported(
        "operators of domain \"{}\" are not known, and the model does not define this one as a "
        "function",
        def.domain);
  // com.microsoft has one version; ONNX Runtime's transformer optimizer leaves its import out.
  if (opset == kNotImported && !microsoft)
    return invalid("the model does not import an operator set for domain \"{}\"",
                   def.domain.empty() ? "ai.onnx" : def.domain);
  if (row == nullptr) return unsupported("operator {} is not known", def.op_type);
  for (const Tensor* tensor : inputs)
    if (tensor != nullptr && session.unusable.count(tensor)) {
      mark_unusable(scope, def);
      return ok_status();
    }
  if (std::all_of(def.outputs.begin(), def.outputs.end(),
                  [](const std::string& output) { return output.empty(); }))
    return ok_status();  // nobody can use what it makes
  if (def.domain.empty()) CAMSHAFT_TRY(check_input_types(def.op_type, inputs));
  // Operators of other domains are made of standard ones, whose version counts.
  const int64_t main_opset = opset_of(scope, "");
  const int64_t version = microsoft && main_opset != kNotImported ? main_opset : opset;
  Node node(scope, def, name, version, inputs);
  CAMSHAFT_TRY(row->import(node));
  return node.attribute_status();
}

Status import_node(Scope& scope, const NodeDef& def, const std::string& name) {
  Session& session = scope.session;
  if (++session.nodes_imported > kMaxNodes)
    return invalid("more than {} nodes after inlining", kMaxNodes);
  log(Severity::kVerbose, "Parsing node: {} [{}]", name, def.op_type);
  CAMSHAFT_ASSIGN(const std::vector<Tensor*> inputs, find_inputs(scope, def));
  if (log_enabled(Severity::kVerbose))
    log(Severity::kVerbose, "{} [{}] inputs: {}", name, def.op_type, describe_inputs(def, inputs));
  const Status status = import_operator(scope, def, name, inputs);
  if (status.code() == ErrorCode::kUnsupported) {
    if (!status.message().empty())  // empty: what is wrong inside was reported there
      session.unsupported.push_back(
          {session.main_node,
           fmt::format("node {} ({}): {}", name, def.op_type, status.message())});
    mark_unusable(scope, def);
    return ok_status();
  }
  if (!status.ok()) return status;
  log_outputs(scope, def, name);
  return ok_status();
}

}  // namespace

const OperatorRow* find_operator(std::string_view op_type) {
  static const auto table = [] {
    std::unordered_map<std::string_view, const OperatorRow*> all;
    for (const auto& family : kFamilies)
      for (const OperatorRow& row : family()) all.emplace(row.op_type, &row);
    return all;
  }();
  const auto found = table.find(op_type);
  return found == table.end() ? nullptr : found->second;
}

std::string describe(const Tensor* tensor) {
  if (!tensor->has_rank) return fmt::format("(?)[{}]", onnx_type_name(tensor->type));
  std::string text = "(";
  const ir::SymbolTable& symbols = tensor->graph->symbols();
  for (size_t d = 0; d < tensor->shape.size(); ++d)
    text += (d ? ", " : "") + symbols.to_string(tensor->shape[d]);
  return fmt::format("{})[{}]", text, onnx_type_name(tensor->type));
}

Result<Tensor*> copy_tensor(Scope& scope, const std::string& name, Tensor* tensor) {
  if (scope.session.unusable.count(tensor)) return tensor;
  ir::Graph& graph = scope.graph;
  Tensor* copy = graph.add_tensor(name, tensor->type, {});
  ir::Layer* layer = graph.add_layer(LayerKind::kUnary, "Identity of " + name,
                                     ir::PointOpAttrs{PointOp::kIdentity}, {tensor}, {copy});
  if (tensor->producer != nullptr) layer->onnx_nodes = tensor->producer->onnx_nodes;
  CAMSHAFT_TRY(ir::infer_layer(graph, *layer));
  return copy;
}

Result<Tensor*> as_output(Scope& scope, const std::string& name, Tensor* tensor) {
  const bool made_here = tensor->producer != nullptr && !scope.graph.is_output(tensor);
  return made_here ? Result<Tensor*>(tensor) : copy_tensor(scope, name, tensor);
}

Status import_nodes(Scope& scope, const std::vector<NodeDef>& nodes) {
  CAMSHAFT_ASSIGN(const std::vector<size_t> order, topological_order(scope, nodes));
  Session& session = scope.session;
  const bool is_main = &nodes == &session.model.graph->nodes;
  for (size_t position : order) {
    const NodeDef& node = nodes[position];
    if (is_main) session.main_node = static_cast<int>(position);
    const std::string name = node_name(node, position, scope.prefix);
    if (node.op_type.empty()) return invalid("node {} has no operator", name);
    if (Status status = import_node(scope, node, name); !status.ok()) {
      const bool named = status.message().starts_with("node ");  // from a graph inside this node
      Status error =
          named ? status : status.with_context(fmt::format("node {} ({})", name, node.op_type));
      if (!is_main || session.options.unsupported == nullptr) return error;
      session.unsupported.push_back({session.main_node, error.message()});
      mark_unusable(scope, node);
    }
  }
  return ok_status();
}

}  // namespace camshaft::onnx_import
