// SPDX-License-Identifier: Apache-2.0
#include "onnx/tensor_data.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "onnx/errors.h"
#include "onnx/external_bytes.h"

namespace camshaft::onnx_import {
namespace {

using ir::DataType;

struct TypeRow {
  int32_t number;
  const char* name;
  DataType type;  // kUndefined: known, not supported
};

constexpr TypeRow kTypes[] = {
    {1, "FLOAT", DataType::kFloat},
    {2, "UINT8", DataType::kUInt8},
    {3, "INT8", DataType::kInt8},
    {4, "UINT16", DataType::kUInt16},
    {5, "INT16", DataType::kInt16},
    {6, "INT32", DataType::kInt32},
    {7, "INT64", DataType::kInt64},
    {8, "STRING", DataType::kUndefined},
    {9, "BOOL", DataType::kBool},
    {10, "FLOAT16", DataType::kHalf},
    {11, "DOUBLE", DataType::kDouble},
    {12, "UINT32", DataType::kUInt32},
    {13, "UINT64", DataType::kUInt64},
    {14, "COMPLEX64", DataType::kUndefined},
    {15, "COMPLEX128", DataType::kUndefined},
    {16, "BFLOAT16", DataType::kBFloat16},
    {17, "FLOAT8E4M3FN", DataType::kUndefined},
    {18, "FLOAT8E4M3FNUZ", DataType::kUndefined},
    {19, "FLOAT8E5M2", DataType::kUndefined},
    {20, "FLOAT8E5M2FNUZ", DataType::kUndefined},
    {21, "UINT4", DataType::kUInt4},
    {22, "INT4", DataType::kInt4},
    {23, "FLOAT4E2M1", DataType::kUndefined},
    {24, "FLOAT8E8M0", DataType::kUndefined},
    {25, "UINT2", DataType::kUndefined},
    {26, "INT2", DataType::kUndefined},
};

Result<ir::Extents> read_extents(const std::vector<int64_t>& dims) {
  if (dims.size() > ir::kMaxRank)
    return make_error(ErrorCode::kUnsupported, "{} dimensions (at most {})", dims.size(),
                      ir::kMaxRank);
  int64_t count = 1;
  for (int64_t extent : dims) {
    if (extent < 0) return invalid("extent {} is negative", extent);
    if (extent > ir::kMaxExtent ||
        __builtin_mul_overflow(count, std::max<int64_t>(extent, 1), &count) ||
        count > (int64_t{1} << 40))
      return invalid("extents of {} elements and more are not believable", extent);
  }
  return ir::Extents(dims.begin(), dims.end());
}

std::shared_ptr<const ir::ConstantData> share(std::span<const std::byte> bytes,
                                              std::shared_ptr<const void> owner) {
  auto data = std::make_shared<ir::ConstantData>();
  data->view = bytes;
  data->owner = std::move(owner);
  return data;
}

// Uses the bytes in place when they are aligned for their type.
std::shared_ptr<const ir::ConstantData> use(std::span<const std::byte> bytes, DataType type,
                                            const std::shared_ptr<const void>& owner) {
  const size_t alignment = std::max<size_t>(ir::bits_of(type) / 8, 1);
  if (type == DataType::kBool) {  // any byte but 0 is true
    std::vector<std::byte> truth(bytes.begin(), bytes.end());
    for (std::byte& byte : truth) byte = byte != std::byte{0} ? std::byte{1} : std::byte{0};
    return ir::make_constant(std::move(truth));
  }
  if (reinterpret_cast<uintptr_t>(bytes.data()) % alignment == 0) return share(bytes, owner);
  return ir::make_constant(std::vector<std::byte>(bytes.begin(), bytes.end()));
}

template <class Stored, class Field>
Result<std::vector<std::byte>> narrow(std::span<const Field> field, int64_t count) {
  if (static_cast<int64_t>(field.size()) != count)
    return invalid("{} elements are stored, the shape has {}", field.size(), count);
  std::vector<std::byte> bytes(count * sizeof(Stored));
  for (int64_t k = 0; k < count; ++k) {
    const Stored element = static_cast<Stored>(field[k]);
    std::memcpy(bytes.data() + k * sizeof(Stored), &element, sizeof(Stored));
  }
  return bytes;
}

Result<std::vector<std::byte>> read_bools(std::span<const int32_t> field, int64_t count) {
  CAMSHAFT_ASSIGN(std::vector<std::byte> bytes, (narrow<uint8_t>(field, count)));
  for (std::byte& byte : bytes) byte = byte != std::byte{0} ? std::byte{1} : std::byte{0};
  return bytes;
}

Result<std::vector<std::byte>> read_typed(const TensorDef& tensor, DataType type, int64_t count) {
  switch (type) {
    case DataType::kFloat:
      return narrow<float>(tensor.floats, count);
    case DataType::kDouble:
      return narrow<double>(tensor.doubles, count);
    case DataType::kInt64:
      return narrow<int64_t>(tensor.int64s, count);
    case DataType::kUInt64:
      return narrow<uint64_t>(tensor.uint64s, count);
    case DataType::kUInt32:
      return narrow<uint32_t>(tensor.uint64s, count);
    case DataType::kInt32:
      return narrow<int32_t>(tensor.int32s, count);
    case DataType::kInt16:
      return narrow<int16_t>(tensor.int32s, count);
    case DataType::kUInt16:
    case DataType::kHalf:
    case DataType::kBFloat16:
      return narrow<uint16_t>(tensor.int32s, count);
    case DataType::kInt8:
      return narrow<int8_t>(tensor.int32s, count);
    case DataType::kUInt8:
      return narrow<uint8_t>(tensor.int32s, count);
    case DataType::kBool:
      return read_bools(tensor.int32s, count);
    case DataType::kInt4:
    case DataType::kUInt4:
      return narrow<uint8_t>(tensor.int32s, (count + 1) / 2);
    case DataType::kUndefined:
      break;
  }
  return invalid("the element type is not set");
}

Result<int64_t> parse_number(const std::string& text, const char* what) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0)
    return invalid("external data: {} \"{}\" is not a number", what, text);
  return number;
}

Result<std::shared_ptr<const ir::ConstantData>> read_external(const TensorDef& tensor,
                                                              DataType type, size_t wanted,
                                                              ExternalData& external) {
  CAMSHAFT_ASSIGN(const ExternalBytes stored, external_bytes(external, tensor.external, wanted));
  return use(stored.bytes, type, stored.file);
}

}  // namespace

Result<ExternalBytes> external_bytes(ExternalData& external, const ExternalEntries& entries,
                                     std::optional<size_t> wanted) {
  std::string location;
  int64_t offset = 0, length = -1;
  for (const auto& [key, value] : entries) {
    if (key == "location") location = value;
    if (key == "offset") {
      CAMSHAFT_ASSIGN(offset, parse_number(value, "offset"));
    }
    if (key == "length") {
      CAMSHAFT_ASSIGN(length, parse_number(value, "length"));
    }
  }
  CAMSHAFT_ASSIGN(const std::shared_ptr<const MappedFile> stored, external.file(location));
  const size_t size = stored->bytes().size(), start = static_cast<size_t>(offset);
  if (wanted && length >= 0 && static_cast<size_t>(length) != *wanted)
    return invalid("external data \"{}\": length {}, but the shape needs {} bytes", location,
                   length, *wanted);
  const size_t rest = start < size ? size - start : 0;
  const size_t count = wanted ? *wanted : length >= 0 ? static_cast<size_t>(length) : rest;
  if (start > size || count > rest)
    return invalid("external data \"{}\" has {} bytes: {} bytes at offset {} are not there",
                   location, size, count, offset);
  return ExternalBytes{stored, stored->bytes().subspan(start, count)};
}

Result<DataType> element_type(int32_t onnx_type) {
  const auto row = std::find_if(std::begin(kTypes), std::end(kTypes),
                                [&](const TypeRow& entry) { return entry.number == onnx_type; });
  if (row == std::end(kTypes)) return invalid("{} is not an element type", onnx_type);
  if (row->type == DataType::kUndefined)
    return make_error(ErrorCode::kUnsupported, "element type {}", row->name);
  return row->type;
}

std::string onnx_type_name(DataType type) {
  const auto row = std::find_if(std::begin(kTypes), std::end(kTypes),
                                [&](const TypeRow& entry) { return entry.type == type; });
  return type == DataType::kUndefined || row == std::end(kTypes) ? "UNDEFINED" : row->name;
}

Result<std::shared_ptr<const MappedFile>> ExternalData::file(const std::string& location) {
  namespace fs = std::filesystem;
  if (directory_.empty())
    return invalid("external data is not allowed for a model that does not come from a file");
  if (location.empty()) return invalid("external data without a location");
  if (const auto found = files_.find(location); found != files_.end()) return found->second;
  const fs::path relative(location);
  const bool climbs = std::find(relative.begin(), relative.end(), fs::path("..")) != relative.end();
  std::error_code error;
  const fs::path root = fs::canonical(directory_, error);
  const fs::path full = error ? fs::path() : fs::weakly_canonical(root / relative, error);
  const auto mismatch = std::mismatch(root.begin(), root.end(), full.begin(), full.end());
  if (relative.is_absolute() || climbs || error || mismatch.first != root.end())
    return invalid("external data \"{}\" is outside the model's directory", location);
  Result<std::shared_ptr<const MappedFile>> file = MappedFile::open(full);
  if (!file.ok()) return file.status().with_context("external data");
  files_[location] = *file;
  return file;
}

Result<TensorData> read_tensor(const TensorDef& tensor, ExternalData& external,
                               const std::shared_ptr<const void>& owner) {
  TensorData result;
  CAMSHAFT_ASSIGN(result.type, element_type(tensor.data_type));
  CAMSHAFT_ASSIGN(result.extents, read_extents(tensor.extents));
  if (tensor.is_segment) return make_error(ErrorCode::kUnsupported, "tensors stored in segments");
  const int64_t count = ir::element_count(result.extents);
  const size_t wanted = ir::bytes_for(result.type, count);
  if (tensor.is_external) {
    CAMSHAFT_ASSIGN(result.data, read_external(tensor, result.type, wanted, external));
  } else if (tensor.has_raw) {
    if (tensor.raw.size() != wanted)
      return invalid("raw data has {} bytes, the shape needs {}", tensor.raw.size(), wanted);
    result.data = use(tensor.raw, result.type, owner);
  } else {
    CAMSHAFT_ASSIGN(std::vector<std::byte> bytes, read_typed(tensor, result.type, count));
    result.data = ir::make_constant(std::move(bytes));
  }
  return result;
}

Result<TensorData> read_sparse_tensor(const SparseTensorDef& tensor, ExternalData& external,
                                      const std::shared_ptr<const void>& owner) {
  CAMSHAFT_ASSIGN(const TensorData values, read_tensor(tensor.values, external, owner));
  CAMSHAFT_ASSIGN(const TensorData indices, read_tensor(tensor.indices, external, owner));
  TensorData result;
  result.type = values.type;
  CAMSHAFT_ASSIGN(result.extents, read_extents(tensor.extents));
  const size_t rank = result.extents.size(), size = ir::bits_of(values.type) / 8;
  const int64_t count = ir::element_count(result.extents),
                stored = ir::element_count(values.extents);
  const bool linear = indices.extents.size() == 1;
  if (indices.type != DataType::kInt64 || size == 0 ||
      ir::element_count(indices.extents) != stored * (linear ? 1 : int64_t(rank)))
    return invalid("the indices of a sparse tensor do not fit its values");
  if (count > (int64_t{1} << 28))
    return make_error(ErrorCode::kUnsupported, "a sparse tensor of {} elements", count);
  std::vector<std::byte> bytes(count * size);
  const auto* index = reinterpret_cast<const int64_t*>(indices.data->view.data());
  for (int64_t k = 0; k < stored; ++k) {
    int64_t position = linear ? index[k] : 0;
    for (size_t d = 0; !linear && d < rank; ++d) {
      const int64_t at = index[k * rank + d];
      if (at < 0 || at >= result.extents[d])
        return invalid("index {} of a sparse tensor is out of range", at);
      position = position * result.extents[d] + at;
    }
    if (position < 0 || position >= count)
      return invalid("index {} of a sparse tensor is out of range", position);
    std::memcpy(bytes.data() + position * size, values.data->view.data() + k * size, size);
  }
  result.data = ir::make_constant(std::move(bytes));
  return result;
}

}  // namespace camshaft::onnx_import
