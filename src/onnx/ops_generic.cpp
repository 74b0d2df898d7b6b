// SPDX-License-Identifier: Apache-2.0
// Operators without a layer kind: they become Generic layers with their attributes as they are. And
// those that cannot be imported.
#include "onnx/node.h"

namespace camshaft::onnx_import {
namespace {

Result<ir::GenericAttribute> convert_attribute(Node& node, const AttributeDef& attribute) {
  ir::GenericAttribute result;
  result.name = attribute.name;
  switch (attribute.type) {
    case AttributeType::kInt:
      result.ints = {attribute.i};
      break;
    case AttributeType::kFloat:
      result.floats = {attribute.f};
      break;
    case AttributeType::kString:
      result.text = attribute.text;
      break;
    case AttributeType::kInts:
      result.ints.assign(attribute.ints.begin(), attribute.ints.end());
      break;
    case AttributeType::kFloats:
      result.floats.assign(attribute.floats.begin(), attribute.floats.end());
      break;
    case AttributeType::kUndefined:
      break;
    default:
      return unsupported("attribute {}: only numbers, lists of numbers and texts are supported",
                         attribute.name);
  }
  node.ignore({attribute.name});
  return result;
}

// silu(a) * b: both parts fuse into what makes a and b.
Status import_swiglu(Node& node) {
  CAMSHAFT_TRY(node.require(2, 2));
  const float alpha = node.real("alpha", 1);
  CAMSHAFT_ASSIGN(Tensor* const gate,
                  node.add("gate", LayerKind::kActivation, ir::PointOpAttrs{PointOp::kSilu, alpha},
                           {node.input(0)}));
  return node.emit(LayerKind::kElementWise, ir::PointOpAttrs{PointOp::kMul}, {gate, node.input(1)});
}

Status refuse_images(Node&) {
  return unsupported("compressed images are not supported: decode before the model");
}

constexpr OperatorRow kSpecial[] = {
    {"SequenceAt", refuse_sequences},         {"SequenceConstruct", refuse_sequences},
    {"SequenceEmpty", refuse_sequences},      {"SequenceErase", refuse_sequences},
    {"SequenceInsert", refuse_sequences},     {"SequenceLength", refuse_sequences},
    {"SequenceMap", refuse_sequences},        {"SplitToSequence", refuse_sequences},
    {"ConcatFromSequence", refuse_sequences}, {"Optional", refuse_sequences},
    {"OptionalGetElement", refuse_sequences}, {"OptionalHasElement", refuse_sequences},
    {"StringConcat", refuse_strings},         {"StringNormalizer", refuse_strings},
    {"StringSplit", refuse_strings},          {"RegexFullMatch", refuse_strings},
    {"ImageDecoder", refuse_images},          {"SwiGLU", import_swiglu},
};

constexpr std::string_view kGeneric[] = {
    "Det",
    "Trilu",
    "EyeLike",
    "BitCast",
    "CumProd",
    "ReverseSequence",
    "LinearAttention",
    "CausalConvWithState",
    "LRN",
    "DynamicQuantizeLinear",
    "NegativeLogLikelihoodLoss",
    "SoftmaxCrossEntropyLoss",
    "Unique",
    "Compress",
    "OneHot",
    "TfIdfVectorizer",
    "Binarizer",
    "GridSample",
    "AffineGrid",
    "DeformConv",
    "Col2Im",
    "CenterCropPad",
    "MaxUnpool",
    "NonMaxSuppression",
    "RoiAlign",
    "MaxRoiPool",
    "RandomUniform",
    "RandomNormal",
    "RandomUniformLike",
    "RandomNormalLike",
    "Bernoulli",
    "Multinomial",
    "HannWindow",
    "HammingWindow",
    "BlackmanWindow",
    "MelWeightMatrix",
    "Adagrad",
    "Momentum",
    "Adam",
};

std::vector<OperatorRow> generic_rows() {
  std::vector<OperatorRow> rows(std::begin(kSpecial), std::end(kSpecial));
  for (std::string_view op_type : kGeneric) rows.push_back({op_type, import_generic});
  return rows;
}

}  // namespace

Status refuse_strings(Node&) {
  return unsupported("strings are not supported, only numbers: do this step before the model");
}

Status import_generic(Node& node) {
  const auto can_run = node.scope().session.options.has_generic_kernel;
  if (can_run != nullptr && !can_run(node.op()))
    return unsupported("operator {} has no kernel", node.op());
  ir::GenericAttrs attrs;
  attrs.op_type = node.op();
  attrs.opset = node.opset();
  for (const AttributeDef& attribute : node.def().attributes) {
    CAMSHAFT_ASSIGN(ir::GenericAttribute converted, convert_attribute(node, attribute));
    attrs.attributes.push_back(std::move(converted));
  }
  return node.emit(LayerKind::kGeneric, std::move(attrs), node.inputs());
}

std::span<const OperatorRow> generic_operators() {
  static const std::vector<OperatorRow> rows = generic_rows();
  return rows;
}

}  // namespace camshaft::onnx_import
