// SPDX-License-Identifier: Apache-2.0
// Developer tool: what the passes make of models.
// optimizer_report [--text] [--log] [--before] [--check] model.onnx …
// --check compares the interpreter's results before and after, on test_data_set_0 beside the model
// or on random inputs (unknown extents are 1), and every layer whose operands the original graph
// computes too with what it made of them: quantized results in steps.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/log.h"
#include "kernels/interpreter.h"
#include "layer_steps.h"
#include "onnx/importer.h"
#include "passes/pipeline.h"

namespace {

using namespace camshaft;

struct PrintLogger : Logger {
  void log(Severity, std::string_view text) override { fmt::print("{}\n", text); }
};

std::string kinds_of(const ir::Graph& graph) {
  std::map<std::string, int> counts;
  for (const auto& layer : graph.layers()) {
    std::string kind(ir::kind_name(layer->kind));
    if (const auto* generic = std::get_if<ir::GenericAttrs>(&layer->attrs))
      kind += ":" + generic->op_type;
    ++counts[kind];
  }
  std::string text;
  for (const auto& [kind, count] : counts) text += fmt::format(" {} {}", kind, count);
  return text;
}

namespace fs = std::filesystem;

Result<std::vector<kernels::Value>> stored_values(const fs::path& model, const char* prefix) {
  std::vector<kernels::Value> values;
  for (int k = 0;; ++k) {
    const fs::path file =
        model.parent_path() / "test_data_set_0" / fmt::format("{}{}.pb", prefix, k);
    if (!fs::exists(file)) return values;
    CAMSHAFT_ASSIGN(onnx_import::StoredTensor stored, onnx_import::read_tensor_file(file));
    CAMSHAFT_ASSIGN(kernels::Value value,
                    kernels::make_value(stored.type, stored.extents, std::move(stored.bytes)));
    values.push_back(std::move(value));
  }
}

kernels::Value random_value(const ir::Tensor& tensor, uint32_t seed) {
  ir::Extents extents;
  for (ir::Dim dim : tensor.shape) extents.push_back(dim.is_known() ? dim.extent() : 1);
  const int64_t count = ir::element_count(extents);
  std::vector<std::byte> bytes(ir::bytes_for(tensor.type, count));
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  if (tensor.type == ir::DataType::kFloat)
    for (int64_t k = 0; k < count; ++k) {
      const float number = normal(random);
      std::memcpy(bytes.data() + 4 * k, &number, 4);
    }
  return kernels::make_value(tensor.type, extents, std::move(bytes)).value();
}

std::string likeness(const kernels::Value& found, const kernels::Value& wanted) {
  const std::vector<double> a = found.to_doubles(), b = wanted.to_doubles();
  if (a.size() != b.size()) return "different extents";
  double dot = 0, aa = 0, bb = 0, most = 0;
  for (size_t k = 0; k < a.size(); ++k) {
    dot += a[k] * b[k], aa += a[k] * a[k], bb += b[k] * b[k];
    most = std::max(most, std::abs(a[k] - b[k]));
  }
  return fmt::format("cosine {:.6f}, max difference {:.4g}, norm {:.4g}",
                     dot / std::sqrt(std::max(aa * bb, 1e-300)), most, std::sqrt(bb));
}

struct Check {
  std::vector<kernels::Value> inputs, before, stored;
  OriginalTensors original;
};

void check_layer(const ir::Layer& layer, const OriginalTensors& original,
                 std::map<int, int>& layers_by_steps) {
  const std::optional<LayerSteps> steps = layer_steps(layer, original);
  if (!steps) return;
  ++layers_by_steps[static_cast<int>(steps->most)];
  if (steps->differing > 0)
    fmt::print("  {}: {} of {} codes differ, by {} at most\n", layer.name, steps->differing,
               steps->elements, steps->most);
}

Status prepare(const std::string& file, const ir::Graph& graph, Check& check) {
  CAMSHAFT_ASSIGN(check.inputs, stored_values(file, "input_"));
  CAMSHAFT_ASSIGN(check.stored, stored_values(file, "output_"));
  if (check.inputs.size() != graph.inputs().size()) {
    check.inputs.clear();
    for (const ir::Tensor* input : graph.inputs())
      check.inputs.push_back(random_value(*input, static_cast<uint32_t>(check.inputs.size())));
  }
  CAMSHAFT_ASSIGN(check.before, evaluate_all(graph, check.inputs, check.original));
  return ok_status();
}

Status compare(const ir::Graph& graph, const Check& check) {
  CAMSHAFT_ASSIGN(const std::vector<kernels::Value> after, kernels::evaluate(graph, check.inputs));
  std::map<int, int> layers_by_steps;
  for (const auto& layer : graph.layers()) check_layer(*layer, check.original, layers_by_steps);
  for (const auto& [steps, layers] : layers_by_steps)
    fmt::print("  {} layers of codes differ by {} steps at most\n", layers, steps);
  for (size_t k = 0; k < after.size(); ++k) {
    fmt::print("  output {}: after against before: {}\n", k, likeness(after[k], check.before[k]));
    if (k >= check.stored.size()) continue;
    fmt::print("    before against reference: {}\n", likeness(check.before[k], check.stored[k]));
    fmt::print("    after against reference: {}\n", likeness(after[k], check.stored[k]));
  }
  return ok_status();
}

int report(const std::string& file, bool text, bool before, bool check) {
  Result<onnx_import::ImportedModel> model = onnx_import::import_file(file);
  if (!model.ok()) {
    fmt::print("{}: {}\n", file, model.status().message());
    return 1;
  }
  ir::Graph& graph = *model.value().graph;
  if (before) fmt::print("{}", ir::to_text(graph, true));
  const size_t imported = graph.layers().size();
  passes::PassRecord record;
  Check numbers;
  Status status = check ? prepare(file, graph, numbers) : ok_status();
  if (status.ok()) status = passes::optimize(graph, record);
  if (status.ok()) status = ir::verify(graph);
  fmt::print("{}: {} nodes, {} layers -> {}:{}\n", file, model.value().info.node_count, imported,
             graph.layers().size(), kinds_of(graph));
  if (text) fmt::print("{}", ir::to_text(graph, true));
  if (check && status.ok()) status = compare(graph, numbers);
  if (!status.ok()) fmt::print("{}: {}\n", file, status.message());
  return !status.ok();
}

}  // namespace

int main(int argc, char** argv) {
  bool text = false, before = false, check = false;
  int failures = 0;
  PrintLogger logger;
  for (int k = 1; k < argc; ++k) {
    const std::string word = argv[k];
    if (word == "--text")
      text = true;
    else if (word == "--before")
      before = true;
    else if (word == "--check")
      check = true;
    else if (word == "--log")
      set_logger(&logger, Severity::kVerbose);
    else
      failures += report(word, text, before, check);
  }
  return failures != 0;
}
