// SPDX-License-Identifier: Apache-2.0
// Reads an ONNX model into a Graph. All unsupported nodes are reported together.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace camshaft::onnx_import {

struct ModelInfo {
  int64_t ir_version = 0, opset = 0, model_version = 0;
  std::string producer_name, producer_version, domain, doc_string;
  int node_count = 0;
};

struct ImportedModel {
  std::unique_ptr<ir::Graph> graph;
  ModelInfo info;
};

// What an import could not take: a node of the main graph by position, with what is inside it; -1:
// an input.
struct UnsupportedPart {
  int node = -1;
  std::string text;  // "node conv1 (Conv): …"
};

struct Model;

struct ImportOptions {
  // Tells whether a Generic operator can run (kernels::has_generic_kernel). Null: all that have a
  // shape rule are accepted.
  bool (*has_generic_kernel)(std::string_view op_type) = nullptr;
  // If given: what is not supported. Nodes that contradict themselves are then listed among those,
  // instead of ending the import.
  std::vector<UnsupportedPart>* unsupported = nullptr;
};

Result<ImportedModel> import_file(const std::filesystem::path& file,
                                  const ImportOptions& options = {});
// `directory` resolves external data; "" forbids it.
Result<ImportedModel> import_bytes(std::span<const std::byte> bytes,
                                   const std::filesystem::path& directory = {},
                                   const ImportOptions& options = {});
// A model that was parsed, or made, as plain structs (onnx/model.h).
Result<ImportedModel> import_model(const Model& model, const std::filesystem::path& directory = {},
                                   const ImportOptions& options = {});

// One stored TensorProto (input_0.pb of ONNX test data): type, extents, row-major bytes.
struct StoredTensor {
  std::string name;
  ir::DataType type = ir::DataType::kUndefined;
  ir::Extents extents;
  std::vector<std::byte> bytes;
};
Result<StoredTensor> read_tensor_file(const std::filesystem::path& file);

}  // namespace camshaft::onnx_import
