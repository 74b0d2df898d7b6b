// SPDX-License-Identifier: Apache-2.0
// Running stored ONNX test cases: a model, its data sets, and the two ways to get outputs: the
// interpreter and an engine.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "kernels/interpreter.h"
#include "onnx/importer.h"

namespace camshaft::testing {

struct DataSet {
  std::filesystem::path folder;
  std::vector<onnx_import::StoredTensor> inputs, outputs;
};

// The test_data_set_K folders of a case; kUnsupported where a tensor is of a type this product does
// not have.
Result<std::vector<DataSet>> load_data_sets(const std::filesystem::path& folder);

// |actual - expected| ≤ absolute + relative * |expected|; with `absolute_of_maximum`, absolute *
// max|expected|.
struct Tolerance {
  double relative = 1e-3, absolute = 1e-7;
  bool absolute_of_maximum = false;
  double wrong_share = 0;  // of the elements that may be outside
};
// Empty when type, extents and elements agree, else what does not. `values` false: only type and
// extents.
std::string compare(const onnx_import::StoredTensor& expected, const kernels::Value& actual,
                    const Tolerance& tolerance, bool values = true);
double cosine(const onnx_import::StoredTensor& expected, const kernels::Value& actual);

enum class Mode : uint8_t { kInterpreter, kEngine };

Result<std::unique_ptr<ir::Graph>> import_model(const std::filesystem::path& model);
// The outputs of the model for one data set. An engine is built for exactly these extents.
Result<std::vector<kernels::Value>> run_model(const std::filesystem::path& model,
                                              const DataSet& data, Mode mode,
                                              int optimization_level = 0);

// Where ../shared or $CAMSHAFT_SHARED has `name`; empty: nowhere.
std::filesystem::path shared_folder(const std::string& name);

}  // namespace camshaft::testing
