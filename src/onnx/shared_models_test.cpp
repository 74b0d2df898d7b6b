// SPDX-License-Identifier: Apache-2.0
// Imports every model of ../shared/models (or $CAMSHAFT_SHARED/models); skipped where they are not
// there.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "ir/infer.h"
#include "onnx/importer.h"

namespace camshaft::onnx_import {
namespace {

namespace fs = std::filesystem;

fs::path shared_models() {
  const char* given = std::getenv("CAMSHAFT_SHARED");
  return fs::path(given ? given : "../shared") / "models";
}

TEST(SharedModels, AllImport) {
  if (!fs::is_directory(shared_models())) GTEST_SKIP() << shared_models() << " is not there";
  int count = 0;
  for (const auto& entry : fs::directory_iterator(shared_models())) {
    if (!fs::exists(entry.path() / "model.onnx")) continue;
    SCOPED_TRACE(entry.path().filename().string());
    ++count;
    const Result<ImportedModel> model = import_file(entry.path() / "model.onnx");
    EXPECT_TRUE(model.ok()) << model.status().message();
    if (!model.ok()) continue;
    const ir::Graph& graph = *model.value().graph;
    EXPECT_TRUE(ir::verify(graph).ok()) << ir::verify(graph).message();
    int unknown = 0;
    for (const auto& tensor : graph.tensors())
      unknown += !tensor->has_rank ||
                 std::any_of(tensor->shape.begin(), tensor->shape.end(),
                             [&](ir::Dim dim) { return graph.symbols().depends_on_runtime(dim); });
    std::string outputs;
    for (const ir::Tensor* output : graph.outputs()) {
      outputs += " " + output->name + "[";
      for (ir::Dim dim : output->shape) outputs += graph.symbols().to_string(dim) + ",";
      outputs += "]";
    }
    printf("%-24s %4zu layers, %d tensors with shapes only running can tell;%s\n",
           entry.path().filename().c_str(), graph.layers().size(), unknown, outputs.c_str());
  }
  EXPECT_GT(count, 0);
}

}  // namespace
}  // namespace camshaft::onnx_import
