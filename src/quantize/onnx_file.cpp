// SPDX-License-Identifier: Apache-2.0
#include "quantize/onnx_file.h"

#include <bit>
#include <fstream>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include <onnx/onnx_pb.h>

#include "onnx/external_bytes.h"
#include "quantize/channel_spaces.h"

namespace camshaft::quantize {
namespace {

using onnx::NodeProto;
using onnx::TensorProto;

// External weights move into the model: the result may be written anywhere. What may be read is the
// importer's rule: files in the model's directory.
Status embed(TensorProto& tensor, onnx_import::ExternalData& external) {
  if (tensor.data_location() != TensorProto::EXTERNAL) return ok_status();
  onnx_import::ExternalEntries entries;
  for (const auto& entry : tensor.external_data()) entries.emplace_back(entry.key(), entry.value());
  const auto stored = onnx_import::external_bytes(external, entries, std::nullopt);
  if (!stored.ok()) return stored.status().with_context(fmt::format("tensor {}", tensor.name()));
  const std::span<const std::byte> bytes = stored.value().bytes;
  tensor.set_raw_data(bytes.data(), bytes.size());
  tensor.clear_external_data();
  tensor.clear_data_location();
  return ok_status();
}

Status embed_all(onnx::GraphProto& graph, onnx_import::ExternalData& external) {
  for (TensorProto& tensor : *graph.mutable_initializer()) CAMSHAFT_TRY(embed(tensor, external));
  for (NodeProto& node : *graph.mutable_node())
    for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.has_t()) CAMSHAFT_TRY(embed(*attribute.mutable_t(), external));
      if (attribute.has_g()) CAMSHAFT_TRY(embed_all(*attribute.mutable_g(), external));
    }
  return ok_status();
}

// Names a graph reads, those its inner graphs take from outside among them.
void collect_used(const onnx::GraphProto& graph, std::unordered_set<std::string>& used) {
  for (const NodeProto& node : graph.node()) {
    used.insert(node.input().begin(), node.input().end());
    for (const auto& attribute : node.attribute())
      if (attribute.has_g()) collect_used(attribute.g(), used);
  }
  for (const auto& output : graph.output()) used.insert(output.name());
}

bool makes_something_used(const NodeProto& node, const std::unordered_set<std::string>& used) {
  for (const std::string& output : node.output())
    if (used.count(output) > 0) return true;
  return node.output_size() == 0;
}

}  // namespace

struct OnnxFile::Impl {
  onnx::ModelProto model;
  std::unordered_map<std::string, int> producer;  // tensor -> position of its node
  std::unordered_set<std::string> names;          // of nodes and tensors
  struct Insertion {
    int before;  // position of the node it must precede
    std::vector<NodeProto> nodes;
    std::string result;
  };
  std::vector<Insertion> insertions;
  // tensor, scale, zero point -> insertion
  std::map<std::tuple<std::string, uint32_t, int32_t>, size_t> activations;
  std::map<std::string, size_t> weights;
  std::map<std::pair<bool, int32_t>, std::string> zero_points;  // initializers, by type and value

  onnx::GraphProto& graph() { return *model.mutable_graph(); }

  void index() {
    for (int k = 0; k < graph().node_size(); ++k) {
      names.insert(graph().node(k).name());
      for (const std::string& output : graph().node(k).output()) {
        producer[output] = k;
        names.insert(output);
      }
      names.insert(graph().node(k).input().begin(), graph().node(k).input().end());
    }
    for (const TensorProto& tensor : graph().initializer()) names.insert(tensor.name());
  }

  std::string unique(std::string name) {
    std::string result = name;
    for (int k = 1; !names.insert(result).second; ++k) result = fmt::format("{}_{}", name, k);
    return result;
  }

  Result<NodeProto*> node_making(const std::string& output, size_t input, int& position) {
    const auto found = producer.find(output);
    if (found == producer.end())
      return make_error(ErrorCode::kInternal, "no node makes {}", output);
    position = found->second;
    NodeProto* node = graph().mutable_node(position);
    if (input >= static_cast<size_t>(node->input_size()))
      return make_error(ErrorCode::kInternal, "node {} has no input {}", node->name(), input);
    return node;
  }

  std::string add_scale(const std::string& name, std::span<const float> values, bool vector) {
    TensorProto* tensor = graph().add_initializer();
    tensor->set_name(unique(name));
    tensor->set_data_type(TensorProto::FLOAT);
    if (vector) tensor->add_dims(static_cast<int64_t>(values.size()));
    tensor->set_raw_data(values.data(), values.size_bytes());
    return tensor->name();
  }

  // The shared zero point of that type and value.
  const std::string& zero_of(const ActivationGrid& grid) {
    std::string& name = zero_points[{grid.is_unsigned, grid.zero_point}];
    if (!name.empty()) return name;
    TensorProto* tensor = graph().add_initializer();
    tensor->set_name(unique(grid.is_unsigned ? fmt::format("uint8_zero_point_{}", grid.zero_point)
                                             : "int8_zero_point"));
    tensor->set_data_type(grid.is_unsigned ? TensorProto::UINT8 : TensorProto::INT8);
    tensor->set_raw_data(std::string(1, static_cast<char>(grid.zero_point)));
    return name = tensor->name();
  }

  NodeProto make_node(const char* op, const std::string& tensor,
                      std::initializer_list<std::string> inputs) {
    NodeProto node;
    node.set_op_type(op);
    node.set_name(unique(fmt::format("{}_{}", tensor, op)));
    for (const std::string& input : inputs) node.add_input(input);
    node.add_output(unique(fmt::format("{}_{}_Output", tensor, op)));
    return node;
  }

  // Nodes in their places, and only those that something reads.
  void arrange() {
    std::map<int, std::vector<const Insertion*>> by_place;
    for (const Insertion& insertion : insertions) by_place[insertion.before].push_back(&insertion);
    google::protobuf::RepeatedPtrField<NodeProto> ordered;
    for (int k = 0; k < graph().node_size(); ++k) {
      for (const Insertion* insertion : by_place[k])
        for (const NodeProto& node : insertion->nodes) *ordered.Add() = node;
      ordered.Add()->Swap(graph().mutable_node(k));
    }
    graph().mutable_node()->Swap(&ordered);
  }

  void drop_unused() {
    std::unordered_set<std::string> used;
    for (int before = -1; before != graph().node_size();) {
      before = graph().node_size();
      used.clear();
      collect_used(graph(), used);
      google::protobuf::RepeatedPtrField<NodeProto> kept;
      for (NodeProto& node : *graph().mutable_node())
        if (makes_something_used(node, used)) kept.Add()->Swap(&node);
      graph().mutable_node()->Swap(&kept);
    }
    std::unordered_set<std::string> dropped;
    google::protobuf::RepeatedPtrField<TensorProto> kept;
    for (TensorProto& tensor : *graph().mutable_initializer()) {
      if (used.count(tensor.name()) > 0) {
        kept.Add()->Swap(&tensor);
      } else {
        dropped.insert(tensor.name());
      }
    }
    graph().mutable_initializer()->Swap(&kept);
    // Older models list their initializers among the inputs, too.
    google::protobuf::RepeatedPtrField<onnx::ValueInfoProto> inputs;
    for (onnx::ValueInfoProto& input : *graph().mutable_input())
      if (dropped.count(input.name()) == 0) inputs.Add()->Swap(&input);
    graph().mutable_input()->Swap(&inputs);
  }
};

OnnxFile::OnnxFile(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
OnnxFile::OnnxFile(OnnxFile&&) noexcept = default;
OnnxFile& OnnxFile::operator=(OnnxFile&&) noexcept = default;
OnnxFile::~OnnxFile() = default;

Result<OnnxFile> OnnxFile::parse(const std::string& bytes) {
  auto impl = std::make_unique<Impl>();
  if (!impl->model.ParseFromString(bytes))
    return make_error(ErrorCode::kInvalidModel, "not an ONNX model");
  impl->index();
  return OnnxFile(std::move(impl));
}

Result<OnnxFile> OnnxFile::read(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return make_error(ErrorCode::kIo, "{}: cannot be read", file.string());
  auto impl = std::make_unique<Impl>();
  if (!impl->model.ParseFromIstream(&in))
    return make_error(ErrorCode::kInvalidModel, "{}: not an ONNX model", file.string());
  onnx_import::ExternalData external(file.has_parent_path() ? file.parent_path() : ".");
  CAMSHAFT_TRY(embed_all(impl->graph(), external).with_context(file.string()));
  impl->index();
  return OnnxFile(std::move(impl));
}

int64_t OnnxFile::opset() const {
  int64_t version = 0;
  for (const auto& entry : impl_->model.opset_import())
    if (entry.domain().empty() || entry.domain() == "ai.onnx")
      version = std::max(version, static_cast<int64_t>(entry.version()));
  return version;
}

Status OnnxFile::raise_to_opset_13(const SoftmaxAxis& softmax_axis) {
  CAMSHAFT_TRY(quantize::raise_to_opset_13(impl_->model, softmax_axis));
  impl_->index();
  return ok_status();
}

Status OnnxFile::quantize_activation(const std::string& output, size_t input,
                                     const ActivationGrid& grid) {
  int position = 0;
  CAMSHAFT_ASSIGN(NodeProto* const node, impl_->node_making(output, input, position));
  const std::string tensor = node->input(static_cast<int>(input));
  const auto [at, is_new] = impl_->activations.try_emplace(
      {tensor, std::bit_cast<uint32_t>(grid.scale), grid.zero_point}, impl_->insertions.size());
  if (is_new) {
    const std::string step = impl_->add_scale(tensor + "_scale", std::span(&grid.scale, 1), false);
    const std::string zero = impl_->zero_of(grid);
    NodeProto quantize = impl_->make_node("QuantizeLinear", tensor, {tensor, step, zero});
    NodeProto dequantize =
        impl_->make_node("DequantizeLinear", tensor, {quantize.output(0), step, zero});
    const std::string result = dequantize.output(0);
    impl_->insertions.push_back({position, {std::move(quantize), std::move(dequantize)}, result});
  }
  Impl::Insertion& insertion = impl_->insertions[at->second];
  insertion.before = std::min(insertion.before, position);
  node->set_input(static_cast<int>(input), insertion.result);
  return ok_status();
}

Status OnnxFile::quantize_weights(const std::string& output, size_t input, const std::string& name,
                                  const QuantizedWeights& weights) {
  int position = 0;
  CAMSHAFT_ASSIGN(NodeProto* const node, impl_->node_making(output, input, position));
  const auto [at, is_new] = impl_->weights.try_emplace(fmt::format("{}\n{}", name, weights.axis),
                                                       impl_->insertions.size());
  if (is_new) {
    TensorProto* tensor = impl_->graph().add_initializer();
    tensor->set_name(impl_->unique(name + "_quantized"));
    tensor->set_data_type(TensorProto::INT8);
    for (const int64_t extent : weights.extents) tensor->add_dims(extent);
    tensor->set_raw_data(weights.codes.data(), weights.codes.size());
    const std::string codes = tensor->name();
    const std::string scale = impl_->add_scale(name + "_scale", weights.scales, weights.axis >= 0);
    NodeProto dequantize = impl_->make_node("DequantizeLinear", name, {codes, scale});
    if (weights.axis >= 0) {
      auto* axis = dequantize.add_attribute();
      axis->set_name("axis");
      axis->set_type(onnx::AttributeProto::INT);
      axis->set_i(weights.axis);
    }
    const std::string result = dequantize.output(0);
    impl_->insertions.push_back({position, {std::move(dequantize)}, result});
  }
  Impl::Insertion& insertion = impl_->insertions[at->second];
  insertion.before = std::min(insertion.before, position);
  node->set_input(static_cast<int>(input), insertion.result);
  return ok_status();
}

Status OnnxFile::set_vector(const std::string& output, size_t input, const std::string& name,
                            const std::vector<float>& values) {
  int position = 0;
  CAMSHAFT_ASSIGN(NodeProto* const node, impl_->node_making(output, 0, position));
  while (static_cast<size_t>(node->input_size()) <= input) node->add_input("");
  node->set_input(static_cast<int>(input),
                  impl_->add_scale(fmt::format("{}_{}", output, name), values, true));
  return ok_status();
}

Status OnnxFile::remove_quantization(const std::string& output, size_t input,
                                     const std::vector<float>& values) {
  int position = 0;
  CAMSHAFT_ASSIGN(NodeProto* const node, impl_->node_making(output, input, position));
  const std::string tensor = node->input(static_cast<int>(input));
  const auto made = impl_->producer.find(tensor);
  const NodeProto* dequantize =
      made != impl_->producer.end() ? &impl_->graph().node(made->second) : nullptr;
  if (dequantize == nullptr || dequantize->op_type() != "DequantizeLinear")
    return make_error(ErrorCode::kInternal, "input {} of node {} is not dequantized", input,
                      node->name());
  const auto source = impl_->producer.find(dequantize->input(0));
  if (source != impl_->producer.end() &&
      impl_->graph().node(source->second).op_type() == "QuantizeLinear") {
    node->set_input(static_cast<int>(input), impl_->graph().node(source->second).input(0));
    return ok_status();
  }
  TensorProto weights;
  for (const TensorProto& candidate : impl_->graph().initializer())
    if (candidate.name() == dequantize->input(0)) weights = candidate;
  TensorProto* tensor_proto = impl_->graph().add_initializer();
  tensor_proto->set_name(impl_->unique(dequantize->input(0) + "_float"));
  tensor_proto->set_data_type(TensorProto::FLOAT);
  *tensor_proto->mutable_dims() = weights.dims();
  tensor_proto->set_raw_data(values.data(), values.size() * sizeof(float));
  node->set_input(static_cast<int>(input), tensor_proto->name());
  return ok_status();
}

Status OnnxFile::set_values(const std::string& tensor, std::span<const std::byte> bytes) {
  TensorProto* const found = find_constant(impl_->graph(), tensor);
  if (found == nullptr)
    return make_error(ErrorCode::kUnsupported, "{} is no initializer of the file", tensor);
  found->clear_float_data();
  found->clear_int32_data();
  found->set_raw_data(bytes.data(), bytes.size());
  return ok_status();
}

Result<std::string> OnnxFile::finish() {
  impl_->arrange();
  impl_->drop_unused();
  std::string bytes;
  if (!impl_->model.SerializeToString(&bytes))
    return make_error(ErrorCode::kUnsupported,
                      "the model exceeds the 2 GiB that one ONNX file can hold");
  return bytes;
}

}  // namespace camshaft::quantize
