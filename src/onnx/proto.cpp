// SPDX-License-Identifier: Apache-2.0
// The only file that includes protobuf: turns the bytes of a model into the structs of model.h.
#include <limits>

#include <onnx/onnx_pb.h>

#include "onnx/model.h"

namespace camshaft::onnx_import {
namespace {

constexpr int kMaxNesting = 24;  // graphs within graphs

template <class T>
std::span<const T> view(const google::protobuf::RepeatedField<T>& field) {
  return {field.data(), static_cast<size_t>(field.size())};
}

std::span<const std::byte> view(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

TensorDef convert(const onnx::TensorProto& proto) {
  TensorDef tensor;
  tensor.name = proto.name();
  tensor.data_type = proto.data_type();
  tensor.extents.assign(proto.dims().begin(), proto.dims().end());
  tensor.has_raw = proto.has_raw_data();
  tensor.is_external = proto.data_location() == onnx::TensorProto::EXTERNAL;
  tensor.is_segment = proto.has_segment();
  tensor.raw = view(proto.raw_data());
  tensor.floats = view(proto.float_data());
  tensor.int32s = view(proto.int32_data());
  tensor.doubles = view(proto.double_data());
  static_assert(sizeof(int64_t) == sizeof(google::protobuf::int64));
  tensor.int64s = {reinterpret_cast<const int64_t*>(proto.int64_data().data()),
                   static_cast<size_t>(proto.int64_data_size())};
  tensor.uint64s = {reinterpret_cast<const uint64_t*>(proto.uint64_data().data()),
                    static_cast<size_t>(proto.uint64_data_size())};
  tensor.texts.assign(proto.string_data().begin(), proto.string_data().end());
  for (const auto& entry : proto.external_data())
    tensor.external.emplace_back(entry.key(), entry.value());
  return tensor;
}

SparseTensorDef convert(const onnx::SparseTensorProto& proto) {
  return {convert(proto.values()),
          convert(proto.indices()),
          {proto.dims().begin(), proto.dims().end()}};
}

ValueDef convert(const onnx::ValueInfoProto& proto) {
  ValueDef value;
  value.name = proto.name();
  if (!proto.has_type()) return value;
  const onnx::TypeProto& type = proto.type();
  switch (type.value_case()) {
    case onnx::TypeProto::kTensorType:
      value.kind = "tensor";
      break;
    case onnx::TypeProto::kSequenceType:
      value.kind = "sequence";
      break;
    case onnx::TypeProto::kMapType:
      value.kind = "map";
      break;
    case onnx::TypeProto::kOptionalType:
      value.kind = "optional";
      break;
    case onnx::TypeProto::kSparseTensorType:
      value.kind = "sparse tensor";
      break;
    case onnx::TypeProto::VALUE_NOT_SET:
      return value;
    default:
      value.kind = "opaque";
      break;
  }
  if (!type.has_tensor_type()) return value;
  value.data_type = type.tensor_type().elem_type();
  value.has_shape = type.tensor_type().has_shape();
  for (const auto& proto_dim : type.tensor_type().shape().dim()) {
    DimDef dim;
    if (proto_dim.has_dim_value()) dim.extent = proto_dim.dim_value();
    if (proto_dim.has_dim_param()) dim.param = proto_dim.dim_param();
    value.shape.push_back(std::move(dim));
  }
  return value;
}

AttributeType attribute_type(const onnx::AttributeProto& proto) {
  switch (proto.type()) {
    case onnx::AttributeProto::FLOAT:
      return AttributeType::kFloat;
    case onnx::AttributeProto::INT:
      return AttributeType::kInt;
    case onnx::AttributeProto::STRING:
      return AttributeType::kString;
    case onnx::AttributeProto::TENSOR:
      return AttributeType::kTensor;
    case onnx::AttributeProto::GRAPH:
      return AttributeType::kGraph;
    case onnx::AttributeProto::SPARSE_TENSOR:
      return AttributeType::kSparseTensor;
    case onnx::AttributeProto::TYPE_PROTO:
      return AttributeType::kType;
    case onnx::AttributeProto::FLOATS:
      return AttributeType::kFloats;
    case onnx::AttributeProto::INTS:
      return AttributeType::kInts;
    case onnx::AttributeProto::STRINGS:
      return AttributeType::kStrings;
    case onnx::AttributeProto::UNDEFINED:
      break;
    default:
      return AttributeType::kOther;
  }
  // Files of IR version 1 have no type field: what is set tells.
  if (proto.has_f()) return AttributeType::kFloat;
  if (proto.has_i()) return AttributeType::kInt;
  if (proto.has_s()) return AttributeType::kString;
  if (proto.has_t()) return AttributeType::kTensor;
  if (proto.has_g()) return AttributeType::kGraph;
  if (proto.floats_size() > 0) return AttributeType::kFloats;
  if (proto.ints_size() > 0) return AttributeType::kInts;
  return proto.strings_size() > 0 ? AttributeType::kStrings : AttributeType::kUndefined;
}

Result<GraphDef> convert(const onnx::GraphProto& proto, int depth);

Result<AttributeDef> convert(const onnx::AttributeProto& proto, int depth) {
  AttributeDef attribute;
  attribute.name = proto.name();
  attribute.reference = proto.ref_attr_name();
  attribute.type = attribute_type(proto);
  attribute.f = proto.f();
  attribute.i = proto.i();
  attribute.text = proto.s();
  attribute.floats = view(proto.floats());
  attribute.ints = {reinterpret_cast<const int64_t*>(proto.ints().data()),
                    static_cast<size_t>(proto.ints_size())};
  for (const std::string& text : proto.strings()) attribute.texts.push_back(text);
  if (attribute.type == AttributeType::kTensor)
    attribute.tensor = std::make_shared<TensorDef>(convert(proto.t()));
  if (attribute.type == AttributeType::kSparseTensor)
    attribute.sparse = std::make_shared<SparseTensorDef>(convert(proto.sparse_tensor()));
  if (attribute.type == AttributeType::kGraph) {
    CAMSHAFT_ASSIGN(GraphDef graph, convert(proto.g(), depth + 1));
    attribute.graph = std::make_shared<GraphDef>(std::move(graph));
  }
  return attribute;
}

// "" has two names.
template <class Proto>
std::string domain_of(const Proto& proto) {
  return proto.domain() == "ai.onnx" ? "" : proto.domain();
}

Result<NodeDef> convert(const onnx::NodeProto& proto, int depth) {
  NodeDef node;
  node.name = proto.name();
  node.op_type = proto.op_type();
  node.domain = domain_of(proto);
  node.inputs.assign(proto.input().begin(), proto.input().end());
  node.outputs.assign(proto.output().begin(), proto.output().end());
  for (const onnx::AttributeProto& attribute : proto.attribute()) {
    CAMSHAFT_ASSIGN(AttributeDef converted, convert(attribute, depth));
    node.attributes.push_back(std::move(converted));
  }
  return node;
}

Result<GraphDef> convert(const onnx::GraphProto& proto, int depth) {
  if (depth > kMaxNesting)
    return make_error(ErrorCode::kUnsupported, "graphs nested more than {} deep", kMaxNesting);
  GraphDef graph;
  graph.name = proto.name();
  for (const onnx::NodeProto& node : proto.node()) {
    CAMSHAFT_ASSIGN(NodeDef converted, convert(node, depth));
    graph.nodes.push_back(std::move(converted));
  }
  for (const auto& value : proto.input()) graph.inputs.push_back(convert(value));
  for (const auto& value : proto.output()) graph.outputs.push_back(convert(value));
  for (const auto& tensor : proto.initializer()) graph.initializers.push_back(convert(tensor));
  for (const auto& tensor : proto.sparse_initializer())
    graph.sparse_initializers.push_back(convert(tensor));
  return graph;
}

template <class Protos>
std::vector<OpsetDef> convert_opsets(const Protos& protos) {
  std::vector<OpsetDef> opsets;
  for (const auto& proto : protos) opsets.push_back({domain_of(proto), proto.version()});
  return opsets;
}

Result<FunctionDef> convert(const onnx::FunctionProto& proto) {
  FunctionDef function;
  function.name = proto.name();
  function.domain = domain_of(proto);
  function.inputs.assign(proto.input().begin(), proto.input().end());
  function.outputs.assign(proto.output().begin(), proto.output().end());
  function.attributes.assign(proto.attribute().begin(), proto.attribute().end());
  function.opsets = convert_opsets(proto.opset_import());
  for (const onnx::NodeProto& node : proto.node()) {
    CAMSHAFT_ASSIGN(NodeDef converted, convert(node, 0));
    function.nodes.push_back(std::move(converted));
  }
  return function;
}

// Says what a file is that is not a model, where that is easy to see.
std::string guess(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()),
                              std::min<size_t>(bytes.size(), 64));
  if (bytes.empty()) return "the file is empty";
  if (text.starts_with("version https://git-lfs"))
    return "it is a Git LFS pointer, not the model itself";
  if (text.starts_with("PK")) return "it is a ZIP archive (a PyTorch checkpoint?)";
  if (text.starts_with("<")) return "it is an HTML or XML file";
  if (text.substr(0, 16).find("ORTM") != std::string_view::npos)
    return "it is an ONNX Runtime .ort file";
  if (text.substr(0, 16).find("TFL3") != std::string_view::npos)
    return "it is a TensorFlow Lite file";
  return "the protobuf is damaged or truncated";
}

template <class Proto>
Result<std::shared_ptr<Proto>> parse(std::span<const std::byte> bytes, const std::string& name) {
  if (bytes.size() > static_cast<size_t>(std::numeric_limits<int>::max()))
    return make_error(
        ErrorCode::kInvalidModel,
        "{}: {} bytes, but a protobuf holds at most 2 GiB: store the weights as external data",
        name, bytes.size());
  auto proto = std::make_shared<Proto>();
  google::protobuf::LogSilencer silence;
  if (!proto->ParsePartialFromArray(bytes.data(), static_cast<int>(bytes.size())) || bytes.empty())
    return make_error(ErrorCode::kInvalidModel, "{} is not an ONNX file: {}", name, guess(bytes));
  return proto;
}

}  // namespace

Result<Model> parse_model(std::span<const std::byte> bytes, const std::string& name) {
  CAMSHAFT_ASSIGN(const std::shared_ptr<onnx::ModelProto> proto,
                  parse<onnx::ModelProto>(bytes, name));
  Model model;
  model.ir_version = proto->ir_version();
  model.model_version = proto->model_version();
  model.producer_name = proto->producer_name();
  model.producer_version = proto->producer_version();
  model.domain = proto->domain();
  model.doc_string = proto->doc_string();
  model.opsets = convert_opsets(proto->opset_import());
  if (!proto->has_graph())
    return make_error(ErrorCode::kInvalidModel, "{} is not an ONNX model: it has no graph ({})",
                      name, guess(bytes));
  for (const onnx::FunctionProto& function : proto->functions()) {
    CAMSHAFT_ASSIGN(FunctionDef converted, convert(function));
    model.functions.push_back(std::move(converted));
  }
  CAMSHAFT_ASSIGN(GraphDef graph, convert(proto->graph(), 0));
  model.graph = std::make_shared<GraphDef>(std::move(graph));
  model.owner = proto;
  return model;
}

Result<ParsedTensor> parse_tensor(std::span<const std::byte> bytes, const std::string& name) {
  CAMSHAFT_ASSIGN(const std::shared_ptr<onnx::TensorProto> proto,
                  parse<onnx::TensorProto>(bytes, name));
  return ParsedTensor{convert(*proto), proto};
}

}  // namespace camshaft::onnx_import
