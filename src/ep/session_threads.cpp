// SPDX-License-Identifier: Apache-2.0
#include "ep/session_threads.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "base/cpu.h"

namespace camshaft::ep {
namespace {

using Clock = std::chrono::steady_clock;
// A thread that has work and does not come within this time is not there.
constexpr auto kPatience = std::chrono::milliseconds(50);

struct Meeting {
  int expected;
  std::atomic<int> present = 0;
  std::atomic<bool> is_over = false;
};

// Every thread of the pool waits in its first task for the others; those that come later, when
// somebody has lost patience, are threads seen before.
void attend(void* data, size_t) {
  auto& meeting = *static_cast<Meeting*>(data);
  if (meeting.is_over) return;
  int seen = ++meeting.present;
  auto last_change = Clock::now();
  while (!meeting.is_over) {
    const int present = meeting.present;
    if (present >= meeting.expected || Clock::now() - last_change > kPatience) break;
    if (present != seen) last_change = Clock::now();
    seen = present;
    std::this_thread::yield();
  }
  meeting.is_over = true;
}

}  // namespace

int SessionThreads::count(const Host& host, const abi::KernelContext* context) {
  const std::scoped_lock lock(mutex_);
  if (count_ > 0) return count_;
  const int most = std::max(1, cpu_info().usable_processors);
  Meeting meeting{most};
  if (most > 1) {
    const Status status = host.call(abi::api::kParallelFor, context, &attend,
                                    static_cast<size_t>(most), static_cast<size_t>(most), &meeting);
    if (!status.ok()) meeting.present = 1;
  }
  count_ = std::clamp(meeting.present.load(), 1, most);
  return count_;
}

}  // namespace camshaft::ep
