// SPDX-License-Identifier: Apache-2.0
// Names while importing: which tensor an ONNX name stands for, in this graph, in an inlined one, or
// captured from outside.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/graph.h"
#include "onnx/evaluated.h"
#include "onnx/importer.h"
#include "onnx/model.h"
#include "onnx/tensor_data.h"

namespace camshaft::onnx_import {

using Opsets = std::map<std::string, int64_t>;

// State of one import.
struct Session {
  const Model& model;
  ImportOptions options;
  ExternalData external;
  std::map<std::pair<std::string, std::string>, const FunctionDef*> functions;
  std::vector<UnsupportedPart> unsupported;
  std::unordered_set<const ir::Tensor*>
      unusable;  // results of unsupported nodes, and what follows from them
  int nodes_imported = 0;
  int inline_depth = 0;
  int main_node = -1;  // the node of the main graph that is being imported
  Evaluated evaluated = {};
  // Bodies until a layer takes them, and those imported in vain. They last as long as the import:
  // were their tensors freed, others would come to lie where those above are looked for.
  std::vector<std::unique_ptr<ir::Graph>> drafts = {};

  ir::Graph* add_draft(std::string name, std::shared_ptr<ir::SymbolTable> symbols);
  std::unique_ptr<ir::Graph> take_draft(const ir::Graph* graph);
};

class Scope {
 public:
  // `outer` null: the main graph or a function body. With outer's graph, names are local but layers
  // go into that graph.
  Scope(Session& session, ir::Graph& graph, Scope* outer, Opsets opsets)
      : session(session), graph(graph), opsets(std::move(opsets)), outer_(outer) {}

  Session& session;
  ir::Graph& graph;
  Opsets opsets;
  std::string prefix;                        // of node names: "" or "call/"
  std::unordered_set<std::string> reserved;  // names of network outputs, kept for them
  bool is_function = false;                  // a body whose tensors lie among those of its caller

  Status declare_initializers(const GraphDef& def);
  bool has_initializer(const std::string& name) const {
    return initializers_.count(name) > 0 || sparse_.count(name) > 0;
  }
  void define(const std::string& name, ir::Tensor* tensor) { values_[name] = tensor; }
  // Null: there is no such tensor.
  Result<ir::Tensor*> find(const std::string& name);
  bool knows(const std::string& name) const;
  ir::Tensor* add_constant(const std::string& name, const TensorData& data);
  // What a node's result is called: in a function's body another may be the network's output of
  // that name.
  std::string tensor_name(const std::string& name) const;

  // Tensors of the enclosing graph used here, in order of first use.
  struct Capture {
    ir::Tensor* outer;
    ir::Tensor* inner;
  };
  std::vector<Capture> captures;

 private:
  ir::Tensor* capture(ir::Tensor* outer);

  Scope* outer_;
  std::unordered_map<std::string, ir::Tensor*> values_;
  std::unordered_map<std::string, const TensorDef*> initializers_;
  std::unordered_map<std::string, const SparseTensorDef*> sparse_;
};

}  // namespace camshaft::onnx_import
