// SPDX-License-Identifier: Apache-2.0
// Trace files packed for /trace, each once: whoever asks while one is being packed waits for it.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "server/api.h"
#include "server/body.h"

namespace camshaft::server {

class TraceCache {
 public:
  using Done = std::function<void(BodyPtr)>;  // null when the file cannot be read any more

  // Calls `done` with the packed file: at once, or when the thread that packs it is through.
  void get(const Answer& answer, Done done);

 private:
  struct Entry {
    std::weak_ptr<const void> of;  // the profile it belongs to
    BodyPtr body;
    bool is_ready = false;
    std::vector<Done> waiting;
  };
  void forget_old();

  std::mutex mutex_;
  std::list<std::shared_ptr<Entry>> entries_;  // the latest first
};

}  // namespace camshaft::server
