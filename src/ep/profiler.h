// SPDX-License-Identifier: Apache-2.0
// The layers inside a fused node, in ONNX Runtime's own profile.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "ep/host.h"

namespace camshaft::ep {

struct LayerEvent {
  const std::string* node;  // live as long as the provider
  const std::string* layer;
  const std::string* tactic;
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

// Released by the host.
abi::EpProfiler* make_profiler(const Host& host, ProfileBoard& board);

}  // namespace camshaft::ep
