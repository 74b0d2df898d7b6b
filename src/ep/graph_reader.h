// SPDX-License-Identifier: Apache-2.0
// A graph of ONNX Runtime as the plain structs the importer reads. Weights are looked at in place.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "ep/host.h"
#include "onnx/model.h"

namespace camshaft::ep {

// What keeps copied attributes and mapped files alive; the owner of a Model made here.
struct Keeper {
  std::deque<std::string> texts;
  std::deque<std::vector<float>> floats;
  std::deque<std::vector<int64_t>> integers;
  std::deque<std::vector<std::byte>> bytes;
  std::map<std::string, std::shared_ptr<const onnx_import::MappedFile>> files;
};

struct GraphValue {
  onnx_import::ValueDef def;
  const abi::ValueInfo* info = nullptr;
  bool is_constant = false;
};

struct GraphNode {
  const abi::Node* handle = nullptr;
  onnx_import::NodeDef def;
  std::vector<std::string> captured;  // names its subgraphs take from outside
  std::string taken_by;               // an execution provider that has it already
};

struct ReadGraph {
  std::string name;
  std::filesystem::path model_path;
  int64_t ir_version = 0;
  bool has_parent = false;
  std::vector<onnx_import::OpsetDef> opsets;
  std::vector<GraphNode> nodes;  // in topological order
  std::unordered_map<std::string, GraphValue> values;
  std::vector<std::string> inputs, outputs;
  std::shared_ptr<Keeper> keeper = std::make_shared<Keeper>();
};

Result<ReadGraph> read_graph(const Host& host, const abi::Graph* graph);

// Some nodes of a graph as a model of their own: what they take from elsewhere are its inputs, what
// others take from them its outputs. Constants stay where they are: the graph must outlive the
// model, unless it is made to `own_constants`.
Result<onnx_import::Model> make_model(const Host& host, const ReadGraph& graph,
                                      const std::vector<size_t>& nodes, bool own_constants = false);

// The element type's number is of onnx.TensorProto.DataType and ONNX Runtime's alike.
Result<std::vector<std::byte>> read_bytes(const Host& host, const abi::Value* value);

}  // namespace camshaft::ep
