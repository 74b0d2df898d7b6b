// SPDX-License-Identifier: Apache-2.0
#include "serve/http_json.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <list>

#include <fmt/format.h>
#include <simdjson.h>
#include <nlohmann/json.hpp>

#include "serve/data_types.h"

namespace camshaft::serve {

namespace dom = simdjson::dom;

namespace {

constexpr int kDeepestData = 16;
constexpr size_t kMostTensors = 1024;
constexpr size_t kSmallJson = size_t{16} << 10;

Error invalid(std::string message) {
  return {Failure::kInvalid, std::move(message)};
}

// What a request's tensors lie in.
struct Memory {
  Body body;
  std::list<std::vector<std::byte>> decoded;
};

template <class T>
bool append_number(const dom::element& value, std::vector<std::byte>& bytes) {
  T number{};
  if constexpr (std::is_same_v<T, bool>) {
    if (value.is_bool()) {
      number = value.get_bool().value_unsafe();
    } else {
      int64_t integer = 0;
      if (value.get(integer) != simdjson::SUCCESS || (integer & ~int64_t{1}) != 0) return false;
      number = integer != 0;
    }
  } else if constexpr (std::is_floating_point_v<T>) {
    double real = 0;
    if (value.get(real) != simdjson::SUCCESS) return false;
    number = static_cast<T>(real);
    if (!std::isfinite(number)) return false;
  } else if constexpr (std::is_same_v<T, uint64_t>) {
    if (value.get(number) != simdjson::SUCCESS) return false;
  } else {
    int64_t integer = 0;
    if (value.get(integer) != simdjson::SUCCESS) return false;
    if (integer < static_cast<int64_t>(std::numeric_limits<T>::min()) ||
        integer > static_cast<int64_t>(std::numeric_limits<T>::max()))
      return false;
    number = static_cast<T>(integer);
  }
  const size_t at = bytes.size();
  bytes.resize(at + sizeof(T));
  std::memcpy(bytes.data() + at, &number, sizeof(T));
  return true;
}

using Appender = bool (*)(const dom::element&, std::vector<std::byte>&);

Appender appender_of(DataType type) {
  switch (type) {
    case DataType::kBool:
      return append_number<bool>;
    case DataType::kUInt8:
      return append_number<uint8_t>;
    case DataType::kUInt16:
      return append_number<uint16_t>;
    case DataType::kUInt32:
      return append_number<uint32_t>;
    case DataType::kUInt64:
      return append_number<uint64_t>;
    case DataType::kInt8:
      return append_number<int8_t>;
    case DataType::kInt16:
      return append_number<int16_t>;
    case DataType::kInt32:
      return append_number<int32_t>;
    case DataType::kInt64:
      return append_number<int64_t>;
    case DataType::kFloat:
      return append_number<float>;
    case DataType::kDouble:
      return append_number<double>;
    default:
      return nullptr;
  }
}

// Flat or nested, which says the same.
bool append_data(const dom::array& data, Appender append, int depth, size_t most_bytes,
                 std::vector<std::byte>& bytes) {
  for (const dom::element value : data) {
    dom::array inner;
    if (value.get(inner) == simdjson::SUCCESS) {
      if (depth >= kDeepestData || !append_data(inner, append, depth + 1, most_bytes, bytes))
        return false;
    } else if (bytes.size() >= most_bytes || !append(value, bytes)) {
      return false;
    }
  }
  return true;
}

class InferenceReader {
 public:
  InferenceReader(std::shared_ptr<Memory> memory, std::span<const std::byte> binary,
                  Request& request)
      : memory_(std::move(memory)), binary_(binary), request_(request) {}

  std::optional<Error> read(const dom::object& root, bool& all_binary) {
    std::string_view id;
    if (const auto field = root["id"]; field.error() == simdjson::SUCCESS) {
      if (field.get(id) != simdjson::SUCCESS) return invalid("'id' must be a string");
      request_.id = std::string(id);
    }
    if (auto error = read_parameters(root, all_binary)) return error;
    dom::array inputs;
    if (root["inputs"].get(inputs) != simdjson::SUCCESS)
      return invalid("the request has no list 'inputs'");
    for (const dom::element input : inputs)
      if (auto error = read_input(input)) return error;
    if (!binary_.empty())
      return invalid(fmt::format("{} bytes of binary data belong to no input", binary_.size()));
    dom::array outputs;
    const auto wanted = root["outputs"];
    if (wanted.error() != simdjson::SUCCESS) return std::nullopt;
    if (wanted.get(outputs) != simdjson::SUCCESS) return invalid("'outputs' must be a list");
    for (const dom::element output : outputs)
      if (auto error = read_output(output, all_binary)) return error;
    return std::nullopt;
  }

 private:
  std::optional<Error> read_parameters(const dom::object& root, bool& all_binary) {
    dom::object parameters;
    const auto field = root["parameters"];
    if (field.error() != simdjson::SUCCESS) return std::nullopt;
    if (field.get(parameters) != simdjson::SUCCESS)
      return invalid("'parameters' must be an object");
    const auto number = [&](const char* name, uint64_t& target) {
      const auto value = parameters[name];
      return value.error() != simdjson::SUCCESS || value.get(target) == simdjson::SUCCESS;
    };
    if (!number("priority", request_.priority) || !number("timeout", request_.timeout_us))
      return invalid("'priority' and 'timeout' are numbers of at least 0");
    uint64_t sequence = 0;
    if (!number("sequence_id", sequence) || sequence != 0)
      return Error{Failure::kUnsupported, "sequences are not supported"};
    bool binary = false;
    if (parameters["binary_data_output"].get(binary) == simdjson::SUCCESS) all_binary = binary;
    return std::nullopt;
  }

  std::optional<Error> read_input(const dom::element& element) {
    dom::object input;
    std::string_view name, datatype;
    dom::array shape;
    if (request_.inputs.size() >= kMostTensors) return invalid("too many inputs");
    if (element.get(input) != simdjson::SUCCESS || input["name"].get(name) != simdjson::SUCCESS)
      return invalid("an input has no 'name'");
    const std::string place = fmt::format("input '{}'", name);
    if (input["datatype"].get(datatype) != simdjson::SUCCESS)
      return invalid(place + " has no 'datatype'");
    if (input["shape"].get(shape) != simdjson::SUCCESS) return invalid(place + " has no 'shape'");
    Tensor tensor;
    tensor.name = std::string(name);
    tensor.type = type_of_protocol_name(datatype);
    if (tensor.type == DataType::kUndefined)
      return invalid(fmt::format("{}: the datatype '{}' is not known here", place, datatype));
    for (const dom::element extent : shape) {
      int64_t value = 0;
      if (extent.get(value) != simdjson::SUCCESS || value < 0 || tensor.dims.size() >= 16)
        return invalid(place + ": 'shape' is a list of up to 16 numbers of at least 0");
      tensor.dims.push_back(value);
    }
    const int64_t count = checked_elements(tensor.dims, tensor.type);
    if (count < 0)
      return invalid(fmt::format("{} of {} is too large", place, to_string(tensor.dims)));
    const size_t bytes = byte_size(tensor.type, count);
    dom::object parameters;
    if (input["parameters"].get(parameters) == simdjson::SUCCESS) {
      if (parameters["shared_memory_region"].error() == simdjson::SUCCESS)
        return Error{Failure::kUnsupported, place + ": shared memory is not supported"};
      uint64_t size = 0;
      const auto field = parameters["binary_data_size"];
      if (field.error() == simdjson::SUCCESS) {
        if (field.get(size) != simdjson::SUCCESS || size > binary_.size())
          return invalid(
              fmt::format("{}: 'binary_data_size' is more than the {} bytes that are left", place,
                          binary_.size()));
        tensor.bytes = binary_.first(size);
        binary_ = binary_.subspan(size);
        request_.inputs.push_back(std::move(tensor));
        return std::nullopt;
      }
    }
    dom::array data;
    if (input["data"].get(data) != simdjson::SUCCESS)
      return invalid(place + " has neither a list 'data' nor 'binary_data_size'");
    const Appender append = appender_of(tensor.type);
    if (append == nullptr)
      return invalid(fmt::format("{} is {}, which JSON has no numbers for: send binary data", place,
                                 datatype));
    std::vector<std::byte>& decoded = memory_->decoded.emplace_back();
    // No more than was sent can come: two characters a number.
    decoded.reserve(std::min(bytes, memory_->body.size() * 4));
    if (!append_data(data, append, 0, bytes, decoded))
      return invalid(fmt::format("{}: 'data' has more than {} elements, or one that is no {}",
                                 place, count, datatype));
    tensor.bytes = decoded;
    request_.inputs.push_back(std::move(tensor));
    return std::nullopt;
  }

  std::optional<Error> read_output(const dom::element& element, bool all_binary) {
    dom::object output;
    std::string_view name;
    if (request_.wanted.size() >= kMostTensors) return invalid("too many outputs");
    if (element.get(output) != simdjson::SUCCESS || output["name"].get(name) != simdjson::SUCCESS)
      return invalid("an output has no 'name'");
    WantedOutput wanted;
    wanted.name = std::string(name);
    wanted.is_binary = all_binary;
    dom::object parameters;
    if (output["parameters"].get(parameters) == simdjson::SUCCESS) {
      if (parameters["shared_memory_region"].error() == simdjson::SUCCESS)
        return Error{Failure::kUnsupported,
                     fmt::format("output '{}': shared memory is not supported", name)};
      bool binary = false;
      if (parameters["binary_data"].get(binary) == simdjson::SUCCESS) wanted.is_binary = binary;
      int64_t classes = 0;
      if (parameters["classification"].get(classes) == simdjson::SUCCESS)
        wanted.classes = std::max<int64_t>(classes, 0);
    }
    request_.wanted.push_back(std::move(wanted));
    return std::nullopt;
  }

  std::shared_ptr<Memory> memory_;
  std::span<const std::byte> binary_;
  Request& request_;
};

void append_head(std::string& text, const std::string& name, std::string_view datatype,
                 const Dims& dims) {
  text += fmt::format("{{\"name\":{},\"datatype\":\"{}\",\"shape\":[{}]", quoted(name), datatype,
                      fmt::join(dims, ","));
}

void append_binary(HttpAnswer& http, std::span<const std::byte> bytes) {
  http.text += fmt::format(",\"parameters\":{{\"binary_data_size\":{}}}}}", bytes.size());
  http.binaries.push_back(bytes);
}

std::optional<Error> append_output(const Model& model, const Tensor& tensor,
                                   const WantedOutput& wanted, std::list<std::string>& memory,
                                   HttpAnswer& http) {
  if (wanted.classes > 0) {
    Classes classes;
    if (auto error = classify(model, tensor, wanted.classes, classes)) return error;
    append_head(http.text, tensor.name, "BYTES", classes.dims);
    if (wanted.is_binary) {
      std::string& bytes = memory.emplace_back();
      for (const std::string& text : classes.texts) {
        const auto length = static_cast<uint32_t>(text.size());
        bytes.append(reinterpret_cast<const char*>(&length), sizeof length);
        bytes += text;
      }
      append_binary(http, std::as_bytes(std::span(bytes)));
      return std::nullopt;
    }
    http.text += ",\"data\":[";
    for (size_t k = 0; k < classes.texts.size(); ++k)
      http.text += (k > 0 ? "," : "") + serve::quoted(classes.texts[k]);
    http.text += "]}";
    return std::nullopt;
  }
  append_head(http.text, tensor.name, protocol_name(tensor.type), tensor.dims);
  if (wanted.is_binary) {
    append_binary(http, tensor.bytes);
    return std::nullopt;
  }
  http.text += ",\"data\":";
  if (auto error = append_json(tensor, http.text)) return error;
  http.text += '}';
  return std::nullopt;
}

}  // namespace

int http_status(Failure failure) {
  switch (failure) {
    case Failure::kInvalid:
      return 400;
    case Failure::kNotFound:
      return 404;
    case Failure::kUnsupported:
      return 501;
    case Failure::kUnavailable:
    case Failure::kOverloaded:
    case Failure::kTimeout:
      return 503;
    case Failure::kCancelled:
      return 499;
    case Failure::kInternal:
      break;
  }
  return 500;
}

std::string quoted(const std::string& text) {
  const bool is_plain = std::all_of(text.begin(), text.end(), [](char c) {
    return c >= ' ' && c < 0x7f && c != '"' && c != '\\';
  });
  if (is_plain) return '"' + text + '"';
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

HttpAnswer http_error(int status, const std::string& message) {
  HttpAnswer answer;
  answer.status = status;
  answer.text = fmt::format("{{\"error\":{}}}", quoted(message));
  return answer;
}

HttpAnswer http_error(const Error& error) {
  return http_error(http_status(error.failure), error.message);
}

std::optional<Error> read_inference(const Body& body, std::optional<size_t> json_bytes,
                                    Request& request, bool& all_binary) {
  const size_t count = json_bytes.value_or(body.size());
  if (count > body.size())
    return invalid(fmt::format("Inference-Header-Content-Length is {}, the body has {} bytes",
                               count, body.size()));
  if (count == 0) return invalid("the request has no JSON");
  auto memory = std::make_shared<Memory>();
  memory->body = body;
  // The memory for small ones is used again, that for large ones given back.
  static thread_local dom::parser small(kSmallJson);
  dom::parser large;
  dom::parser& parser = count <= kSmallJson ? small : large;
  dom::object root;
  const auto document = parser.parse(body.data(), count);
  if (document.error() != simdjson::SUCCESS)
    return invalid(
        fmt::format("the request is not JSON: {}", simdjson::error_message(document.error())));
  if (document.get(root) != simdjson::SUCCESS) return invalid("the request is not a JSON object");
  InferenceReader reader(memory, body.bytes().subspan(count), request);
  request.keeper = memory;
  return reader.read(root, all_binary);
}

HttpAnswer write_inference(const Model& model, const Request& request, bool all_binary,
                           Answer&& answer) {
  if (answer.error) return http_error(*answer.error);
  struct Kept {
    std::shared_ptr<const void> tensors;
    std::list<std::string> texts;
  };
  auto kept = std::make_shared<Kept>();
  kept->tensors = std::move(answer.keeper);
  HttpAnswer http;
  http.text = "{";
  if (!request.id.empty()) http.text += fmt::format("\"id\":{},", quoted(request.id));
  http.text += fmt::format("\"model_name\":{},\"model_version\":\"{}\",\"outputs\":[",
                           quoted(model.name()), model.version());
  const auto append = [&](const Tensor& tensor, const WantedOutput& wanted) {
    if (http.text.back() != '[') http.text += ',';
    return append_output(model, tensor, wanted, kept->texts, http);
  };
  if (request.wanted.empty())
    for (const Tensor& tensor : answer.outputs)
      if (auto error = append(tensor, {tensor.name, 0, all_binary})) return http_error(*error);
  for (const WantedOutput& wanted : request.wanted)
    for (const Tensor& tensor : answer.outputs)
      if (tensor.name == wanted.name)
        if (auto error = append(tensor, wanted)) return http_error(*error);
  http.text += "]}";
  http.keeper = kept;
  return http;
}

}  // namespace camshaft::serve
