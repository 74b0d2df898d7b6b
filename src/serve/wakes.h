// SPDX-License-Identifier: Apache-2.0
// Threads are woken once for many things to do, when the last of them is there: woken for the
// first, a thread takes the processor, or a lock, from the one that brings the others.
#pragma once

#include <memory>
#include <utility>
#include <vector>

namespace camshaft::serve {

class Sleeper {
 public:
  virtual ~Sleeper() = default;
  virtual void wake() = 0;  // from any thread
};

class Wakes {
 public:
  Wakes() : outer_(std::exchange(current_, this)) {}
  Wakes(const Wakes&) = delete;
  Wakes& operator=(const Wakes&) = delete;
  ~Wakes() {
    current_ = outer_;
    for (const auto& sleeper : held_) sleeper->wake();
  }

  // At the end of this thread's innermost Wakes, or at once where there is none.
  static void wake(std::shared_ptr<Sleeper> sleeper) {
    if (current_ == nullptr) return sleeper->wake();
    std::vector<std::shared_ptr<Sleeper>>& held = current_->held_;
    if (held.empty() || held.back() != sleeper) held.push_back(std::move(sleeper));
  }

 private:
  static inline thread_local Wakes* current_ = nullptr;
  Wakes* outer_;
  std::vector<std::shared_ptr<Sleeper>> held_;
};

}  // namespace camshaft::serve
