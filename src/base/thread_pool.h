// SPDX-License-Identifier: Apache-2.0
// A fork-join pool: the calling thread is worker 0. Workers spin for a stated time between jobs,
// then sleep. A job never waits for a worker that has not begun: who has finished takes over.
// Workers that share an L3 cache are a group: they are woken by a line of memory of their own, and
// count what they have done on another.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>

namespace camshaft {

struct PoolLayout;  // base/topology.h

class ThreadPool {
 public:
  // `threads` ≥ 1 counts the caller. Idle workers spin `spin_us` microseconds before they sleep.
  // They stay where default_affinity() says; the calling thread is never moved.
  explicit ThreadPool(int threads, int spin_us = 50);
  // In groups and on processors of the caller's choice; a group per worker.
  ThreadPool(int spin_us, const PoolLayout& layout);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }

  // The calling thread and the first threads - 1 workers, for work that more would only slow; the
  // pool itself where it has no more. Lives as long as the pool; not to be used at the same time.
  ThreadPool& team(int threads);

  // A pool of the calling thread alone: for work that is not worth sharing. Any number of threads
  // may use it at once.
  static ThreadPool& serial();

  // Calls body(worker, first, last) on ranges that make up [0, count); returns when all are done.
  // Every worker has a contiguous share of its own, the same every time, so that data stays in its
  // cache. A worker that sleeps or lost its processor is not waited for: parts of a share nobody
  // has begun go to workers that have finished theirs, so a worker may be called more than once.
  template <class Body>
  void parallel_ranges(int64_t count, const Body& body) {
    if (threads_ == 1 || count <= 1) return on_caller(count, body);
    run({&invoke<Body>, &body, count});
  }
  // The whole range on the calling thread.
  template <class Body>
  static void on_caller(int64_t count, const Body& body) {
    if (count > 0) invoke<Body>(&body, 0, 0, count);
  }

  // Calls body(k) for every k in [0, count), workers taking the next k as they become free.
  template <class Body>
  void parallel_tasks(int64_t count, const Body& body) {
    parallel_dynamic(
        count, [](const void* context, int64_t k) { (*static_cast<const Body*>(context))(k); },
        &body);
  }

  // Returns when all workers look for work, as between two jobs that follow each other; after a
  // millisecond at the latest. For who times a job: one that begins beside sleepers is half done
  // when they are awake.
  void rouse();

  // While there is one, jobs follow each other: workers spin for a millisecond more before they
  // sleep, for what one thread does alone between two jobs is often longer than their time to spin.
  class InRun {
   public:
    explicit InRun(ThreadPool& pool) : pool_(pool) { pool_.count_run(1); }
    ~InRun() { pool_.count_run(-1); }
    InRun(const InRun&) = delete;
    InRun& operator=(const InRun&) = delete;

   private:
    ThreadPool& pool_;
  };

 private:
  void count_run(int more);
  struct Job {
    void (*call)(const void* body, int worker, int64_t first, int64_t last) = nullptr;
    const void* body = nullptr;
    int64_t count = 0;
  };
  // One copy of the body, and kernels' are long: in line it would be another one in every caller.
  template <class Body>
  [[gnu::noinline]] static void invoke(const void* body, int worker, int64_t first, int64_t last) {
    (*static_cast<const Body*>(body))(worker, first, last);
  }
  void start(int spin_us, const PoolLayout& layout);
  void run(const Job& job);
  void parallel_dynamic(int64_t count, void (*call)(const void*, int64_t), const void* context);
  void work_loop(int worker);
  void work(int worker);
  void take_chunks(int worker, int owner);
  void place_workers(const PoolLayout& layout);
  void move_workers();

  struct State;
  ThreadPool(State* state, int threads);

  std::unique_ptr<State> own_;  // null: a team's, or one thread's
  State* state_ = nullptr;
  int threads_;
};

}  // namespace camshaft
