// SPDX-License-Identifier: Apache-2.0
#include "ep/provider.h"

#include <algorithm>

#include "ep/context_node.h"

namespace camshaft::ep {
namespace {

Provider* own(abi::Ep* ep) {
  return static_cast<Provider*>(ep);
}

Result<std::vector<std::string>> names_of(const Host& host,
                                          const std::vector<const abi::ValueInfo*>& values) {
  std::vector<std::string> names;
  for (const abi::ValueInfo* value : values) {
    const char* name = "";
    if (value != nullptr) CAMSHAFT_TRY(host.call(abi::api::kValueName, value, &name));
    names.emplace_back(name);
  }
  return names;
}

Result<NodeNames> read_names(const Host& host, const abi::Node* node) {
  NodeNames names;
  CAMSHAFT_ASSIGN(const char* const name, host.get<const char*>(abi::api::kNodeName, node));
  names.node = name;
  CAMSHAFT_ASSIGN(const auto inputs, host.list<const abi::ValueInfo*>(abi::api::kNodeInputCount,
                                                                      abi::api::kNodeInputs, node));
  CAMSHAFT_ASSIGN(
      const auto outputs,
      host.list<const abi::ValueInfo*>(abi::api::kNodeOutputCount, abi::api::kNodeOutputs, node));
  CAMSHAFT_ASSIGN(names.inputs, names_of(host, inputs));
  CAMSHAFT_ASSIGN(names.outputs, names_of(host, outputs));
  return names;
}

// Whether the engine must wait for the shapes of a run, beyond the life of the graph.
bool has_open_inputs(const onnx_import::Model& model, const Options& options) {
  const auto is_given = [&](const std::string& name) {
    if (options.build.profiles.empty()) return false;
    const auto& profile = options.build.profiles[0];
    return std::any_of(profile.begin(), profile.end(),
                       [&](const ShapeRange& range) { return range.input == name; });
  };
  return std::any_of(
      model.graph->inputs.begin(), model.graph->inputs.end(), [&](const auto& value) {
        const bool is_open =
            !value.has_shape || std::any_of(value.shape.begin(), value.shape.end(),
                                            [](const auto& dim) { return !dim.extent; });
        return is_open && !is_given(value.name);
      });
}

std::vector<size_t> all_nodes(const ReadGraph& graph) {
  std::vector<size_t> nodes(graph.nodes.size());
  for (size_t k = 0; k < nodes.size(); ++k) nodes[k] = k;
  return nodes;
}

}  // namespace

Provider::Provider(const Host& host, const abi::Logger* logger, const Options& options,
                   const ContextData& context_data)
    : Ep{},
      surroundings_{host, logger, options, SessionThreads(options.threads),
                    std::make_shared<ProfileBoard>()},
      context_data_(context_data) {
  compatibility_ = compatibility_text(options.build.portable);
  // The only structure that is filled beyond kNewest.
  version = host.offered >= abi::ep_api::kContextDataSince ? abi::ep_api::kContextDataSince
                                                           : host.version;
  get_name = [](const Ep*) { return kEpName; };
  get_capability = [](Ep* ep, const abi::Graph* graph, abi::GraphSupportInfo* support) {
    return guarded(own(ep)->surroundings_.host,
                   [&] { return own(ep)->find_parts(graph, support); });
  };
  compile = [](Ep* ep, const abi::Graph** graphs, const abi::Node** fused, size_t count,
               abi::NodeComputeInfo** infos, abi::Node** context_nodes) {
    return guarded(own(ep)->surroundings_.host, [&] {
      return own(ep)->compile_parts(graphs, fused, count, infos, context_nodes);
    });
  };
  release_compute_infos = [](Ep*, abi::NodeComputeInfo** infos, size_t count) {
    for (size_t k = 0; k < count; ++k) delete static_cast<FusedNode*>(infos[k]);
  };
  compatibility_info = [](Ep* ep, const abi::Graph*) { return own(ep)->compatibility_.c_str(); };
  is_concurrent_run_supported = [](Ep*, bool* answer) -> abi::Status* {
    *answer = true;
    return nullptr;
  };
  create_profiler = [](Ep* ep, abi::EpProfiler** profiler) {
    NodeSurroundings& around = own(ep)->surroundings_;
    return guarded(around.host, [&] {
      *profiler = make_profiler(around.host, around.board);
      return ok_status();
    });
  };

  // Nothing of the kind: engines run on the host's memory, at once, and keep their own layouts.
  preferred_layout = [](Ep*, int* layout) -> abi::Status* {
    *layout = 0;
    return nullptr;
  };
  should_convert_layout = [](Ep*, const char*, const char*, int, int* answer) -> abi::Status* {
    *answer = 0;
    return nullptr;
  };
  set_dynamic_options = [](Ep* ep, const char* const* keys, const char* const*, size_t count) {
    return guarded(own(ep)->surroundings_.host, [&]() -> Status {
      if (count == 0) return ok_status();
      return make_error(ErrorCode::kInvalidArgument,
                        "{} cannot be changed while a session lives: give it when it is made",
                        keys[0]);
    });
  };
  on_run_start = [](Ep*, const abi::RunOptions*) -> abi::Status* { return nullptr; };
  on_run_end = [](Ep*, const abi::RunOptions*, bool) -> abi::Status* { return nullptr; };
  create_allocator = [](Ep*, const abi::MemoryInfo*, abi::Allocator** allocator) -> abi::Status* {
    *allocator = nullptr;
    return nullptr;
  };
  create_stream = [](Ep*, const abi::MemoryDevice*, abi::SyncStreamImpl** stream) -> abi::Status* {
    *stream = nullptr;
    return nullptr;
  };
  kernel_registry = [](Ep*, const abi::KernelRegistry** registry) -> abi::Status* {
    *registry = nullptr;
    return nullptr;
  };
  sync = [](Ep*) -> abi::Status* { return nullptr; };
  is_graph_capture_enabled = [](const Ep*) { return false; };
  is_graph_captured = [](const Ep*, int) { return false; };
  replay_graph = [](Ep*, int) -> abi::Status* { return nullptr; };
  graph_capture_policy = [](const Ep*) { return 0; };
  available_resource = [](const Ep*, abi::ResourceCount* count) -> abi::Status* {
    *count = {};
    return nullptr;
  };
  on_session_initialized = [](Ep*) -> abi::Status* { return nullptr; };
  default_memory_device = [](const Ep*, const abi::MemoryDevice** device) -> abi::Status* {
    *device = nullptr;
    return nullptr;
  };
  release_captured_graph = [](Ep*, int) -> abi::Status* { return nullptr; };
  weightless_support = [](const Ep*, int* support) -> abi::Status* {
    *support = 0;
    return nullptr;
  };
  context_data_support = [](const Ep*, uint32_t* flags) -> abi::Status* {
    *flags = abi::kReadsContextData | abi::kWritesContextData;
    return nullptr;
  };
}

// Graphs inside nodes are asked about before the graphs around them. If all of one can be taken, so
// most likely can the If or Loop it belongs to, as one with what surrounds it.
// ONNX Runtime 1.23 gives the parts of two branches one name.
bool Provider::is_left_to_outside(const ReadGraph& graph, const Capability& capability) const {
  constexpr uint32_t kNamesBranches = 24;
  return graph.has_parent &&
         (capability.left.empty() || surroundings_.host.version < kNamesBranches);
}

Status Provider::find_parts(const abi::Graph* graph, abi::GraphSupportInfo* support) {
  const Host& host = surroundings_.host;
  CAMSHAFT_ASSIGN(const ReadGraph read, read_graph(host, graph));
  if (read.nodes.empty()) return ok_status();
  const Capability capability = find_capability(host, read, surroundings_.options.min_nodes);
  if (is_left_to_outside(read, capability)) return ok_status();
  report(read, capability);
  const abi::NodeFusionOptions fusion{host.version, true};
  for (const std::vector<size_t>& part : capability.parts) {
    std::vector<const abi::Node*> nodes;
    nodes.reserve(part.size());
    for (size_t k : part) nodes.push_back(read.nodes[k].handle);
    CAMSHAFT_TRY(host.take(
        host.ep_api(abi::ep_api::kAddNodesToFuse, support, nodes.data(), nodes.size(), &fusion)));
  }
  return ok_status();
}

void Provider::report(const ReadGraph& graph, const Capability& capability) {
  constexpr size_t kShown = 50;
  if (capability.left.empty()) return;
  std::string text =
      fmt::format("Camshaft takes {} of {} nodes of graph {} in {} parts and leaves:",
                  graph.nodes.size() - capability.left.size(), graph.nodes.size(), graph.name,
                  capability.parts.size());
  for (size_t k = 0; k < std::min(capability.left.size(), kShown); ++k) {
    const auto& [position, reason] = capability.left[k];
    const onnx_import::NodeDef& node = graph.nodes[position].def;
    const bool is_named = reason.starts_with("node ");
    text += is_named ? "\n  " + reason
                     : fmt::format("\n  node {} ({}): {}", node.name, node.op_type, reason);
  }
  if (capability.left.size() > kShown)
    text += fmt::format("\n  … and {} more", capability.left.size() - kShown);
  if (text == last_report_) return;
  surroundings_.host.log(surroundings_.logger, abi::kLogWarning, text);
  last_report_ = std::move(text);
}

Result<std::unique_ptr<FusedNode>> Provider::compile_part(const abi::Graph* graph,
                                                          const abi::Node* fused,
                                                          abi::Node** context_node) {
  const Host& host = surroundings_.host;
  const Options& options = surroundings_.options;
  CAMSHAFT_ASSIGN(const ReadGraph read, read_graph(host, graph));
  CAMSHAFT_ASSIGN(NodeNames names, read_names(host, fused));
  if (read.nodes.size() == 1 && is_own_context_node(read.nodes[0].def)) {
    CAMSHAFT_ASSIGN(Engine engine, read_context_node(host, read.nodes[0].def, context_data_,
                                                     read.model_path.parent_path()));
    return FusedNode::create(surroundings_, std::move(names), std::move(engine));
  }
  const std::vector<size_t> nodes = all_nodes(read);
  CAMSHAFT_ASSIGN(onnx_import::Model model, make_model(host, read, nodes));
  if (!options.context_enable && has_open_inputs(model, options)) {
    CAMSHAFT_ASSIGN(model, make_model(host, read, nodes, true));
  }
  CAMSHAFT_ASSIGN(
      std::unique_ptr<FusedNode> node,
      FusedNode::create(surroundings_, std::move(names), std::move(model), options.context_enable));
  if (options.context_enable) {
    CAMSHAFT_ASSIGN(*context_node,
                    make_context_node(host, options, context_data_, read.model_path, node->names(),
                                      *node->engine(), context_nodes_++));
  }
  return node;
}

Status Provider::compile_parts(const abi::Graph** graphs, const abi::Node** fused, size_t count,
                               abi::NodeComputeInfo** infos, abi::Node** context_nodes) {
  std::vector<std::unique_ptr<FusedNode>> nodes;  // all or none
  for (size_t k = 0; k < count; ++k) {
    abi::Node* context_node = nullptr;
    CAMSHAFT_ASSIGN(std::unique_ptr<FusedNode> node,
                    compile_part(graphs[k], fused[k], &context_node));
    if (context_nodes != nullptr) context_nodes[k] = context_node;
    nodes.push_back(std::move(node));
  }
  for (size_t k = 0; k < count; ++k) infos[k] = nodes[k].release();
  return ok_status();
}

}  // namespace camshaft::ep
