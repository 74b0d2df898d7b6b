// SPDX-License-Identifier: Apache-2.0
#include "grpc/grpc_messages.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "serve/data_types.h"

namespace camshaft::serve {
namespace {

using inference::InferTensorContents;
using InputTensor = inference::ModelInferRequest::InferInputTensor;
using Bytes = std::vector<std::byte>;

Error invalid(std::string message) {
  return {Failure::kInvalid, std::move(message)};
}

// False where a value does not fit the element type.
template <class T, class List>
bool copy_values(const List& values, Bytes& bytes) {
  bytes.resize(static_cast<size_t>(values.size()) * sizeof(T));
  std::byte* to = bytes.data();
  for (const auto value : values) {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
      if (value < std::numeric_limits<T>::min() || value > std::numeric_limits<T>::max())
        return false;
    const T element = static_cast<T>(value);
    std::memcpy(to, &element, sizeof(T));
    to += sizeof(T);
  }
  return true;
}

struct Row {
  DataType type;
  bool (*copy)(const InferTensorContents& contents, Bytes& bytes);
};

constexpr Row kRows[] = {
    {DataType::kBool, [](const InferTensorContents& c,
                         Bytes& b) { return copy_values<bool>(c.bool_contents(), b); }},
    {DataType::kInt8, [](const InferTensorContents& c,
                         Bytes& b) { return copy_values<int8_t>(c.int_contents(), b); }},
    {DataType::kInt16, [](const InferTensorContents& c,
                          Bytes& b) { return copy_values<int16_t>(c.int_contents(), b); }},
    {DataType::kInt32, [](const InferTensorContents& c,
                          Bytes& b) { return copy_values<int32_t>(c.int_contents(), b); }},
    {DataType::kInt64, [](const InferTensorContents& c,
                          Bytes& b) { return copy_values<int64_t>(c.int64_contents(), b); }},
    {DataType::kUInt8, [](const InferTensorContents& c,
                          Bytes& b) { return copy_values<uint8_t>(c.uint_contents(), b); }},
    {DataType::kUInt16, [](const InferTensorContents& c,
                           Bytes& b) { return copy_values<uint16_t>(c.uint_contents(), b); }},
    {DataType::kUInt32, [](const InferTensorContents& c,
                           Bytes& b) { return copy_values<uint32_t>(c.uint_contents(), b); }},
    {DataType::kUInt64, [](const InferTensorContents& c,
                           Bytes& b) { return copy_values<uint64_t>(c.uint64_contents(), b); }},
    {DataType::kFloat, [](const InferTensorContents& c,
                          Bytes& b) { return copy_values<float>(c.fp32_contents(), b); }},
    {DataType::kDouble, [](const InferTensorContents& c,
                           Bytes& b) { return copy_values<double>(c.fp64_contents(), b); }},
};

std::optional<Error> decode(const InputTensor& input, Tensor& tensor, Bytes& bytes) {
  for (const Row& row : kRows) {
    if (row.type != tensor.type) continue;
    if (!row.copy(input.contents(), bytes))
      return invalid(fmt::format("input '{}' has values beyond {}", tensor.name, input.datatype()));
    tensor.bytes = bytes;
    return std::nullopt;
  }
  return invalid(fmt::format("input '{}' is {}, which comes as raw_input_contents only",
                             tensor.name, input.datatype()));
}

uint64_t number_of(const inference::InferParameter& parameter) {
  if (parameter.has_uint64_param()) return parameter.uint64_param();
  return parameter.int64_param() > 0 ? static_cast<uint64_t>(parameter.int64_param()) : 0;
}

std::optional<Error> read_parameters(const inference::ModelInferRequest& message,
                                     Request& request) {
  const auto number = [&](const char* name) {
    const auto found = message.parameters().find(name);
    return found == message.parameters().end() ? 0 : number_of(found->second);
  };
  request.priority = number("priority");
  request.timeout_us = number("timeout");
  if (number("sequence_id") != 0)
    return Error{Failure::kUnsupported, "sequences are not supported"};
  return std::nullopt;
}

}  // namespace

::grpc::Status grpc_status(const Error& error) {
  const auto code = [&] {
    switch (error.failure) {
      case Failure::kInvalid:
        return ::grpc::StatusCode::INVALID_ARGUMENT;
      case Failure::kNotFound:
        return ::grpc::StatusCode::NOT_FOUND;
      case Failure::kUnsupported:
        return ::grpc::StatusCode::UNIMPLEMENTED;
      case Failure::kUnavailable:
        return ::grpc::StatusCode::UNAVAILABLE;
      case Failure::kOverloaded:
        return ::grpc::StatusCode::RESOURCE_EXHAUSTED;
      case Failure::kTimeout:
        return ::grpc::StatusCode::DEADLINE_EXCEEDED;
      case Failure::kCancelled:
        return ::grpc::StatusCode::CANCELLED;
      case Failure::kInternal:
        break;
    }
    return ::grpc::StatusCode::INTERNAL;
  }();
  return {code, error.message};
}

std::optional<Error> read_inference(const inference::ModelInferRequest& message,
                                    std::deque<Bytes>& memory, Request& request) {
  request.id = message.id();
  if (auto error = read_parameters(message, request)) return error;
  const bool is_raw = message.raw_input_contents_size() > 0;
  if (is_raw && message.raw_input_contents_size() != message.inputs_size())
    return invalid(fmt::format("{} raw_input_contents for {} inputs",
                               message.raw_input_contents_size(), message.inputs_size()));
  for (int k = 0; k < message.inputs_size(); ++k) {
    const InputTensor& input = message.inputs(k);
    Tensor tensor;
    tensor.name = input.name();
    tensor.type = type_of_protocol_name(input.datatype());
    tensor.dims.assign(input.shape().begin(), input.shape().end());
    if (tensor.type == DataType::kUndefined)
      return invalid(fmt::format("input '{}': the datatype '{}' is not known here", tensor.name,
                                 input.datatype()));
    if (input.parameters().count("shared_memory_region") > 0)
      return Error{Failure::kUnsupported,
                   fmt::format("input '{}': shared memory is not supported", tensor.name)};
    if (is_raw && input.has_contents())
      return invalid(fmt::format("input '{}' has both contents and raw contents", tensor.name));
    if (is_raw) {
      const std::string& raw = message.raw_input_contents(k);
      tensor.bytes = std::as_bytes(std::span(raw.data(), raw.size()));
    } else if (auto error = decode(input, tensor, memory.emplace_back())) {
      return error;
    }
    request.inputs.push_back(std::move(tensor));
  }
  for (const auto& output : message.outputs()) {
    WantedOutput wanted{output.name(), 0, true};
    if (output.parameters().count("shared_memory_region") > 0)
      return Error{Failure::kUnsupported,
                   fmt::format("output '{}': shared memory is not supported", output.name())};
    const auto classes = output.parameters().find("classification");
    if (classes != output.parameters().end())
      wanted.classes = static_cast<int64_t>(
          std::min<uint64_t>(number_of(classes->second), std::numeric_limits<int32_t>::max()));
    request.wanted.push_back(std::move(wanted));
  }
  return std::nullopt;
}

namespace {

std::optional<Error> add_output(const Model& model, const Tensor& tensor, int64_t wanted_classes,
                                inference::ModelInferResponse& message) {
  auto* output = message.add_outputs();
  output->set_name(tensor.name);
  std::string* raw = message.add_raw_output_contents();
  if (wanted_classes == 0) {
    output->set_datatype(std::string(protocol_name(tensor.type)));
    for (const int64_t extent : tensor.dims) output->add_shape(extent);
    raw->assign(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
    return std::nullopt;
  }
  Classes classes;
  if (auto error = classify(model, tensor, wanted_classes, classes)) return error;
  output->set_datatype("BYTES");
  for (const int64_t extent : classes.dims) output->add_shape(extent);
  for (const std::string& text : classes.texts) {
    const auto length = static_cast<uint32_t>(text.size());
    raw->append(reinterpret_cast<const char*>(&length), sizeof length);
    raw->append(text);
  }
  return std::nullopt;
}

}  // namespace

std::optional<Error> write_inference(const Model& model, const Request& request,
                                     const Answer& answer, inference::ModelInferResponse& message) {
  message.set_model_name(model.name());
  message.set_model_version(std::to_string(model.version()));
  message.set_id(request.id);
  if (request.wanted.empty())
    for (const Tensor& tensor : answer.outputs)
      if (auto error = add_output(model, tensor, 0, message)) return error;
  for (const WantedOutput& wanted : request.wanted)
    for (const Tensor& tensor : answer.outputs)
      if (tensor.name == wanted.name)
        if (auto error = add_output(model, tensor, wanted.classes, message)) return error;
  return std::nullopt;
}

}  // namespace camshaft::serve
