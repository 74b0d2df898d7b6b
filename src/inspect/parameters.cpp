// SPDX-License-Identifier: Apache-2.0
#include "inspect/parameters.h"

#include <algorithm>
#include <string_view>

#include <nlohmann/json.hpp>

#include "inspect/layers.h"

namespace camshaft::inspect {
namespace {

using engine::kNoTensor;
using engine::Plan;
using engine::PlanStep;
using engine::PlanTensor;
using engine::TensorRole;
using ir::LayerKind;
using ir::PointOp;
using Json = nlohmann::ordered_json;

const char* padding_mode_name(ir::PaddingMode mode) {
  switch (mode) {
    case ir::PaddingMode::kExplicit:
      return "kEXPLICIT_ROUND_DOWN";
    case ir::PaddingMode::kExplicitRoundUp:
      return "kEXPLICIT_ROUND_UP";
    case ir::PaddingMode::kSameUpper:
      return "kSAME_UPPER";
    case ir::PaddingMode::kSameLower:
      return "kSAME_LOWER";
  }
  return "";
}

const PlanTensor* input_tensor(const Plan& plan, const PlanStep& step, size_t k) {
  if (k >= step.inputs.size() || step.inputs[k] == kNoTensor) return nullptr;
  return &plan.tensors[static_cast<size_t>(step.inputs[k])];
}

const char* weight_type_name(ir::DataType type) {
  switch (type) {
    case ir::DataType::kFloat:
      return "Float";
    case ir::DataType::kHalf:
      return "Half";
    case ir::DataType::kBFloat16:
      return "BFloat16";
    case ir::DataType::kInt8:
      return "Int8";
    case ir::DataType::kUInt8:
      return "UInt8";
    case ir::DataType::kInt32:
      return "Int32";
    default:
      return "Other";
  }
}

Json weights_json(const PlanTensor* tensor) {
  int64_t count = 0;
  if (tensor != nullptr && tensor->role == TensorRole::kConstant) {
    count = 1;
    for (ir::Dim dim : tensor->shape) count *= dim.is_known() ? dim.extent() : 0;
  }
  return {{"Type", weight_type_name(tensor != nullptr ? tensor->type : ir::DataType::kFloat)},
          {"Count", count}};
}

bool is_dynamic_input(const PlanTensor* tensor) {
  return tensor != nullptr && tensor->role != TensorRole::kConstant;
}

int64_t known_extent(const PlanTensor* tensor, size_t axis) {
  if (tensor == nullptr || axis >= tensor->shape.size() || !tensor->shape[axis].is_known())
    return -1;
  return tensor->shape[axis].extent();
}

void add_window(Json& object, const ir::Ints& pre, const ir::Ints& post, const ir::Ints& stride,
                ir::PaddingMode mode) {
  object["PaddingMode"] = padding_mode_name(mode);
  object["PrePadding"] = pre;
  object["PostPadding"] = post;
  object["Stride"] = stride;
}

bool is_quantized_tensor(const PlanTensor* tensor) {
  return tensor != nullptr && ir::is_quantized(tensor->type);
}

// The bias of a quantized convolution: constant int32 in the sums, or the addend that an `fma`
// brings with the scale.
const PlanTensor* bias_tensor(const Plan& plan, const PlanStep& step, const ir::Program& epilogue) {
  const PlanTensor* bias = input_tensor(plan, step, 2);
  if (bias != nullptr || epilogue.empty() || !is_quantized_tensor(input_tensor(plan, step, 0)))
    return bias;
  // What is known of the other operands may be computed first.
  const auto scaling = std::find_if(
      epilogue.code.begin(), epilogue.code.end(), [](const ir::Instruction& instruction) {
        return instruction.op == PointOp::kFma && (instruction.a == 0 || instruction.b == 0);
      });
  if (scaling == epilogue.code.end() || scaling->c < 1 || scaling->c >= epilogue.num_inputs)
    return nullptr;
  const PlanTensor* addend = input_tensor(plan, step, static_cast<size_t>(scaling->c) + 2);
  return is_dynamic_input(addend) ? nullptr : addend;
}

// Any operand of the epilogue that is no constant.
bool has_residual(const Plan& plan, const PlanStep& step, const ir::Program& epilogue) {
  for (int k = 1; k < epilogue.num_inputs; ++k)
    if (is_dynamic_input(input_tensor(plan, step, static_cast<size_t>(k) + 2))) return true;
  return false;
}

// What scales values and rounds them to codes.
bool is_scaling(PointOp op) {
  switch (op) {
    case PointOp::kConst:
    case PointOp::kAdd:
    case PointOp::kSub:
    case PointOp::kMul:
    case PointOp::kDiv:
    case PointOp::kFma:
    case PointOp::kRound:
      return true;
    default:
      return false;
  }
}

// Codes that begin at zero: the store's saturation is the ReLU, and its upper bound that of int8.
bool stores_relu(const Plan& plan, const PlanStep& step, const ir::Program& epilogue) {
  const PlanTensor& y = plan.tensors[static_cast<size_t>(step.outputs[0])];
  if (y.type != ir::DataType::kUInt8 || y.zero_point != std::vector<int32_t>{0}) return false;
  for (const ir::Instruction& code : epilogue.code) {
    const bool is_bound = code.op == ir::PointOp::kClip && code.x <= 0 && code.y >= 127;
    if (!is_bound && !is_scaling(code.op)) return false;
  }
  return true;
}

void add_convolution(Json& object, const Plan& plan, const PlanStep& step) {
  const auto& attrs = step.layer.as<ir::ConvolutionAttrs>();
  const PlanTensor* weights = input_tensor(plan, step, 1);
  const PlanTensor* bias = bias_tensor(plan, step, attrs.epilogue);
  const bool quantized = is_quantized_tensor(input_tensor(plan, step, 0));
  const bool deconvolution = step.layer.kind == LayerKind::kDeconvolution;
  const int64_t maps = known_extent(weights, deconvolution ? 1 : 0);
  std::string activation =
      quantized ? quantized_activation_name(attrs.epilogue) : activation_name(attrs.epilogue);
  if (quantized && stores_relu(plan, step, attrs.epilogue)) activation = "RELU";
  object["ParameterType"] = "Convolution";
  object["Kernel"] = attrs.kernel;
  add_window(object, attrs.pre_padding, attrs.post_padding, attrs.stride, attrs.padding_mode);
  object["Dilation"] = attrs.dilation;
  object["OutMaps"] = deconvolution && maps > 0 ? maps * attrs.groups : maps;
  object["Groups"] = attrs.groups;
  object["Weights"] = weights_json(weights);
  if (const ir::DataType type = tactic_precision(step); type != ir::DataType::kUndefined)
    object["Weights"]["Type"] = weight_type_name(type);
  object["Bias"] = weights_json(bias);
  object["HasBias"] = bias != nullptr ? 1 : 0;
  object["HasReLU"] = activation == "RELU" ? 1 : 0;
  object["HasSparseWeights"] = step.sparsity.is_2_4() ? 1 : 0;
  object["HasDynamicFilter"] = is_dynamic_input(weights) ? 1 : 0;
  object["HasDynamicBias"] = is_dynamic_input(bias) ? 1 : 0;
  object["HasResidual"] = has_residual(plan, step, attrs.epilogue) ? 1 : 0;
  object["ConvXAsActInputIdx"] = -1;
  object["BiasAsActInputIdx"] = -1;
  object["ResAsActInputIdx"] = -1;
  object["Activation"] = activation;
  if (!attrs.epilogue.empty()) object["Epilogue"] = ir::to_string(attrs.epilogue);
}

// Of a global one: the image, as TensorRT has it.
ir::PoolingAttrs windowed(const Plan& plan, const PlanStep& step) {
  ir::PoolingAttrs attrs = step.layer.as<ir::PoolingAttrs>();
  const PlanTensor* x = input_tensor(plan, step, 0);
  if (!attrs.global || x == nullptr || x->shape.size() < 3) return attrs;
  for (size_t d = 2; d < x->shape.size(); ++d) attrs.kernel.push_back(known_extent(x, d));
  attrs.stride.assign(attrs.kernel.size(), 1);
  attrs.pre_padding = attrs.post_padding = ir::Ints(attrs.kernel.size(), 0);
  return attrs;
}

void add_pooling(Json& object, const Plan& plan, const PlanStep& step) {
  const ir::PoolingAttrs attrs = windowed(plan, step);
  static constexpr const char* kTypes[] = {"MAX", "AVERAGE", "LP"};
  object["ParameterType"] = "Pooling";
  object["PoolingType"] = kTypes[static_cast<int>(attrs.type)];
  object["Global"] = attrs.global ? 1 : 0;
  object["WindowSize"] = attrs.kernel;
  add_window(object, attrs.pre_padding, attrs.post_padding, attrs.stride, attrs.padding_mode);
  object["BlendFactor"] = 0;
  object["AverageCountExcludesPadding"] = attrs.count_includes_padding ? 0 : 1;
  if (!attrs.epilogue.empty()) object["Epilogue"] = ir::to_string(attrs.epilogue);
}

// "v2 = add v0 v1; v3 = relu v2" as a list of statements.
Json statements(const std::string& text) {
  Json list = Json::array();
  for (size_t first = 0; first < text.size();) {
    const size_t end = std::min(text.find(';', first), text.size());
    const size_t start = text.find_first_not_of(' ', first);
    if (start < end) list.push_back(text.substr(start, end - start));
    first = end + 1;
  }
  return list;
}

void add_pointwise(Json& object, const ir::Program& program) {
  Json args = Json::array();
  for (int k = 0; k < program.num_inputs; ++k) args.push_back(fmt::format("v{}", k));
  Json literals = Json::array();
  for (const ir::Instruction& instruction : program.code) {
    if (ir::literals(instruction.op) > 0) literals.push_back(fmt::format("{:g}", instruction.x));
    if (ir::literals(instruction.op) > 1) literals.push_back(fmt::format("{:g}", instruction.y));
  }
  object["ParameterType"] = "PointWise";
  object["ParameterSubType"] = "PointWiseExpression";
  object["NbInputArgs"] = program.num_inputs;
  object["InputArgs"] = args;
  object["NbOutputVars"] = 1;
  object["OutputVars"] = Json::array({fmt::format("v{}", program.result())});
  object["NbParams"] = 0;
  object["Params"] = Json::array();
  object["NbLiterals"] = literals.size();
  object["Literals"] = literals;
  object["NbOperations"] = program.code.size();
  object["Operations"] = statements(ir::to_string(program));
}

Json dims_json(const ir::Shape& shape) {
  Json list = Json::array();
  for (ir::Dim dim : shape) list.push_back(dim.is_known() ? dim.extent() : -1);
  return list;
}

void add_shuffle(Json& object, const PlanStep& step) {
  const auto& attrs = step.layer.as<ir::ShuffleAttrs>();
  object["ParameterType"] = "Shuffle";
  object["FirstTranspose"] = attrs.first_transpose;
  object["Reshape"] = attrs.has_reshape ? dims_json(attrs.reshape) : Json("nbDims=0");
  object["SecondTranspose"] = attrs.second_transpose;
  object["ZeroIsPlaceholder"] = attrs.allow_zero ? 0 : 1;
  object["ParameterSubType"] = "Reshape";
}

void add_slice(Json& object, const PlanStep& step) {
  const auto& attrs = step.layer.as<ir::SliceAttrs>();
  object["ParameterType"] = "Slice";
  object["Start"] = dims_json(attrs.start);
  object["Size"] = dims_json(attrs.size);
  object["Stride"] = attrs.step;
  object["Mode"] = "kSTRICT_BOUNDS";
}

void add_softmax(Json& object, const PlanStep& step) {
  const auto& attrs = step.layer.as<ir::SoftMaxAttrs>();
  int64_t mask = 0;
  for (int64_t axis = attrs.axis; axis <= attrs.last_axis; ++axis) mask |= int64_t{1} << axis;
  object["ParameterType"] = "SoftMax";
  object["Axes"] = mask;
  object["HasLog"] = attrs.log ? 1 : 0;
}

// Any other kind: its attributes under CamelCase names.
class GenericFields {
 public:
  explicit GenericFields(Json& object) : object_(object) {}

  template <class T>
  void operator()(const char* name, const T& field) {
    object_[camel_case(name)] = to_json(field);
  }

 private:
  static std::string camel_case(std::string_view name) {
    std::string out;
    bool upper = true;
    for (char c : name) {
      if (c == '_') {
        upper = true;
        continue;
      }
      out += upper && c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
      upper = false;
    }
    return out;
  }
  static Json to_json(bool value) { return value ? 1 : 0; }
  static Json to_json(int64_t value) { return value; }
  static Json to_json(float value) { return value; }
  static Json to_json(double value) { return value; }
  static Json to_json(const std::string& value) { return value; }
  static Json to_json(const ir::Ints& value) { return value; }
  static Json to_json(const std::vector<float>& value) { return value; }
  static Json to_json(const std::vector<std::string>& value) { return value; }
  static Json to_json(const ir::Shape& value) { return dims_json(value); }
  static Json to_json(const ir::Program& value) { return ir::to_string(value); }
  static Json to_json(const std::vector<ir::GenericAttribute>& value) {
    Json object = Json::object();
    for (const ir::GenericAttribute& attribute : value) {
      if (!attribute.text.empty()) {
        object[attribute.name] = attribute.text;
      } else if (!attribute.floats.empty()) {
        object[attribute.name] = attribute.floats;
      } else {
        object[attribute.name] = attribute.ints;
      }
    }
    return object;
  }
  template <class E>
  requires std::is_enum_v<E>
  static Json to_json(E value) { return std::string(ir::enum_name(value)); }
  Json& object_;
};

}  // namespace

std::string activation_name(const ir::Program& epilogue) {
  if (epilogue.empty()) return "NONE";
  const ir::Instruction& last = epilogue.code.back();
  // Only additions of residuals may stand before the activation for it to have a plain name.
  for (size_t k = 0; k + 1 < epilogue.code.size(); ++k) {
    if (epilogue.code[k].op != PointOp::kAdd) return "GENERIC";
  }
  switch (last.op) {
    case PointOp::kAdd:
      return "NONE";
    case PointOp::kRelu:
      return "RELU";
    case PointOp::kClip:
      return last.x == 0 ? "CLIPPED_RELU" : "CLIP";
    case PointOp::kSigmoid:
      return "SIGMOID";
    case PointOp::kTanh:
      return "TANH";
    case PointOp::kLeakyRelu:
      return "LEAKY_RELU";
    case PointOp::kElu:
      return "ELU";
    case PointOp::kHardSigmoid:
      return "HARD_SIGMOID";
    case PointOp::kHardSwish:
      return "HARD_SWISH";
    case PointOp::kSilu:
      return "SILU";
    case PointOp::kGelu:
      return "GELU_ERF";
    case PointOp::kGeluTanh:
      return "GELU_TANH";
    default:
      return "GENERIC";
  }
}

namespace {}  // namespace

bool is_quantization_copy(const Plan& plan, const PlanStep& step) {
  constexpr int kMostOperations = 4;  // subtract, multiply, round, add
  if (step.layer.kind != LayerKind::kPointWise || step.outputs.empty()) return false;
  const PlanTensor* x = input_tensor(plan, step, 0);
  if (x == nullptr || step.outputs[0] == kNoTensor ||
      (!is_quantized_tensor(x) &&
       !is_quantized_tensor(&plan.tensors[static_cast<size_t>(step.outputs[0])])))
    return false;
  for (size_t k = 1; k < step.inputs.size(); ++k)
    if (is_dynamic_input(input_tensor(plan, step, k))) return false;
  int operations = 0;
  for (const ir::Instruction& instruction : step.layer.as<ir::PointWiseAttrs>().program.code) {
    if (!is_scaling(instruction.op)) return false;
    operations += instruction.op != PointOp::kConst;
  }
  return operations <= kMostOperations;
}

std::string quantized_activation_name(const ir::Program& epilogue) {
  ir::Program rest;
  rest.num_inputs = 1;
  for (const ir::Instruction& instruction : epilogue.code)
    if (!is_scaling(instruction.op)) rest.code.push_back(instruction);
  return rest.code.size() > 1 ? "GENERIC" : activation_name(rest);
}

void add_parameters(Json& object, const Plan& plan, const PlanStep& step) {
  if (step.is_view) return;
  if (is_quantization_copy(plan, step)) {
    object["ParameterType"] = "Reformat";
    object["Origin"] = "QDQ";
    return;
  }
  switch (step.layer.kind) {
    case LayerKind::kConvolution:
    case LayerKind::kDeconvolution:
      add_convolution(object, plan, step);
      return;
    case LayerKind::kPooling:
      add_pooling(object, plan, step);
      return;
    case LayerKind::kPointWise:
      add_pointwise(object, step.layer.as<ir::PointWiseAttrs>().program);
      return;
    case LayerKind::kShuffle:
      add_shuffle(object, step);
      return;
    case LayerKind::kSlice:
      add_slice(object, step);
      return;
    case LayerKind::kSoftMax:
      add_softmax(object, step);
      return;
    case LayerKind::kReformat:
      object["ParameterType"] = "Reformat";
      object["Origin"] = "REFORMAT";
      return;
    default:
      break;
  }
  object["ParameterType"] = std::string(ir::kind_name(step.layer.kind));
  std::visit(
      [&](const auto& attrs) {
        std::decay_t<decltype(attrs)>::fields(attrs, GenericFields(object));
      },
      step.layer.attrs);
}

}  // namespace camshaft::inspect
