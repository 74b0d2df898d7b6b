// SPDX-License-Identifier: Apache-2.0
// Element types and formats: names, sizes and the inspector's descriptions.
#include "ir/types.h"

namespace camshaft::ir {
namespace {

struct TypeRow {
  std::string_view name;         // of the text form
  std::string_view description;  // of the inspector, after "Row major linear" or "Channel major"
  uint8_t bits;
  bool floating, integer;
};

constexpr TypeRow kTypes[] = {
    {"undefined", "Unknown format", 0, false, false},
    {"float", "FP32", 32, true, false},
    {"half", "FP16 format", 16, true, false},
    {"bfloat16", "BFloat16 format", 16, true, false},
    {"double", "FP64", 64, true, false},
    {"int8", "Int8 format", 8, false, true},
    {"uint8", "UInt8 format", 8, false, true},
    {"int16", "Int16", 16, false, true},
    {"uint16", "UInt16", 16, false, true},
    {"int32", "Int32", 32, false, true},
    {"uint32", "UInt32", 32, false, true},
    {"int64", "Int64", 64, false, true},
    {"uint64", "UInt64", 64, false, true},
    {"bool", "BOOL", 8, false, false},
    {"int4", "Int4 format", 4, false, true},
    {"uint4", "UInt4 format", 4, false, true},
};

const TypeRow& row(DataType type) {
  return kTypes[static_cast<size_t>(type)];
}

}  // namespace

std::string_view type_name(DataType type) {
  return static_cast<size_t>(type) < std::size(kTypes) ? row(type).name : std::string_view();
}

Result<DataType> parse_type(std::string_view name) {
  for (size_t k = 0; k < std::size(kTypes); ++k)
    if (kTypes[k].name == name) return static_cast<DataType>(k);
  return make_error(ErrorCode::kInvalidArgument, "unknown element type '{}'", name);
}

size_t bits_of(DataType type) {
  return row(type).bits;
}

size_t bytes_for(DataType type, int64_t elements) {
  return (static_cast<size_t>(elements) * bits_of(type) + 7) / 8;
}

bool is_floating(DataType type) {
  return row(type).floating;
}
bool is_integer(DataType type) {
  return row(type).integer;
}
bool is_quantized(DataType type) {
  return type == DataType::kInt8 || type == DataType::kUInt8;
}

bool is_16_bit_float(DataType type) {
  return type == DataType::kBFloat16 || type == DataType::kHalf;
}

std::string_view format_name(Format format) {
  return format == Format::kLinear ? "linear" : "channel_last";
}

std::string format_description(Format format, DataType type) {
  if (type == DataType::kUndefined) return "Unknown format";
  const std::string description(row(type).description);
  if (format == Format::kLinear)
    return (type == DataType::kInt8 ? "Row major " : "Row major linear ") + description;
  return "Channel major " + description + (description.ends_with("format") ? "" : " format");
}

int64_t element_count(std::span<const int64_t> extents) {
  int64_t count = 1;
  for (int64_t extent : extents) count *= extent;
  return count;
}

}  // namespace camshaft::ir
