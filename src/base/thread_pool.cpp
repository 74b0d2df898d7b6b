// SPDX-License-Identifier: Apache-2.0
#include "base/thread_pool.h"

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace camshaft {
namespace {

void cpu_relax() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

using Clock = std::chrono::steady_clock;

}  // namespace

// `ticket` counts jobs: a worker runs when it changes. `pending` counts workers still inside the
// current job.
struct ThreadPool::State {
  alignas(64) std::atomic<uint32_t> ticket{0};
  alignas(64) std::atomic<int> pending{0};
  alignas(64) std::atomic<bool> stopping{false};
  Job job;
  std::chrono::microseconds spin_time{50};
  std::vector<std::thread> workers;
};

ThreadPool::ThreadPool(int threads, int spin_us)
    : state_(std::make_unique<State>()), threads_(threads < 1 ? 1 : threads) {
  state_->spin_time = std::chrono::microseconds(spin_us);
  for (int worker = 1; worker < threads_; ++worker)
    state_->workers.emplace_back([this, worker] { work_loop(worker); });
}

ThreadPool::~ThreadPool() {
  state_->stopping.store(true, std::memory_order_relaxed);
  state_->ticket.fetch_add(1, std::memory_order_release);
  state_->ticket.notify_all();
  for (std::thread& worker : state_->workers) worker.join();
}

void ThreadPool::work_loop(int worker) {
  State& s = *state_;
  uint32_t seen = 0;
  for (;;) {
    const Clock::time_point spin_end = Clock::now() + s.spin_time;
    uint32_t now = s.ticket.load(std::memory_order_acquire);
    for (int round = 0; now == seen; ++round) {
      cpu_relax();
      if ((round & 63) == 63 && Clock::now() > spin_end)
        s.ticket.wait(seen, std::memory_order_acquire);
      now = s.ticket.load(std::memory_order_acquire);
    }
    seen = now;
    if (s.stopping.load(std::memory_order_relaxed)) return;
    const int64_t first = s.job.count * worker / threads_;
    const int64_t last = s.job.count * (worker + 1) / threads_;
    if (first < last) s.job.call(s.job.body, worker, first, last);
    s.pending.fetch_sub(1, std::memory_order_release);
  }
}

void ThreadPool::run(const Job& job) {
  State& s = *state_;
  s.job = job;
  s.pending.store(threads_ - 1, std::memory_order_relaxed);
  s.ticket.fetch_add(1, std::memory_order_release);
  s.ticket.notify_all();
  job.call(job.body, 0, 0, job.count / threads_);
  // A worker that lost its processor to another program gets it sooner when the caller does not
  // burn a time slice.
  for (int round = 1; s.pending.load(std::memory_order_acquire) != 0; ++round) {
    cpu_relax();
    if ((round & 1023) == 0) std::this_thread::yield();
  }
}

void ThreadPool::parallel_dynamic(int64_t count, void (*call)(const void*, int64_t),
                                  const void* context) {
  if (threads_ == 1 || count <= 1) {
    for (int64_t k = 0; k < count; ++k) call(context, k);
    return;
  }
  std::atomic<int64_t> next{0};
  parallel_ranges(threads_, [&](int, int64_t, int64_t) {
    for (int64_t k = next.fetch_add(1); k < count; k = next.fetch_add(1)) call(context, k);
  });
}

}  // namespace camshaft
