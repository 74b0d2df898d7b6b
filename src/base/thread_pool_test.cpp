// SPDX-License-Identifier: Apache-2.0
#include "base/thread_pool.h"

#include <atomic>
#include <chrono>
#include <new>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/topology.h"

namespace camshaft {
namespace {

TEST(ThreadPool, RangesCoverEverythingOnce) {
  for (int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    for (int64_t count : {0, 1, 2, 7, 63, 1000}) {
      std::vector<std::atomic<int>> hits(count);
      for (int round = 0; round < 20; ++round)
        pool.parallel_ranges(count, [&](int worker, int64_t first, int64_t last) {
          ASSERT_LT(worker, threads);
          ASSERT_LT(first, last);
          for (int64_t k = first; k < last; ++k) hits[k]++;
        });
      for (auto& hit : hits) EXPECT_EQ(hit.load(), 20);
    }
  }
}

// Groups of one and of several workers: woken apart, their work still anybody's.
TEST(ThreadPool, GroupsShareOneJob) {
  for (const std::vector<int>& groups :
       {std::vector<int>{0, 1}, {0, 0, 1, 1, 1}, {0, 1, 2, 3}, {0, 0, 0, 1, 2, 2, 2, 2}}) {
    ThreadPool pool(/*spin_us=*/5, PoolLayout{groups, {}});
    ASSERT_EQ(pool.threads(), static_cast<int>(groups.size()));
    for (int64_t count : {1, 2, 7, 63, 1000}) {
      std::vector<std::atomic<int>> hits(count);
      for (int round = 0; round < 100; ++round)
        pool.parallel_ranges(count, [&](int, int64_t first, int64_t last) {
          for (int64_t k = first; k < last; ++k) hits[k]++;
        });
      for (auto& hit : hits) EXPECT_EQ(hit.load(), 100);
    }
  }
}

// Jobs of few workers between jobs of all: nobody else has a part in them.
TEST(ThreadPool, TeamsAreTheFirstWorkers) {
  for (const std::vector<int>& groups : {std::vector<int>(6, 0), {0, 0, 0, 1, 1, 1}}) {
    ThreadPool pool(/*spin_us=*/20, PoolLayout{groups, {}});
    EXPECT_EQ(&pool.team(6), &pool);
    EXPECT_EQ(&pool.team(1), &ThreadPool::serial());
    EXPECT_EQ(&pool.team(2), &pool.team(2));
    for (int round = 0; round < 3000; ++round) {
      const int threads = 2 + round % 5;
      const int64_t count = 1 + round % 90;
      std::atomic<int64_t> done{0};
      std::atomic<bool> strange{false};
      pool.team(threads).parallel_ranges(count, [&](int worker, int64_t first, int64_t last) {
        if (worker >= threads) strange = true;
        done += last - first;
      });
      ASSERT_EQ(done.load(), count);
      ASSERT_FALSE(strange.load());
    }
  }
}

// Whichever thread it happens on, and the pool goes on afterwards.
TEST(ThreadPool, WhatABodyThrowsReachesTheCaller) {
  ThreadPool pool(4);
  for (int round = 0; round < 200; ++round) {
    std::atomic<int64_t> done{0};
    const auto throwing = [&](int, int64_t first, int64_t last) {
      if (first <= round && round < last) throw std::bad_alloc();
      done += last - first;
    };
    EXPECT_THROW(pool.parallel_ranges(200, throwing), std::bad_alloc);
    EXPECT_LT(done.load(), 200);
    done = 0;
    pool.parallel_ranges(200, [&](int, int64_t first, int64_t last) { done += last - first; });
    EXPECT_EQ(done.load(), 200);
  }
}

// Two calls with the same worker never overlap: kernels keep scratch memory per worker.
TEST(ThreadPool, AWorkerIsOneThreadAtATime) {
  constexpr int kThreads = 8;
  ThreadPool pool(kThreads, /*spin_us=*/5);
  std::vector<std::atomic<int>> inside(kThreads);
  std::atomic<bool> overlapped{false};
  for (int round = 0; round < 2000; ++round)
    pool.parallel_ranges(1 + round % 100, [&](int worker, int64_t, int64_t) {
      if (inside[worker].fetch_add(1) != 0) overlapped = true;
      inside[worker].fetch_sub(1);
    });
  EXPECT_FALSE(overlapped.load());
}

// Workers that sleep are not waited for: others run their shares.
TEST(ThreadPool, NobodyWaitsForAWorkerThatHasNotBegun) {
  constexpr int kThreads = 16;
  ThreadPool pool(kThreads, /*spin_us=*/0);
  std::atomic<int64_t> taken_over{0};
  for (int round = 0; round < 1000; ++round)
    pool.parallel_ranges(kThreads, [&](int worker, int64_t first, int64_t last) {
      for (int64_t k = first; k < last; ++k) taken_over += k != worker;
    });
  EXPECT_GT(taken_over.load(), 0);
}

// While everybody is there, every worker gets its own share, whole.
TEST(ThreadPool, SharesAreStatic) {
  ThreadPool pool(2, /*spin_us=*/1'000'000);
  int as_planned = 0;
  for (int round = 0; round < 50; ++round) {
    std::atomic<int> whole{0};
    pool.parallel_ranges(100, [&](int worker, int64_t first, int64_t last) {
      whole += first == 50 * worker && last == 50 * (worker + 1);
      const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(1);
      while (std::chrono::steady_clock::now() < end) std::this_thread::yield();
    });
    as_planned += whole == 2;
  }
  EXPECT_GT(as_planned, 0);
}

TEST(ThreadPool, TasksRunOnceEach) {
  ThreadPool pool(3);
  std::vector<std::atomic<int>> hits(1000);
  pool.parallel_tasks(1000, [&](int64_t k) { hits[k]++; });
  for (auto& hit : hits) EXPECT_EQ(hit.load(), 1);
}

TEST(ThreadPool, SleepingWorkersWakeUp) {
  ThreadPool pool(2, /*spin_us=*/0);
  std::atomic<int> by_worker{0};
  for (int round = 0; round < 1000 && by_worker == 0; ++round)
    pool.parallel_ranges(2, [&](int worker, int64_t, int64_t) {
      by_worker += worker;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
  EXPECT_GT(by_worker.load(), 0);
}

TEST(ThreadPool, TheSerialPoolServesManyThreads) {
  std::vector<std::thread> threads;
  std::atomic<int64_t> sum{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int round = 0; round < 1000; ++round)
        ThreadPool::serial().parallel_ranges(10, [&](int worker, int64_t first, int64_t last) {
          EXPECT_EQ(worker, 0);
          sum += last - first;
        });
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sum.load(), 40'000);
}

}  // namespace
}  // namespace camshaft
