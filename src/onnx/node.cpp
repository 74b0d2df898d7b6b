// SPDX-License-Identifier: Apache-2.0
#include "onnx/node.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/log.h"

namespace camshaft::onnx_import {

Node::Node(Scope& scope, const NodeDef& def, std::string name, int64_t opset,
           std::vector<Tensor*> inputs)
    : scope_(scope), def_(def), name_(std::move(name)), opset_(opset), inputs_(std::move(inputs)) {
  while (!inputs_.empty() && inputs_.back() == nullptr) inputs_.pop_back();
}

Status Node::require(size_t least, size_t most) const {
  for (size_t k = 0; k < least; ++k)
    if (!has(k)) return invalid("input {} is missing", k);
  if (inputs_.size() > most)
    return invalid("{} inputs, at most {} are possible", inputs_.size(), most);
  return ok_status();
}

Result<size_t> Node::rank(size_t k) const {
  const Tensor* tensor = input(k);
  if (tensor == nullptr) return invalid("input {} is missing", k);
  if (!tensor->has_rank)
    return unsupported("the rank of input \"{}\" is not known before it runs", tensor->name);
  return tensor->shape.size();
}

Result<int64_t> Node::axis(int64_t given, size_t rank) const {
  const int64_t count = static_cast<int64_t>(rank);
  if (given < -count || given >= count)
    return invalid("axis {} of a tensor of rank {}", given, rank);
  return given < 0 ? given + count : given;
}

// --- values

std::optional<std::vector<Dim>> Node::value(size_t k) {
  return ir::infer_input(input(k), symbols()).value;
}

std::optional<Ints> Node::numbers(size_t k) {
  const std::optional<std::vector<Dim>> dims = value(k);
  if (!dims) return std::nullopt;
  Ints list;
  for (Dim dim : *dims) {
    if (!symbols().is_number(dim)) return std::nullopt;
    list.push_back(symbols().number(dim));
  }
  return list;
}

std::optional<std::vector<double>> Node::reals(size_t k) const {
  const Tensor* tensor = input(k);
  if (const kernels::Value* value = scope_.session.evaluated.find(tensor))
    return value->to_doubles();
  if (tensor == nullptr || !tensor->is_constant() || ir::bits_of(tensor->type) < 8)
    return std::nullopt;
  const int64_t count =
      static_cast<int64_t>(tensor->constant->view.size() * 8 / ir::bits_of(tensor->type));
  std::vector<double> list(count);
  for (int64_t i = 0; i < count; ++i)
    list[i] = read_element(tensor->type, tensor->constant->view.data(), i);
  return list;
}

std::optional<double> Node::scalar(size_t k) const {
  const std::optional<std::vector<double>> list = reals(k);
  return list && list->size() == 1 ? std::optional((*list)[0]) : std::nullopt;
}

// --- attributes

const AttributeDef* Node::find_attribute(std::string_view name, AttributeType type) {
  understood_.emplace(name);
  for (const AttributeDef& attribute : def_.attributes) {
    if (attribute.name != name) continue;
    const bool empty_list =
        attribute.type ==
        AttributeType::kUndefined;  // IR version 1 wrote empty lists without a type
    if (type == AttributeType::kUndefined || attribute.type == type || empty_list)
      return &attribute;
    if (attribute_error_.ok()) attribute_error_ = invalid("attribute {} has the wrong type", name);
  }
  return nullptr;
}

bool Node::has_attribute(std::string_view name) {
  return find_attribute(name, AttributeType::kUndefined) != nullptr;
}

int64_t Node::integer(std::string_view name, int64_t fallback) {
  const AttributeDef* found = find_attribute(name, AttributeType::kInt);
  return found ? found->i : fallback;
}
float Node::real(std::string_view name, float fallback) {
  const AttributeDef* found = find_attribute(name, AttributeType::kFloat);
  return found ? found->f : fallback;
}
std::string Node::text(std::string_view name, std::string_view fallback) {
  const AttributeDef* found = find_attribute(name, AttributeType::kString);
  return std::string(found ? found->text : fallback);
}
Ints Node::integers(std::string_view name) {
  const AttributeDef* found = find_attribute(name, AttributeType::kInts);
  return found ? Ints(found->ints.begin(), found->ints.end()) : Ints();
}
std::vector<float> Node::floats(std::string_view name) {
  const AttributeDef* found = find_attribute(name, AttributeType::kFloats);
  return found ? std::vector<float>(found->floats.begin(), found->floats.end())
               : std::vector<float>();
}
std::vector<std::string> Node::texts(std::string_view name) {
  const AttributeDef* found = find_attribute(name, AttributeType::kStrings);
  return found ? std::vector<std::string>(found->texts.begin(), found->texts.end())
               : std::vector<std::string>();
}
const AttributeDef* Node::attribute(std::string_view name, AttributeType type) {
  return find_attribute(name, type);
}

void Node::ignore(std::initializer_list<std::string_view> names) {
  for (std::string_view name : names) understood_.emplace(name);
}

Status Node::attribute_status() const {
  if (!attribute_error_.ok()) return attribute_error_;
  for (const AttributeDef& attribute : def_.attributes)
    if (!understood_.count(attribute.name) && attribute.name != "consumed_inputs")
      return unsupported("attribute {} is not known for opset {}", attribute.name, opset_);
  return ok_status();
}

// --- layers

Tensor* Node::output_tensor(size_t k) {
  if (!wants(k)) return nullptr;
  Tensor* tensor =
      graph().add_tensor(scope_.tensor_name(def_.outputs[k]), DataType::kUndefined, {});
  scope_.define(def_.outputs[k], tensor);
  return tensor;
}

void Node::give(size_t k, Tensor* tensor) {
  if (wants(k)) scope_.define(def_.outputs[k], tensor);
}

Result<ir::Layer*> Node::add_layer(LayerKind kind, const std::string& name, Attrs attrs,
                                   std::vector<Tensor*> inputs, std::vector<Tensor*> outputs) {
  ir::Layer* layer =
      graph().add_layer(kind, name, std::move(attrs), std::move(inputs), std::move(outputs));
  layer->onnx_nodes = {name_};
  if (Status status = ir::infer_layer(graph(), *layer); !status.ok()) return status;
  for (size_t k = 0; k < layer->outputs.size(); ++k)
    if (layer->outputs[k] != nullptr && layer->outputs[k]->type == DataType::kUndefined)
      return invalid("the operator has no output {}", k);
  scope_.session.evaluated.add(*layer);
  log(Severity::kVerbose, "Registering layer: {} for ONNX node: {}", layer->name, name_);
  return layer;
}

Status Node::emit(LayerKind kind, Attrs attrs, std::vector<Tensor*> inputs) {
  std::vector<Tensor*> outputs;
  for (size_t k = 0; k < def_.outputs.size(); ++k) outputs.push_back(output_tensor(k));
  while (outputs.size() > 1 && outputs.back() == nullptr) outputs.pop_back();
  return add_layer(kind, name_, std::move(attrs), std::move(inputs), std::move(outputs)).status();
}

Status Node::emit_as(DataType type, std::string_view step, LayerKind kind, Attrs attrs,
                     std::vector<Tensor*> inputs) {
  if (type == DataType::kFloat) return emit(kind, std::move(attrs), std::move(inputs));
  CAMSHAFT_ASSIGN(Tensor* const made, add(step, kind, std::move(attrs), std::move(inputs)));
  return emit(LayerKind::kCast, ir::CastAttrs{type}, {made});
}

Status Node::emit_to(size_t k, LayerKind kind, Attrs attrs, std::vector<Tensor*> inputs) {
  if (!wants(k)) return ok_status();
  const std::string name = k == 0 ? name_ : fmt::format("{}_{}", name_, k);
  return add_layer(kind, name, std::move(attrs), std::move(inputs), {output_tensor(k)}).status();
}

Result<Tensor*> Node::add(std::string_view step, LayerKind kind, Attrs attrs,
                          std::vector<Tensor*> inputs) {
  const std::string name = fmt::format("{}/{}", name_, step);
  Tensor* output = graph().add_tensor(name, DataType::kUndefined, {});
  CAMSHAFT_TRY(add_layer(kind, name, std::move(attrs), std::move(inputs), {output}).status());
  return output;
}

Result<Tensor*> Node::binary(std::string_view step, PointOp op, Tensor* a, Tensor* b) {
  return add(step, LayerKind::kElementWise, ir::PointOpAttrs{op}, {a, b});
}

Result<Tensor*> Node::unary(std::string_view step, PointOp op, Tensor* x) {
  return add(step, LayerKind::kUnary, ir::PointOpAttrs{op}, {x});
}

Result<Tensor*> Node::reshape(std::string_view step, Tensor* x, const Shape& shape) {
  ir::ShuffleAttrs attrs;
  attrs.has_reshape = true;
  attrs.reshape = shape;
  return add(step, LayerKind::kShuffle, std::move(attrs), {x});
}

Result<Tensor*> Node::transpose(std::string_view step, Tensor* x, Ints order) {
  ir::ShuffleAttrs attrs;
  attrs.first_transpose = std::move(order);
  return add(step, LayerKind::kShuffle, std::move(attrs), {x});
}

Result<Tensor*> Node::cast(std::string_view step, Tensor* x, DataType type) {
  if (x->type == type) return x;
  return add(step, LayerKind::kCast, ir::CastAttrs{type}, {x});
}

Tensor* Node::constant(std::string_view step, DataType type, std::span<const int64_t> extents,
                       std::vector<std::byte> bytes) {
  return graph().add_constant(fmt::format("{}/{}", name_, step), type, extents,
                              ir::make_constant(std::move(bytes)));
}

Tensor* Node::float_constant(std::string_view step, std::span<const int64_t> extents,
                             std::span<const float> values) {
  const auto bytes = std::as_bytes(values);
  return constant(step, DataType::kFloat, extents, {bytes.begin(), bytes.end()});
}

Tensor* Node::int_constant(std::string_view step, std::span<const int64_t> extents,
                           std::span<const int64_t> values) {
  const auto bytes = std::as_bytes(values);
  return constant(step, DataType::kInt64, extents, {bytes.begin(), bytes.end()});
}

Tensor* Node::scalar_like(std::string_view step, DataType type, double value) {
  std::vector<std::byte> bytes(ir::bytes_for(type, 1));
  write_element(type, bytes.data(), 0, value);
  return constant(step, type, {}, std::move(bytes));
}

// --- elements

namespace {

double half_to_double(uint16_t half) {
  const int exponent = half >> 10 & 31, mantissa = half & 1023;
  const double sign = half & 0x8000 ? -1 : 1;
  if (exponent == 31)
    return mantissa ? std::numeric_limits<double>::quiet_NaN()
                    : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(mantissa + 1024, exponent - 25);
}

// Rounds to the nearest number of `digits` significant bits, even on ties.
double round_to(double value, int digits, int least_exponent) {
  int exponent = 0;
  std::frexp(value, &exponent);
  const int shift = digits - std::max(exponent, least_exponent);
  return std::ldexp(std::nearbyint(std::ldexp(value, shift)), -shift);
}

uint16_t double_to_half(double value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return sign | 0x7e00;
  const double magnitude = round_to(std::abs(value), 11, -13);
  if (magnitude >= 65520) return sign | 0x7c00;
  if (magnitude < std::ldexp(1, -14))
    return sign | static_cast<uint16_t>(std::ldexp(magnitude, 24));
  int exponent = 0;
  const double fraction = std::frexp(magnitude, &exponent);
  return sign | static_cast<uint16_t>((exponent + 14) << 10) |
         static_cast<uint16_t>(std::ldexp(fraction, 11) - 1024);
}

uint16_t float_to_bfloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

template <class T>
double load(const std::byte* bytes, int64_t k) {
  T element;
  std::memcpy(&element, bytes + k * sizeof(T), sizeof(T));
  return static_cast<double>(element);
}

template <class T>
void store(std::byte* bytes, int64_t k, double value) {
  T element;
  if constexpr (std::is_integral_v<T>) {
    // The largest integers are not doubles: what does not fit becomes the nearest that does.
    const double limit = std::ldexp(1.0, std::numeric_limits<T>::digits);
    if (std::isnan(value)) value = 0;
    element = value >= limit ? std::numeric_limits<T>::max()
              : value <= static_cast<double>(std::numeric_limits<T>::min())
                  ? std::numeric_limits<T>::min()
                  : static_cast<T>(value);
  } else {
    element = static_cast<T>(value);
  }
  std::memcpy(bytes + k * sizeof(T), &element, sizeof(T));
}

}  // namespace

double read_element(DataType type, const std::byte* bytes, int64_t k) {
  uint16_t bits = 0;
  if (type == DataType::kHalf || type == DataType::kBFloat16) std::memcpy(&bits, bytes + k * 2, 2);
  switch (type) {
    case DataType::kFloat:
      return load<float>(bytes, k);
    case DataType::kDouble:
      return load<double>(bytes, k);
    case DataType::kHalf:
      return half_to_double(bits);
    case DataType::kBFloat16:
      return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
    case DataType::kInt8:
      return load<int8_t>(bytes, k);
    case DataType::kBool:
    case DataType::kUInt8:
      return load<uint8_t>(bytes, k);
    case DataType::kInt16:
      return load<int16_t>(bytes, k);
    case DataType::kUInt16:
      return load<uint16_t>(bytes, k);
    case DataType::kInt32:
      return load<int32_t>(bytes, k);
    case DataType::kUInt32:
      return load<uint32_t>(bytes, k);
    case DataType::kInt64:
      return load<int64_t>(bytes, k);
    case DataType::kUInt64:
      return load<uint64_t>(bytes, k);
    default:
      return 0;
  }
}

void write_element(DataType type, std::byte* bytes, int64_t k, double value) {
  switch (type) {
    case DataType::kFloat:
      return store<float>(bytes, k, value);
    case DataType::kDouble:
      return store<double>(bytes, k, value);
    case DataType::kHalf: {
      const uint16_t bits = double_to_half(value);
      std::memcpy(bytes + k * 2, &bits, 2);
      return;
    }
    case DataType::kBFloat16: {
      const uint16_t bits = float_to_bfloat16(static_cast<float>(value));
      std::memcpy(bytes + k * 2, &bits, 2);
      return;
    }
    case DataType::kInt8:
      return store<int8_t>(bytes, k, value);
    case DataType::kBool:
      return store<uint8_t>(bytes, k, value != 0 ? 1 : 0);
    case DataType::kUInt8:
      return store<uint8_t>(bytes, k, value);
    case DataType::kInt16:
      return store<int16_t>(bytes, k, value);
    case DataType::kUInt16:
      return store<uint16_t>(bytes, k, value);
    case DataType::kInt32:
      return store<int32_t>(bytes, k, value);
    case DataType::kUInt32:
      return store<uint32_t>(bytes, k, value);
    case DataType::kInt64:
      return store<int64_t>(bytes, k, value);
    case DataType::kUInt64:
      return store<uint64_t>(bytes, k, value);
    default:
      return;
  }
}

}  // namespace camshaft::onnx_import
