// SPDX-License-Identifier: Apache-2.0
#include "quantize/onnx_opset13.h"

#include <onnx/onnx_pb.h>

namespace camshaft::quantize {
namespace {

constexpr int64_t kOldest = 7;  // older operators broadcast in another way

using onnx::AttributeProto;
using onnx::NodeProto;

class Raiser {
 public:
  Raiser(onnx::ModelProto& model, int64_t opset, const SoftmaxAxis& softmax_axis)
      : model_(model), opset_(opset), softmax_axis_(softmax_axis) {}

  Status graph(onnx::GraphProto& graph) {
    for (NodeProto& node : *graph.mutable_node()) {
      if (!node.domain().empty() && node.domain() != "ai.onnx") continue;
      CAMSHAFT_TRY(rewrite(node));
      for (AttributeProto& attribute : *node.mutable_attribute())
        if (attribute.has_g()) CAMSHAFT_TRY(this->graph(*attribute.mutable_g()));
    }
    return ok_status();
  }

 private:
  static Status unsupported(const NodeProto& node, std::string_view why) {
    return make_error(ErrorCode::kUnsupported,
                      "node {} ({}) cannot be raised to opset 13: {}; --per-tensor needs opset 10 "
                      "only",
                      node.name(), node.op_type(), why);
  }

  static AttributeProto* find(NodeProto& node, const std::string& name) {
    for (AttributeProto& attribute : *node.mutable_attribute())
      if (attribute.name() == name) return &attribute;
    return nullptr;
  }

  static void erase(NodeProto& node, const std::string& name) {
    auto& attributes = *node.mutable_attribute();
    for (int k = 0; k < attributes.size(); ++k)
      if (attributes[k].name() == name) {
        attributes.DeleteSubrange(k, 1);
        return;
      }
  }

  static void set_text(NodeProto& node, const std::string& name, const std::string& value) {
    erase(node, name);
    AttributeProto* attribute = node.add_attribute();
    attribute->set_name(name);
    attribute->set_type(AttributeProto::STRING);
    attribute->set_s(value);
  }

  onnx::TensorProto* initializer(const NodeProto& node, const std::string& what) {
    onnx::TensorProto* tensor = model_.mutable_graph()->add_initializer();
    tensor->set_name((node.name().empty() ? node.output(0) : node.name()) + "/" + what);
    return tensor;
  }

  static void put_input(NodeProto& node, int index, const std::string& name) {
    while (node.input_size() <= index) node.add_input("");
    node.set_input(index, name);
  }

  // Attribute `name`, a list of integers or one, becomes input `index`.
  void ints_to_input(NodeProto& node, const std::string& name, int index) {
    AttributeProto* attribute = find(node, name);
    if (attribute == nullptr) return;
    onnx::TensorProto* tensor = initializer(node, name);
    tensor->set_data_type(onnx::TensorProto::INT64);
    if (attribute->type() == AttributeProto::INT) {
      tensor->add_dims(1);
      tensor->add_int64_data(attribute->i());
    } else {
      tensor->add_dims(attribute->ints_size());
      for (const int64_t value : attribute->ints()) tensor->add_int64_data(value);
    }
    put_input(node, index, tensor->name());
    erase(node, name);
  }

  void floats_to_input(NodeProto& node, const std::string& name, int index) {
    AttributeProto* attribute = find(node, name);
    if (attribute == nullptr) return;
    onnx::TensorProto* tensor = initializer(node, name);
    tensor->set_data_type(onnx::TensorProto::FLOAT);
    if (attribute->type() == AttributeProto::FLOAT) {
      tensor->add_float_data(attribute->f());  // a scalar
    } else {
      tensor->add_dims(attribute->floats_size());
      for (const float value : attribute->floats()) tensor->add_float_data(value);
    }
    put_input(node, index, tensor->name());
    erase(node, name);
  }

  Status softmax(NodeProto& node) {
    const int64_t axis = softmax_axis_(node.output(0));
    if (axis < 0) return unsupported(node, "it normalizes over several dimensions");
    erase(node, "axis");
    AttributeProto* attribute = node.add_attribute();
    attribute->set_name("axis");
    attribute->set_type(AttributeProto::INT);
    attribute->set_i(axis);
    return ok_status();
  }

  // Upsample, and Resize of opset 10: inputs x, scales; corners are not aligned, and rounding is
  // down.
  void resize(NodeProto& node) {
    floats_to_input(node, "scales", 1);
    node.set_op_type("Resize");
    const std::string scales = node.input(1);
    put_input(node, 1, "");
    put_input(node, 2, scales);
    set_text(node, "coordinate_transformation_mode", "asymmetric");
    set_text(node, "nearest_mode", "floor");
  }

  Status rewrite(NodeProto& node) {
    const std::string& op = node.op_type();
    if (op == "Squeeze" || op == "Unsqueeze" || op == "ReduceSum") ints_to_input(node, "axes", 1);
    if (op == "Split") ints_to_input(node, "split", 1);
    if (op == "Softmax" || op == "LogSoftmax" || op == "Hardmax") return softmax(node);
    if (op == "Dropout") erase(node, "ratio");
    if (op == "Upsample" || (op == "Resize" && opset_ == 10)) resize(node);
    if (opset_ < 11) return rewrite_before_11(node);
    return ok_status();
  }

  Status rewrite_before_11(NodeProto& node) {
    const std::string& op = node.op_type();
    if (op == "Clip") {
      floats_to_input(node, "min", 1);
      floats_to_input(node, "max", 2);
    } else if (op == "Pad") {
      ints_to_input(node, "pads", 1);
      floats_to_input(node, "value", 2);
    } else if (op == "Scatter") {
      node.set_op_type("ScatterElements");
    } else if (op == "Slice" && opset_ < 10) {
      ints_to_input(node, "starts", 1);
      ints_to_input(node, "ends", 2);
      ints_to_input(node, "axes", 3);
    } else if (op == "TopK" && opset_ < 10) {
      ints_to_input(node, "k", 1);
    } else if (op == "BatchNormalization" && opset_ < 9) {
      const AttributeProto* spatial = find(node, "spatial");
      if (spatial != nullptr && spatial->i() == 0) return unsupported(node, "spatial is 0");
      erase(node, "spatial");
    } else if (op == "Scan" && opset_ < 9) {
      return unsupported(node, "Scan was another operator before opset 9");
    }
    return ok_status();
  }

  onnx::ModelProto& model_;
  int64_t opset_;
  const SoftmaxAxis& softmax_axis_;
};

}  // namespace

Status raise_to_opset_13(onnx::ModelProto& model, const SoftmaxAxis& softmax_axis) {
  for (auto& entry : *model.mutable_opset_import()) {
    if ((!entry.domain().empty() && entry.domain() != "ai.onnx") || entry.version() >= 13) continue;
    if (entry.version() < kOldest)
      return make_error(ErrorCode::kUnsupported,
                        "the model uses opset {}: only opset {} and later can be raised to 13",
                        entry.version(), kOldest);
    CAMSHAFT_TRY(Raiser(model, entry.version(), softmax_axis).graph(*model.mutable_graph()));
    entry.set_version(13);
  }
  if (model.ir_version() < 7) model.set_ir_version(7);
  return ok_status();
}

}  // namespace camshaft::quantize
