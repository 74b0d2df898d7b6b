// SPDX-License-Identifier: Apache-2.0
#include "serve/data_types.h"

#include <cmath>
#include <iterator>
#include <type_traits>

#include <fmt/format.h>

namespace camshaft::serve {
namespace {

struct TypeRow {
  DataType type;
  std::string_view protocol;
  int config;
};

constexpr TypeRow kTypes[] = {
    {DataType::kBool, "BOOL", 1},      {DataType::kUInt8, "UINT8", 2},
    {DataType::kUInt16, "UINT16", 3},  {DataType::kUInt32, "UINT32", 4},
    {DataType::kUInt64, "UINT64", 5},  {DataType::kInt8, "INT8", 6},
    {DataType::kInt16, "INT16", 7},    {DataType::kInt32, "INT32", 8},
    {DataType::kInt64, "INT64", 9},    {DataType::kHalf, "FP16", 10},
    {DataType::kFloat, "FP32", 11},    {DataType::kDouble, "FP64", 12},
    {DataType::kBFloat16, "BF16", 14},
};

template <class Field>
const TypeRow* row_with(Field TypeRow::*field, Field value) {
  for (const TypeRow& row : kTypes)
    if (row.*field == value) return &row;
  return nullptr;
}

// False at the first element that JSON has no number for.
template <class T>
bool append_elements(std::span<const std::byte> bytes, std::string& text) {
  auto out = std::back_inserter(text);
  const size_t count = bytes.size() / sizeof(T);
  for (size_t k = 0; k < count; ++k) {
    T value;
    __builtin_memcpy(&value, bytes.data() + k * sizeof(T), sizeof(T));
    if constexpr (std::is_floating_point_v<T>) {
      if (!std::isfinite(value)) return false;
    }
    if (k > 0) *out++ = ',';
    out = fmt::format_to(out, "{}", value);
  }
  return true;
}

bool append_booleans(std::span<const std::byte> bytes, std::string& text) {
  for (size_t k = 0; k < bytes.size(); ++k) {
    if (k > 0) text += ',';
    text += bytes[k] != std::byte{0} ? "true" : "false";
  }
  return true;
}

using Writer = bool (*)(std::span<const std::byte>, std::string&);

Writer writer_of(DataType type) {
  switch (type) {
    case DataType::kBool:
      return append_booleans;
    case DataType::kUInt8:
      return append_elements<uint8_t>;
    case DataType::kUInt16:
      return append_elements<uint16_t>;
    case DataType::kUInt32:
      return append_elements<uint32_t>;
    case DataType::kUInt64:
      return append_elements<uint64_t>;
    case DataType::kInt8:
      return append_elements<int8_t>;
    case DataType::kInt16:
      return append_elements<int16_t>;
    case DataType::kInt32:
      return append_elements<int32_t>;
    case DataType::kInt64:
      return append_elements<int64_t>;
    case DataType::kFloat:
      return append_elements<float>;
    case DataType::kDouble:
      return append_elements<double>;
    default:
      return nullptr;
  }
}

}  // namespace

std::string_view protocol_name(DataType type) {
  const TypeRow* row = row_with(&TypeRow::type, type);
  return row ? row->protocol : "";
}

DataType type_of_protocol_name(std::string_view name) {
  const TypeRow* row = row_with(&TypeRow::protocol, name);
  return row ? row->type : DataType::kUndefined;
}

int config_type(DataType type) {
  const TypeRow* row = row_with(&TypeRow::type, type);
  return row ? row->config : 0;
}

DataType type_of_config(int config_type) {
  const TypeRow* row = row_with(&TypeRow::config, config_type);
  return row ? row->type : DataType::kUndefined;
}

bool has_json_form(DataType type) {
  return writer_of(type) != nullptr;
}

std::optional<Error> append_json(const Tensor& tensor, std::string& text) {
  const Writer writer = writer_of(tensor.type);
  if (writer == nullptr)
    return Error{
        Failure::kInvalid,
        fmt::format("output '{}' is {}, which JSON has no numbers for: ask for binary data",
                    tensor.name, protocol_name(tensor.type))};
  text += '[';
  if (!writer(tensor.bytes, text))
    return Error{
        Failure::kInvalid,
        fmt::format("output '{}' has values that are not finite, which JSON has no numbers "
                    "for: ask for binary data",
                    tensor.name)};
  text += ']';
  return std::nullopt;
}

int64_t checked_elements(const Dims& dims, DataType type) {
  constexpr int64_t kMost = int64_t{1} << 40;
  int64_t count = 1;
  for (const int64_t extent : dims) {
    if (extent < 0) return -1;
    if (extent > 0 && count > kMost / extent) return -1;
    count *= extent;
  }
  return static_cast<int64_t>(byte_size(type, count)) > kMost ? -1 : count;
}

}  // namespace camshaft::serve
