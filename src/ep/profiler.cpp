// SPDX-License-Identifier: Apache-2.0
#include "ep/profiler.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include <unistd.h>

namespace camshaft::ep {

class Profiler : public abi::EpProfiler {
 public:
  Profiler(const Host& host, std::shared_ptr<ProfileBoard> board)
      : EpProfiler{host.version,
                   [](EpProfiler* self) { delete static_cast<Profiler*>(self); },
                   [](EpProfiler* self, int64_t offset_ns) {
                     return static_cast<Profiler*>(self)->start(offset_ns);
                   },
                   [](EpProfiler*, uint64_t) -> abi::Status* { return nullptr; },
                   [](EpProfiler*, uint64_t, const abi::ProfilingEvent*) -> abi::Status* {
                     return nullptr;
                   },
                   [](EpProfiler* self, abi::ProfilingEventsContainer* events) {
                     return static_cast<Profiler*>(self)->end(events);
                   }},
        host_(host),
        board_(std::move(board)) {}

  ~Profiler() { leave(); }
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  void add(const LayerEvent& event) { events_.push_back(event); }

 private:
  // `offset_ns`: how long ONNX Runtime has been profiling; its events count from there.
  abi::Status* start(int64_t offset_ns) {
    return guarded(host_, [&] {
      const auto now = std::chrono::steady_clock::now().time_since_epoch();
      begin_ns_ = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count() - offset_ns;
      const std::scoped_lock lock(board_->mutex_);
      board_->profilers_.push_back(this);
      ++board_->watchers_;
      return ok_status();
    });
  }

  void leave() {
    const std::scoped_lock lock(board_->mutex_);
    const auto left = std::erase(board_->profilers_, this);
    board_->watchers_ -= static_cast<int>(left);
  }

  abi::Status* end(abi::ProfilingEventsContainer* container) {
    return guarded(host_, [&] {
      leave();
      for (const LayerEvent& event : events_) CAMSHAFT_TRY(give(event, container));
      events_.clear();
      return ok_status();
    });
  }

  Status give(const LayerEvent& event, abi::ProfilingEventsContainer* container) const {
    const char* keys[] = {"node", "tactic"};
    const EventNames::Layer& layer = event.names->layers[event.layer];
    const char* values[] = {event.names->node.c_str(), layer.tactic.c_str()};
    abi::ProfilingEvent* made = nullptr;
    CAMSHAFT_TRY(host_.take(
        host_.ep_api(abi::ep_api::kCreateEvent, abi::kKernelEvent, getpid(), event.thread,
                     layer.name.c_str(), (event.start_ns - begin_ns_) / 1000,
                     std::lround(event.microseconds), keys, values, size_t{2}, &made)));
    const abi::ProfilingEvent* added = made;
    Status status = host_.take(host_.ep_api(abi::ep_api::kAddEvents, container, &added, size_t{1}));
    host_.ep_api(abi::ep_api::kReleaseEvent, made);
    return status;
  }

  const Host& host_;
  std::shared_ptr<ProfileBoard> board_;
  int64_t begin_ns_ = 0;
  std::vector<LayerEvent> events_;
};

void ProfileBoard::add(const LayerEvent& event) {
  const std::scoped_lock lock(mutex_);
  for (Profiler* profiler : profilers_) profiler->add(event);
}

abi::EpProfiler* make_profiler(const Host& host, std::shared_ptr<ProfileBoard> board) {
  return new Profiler(host, std::move(board));
}

}  // namespace camshaft::ep
