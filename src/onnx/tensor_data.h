// SPDX-License-Identifier: Apache-2.0
// Reads the elements of a stored tensor: raw bytes, typed fields, or a file beside the model.
#pragma once

#include <map>
#include <string>

#include "ir/graph.h"
#include "onnx/model.h"

namespace camshaft::onnx_import {

// The element type of an onnx.TensorProto.DataType; kUnsupported with its name, or kInvalidModel
// for a number that is none.
Result<ir::DataType> element_type(int32_t onnx_type);
std::string onnx_type_name(ir::DataType type);  // "FLOAT", "INT64": for the log

// Maps external files, each once, and only such as lie inside the model's directory.
class ExternalData {
 public:
  explicit ExternalData(std::filesystem::path directory) : directory_(std::move(directory)) {}
  Result<std::shared_ptr<const MappedFile>> file(const std::string& location);

 private:
  std::filesystem::path directory_;
  std::map<std::string, std::shared_ptr<const MappedFile>> files_;
};

struct TensorData {
  ir::DataType type = ir::DataType::kUndefined;
  ir::Extents extents;
  std::shared_ptr<const ir::ConstantData> data;
};
// `owner` keeps the views of `tensor` alive.
Result<TensorData> read_tensor(const TensorDef& tensor, ExternalData& external,
                               const std::shared_ptr<const void>& owner);
Result<TensorData> read_sparse_tensor(const SparseTensorDef& tensor, ExternalData& external,
                                      const std::shared_ptr<const void>& owner);

}  // namespace camshaft::onnx_import
