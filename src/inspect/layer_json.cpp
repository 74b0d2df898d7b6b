// SPDX-License-Identifier: Apache-2.0
#include "inspect/layer_json.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "inspect/layers.h"
#include "inspect/parameters.h"

namespace camshaft::inspect {
namespace {

using Json = nlohmann::ordered_json;

// TensorRT separates the source nodes of a layer by a record separator; the one-line text form
// leaves it out.
constexpr char kRecordSeparator = '\x1e';

const char* bare_type_name(DataType type) {
  static constexpr const char* kNames[] = {
      "Undefined", "Float", "Half",   "BFloat16", "Double", "Int8", "UInt8", "Int16",
      "UInt16",    "Int32", "UInt32", "Int64",    "UInt64", "Bool", "Int4",  "UInt4"};
  return kNames[static_cast<int>(type)];
}

// A layer type as TensorRT's kernels call it, where readers of its files tell them by that.
std::string type_in(const std::string& type, Wording wording) {
  static constexpr std::pair<const char*, const char*> kTypes[] = {
      {"Convolution", "CaskConvolution"},
      {"Deconvolution", "CaskDeconvolutionV2"},
      {"Pooling", "CaskPooling"},
      {"PointWise", "PointWiseV2"},
      {"SoftMax", "CudaSoftMax"}};
  if (wording == Wording::kCamshaft) return type;
  const auto* const row = std::find_if(std::begin(kTypes), std::end(kTypes),
                                       [&](const auto& entry) { return entry.first == type; });
  return row == std::end(kTypes) ? type : row->second;
}

Json tensors_json(const std::vector<LayerTensor>& tensors, Wording wording) {
  Json list = Json::array();
  for (const LayerTensor& tensor : tensors) {
    Json object = {{"Name", tensor.name},
                   {"Location", wording == Wording::kCamshaft ? "Host" : "Device"},
                   {"Dimensions", tensor.dims},
                   {"Format/Datatype", tensor.format}};
    if (tensor.scale.size() == 1) object["Scale"] = tensor.scale[0];
    if (tensor.scale.size() > 1) object["Scale"] = tensor.scale;
    if (tensor.zero_point.size() == 1) object["ZeroPoint"] = tensor.zero_point[0];
    if (tensor.zero_point.size() > 1) object["ZeroPoint"] = tensor.zero_point;
    list.push_back(std::move(object));
  }
  return list;
}

std::string metadata(const LayerInfo& layer) {
  std::string text;
  for (const std::string& node : layer.source_nodes) {
    if (!text.empty()) text += kRecordSeparator;
    text += fmt::format("[ONNX Layer: {}]", node);
  }
  return text;
}

double rounded(double value) {
  return std::round(value * 1000) / 1000;
}

// As in TensorRT's kernel names, where a product of codes that stores codes is another kernel than
// one that stores floats.
const char* arithmetic_suffix(const LayerInfo& layer) {
  if (layer.macs == 0 || layer.inputs.empty() || layer.outputs.empty()) return "";
  const DataType x = layer.inputs[0].type;
  if (x != DataType::kUInt8 && x != DataType::kInt8) return "";
  switch (layer.outputs[0].type) {
    case DataType::kUInt8:
    case DataType::kInt8:
      return "_i8i8";
    case DataType::kFloat:
      return "_i8f32";
    default:
      return "";
  }
}

// Those that run: sparse tactics of bytes skip half, those of floats all zeros; dense ones multiply
// them.
int64_t real_macs(const LayerInfo& layer) {
  const LayerSparsity& zeros = layer.sparsity;
  if (!zeros.picked) return static_cast<int64_t>(layer.macs);
  const bool skips_all = layer.tactic.ends_with("_f32");
  return static_cast<int64_t>(
      layer.macs *
      (skips_all ? static_cast<double>(zeros.nonzeros) / static_cast<double>(zeros.weights) : 0.5));
}

void add_sparsity(Json& object, const LayerInfo& layer) {
  const LayerSparsity& zeros = layer.sparsity;
  if (zeros.weights == 0) return;
  Json& sparsity = object["Sparsity"];
  sparsity["Pattern"] = zeros.pattern.empty() ? "none" : zeros.pattern;
  sparsity["KeptShare"] =
      rounded(static_cast<double>(zeros.nonzeros) / static_cast<double>(zeros.weights));
  if (zeros.full_groups > 0) {
    sparsity["Groups"] = zeros.groups;
    sparsity["FullGroups"] = zeros.full_groups;
  }
  sparsity["SparseTactic"] = zeros.picked ? 1 : 0;
  if (layer.macs > 0) {
    sparsity["EffectiveMACs"] = static_cast<int64_t>(layer.macs);
    sparsity["RealMACs"] = real_macs(layer);
  }
  if (zeros.dense_time_us > 0) sparsity["DenseTimeUs"] = rounded(zeros.dense_time_us);
  if (zeros.sparse_time_us > 0) sparsity["SparseTimeUs"] = rounded(zeros.sparse_time_us);
  if (!zeros.reason.empty()) sparsity["Reason"] = zeros.reason;
}

void add_extra_keys(Json& object, const engine::Engine& engine, const LayerInfo& layer) {
  if (layer.precision != DataType::kUndefined)
    object["Precision"] = bare_type_name(layer.precision);
  if (!layer.isa.empty()) object["Isa"] = layer.isa;
  if (!layer.arithmetic.empty()) object["Arithmetic"] = layer.arithmetic;
  if (layer.macs >= 0) object["FLOPs"] = static_cast<int64_t>(2 * layer.macs);
  if (layer.io_bytes >= 0) object["Bytes"] = static_cast<int64_t>(layer.io_bytes);
  object["WeightBytes"] = static_cast<int64_t>(layer.weight_bytes);
  if (layer.build_time_us > 0) {
    object["TimeUs"] = rounded(layer.build_time_us);
    const double peak =
        layer.macs > 0 ? thread_peak_gmacs(engine) * layer.peak_factor * engine.record().threads
                       : 0;
    if (peak > 0) {
      object["PercentOfPeak"] = rounded(layer.macs / layer.build_time_us / 1e3 / peak * 100);
      if (!layer.counted_arithmetic.empty())
        object["PercentOfPeakCounts"] = layer.counted_arithmetic;
    }
  }
  add_sparsity(object, layer);
  if (layer.images_per_pass > 0) object["ImagesPerPass"] = layer.images_per_pass;
  object["SourceNodes"] = layer.source_nodes;
  if (layer.region < 0) return;
  object["Region"] = engine.plan().regions[static_cast<size_t>(layer.region)].name;
  object["RegionLayer"] = {{"Name", layer.region_name}, {"LayerType", layer.region_type}};
}

// The layers inside an If, Loop or Scan, by name, kind and tactic.
Json bodies_json(const engine::PlanStep& step) {
  Json bodies = Json::array();
  for (const auto& body : step.bodies) {
    Json list = Json::array();
    for (const engine::PlanStep& inner : body->steps) {
      Json object = {{"Name", inner.layer.name}, {"LayerType", layer_type(*body, inner)}};
      if (!inner.tactic.empty()) object["TacticName"] = inner.tactic;
      if (inner.tactic.empty() && is_late(*body, inner)) object["TacticWhenRun"] = true;
      if (!inner.bodies.empty()) object["Bodies"] = bodies_json(inner);
      list.push_back(std::move(object));
    }
    bodies.push_back({{"Name", body->name}, {"Layers", list}});
  }
  return bodies;
}

std::string scalar(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool is_flat(const Json& value) {
  return std::none_of(value.begin(), value.end(),
                      [](const Json& item) { return item.is_structured(); });
}

bool is_flat_numbers(const Json& value) {
  return std::all_of(value.begin(), value.end(), [](const Json& item) { return item.is_number(); });
}

std::string one_line(const Json& value) {
  std::string out;
  for (auto item = value.begin(); item != value.end(); ++item) {
    if (!out.empty()) out += value.is_array() && item->is_number() ? "," : ", ";
    if (value.is_object()) out += Json(item.key()).dump() + ": ";
    out += scalar(*item);
  }
  return value.is_object() ? "{" + out + "}" : "[" + out + "]";
}

std::string pretty(const Json& value, const std::string& indent) {
  if (!value.is_structured()) return scalar(value);
  if (is_flat(value) &&
      (value.is_array() ? is_flat_numbers(value) || value.size() < 2 : value.size() <= 2)) {
    return one_line(value);
  }
  const std::string inner = indent + "  ";
  std::string out = value.is_object() ? "{" : "[";
  bool first = true;
  for (auto item = value.begin(); item != value.end(); ++item) {
    const std::string& at = value.is_array() && item->is_object() ? indent : inner;
    out += fmt::format("{}\n{}", first ? "" : ",", at);
    if (value.is_object()) out += scalar(Json(item.key())) + ": ";
    out += pretty(*item, at);
    first = false;
  }
  return value.is_object() ? out + "\n" + indent + "}" : out + "]";
}

std::string list_text(const Json& items) {
  std::string out;
  for (size_t k = 0; k < items.size(); ++k)
    out += (k > 0 ? "," : "") +
           (items[k].is_object() ? pretty(items[k], "") : scalar(items[k]) + "\n");
  return out;
}

// {"Layers": [a,b],\n"Bindings": ["x"\n,"y"\n]}: objects follow each other as "},{", names stand
// one per line.
std::string document(const Json& layers, const Json& bindings, const Json& regions) {
  std::string out = "{\"Layers\": [" + list_text(layers);
  out += "],\n\"Bindings\": [";
  for (size_t k = 0; k < bindings.size(); ++k)
    out += (k > 0 ? "," : "") + scalar(bindings[k]) + "\n";
  if (!regions.empty()) out += "],\n\"Regions\": [" + list_text(regions);
  return out + "]}\n";
}

// The one-line text form of a JSON value: no quotes, "{ Name: a, … }". TensorRT leaves short
// objects, as {"Type": "Int8", "Count": 864}, in their JSON form.
std::string plain(const Json& value, Wording wording) {
  if (value.is_string()) {
    std::string text = value.get<std::string>();
    std::erase(text, kRecordSeparator);
    return text;
  }
  if (!value.is_structured()) return scalar(value);
  if (wording != Wording::kCamshaft && value.is_object() && is_flat(value) && value.size() <= 2)
    return one_line(value);
  std::string out;
  const bool numbers = value.is_array() && is_flat_numbers(value);
  for (auto item = value.begin(); item != value.end(); ++item) {
    if (!out.empty()) out += numbers ? "," : ", ";
    if (value.is_object()) out += item.key() + ": ";
    out += plain(*item, wording);
  }
  if (value.is_object()) return "{ " + out + " }";
  return (numbers ? "[" : "[ ") + out + "]";
}

std::vector<std::string> binding_names(const engine::Plan& plan) {
  std::vector<std::string> names;
  for (const std::vector<int>* side : {&plan.inputs, &plan.outputs}) {
    for (int index : *side) names.push_back(plan.tensors[static_cast<size_t>(index)].name);
  }
  return names;
}

std::string tensor_list(const std::vector<LayerTensor>& tensors, Wording wording) {
  std::string out;
  for (const LayerTensor& tensor : tensors) {
    if (!out.empty()) out += ", ";
    const std::string dims = fmt::format("{}", fmt::join(tensor.dims, ","));
    out += wording == Wording::kTrtexec8
               ? fmt::format("{}[{}({})]", tensor.name, bare_type_name(tensor.type), dims)
               : fmt::format("{} ({}[{}])", tensor.name, bare_type_name(tensor.type), dims);
  }
  return out;
}

Json borders_json(const std::vector<RegionInfo::Border>& borders) {
  Json list = Json::array();
  for (const RegionInfo::Border& border : borders) {
    Json object = {{"Tensor", border.tensor.name}};
    if (border.layer >= 0) object["Layer"] = border.layer_name;
    object["Reason"] = border.reason;
    list.push_back(std::move(object));
  }
  return list;
}

Json region_object(const RegionInfo& region) {
  Json object = {{"Name", region.name}, {"Layers", region.layers}};
  if (region.build_time_us > 0) object["TimeUs"] = rounded(region.build_time_us);
  object["Reason"] = region.reason;
  object["Before"] = borders_json(region.before);
  object["After"] = borders_json(region.after);
  return object;
}

// Layers outside regions by name, regions by theirs where their first layer is.
std::vector<std::string> collapsed_names(const std::vector<LayerInfo>& layers,
                                         const std::vector<RegionInfo>& regions) {
  std::vector<std::string> names;
  for (const LayerInfo& layer : layers) {
    if (layer.region < 0) {
      names.push_back(layer.name);
      continue;
    }
    const RegionInfo& region = regions[static_cast<size_t>(layer.region)];
    if (region.layers.front() == layer.index) names.push_back(region.name);
  }
  return names;
}

std::vector<LayerTensor> tensors_of(const std::vector<RegionInfo::Border>& borders) {
  std::vector<LayerTensor> tensors;
  for (const RegionInfo::Border& border : borders)
    if (std::none_of(tensors.begin(), tensors.end(),
                     [&](const LayerTensor& t) { return t.name == border.tensor.name; }))
      tensors.push_back(border.tensor);
  return tensors;
}

std::string line_of(const std::string& type, const std::string& name, uint64_t tactic,
                    const std::vector<LayerTensor>& inputs, const std::vector<LayerTensor>& outputs,
                    Wording wording) {
  const std::string read = tensor_list(inputs, wording);
  return fmt::format("Layer({}): {}, Tactic: 0x{:016x}, {}{}-> {}", type, name, tactic, read,
                     read.empty() ? "" : " ", tensor_list(outputs, wording));
}

}  // namespace

Json layer_object(const engine::Engine& engine, const LayerInfo& layer, Wording wording) {
  const engine::PlanStep& step = engine.plan().steps[static_cast<size_t>(layer.index)];
  Json object;
  object["Name"] = layer.name;
  object["LayerType"] = type_in(layer.type, wording);
  object["Inputs"] = tensors_json(layer.inputs, wording);
  object["Outputs"] = tensors_json(layer.outputs, wording);
  add_parameters(object, engine.plan(), step);
  if (!layer.tactic.empty()) object["TacticName"] = layer.tactic + arithmetic_suffix(layer);
  if (layer.tactic.empty() && layer.is_late) object["TacticWhenRun"] = true;
  object["TacticValue"] = fmt::format("0x{:016x}", layer.tactic_value);
  object["StreamId"] = 0;
  object["Metadata"] = metadata(layer);
  if (layer.sparsity.weights > 0 && !object.contains("HasSparseWeights"))
    object["HasSparseWeights"] = layer.sparsity.pattern == "2:4" ? 1 : 0;
  add_extra_keys(object, engine, layer);
  if (!step.bodies.empty()) object["Bodies"] = bodies_json(step);
  return object;
}

std::string pretty_json(const Json& value) {
  return pretty(value, "");
}

std::string layer_json(const engine::Engine& engine, const LayerInfo& layer) {
  return pretty(layer_object(engine, layer), "") + "\n";
}

std::string engine_json(const engine::Engine& engine, const std::vector<LayerInfo>& layers,
                        const std::vector<RegionInfo>& regions, Verbosity verbosity,
                        Wording wording) {
  Json list = Json::array(), runs = Json::array();
  switch (verbosity) {
    case Verbosity::kLayerNamesOnly:
      list = collapsed_names(layers, regions);
      break;
    case Verbosity::kNone:
      for (const LayerInfo& layer : layers) list.push_back(std::to_string(layer.index));
      break;
    case Verbosity::kDetailed:
      for (const LayerInfo& layer : layers) list.push_back(layer_object(engine, layer, wording));
      if (wording == Wording::kCamshaft)
        for (const RegionInfo& region : regions) runs.push_back(region_object(region));
      break;
  }
  return document(list, binding_names(engine.plan()), runs);
}

std::string layer_text(const engine::Engine& engine, const LayerInfo& layer, Wording wording) {
  const Json object = layer_object(engine, layer, wording);
  std::string out;
  for (auto item = object.begin(); item != object.end(); ++item) {
    if (item.key() == "SourceNodes") continue;  // Metadata says it
    if (!out.empty()) out += ", ";
    out += item.key() + ": " + plain(*item, wording);
  }
  return out;
}

std::string engine_text(const engine::Engine& engine, const std::vector<LayerInfo>& layers,
                        const std::vector<RegionInfo>& regions, Verbosity verbosity,
                        Wording wording) {
  std::string out = "Layers:\n";
  if (verbosity == Verbosity::kLayerNamesOnly)
    for (const std::string& name : collapsed_names(layers, regions)) out += name + "\n";
  if (verbosity == Verbosity::kNone)
    for (const LayerInfo& layer : layers) out += std::to_string(layer.index) + "\n";
  if (verbosity == Verbosity::kDetailed)
    for (const LayerInfo& layer : layers) out += layer_text(engine, layer, wording) + "\n";
  out += "\nBindings:\n";
  for (const std::string& name : binding_names(engine.plan())) out += name + "\n";
  return out;
}

std::string layer_line(const LayerInfo& layer, Wording wording) {
  return line_of(type_in(layer.type, wording), layer.name, layer.tactic_value, layer.inputs,
                 layer.outputs, wording);
}

std::string region_line(const RegionInfo& region, Wording wording) {
  return line_of("Myelin", region.name, 0, tensors_of(region.before), tensors_of(region.after),
                 wording);
}

}  // namespace camshaft::inspect
