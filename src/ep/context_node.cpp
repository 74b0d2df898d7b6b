// SPDX-License-Identifier: Apache-2.0
#include "ep/context_node.h"

#include <cstring>
#include <limits>

#include "base/cpu.h"
#include "camshaft/version.h"
#include "ep/capability.h"

namespace camshaft::ep {
namespace {

// Attributes of a node in the making; the node gets copies.
class Attributes {
 public:
  explicit Attributes(const Host& host) : host_(host) {}
  ~Attributes() {
    for (abi::OpAttr* attribute : made_) host_.api(abi::api::kReleaseAttribute, attribute);
  }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;

  Status add(const char* name, int64_t number) { return add(name, &number, 1, abi::kAttributeInt); }
  Status add(const char* name, std::string_view text) {
    return add(name, text.data(), text.size(), abi::kAttributeString);
  }
  std::vector<abi::OpAttr*>& made() { return made_; }

 private:
  Status add(const char* name, const void* data, size_t size, abi::AttributeKind kind) {
    if (size > static_cast<size_t>(std::numeric_limits<int>::max()))
      return make_error(ErrorCode::kUnsupported,
                        "an engine of {} bytes does not fit the model: use embed mode 0", size);
    abi::OpAttr* attribute = nullptr;
    CAMSHAFT_TRY(host_.call(abi::api::kCreateAttribute, name, data, static_cast<int>(size), kind,
                            &attribute));
    made_.push_back(attribute);
    return ok_status();
  }

  const Host& host_;
  std::vector<abi::OpAttr*> made_;
};

// Where the context model will be, which only ONNX Runtime writes.
Result<std::filesystem::path> context_path(const Options& options,
                                           const std::filesystem::path& model_path) {
  if (!options.context_file.empty()) return std::filesystem::path(options.context_file);
  if (model_path.empty())
    return make_error(ErrorCode::kInvalidArgument,
                      "an engine beside a model that has no file: set ep.context_file_path or "
                      "ep.context_embed_mode=1");
  return model_path.parent_path() / (model_path.stem().string() + "_ctx.onnx");
}

const onnx_import::AttributeDef* find(const onnx_import::NodeDef& node, std::string_view name) {
  for (const onnx_import::AttributeDef& attribute : node.attributes)
    if (attribute.name == name) return &attribute;
  return nullptr;
}

std::vector<const char*> pointers(const std::vector<std::string>& texts) {
  std::vector<const char*> result;
  result.reserve(texts.size());
  for (const std::string& text : texts) result.push_back(text.c_str());
  return result;
}

constexpr std::string_view kVersionWord = "camshaft ", kIsaWord = "; isa ", kCpuWord = "; cpu ";

}  // namespace

Result<abi::Node*> make_context_node(const Host& host, const Options& options,
                                     const ContextData& data,
                                     const std::filesystem::path& model_path,
                                     const NodeNames& names, const Engine& engine, int number) {
  const std::span<const std::byte> bytes = engine.serialize();
  std::string content(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!options.context_embed) {
    Result<std::filesystem::path> place = context_path(options, model_path);
    if (!place.ok() && data.writer == nullptr) return place.status();
    // The application's names need no folder.
    std::filesystem::path file = place.ok() ? *place : std::filesystem::path("model");
    file.replace_filename(fmt::format("{}_{}_{}.engine", file.stem().string(), kEpName, number));
    content = file.filename().string();
    CAMSHAFT_TRY(data.writer != nullptr ? data.write(host, content, engine) : engine.save(file));
  }
  Attributes attributes(host);
  CAMSHAFT_TRY(attributes.add("main_context", 1));
  CAMSHAFT_TRY(attributes.add("embed_mode", options.context_embed ? 1 : 0));
  CAMSHAFT_TRY(attributes.add("ep_cache_context", content));
  CAMSHAFT_TRY(attributes.add("source", kEpName));
  CAMSHAFT_TRY(attributes.add("ep_sdk_version", CAMSHAFT_VERSION));
  CAMSHAFT_TRY(attributes.add("partition_name", names.node));
  CAMSHAFT_TRY(attributes.add("hardware_architecture", cpu_fingerprint()));
  const std::vector<const char*> inputs = pointers(names.inputs), outputs = pointers(names.outputs);
  const std::string name = options.context_prefix + names.node;
  abi::Node* node = nullptr;
  CAMSHAFT_TRY(
      host.take(host.editor(abi::editor::kCreateNode, "EPContext", "com.microsoft", name.c_str(),
                            inputs.data(), inputs.size(), outputs.data(), outputs.size(),
                            attributes.made().data(), attributes.made().size(), &node)));
  return node;
}

Result<Engine> read_context_node(const Host& host, const onnx_import::NodeDef& node,
                                 const ContextData& data, const std::filesystem::path& directory) {
  const onnx_import::AttributeDef* content = find(node, "ep_cache_context");
  if (content == nullptr)
    return make_error(ErrorCode::kInvalidModel, "EPContext node {} holds no engine", node.name);
  const onnx_import::AttributeDef* mode = find(node, "embed_mode");
  Result<Engine> engine = [&]() -> Result<Engine> {
    if (mode == nullptr || mode->i == 1)  // 1 is the operator's default
      return Engine::from_memory(std::as_bytes(std::span(content->text)));
    if (data.reader != nullptr) return data.read(host, std::string(content->text));
    const std::filesystem::path file(content->text);
    if (file.is_absolute() || *file.lexically_normal().begin() == "..")
      return make_error(ErrorCode::kInvalidModel, "{} does not lie beside the model",
                        file.string());
    return Engine::load(directory / file);
  }();
  if (!engine.ok()) return engine.status().with_context("EPContext node " + node.name);
  return engine;
}

std::string compatibility_text(bool portable) {
  return fmt::format("{}{}{}{}{}{}", kVersionWord, CAMSHAFT_VERSION, kIsaWord,
                     portable ? "any" : isa_name(active_isa()), kCpuWord, cpu_fingerprint());
}

abi::Compatibility judge_compatibility(const std::string& text) {
  const size_t isa = text.find(kIsaWord), cpu = text.find(kCpuWord);
  if (!text.starts_with(kVersionWord)) return abi::kNotApplicable;
  if (isa == std::string::npos || cpu == std::string::npos || cpu < isa) return abi::kUnsupported;
  const std::string version = text.substr(kVersionWord.size(), isa - kVersionWord.size());
  const std::string isa_word = text.substr(isa + kIsaWord.size(), cpu - isa - kIsaWord.size());
  if (version != CAMSHAFT_VERSION) return abi::kUnsupported;
  if (text.substr(cpu + kCpuWord.size()) == cpu_fingerprint()) return abi::kOptimal;
  if (isa_word == "any") return abi::kPreferRecompilation;
  const Result<Isa> needed = parse_isa(isa_word);
  return needed.ok() && *needed <= active_isa() ? abi::kPreferRecompilation : abi::kUnsupported;
}

}  // namespace camshaft::ep
