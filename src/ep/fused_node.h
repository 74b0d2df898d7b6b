// SPDX-License-Identifier: Apache-2.0
// A node that stands for an engine: builds it when the shapes are known, keeps it in the cache,
// runs it.
#pragma once

#include <memory>
#include <mutex>

#include "api/engine_cache.h"
#include "ep/options.h"
#include "ep/runner.h"
#include "ep/session_threads.h"
#include "onnx/importer.h"
#include "onnx/model.h"

namespace camshaft::ep {

// What the nodes of one session share.
struct NodeSurroundings {
  const Host& host;
  const abi::Logger* logger;
  Options options;
  SessionThreads threads;
  std::shared_ptr<ProfileBoard> board;
};

class FusedNode : public abi::NodeComputeInfo {
 public:
  // Of a model. If its inputs leave extents open that no profile bounds, the engine is built at the
  // first run, for its shapes; the model's constants must then be its own. `at_once`: in any case,
  // with open extents taken as 1.
  static Result<std::unique_ptr<FusedNode>> create(NodeSurroundings& around, NodeNames names,
                                                   onnx_import::Model model, bool at_once);
  static Result<std::unique_ptr<FusedNode>> create(NodeSurroundings& around, NodeNames names,
                                                   Engine engine);

  const NodeNames& names() const { return names_; }
  // Null: it will be built at the first run.
  const Engine* engine() const { return engine_ ? &*engine_ : nullptr; }

 private:
  FusedNode(NodeSurroundings& around, NodeNames names);
  Status run(abi::KernelContext* context);
  Status start(onnx_import::Model model, bool at_once);
  Result<std::shared_ptr<Runner>> runner_for(const abi::KernelContext* context);
  Result<std::shared_ptr<Runner>> widen(const std::shared_ptr<Runner>& failed,
                                        const abi::KernelContext* context);
  Status build_for(const abi::KernelContext* context, const OptimizationProfile& seen);
  Result<Engine> build(const OptimizationProfile& profile, int threads);
  // The shapes that options give this input; null: they are chosen here.
  const ShapeRange* asked_of(const std::string& input) const;
  std::string key(const OptimizationProfile& profile, int threads) const;
  api::EngineCache engine_cache() const;
  std::optional<Engine> cached(const std::string& key) const;
  void keep(const std::string& key, const Engine& engine) const;
  Status make_runner(const abi::KernelContext* context);

  NodeSurroundings& around_;
  NodeNames names_;
  std::mutex mutex_;                         // of what follows
  std::optional<onnx_import::Model> model_;  // only where shapes are chosen here
  std::vector<TensorInfo> model_inputs_;
  std::optional<Engine> engine_;
  std::shared_ptr<Runner> runner_;
};

}  // namespace camshaft::ep
