// SPDX-License-Identifier: Apache-2.0
// The execution provider of one session, and the factory that makes them.
#pragma once

#include <memory>
#include <string>

#include "ep/capability.h"
#include "ep/context_data.h"
#include "ep/fused_node.h"

namespace camshaft::ep {

class Provider : public abi::Ep {
 public:
  Provider(const Host& host, const abi::Logger* logger, const Options& options,
           const ContextData& context_data);

 private:
  Status find_parts(const abi::Graph* graph, abi::GraphSupportInfo* support);
  Status compile_parts(const abi::Graph** graphs, const abi::Node** fused, size_t count,
                       abi::NodeComputeInfo** infos, abi::Node** context_nodes);
  Result<std::unique_ptr<FusedNode>> compile_part(const abi::Graph* graph, const abi::Node* fused,
                                                  abi::Node** context_node);
  bool is_left_to_outside(const ReadGraph& graph, const Capability& capability) const;
  void report(const ReadGraph& graph, const Capability& capability);

  NodeSurroundings surroundings_;
  ContextData context_data_;
  std::string compatibility_;
  std::string last_report_;  // graphs are asked about more than once
  int context_nodes_ = 0;
};

abi::Status* create_factories(const char* name, const void* api_base, const abi::Logger* logger,
                              abi::EpFactory** factories, size_t most, size_t* count);
abi::Status* release_factory(abi::EpFactory* factory);

}  // namespace camshaft::ep
