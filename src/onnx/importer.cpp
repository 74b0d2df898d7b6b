// SPDX-License-Identifier: Apache-2.0
// From the bytes of a model to a Graph: inputs, nodes, outputs.
#include "onnx/importer.h"

#include <chrono>

#include "base/log.h"
#include "onnx/node.h"
#include "onnx/sequences.h"
#include "onnx/text_labels.h"

namespace camshaft::onnx_import {
namespace {

constexpr int64_t kOldestOpset = 6;

Result<Tensor*> import_input(Scope& scope, const ValueDef& value) {
  log(Severity::kVerbose, "Parsing input: {}", value.name);
  if (value.name.empty()) return invalid("an input has no name");
  if (value.kind.empty()) return invalid("input \"{}\" has no type", value.name);
  if (value.kind != "tensor")
    return unsupported("input \"{}\" is a {}: only tensors are supported", value.name, value.kind);
  Result<DataType> type = element_type(value.data_type);
  if (!type.ok()) return type.status().with_context(fmt::format("input \"{}\"", value.name));
  if (value.shape.size() > ir::kMaxRank)
    return unsupported("input \"{}\" has {} dimensions (at most {})", value.name,
                       value.shape.size(), ir::kMaxRank);
  ir::SymbolTable& symbols = scope.graph.symbols();
  Shape shape;
  int64_t count = 1;
  for (size_t d = 0; d < value.shape.size(); ++d) {
    const DimDef& dim = value.shape[d];
    if (dim.extent && *dim.extent >= 0) {
      if (*dim.extent > ir::kMaxExtent ||
          __builtin_mul_overflow(count, std::max<int64_t>(*dim.extent, 1), &count) ||
          count > (int64_t{1} << 40))
        return invalid("input \"{}\": extent {} is not believable", value.name, *dim.extent);
      shape.push_back(*dim.extent);
    } else if (dim.extent && *dim.extent < -1) {
      return invalid("input \"{}\": extent {} is negative", value.name, *dim.extent);
    } else {  // -1 is how some exporters write an unknown extent
      shape.push_back(
          symbols.input(dim.param.empty() ? fmt::format("{}.{}", value.name, d) : dim.param));
    }
  }
  Tensor* tensor = scope.graph.add_tensor(value.name, *type, shape);
  tensor->has_rank = value.has_shape;
  log(Severity::kVerbose, "Adding network input: {} with dtype: {}, dimensions: {}", value.name,
      onnx_type_name(*type), describe(tensor));
  return tensor;
}

Status import_inputs(Scope& scope, const GraphDef& def) {
  for (const ValueDef& value : def.inputs) {
    if (scope.has_initializer(value.name))
      continue;  // IR version < 4 lists the weights among the inputs
    if (scope.knows(value.name)) return invalid("there are two inputs \"{}\"", value.name);
    Result<Tensor*> tensor = import_input(scope, value);
    if (tensor.status().code() == ErrorCode::kUnsupported) {
      scope.session.unsupported.push_back({-1, tensor.status().message()});
      Tensor* stand_in = scope.graph.add_tensor(value.name, DataType::kUndefined, {});
      scope.session.unusable.insert(stand_in);
      scope.define(value.name, stand_in);
      continue;
    }
    CAMSHAFT_TRY(tensor.status());
    scope.define(value.name, *tensor);
    scope.graph.add_input(*tensor);
  }
  return ok_status();
}

Status import_outputs(Scope& scope, const GraphDef& def) {
  if (def.outputs.empty()) return invalid("the graph has no outputs");
  for (const ValueDef& value : def.outputs) {
    if (value.name.empty()) return invalid("an output has no name");
    CAMSHAFT_ASSIGN(Tensor * tensor, scope.find(value.name));
    if (tensor == nullptr) return invalid("output \"{}\" is not made by any node", value.name);
    CAMSHAFT_ASSIGN(tensor, as_output(scope, value.name, tensor));
    if (tensor->name != value.name) {
      CAMSHAFT_ASSIGN(tensor, copy_tensor(scope, value.name, tensor));
    }
    const bool usable = !scope.session.unusable.count(tensor);
    if (usable && value.data_type != 0 && value.kind == "tensor") {
      const Result<DataType> declared = element_type(value.data_type);
      if (declared.ok() && declared.value() != tensor->type)
        return invalid("output \"{}\" is declared as {}, but is {}", value.name,
                       onnx_type_name(declared.value()), onnx_type_name(tensor->type));
    }
    log(Severity::kVerbose, "Marking {} as output: {}", tensor->name, value.name);
    scope.graph.add_output(tensor);
  }
  return ok_status();
}

Status check_versions(const Model& model, Opsets& opsets) {
  for (const OpsetDef& opset : model.opsets)
    opsets[opset.domain] = std::max(opsets[opset.domain], opset.version);
  if (model.opsets.empty()) {
    if (model.ir_version >= 3) return invalid("the model does not say which operator set it uses");
    opsets[""] = 1;
  }
  const auto standard = opsets.find("");
  if (standard != opsets.end() && standard->second < kOldestOpset)
    log(Severity::kWarning,
        "The model uses opset {}; operators older than opset {} are read as if they were of that "
        "version",
        standard->second, kOldestOpset);
  return ok_status();
}

Status list_unsupported(const std::vector<UnsupportedPart>& lines) {
  constexpr size_t kShown = 100;
  std::string text =
      fmt::format("{} {} not supported:", lines.size(),
                  lines.size() == 1 ? "part of the model is" : "parts of the model are");
  for (size_t k = 0; k < std::min(lines.size(), kShown); ++k) text += "\n  " + lines[k].text;
  if (lines.size() > kShown) text += fmt::format("\n  … and {} more", lines.size() - kShown);
  return Status(ErrorCode::kUnsupported, std::move(text));
}

ModelInfo model_info(const Model& model, const Opsets& opsets) {
  ModelInfo info;
  info.ir_version = model.ir_version;
  info.opset = opsets.count("") ? opsets.at("") : 0;
  info.model_version = model.model_version;
  info.producer_name = model.producer_name;
  info.producer_version = model.producer_version;
  info.domain = model.domain;
  info.doc_string = model.doc_string;
  info.node_count = static_cast<int>(model.graph->nodes.size());
  return info;
}

void remove_unused_tensors(ir::Graph& graph) {
  graph.remove_unused_tensors();
  for (const auto& layer : graph.layers())
    for (const auto& body : layer->bodies) remove_unused_tensors(*body);
}

Result<ImportedModel> import_tensors(const Model& model, const std::filesystem::path& directory,
                                     const ImportOptions& options) {
  Opsets opsets;
  CAMSHAFT_TRY(check_versions(model, opsets));
  Session session{model, options, ExternalData(directory), {}, {}, {}, 0, 0, -1};
  for (const FunctionDef& function : model.functions)
    session.functions[{function.domain, function.name}] = &function;
  ImportedModel result;
  result.info = model_info(model, opsets);
  result.graph =
      std::make_unique<ir::Graph>(model.graph->name.empty() ? "graph" : model.graph->name);
  Scope scope(session, *result.graph, nullptr, opsets);
  for (const ValueDef& value : model.graph->outputs) scope.reserved.insert(value.name);
  CAMSHAFT_TRY(scope.declare_initializers(*model.graph));
  CAMSHAFT_TRY(import_inputs(scope, *model.graph));
  CAMSHAFT_TRY(import_nodes(scope, model.graph->nodes));
  CAMSHAFT_TRY(import_outputs(scope, *model.graph));
  if (options.unsupported != nullptr) *options.unsupported = session.unsupported;
  if (!session.unsupported.empty()) return list_unsupported(session.unsupported);
  remove_unused_tensors(*result.graph);
  return result;
}

}  // namespace

Result<ImportedModel> import_model(const Model& model, const std::filesystem::path& directory,
                                   const ImportOptions& options) {
  std::shared_ptr<const GraphDef> graph = with_sequence_functions(model);
  graph = uses_sequences(*graph) ? without_sequences(*graph) : model.graph;
  if (has_text_labels(*graph)) graph = with_label_positions(*graph);
  if (graph == model.graph) return import_tensors(model, directory, options);
  Model changed = model;
  changed.graph = graph;
  return import_tensors(changed, directory, options);
}

Result<ImportedModel> import_bytes(std::span<const std::byte> bytes,
                                   const std::filesystem::path& directory,
                                   const ImportOptions& options) {
  CAMSHAFT_ASSIGN(const Model model, parse_model(bytes, "the model"));
  return import_model(model, directory, options);
}

Result<ImportedModel> import_file(const std::filesystem::path& file, const ImportOptions& options) {
  CAMSHAFT_ASSIGN(std::shared_ptr<const MappedFile> mapped, MappedFile::open(file));
  CAMSHAFT_ASSIGN(const Model model, parse_model(mapped->bytes(), file.string()));
  mapped.reset();
  const std::filesystem::path directory =
      file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
  Result<ImportedModel> result = import_model(model, directory, options);
  if (!result.ok()) return result.status().with_context(file.string());
  return result;
}

Result<StoredTensor> read_tensor_file(const std::filesystem::path& file) {
  CAMSHAFT_ASSIGN(const std::shared_ptr<const MappedFile> mapped, MappedFile::open(file));
  CAMSHAFT_ASSIGN(const ParsedTensor parsed, parse_tensor(mapped->bytes(), file.string()));
  ExternalData external(file.has_parent_path() ? file.parent_path() : std::filesystem::path("."));
  Result<TensorData> data = read_tensor(parsed.tensor, external, parsed.owner);
  if (!data.ok()) return data.status().with_context(file.string());
  StoredTensor stored{parsed.tensor.name, data->type, data->extents, {}};
  stored.bytes.assign(data->data->view.begin(), data->data->view.end());
  return stored;
}

}  // namespace camshaft::onnx_import
