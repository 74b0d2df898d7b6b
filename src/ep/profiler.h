// SPDX-License-Identifier: Apache-2.0
// The layers inside a fused node, in ONNX Runtime's own profile.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ep/host.h"

namespace camshaft::ep {

// What an engine's events are called. They may be written when the engine is gone.
struct EventNames {
  struct Layer {
    std::string name, tactic;
  };
  std::string node;
  std::vector<Layer> layers;
};

struct LayerEvent {
  std::shared_ptr<const EventNames> names;
  size_t layer;
  int64_t start_ns;  // steady clock
  double microseconds;
  int32_t thread;
};

class Profiler;

// What the fused nodes of one provider tell, to whoever listens.
class ProfileBoard {
 public:
  bool is_watched() const { return watchers_.load(std::memory_order_relaxed) > 0; }
  void add(const LayerEvent& event);

 private:
  friend class Profiler;
  std::atomic<int> watchers_ = 0;
  std::mutex mutex_;
  std::vector<Profiler*> profilers_;
};

// Released by the host, maybe after the provider.
abi::EpProfiler* make_profiler(const Host& host, std::shared_ptr<ProfileBoard> board);

}  // namespace camshaft::ep
