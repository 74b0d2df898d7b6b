// SPDX-License-Identifier: Apache-2.0
#include "conformance/cases.h"

#include <cmath>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "runtime/context.h"
#include "tuner/builder.h"

namespace camshaft::testing {

namespace fs = std::filesystem;
using kernels::Value;
using onnx_import::StoredTensor;

namespace {

Result<std::vector<StoredTensor>> load_tensors(const fs::path& folder, const std::string& prefix) {
  std::vector<StoredTensor> tensors;
  for (int k = 0;; ++k) {
    const fs::path file = folder / fmt::format("{}_{}.pb", prefix, k);
    if (!fs::exists(file)) return tensors;
    CAMSHAFT_ASSIGN(StoredTensor tensor, onnx_import::read_tensor_file(file));
    tensors.push_back(std::move(tensor));
  }
}

Result<Value> to_value(const StoredTensor& tensor) {
  return kernels::make_value(tensor.type, tensor.extents, tensor.bytes);
}

std::string text_of(std::span<const int64_t> extents) {
  return fmt::format("[{}]", fmt::join(extents, ","));
}

// Inputs in the graph's order: by name where the stored tensors have the graph's names, else by
// position.
Result<std::vector<Value>> bind_inputs(const ir::Graph& graph, const DataSet& data) {
  std::vector<Value> values;
  for (size_t k = 0; k < graph.inputs().size(); ++k) {
    const StoredTensor* found = k < data.inputs.size() ? &data.inputs[k] : nullptr;
    for (const StoredTensor& tensor : data.inputs)
      if (tensor.name == graph.inputs()[k]->name) found = &tensor;
    if (!found)
      return make_error(ErrorCode::kInvalidArgument, "no data for input {}",
                        graph.inputs()[k]->name);
    CAMSHAFT_ASSIGN(Value value, to_value(*found));
    values.push_back(std::move(value));
  }
  return values;
}

Result<std::vector<Value>> run_engine(std::unique_ptr<ir::Graph> graph,
                                      const std::vector<Value>& inputs, int optimization_level) {
  tuner::BuildOptions options;
  options.threads = 1;
  options.optimization_level = optimization_level;
  engine::Profile profile;
  for (size_t k = 0; k < inputs.size(); ++k)
    profile.push_back(
        {graph->inputs()[k]->name, inputs[k].extents, inputs[k].extents, inputs[k].extents});
  options.profiles.push_back(profile);
  CAMSHAFT_ASSIGN(GrowingBytes bytes, tuner::build(std::move(graph), options));
  CAMSHAFT_ASSIGN(const auto engine, engine::Engine::load(std::move(bytes)));
  runtime::ContextOptions context_options;
  context_options.threads = 1;
  CAMSHAFT_ASSIGN(const auto context, runtime::Context::create(engine, context_options));
  for (size_t k = 0; k < inputs.size(); ++k) {
    const int binding = static_cast<int>(k);
    CAMSHAFT_TRY(context->set_input_extents(binding, inputs[k].extents));
    CAMSHAFT_TRY(context->set_input(binding, inputs[k].bytes().data(), inputs[k].bytes().size()));
  }
  CAMSHAFT_TRY(context->execute());
  std::vector<Value> values;
  const engine::Plan& plan = engine->plan();
  for (size_t k = 0; k < plan.outputs.size(); ++k) {
    const int output = static_cast<int>(k);
    CAMSHAFT_ASSIGN(const ir::Extents extents, context->output_extents(output));
    const ir::DataType type = plan.tensors[plan.outputs[k]].type;
    std::vector<std::byte> data(ir::bytes_for(type, ir::element_count(extents)));
    if (!data.empty()) std::memcpy(data.data(), context->output_data(output), data.size());
    CAMSHAFT_ASSIGN(Value value, kernels::make_value(type, extents, std::move(data)));
    values.push_back(std::move(value));
  }
  return values;
}

}  // namespace

Result<std::vector<DataSet>> load_data_sets(const fs::path& folder) {
  std::vector<DataSet> sets;
  for (int k = 0; fs::exists(folder / fmt::format("test_data_set_{}", k)); ++k) {
    DataSet set;
    set.folder = folder / fmt::format("test_data_set_{}", k);
    CAMSHAFT_ASSIGN(set.inputs, load_tensors(set.folder, "input"));
    CAMSHAFT_ASSIGN(set.outputs, load_tensors(set.folder, "output"));
    sets.push_back(std::move(set));
  }
  return sets;
}

std::string compare(const StoredTensor& expected, const Value& actual, const Tolerance& tolerance,
                    bool values) {
  if (expected.type != actual.type)
    return fmt::format("type {} instead of {}", ir::type_name(actual.type),
                       ir::type_name(expected.type));
  if (!(expected.extents == actual.extents))
    return fmt::format("extents {} instead of {}", text_of(actual.extents),
                       text_of(expected.extents));
  if (!values) return "";
  const Result<Value> reference = to_value(expected);
  if (!reference.ok()) return reference.status().message();
  const std::vector<double> want = reference.value().to_doubles(), have = actual.to_doubles();
  double bound = tolerance.absolute;
  if (tolerance.absolute_of_maximum) {
    double maximum = 0;
    for (double value : want)
      if (std::isfinite(value)) maximum = std::max(maximum, std::abs(value));
    bound *= maximum;
  }
  size_t wrong = 0, first = 0;
  for (size_t k = 0; k < want.size(); ++k) {
    const bool same = want[k] == have[k] || (std::isnan(want[k]) && std::isnan(have[k]));
    if (same || std::abs(want[k] - have[k]) <= bound + tolerance.relative * std::abs(want[k]))
      continue;
    if (wrong++ == 0) first = k;
  }
  if (static_cast<double>(wrong) <= tolerance.wrong_share * static_cast<double>(want.size()))
    return "";
  return fmt::format("{} of {} elements differ, the first at {}: {} instead of {}", wrong,
                     want.size(), first, have[first], want[first]);
}

double cosine(const StoredTensor& expected, const Value& actual) {
  const Result<Value> reference = to_value(expected);
  if (!reference.ok()) return 0;
  const std::vector<double> a = reference.value().to_doubles(), b = actual.to_doubles();
  if (a.size() != b.size()) return 0;
  double ab = 0, aa = 0, bb = 0;
  for (size_t k = 0; k < a.size(); ++k) {
    ab += a[k] * b[k];
    aa += a[k] * a[k];
    bb += b[k] * b[k];
  }
  return aa == 0 && bb == 0 ? 1 : ab / std::sqrt(aa * bb);
}

Result<std::unique_ptr<ir::Graph>> import_model(const fs::path& model) {
  onnx_import::ImportOptions options;
  options.has_generic_kernel = kernels::has_generic_kernel;
  CAMSHAFT_ASSIGN(onnx_import::ImportedModel imported, onnx_import::import_file(model, options));
  return std::move(imported.graph);
}

Result<std::vector<Value>> run_model(const fs::path& model, const DataSet& data, Mode mode,
                                     int optimization_level) {
  CAMSHAFT_ASSIGN(std::unique_ptr<ir::Graph> graph, import_model(model));
  CAMSHAFT_ASSIGN(const std::vector<Value> inputs, bind_inputs(*graph, data));
  if (mode == Mode::kInterpreter) {
    static ThreadPool pool(default_num_threads());
    kernels::EvaluateOptions options;
    options.pool = &pool;
    return kernels::evaluate(*graph, inputs, options);
  }
  return run_engine(std::move(graph), inputs, optimization_level);
}

fs::path shared_folder(const std::string& name) {
  std::vector<fs::path> roots;
  if (const char* shared = std::getenv("CAMSHAFT_SHARED")) roots.emplace_back(shared);
  roots.emplace_back(fs::path(CAMSHAFT_SOURCE_DIR).parent_path() / "shared");
  for (const fs::path& root : roots)
    if (fs::exists(root / name)) return root / name;
  return {};
}

}  // namespace camshaft::testing
