// SPDX-License-Identifier: Apache-2.0
// An ONNX model as plain structs. Bulk data are views into the parsed file, kept alive by
// Model::owner. Only proto.cpp knows protobuf.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace camshaft::onnx_import {

// onnx.TensorProto.DataType, as far as graphs are rewritten before import.
inline constexpr int32_t kFloat = 1, kInt32 = 6, kInt64 = 7, kString = 8, kBool = 9;

struct TensorDef {
  std::string name;
  int32_t data_type = 0;  // onnx.TensorProto.DataType
  std::vector<int64_t> extents;
  bool has_raw = false, is_external = false, is_segment = false;
  std::span<const std::byte> raw;
  std::span<const float> floats;
  std::span<const int32_t> int32s;
  std::span<const int64_t> int64s;
  std::span<const double> doubles;
  std::span<const uint64_t> uint64s;
  std::vector<std::string_view> texts;
  std::vector<std::pair<std::string, std::string>> external;  // location, offset, length, checksum
};

struct SparseTensorDef {
  TensorDef values, indices;
  std::vector<int64_t> extents;
};

struct GraphDef;

enum class AttributeType : uint8_t {
  kUndefined,
  kFloat,
  kInt,
  kString,
  kTensor,
  kGraph,
  kSparseTensor,
  kType,
  kFloats,
  kInts,
  kStrings,
  kOther
};

struct AttributeDef {
  std::string name;
  std::string reference;  // inside a function: the attribute of the call it stands for
  AttributeType type = AttributeType::kUndefined;
  float f = 0;
  int64_t i = 0;
  std::string_view text;
  std::span<const float> floats;
  std::span<const int64_t> ints;
  std::vector<std::string_view> texts;
  std::shared_ptr<const TensorDef> tensor;
  std::shared_ptr<const SparseTensorDef> sparse;
  std::shared_ptr<const GraphDef> graph;
};

struct NodeDef {
  std::string name, op_type, domain;
  std::vector<std::string> inputs, outputs;
  std::vector<AttributeDef> attributes;
};

struct DimDef {
  std::optional<int64_t> extent;
  std::string param;
};

struct ValueDef {
  std::string name;
  std::string kind;  // "tensor", "sequence" …, "" when there is no type
  int32_t data_type = 0;
  bool has_shape = false;
  std::vector<DimDef> shape;
};

struct GraphDef {
  std::string name;
  std::vector<NodeDef> nodes;
  std::vector<ValueDef> inputs, outputs;
  std::vector<TensorDef> initializers;
  std::vector<SparseTensorDef> sparse_initializers;
};

struct OpsetDef {
  std::string domain;
  int64_t version = 0;
};

struct FunctionDef {
  std::string name, domain;
  std::vector<std::string> inputs, outputs, attributes;
  std::vector<NodeDef> nodes;
  std::vector<OpsetDef> opsets;
};

struct Model {
  int64_t ir_version = 0, model_version = 0;
  std::string producer_name, producer_version, domain, doc_string;
  std::vector<OpsetDef> opsets;
  std::vector<FunctionDef> functions;
  std::shared_ptr<const GraphDef> graph;  // null: the file has none
  std::shared_ptr<const void> owner;
};

// Parses the bytes of a model; `name` stands in messages.
Result<Model> parse_model(std::span<const std::byte> bytes, const std::string& name);

struct ParsedTensor {
  TensorDef tensor;
  std::shared_ptr<const void> owner;
};
Result<ParsedTensor> parse_tensor(std::span<const std::byte> bytes, const std::string& name);

// A file mapped into memory, read only.
class MappedFile {
 public:
  static Result<std::shared_ptr<const MappedFile>> open(const std::filesystem::path& file);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  MappedFile(const std::byte* data, size_t size) : data_(data), size_(size) {}
  const std::byte* data_;
  size_t size_;
};

}  // namespace camshaft::onnx_import
