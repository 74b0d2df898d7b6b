// SPDX-License-Identifier: Apache-2.0
#include "ep/graph_reader.h"

#include <algorithm>
#include <cstring>
#include <unordered_set>

namespace camshaft::ep {
namespace {

using onnx_import::AttributeDef;
using onnx_import::AttributeType;
using onnx_import::DimDef;
using onnx_import::GraphDef;
using onnx_import::TensorDef;
using onnx_import::ValueDef;

constexpr int kMaxNesting = 24;  // as the importer's

class Reader {
 public:
  Reader(const Host& host, Keeper& keeper, std::filesystem::path directory)
      : host_(host), keeper_(keeper), directory_(std::move(directory)) {}

  Result<std::string> name_of(const abi::ValueInfo* value) const {
    if (value == nullptr) return std::string();  // an optional one that is left out
    CAMSHAFT_ASSIGN(const char* const name, host_.get<const char*>(abi::api::kValueName, value));
    return std::string(name);
  }

  Result<ValueDef> value(const abi::ValueInfo* info) const {
    ValueDef def;
    CAMSHAFT_ASSIGN(def.name, name_of(info));
    CAMSHAFT_ASSIGN(const abi::TypeInfo* const type,
                    host_.get<const abi::TypeInfo*>(abi::api::kValueType, info));
    if (type == nullptr) return def;
    CAMSHAFT_ASSIGN(const int kind, host_.get<int>(abi::api::kValueKind, type));
    if (kind != abi::kTensor) {
      constexpr const char* kKinds[] = {"",       "tensor",        "sequence", "map",
                                        "opaque", "sparse tensor", "optional"};
      def.kind = kind >= 0 && kind < 7 ? kKinds[kind] : "opaque";
      return def;
    }
    def.kind = "tensor";
    CAMSHAFT_ASSIGN(const abi::TensorInfo* const tensor,
                    host_.get<const abi::TensorInfo*>(abi::api::kAsTensorInfo, type));
    CAMSHAFT_ASSIGN(def.data_type, host_.get<int>(abi::api::kElementType, tensor));
    CAMSHAFT_TRY(read_shape(tensor, def));
    return def;
  }

  Result<AttributeDef> attribute(const abi::OpAttr* handle) const {
    AttributeDef def;
    CAMSHAFT_ASSIGN(const char* const name,
                    host_.get<const char*>(abi::api::kAttributeName, handle));
    def.name = name;
    const Result<int> kind = host_.get<int>(abi::api::kAttributeKind, handle);
    def.type = AttributeType::kOther;  // of a kind the interface does not hand out
    if (kind.ok()) CAMSHAFT_TRY(read_attribute(handle, *kind, def));
    return def;
  }

  Result<TensorDef> constant(const abi::ValueInfo* info, const ValueDef& value, bool own) const {
    TensorDef tensor;
    tensor.name = value.name;
    tensor.data_type = value.data_type;
    for (const DimDef& dim : value.shape) tensor.extents.push_back(dim.extent.value_or(-1));
    tensor.has_raw = true;
    CAMSHAFT_ASSIGN(tensor.raw, constant_bytes(info, own));
    return tensor;
  }

 private:
  Status read_shape(const abi::TensorInfo* tensor, ValueDef& def) const {
    CAMSHAFT_ASSIGN(const size_t rank, host_.get<size_t>(abi::api::kRank, tensor));
    // Before 1.24 nothing tells a scalar from a tensor of unknown rank.
    def.has_shape = rank > 0 || (host_.version >= abi::api::kHasShapeSince &&
                                 host_.api(abi::api::kHasShape, tensor));
    if (rank == 0) return ok_status();
    std::vector<int64_t> extents(rank);
    std::vector<const char*> symbols(rank);
    CAMSHAFT_TRY(host_.call(abi::api::kExtents, tensor, extents.data(), rank));
    CAMSHAFT_TRY(host_.call(abi::api::kSymbols, tensor, symbols.data(), rank));
    for (size_t d = 0; d < rank; ++d) {
      DimDef dim;
      if (extents[d] >= 0) dim.extent = extents[d];
      if (!dim.extent && symbols[d] != nullptr) dim.param = symbols[d];
      def.shape.push_back(std::move(dim));
    }
    return ok_status();
  }

  Result<std::string_view> attribute_bytes(const abi::OpAttr* handle, int kind) const {
    size_t size = 0;
    // The first answer is an error that says how much there is.
    (void)host_.call(abi::api::kReadAttribute, handle, kind, nullptr, size_t{0}, &size);
    std::string& text = keeper_.texts.emplace_back(size, '\0');
    if (size > 0)
      CAMSHAFT_TRY(host_.call(abi::api::kReadAttribute, handle, kind, text.data(), size, &size));
    return std::string_view(text).substr(0, size);
  }

  template <class T>
  Result<std::span<const T>> numbers(const abi::OpAttr* handle, int kind,
                                     std::deque<std::vector<T>>& keep) const {
    CAMSHAFT_ASSIGN(const std::string_view bytes, attribute_bytes(handle, kind));
    std::vector<T>& values = keep.emplace_back(bytes.size() / sizeof(T));
    if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
    return std::span<const T>(values);
  }

  Status read_attribute(const abi::OpAttr* handle, int kind, AttributeDef& def) const {
    switch (kind) {
      case abi::kAttributeInt: {
        CAMSHAFT_ASSIGN(const auto values, numbers<int64_t>(handle, kind, keeper_.integers));
        if (values.size() == 1) def.i = values[0];
        def.type = AttributeType::kInt;
        break;
      }
      case abi::kAttributeFloat: {
        CAMSHAFT_ASSIGN(const auto values, numbers<float>(handle, kind, keeper_.floats));
        if (values.size() == 1) def.f = values[0];
        def.type = AttributeType::kFloat;
        break;
      }
      case abi::kAttributeInts: {
        CAMSHAFT_ASSIGN(def.ints, numbers<int64_t>(handle, kind, keeper_.integers));
        def.type = AttributeType::kInts;
        break;
      }
      case abi::kAttributeFloats: {
        CAMSHAFT_ASSIGN(def.floats, numbers<float>(handle, kind, keeper_.floats));
        def.type = AttributeType::kFloats;
        break;
      }
      case abi::kAttributeString: {
        CAMSHAFT_ASSIGN(def.text, attribute_bytes(handle, kind));
        def.type = AttributeType::kString;
        break;
      }
      case abi::kAttributeStrings: {  // each ends in 0
        CAMSHAFT_ASSIGN(std::string_view all, attribute_bytes(handle, kind));
        for (size_t end; (end = all.find('\0')) != std::string_view::npos;
             all.remove_prefix(end + 1))
          def.texts.push_back(all.substr(0, end));
        def.type = AttributeType::kStrings;
        break;
      }
      case abi::kAttributeTensor:
        return read_tensor_attribute(handle, def);
      default:
        break;
    }
    return ok_status();
  }

  Status read_tensor_attribute(const abi::OpAttr* handle, AttributeDef& def) const {
    CAMSHAFT_ASSIGN(abi::Value* const value,
                    host_.get<abi::Value*>(abi::api::kTensorAttribute, handle));
    if (value == nullptr) return ok_status();
    Status status = copy_tensor(value, def);
    host_.api(abi::api::kReleaseValue, value);
    return status;
  }

  Status copy_tensor(const abi::Value* value, AttributeDef& def) const {
    CAMSHAFT_ASSIGN(abi::TensorInfo* const info,
                    host_.get<abi::TensorInfo*>(abi::api::kTensorInfo, value));
    ValueDef shape;
    const Status status = read_shape(info, shape);
    const Result<int> type = host_.get<int>(abi::api::kElementType, info);
    host_.api(abi::api::kReleaseTensorInfo, info);
    CAMSHAFT_TRY(status);
    CAMSHAFT_TRY(type.status());
    auto tensor = std::make_shared<TensorDef>();
    tensor->data_type = *type;
    for (const DimDef& dim : shape.shape) tensor->extents.push_back(dim.extent.value_or(-1));
    constexpr int kString = 8;
    if (*type != kString) {
      CAMSHAFT_ASSIGN(std::vector<std::byte> bytes, read_bytes(host_, value));
      tensor->raw = keeper_.bytes.emplace_back(std::move(bytes));
    }
    tensor->has_raw = true;
    def.tensor = std::move(tensor);
    def.type = AttributeType::kTensor;
    return ok_status();
  }

  Result<std::span<const std::byte>> constant_bytes(const abi::ValueInfo* info, bool own) const {
    CAMSHAFT_ASSIGN(abi::ExternalInitializerInfo* const external,
                    host_.get<abi::ExternalInitializerInfo*>(abi::api::kExternal, info));
    if (external != nullptr) return file_bytes(external);
    CAMSHAFT_ASSIGN(const abi::Value* const value,
                    host_.get<const abi::Value*>(abi::api::kInitializer, info));
    if (value == nullptr)
      return make_error(ErrorCode::kInternal, "ONNX Runtime does not give an initializer's value");
    CAMSHAFT_ASSIGN(const size_t size, host_.get<size_t>(abi::api::kTensorBytes, value));
    CAMSHAFT_ASSIGN(const void* const data, host_.get<const void*>(abi::api::kTensorData, value));
    const std::span<const std::byte> bytes(static_cast<const std::byte*>(data), size);
    if (!own) return bytes;
    return std::span<const std::byte>(keeper_.bytes.emplace_back(bytes.begin(), bytes.end()));
  }

  Result<std::span<const std::byte>> file_bytes(abi::ExternalInitializerInfo* external) const {
    std::filesystem::path path = host_.api(abi::api::kExternalFile, external);
    const auto offset = static_cast<size_t>(host_.api(abi::api::kExternalOffset, external));
    const size_t size = host_.api(abi::api::kExternalBytes, external);
    host_.api(abi::api::kReleaseExternal, external);
    if (path.is_relative()) path = directory_ / path;
    std::shared_ptr<const onnx_import::MappedFile>& file = keeper_.files[path.string()];
    if (!file) {
      CAMSHAFT_ASSIGN(file, onnx_import::MappedFile::open(path));
    }
    if (offset > file->bytes().size() || size > file->bytes().size() - offset)
      return make_error(ErrorCode::kInvalidModel, "{}: {} bytes at offset {} are not there",
                        path.string(), size, offset);
    return file->bytes().subspan(offset, size);
  }

  const Host& host_;
  Keeper& keeper_;
  std::filesystem::path directory_;
};

Result<GraphDef> read_subgraph(const Host& host, const Reader& reader, const abi::Graph* graph,
                               int depth);

// A node with the graphs inside it; its values are handed to `note`.
template <class Note>
Result<GraphNode> read_node(const Host& host, const Reader& reader, const abi::Node* handle,
                            int depth, const Note& note) {
  GraphNode node;
  node.handle = handle;
  CAMSHAFT_ASSIGN(const char* const name, host.get<const char*>(abi::api::kNodeName, handle));
  CAMSHAFT_ASSIGN(const char* const op, host.get<const char*>(abi::api::kOperator, handle));
  CAMSHAFT_ASSIGN(const char* const domain, host.get<const char*>(abi::api::kDomain, handle));
  CAMSHAFT_ASSIGN(const char* const taken_by, host.get<const char*>(abi::api::kNodeEp, handle));
  node.def.name = name;
  node.def.op_type = op;
  node.def.domain = std::string_view(domain) == "ai.onnx" ? "" : domain;
  if (taken_by != nullptr) node.taken_by = taken_by;
  CAMSHAFT_ASSIGN(const auto inputs, host.list<const abi::ValueInfo*>(
                                         abi::api::kNodeInputCount, abi::api::kNodeInputs, handle));
  CAMSHAFT_ASSIGN(
      const auto outputs,
      host.list<const abi::ValueInfo*>(abi::api::kNodeOutputCount, abi::api::kNodeOutputs, handle));
  CAMSHAFT_ASSIGN(const auto captured, host.list<const abi::ValueInfo*>(
                                           abi::api::kImplicitCount, abi::api::kImplicit, handle));
  for (const auto& [values, names] : {std::pair{&inputs, &node.def.inputs},
                                      {&outputs, &node.def.outputs},
                                      {&captured, &node.captured}})
    for (const abi::ValueInfo* value : *values) {
      CAMSHAFT_ASSIGN(names->emplace_back(), reader.name_of(value));
      if (!names->back().empty()) CAMSHAFT_TRY(note(names->back(), value));
    }
  CAMSHAFT_ASSIGN(const size_t graphs, host.get<size_t>(abi::api::kSubgraphCount, handle));
  std::vector<const abi::Graph*> subgraphs(graphs);
  std::vector<const char*> attribute_names(graphs);
  if (graphs > 0)
    CAMSHAFT_TRY(
        host.call(abi::api::kSubgraphs, handle, subgraphs.data(), graphs, attribute_names.data()));
  CAMSHAFT_ASSIGN(
      const auto attributes,
      host.list<const abi::OpAttr*>(abi::api::kAttributeCount, abi::api::kAttributes, handle));
  for (const abi::OpAttr* attribute : attributes) {
    CAMSHAFT_ASSIGN(AttributeDef def, reader.attribute(attribute));
    if (std::find(attribute_names.begin(), attribute_names.end(), def.name) ==
        attribute_names.end())
      node.def.attributes.push_back(std::move(def));
  }
  for (size_t k = 0; k < graphs; ++k) {
    CAMSHAFT_ASSIGN(GraphDef graph, read_subgraph(host, reader, subgraphs[k], depth + 1));
    AttributeDef def;
    def.name = attribute_names[k];
    def.type = AttributeType::kGraph;
    def.graph = std::make_shared<GraphDef>(std::move(graph));
    node.def.attributes.push_back(std::move(def));
  }
  return node;
}

Result<std::vector<ValueDef>> read_values(const Reader& reader,
                                          const std::vector<const abi::ValueInfo*>& infos) {
  std::vector<ValueDef> values;
  for (const abi::ValueInfo* info : infos) {
    CAMSHAFT_ASSIGN(ValueDef value, reader.value(info));
    values.push_back(std::move(value));
  }
  return values;
}

Result<GraphDef> read_subgraph(const Host& host, const Reader& reader, const abi::Graph* graph,
                               int depth) {
  if (depth > kMaxNesting)
    return make_error(ErrorCode::kUnsupported, "graphs nested more than {} deep", kMaxNesting);
  GraphDef def;
  CAMSHAFT_ASSIGN(const char* const name, host.get<const char*>(abi::api::kGraphName, graph));
  def.name = name;
  CAMSHAFT_ASSIGN(
      const auto inputs,
      host.list<const abi::ValueInfo*>(abi::api::kGraphInputCount, abi::api::kGraphInputs, graph));
  CAMSHAFT_ASSIGN(const auto outputs,
                  host.list<const abi::ValueInfo*>(abi::api::kGraphOutputCount,
                                                   abi::api::kGraphOutputs, graph));
  CAMSHAFT_ASSIGN(const auto initializers,
                  host.list<const abi::ValueInfo*>(abi::api::kInitializerCount,
                                                   abi::api::kInitializers, graph));
  CAMSHAFT_ASSIGN(const auto nodes,
                  host.list<const abi::Node*>(abi::api::kNodeCount, abi::api::kNodes, graph));
  CAMSHAFT_ASSIGN(def.inputs, read_values(reader, inputs));
  CAMSHAFT_ASSIGN(def.outputs, read_values(reader, outputs));
  for (const abi::ValueInfo* info : initializers) {
    CAMSHAFT_ASSIGN(const ValueDef value, reader.value(info));
    // Those of bodies are small, and the body may be read after its graph is gone.
    CAMSHAFT_ASSIGN(TensorDef tensor, reader.constant(info, value, true));
    def.initializers.push_back(std::move(tensor));
  }
  for (const abi::Node* handle : nodes) {
    CAMSHAFT_ASSIGN(GraphNode node,
                    read_node(host, reader, handle, depth,
                              [](const std::string&, const abi::ValueInfo*) { return Status(); }));
    def.nodes.push_back(std::move(node.def));
  }
  return def;
}

// A host that does not tell: branches have no inputs, bodies of loops begin with a number and a
// truth, and most graphs inside use values from outside.
Result<bool> seems_nested(const Host& host, const ReadGraph& graph) {
  if (graph.inputs.empty()) return true;
  constexpr int kInt64 = 7, kBool = 9;
  const auto type = [&](size_t k) { return graph.values.at(graph.inputs[k]).def.data_type; };
  if (graph.inputs.size() >= 2 && type(0) == kInt64 && type(1) == kBool) return true;
  for (const auto& [name, value] : graph.values) {
    CAMSHAFT_ASSIGN(const bool is_from_outside,
                    host.get<bool>(abi::api::kIsFromOutside, value.info));
    if (is_from_outside) return true;
  }
  return false;
}

}  // namespace

Result<std::vector<std::byte>> read_bytes(const Host& host, const abi::Value* value) {
  CAMSHAFT_ASSIGN(const size_t size, host.get<size_t>(abi::api::kTensorBytes, value));
  CAMSHAFT_ASSIGN(const void* const data, host.get<const void*>(abi::api::kTensorData, value));
  const auto* bytes = static_cast<const std::byte*>(data);
  return std::vector<std::byte>(bytes, bytes + size);
}

Result<ReadGraph> read_graph(const Host& host, const abi::Graph* graph) {
  ReadGraph read;
  CAMSHAFT_ASSIGN(const char* const name, host.get<const char*>(abi::api::kGraphName, graph));
  CAMSHAFT_ASSIGN(const char* const path, host.get<const char*>(abi::api::kModelPath, graph));
  CAMSHAFT_ASSIGN(read.ir_version, host.get<int64_t>(abi::api::kIrVersion, graph));
  CAMSHAFT_ASSIGN(const abi::Node* const parent,
                  host.get<const abi::Node*>(abi::api::kParentNode, graph));
  read.name = name;
  read.model_path = path != nullptr ? path : "";
  read.has_parent = parent != nullptr;
  CAMSHAFT_ASSIGN(const size_t opsets, host.get<size_t>(abi::api::kOpsetCount, graph));
  std::vector<const char*> domains(opsets);
  std::vector<int64_t> versions(opsets);
  if (opsets > 0)
    CAMSHAFT_TRY(host.call(abi::api::kOpsets, graph, domains.data(), versions.data(), opsets));
  for (size_t k = 0; k < opsets; ++k)
    read.opsets.push_back(
        {std::string_view(domains[k]) == "ai.onnx" ? "" : domains[k], versions[k]});

  const Reader reader(host, *read.keeper, read.model_path.parent_path());
  const auto note = [&](const std::string& value_name, const abi::ValueInfo* info) -> Status {
    GraphValue& value = read.values[value_name];
    if (value.info != nullptr) return ok_status();
    CAMSHAFT_ASSIGN(value.def, reader.value(info));
    CAMSHAFT_ASSIGN(value.is_constant, host.get<bool>(abi::api::kIsConstant, info));
    value.info = info;
    return ok_status();
  };
  CAMSHAFT_ASSIGN(
      const auto inputs,
      host.list<const abi::ValueInfo*>(abi::api::kGraphInputCount, abi::api::kGraphInputs, graph));
  CAMSHAFT_ASSIGN(const auto outputs,
                  host.list<const abi::ValueInfo*>(abi::api::kGraphOutputCount,
                                                   abi::api::kGraphOutputs, graph));
  for (const auto& [values, names] : {std::pair{&inputs, &read.inputs}, {&outputs, &read.outputs}})
    for (const abi::ValueInfo* info : *values) {
      CAMSHAFT_ASSIGN(names->emplace_back(), reader.name_of(info));
      CAMSHAFT_TRY(note(names->back(), info));
    }
  CAMSHAFT_ASSIGN(const auto nodes,
                  host.list<const abi::Node*>(abi::api::kNodeCount, abi::api::kNodes, graph));
  for (const abi::Node* handle : nodes) {
    CAMSHAFT_ASSIGN(GraphNode node, read_node(host, reader, handle, 0, note));
    read.nodes.push_back(std::move(node));
  }
  if (host.version < abi::api::kParentNodeSince) {
    CAMSHAFT_ASSIGN(read.has_parent, seems_nested(host, read));
  }
  return read;
}

Result<onnx_import::Model> make_model(const Host& host, const ReadGraph& graph,
                                      const std::vector<size_t>& nodes, bool own_constants) {
  auto def = std::make_shared<GraphDef>();
  def->name = graph.name;
  const Reader reader(host, *graph.keeper, graph.model_path.parent_path());
  std::vector<bool> is_inside(graph.nodes.size());
  std::unordered_set<std::string> made, taken, wanted(graph.outputs.begin(), graph.outputs.end());
  for (size_t k : nodes) {
    is_inside[k] = true;
    def->nodes.push_back(graph.nodes[k].def);
    for (const std::string& output : graph.nodes[k].def.outputs) made.insert(output);
  }
  for (size_t k = 0; k < graph.nodes.size(); ++k)
    for (const auto* names : {&graph.nodes[k].def.inputs, &graph.nodes[k].captured})
      for (const std::string& name : *names) {
        if (!is_inside[k]) {
          wanted.insert(name);
          continue;
        }
        if (name.empty() || made.count(name) || !taken.insert(name).second) continue;
        const GraphValue& value = graph.values.at(name);
        if (!value.is_constant) {
          def->inputs.push_back(value.def);
          continue;
        }
        CAMSHAFT_ASSIGN(TensorDef tensor, reader.constant(value.info, value.def, own_constants));
        def->initializers.push_back(std::move(tensor));
      }
  for (size_t k : nodes)
    for (const std::string& output : graph.nodes[k].def.outputs)
      if (!output.empty() && wanted.count(output)) {
        ValueDef value = graph.values.at(output).def;
        def->outputs.push_back(std::move(value));
      }
  onnx_import::Model model;
  model.ir_version = graph.ir_version;
  model.opsets = graph.opsets;
  model.graph = std::move(def);
  model.owner = graph.keeper;
  return model;
}

}  // namespace camshaft::ep
