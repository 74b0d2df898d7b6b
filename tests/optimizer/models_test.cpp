// SPDX-License-Identifier: Apache-2.0
// Every float model of ../shared/models (or $CAMSHAFT_SHARED/models), optimized: the graph
// verifies, and the interpreter agrees with the stored reference outputs. Big models run only with
// CAMSHAFT_SLOW_TESTS=1: the reference kernels are slow.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "base/log.h"
#include "kernels/interpreter.h"
#include "layer_steps.h"
#include "onnx/importer.h"
#include "passes/pipeline.h"

namespace camshaft {
namespace {

namespace fs = std::filesystem;

fs::path models_folder() {
  const char* given = std::getenv("CAMSHAFT_SHARED");
  return fs::path(given ? given : "../shared") / "models";
}

std::vector<fs::path> model_folders() {
  std::vector<fs::path> folders;
  if (!fs::is_directory(models_folder())) return folders;
  for (const auto& entry : fs::directory_iterator(models_folder()))
    if (fs::exists(entry.path() / "model.onnx")) folders.push_back(entry.path());
  std::sort(folders.begin(), folders.end());
  return folders;
}

// Seconds each, ten times that under load, with the reference kernels.
bool is_slow(const std::string& name) {
  for (const char* slow : {"agllnet_256", "mlsd_320_large", "magika_v3_3", "superres_espcn",
                           "ppocrv4_det", "ppocrv4_rec"})
    if (name == slow) return true;
  return false;
}

Result<std::vector<kernels::Value>> read_values(const fs::path& folder, const char* prefix) {
  std::vector<kernels::Value> values;
  for (int k = 0;; ++k) {
    const fs::path file = folder / (prefix + std::to_string(k) + ".pb");
    if (!fs::exists(file)) return values;
    CAMSHAFT_ASSIGN(onnx_import::StoredTensor stored, onnx_import::read_tensor_file(file));
    CAMSHAFT_ASSIGN(kernels::Value value,
                    kernels::make_value(stored.type, stored.extents, std::move(stored.bytes)));
    values.push_back(std::move(value));
  }
}

// rtol 1e-3, atol 1e-4 of the largest: what the models' README asks of float models.
void expect_close(const kernels::Value& found, const kernels::Value& wanted, size_t output) {
  ASSERT_EQ(found.extents, wanted.extents) << "output " << output;
  const std::vector<double> left = found.to_doubles(), right = wanted.to_doubles();
  double largest = 0;
  size_t outside = 0;
  for (double v : right) largest = std::max(largest, std::abs(v));
  for (size_t k = 0; k < left.size(); ++k) {
    const double excess =
        std::abs(left[k] - right[k]) / (1e-3 * std::abs(right[k]) + 1e-4 * largest + 1e-30);
    outside += !(excess <= 1);
  }
  // A peak search (mlsd_320_large keeps what equals its pooled maximum) turns rounding into other
  // picks now and then.
  EXPECT_LE(outside, left.size() / 10000)
      << "output " << output << ": elements outside the tolerance";
}

class OptimizedModel : public testing::TestWithParam<fs::path> {};

TEST_P(OptimizedModel, AgreesWithItsReference) {
  const std::string name = GetParam().filename();
  Result<onnx_import::ImportedModel> model = onnx_import::import_file(GetParam() / "model.onnx");
  if (model.status().code() == ErrorCode::kUnsupported) GTEST_SKIP() << model.status().message();
  ASSERT_TRUE(model.ok()) << model.status().message();
  ir::Graph& graph = *model.value().graph;
  passes::PassRecord record;
  const Status status = passes::optimize(graph, record);
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_TRUE(ir::verify(graph).ok()) << ir::verify(graph).message();
  if (name.ends_with("_qdq")) return;  // compared by cosine elsewhere
  const char* only = std::getenv("CAMSHAFT_SLOW_TESTS");
  if (is_slow(name) && !only)
    GTEST_SKIP() << name << " takes long with the reference kernels: CAMSHAFT_SLOW_TESTS=1 runs it";
  ThreadPool pool(default_num_threads());
  kernels::EvaluateOptions options;
  options.pool = &pool;
  for (int set = 0; fs::exists(GetParam() / ("test_data_set_" + std::to_string(set))); ++set) {
    SCOPED_TRACE("data set " + std::to_string(set));
    const fs::path folder = GetParam() / ("test_data_set_" + std::to_string(set));
    const auto inputs = read_values(folder, "input_"), wanted = read_values(folder, "output_");
    ASSERT_TRUE(inputs.ok() && wanted.ok());
    const auto found = kernels::evaluate(graph, inputs.value(), options);
    ASSERT_TRUE(found.ok()) << found.status().message();
    ASSERT_EQ(found.value().size(), wanted.value().size());
    for (size_t k = 0; k < wanted.value().size(); ++k)
      expect_close(found.value()[k], wanted.value()[k], k);
  }
}

// Q/DQ models: every product with dequantized operands multiplies codes, and every layer of codes
// is within one step of what the model as written computes of the same operands.
TEST_P(OptimizedModel, LayersOfCodesAreWithinOneStep) {
  const fs::path folder = GetParam();
  if (folder.filename().string().find("_qdq") == std::string::npos) GTEST_SKIP() << "float";
  auto original = onnx_import::import_file(folder / "model.onnx");
  auto optimized = onnx_import::import_file(folder / "model.onnx");
  ASSERT_TRUE(original.ok() && optimized.ok());
  const auto inputs = read_values(folder / "test_data_set_0", "input_");
  ASSERT_TRUE(inputs.ok()) << inputs.status().message();
  OriginalTensors tensors;
  const auto outputs = evaluate_all(*original.value().graph, inputs.value(), tensors);
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  passes::PassRecord record;
  ASSERT_TRUE(passes::optimize(*optimized.value().graph, record).ok());
  int layers = 0;
  for (const auto& layer : optimized.value().graph->layers()) {
    EXPECT_NE(layer->kind, ir::LayerKind::kQuantize) << layer->name;
    EXPECT_NE(layer->kind, ir::LayerKind::kDequantize) << layer->name;
    const std::optional<LayerSteps> steps = layer_steps(*layer, tensors);
    if (!steps) continue;
    ++layers;
    EXPECT_LE(steps->most, 1) << layer->name;
  }
  EXPECT_GT(layers, 20);
}

INSTANTIATE_TEST_SUITE_P(Shared, OptimizedModel, testing::ValuesIn(model_folders()),
                         [](const auto& info) { return info.param.filename().string(); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(OptimizedModel);

}  // namespace
}  // namespace camshaft
