// SPDX-License-Identifier: Apache-2.0
#include "onnx/evaluated.h"

#include <algorithm>

#include "ir/extents.h"
namespace camshaft::onnx_import {
namespace {

constexpr int64_t kMostElements = 1024;  // more are data, not shape arithmetic

struct NumberCheck {
  bool only_numbers = true;
  template <class T>
  void operator()(const char*, const T& field) {
    if constexpr (std::is_same_v<T, ir::Shape>)
      for (const ir::Dim dim : field) only_numbers &= dim.is_known();
  }
};

bool is_small(const ir::Tensor& tensor) {
  int64_t count = 1;
  for (const ir::Dim dim : tensor.shape) {
    if (!dim.is_known()) return false;
    count *= std::min(dim.extent(), kMostElements + 1);
    if (count > kMostElements) return false;
  }
  return tensor.has_rank && ir::bits_of(tensor.type) >= 8;
}

bool can_evaluate(const ir::Layer& layer) {
  if (!layer.bodies.empty() || layer.inputs.empty() || kernels::is_random(layer)) return false;
  for (const ir::Tensor* output : layer.outputs)
    if (output && !is_small(*output)) return false;
  NumberCheck check;
  std::visit([&](const auto& a) { std::decay_t<decltype(a)>::fields(a, check); }, layer.attrs);
  return check.only_numbers;
}

void set_shape_value(ir::Tensor& tensor, const kernels::Value& value) {
  const bool integers = (ir::is_integer(tensor.type) && tensor.type != ir::DataType::kUInt64) ||
                        tensor.type == ir::DataType::kBool;
  if (tensor.facts.shape_value || !integers) return;
  std::vector<int64_t> elements;
  if (tensor.type == ir::DataType::kInt64) {
    elements.assign(value.as<int64_t>().begin(), value.as<int64_t>().end());
  } else {
    for (const double element : value.to_doubles())
      elements.push_back(static_cast<int64_t>(element));
  }
  tensor.facts.shape_value.emplace();
  for (const int64_t element : elements)
    tensor.facts.shape_value->push_back(tensor.graph->symbols().constant(element));
}

template <class T>
std::vector<std::byte> shape_value_bytes(const ir::Tensor& tensor) {
  std::vector<std::byte> bytes;
  for (const ir::Dim dim : *tensor.facts.shape_value) {
    const T element = static_cast<T>(tensor.graph->symbols().number(dim));
    const auto* data = reinterpret_cast<const std::byte*>(&element);
    bytes.insert(bytes.end(), data, data + sizeof element);
  }
  return bytes;
}

// The elements shape inference follows, where they are numbers: those of the shape of an input.
std::optional<kernels::Value> value_of(const ir::Tensor& tensor) {
  if (!tensor.facts.shape_value || !is_small(tensor)) return {};
  const ir::Extents extents = ir::extents_of(tensor.shape);
  for (const ir::Dim dim : *tensor.facts.shape_value)
    if (!tensor.graph->symbols().is_number(dim)) return {};
  std::vector<std::byte> bytes;
  switch (tensor.type) {
    case ir::DataType::kInt64:
      bytes = shape_value_bytes<int64_t>(tensor);
      break;
    case ir::DataType::kInt32:
      bytes = shape_value_bytes<int32_t>(tensor);
      break;
    case ir::DataType::kBool:
      bytes = shape_value_bytes<uint8_t>(tensor);
      break;
    case ir::DataType::kFloat:
      bytes = shape_value_bytes<float>(tensor);
      break;
    case ir::DataType::kDouble:
      bytes = shape_value_bytes<double>(tensor);
      break;
    default:
      return {};
  }
  auto value = kernels::make_value(tensor.type, extents, std::move(bytes));
  return value.ok() ? std::optional(std::move(value).value()) : std::nullopt;
}

}  // namespace

void Evaluated::add(ir::Layer& layer) {
  std::vector<kernels::Value> constants;
  constants.reserve(layer.inputs.size());
  std::vector<const kernels::Value*> inputs;
  for (const ir::Tensor* input : layer.inputs) {
    if (!input) {
      inputs.push_back(nullptr);
    } else if (const kernels::Value* value = find(input)) {
      inputs.push_back(value);
    } else if (input->is_constant() && is_small(*input)) {
      constants.push_back(kernels::constant_value(*input));
      inputs.push_back(&constants.back());
    } else if (std::optional<kernels::Value> followed = value_of(*input)) {
      constants.push_back(std::move(*followed));
      inputs.push_back(&constants.back());
    } else {
      return;
    }
  }
  if (!can_evaluate(layer)) return;
  Result<std::vector<kernels::Value>> results = kernels::evaluate_layer(layer, inputs);
  if (!results.ok()) return;  // running the layer will say what is wrong
  for (size_t k = 0; k < layer.outputs.size(); ++k) {
    if (!layer.outputs[k]) continue;
    set_shape_value(*layer.outputs[k], results.value()[k]);
    values_[layer.outputs[k]] = std::move(results.value()[k]);
  }
}

void Evaluated::share(const ir::Tensor* tensor, const ir::Tensor* copy) {
  if (const auto found = values_.find(tensor); found != values_.end()) {
    kernels::Value value = found->second;
    values_[copy] = std::move(value);
  }
}

const kernels::Value* Evaluated::find(const ir::Tensor* tensor) const {
  const auto found = values_.find(tensor);
  return found == values_.end() ? nullptr : &found->second;
}

}  // namespace camshaft::onnx_import
